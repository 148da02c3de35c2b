//! The command line on its own: settings, migrations, doctor, and how commands end.

use crate::support::{
    databases::{Kind, on_both_empty},
    program::Program,
};

#[test]
fn wrong_settings_are_all_named_and_exit_with_2() {
    let program = Program::new().with("SNAPHOOK_DELIVERY_LEASE", "20s");
    program.write("snaphook.toml", "listn = '127.0.0.1:1'\n[limits]\npayload = 'huge'\n");

    for command in ["migrate", "serve"] {
        let ended = program.run(&[command]);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
        let first = "snaphook.toml:1: there is no setting listn; did you mean listen?";
        assert!(ended.err.contains(first), "{ended:?}");
        let second = "snaphook.toml:3: limits.payload = \"huge\": write a number of";
        assert!(ended.err.contains(second), "{ended:?}");
    }

    program.write("snaphook.toml", "");
    let ended = program.run(&["migrate"]);
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("delivery.lease (20s) must exceed"), "{}", ended.err);
}

#[test]
fn a_client_says_what_it_lacks_and_whom_it_cannot_reach() {
    let program = Program::new();
    let nowhere = program.run(&["events", "list"]);
    assert_eq!(nowhere.code, 2, "{nowhere:?}");
    assert!(nowhere.err.contains("no server is named\n  set SNAPHOOK_URL"), "{}", nowhere.err);

    // Port 1 of loopback: nobody listens there, and no packet leaves the machine.
    let program = program.with("SNAPHOOK_URL", "http://127.0.0.1:1");
    let without_key = program.run(&["events", "list"]);
    assert_eq!(without_key.code, 2);
    assert!(without_key.err.contains("there is no key for http://127.0.0.1:1"));

    let unreachable = program.with("SNAPHOOK_API_KEY", "k").run(&["deliveries", "show", "dlv_1"]);
    assert_eq!((unreachable.code, unreachable.out.as_str()), (6, ""));
    assert!(unreachable.err.contains("cannot reach the server"), "{}", unreachable.err);
}

#[test]
fn input_is_judged_before_anything_is_sent() {
    let program =
        Program::new().with("SNAPHOOK_URL", "http://127.0.0.1:1").with("SNAPHOOK_API_KEY", "k");
    for (arguments, expected) in [
        (&["emit", "acme", "order.paid", "--data", "{a}"][..], "--data is no JSON"),
        (&["emit", "acme", "order.paid", "--data", "@nowhere.json"], "cannot read nowhere.json"),
        (&["endpoints", "delete", "ep_1", "--tenant", "acme"], "give --yes to go on"),
        (&["endpoints", "create", "acme", "--url", "x", "--header", "a"], "has no colon"),
        (&["redeliver"], "required arguments were not provided"),
        (&["redeliver", "--state", "dead"], "unexpected argument '--state'"),
    ] {
        let ended = program.run(arguments);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(expected), "{arguments:?}: {}", ended.err);
    }
}

#[tokio::test]
async fn migrate_shows_what_is_missing_applies_it_and_has_nothing_left_to_do() {
    on_both_empty(async |database| {
        let program = Program::new()
            .with("SNAPHOOK_DATABASE", &database.url)
            .with("SNAPHOOK_DNS_RESOLVER", "127.0.0.1:1");
        let run = |arguments: &[&str]| program.run(arguments);

        let missing = run(&["migrate", "--dry-run"]);
        assert_eq!(missing.code, 0, "{missing:?}");
        if database.kind == Kind::Postgres {
            assert!(missing.out.starts_with("0001 "), "{missing:?}");
            assert!(missing.err.contains("nothing was changed"), "{missing:?}");
        } else {
            assert!(missing.err.contains("it would be made"), "a dry run makes no file");
        }

        let applied = run(&["migrate"]);
        assert_eq!(applied.code, 0, "{applied:?}");
        assert!(applied.out.starts_with("0001 "), "{applied:?}");

        let again = run(&["migrate"]);
        assert_eq!((again.code, again.out.as_str()), (0, ""), "{again:?}");

        let doctor = run(&["doctor", "--json"]);
        assert!(doctor.out.contains("schema up to date"), "{doctor:?}");
        assert!(doctor.out.contains("ms from the database's"), "{doctor:?}");
    })
    .await;
}

#[test]
fn doctor_fails_when_a_check_does() {
    let program = Program::new()
        .with("SNAPHOOK_DATABASE", "postgres://me:hunter2@127.0.0.1:1/app")
        .with("SNAPHOOK_DNS_RESOLVER", "127.0.0.1:1");

    let ended = program.run(&["doctor"]);

    assert_eq!(ended.code, 8, "{ended:?}");
    assert!(ended.out.contains("✗ database     postgres://127.0.0.1:1/app: the database cannot"));
    assert!(ended.out.contains("✗ master key   not set"), "{}", ended.out);
    assert!(ended.out.contains("openssl rand"), "the remedy");
    assert!(!format!("{ended:?}").contains("hunter2"));
}
