//! Who may know whom. The folders of `server/src` are the architecture; these rows keep it.

use super::{assert_none, mentions, rust_sources};

/// Read: no file under `.0` mentions any of `.1`. ARCHITECTURE.md has the picture.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("signature/src", &["axum", "http::", "hyper", "snaphook::", "sqlx", "std::net", "tokio"]),
    ("signature/src", CLOCKS),
    ("server/src/domain", &["async ", "axum", "hyper", "sqlx", "tokio"]),
    ("server/src/domain", &["crate::engine", "crate::manage", "crate::store", "crate::world"]),
    ("server/src/domain", DOORS),
    ("server/src/domain", CLOCKS),
    ("server/src/store", &["axum", "crate::engine", "crate::manage", "crate::world", "hyper"]),
    ("server/src/store", DOORS),
    ("server/src/store", CLOCKS),
    ("server/src/world", &["axum", "crate::engine", "crate::manage", "crate::store", "sqlx"]),
    ("server/src/world", DOORS),
    ("server/src/engine", &["axum", "hyper", "sqlx"]),
    ("server/src/engine", DOORS),
    ("server/src/engine", CLOCKS),
    ("server/src/manage", &["axum", "hyper", "sqlx"]),
    ("server/src/manage", DOORS),
    ("server/src/manage", CLOCKS),
    // The door for programs in Rust. It names sqlx for its callers' sake, whose connection it is.
    ("server/src/embed", &["axum", "crate::engine", "crate::manage", "crate::world", "hyper"]),
    ("server/src/embed", DOORS),
    ("server/src/embed", CLOCKS),
    ("server/src/api", &["crate::cli", "crate::ingress", "crate::server", "crate::ui", "sqlx"]),
    ("server/src/api", CLOCKS),
    ("server/src/ingress", &["crate::api", "crate::cli", "crate::server", "crate::ui", "sqlx"]),
    ("server/src/ingress", CLOCKS),
    ("server/src/ui", &["crate::api", "crate::cli", "crate::ingress", "crate::server", "sqlx"]),
    ("server/src/ui", CLOCKS),
];

/// What is behind features, for programs that want HTTP's types, a clock and a database with it.
const APART: &[&str] = &["signature/src/dedup", "signature/src/web"];

/// The ways in. Nothing behind them knows which one an event took.
const DOORS: &[&str] =
    &["crate::api", "crate::cli", "crate::ingress", "crate::server", "crate::ui"];

/// Time and chance come through `World`.
const CLOCKS: &[&str] = &["Instant::now", "SystemTime", "Timestamp::now", "getrandom", "rand::"];

#[test]
fn no_layer_knows_what_is_above_it() {
    let mut offenses = Vec::new();
    for source in rust_sources() {
        for (folder, words) in FORBIDDEN {
            let inside = source.path.strip_prefix(folder);
            let apart = APART.iter().any(|apart| source.path.starts_with(apart));
            if apart || !inside.is_some_and(|rest| rest.starts_with('/') || rest == ".rs") {
                continue;
            }
            for (number, line) in source.code() {
                for word in words.iter().filter(|word| mentions(line, word)) {
                    offenses
                        .push(format!("{}:{number}: {folder} must not know {word}", source.path));
                }
            }
        }
    }
    assert_none("a layer knows what it must not", &offenses);
}

#[test]
fn a_forbidden_word_is_found_wherever_it_begins() {
    for (line, word, expected, why) in [
        ("use sqlx::query;", "sqlx", true, "an import"),
        ("let x = crate::store::open();", "crate::store", true, "a path"),
        ("brand::new()", "rand::", false, "the end of another word"),
        ("my_sqlx", "sqlx", false, "a part of another word"),
    ] {
        assert_eq!(mentions(line, word), expected, "{line}: {why}");
    }
}
