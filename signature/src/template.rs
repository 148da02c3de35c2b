//! Small texts with placeholders: what is signed, and where an event's id and type are.

use std::borrow::Cow;

use crate::{
    json::{self, Pointer},
    received::{Received, Refusal, Step},
};

/// Where a placeholder's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Body,
    Timestamp,
    Id,
    Method,
    Url,
    Secret,
    PublicKey,
    Header(String),
    Query(String),
    Form(String),
    Json(Pointer),
}

/// One text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pieces: Vec<Piece>,
    /// Left out as a whole when something that it names is absent.
    optional: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(Source),
}

/// What placeholders can be filled with.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) request: &'a Received<'a>,
    pub(crate) timestamp: Option<&'a str>,
    pub(crate) id: Option<&'a str>,
    pub(crate) secret: &'a str,
    pub(crate) public_key: Option<&'a str>,
    /// Values of the body that were read before, so that it is not read again for each.
    pub(crate) plucked: &'a [(&'a Pointer, Option<String>)],
}

impl<'a> Facts<'a> {
    pub(crate) fn of(request: &'a Received<'a>) -> Self {
        Self { request, timestamp: None, id: None, secret: "", public_key: None, plucked: &[] }
    }
}

impl Part {
    /// Reads a part of what is signed: `{body}`, `v0:`, `?id:{query:data.id};`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (optional, mut rest) = match text.strip_prefix('?') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut pieces = Vec::new();
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) =
                after.split_once('}').ok_or_else(|| format!("{text:?} has a {{ without its }}"))?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Value(source(name)?));
            rest = behind;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self { pieces, optional })
    }

    /// Reads where a single value is: `header:NAME`, `json:/a/b`, `const:TEXT`, or a text with
    /// placeholders.
    pub(crate) fn parse_value(text: &str) -> Result<Self, String> {
        let pieces = match text.split_once(':') {
            _ if text.contains('{') => return Self::parse(text),
            Some(("const", value)) => vec![Piece::Text(value.to_owned())],
            _ => vec![Piece::Value(source(text)?)],
        };
        Ok(Self { pieces, optional: false })
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value(source) => Some(source),
            Piece::Text(_) => None,
        })
    }

    /// The header that it names, if it is that and nothing else.
    pub(crate) fn lone_header(&self) -> Option<&str> {
        match &*self.pieces {
            [Piece::Value(Source::Header(name))] => Some(name),
            _ => None,
        }
    }

    /// Adds what it comes to, as bytes, to `out`. What is signed must be there and readable.
    pub(crate) fn signed<'a>(
        &'a self,
        facts: &Facts<'a>,
        out: &mut Vec<Cow<'a, [u8]>>,
    ) -> Result<(), Refusal> {
        let before = out.len();
        for piece in &self.pieces {
            let value = match piece {
                Piece::Text(text) => Cow::Borrowed(text.as_bytes()),
                Piece::Value(source) => match source.strict(facts)? {
                    Some(value) => value,
                    None if self.optional => {
                        out.truncate(before);
                        return Ok(());
                    }
                    None => return Err(source.missing()),
                },
            };
            out.push(value);
        }
        Ok(())
    }

    /// What it comes to as a text, or `None` when something that it names is absent. For ids and
    /// types, which are no matter of security.
    pub(crate) fn text<'a>(&'a self, facts: &Facts<'a>) -> Option<Cow<'a, str>> {
        if let [Piece::Value(source)] = &*self.pieces {
            return source.lenient(facts).filter(|value| !value.is_empty());
        }
        let mut whole = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => whole.push_str(text),
                Piece::Value(source) => whole.push_str(&source.lenient(facts)?),
            }
        }
        (!whole.is_empty()).then_some(Cow::Owned(whole))
    }
}

fn source(name: &str) -> Result<Source, String> {
    let named = |value: &str| {
        if value.is_empty() { Err(format!("{name:?} names nothing")) } else { Ok(value.to_owned()) }
    };
    Ok(match name.split_once(':') {
        None => match name {
            "body" => Source::Body,
            "ts" => Source::Timestamp,
            "id" => Source::Id,
            "method" => Source::Method,
            "url" => Source::Url,
            "secret" => Source::Secret,
            "public_key" => Source::PublicKey,
            _ => return Err(unknown(name)),
        },
        Some(("header", value)) => Source::Header(named(value)?),
        Some(("query", value)) => Source::Query(named(value)?),
        Some(("form", value)) => Source::Form(named(value)?),
        Some(("json", value)) => Source::Json(
            Pointer::parse(value)
                .ok_or_else(|| format!("{value:?} is no JSON pointer; it looks like /data/id"))?,
        ),
        Some(_) => return Err(unknown(name)),
    })
}

fn unknown(name: &str) -> String {
    format!(
        "{name:?} names no value; there are body, ts, id, method, url, secret, public_key, \
         header:NAME, query:NAME, form:NAME and json:/POINTER"
    )
}

impl Source {
    fn strict<'a>(&'a self, facts: &Facts<'a>) -> Result<Option<Cow<'a, [u8]>>, Refusal> {
        Ok(match self {
            Self::Body => Some(Cow::Borrowed(facts.request.body())),
            Self::Url => Some(Cow::Borrowed(facts.request.url()?.as_bytes())),
            Self::Header(name) => facts
                .request
                .optional(name, Step::Header)?
                .map(|value| Cow::Borrowed(value.as_bytes())),
            _ => self.lenient(facts).map(|value| match value {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            }),
        })
    }

    fn lenient<'a>(&'a self, facts: &Facts<'a>) -> Option<Cow<'a, str>> {
        match self {
            Self::Body => std::str::from_utf8(facts.request.body()).ok().map(Cow::Borrowed),
            Self::Timestamp => facts.timestamp.map(Cow::Borrowed),
            Self::Id => facts.id.map(Cow::Borrowed),
            Self::Method => Some(Cow::Borrowed(facts.request.method())),
            Self::Url => facts.request.url().ok().map(Cow::Borrowed),
            Self::Secret => Some(Cow::Borrowed(facts.secret)),
            Self::PublicKey => facts.public_key.map(Cow::Borrowed),
            Self::Header(name) => facts.request.lenient(name).map(Cow::Borrowed),
            Self::Query(name) => facts.request.query(name),
            Self::Form(name) => form(facts.request.body(), name),
            Self::Json(pointer) => match facts.plucked.iter().find(|(p, _)| *p == pointer) {
                Some((_, value)) => value.clone().map(Cow::Owned),
                None => json::pluck(facts.request.body(), &[pointer]).remove(0).map(Cow::Owned),
            },
        }
    }

    fn missing(&self) -> Refusal {
        let (step, part) = match self {
            Self::Id => (Step::Id, "the event's id".to_owned()),
            Self::Timestamp => (Step::Timestamp, "the timestamp".to_owned()),
            Self::Header(name) => (Step::Header, name.clone()),
            Self::Query(name) => (Step::Url, format!("{name} in the URL")),
            Self::Form(name) => (Step::Body, format!("{name} in the body")),
            Self::Json(pointer) => {
                (Step::Body, format!("/{} in the body", pointer.parts().join("/")))
            }
            _ => (Step::Header, format!("{self:?}")),
        };
        Refusal::malformed(step, part, "is missing")
    }
}

/// A field of a form. One byte order mark in front is not part of its first name.
pub(crate) fn form<'a>(body: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    form_urlencoded::parse(body).find(|(found, _)| found == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts<'a>(request: &'a Received<'a>) -> Facts<'a> {
        Facts { timestamp: Some("5"), id: Some("a"), ..Facts::of(request) }
    }

    #[test]
    fn a_part_is_filled_or_left_out() {
        let headers: [(&str, &[u8]); 1] = [("X-Id", b"h")];
        let request =
            Received::new(&headers, br#"{"a":{"b":1}}"#).with_url("https://h/x?q=a%20b#q=z");
        for (text, expected, why) in [
            ("v0:{ts}:", "v0:5:", "text around"),
            ("{id}.{ts}", "a.5", "two in one"),
            ("{header:x-id}", "h", "names of headers have no case"),
            ("{query:q}", "a b", "decoded"),
            ("{json:/a/b}", "1", "in the body"),
            ("?id:{query:none};", "", "left out"),
            ("?id:{query:q};", "id:a b;", "not left out"),
            ("{method} {url}", "POST https://h/x?q=a%20b#q=z", "the request"),
        ] {
            let part = Part::parse(text).unwrap();
            let mut out = Vec::new();
            part.signed(&facts(&request), &mut out).unwrap();
            assert_eq!(String::from_utf8(out.concat()).unwrap(), expected, "{text}: {why}");
        }
        let missing =
            Part::parse("{query:none}").unwrap().signed(&facts(&request), &mut Vec::new());
        assert_eq!(missing.unwrap_err().to_string(), "none in the URL is missing");
    }

    #[test]
    fn an_id_can_be_put_together() {
        let body = br#"{"event":{"channel":"C1","ts":"17.5"},"n":""}"#;
        let request = Received::new(&[], body);
        for (text, expected, why) in [
            ("{json:/event/channel}-{json:/event/ts}", Some("C1-17.5"), "of two"),
            ("{json:/event/channel}-{json:/event/none}", None, "of which one is missing"),
            ("json:/event/ts", Some("17.5"), "of one"),
            ("json:/n", None, "empty is none"),
            ("const:poke", Some("poke"), "always the same"),
            ("header:x", None, "no such header"),
        ] {
            let part = Part::parse_value(text).unwrap();
            assert_eq!(part.text(&facts(&request)).as_deref(), expected, "{text}: {why}");
        }
    }

    #[test]
    fn a_wrong_placeholder_is_named() {
        for (text, expected) in [
            ("{bodi}", "\"bodi\" names no value"),
            ("{body", "without its }"),
            ("{header:}", "names nothing"),
            ("{json:a}", "no JSON pointer"),
            ("{cookie:x}", "names no value"),
        ] {
            assert!(Part::parse(text).unwrap_err().contains(expected), "{text}");
        }
        assert!(Part::parse_value("heade:x").unwrap_err().contains("header:NAME"));
    }

    #[test]
    fn a_form_has_fields() {
        assert_eq!(form(b"\xef\xbb\xbfa=1&b=x%20y", "a").as_deref(), Some("1"));
        assert_eq!(form(b"a=1&b=x+y", "b").as_deref(), Some("x y"));
        assert_eq!(form(b"\xff\xfe", "a"), None);
    }
}
