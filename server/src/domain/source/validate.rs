//! What is wrong with the settings of a source taken together.

use std::time::Duration;

use super::{SchemeText, SourceSettings, scheme_problem};
use crate::domain::{
    event_type::EventType,
    limits::{PAYLOAD_BYTES_MAX, SCHEMA_BYTES_MAX},
    problem::{Problem, shorten, shown},
    schema::Schema,
    size,
};

/// Characters of a source's name, so that a provider's type has room beside it.
pub const NAME_CHARS_MAX: usize = 64;

/// How far a timestamp may be off at most: what is remembered of requests is remembered longer.
pub const TOLERANCE_MAX: Duration = Duration::from_hours(7 * 24);

/// Bytes of the second part of a credential: a chain of certificates.
const PUBLIC_KEY_BYTES_MAX: usize = 16 << 10;

/// Bytes of a verify token.
const VERIFY_TOKEN_BYTES_MAX: usize = 256;

/// Bytes of a URL that a provider signs.
const PUBLIC_URL_BYTES_MAX: usize = 2_048;

/// Templates of one list.
const TEMPLATES_MAX: usize = 16;

/// Bytes of one template.
const TEMPLATE_BYTES_MAX: usize = 256;

/// Schemas of one source.
const SCHEMAS_MAX: usize = 256;

/// Bytes of all schemas of one source, for they are kept in memory, compiled.
const SCHEMAS_BYTES_MAX: usize = SCHEMA_BYTES_MAX;

/// The most rejected requests that can be kept of one source.
pub const KEEP_REJECTED_MAX: u32 = 10_000;

impl SourceSettings {
    /// Everything that is wrong with these settings taken together. Secrets are judged apart.
    pub fn validate(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.name_problem().into_iter().collect();
        match self.scheme() {
            Err(problem) => problems.push(problem),
            Ok(scheme) => {
                problems.extend(self.template_problems());
                if let Err(error) = self.checked_templates(&scheme) {
                    let problem = scheme_problem(&error);
                    let field = match problem.field.as_str() {
                        "scheme.id" => "id_from",
                        "scheme.type" => "type_from",
                        other => other,
                    };
                    problems.push(Problem::new(field, &problem.problem));
                }
            }
        }
        problems.extend(self.text_problems());
        problems.extend(self.number_problems());
        problems.extend(self.answer.problems());
        problems.extend(self.schema_problems());
        problems
    }

    fn name_problem(&self) -> Option<Problem> {
        let name = &self.name;
        let wrong = match EventType::parse(name) {
            _ if name.is_empty() => "it is missing; types of its events begin with it, as stripe \
                                     in stripe.invoice.paid"
                .to_owned(),
            _ if name.len() > NAME_CHARS_MAX => {
                format!("it has {} characters; {NAME_CHARS_MAX} are allowed", name.chars().count())
            }
            _ if name.contains('.') => {
                format!("{} has a dot in it; a source's name is one part of a type", shown(name))
            }
            Err(_) => format!("{} is no name; use letters, digits, _ and - only", shown(name)),
            Ok(_) if name == "snaphook" => "snaphook is for our own events; use another".to_owned(),
            Ok(_) => return None,
        };
        Some(Problem::new("name", wrong))
    }

    fn template_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (field, templates) in [("id_from", &self.id_from), ("type_from", &self.type_from)] {
            if templates.len() > TEMPLATES_MAX {
                let problem =
                    format!("there are {}; at most {TEMPLATES_MAX} are allowed", templates.len());
                problems.push(Problem::new(field, problem));
            }
            let long = templates.iter().position(|text| text.len() > TEMPLATE_BYTES_MAX);
            if let Some(index) = long {
                let bytes = templates[index].len();
                let problem =
                    format!("it is {bytes} bytes; at most {TEMPLATE_BYTES_MAX} are allowed");
                problems.push(Problem::new(format!("{field}[{index}]"), problem));
            }
        }
        problems
    }

    fn text_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut limit = |field: &str, text: Option<&String>, most: usize| {
            if let Some(text) = text.filter(|text| text.len() > most || text.is_empty()) {
                let bytes = text.len();
                problems
                    .push(Problem::new(field, format!("it is {bytes} bytes; write 1 to {most}")));
            }
        };
        limit("public_key", self.public_key.as_ref(), PUBLIC_KEY_BYTES_MAX);
        let token = self.verify_token.as_ref().map(|token| &token.0);
        limit("verify_token", token, VERIFY_TOKEN_BYTES_MAX);
        if let Some(text) = &self.public_url
            && let Some(problem) = url_problem(text)
        {
            problems.push(Problem::new("public_url", problem));
        }
        if let SchemeText::Own(document) = &self.scheme
            && document.otherwise.is_some()
        {
            let problem = "only schemes of the table have another one to go on with; leave it out";
            problems.push(Problem::new("scheme.else", problem));
        }
        problems
    }

    fn number_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(tolerance) = self.tolerance.filter(|text| text.0 > TOLERANCE_MAX) {
            let problem = format!("{tolerance} is too long; write 7d or less");
            problems.push(Problem::new("tolerance", problem));
        }
        if let Some(limit) =
            self.body_limit.filter(|text| !(1..=PAYLOAD_BYTES_MAX).contains(&text.0))
        {
            let most = size::write(PAYLOAD_BYTES_MAX);
            problems.push(Problem::new(
                "body_limit",
                format!("{limit} does not fit; write 1B to {most}"),
            ));
        }
        if ![400, 401].contains(&self.reject_status) {
            let problem = format!("{} does not fit; write 401 or 400", self.reject_status);
            problems.push(Problem::new("reject_status", problem));
        }
        if let Some(count) = self.keep_rejected.filter(|count| *count > KEEP_REJECTED_MAX) {
            let problem = format!("{count} does not fit; write 0 to {KEEP_REJECTED_MAX}");
            problems.push(Problem::new("keep_rejected", problem));
        }
        problems
    }

    fn schema_problems(&self) -> Vec<Problem> {
        if self.schemas.len() > SCHEMAS_MAX {
            let problem =
                format!("there are {}; at most {SCHEMAS_MAX} are allowed", self.schemas.len());
            return vec![Problem::new("schemas", problem)];
        }
        let long = self.schemas.keys().find(|name| name.len() > TEMPLATE_BYTES_MAX);
        if let Some(name) = long {
            let problem = format!("its name has {} bytes; at most 256 are allowed", name.len());
            return vec![Problem::new(format!("schemas.{}", shorten(name, 64)), problem)];
        }
        let bytes = serde_json::to_string(&self.schemas).map_or(usize::MAX, |text| text.len());
        if bytes > SCHEMAS_BYTES_MAX {
            let problem = format!(
                "they are {bytes} bytes together; {SCHEMAS_BYTES_MAX} are allowed, so leave \
                 descriptions and examples out"
            );
            return vec![Problem::new("schemas", problem)];
        }
        let refused = self.schemas.iter().find_map(|(name, source)| {
            let wrong = Schema::compile(source).err()?;
            let at = if wrong.path.is_empty() { "" } else { " at " };
            let problem = format!("{}{at}{}", wrong.problem, wrong.path);
            Some(Problem::new(format!("schemas.{}", shorten(name, 64)), problem))
        });
        refused.into_iter().collect()
    }
}

/// It is kept as it is written, for the provider signs it as it is written there.
fn url_problem(text: &str) -> Option<String> {
    if text.len() > PUBLIC_URL_BYTES_MAX {
        return Some(format!(
            "it is {} bytes; at most {PUBLIC_URL_BYTES_MAX} are allowed",
            text.len()
        ));
    }
    let whole = (text.starts_with("https://") || text.starts_with("http://"))
        && text.bytes().all(|byte| matches!(byte, b'!'..=b'~'))
        && url::Url::parse(text).is_ok();
    (!whole).then(|| {
        format!("{} is no URL; write the one that the provider was given, https://…", shown(text))
    })
}
