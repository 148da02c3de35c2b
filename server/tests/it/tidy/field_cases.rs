//! `tests/field-cases.md` says of each fault that others had which test keeps it out; a test that
//! was renamed must not leave its fault alone.

use super::{assert_none, root, sources};

/// What a row says when it names no test.
const REASONS: &[&str] = &["later: ", "by decision: ", "cannot occur: "];

/// A row of the tables: its number, and what it says of us.
fn rows(text: &str) -> Vec<(&str, &str)> {
    let row = |line| {
        let cells: Vec<&str> = str::split(line, '|').map(str::trim).collect();
        match cells[..] {
            ["", number, fault, here, ""] if number.starts_with(['P', 'B']) => {
                assert!(!fault.is_empty(), "{line}: no fault");
                Some((number, here))
            }
            _ => None,
        }
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn every_field_case_names_tests_that_exist_or_says_why_not() {
    let text = std::fs::read_to_string(root().join("tests/field-cases.md")).unwrap();
    let code: String = sources()
        .into_iter()
        .filter(|source| source.is_rust() || source.has_extension("py"))
        .map(|source| source.text)
        .collect();
    let rows = rows(&text);
    assert!(rows.len() > 140, "only {} rows are read", rows.len());

    let mut offenses = Vec::new();
    for (place, (number, here)) in rows.iter().enumerate() {
        let tests: Vec<&str> =
            here.split('`').skip(1).step_by(2).filter(|name| name.contains('_')).collect();
        for test in &tests {
            let there = ["fn", "def"].iter().any(|kind| code.contains(&format!("{kind} {test}(")));
            if !there {
                offenses.push(format!("{number}: there is no test {test}"));
            }
        }
        if tests.is_empty() && !REASONS.iter().any(|reason| here.starts_with(reason)) {
            offenses.push(format!("{number}: neither a test nor a reason: {here:?}"));
        }
        if rows[..place].iter().any(|(other, _)| other == number) {
            offenses.push(format!("{number}: there twice"));
        }
    }
    assert_none("a row of tests/field-cases.md", &offenses);
}
