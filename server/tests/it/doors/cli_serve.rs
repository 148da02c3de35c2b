//! `snaphook serve`: from its start to its end, as an orchestrator sees it.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use snaphook::world::real::monotonic;

use crate::support::{
    databases::{Database, Kind, on_both},
    program::{Program, Running, closed_port, get, rest},
};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A program on `database` whose endpoints may reach this machine.
fn program(database: &Database) -> Program {
    Program::new()
        .with("SNAPHOOK_DATABASE", &database.url)
        .with("SNAPHOOK_MASTER_KEY", KEY)
        .with("SNAPHOOK_GUARD_ALLOW", "127.0.0.0/8")
        .with("SNAPHOOK_LISTEN", "127.0.0.1:0")
        .with("SNAPHOOK_NODE", "one")
}

/// A server that is ready, and where.
fn serve(program: &Program) -> (Running, String) {
    let mut running = program.start(&["serve"]);
    let line = running.wait_for("snaphook is ready");
    let address = line.split("listen=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    (running, address)
}

/// Runs a client command that must do its work.
fn done(program: &Program, address: &str, key: &str, arguments: &[&str]) -> String {
    let url = format!("http://{address}");
    let to = ["--server", &url, "--api-key", key];
    let ended = program.run(&[arguments, &to].concat());
    assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
    ended.out
}

fn operator_key(program: &Program) -> String {
    let ended = program.run(&["keys", "create", "--role", "operator"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.out.trim().to_owned()
}

/// A receiver that answers when the test says so, with an endpoint that points to it.
struct Receiver(TcpListener);

impl Receiver {
    fn new(program: &Program, address: &str, key: &str) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        done(program, address, key, &["tenants", "create", "acme"]);
        let made = done(program, address, key, &["endpoints", "create", "acme", "--url", &url]);
        let endpoint = made.lines().next().unwrap().strip_prefix("id\t").unwrap().to_owned();
        (Self(listener), endpoint)
    }

    /// Waits until a request is on the wire, and has read the beginning of it.
    fn accept(&self) -> TcpStream {
        let (mut stream, _) = self.0.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        stream
    }
}

fn answer(mut stream: &TcpStream) {
    stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").unwrap();
}

/// The deliveries of `acme`: state and attempts of each.
fn deliveries(program: &Program, address: &str, key: &str) -> Vec<String> {
    let listed = done(program, address, key, &["deliveries", "list", "--json"]);
    let shown = |line: &str| {
        let delivery: serde_json::Value = serde_json::from_str(line).unwrap();
        format!("{} {}", delivery["state"].as_str().unwrap(), delivery["attempts"])
    };
    listed.lines().map(shown).collect()
}

#[tokio::test]
async fn a_server_starts_answers_and_ends_in_order() {
    on_both(async |database| {
        let program = program(database);
        let key = operator_key(&program);
        let (running, address) = serve(&program);
        assert_eq!(get(&address, "/healthz").0, 200);
        assert_eq!(get(&address, "/readyz").0, 200);
        done(&program, &address, &key, &["tenants", "create", "acme"]);

        if database.kind == Kind::Sqlite {
            let second = program.run(&["serve"]);
            assert_eq!(second.code, 5, "{second:?}");
            assert!(second.err.contains("is served by another snaphook"), "{second:?}");
        }

        running.signal("TERM");
        assert_eq!(running.end().code, 0);
    })
    .await;
}

#[tokio::test]
async fn what_is_on_the_wire_at_the_first_signal_is_finished_and_recorded() {
    on_both(async |database| {
        let program = program(database);
        let key = operator_key(&program);
        let (running, address) = serve(&program);
        let (receiver, _) = Receiver::new(&program, &address, &key);
        done(&program, &address, &key, &["emit", "acme", "a.b"]);
        let on_the_wire = receiver.accept();

        running.signal("TERM");
        std::thread::scope(|scope| {
            let ended = scope.spawn(|| running.end());
            while TcpStream::connect(&address).is_ok() {
                std::thread::yield_now(); // the doors close first
            }
            answer(&on_the_wire);
            assert_eq!(ended.join().unwrap().code, 0);
        });

        let (_second, address) = serve(&program);
        assert_eq!(deliveries(&program, &address, &key), ["delivered 1"]);
    })
    .await;
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once_and_the_next_start_sends_again() {
    on_both(async |database| {
        let program = program(database);
        let key = operator_key(&program);
        let (running, address) = serve(&program);
        let (receiver, _) = Receiver::new(&program, &address, &key);
        done(&program, &address, &key, &["emit", "acme", "a.b"]);
        let _never_answered = receiver.accept();

        running.signal("TERM");
        while TcpStream::connect(&address).is_ok() {
            std::thread::yield_now();
        }
        rest(Duration::from_millis(1_100));
        let second_signal = monotonic();
        running.signal("TERM");
        assert_eq!(running.end().code, 1);
        assert!(monotonic().saturating_sub(second_signal) < Duration::from_secs(5), "at once");

        // The same node takes its shards back without waiting for its lease to run out.
        let (_second, _) = serve(&program);
        answer(&receiver.accept());
    })
    .await;
}

/// Supervisors may send it to the process and to its group.
#[tokio::test]
async fn a_signal_that_is_sent_twice_is_one() {
    let database = Database::migrated(Kind::Sqlite).await;
    let program = program(&database);
    let key = operator_key(&program);
    let (mut running, address) = serve(&program);
    let (receiver, _) = Receiver::new(&program, &address, &key);
    done(&program, &address, &key, &["emit", "acme", "a.b"]);
    let on_the_wire = receiver.accept();

    running.signal("TERM");
    running.wait_for("stopping");
    running.signal("TERM");
    running.signal("INT");
    rest(Duration::from_millis(1_100));
    answer(&on_the_wire);

    assert_eq!(running.end().code, 0);
    let (_second, address) = serve(&program);
    assert_eq!(deliveries(&program, &address, &key), ["delivered 1"]);
    database.remove().await;
}

/// One that writes all before it reads, and one that asks first.
#[tokio::test]
async fn an_event_that_is_too_large_is_answered_however_it_is_sent() {
    let database = Database::migrated(Kind::Sqlite).await;
    let program = program(&database);
    let key = operator_key(&program);
    let (_running, address) = serve(&program);
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\n"
    );
    let body = vec![b' '; 20 << 20];
    let chunks = [b"1400000\r\n", body.as_slice(), b"\r\n0\r\n\r\n"].concat();
    for (form, body) in [
        ("content-length: 20971520", &body),
        ("transfer-encoding: chunked", &chunks),
        ("content-length: 20971520\r\nexpect: 100-continue", &Vec::new()),
    ] {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(format!("{head}{form}\r\n\r\n").as_bytes()).unwrap();
        stream.write_all(body).unwrap_or_else(|error| panic!("{form}: {error}"));

        let mut answer = [0; 1024];
        let read = stream.read(&mut answer).unwrap();

        let answer = String::from_utf8_lossy(&answer[..read]);
        assert!(answer.starts_with("HTTP/1.1 413 "), "{form}: {answer}");
    }
    database.remove().await;
}

#[tokio::test]
async fn the_database_is_for_its_owner_alone_unless_it_was_opened_to_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let program = Program::new().with("SNAPHOOK_LISTEN", "127.0.0.1:0");
    let mode = |name: &str| {
        let path = program.folder().join(name);
        std::fs::metadata(&path).map_or(0, |found| found.permissions().mode() & 0o777)
    };
    let (running, address) = serve(&program);
    let key = operator_key(&program);
    done(&program, &address, &key, &["tenants", "create", "acme"]);
    for name in ["snaphook.db", "snaphook.db-wal", "snaphook.db-shm", "snaphook.db.lock"] {
        assert_eq!(mode(&format!(".snaphook/{name}")), 0o600, "{name}");
    }
    assert_eq!(mode(".snaphook"), 0o700);
    running.signal("TERM");
    assert_eq!(running.end().code, 0);

    let database = program.folder().join(".snaphook/snaphook.db");
    std::fs::set_permissions(database, std::fs::Permissions::from_mode(0o660)).unwrap();
    let (_running, address) = serve(&program);
    done(&program, &address, &key, &["tenants", "create", "beta"]);
    for name in ["snaphook.db", "snaphook.db-wal"] {
        assert_eq!(mode(&format!(".snaphook/{name}")), 0o660, "{name}");
    }
}

#[test]
fn an_empty_variable_is_no_default() {
    let ended = Program::new().with("SNAPHOOK_DATABASE", "").run(&["serve"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    let told = "SNAPHOOK_DATABASE is empty; unset it for the default, or give a value";
    assert!(ended.err.contains(told), "{ended:?}");
}

#[tokio::test]
async fn metrics_and_roles_are_where_the_settings_put_them() {
    on_both(async |database| {
        let metrics = format!("127.0.0.1:{}", closed_port());
        let program = program(database)
            .with("SNAPHOOK_METRICS_LISTEN", &metrics)
            .with("SNAPHOOK_ROLES", "worker");

        let (_running, address) = serve(&program);

        let (status, text) = get(&metrics, "/metrics");
        assert!(status == 200 && text.contains("snaphook_due "), "{text}");
        assert_eq!(get(&address, "/healthz").0, 200);
        assert_eq!(get(&address, "/v1/events").0, 404, "this node has no API");
    })
    .await;
}

#[tokio::test]
async fn a_node_takes_what_providers_post_if_that_is_its_role() {
    on_both(async |database| {
        for (roles, ours, api) in [("ingress", true, 404), ("api,worker", false, 401)] {
            let (running, address) = serve(&program(database).with("SNAPHOOK_ROLES", roles));
            let (status, answer) = get(&address, "/in/src_00000000000000000000000000");
            assert_eq!((status, answer.is_empty()), (404, ours), "{roles}: {answer}");
            assert_eq!(get(&address, "/v1/events").0, api, "{roles}");
            assert_eq!(get(&address, "/readyz").0, 200, "{roles}");
            running.signal("TERM");
            assert_eq!(running.end().code, 0);
        }
    })
    .await;
}

#[tokio::test]
async fn secrets_survive_a_change_of_the_master_key() {
    on_both(async |database| {
        let old = program(database);
        let key = operator_key(&old);
        let (running, address) = serve(&old);
        let (receiver, endpoint) = Receiver::new(&old, &address, &key);
        running.signal("TERM");
        assert_eq!(running.end().code, 0);

        let new = old
            .with("SNAPHOOK_MASTER_KEY", &KEY.replace("00", "ff"))
            .with("SNAPHOOK_MASTER_KEYS_OLD", KEY);
        let resealed = new.run(&["secrets", "reseal"]);
        assert_eq!(resealed.code, 0, "{resealed:?}");
        assert!(resealed.err.contains("1 of them anew"), "{resealed:?}");

        let without_old = new.with("SNAPHOOK_MASTER_KEYS_OLD", "");
        let (_running, address) = serve(&without_old);
        let secrets = done(&without_old, &address, &key, &["secrets", "list", &endpoint]);
        assert!(secrets.starts_with("sec_"), "{secrets}");
        done(&without_old, &address, &key, &["emit", "acme", "a.b"]);
        answer(&receiver.accept());
    })
    .await;
}

#[test]
fn a_port_that_is_taken_is_named_with_a_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();

    let ended = Program::new().run(&["serve", "--listen", &address]);

    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains(&format!("cannot listen on {address}")), "{ended:?}");
    assert!(ended.err.contains("--listen takes another address"), "{ended:?}");
}

/// Another key would sign nothing, use up attempts, and seal new secrets against the others.
#[tokio::test]
async fn a_master_key_that_opens_nothing_here_is_refused_at_the_start() {
    on_both(async |database| {
        let right = program(database);
        let key = operator_key(&right);
        let (running, address) = serve(&right);
        Receiver::new(&right, &address, &key);
        running.signal("TERM");
        running.end();

        let wrong = program(database).with("SNAPHOOK_MASTER_KEY", &KEY.replace("00", "ff"));
        let ended = wrong.run(&["serve"]);

        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains("the master key does not fit the database"), "{ended:?}");
        assert!(ended.err.contains("master_keys_old"), "{ended:?}");
    })
    .await;
}
