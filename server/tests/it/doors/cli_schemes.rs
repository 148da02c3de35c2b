//! `verify`, `sign`, `trigger` and `listen --scheme`: the providers' schemes on the command line.

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;

use crate::support::program::{Ended, Program};

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

/// A recorded request of a provider, and the arguments of `verify` for it.
struct Case {
    json: Value,
    arguments: Vec<String>,
    body: Vec<u8>,
}

impl Case {
    fn read(provider: &str, json: Value) -> Self {
        let text = |field: &str| json[field].as_str().map(str::to_owned);
        let scheme = match text("scheme") {
            Some(variant) => format!("{provider}:{variant}"),
            None => provider.to_owned(),
        };
        let mut arguments = vec!["verify".to_owned(), "--json".to_owned()];
        let mut flag = |name: &str, value: String| arguments.push(format!("--{name}={value}"));
        flag("scheme", scheme);
        match &json["secrets"] {
            Value::Array(all) => {
                for secret in all {
                    flag("secret", secret.as_str().unwrap().to_owned());
                }
            }
            _ => flag("secret", text("secret").unwrap()),
        }
        if let Some(key) = text("public_key") {
            flag("public-key", key);
        }
        for pair in json["headers"].as_array().unwrap() {
            flag("header", format!("{}: {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()));
        }
        flag("method", text("method").unwrap_or_else(|| "POST".to_owned()));
        flag("url", text("url").unwrap());
        flag("now", json["now"].to_string());
        let body = BASE64_STANDARD.decode(text("body_base64").unwrap()).unwrap();
        Self { json, arguments, body }
    }

    /// What is wrong with the answer of the program, if anything.
    fn complaint(&self, ended: &Ended) -> Option<String> {
        let name = self.json["name"].as_str().unwrap();
        let Ok(said) = serde_json::from_str::<Value>(&ended.out) else {
            return Some(format!("{name}: {ended:?}"));
        };
        let none = Vec::new();
        let others = self.json["alternatives"].as_array().unwrap_or(&none);
        let verdict = &said["verdict"];
        let told = |field: &str| {
            verdict != "ok" || said[field] == self.json[field] || self.json["expect"] != "ok"
        };
        let right = (*verdict == self.json["expect"] || others.contains(verdict))
            && told("event_id")
            && told("event_type")
            && ended.code == (if verdict == "ok" { 0 } else { 8 })
            && said["reason"].is_null() == (verdict == "ok");
        (!right).then(|| format!("{name}: {said} ({}), not {}", ended.code, self.json))
    }
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../signature/tests/vectors");
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let cases = files.iter().flat_map(|file| {
        let provider = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        cases.into_iter().map(move |json| Case::read(&provider, json))
    });
    cases.collect()
}

/// A process for each request that the providers' libraries signed.
#[test]
fn verify_says_of_every_recorded_request_what_it_is() {
    let program = Program::new();
    let cases = cases();
    let next = AtomicUsize::new(0);
    let work = |worker: usize| {
        let mut complaints = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let body = format!("body.{worker}");
            program.write_bytes(&body, &case.body);
            let arguments: Vec<_> = case.arguments.iter().map(String::as_str).collect();
            let ended = program.run(&[&*arguments, &["--body", &body]].concat());
            complaints.extend(case.complaint(&ended));
        }
        complaints
    };
    let complaints: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|worker| scope.spawn(move || work(worker))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });

    assert!(cases.len() >= 1_752);
    assert!(complaints.is_empty(), "{} wrong:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn verify_reads_the_secret_and_the_body_from_where_others_do_not_see_them() {
    let program = Program::new().with("SNAPHOOK_SECRET", SECRET);
    program.write("secret.txt", &format!("{SECRET}\n"));
    program.write("body", "{\"a\": 1.0,  \"b\":\"x\"}");
    let genuine = [
        "verify",
        "--scheme=standardwebhooks",
        "--header=Webhook-Id: msg_p001",
        "--header=WEBHOOK-TIMESTAMP:1700000000",
        "--header=webhook-signature: v1,uF/CWGM5/DW0VURRoFfkAJdA6acPFtnlq2msELhO6/g=",
        "--now=1700000010",
        "--body=body",
    ];
    let ended = program.run(&genuine);
    assert_eq!((ended.code, &*ended.out), (0, "verdict\tok\nevent_id\tmsg_p001\n"), "{ended:?}");

    let ended = Program::run(&program, &[&genuine[..], &["--secret-file", "secret.txt"]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");

    let late =
        genuine.map(|flag| if flag.starts_with("--now") { "--now=1700000301" } else { flag });
    let ended = program.run(&late);
    assert_eq!(ended.code, 8, "{ended:?}");
    assert!(
        ended.out.contains("reason\tthe timestamp is 301 s old; 300 s are allowed"),
        "{ended:?}"
    );
}

#[test]
fn verify_says_what_is_wrong_with_how_it_was_called() {
    let program = Program::new();
    program.write("scheme.toml", "auth = \"hmac\"\n");
    for (arguments, expected) in [
        (&["--scheme=strip", "--secret=s"][..], "no provider is called \"strip\""),
        (&["--scheme=hubspot", "--secret=s"], "name one of hubspot:v1, hubspot:v2, hubspot:v3"),
        (&["--scheme=stripe"], "give the secret with --secret-file"),
        (&["--secret=s"], "name a scheme with --scheme"),
        (&["--scheme=stripe", "--secret=s", "--header=x"], "a header is written 'Name: value'"),
        (&["--scheme=stripe", "--secret=s", "--body=nowhere"], "cannot read nowhere"),
        (&["--scheme-file=scheme.toml", "--secret=s"], "hash: is missing; there are sha1"),
        (
            &["--scheme=mailgun", "--secret=s", "--signature-header=x"],
            "in no header that can be named",
        ),
    ] {
        let ended = program.run(&[&["verify"], arguments].concat());
        assert_eq!(ended.code, 2, "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(expected), "{arguments:?}: {ended:?}");
    }
    let ended = program.run(&["verify", "--json", "--scheme=svix", "--secret=v1,whsec_AAAA"]);
    assert_eq!(ended.code, 8, "{ended:?}");
    assert!(ended.out.contains("leave that out and begin with whsec_"), "{ended:?}");
}

#[test]
fn what_sign_prints_verify_takes() {
    let program = Program::new().with("SNAPHOOK_SECRET", SECRET);
    program.write("body", "{\"id\":\"evt_1\",\"type\":\"a.b\"}");
    program.write(
        "own.toml",
        "[acme]\nauth = \"hmac\"\nhash = \"sha512\"\nenc = \"base64url\"\nsig = { header = \"X-A\" }\n\
         sign = [\"{body}\"]\nid = \"json:/id\"\n",
    );
    for (scheme, url, expected) in [
        (&["--scheme=stripe"][..], "https://h.example/", "ok\nevent_id\tevt_1\nevent_type\ta.b\n"),
        (&["--scheme=hubspot:v3"], "https://h.example/x?y", "ok\n"), // its body would be a list
        (
            &["--scheme=generic_hmac_hex", "--signature-header=X-Mine"],
            "https://h.example/",
            "ok\nevent_id\tevt_1\n",
        ),
        (&["--scheme-file=own.toml"], "https://h.example/", "ok\nevent_id\tevt_1\n"),
    ] {
        let common = [&["--body=body", "--url", url], scheme].concat();
        let signed =
            program.run(&[&["sign", "--timestamp=1700000000", "--id=evt_1"], &*common].concat());
        assert_eq!(signed.code, 0, "{signed:?}");
        let headers: Vec<_> = signed.out.lines().map(|line| format!("--header={line}")).collect();
        assert!(!headers.is_empty());
        let headers: Vec<_> = headers.iter().map(String::as_str).collect();
        let verified =
            program.run(&[&["verify", "--now=1700000001"], &*common, &*headers].concat());
        assert_eq!(verified.code, 0, "{verified:?}");
        assert_eq!(verified.out, format!("verdict\t{expected}"), "{verified:?}");
    }
    let sendgrid = include_str!("../../../../signature/tests/vectors/sendgrid.json");
    let cases: Value = serde_json::from_str(sendgrid).unwrap();
    let key = cases[0]["secret"].as_str().unwrap();
    let ended = program.run(&["sign", "--scheme=sendgrid", "--secret", key]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(
        ended.err.contains("gives out a public key, and with that nobody can sign"),
        "{ended:?}"
    );
}

#[test]
fn what_trigger_sends_listen_takes() {
    let program = Program::new().with("SNAPHOOK_SECRET", SECRET);
    let list = program.run(&["trigger", "list"]);
    let samples: Vec<Vec<_>> = list.out.lines().map(|line| line.split('\t').collect()).collect();
    let providers = ["stripe", "github", "shopify", "slack", "standardwebhooks"];
    assert!(
        providers.iter().all(|name| samples.iter().any(|sample| sample[0] == *name)),
        "{list:?}"
    );
    for sample in samples {
        let scheme = format!("--scheme={}", sample[0]);
        let mut running = program.start(&["listen", "--port=0", "--once", "--json", &scheme]);
        let line = running.wait_for("listening on http://");
        let url = line.split("listening on ").nth(1).unwrap().to_owned();

        let sent = program.run(&["trigger", sample[0], sample[1], "--to", &url, "--json"]);

        let seen: Value = serde_json::from_str(&running.end().out).unwrap();
        let sent_line: Value = serde_json::from_str(&sent.out).unwrap();
        assert_eq!(
            (sent.code, &sent_line["status"]),
            (0, &204.into()),
            "{sample:?}: {sent:?} {seen}"
        );
        assert_eq!(seen["verdict"], "ok", "{sample:?}: {seen}");
        if sample[1] != "url_verification" {
            assert_eq!(seen["event_id"], sent_line["event_id"], "{sample:?}");
            assert_eq!(seen["event_type"], sample[1], "{sample:?}");
        }
    }
}

#[test]
fn trigger_says_what_it_has_and_whom_it_did_not_reach() {
    let program = Program::new();
    for (arguments, code, expected) in [
        (&["stripe"][..], 2, "name an event of stripe: charge.succeeded"),
        (&["stripe", "x"], 2, "stripe has no sample \"x\"; it has charge.succeeded"),
        (&["acme", "x"], 2, "there is no sample of \"acme\""),
        (&["stripe", "invoice.paid", "--secret", ""], 2, "the secret is empty"),
        (
            &["stripe", "invoice.paid", "--to", "http://127.0.0.1:1/"],
            6,
            "cannot reach http://127.0.0.1:1/",
        ),
    ] {
        let ended = program.run(&[&["trigger"], arguments].concat());
        assert_eq!(ended.code, code, "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(expected), "{arguments:?}: {ended:?}");
    }
}
