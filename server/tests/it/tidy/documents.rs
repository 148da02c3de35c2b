//! Rules about what people read: links lead somewhere, promises name the test that keeps them,
//! one spelling, and nothing that holds on one machine only.

use std::collections::BTreeSet;

use super::{Source, assert_none, mentions, root, rust_sources, sources};

/// Documents that a newcomer looks for by name.
const EXPECTED: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "STYLE.md",
];

/// A word that we do not use, and the one that we do. In prose only: names of others' functions
/// are theirs.
const SPELLINGS: &[(&str, &str)] = &[
    ("authoris", "authoriz"),
    ("behaviour", "behavior"),
    ("cancelled", "canceled"),
    ("colour", "color"),
    ("initialis", "initializ"),
    ("normalis", "normaliz"),
    ("organis", "organiz"),
    ("recognis", "recogniz"),
    ("resend", "redeliver"),
    ("serialis", "serializ"),
];

/// What is true on one machine only: a clone elsewhere would not work, or would ask for packages
/// at a place that it cannot reach. Split, so that this file passes.
const LOCAL: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/wo", "rk/"),
    concat!("registry.", "npmjs"),
    concat!("files.", "pythonhosted"),
    concat!("static.", "crates.io"),
];

#[test]
fn the_documents_that_a_newcomer_looks_for_are_there() {
    let missing: Vec<_> = EXPECTED.iter().filter(|name| !root().join(name).is_file()).collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut broken = Vec::new();
    for source in documents() {
        let folder = root().join(&source.path).parent().unwrap().to_path_buf();
        for link in links(&source.text).into_iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if file.is_empty() { root().join(&source.path) } else { folder.join(file) };
            let text = std::fs::read_to_string(&target).unwrap_or_default();
            if !target.exists() || !(anchor.is_empty() || anchors(&text).contains(anchor)) {
                broken.push(format!("{}: {link}", source.path));
            }
        }
    }
    assert_none("a link leads nowhere", &broken);
}

/// Files move; a map that shows where they were is worse than none.
#[test]
fn every_file_that_a_document_names_is_there() {
    let mut missing = Vec::new();
    for source in documents().filter(|source| !source.path.contains("decisions/")) {
        for name in source.text.split('`').skip(1).step_by(2).filter(|name| is_path(name)) {
            let homes = ["", "server", "server/src", "server/migrations", "server/tests/it"];
            if !homes.iter().any(|home| root().join(home).join(name).exists()) {
                missing.push(format!("{}: {name}", source.path));
            }
        }
    }
    assert_none("a document names a file that is not there", &missing);
}

/// `engine/mod.rs`, `server/migrations/postgres/`: a path of ours, with no blank or pattern in it.
fn is_path(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let ends = [".rs", ".sql", ".py", ".mjs", "/"];
    name.contains('/')
        && name.len() > 3
        && !name.starts_with('/')
        && name.chars().all(plain)
        && ends.iter().any(|end| name.ends_with(end))
}

/// ARCHITECTURE.md says of each promise `kept by` which test; a renamed test must not leave the
/// promise alone.
#[test]
fn every_invariant_names_a_test_that_exists() {
    let code: String = rust_sources().map(|source| source.text).collect();
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let promised: Vec<_> = architecture
        .lines()
        .filter_map(|line| line.split_once("kept by"))
        .flat_map(|(_, tests)| tests.split('`').skip(1).step_by(2))
        .collect();
    assert!(!promised.is_empty(), "ARCHITECTURE.md names no test");

    let missing: Vec<_> = promised
        .iter()
        .filter(|test| !code.contains(&format!("fn {test}(")))
        .map(ToString::to_string)
        .collect();
    assert_none("ARCHITECTURE.md names tests that do not exist", &missing);
}

#[test]
fn words_are_spelled_one_way() {
    let mut offenses = Vec::new();
    for source in sources().iter().filter(|source| source.is_rust() || source.has_extension("md")) {
        if source.path.ends_with("tidy/documents.rs") || source.path == "GLOSSARY.md" {
            continue; // the two that must name what we do not say
        }
        for (number, line) in source.prose() {
            let line = without_code(&line.to_lowercase());
            for (word, ours) in SPELLINGS.iter().filter(|(word, _)| mentions(&line, word)) {
                offenses.push(format!("{}:{number}: {word}…, we say {ours}…", source.path));
            }
        }
    }
    assert_none("another spelling", &offenses);
}

#[test]
fn nothing_holds_on_one_machine_only() {
    let mut offenses = Vec::new();
    for source in sources() {
        for (number, line) in (1..).zip(source.text.lines()) {
            for place in LOCAL.iter().filter(|place| mentions(line, place)) {
                offenses.push(format!("{}:{number}: {place}", source.path));
            }
        }
    }
    assert_none("a place that exists on one machine only", &offenses);
}

#[test]
fn the_changelog_has_a_place_for_what_comes_next() {
    let text = std::fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    assert!(text.contains("\n## [Unreleased]\n"), "CHANGELOG.md lacks ## [Unreleased]");
}

fn documents() -> impl Iterator<Item = Source> {
    sources().into_iter().filter(|source| source.has_extension("md"))
}

/// `[text](target)` outside of code blocks.
fn links(text: &str) -> Vec<&str> {
    let mut inside_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside_code = !inside_code;
        } else if !inside_code {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(targets);
        }
    }
    found
}

/// The anchors that a heading makes: lower case, blanks to `-`, all else that is no word dropped.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// A line without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

#[test]
fn links_and_anchors_are_read_as_a_browser_reads_them() {
    let text = "# The first: a `title`\nSee [it](#x) and [b](../c.md#d-e).\n```\n[no](no)\n```\n";
    assert_eq!(links(text), ["#x", "../c.md#d-e"]);
    assert!(anchors(text).contains("the-first-a-title"));
    assert_eq!(without_code("a `colour` b"), "a  b");
}
