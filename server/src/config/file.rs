//! The file: TOML, every key known, every complaint with its line.

use std::{collections::BTreeMap, io::ErrorKind, path::Path};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    DEFAULT_FILE,
    keys::{self, Key},
    read::{Origin, Written},
    source_tables::SourceTable,
};

/// What was written, by key.
type ByKey = BTreeMap<&'static str, Written>;

/// What the file sets, by key, and its `[[source]]` tables. No file is no settings, unless one was
/// named.
pub fn read(named: Option<&Path>, problems: &mut Vec<String>) -> (ByKey, Vec<SourceTable>) {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound && named.is_none() => String::new(),
        Err(error) => {
            problems.push(format!("cannot read the settings in {}: {error}", path.display()));
            return (ByKey::new(), Vec::new());
        }
    };
    parse(&path.display().to_string(), &text, problems)
}

fn parse(name: &str, text: &str, problems: &mut Vec<String>) -> (ByKey, Vec<SourceTable>) {
    let file = File { name, text };
    let (mut written, mut sources) = (ByKey::new(), Vec::new());
    match DeTable::parse(text) {
        Ok(mut table) => {
            if let Some(value) = table.get_mut().remove("source") {
                let place = |offset| format!("{name}:{}", file.line(offset));
                match SourceTable::all(&value, place, text) {
                    Ok(tables) => sources = tables,
                    Err(problem) => {
                        problems.push(format!("{}: {problem}", place(value.span().start)));
                    }
                }
            }
            file.table("", table.get_ref(), &mut written, problems);
        }
        Err(error) => {
            let line = error.span().map_or(1, |span| file.line(span.start));
            problems.push(format!("{name}:{line}: {}", error.message()));
        }
    }
    (written, sources)
}

struct File<'a> {
    name: &'a str,
    text: &'a str,
}

impl File<'_> {
    fn line(&self, offset: usize) -> usize {
        1 + self.text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count()
    }

    /// Walks one table; `above` is its name with a dot behind, or nothing for the topmost.
    fn table(
        &self,
        above: &str,
        table: &DeTable<'_>,
        written: &mut BTreeMap<&'static str, Written>,
        problems: &mut Vec<String>,
    ) {
        for (part, value) in table {
            let name = format!("{above}{}", part.get_ref());
            let line = self.line(part.span().start);
            if let Some(key) = keys::find(&name) {
                match self.written(key, line, value) {
                    Ok(found) => drop(written.insert(key.name, found)),
                    Err(problem) => problems.push(format!("{}:{line}: {problem}", self.name)),
                }
            } else if let Some((_, why)) = keys::LATER.iter().find(|(later, _)| *later == name) {
                problems.push(format!("{}:{line}: {name}: {why}; remove it", self.name));
            } else if let (DeValue::Table(inner), true) = (value.get_ref(), is_table(&name)) {
                self.table(&format!("{name}."), inner, written, problems);
            } else {
                let meant = keys::meant(&name, |key| key.name.to_owned());
                let file = self.name;
                problems.push(format!("{file}:{line}: there is no setting {name}; {meant}"));
            }
        }
    }

    fn written(
        &self,
        key: &'static Key,
        line: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Written, String> {
        let origin = Origin::File { name: self.name.to_owned(), line };
        let texts = match value.get_ref() {
            DeValue::Array(items) if key.is_list() => {
                items.iter().map(|item| self.text_of(item)).collect::<Option<Vec<_>>>()
            }
            DeValue::Array(_) => return Err(format!("{} takes one value, no list", key.name)),
            _ if key.is_list() => self.text_of(value).map(|text| Written::split(&text)),
            _ => self.text_of(value).map(|text| vec![text]),
        };
        match texts {
            Some(texts) => Ok(Written { texts, origin }),
            None => Err(format!("{} takes a value, no table", key.name)),
        }
    }

    /// A value's text, numbers as they were written. `None` for tables and lists.
    fn text_of(&self, value: &Spanned<DeValue<'_>>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.clone().into_owned()),
            DeValue::Array(_) | DeValue::Table(_) => None,
            _ => self.text.get(value.span()).map(str::to_owned),
        }
    }
}

/// Whether `name` is a table of settings, known or of versions to come.
fn is_table(name: &str) -> bool {
    let inside = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    keys::KEYS.iter().map(|key| key.name).chain(keys::LATER.iter().map(|later| later.0)).any(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_the_text_they_were_written_with() {
        let mut problems = Vec::new();
        let text = "roles = ['api', \"worker\"]\n[guard]\nports = [80, '443']\nhttps_only = true\n\
                    [delivery]\njitter = 0.10\nretry_schedule = 'brisk'";

        let (written, _) = parse("f", text, &mut problems);

        assert_eq!(problems, Vec::<String>::new());
        for (key, expected) in [
            ("roles", vec!["api", "worker"]),
            ("guard.ports", vec!["80", "443"]),
            ("guard.https_only", vec!["true"]),
            ("delivery.jitter", vec!["0.10"]),
            ("delivery.retry_schedule", vec!["brisk"]),
        ] {
            assert_eq!(written[key].texts, expected, "{key}");
        }
    }

    #[test]
    fn every_complaint_has_its_line_and_a_remedy() {
        for (text, expected) in [
            ("\nlitsen = ''", "f:2: there is no setting litsen; did you mean listen?"),
            ("[delivery]\nlisten = ''", "f:2: there is no setting delivery.listen; did you mean"),
            ("[colors]\nred = 1", "f:1: there is no setting colors; docs/operating.md lists"),
            ("delivery = 5", "f:1: there is no setting delivery; docs/operating.md lists"),
            ("listen = ['a']", "f:1: listen takes one value, no list"),
            ("listen = {port = 1}", "f:1: listen takes a value, no table"),
            ("[notify]\nsmtp = ''", "f:2: notify.smtp: this version sends no mail; remove it"),
            ("\nsource = 1", "f:2: source takes tables; begin each with [[source]]"),
            ("[source]\nname = 'a'", "f:1: source takes tables; begin each with [[source]]"),
            ("listen = ", "f:1: "),
            ("listen = 'a'\nlisten = 'b'", "f:2: duplicate key"),
        ] {
            let mut problems = Vec::new();
            parse("f", text, &mut problems);
            assert_eq!(problems.len(), 1, "{text}: {problems:?}");
            assert!(problems[0].starts_with(expected), "{text}: {problems:?}");
        }
    }

    #[test]
    fn a_file_that_was_named_must_exist() {
        let mut problems = Vec::new();
        read(Some(Path::new("/nowhere/snaphook.toml")), &mut problems);
        assert!(problems[0].starts_with("cannot read the settings in /nowhere/snaphook.toml: "));
    }
}
