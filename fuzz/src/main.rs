//! libFuzzer over one target, which `FUZZ_TARGET` names: see `scripts/fuzz`.
#![no_main]

mod targets;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<targets::Target> = OnceLock::new();

fn named() -> targets::Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = targets::ALL.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET={name:?} names no target")).1
}

fuzz_target!(|bytes: &[u8]| TARGET.get_or_init(named)(bytes));
