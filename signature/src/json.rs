//! Single values out of a JSON body, without building the rest of it in memory.
//!
//! Bodies come from anyone: this reads once, keeps what a pointer names, and skips all else
//! without recursion. Of a repeated key the last counts, as for most programs that read the body
//! later. What is no JSON has no values.

use std::borrow::Cow;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON pointer (RFC 6901). One part may be `*`: each member of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    parts: Vec<String>,
}

impl Pointer {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts = text.strip_prefix('/')?.split('/');
        Some(Self { parts: parts.map(|part| part.replace("~1", "/").replace("~0", "~")).collect() })
    }

    pub(crate) fn parts(&self) -> &[String] {
        &self.parts
    }
}

/// What each pointer names: a text, a number as it is written, `true` or `false`. Lists, objects,
/// `null` and what is absent are `None`.
pub(crate) fn pluck(body: &[u8], pointers: &[&Pointer]) -> Vec<Option<String>> {
    let found = read(body, pointers).unwrap_or_default();
    let one = |slot: usize| {
        let mut values = found.iter().rev().filter(move |(at, _)| *at == slot);
        values.next().and_then(|(_, value)| value.clone())
    };
    (0..pointers.len()).map(one).collect()
}

/// What a pointer with a `*` names in each member of the list; `None` when there is no list.
pub(crate) fn pluck_each(body: &[u8], pointer: &Pointer) -> Option<Vec<Option<String>>> {
    let found = read(body, &[pointer])?;
    Some(found.into_iter().map(|(_, value)| value).collect())
}

/// `body` with the value at `pointer` set to a text, objects made where they are missing.
pub(crate) fn set(body: &[u8], pointer: &Pointer, text: &str) -> Option<Vec<u8>> {
    let mut whole: serde_json::Value = serde_json::from_slice(body).ok()?;
    put(&mut whole, &pointer.parts, text)?;
    serde_json::to_vec(&whole).ok()
}

fn put(into: &mut serde_json::Value, parts: &[String], text: &str) -> Option<()> {
    let Some((first, rest)) = parts.split_first() else {
        // A number stays a number.
        *into = match text.parse::<i64>() {
            Ok(number) if into.is_number() => number.into(),
            _ => text.into(),
        };
        return Some(());
    };
    match into {
        serde_json::Value::Array(members) if first == "*" => {
            members.iter_mut().try_for_each(|member| put(member, rest, text))
        }
        serde_json::Value::Array(members) => {
            put(members.get_mut(first.parse::<usize>().ok()?)?, rest, text)
        }
        serde_json::Value::Object(fields) => {
            let field = fields.entry(first.clone()).or_insert_with(|| {
                if rest.is_empty() { serde_json::Value::Null } else { serde_json::json!({}) }
            });
            put(field, rest, text)
        }
        _ => None,
    }
}

type Found = Vec<(usize, Option<String>)>;

fn read(body: &[u8], pointers: &[&Pointer]) -> Option<Found> {
    if pointers.is_empty() {
        return None;
    }
    // One byte order mark is not the sender's JSON.
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let text = std::str::from_utf8(body).ok()?;
    let mut found = Vec::new();
    let wanted = pointers.iter().enumerate().map(|(slot, pointer)| (slot, &*pointer.parts));
    let mut reader = serde_json::Deserializer::from_str(text);
    Walk { wanted: wanted.collect(), found: &mut found }.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(found)
}

/// One value, and what is wanted from below it.
struct Walk<'p, 'f> {
    wanted: Vec<(usize, &'p [String])>,
    found: &'f mut Found,
}

impl<'p> Walk<'p, '_> {
    /// What is wanted below one key or index; an empty rest is the value itself.
    fn below(&self, matches: impl Fn(&str) -> bool) -> Vec<(usize, &'p [String])> {
        let below = self.wanted.iter().filter_map(|(slot, parts)| {
            let (first, rest) = parts.split_first()?;
            matches(first).then_some((*slot, rest))
        });
        below.collect()
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        if self.wanted.iter().all(|(_, parts)| !parts.is_empty()) {
            return reader.deserialize_any(self);
        }
        // A value that is wanted, alone or besides what is below it.
        let raw: &RawValue = serde::Deserialize::deserialize(reader)?;
        let (here, below): (Vec<_>, Vec<_>) =
            self.wanted.into_iter().partition(|(_, parts)| parts.is_empty());
        for (slot, _) in here {
            self.found.push((slot, scalar(raw.get()).map(Cow::into_owned)));
        }
        if !below.is_empty() {
            let mut reader = serde_json::Deserializer::from_str(raw.get());
            // It was read once, so it is JSON.
            drop(Walk { wanted: below, found: self.found }.deserialize(&mut reader));
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let start = self.found.len();
        while let Some(key) = map.next_key::<Key<'de>>()? {
            let below = self.below(|part| part == key.0);
            if below.is_empty() {
                map.next_value::<IgnoredAny>()?;
            } else {
                // A value that is replaced takes with it what was found in it.
                let mut at = 0;
                self.found.retain(|(slot, _)| {
                    at += 1;
                    at <= start || below.iter().all(|(other, _)| other != slot)
                });
                map.next_value_seed(Walk { wanted: below, found: &mut *self.found })?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0_usize;
        loop {
            let before = self.found.len();
            let number = index.to_string();
            let below = self.below(|part| part == "*" || part == number);
            let every =
                self.wanted.iter().any(|(_, parts)| parts.first().is_some_and(|p| p == "*"));
            let slot = below.first().map(|(slot, _)| *slot);
            let more = if below.is_empty() {
                list.next_element::<IgnoredAny>()?.is_some()
            } else {
                list.next_element_seed(Walk { wanted: below, found: &mut *self.found })?.is_some()
            };
            if !more {
                return Ok(());
            }
            if let (true, true, Some(slot)) = (every, self.found.len() == before, slot) {
                self.found.push((slot, None)); // this member lacks it
            }
            index += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A key, borrowed where it has no escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        reader.deserialize_str(Text)
    }
}

/// The text of a JSON string, or a number or boolean as it is written. Numbers keep their digits:
/// two large ones must not become one.
fn scalar(raw: &str) -> Option<Cow<'_, str>> {
    match raw.as_bytes().first()? {
        b'"' => serde_json::from_str(raw).ok().map(Cow::Owned),
        b'{' | b'[' | b'n' => None,
        _ => Some(Cow::Borrowed(raw)),
    }
}

/// A field whose sender writes it now as text, now as a number: taken as it is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scalar(pub(crate) String);

impl<'de> serde::Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let raw: &RawValue = serde::Deserialize::deserialize(reader)?;
        Ok(Self(scalar(raw.get()).map(Cow::into_owned).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(body: &[u8], pointer: &str) -> Option<String> {
        pluck(body, &[&Pointer::parse(pointer).unwrap()]).remove(0)
    }

    #[test]
    fn a_pointer_names_one_value_or_none() {
        for (body, pointer, expected, why) in [
            (r#"{"a":{"b":"x"}}"#, "/a/b", Some("x"), "below"),
            (r#"{"id":12345678901234567890123}"#, "/id", Some("12345678901234567890123"), "digits"),
            (r#"{"id":1.0}"#, "/id", Some("1.0"), "as written"),
            (r#"{"id":true}"#, "/id", Some("true"), "a boolean"),
            (r#"{"id":null}"#, "/id", None, "null"),
            (r#"{"id":{"x":1}}"#, "/id", None, "an object"),
            (r#"{"id":"a","id":"b"}"#, "/id", Some("b"), "the last of two"),
            (r#"{"a":{"b":1},"a":{}}"#, "/a/b", None, "the last of two, above"),
            (r#"[{"id":1},{"id":2}]"#, "/1/id", Some("2"), "in a list"),
            ("[1]", "/01", None, "no index"),
            (r#"{"a/b":{"~":"y"}}"#, "/a~1b/~0", Some("y"), "escapes of pointers"),
            ("{\"\\u0061\":\"\\u00e9\"}", "/a", Some("é"), "escapes of JSON"),
            ("\u{feff}{\"a\":1}", "/a", Some("1"), "a byte order mark"),
            ("\u{feff}\u{feff}{\"a\":1}", "/a", None, "two of them"),
            (r#"{"a":1} x"#, "/a", None, "something behind"),
            (r#"{"a":"\ud800"}"#, "/a", None, "half of a pair"),
            (r#"{"b":"\ud800","a":1}"#, "/a", Some("1"), "half of a pair elsewhere"),
            ("", "/a", None, "nothing"),
            ("\"a\"", "/a", None, "a text"),
            ("{\"a\":\"x\0\"}", "/a", None, "a bare zero"),
        ] {
            assert_eq!(one(body.as_bytes(), pointer).as_deref(), expected, "{body}: {why}");
        }
        assert_eq!(one(b"{\"b\":\"\xff\",\"a\":1}", "/b"), None, "bytes that are no text");
    }

    #[test]
    fn several_are_read_at_once() {
        let pointers = ["/b", "/a/c", "/a", "/x"].map(|text| Pointer::parse(text).unwrap());
        let found = pluck(br#"{"a":{"c":2},"b":1}"#, &pointers.each_ref());
        assert_eq!(found, [Some("1".into()), Some("2".into()), None, None]);
    }

    #[test]
    fn a_star_is_each_member_of_a_list() {
        let pointer = Pointer::parse("/value/*/s").unwrap();
        let each = |body: &str| pluck_each(body.as_bytes(), &pointer);
        assert_eq!(
            each(r#"{"value":[{"s":"a"},{"t":1},{"s":"b"},3]}"#).unwrap(),
            [Some("a".into()), None, Some("b".into()), None,]
        );
        assert_eq!(each(r#"{"value":[]}"#).unwrap(), []);
        assert_eq!(each("no"), None);
    }

    #[test]
    fn depth_is_no_danger() {
        for deep in [
            "[".repeat(200_000),
            format!("{{\"a\":{}1{}}}", "[".repeat(99_999), "]".repeat(99_999)),
        ] {
            assert_eq!(one(deep.as_bytes(), "/a"), None);
            assert_eq!(one(deep.as_bytes(), "/b/c"), None);
        }
    }

    #[test]
    fn a_value_is_set_where_the_pointer_points() {
        let set = |body: &str, pointer: &str| {
            let bytes = set(body.as_bytes(), &Pointer::parse(pointer).unwrap(), "7")?;
            Some(String::from_utf8(bytes).unwrap())
        };
        assert_eq!(set("{}", "/a/b").as_deref(), Some(r#"{"a":{"b":"7"}}"#));
        assert_eq!(set(r#"{"a":1}"#, "/a").as_deref(), Some(r#"{"a":7}"#));
        assert_eq!(
            set(r#"{"v":[{},{}]}"#, "/v/*/s").as_deref(),
            Some(r#"{"v":[{"s":"7"},{"s":"7"}]}"#)
        );
        assert_eq!(set("1", "/a"), None);
    }

    proptest! {
        #[test]
        fn no_body_panics(body in any::<Vec<u8>>(), text in "[\\[\\]{}\":,a0-9tnu\\\\ ]{0,60}") {
            let _ = one(&body, "/a/0/b");
            let _ = one(text.as_bytes(), "/a/0");
            let _ = pluck_each(text.as_bytes(), &Pointer::parse("/a/*/b").unwrap());
        }
    }
}
