//! Sources from the settings file and from the command line, on a running server.

use serde_json::Value;
use snaphook_signature::{Received, Scheme, Verifier};

use crate::support::{
    databases::{Database, on_both},
    program::{Program, Running, exchange},
};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

const FILE: &str = "
[[source]]
tenant = 'acme'
name = 'hub'
scheme = 'github'
secrets = ['env:HUB_SECRET', 'file:old.txt']
body_limit = '1MiB'

[[source]]
tenant = 'acme'
name = 'own'
secrets = ['plainly']
[source.scheme]
auth = 'token'
sig = { header = 'X-Token' }
";

struct Server {
    program: Program,
    _running: Running,
    to: [String; 4],
}

impl Server {
    fn start(program: Program) -> Self {
        let key = program.run(&["keys", "create", "--role", "operator"]);
        let mut running = program.start(&["serve"]);
        let line = running.wait_for("snaphook is ready");
        let address = line.split("listen=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        let to = ["--server", &format!("http://{address}"), "--api-key", key.out.trim()];
        Self { program, _running: running, to: to.map(str::to_owned) }
    }

    /// Ends it, and starts it again with another file.
    fn again(self, file: &str) -> Self {
        let Self { program, _running: running, .. } = self;
        running.signal("TERM");
        assert_eq!(running.end().code, 0);
        program.write("snaphook.toml", file);
        Self::start(program)
    }

    /// Runs a client command that ends with this code.
    #[track_caller]
    fn run(&self, code: i32, arguments: &[&str]) -> String {
        let to: Vec<&str> = self.to.iter().map(String::as_str).collect();
        let ended = self.program.run(&[arguments, &to].concat());
        assert_eq!(ended.code, code, "{arguments:?}: {ended:?}");
        if code == 0 { ended.out } else { ended.err }
    }

    /// One JSON object a line.
    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let out = self.run(0, &[arguments, &["--json"]].concat());
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn program(database: &Database) -> Program {
    let program = Program::new()
        .with("SNAPHOOK_DATABASE", &database.url)
        .with("SNAPHOOK_MASTER_KEY", KEY)
        .with("SNAPHOOK_LISTEN", "127.0.0.1:0")
        .with("SNAPHOOK_DNS_RESOLVER", "127.0.0.1:1")
        .with("HUB_SECRET", "new");
    program.write("snaphook.toml", FILE);
    program.write("old.txt", "old\n");
    program
}

#[tokio::test]
async fn sources_of_the_settings_file_are_there_keep_their_urls_and_are_changed_there_alone() {
    on_both(async |database| {
        let server = Server::start(program(database));
        let listed = server.json(&["sources", "list", "acme"]);
        let names: Vec<_> = listed.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["own", "hub"]);
        assert!(listed.iter().all(|one| one["from_file"] == true));
        assert_eq!(listed[0]["scheme"]["auth"], "token");
        assert_eq!(listed[1]["body_limit"], "1MiB");
        let id = listed[1]["id"].as_str().unwrap();
        let secrets = server.json(&["secrets", "list", id]);
        assert_eq!(secrets.len(), 2);
        for arguments in [
            &["sources", "update", "hub", "--reject-status", "400"][..],
            &["sources", "delete", "hub", "--yes"],
            &["secrets", "add", id, "--secret", "third"],
        ] {
            let error = server.run(5, arguments);
            assert!(error.contains("stands in the settings file"), "{arguments:?}: {error}");
        }
        let second = secrets[1]["id"].as_str().unwrap();
        let shown = server.json(&["secrets", "reveal", id, second]);
        assert_eq!(shown[0]["secret"], "new");

        // The old secret is gone from the file, a limit is another, and one table is gone.
        let file = FILE.split("\n[[source]]").nth(1).unwrap();
        let file =
            format!("[[source]]{file}").replace(", 'file:old.txt'", "").replace("1MiB", "2MiB");
        let server = server.again(&file);
        let listed = server.json(&["sources", "list"]);
        assert_eq!(listed[1]["id"], id, "its URL stays");
        assert_eq!(listed[1]["body_limit"], "2MiB");
        let secrets = server.json(&["secrets", "list", id]);
        assert_eq!(secrets.len(), 1);
        assert_eq!(secrets[0]["id"], second, "what did not change is not made anew");
        assert_eq!(listed[0]["from_file"], false, "let go, and still there");
        server.run(0, &["sources", "delete", "own", "--yes"]);
        assert_eq!(server.json(&["sources", "list"]).len(), 1);
    })
    .await;
}

#[test]
fn what_is_wrong_in_a_table_is_named_with_its_line_and_no_secret_is_told() {
    let program = Program::new().with("SNAPHOOK_DATABASE", "sqlite:hooks.db");
    for (table, expected) in [
        ("name = 'a'\nscheme = 'github'", "snaphook.toml:1: source.tenant: it is missing"),
        ("tenant = 'a'\nname = 'a'", "snaphook.toml:1: source.scheme: it is missing"),
        (
            "tenant = 'a'\nname = 'a'\nscheme = 'strip'",
            "snaphook.toml:4: source.scheme: no provider",
        ),
        (
            "tenant = 'a'\nname = 'a'\nscheme = 'github'\nsecret = 'hush'",
            "snaphook.toml:5: source.secret: there is no such field",
        ),
        (
            "tenant = 'a'\nname = 'a'\nscheme = 'github'\nsecrets = 'hush'",
            "snaphook.toml:5: source.secrets: write a list",
        ),
        (
            "tenant = 'a'\nname = 'a'\nscheme = 'github'\nsecrets = ['env:NOWHERE']",
            "snaphook.toml:5: source.secrets[0]: the variable NOWHERE is not set",
        ),
        (
            "tenant = 'a'\nname = 'a'\nscheme = 'standardwebhooks'\nsecrets = ['hush!']",
            "snaphook.toml:5: source.secrets[0]: ",
        ),
        (
            "tenant = 'a'\nname = 'a'\nscheme = 'github'\n[[source]]\ntenant = 'a'\nname = 'a'\nscheme = 'github'",
            "snaphook.toml:5: source.name: tenant a has two tables",
        ),
    ] {
        program.write("snaphook.toml", &format!("[[source]]\n{table}\n"));
        let ended = program.run(&["serve"]);
        assert_eq!(ended.code, 2, "{table}: {ended:?}");
        assert!(ended.err.contains(expected), "{table}: {ended:?}");
        assert!(!ended.err.contains("hush"), "{table}: {ended:?}");
    }
}

#[tokio::test]
async fn a_source_is_made_changed_and_its_secret_rotated_from_the_command_line() {
    on_both(async |database| {
        let program = program(database);
        program.write("snaphook.toml", "");
        program.write("secret.txt", "one\n");
        program.write("own.toml", "[own]\nauth = 'token'\nsig = { header = 'X-Token' }\n");
        let server = Server::start(program);
        server.run(0, &["tenants", "create", "acme"]);

        let create = ["sources", "create", "acme", "--name", "shop", "--scheme", "github"];
        let made = server.run(0, &[&create[..], &["--secret-file", "secret.txt"]].concat());
        let url = made.lines().find_map(|line| line.strip_prefix("url\t")).unwrap();
        let id = made.lines().find_map(|line| line.strip_prefix("id\t")).unwrap();
        assert!(url.ends_with(&format!("/in/{id}")), "{made}");
        let twice = server.run(5, &create);
        assert!(twice.contains("has a source of the name shop"), "{twice}");

        let own = ["--scheme-file", "own.toml", "--public-url", "https://a.example/in"];
        let changed = server.json(&[&["sources", "update", "shop"][..], &own].concat());
        assert_eq!(changed[0]["scheme"]["auth"], "token");
        assert_eq!(server.json(&["sources", "pause", "shop"])[0]["state"], "paused");
        assert_eq!(server.json(&["sources", "resume", id])[0]["state"], "active");
        assert!(server.json(&["sources", "arm", id])[0]["armed_until"].is_string());

        let without = server.run(2, &["secrets", "rotate", id]);
        assert!(without.contains("give the secret as the provider shows it"), "{without}");
        server.run(0, &["secrets", "rotate", id, "--secret", "two", "--overlap", "1h"]);
        let secrets = server.json(&["secrets", "list", id]);
        assert_eq!(secrets.len(), 2);
        let old = secrets[1]["id"].as_str().unwrap();
        server.run(0, &["secrets", "revoke", id, old, "--yes"]);
        let left = secrets[0]["id"].as_str().unwrap();
        let last = server.run(5, &["secrets", "revoke", id, left, "--yes"]);
        assert!(last.contains("the last live one"), "{last}");

        server.run(0, &["sources", "create", "acme", "--name", "bare", "--scheme", "github"]);
        let doctor = server.program.run(&["doctor", "--json"]).out;
        assert!(doctor.contains("bare has no live secret"), "{doctor}");
        assert!(doctor.contains("bare has a URL that only this machine reaches"), "{doctor}");

        server.run(3, &["sources", "show", "nowhere"]);
        server.run(0, &["sources", "delete", "shop", "--yes"]);
        server.run(3, &["sources", "show", id]);
    })
    .await;
}

#[tokio::test]
async fn what_a_source_refused_is_looked_at_and_accepted_from_the_command_line() {
    on_both(async |database| {
        let (server, url) = shop(database);
        assert_eq!(forge(&url), 401);

        let mut listed = Vec::new();
        while listed.is_empty() {
            // It is written within a second.
            listed = server.json(&["requests", "list", "shop", "--state", "rejected"]);
        }
        assert_eq!(listed[0]["step"], "signature");
        let id = listed[0]["id"].as_str().unwrap();
        server.run(8, &["requests", "verify", id]);
        server.run(5, &["requests", "redeliver", id]);
        let accepted = server.json(&["requests", "accept", id, "--yes"]);
        assert_eq!(accepted[0]["state"], "accepted");
        let event = accepted[0]["event"].as_str().unwrap();
        assert_eq!(server.json(&["events", "show", event])[0]["type"], "shop.ping");
        assert_eq!(server.json(&["requests", "redeliver", id])[0]["redelivered"], 0, "to nobody");
        assert!(server.run(0, &["requests", "show", id]).contains("forged"));
    })
    .await;
}

#[tokio::test]
async fn what_a_person_should_look_at_is_counted_and_told_by_doctor() {
    on_both(async |database| {
        let (server, url) = shop(database);
        assert_eq!(forge(&url), 401);
        let doctor = || server.program.run(&["doctor", "--json"]).out;
        assert!(!doctor().contains("kept apart"), "{}", doctor());

        for (id, body) in [("1", "first"), ("1", "another body"), ("2", "first"), ("2", "first")] {
            assert_eq!(post(&url, id, &sign(body), body), 200, "{id} {body}");
        }

        for state in ["conflict", "replay_suspected"] {
            let listed = server.json(&["requests", "list", "shop", "--state", state]);
            assert_eq!(listed.len(), 1, "{state}");
        }
        let told = "shop: 2 genuine requests are kept apart and go nowhere";
        assert!(doctor().contains(told), "{}", doctor());
    })
    .await;
}

/// A server with the source `shop`, whose secret is `one`, and the source's URL.
fn shop(database: &Database) -> (Server, String) {
    let program = program(database);
    program.write("snaphook.toml", "");
    let server = Server::start(program);
    server.run(0, &["tenants", "create", "acme"]);
    let create = ["sources", "create", "acme", "--name", "shop", "--scheme", "github"];
    let made = server.json(&[&create[..], &["--secret", "one"]].concat());
    let url = made[0]["url"].as_str().unwrap().to_owned();
    (server, url)
}

/// What GitHub signs with the secret `one`.
fn sign(body: &str) -> String {
    let verifier = Verifier::new(Scheme::named("github").unwrap(), &["one"], None).unwrap();
    let signed = verifier.sign(&Received::new(&[], body.as_bytes()), "", 0).unwrap();
    let is_it = |name: &str| name.eq_ignore_ascii_case("x-hub-signature-256");
    signed.headers.into_iter().find(|(name, _)| is_it(name)).unwrap().1
}

/// Posts what GitHub has not signed, and gives the status of the answer.
fn forge(url: &str) -> u16 {
    post(url, "1", &format!("sha256={}", "0".repeat(64)), "forged")
}

fn post(url: &str, id: &str, signature: &str, body: &str) -> u16 {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let headers =
        [("x-github-event", "ping"), ("x-github-delivery", id), ("x-hub-signature-256", signature)];
    exchange(address, &format!("POST /{path}"), &headers, body.as_bytes()).unwrap().0
}
