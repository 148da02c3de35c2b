//! Values that may stand in a file or come through a pipe: `TEXT`, `@FILE`, `-`.

use std::io::Read as _;

use anyhow::Context as _;
use serde_json::Value;

use super::exit::Failure;

/// The bytes of a value: of the file behind `@`, of standard input for `-`, or the text itself.
pub fn bytes(text: &str) -> anyhow::Result<Vec<u8>> {
    if text == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
        return Ok(bytes);
    }
    match text.strip_prefix('@') {
        Some(path) => Ok(std::fs::read(path)
            .map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// The JSON of a value; `flag` names it in the error.
pub fn json(flag: &str, text: &str) -> anyhow::Result<Value> {
    serde_json::from_slice(&bytes(text)?).map_err(|error| {
        Failure::usage(format!("--{flag} is no JSON: {error}"))
            .hint("write JSON in single quotes, @FILE, or - for standard input")
            .into()
    })
}

/// The secrets in a file: one a line, or a key as PEM or JSON.
pub fn secrets(path: &str) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?;
    if text.starts_with("-----BEGIN") || text.starts_with('{') {
        return Ok(vec![text.trim_end().to_owned()]);
    }
    let secrets: Vec<String> =
        text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    if secrets.is_empty() {
        // Without one nothing is verified: nobody who names a file wants that.
        return Err(Failure::usage(format!("{path} holds no secret: write one a line")).into());
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_its_text_or_its_files_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, b"\xff\n").unwrap();
        assert_eq!(bytes("{}").unwrap(), b"{}");
        assert_eq!(bytes(&format!("@{}", file.path().display())).unwrap(), b"\xff\n");
        assert!(bytes("@/nowhere").unwrap_err().to_string().starts_with("cannot read /nowhere: "));
        for (text, expected) in [("a\n\nb\n", 2), ("-----BEGIN X\nY\n", 1), ("", 0), (" \n\n", 0)] {
            std::fs::write(&file, text).unwrap();
            let found = secrets(&file.path().display().to_string());
            assert_eq!(found.map_or(0, |found| found.len()), expected, "{text:?}");
        }
        let error = json("metadata", "{a}").unwrap_err().to_string();
        assert!(error.starts_with("--metadata is no JSON: ") && error.contains("@FILE"), "{error}");
    }
}
