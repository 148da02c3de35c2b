//! Rules about every Rust file: length, names, first lines, and words that must not stay.

use super::{Source, assert_none, mentions, rust_sources, sources};

/// A file that does not fit on a few screens holds two topics. Unit tests count.
const LINES_MAX: usize = 400;

/// A module's first words say why it exists; more belongs into ARCHITECTURE.md. A picture is free.
const MODULE_DOC_LINES_MAX: usize = 10;

/// A name that says nothing collects everything.
const EMPTY_NAMES: &[&str] =
    &["common", "helper", "helpers", "misc", "models", "services", "types", "util", "utils"];

/// What must not be in code, and what to do instead. Split, so that this file passes.
const MARKERS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "file an issue, or do it"),
    (concat!("FIX", "ME"), "file an issue, or do it"),
    (concat!("XX", "X"), "file an issue, or do it"),
    (concat!("#[", "allow"), "use #[expect(lint, reason = \"…\")]"),
    (concat!("#![", "allow"), "use #![expect(lint, reason = \"…\")]"),
    (concat!("#[", "ignore"), "a test that does not run keeps nothing"),
];

#[test]
fn no_file_is_longer_than_400_lines() {
    let offenses: Vec<_> = rust_sources()
        .map(|source| (source.text.lines().count(), source.path))
        .filter(|(lines, _)| *lines > LINES_MAX)
        .map(|(lines, path)| format!("{path}: {lines} lines; split it by topic"))
        .collect();
    assert_none("a file is too long", &offenses);
}

#[test]
fn every_module_has_a_name_that_says_something() {
    let offenses: Vec<_> = rust_sources()
        .map(|source| source.path)
        .filter(|path| {
            path.trim_end_matches(".rs").split('/').any(|part| EMPTY_NAMES.contains(&part))
        })
        .collect();
    assert_none("a name that says nothing", &offenses);
}

#[test]
fn every_module_begins_by_saying_why_it_exists() {
    let mut offenses = Vec::new();
    // A tests.rs beside its module has no reason of its own to tell.
    for source in rust_sources().filter(|source| !source.path.ends_with("/tests.rs")) {
        match module_doc_lines(&source) {
            0 => offenses.push(format!("{}: begins without //!", source.path)),
            lines if lines > MODULE_DOC_LINES_MAX => offenses.push(format!(
                "{}: {lines} lines of //!, more than {MODULE_DOC_LINES_MAX}",
                source.path
            )),
            _ => {}
        }
    }
    assert_none("a module's first lines", &offenses);
}

/// Lines of `//!` at the top, without those of examples and pictures. The manual of a published
/// crate is its `lib.rs`, and may be longer.
fn module_doc_lines(source: &Source) -> usize {
    let mut inside_fence = false;
    let lines = source.text.lines().take_while(|line| line.starts_with("//!"));
    let counted = lines
        .filter(|line| {
            let fence = line.trim_start_matches("//!").trim_start().starts_with("```");
            inside_fence ^= fence;
            !fence && !inside_fence && line.len() > 3
        })
        .count();
    if source.path == "signature/src/lib.rs" { counted.min(MODULE_DOC_LINES_MAX) } else { counted }
}

#[test]
fn nothing_is_left_for_later_and_no_lint_is_silenced_without_a_reason() {
    let mut offenses = Vec::new();
    for source in sources().iter().filter(|source| source.is_rust() || source.has_extension("sql"))
    {
        for (number, line) in (1..).zip(source.text.lines()) {
            for (marker, remedy) in MARKERS.iter().filter(|(marker, _)| mentions(line, marker)) {
                offenses.push(format!("{}:{number}: {marker}: {remedy}", source.path));
            }
        }
    }
    assert_none("something that must not stay", &offenses);
}

/// The crate `signature` has the one comparison that takes the same time wherever two texts differ;
/// its own tests look that nothing there compares by itself. Here nothing compares at all.
#[test]
fn the_server_compares_no_secret_itself() {
    let ours = |source: &Source| {
        source.path.starts_with("server/src/") && !source.path.ends_with("tests.rs")
    };
    let mut offenses = Vec::new();
    for source in rust_sources().filter(ours) {
        let found = source.code().filter(|(_, line)| compares_a_secret(line));
        offenses.extend(found.map(|(number, line)| format!("{}:{number}: {line}", source.path)));
    }
    assert_none("a secret is compared where it takes longer the more of it is right", &offenses);
}

/// Whether an operand of `==` or `!=`, or of a call that compares, is called after a secret.
fn compares_a_secret(line: &str) -> bool {
    const NAMES: &[&str] = &["secret", "verify_token", "password", "mac"];
    const COMPARES: &[&str] =
        &["==", "!=", ".eq(", ".ne(", ".cmp(", ".starts_with(", ".ends_with(", ".contains("];
    let is_secret = |operand: Option<&str>| {
        let operand = operand.unwrap_or_default();
        let words = operand.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let named = words.clone().any(|word| NAMES.contains(&word));
        named && !operand.contains("len()") && !operand.contains('"')
    };
    let literal = |text: &str| ["\"", "'", "b\""].iter().any(|quote| text.starts_with(quote));
    let sides = COMPARES.iter().filter_map(|sign| line.split_once(sign));
    sides.filter(|(_, right)| !literal(right.trim_start())).any(|(left, right)| {
        is_secret(left.split_whitespace().next_back()) || is_secret(right.split_whitespace().next())
    })
}

#[test]
fn a_comparison_of_a_secret_is_found_by_its_name() {
    for (line, expected, why) in [
        ("if secret.text == given {", true, "on the left"),
        ("if given != self.verify_token {", true, "on the right"),
        ("if secret.expose().eq(given) {", true, "by a method"),
        ("if given.starts_with(secret) {", true, "its beginning"),
        ("if secret.text.starts_with('{') {", false, "what everybody knows"),
        ("if secret.text.len() == 3 {", false, "a length is no secret"),
        ("if secrets == 3 {", false, "a number of them"),
        ("if name == \"secret\" {", false, "its name"),
        ("let secret = a == b;", false, "beside"),
    ] {
        assert_eq!(compares_a_secret(line), expected, "{line}: {why}");
    }
}
