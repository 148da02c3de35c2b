//! Rules about the database: both dialects stay twins, and every statement is run by a test.
//! Queries are not checked when compiled; this is what pays for it.

use std::{collections::BTreeSet, fs};

use super::{assert_none, mentions, root, rust_sources};

#[test]
fn both_databases_have_the_same_migrations() {
    let [postgres, sqlite] = ["postgres", "sqlite"].map(|folder| {
        let folder = root().join("server/migrations").join(folder);
        let Ok(entries) = fs::read_dir(&folder) else { return BTreeSet::new() };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<BTreeSet<_>>()
    });
    let lonely: Vec<_> = postgres.symmetric_difference(&sqlite).cloned().collect();
    assert_none("a migration exists for one database only", &lonely);
}

#[test]
fn every_store_method_is_run_by_a_test() {
    let (store, tests): (Vec<_>, Vec<_>) = rust_sources()
        .filter(|source| {
            ["server/src/store", "server/tests/it"].iter().any(|in_| source.path.starts_with(in_))
        })
        .partition(|source| source.path.starts_with("server/src/store"));
    let tests: String = tests.into_iter().map(|source| source.text).collect();

    let mut untested = Vec::new();
    for source in &store {
        for (number, line) in source.code() {
            if let Some(name) = public_async_function(line)
                && !mentions(&tests, &format!("{name}("))
            {
                untested.push(format!("{}:{number}: {name}", source.path));
            }
        }
    }
    assert_none("no test in server/tests/it calls", &untested);
}

/// The name, if `line` begins a public async function.
fn public_async_function(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub async fn ")?;
    rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}

#[test]
fn a_public_async_function_is_seen() {
    assert_eq!(public_async_function("    pub async fn add_event("), Some("add_event"));
    assert_eq!(public_async_function("    pub async fn list<'a>(&self)"), Some("list"));
    assert_eq!(public_async_function("    async fn private()"), None);
}
