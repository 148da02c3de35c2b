//! `snaphook dev`, and the client commands beside it, which find it with no setting.

use std::{process::Command, time::Duration};

use snaphook::world::real::monotonic;

use crate::support::program::{Ended, Program, Running, closed_port};

/// Starts `dev` in the program's folder and reads all that it says until it waits.
fn start(program: &Program) -> (Running, Vec<String>) {
    let mut running = program.start(&["dev", "--listen", "127.0.0.1:0"]);
    let said = running.read_until("Ctrl-C ends it.");
    (running, said)
}

/// The word behind `label` in what `dev` said.
fn word(said: &[String], label: &str) -> String {
    let line = said.iter().find(|line| line.trim_start().starts_with(label)).unwrap();
    line.trim_start()[label.len()..].split_whitespace().next().unwrap().to_owned()
}

/// Runs a command that must do its work, and gives its first column.
fn done(program: &Program, arguments: &[&str]) -> Vec<String> {
    let ended = program.run(arguments);
    assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
    ended.out.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn dev_delivers_its_sample_and_prints_a_curl_line_that_works() {
    let program = Program::new();
    let (mut running, said) = start(&program);
    let delivered =
        said.iter().find(|line| line.contains("order.paid") && line.contains("evt_")).unwrap();
    assert!(delivered.contains("signature verified, answered 204"), "{delivered}");

    let begin = said.iter().position(|line| line.trim_start().starts_with("curl ")).unwrap();
    let curl = said[begin..begin + 3].join("\n");
    let answer = Command::new("sh").args(["-c", &format!("{curl} --silent")]).output().unwrap();

    let answer: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    let event = answer["id"].as_str().unwrap();
    let seen = running.read_until(event).pop().unwrap();
    assert!(seen.contains("signature verified, answered 204"), "{seen}");

    running.signal("INT");
    assert_eq!(running.end().code, 0);
}

#[test]
fn a_second_start_goes_on_with_what_the_first_made() {
    let program = Program::new();
    let (first, said) = start(&program);
    let (key, endpoint) = (word(&said, "API key"), word(&said, "endpoint"));
    first.signal("TERM");
    assert_eq!(first.end().code, 0);

    let (_second, said) = start(&program);

    assert_eq!(word(&said, "API key"), key);
    assert_eq!(word(&said, "endpoint"), endpoint);
    assert_eq!(done(&program, &["endpoints", "list", "acme"]), [endpoint]);
    assert_eq!(done(&program, &["deliveries", "list", "--state", "delivered"]).len(), 2);
}

#[test]
fn client_commands_find_it_and_do_what_the_api_does() {
    let program = Program::new();
    let (mut running, said) = start(&program);
    let endpoint = word(&said, "endpoint");

    let emitted = program.run(&["emit", "acme", "a.b", "--data", "{\"n\":1.10}", "--key", "k"]);
    let event = emitted.out.lines().next().unwrap().strip_prefix("id\t").unwrap().to_owned();
    running.read_until(&event);
    let again = program.run(&["emit", "acme", "a.b", "--data", "{\"n\":2}", "--key", "k"]);
    assert!(again.out.contains(&event) && again.out.contains("differs\ttrue"), "{again:?}");
    assert_eq!(program.run(&["events", "show", &event, "--payload"]).out, "{\"n\":1.10}");

    let deliveries = done(&program, &["deliveries", "list", "--event", &event]);
    let delivery = deliveries[0].as_str();
    done(&program, &["redeliver", delivery]);
    running.read_until(&event);
    let shown = program.run(&["deliveries", "show", delivery]);
    assert!(shown.out.contains("\n1\t") && shown.out.contains("\n2\t"), "{shown:?}");
    for verb in ["try-now", "cancel"] {
        let ended = program.run(&["deliveries", verb, delivery]);
        assert_eq!(ended.code, 5, "it has ended: {ended:?}");
    }

    done(&program, &["endpoints", "test", &endpoint]);
    done(&program, &["secrets", "rotate", &endpoint, "--overlap", "1h"]);
    let secrets = done(&program, &["secrets", "list", &endpoint]);
    assert_eq!(secrets.len(), 2);
    let revealed = program.run(&["secrets", "reveal", &endpoint, &secrets[0]]);
    assert!(revealed.out.contains("\nsecret\twhsec_"), "{revealed:?}");
    assert_eq!(program.run(&["secrets", "reveal", &endpoint, "sec_0"]).code, 3, "no such secret");
    let tested = program.run(&["endpoints", "test", &endpoint, "--tenant", "acme"]);
    assert!(tested.out.contains("outcome\tdelivered"), "signed with both: {tested:?}");

    let nobody = format!("http://127.0.0.1:{}/", closed_port());
    done(&program, &["endpoints", "update", &endpoint, "--url", &nobody]);
    let failed = program.run(&["endpoints", "test", &endpoint]);
    assert_eq!(failed.code, 8, "{failed:?}");
    assert!(failed.out.contains("reason\tconnect_refused"), "{failed:?}");
}

#[test]
fn a_tail_shows_what_comes_and_what_changes_until_it_is_interrupted() {
    let program = Program::new();
    let (_running, said) = start(&program);
    let endpoint = word(&said, "endpoint");
    done(&program, &["endpoints", "pause", &endpoint]);
    let mut events = program.start(&["events", "tail", "--type", "a.b"]);
    let mut deliveries = program.start(&["deliveries", "tail", "--json"]);
    // A tail begins with what is new, a second after it was started at the latest.
    let begun = monotonic();
    while monotonic().saturating_sub(begun) < Duration::from_secs(2) {
        done(&program, &["emit", "acme", "a.b"]);
    }
    let shown = deliveries.read_until("\"a.b\"").pop().unwrap();
    let delivery: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(delivery["type"], "a.b");
    assert!(events.read_until("a.b")[0].contains("acme\ta.b"));

    done(&program, &["endpoints", "resume", &endpoint]);
    deliveries.read_until("\"delivered\"");

    for tail in [events, deliveries] {
        tail.signal("INT");
        assert_eq!(tail.end().code, 0);
    }
}

#[test]
fn what_the_server_refuses_is_read_out_with_its_exit_code() {
    let program = Program::new();
    let (_running, said) = start(&program);
    let endpoint = word(&said, "endpoint");
    let long = format!("--timeout={}s", 31);
    for (arguments, code, part) in [
        (vec!["tenants", "show", "nobody"], 3, "nobody"),
        (vec!["events", "show", "evt_0000000000000"], 3, "evt_0000000000000"),
        (vec!["endpoints", "show", "ep_0000000000000"], 3, "ep_0000000000000"),
        (vec!["endpoints", "update", &endpoint, &long], 2, "timeout: "),
        (vec!["endpoints", "update", &endpoint, "--url", "ftp://x"], 2, "url: "),
        (vec!["emit", "acme", "not a type"], 2, "type: "),
        (vec!["events", "list", "--since", "tomorrow"], 2, "since: "),
        (vec!["events", "list", "--api-key", "shk_wrong"], 4, "SNAPHOOK_API_KEY"),
    ] {
        let server = program.run(&["tenants", "list"]);
        assert_eq!(server.code, 0);
        let Ended { code: ended, out, err } = program.run(&arguments);
        assert_eq!((ended, out.as_str()), (code, ""), "{arguments:?}: {err}");
        assert!(err.contains(part), "{arguments:?}: {err}");
    }
}

#[test]
fn logs_name_requests_and_deliveries_and_hold_no_secret_and_no_payload() {
    let program =
        Program::new().with("SNAPHOOK_LOG_FORMAT", "json").with("SNAPHOOK_LOG_LEVEL", "debug");
    let (mut running, said) = start(&program);
    let key = word(&said, "API key");
    let url = format!("http://127.0.0.1:{}/hook?token=hunter2", closed_port());
    let header = "Authorization: Bearer hunter2";
    let made =
        program.run(&["endpoints", "create", "acme", "--url", &url, "--header", header, "--json"]);
    let made: serde_json::Value = serde_json::from_str(&made.out).unwrap();
    let secret = made["secret"].as_str().unwrap().strip_prefix("whsec_").unwrap();
    let emitted = program.run(&["emit", "acme", "a.b", "--data", "{\"password\":\"hunter2\"}"]);
    let event = emitted.out.lines().next().unwrap().strip_prefix("id\t").unwrap().to_owned();
    running.read_until(&event);
    let log = running.errors_until("connect_refused");

    let line: serde_json::Value = serde_json::from_str(log.last().unwrap()).unwrap();
    assert_eq!(line["message"], "attempted");
    assert!(line["delivery"].as_str().unwrap().starts_with(&event.replace("evt_", "dlv_")));
    running.signal("TERM");
    let log = log.join("\n") + &running.end().err;
    assert!(log.contains("request_id"), "{log}");
    for forbidden in ["hunter2", "password", "token=", key.as_str(), secret] {
        assert!(!log.contains(forbidden), "{forbidden:?} is in the log:\n{log}");
    }
}
