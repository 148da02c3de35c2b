//! What the manual says is what the program has.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path, time::Duration};

use clap::Parser as _;
use snaphook::{cli::Cli, config::keys::KEYS, telemetry::metrics::Metrics};
use snaphook_signature::{IdScope, Scheme};

fn read(document: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(document)).unwrap()
}

/// The rows between the two marks of docs/operating.md, from the one list of settings.
#[test]
fn the_manual_lists_every_setting_as_it_is() {
    let manual = read("docs/operating.md");
    let (_, rest) = manual.split_once("<!-- settings -->\n").unwrap();
    let (listed, _) = rest.split_once("<!-- end of settings -->").unwrap();

    let mut expected = String::from("| setting | default | |\n|---|---|---|\n");
    for key in KEYS {
        let default =
            if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        writeln!(expected, "| `{}` | {default} | {} |", key.name, key.doc).unwrap();
    }
    assert_eq!(listed, expected, "docs/operating.md must have:\n{expected}");
}

#[test]
fn every_metric_is_in_the_manual_and_the_manual_names_no_other() {
    let metrics = Metrics::new();
    // A metric with labels is shown once it was counted.
    metrics.event_accepted("sql");
    metrics.attempt("delivered", Duration::ZERO);
    metrics.delivery_ended("delivered", "");
    metrics.set_endpoints(&[("healthy", "closed", 1)]);
    metrics.guard_refusal("private");
    metrics.database("fetch", Duration::ZERO);
    metrics.inbound_request("stripe", "accepted");
    let shown = metrics.render();
    let names = shown.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let mut named: Vec<_> = names.collect();
    let manual = read("docs/operating.md");
    let (_, rest) = manual.split_once("## What to watch").unwrap();
    let mut listed: Vec<_> = rest
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|text| text.starts_with("snaphook_"))
        .map(|text| text.split('{').next().unwrap())
        .collect();
    named.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, named);
}

#[test]
fn every_command_in_the_documents_is_one_that_the_program_knows() {
    let mut seen = 0;
    for document in [
        "README.md",
        "docs/local-testing.md",
        "docs/operating.md",
        "docs/providers.md",
        "docs/receiving.md",
        "docs/sending.md",
        "docs/sources.md",
    ] {
        for line in read(document).lines() {
            let Some(command) = command_of(line) else { continue };
            seen += 1;
            if let Err(error) = Cli::try_parse_from(words(&command)) {
                panic!("{document}: {command}\n{error}");
            }
        }
    }
    assert!(seen > 8, "{seen} commands found");
}

#[test]
fn every_provider_is_in_the_manual_with_its_time_and_what_its_id_is_worth() {
    let manual = read("docs/providers.md");
    let mut listed = BTreeSet::new();
    for row in manual.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split(" | ").collect();
        let &[names, _, time, id] = &*cells else { continue };
        for name in names.split('`').skip(1).step_by(2) {
            let scheme = Scheme::named(name).unwrap();
            let document = scheme.document();
            listed.insert(name.to_owned());
            let ts = document.ts.as_ref().map(|ts| ts.tolerance).or(document.iat_tolerance);
            let expected = match ts {
                Some(seconds) if seconds % 60 == 0 => format!("{} min", seconds / 60),
                Some(seconds) => format!("{seconds} s"),
                None => "none".to_owned(),
            };
            assert!(
                time.ends_with(&expected) || name == "livekit" || names.contains("hubspot"),
                "{name}: {time}, not {expected}"
            );
            let has_id = !document.id.0.is_empty();
            let things = scheme.id_scope() == IdScope::Object;
            assert_eq!(id.contains("a thing's"), things, "{name}: {id}");
            let unsigned = has_id && !things && !scheme.signs_id();
            assert_eq!(id.contains("unsigned"), unsigned, "{name}: {id}");
            let url = scheme.signs_url() || name == "hubspot:v1"; // which stands with v2 and v3
            assert_eq!(row.contains("`--url`"), url, "{name}: --url");
        }
    }
    let missing: Vec<_> = Scheme::names().filter(|name| !listed.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/providers.md lacks {missing:?}");
}

/// The command of a line in a block of shell, or between backticks in a sentence where it has
/// arguments; without its comment, and with real ids where the document has an ellipsis.
fn command_of(line: &str) -> Option<String> {
    let program = |text: &str| text.starts_with("snaphook ") || text.starts_with("cargo run -- ");
    let quoted =
        line.split('`').skip(1).step_by(2).find(|text| program(text) && text.contains("--"));
    let command = if program(line) && !line.ends_with('.') { Some(line) } else { quoted }?;
    let command = command.split("  #").next()?.trim();
    let is_prose = command.split(' ').nth(1).is_some_and(|word| word == "sends");
    (!is_prose).then(|| {
        command
            .replace("cargo run --", "snaphook")
            .replace("ep_…", "ep_0000000000001")
            .replace("dlv_…", "dlv_00000000000010000000000001")
            .replace("whsec_…", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
    })
}

/// Words as a shell splits them, as far as the documents need it: blanks and single quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (n, part) in command.split('\'').enumerate() {
        if n % 2 == 1 {
            words.last_mut().unwrap().push_str(part);
            continue;
        }
        for (n, piece) in part.split(' ').enumerate() {
            if n > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(piece);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn a_command_is_split_as_a_shell_does() {
    assert_eq!(
        words("snaphook emit a  b --data '{\"n\": 1}'"),
        ["snaphook", "emit", "a", "b", "--data", "{\"n\": 1}"]
    );
    assert_eq!(command_of("snaphook serve   # on each"), Some("snaphook serve".to_owned()));
    assert_eq!(command_of("see `snaphook listen --once`."), Some("snaphook listen --once".into()));
}
