//! What the manual lists is what the program has.

use std::{fmt::Write as _, fs, path::Path};

use snaphook::config::keys::KEYS;

/// The rows between the two marks of docs/operating.md, from the one list of settings.
#[test]
fn the_manual_lists_every_setting_as_it_is() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operating.md");
    let manual = fs::read_to_string(file).unwrap();
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
