//! Reads `handshakes.toml` and checks it whole.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Body, Member, Only, Rule, Text, Wanted};
use crate::{json::Pointer, scheme::Encoding};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    method: String,
    #[serde(default)]
    query: BTreeMap<String, String>,
    #[serde(default)]
    header: BTreeMap<String, String>,
    #[serde(default)]
    json: BTreeMap<String, String>,
    #[serde(default)]
    verified: bool,
    token: Option<String>,
    only: Option<OnlyDocument>,
    sign: Option<String>,
    enc: Option<String>,
    keep: Option<String>,
    visit: Option<String>,
    #[serde(default)]
    reply: ReplyDocument,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnlyDocument {
    of: String,
    chars: String,
    length: (usize, usize),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyDocument {
    status: Option<u16>,
    body: Option<String>,
    json: Option<toml::Table>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// The handshakes by the name of their scheme.
pub(crate) fn table(text: &str) -> Result<BTreeMap<String, Vec<Rule>>, String> {
    let documents: BTreeMap<String, Vec<Document>> =
        toml::from_str(text).map_err(|error| error.to_string())?;
    let rules = documents.into_iter().map(|(name, documents)| {
        let rules = documents.into_iter().map(rule).collect::<Result<_, _>>();
        rules.map_err(|problem: String| format!("{name}: {problem}")).map(|rules| (name, rules))
    });
    rules.collect()
}

fn rule(document: Document) -> Result<Rule, String> {
    let text = |text: Option<String>| text.as_deref().map(Text::parse).transpose();
    let sign = match (text(document.sign)?, document.enc.as_deref()) {
        (None, None) => None,
        (Some(text), Some("hex")) => Some((text, Encoding::Hex)),
        (Some(text), Some("base64")) => Some((text, Encoding::Base64)),
        _ => return Err("sign goes with enc, which is hex or base64".to_owned()),
    };
    let json = document.json.into_iter().map(|(pointer, value)| {
        let parsed = Pointer::parse(&pointer).ok_or(format!("{pointer:?} is no JSON pointer"))?;
        Ok((parsed, wanted(value)))
    });
    let headers = document.reply.headers.into_iter();
    let headers = headers.map(|(name, value)| Ok((name, Text::parse(&value)?)));
    let rule = Rule {
        method: document.method,
        query: document.query.into_iter().map(|(name, value)| (name, wanted(value))).collect(),
        header: document.header.into_iter().map(|(name, value)| (name, wanted(value))).collect(),
        json: json.collect::<Result<_, String>>()?,
        verified: document.verified,
        token: text(document.token)?,
        only: document.only.as_ref().map(only).transpose()?,
        sign,
        keep: text(document.keep)?,
        visit: text(document.visit)?,
        status: document.reply.status.unwrap_or(200),
        body: match (document.reply.body, document.reply.json) {
            (None, None) => Body::Empty,
            (Some(body), None) => Body::Plain(Text::parse(&body)?),
            (None, Some(members)) => {
                Body::Json(members.into_iter().map(member).collect::<Result<_, _>>()?)
            }
            _ => return Err("reply has a body or json, not both".to_owned()),
        },
        headers: headers.collect::<Result<_, String>>()?,
    };
    rule.checked()
}

impl Rule {
    /// What is signed for a stranger is bounded; a stranger has nothing fetched.
    fn checked(self) -> Result<Self, String> {
        let stranger = !self.verified && self.token.is_none();
        if stranger && self.sign.is_some() && self.only.is_none() {
            return Err("what is signed for a stranger needs `only`".to_owned());
        }
        if !self.verified && self.visit.is_some() {
            return Err("a URL is visited only for who has verified".to_owned());
        }
        let body: Vec<_> = match &self.body {
            Body::Empty => Vec::new(),
            Body::Plain(text) => vec![text],
            Body::Json(members) => members.iter().filter_map(|(_, member)| member.text()).collect(),
        };
        let mut texts = body.into_iter().chain(self.headers.iter().map(|(_, text)| text));
        if texts.any(Text::has_sig) != self.sign.is_some() {
            return Err("{sig} and sign go together".to_owned());
        }
        Ok(self)
    }
}

impl Member {
    fn text(&self) -> Option<&Text> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) => None,
        }
    }
}

fn wanted(value: String) -> Wanted {
    if value == "*" { Wanted::Any } else { Wanted::Exactly(value) }
}

fn member((name, value): (String, toml::Value)) -> Result<(String, Member), String> {
    let member = match value {
        toml::Value::String(text) => Member::Text(Text::parse(&text)?),
        toml::Value::Integer(number) => Member::Number(number),
        other => return Err(format!("{name} is neither a text nor a number: {other:?}")),
    };
    Ok((name, member))
}

/// Reads `A-Za-z_-`: ranges and single characters.
fn only(document: &OnlyDocument) -> Result<Only, String> {
    let mut rest = document.chars.chars().peekable();
    let mut chars = Vec::new();
    while let Some(from) = rest.next() {
        let mut ahead = rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(to)) if from <= to => {
                chars.push((from, to));
                rest = ahead;
            }
            _ => chars.push((from, from)),
        }
    }
    if chars.is_empty() || document.length.0 > document.length.1 {
        return Err("only allows nothing".to_owned());
    }
    Ok(Only { of: Text::parse(&document.of)?, chars, length: document.length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_each_is_of_a_scheme_that_there_is() {
        let table = table(include_str!("../handshakes.toml")).unwrap();
        assert!(table.len() >= 15);
        for name in table.keys() {
            assert!(crate::Scheme::named(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn what_would_give_something_away_is_refused() {
        for (rule, expected) in [
            ("sign = '{query:a}'\nenc = 'hex'\nreply.body = '{sig}'", "needs `only`"),
            ("reply.body = '{secret}'", "give the secret away"),
            ("visit = '{query:a}'", "only for who has verified"),
            ("reply.body = '{sig}'", "go together"),
            ("sign = '{body}'", "hex or base64"),
            ("reply = { body = 'a', json = {} }", "not both"),
            ("reply.json = { a = true }", "neither a text nor a number"),
            ("json = { a = '*' }", "no JSON pointer"),
            ("only = { of = '{body}', chars = '', length = [1, 2] }", "allows nothing"),
            ("replie = 1", "replie"),
        ] {
            let error = table(&format!("[[a]]\nmethod = 'GET'\n{rule}\n")).unwrap_err();
            assert!(error.contains(expected), "{rule}: {error}");
        }
    }

    #[test]
    fn characters_are_ranges_and_single_ones() {
        let of = |chars: &str| {
            let document =
                OnlyDocument { of: "{body}".into(), chars: chars.into(), length: (1, 1) };
            only(&document).unwrap().chars
        };
        assert_eq!(of("a-f0-9"), [('a', 'f'), ('0', '9')]);
        assert_eq!(of("A-Z_-"), [('A', 'Z'), ('_', '_'), ('-', '-')]);
        assert_eq!(of("-a"), [('-', '-'), ('a', 'a')]);
    }
}
