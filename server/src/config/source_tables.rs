//! The `[[source]]` tables of the file. Their fields are those of the API, with `tenant`, and with
//! `secrets`, which may be `env:NAME` or `file:PATH` as the verify token and the public key may.

use serde_json::{Map, Value};
use toml::{Spanned, de::DeValue};

use super::parse::confidential;
use crate::domain::{
    problem::Problem,
    source::{GivenSource, SourceSettings, Token},
    tenant::TenantId,
};

/// A table as it was written.
#[derive(Clone, Default)]
pub struct SourceTable {
    /// The file and the line of the table.
    place: String,
    /// Where each key is.
    places: Vec<(String, String)>,
    fields: Map<String, Value>,
}

impl SourceTable {
    /// The tables in `value`, the value of the key `source`; `place` tells where an offset is.
    pub fn all(
        value: &Spanned<DeValue<'_>>,
        place: impl Fn(usize) -> String,
        text: &str,
    ) -> Result<Vec<Self>, String> {
        const WRONG: &str = "source takes tables; begin each with [[source]]";
        let DeValue::Array(tables) = value.get_ref() else { return Err(WRONG.to_owned()) };
        let parsed: toml::Table =
            toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let values = parsed.get("source").and_then(toml::Value::as_array).ok_or(WRONG)?;
        let table = |(table, value): (&Spanned<DeValue<'_>>, &toml::Value)| {
            let DeValue::Table(keys) = table.get_ref() else { return Err(WRONG.to_owned()) };
            let fields = serde_json::to_value(value).map_err(|error| error.to_string())?;
            Ok(Self {
                place: place(table.span().start),
                places: keys
                    .keys()
                    .map(|key| (key.get_ref().to_string(), place(key.span().start)))
                    .collect(),
                fields: fields.as_object().cloned().ok_or(WRONG)?,
            })
        };
        tables.iter().zip(values).map(table).collect()
    }

    /// The source; or all that is wrong with it, a line each.
    pub fn read(&self, environment: &[(String, String)]) -> Result<GivenSource, Vec<String>> {
        let mut problems = Vec::new();
        let mut fields = self.fields.clone();
        let tenant = match fields.remove("tenant") {
            Some(Value::String(text)) => TenantId::parse(&text).map_err(|error| error.to_string()),
            Some(_) => Err("write a tenant's id in quotes".to_owned()),
            None => Err("it is missing; say whose the source is".to_owned()),
        };
        let secrets = secrets(fields.remove("secrets"), environment, &mut problems);
        for field in ["verify_token", "public_key"] {
            if let Some(Value::String(text)) = fields.get_mut(field) {
                match confidential(environment)(text) {
                    Ok(found) => found.expose().clone_into(text),
                    Err(problem) => problems.push(Problem::new(field, problem)),
                }
            }
        }
        let mut settings = SourceSettings::default();
        problems.extend(settings.apply(&fields));
        if problems.is_empty() {
            problems.extend(settings.validate());
        }
        if problems.is_empty() {
            let texts: Vec<&str> = secrets.iter().map(|token| token.0.as_str()).collect();
            problems.extend(settings.secret_problems(&texts));
        }
        match tenant {
            Ok(tenant) if problems.is_empty() => Ok(GivenSource { tenant, settings, secrets }),
            Ok(_) => Err(problems.iter().map(|problem| self.sentence(problem)).collect()),
            Err(problem) => {
                problems.insert(0, Problem::new("tenant", problem));
                Err(problems.iter().map(|problem| self.sentence(problem)).collect())
            }
        }
    }

    /// Where it is, for what is wrong with two of them together.
    pub fn place(&self) -> &str {
        &self.place
    }

    fn sentence(&self, problem: &Problem) -> String {
        let key = problem.field.split(['.', '[']).next().unwrap_or_default();
        let found = self.places.iter().find(|(name, _)| name == key);
        let place = found.map_or(&self.place, |(_, place)| place);
        format!("{place}: source.{problem}")
    }
}

/// The secrets, from wherever they are kept. No message holds any of one.
fn secrets(
    value: Option<Value>,
    environment: &[(String, String)],
    problems: &mut Vec<Problem>,
) -> Vec<Token> {
    let wrong = "write a list of texts, as [\"env:STRIPE_SECRET\", \"file:/run/secrets/x\"]";
    let texts = match value {
        None => return Vec::new(),
        Some(Value::Array(texts)) => texts,
        Some(_) => {
            problems.push(Problem::new("secrets", wrong));
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let field = format!("secrets[{index}]");
        match text.as_str().map(confidential(environment)) {
            Some(Ok(secret)) => found.push(Token(secret.expose().to_owned())),
            Some(Err(problem)) => problems.push(Problem::new(field, problem)),
            None => problems.push(Problem::new(field, wrong)),
        }
    }
    found
}

/// Reads all tables; what is wrong goes to `problems`.
pub fn read_all(
    tables: &[SourceTable],
    environment: &[(String, String)],
    problems: &mut Vec<String>,
) -> Vec<GivenSource> {
    let mut sources: Vec<GivenSource> = Vec::new();
    for table in tables {
        match table.read(environment) {
            Ok(source) => {
                let same = |other: &GivenSource| {
                    other.tenant == source.tenant && other.settings.name == source.settings.name
                };
                if sources.iter().any(same) {
                    let name = &source.settings.name;
                    problems.push(format!(
                        "{}: source.name: tenant {} has two tables of the name {name}; use another",
                        table.place(),
                        source.tenant
                    ));
                } else {
                    sources.push(source);
                }
            }
            Err(more) => problems.extend(more),
        }
    }
    sources
}
