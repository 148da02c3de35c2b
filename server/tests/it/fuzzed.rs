//! The fuzz targets over their seeds: what was found once is not found again. `make fuzz` goes on
//! from here.

#[path = "../../../fuzz/src/targets.rs"]
mod targets;

use std::{fs, path::Path};

#[test]
fn every_fuzz_target_holds_over_its_seeds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    for (name, target) in targets::ALL {
        let mut seeds = 0;
        for entry in fs::read_dir(folder.join(name)).unwrap() {
            let path = entry.unwrap().path();
            println!("{}", path.display()); // the last one is the one that failed
            target(&fs::read(path).unwrap());
            seeds += 1;
        }
        assert!(seeds > 2, "{name} has {seeds} seeds");
    }
}
