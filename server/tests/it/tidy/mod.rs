//! The house rules that the compiler does not know. What a reviewer would have to remember stands
//! here as a test; STYLE.md gives the reasons.

mod code;
mod documents;
mod field_cases;
mod layers;
mod store;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders that hold what others wrote or what was built.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", ".venv", ".snaphook", "__pycache__"];

/// A text file of the repository.
struct Source {
    /// From the root of the repository, with `/`.
    path: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.has_extension("rs")
    }

    fn has_extension(&self, wanted: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == wanted)
    }

    /// Numbered lines without their comments. A `//` inside a string ends the line too; so far no
    /// rule minds.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines()).map(|(number, line)| {
            let is_url = |at: usize| line[..at].ends_with(':');
            match line.match_indices("//").find(|(at, _)| !is_url(*at)) {
                Some((at, _)) => (number, &line[..at]),
                None => (number, line),
            }
        })
    }

    /// Numbered lines of prose: of a document every line, of Rust its comments.
    fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let whole = self.has_extension("md");
        (1..).zip(self.text.lines()).filter_map(move |(number, line)| match line.find("//") {
            _ if whole => Some((number, line)),
            Some(at) => Some((number, &line[at..])),
            None => None,
        })
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Every text file of the repository, in the order of their paths.
fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    gather(&root(), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 20, "the walk over the repository finds nothing");
    found
}

/// Every Rust file of ours, tests included.
fn rust_sources() -> impl Iterator<Item = Source> {
    sources().into_iter().filter(Source::is_rust)
}

fn gather(folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            gather(&path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let path = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
            found.push(Source { path, text });
        }
    }
}

/// Whether `word` stands in `text` and does not begin in the middle of another word.
fn mentions(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
    })
}

/// Fails with one line for each offense, so that all can be mended at once.
fn assert_none(rule: &str, offenses: &[String]) {
    assert!(offenses.is_empty(), "{rule}:\n  {}", offenses.join("\n  "));
}
