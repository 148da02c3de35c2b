//! From texts to values. Keeps every problem, so that a person mends all of them in one go.

use std::{collections::BTreeMap, fmt};

use super::keys::{self, Key};

/// Where a text was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The settings' file.
    File {
        /// Its name as it was given.
        name: String,
        /// From 1.
        line: usize,
    },
    /// A variable of the environment.
    Variable(String),
    /// A flag, named after its key.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(key) => write!(f, "--{}", key.replace(['.', '_'], "-")),
        }
    }
}

/// What was written for a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Written {
    /// One text; any number for a list.
    pub texts: Vec<String>,
    /// Where.
    pub origin: Origin,
}

impl Written {
    /// From a variable or a flag, where lists are separated by commas.
    pub fn text(key: &Key, text: &str, origin: Origin) -> Self {
        let texts = if key.is_list() { Self::split(text) } else { vec![text.to_owned()] };
        Self { texts, origin }
    }

    /// The parts of a list in one text.
    pub fn split(text: &str) -> Vec<String> {
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// The text as it may be shown to whoever runs the server.
    pub fn shown(&self, key: &Key) -> String {
        if key.is_secret() { "…".to_owned() } else { self.texts.join(",") }
    }
}

/// Parses texts by key and notes what is wrong.
pub struct Reader {
    written: BTreeMap<&'static str, Written>,
    /// Complete sentences.
    pub problems: Vec<String>,
    /// Keys that were asked for; a test compares them with the list.
    #[cfg(test)]
    pub asked: std::collections::BTreeSet<&'static str>,
}

impl Reader {
    /// Over what the layers found.
    pub fn new(written: BTreeMap<&'static str, Written>) -> Self {
        Self {
            written,
            problems: Vec::new(),
            #[cfg(test)]
            asked: std::collections::BTreeSet::new(),
        }
    }

    /// Notes a problem with what was written for `name`: value, place and remedy.
    pub fn complain(&mut self, name: &str, problem: impl fmt::Display) {
        let key = keys::find(name).expect("settings are read by names of keys");
        self.problems.push(match self.written.get(name) {
            None => format!("{name} is not set: {problem}"),
            Some(written) if key.is_secret() => format!("{}: {name}: {problem}", written.origin),
            Some(written) => {
                format!("{}: {name} = {:?}: {problem}", written.origin, written.texts.join(","))
            }
        });
    }

    fn texts(&mut self, name: &'static str) -> (Vec<String>, bool) {
        let key = keys::find(name).expect("settings are read by names of keys");
        #[cfg(test)]
        self.asked.insert(key.name);
        match self.written.get(name) {
            Some(written) => (written.texts.clone(), true),
            None => (Written::text(key, key.default, Origin::Flag(key.name)).texts, false),
        }
    }

    /// The value of `name`, or its default's when it is wrong or missing.
    pub fn one<T, E: fmt::Display>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> T {
        let (texts, _) = self.texts(name);
        match parse(texts.first().map_or("", String::as_str)) {
            Ok(value) => value,
            Err(problem) => {
                self.complain(name, problem);
                let default = keys::find(name).map_or("", |key| key.default);
                match parse(default) {
                    Ok(value) => value,
                    Err(problem) => unreachable!("default of {name}: {problem}"),
                }
            }
        }
    }

    /// The value of `name`, which has no default; `None` when it is not set, or wrong.
    pub fn optional<T, E: fmt::Display>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<T> {
        let (texts, is_written) = self.texts(name);
        let text = texts.first()?;
        if text.is_empty() {
            if is_written {
                self.complain(name, "it is empty; leave it out, or give a value");
            }
            return None;
        }
        parse(text).map_err(|problem| self.complain(name, problem)).ok()
    }

    /// All values of the list `name`, or its default when one is wrong.
    pub fn list<T, E: fmt::Display>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<T> {
        self.whole_list(name, |texts| texts.iter().map(|text| parse(text)).collect())
    }

    /// The value that the whole list `name` makes, or its default's when it is wrong.
    pub fn whole_list<T, E: fmt::Display>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&[String]) -> Result<T, E>,
    ) -> T {
        let (texts, _) = self.texts(name);
        match parse(&texts) {
            Ok(value) => value,
            Err(problem) => {
                self.complain(name, problem);
                let default = keys::find(name).map_or("", |key| key.default);
                match parse(&Written::split(default)) {
                    Ok(value) => value,
                    Err(problem) => unreachable!("default of {name}: {problem}"),
                }
            }
        }
    }
}
