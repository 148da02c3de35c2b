use proptest::prelude::*;
use serde_json::{Value, value::RawValue};

use super::*;
use crate::domain::id::id_at;

const ALL: [Format; 6] = [
    Format::Event,
    Format::Thin,
    Format::Standard,
    Format::Cloudevents,
    Format::CloudeventsBinary,
    Format::Raw,
];

fn id() -> EventId {
    EventId(id_at(Timestamp::parse("2026-11-30T12:34:56.789Z").unwrap(), 5))
}

fn event(payload: &Bytes) -> EventView<'_> {
    EventView {
        id: id(),
        tenant: "acme",
        event_type: "order.paid",
        version: None,
        occurred_at: None,
        payload,
        content_type: None,
    }
}

fn body(format: Format, event: &EventView<'_>) -> String {
    let rendered = render(format, event, "https://hooks.example.com/");
    String::from_utf8(rendered.body.to_vec()).unwrap()
}

#[test]
fn each_format_looks_as_documented() {
    let payload = Bytes::from_static(b"{\"order_id\": 42}");
    let plain = event(&payload);
    let id = id();
    for (format, expected) in [
        (
            Format::Event,
            format!(
                r#"{{"id":"{id}","type":"order.paid","created_at":"2026-11-30T12:34:56.789Z","data":{{"order_id": 42}}}}"#
            ),
        ),
        (
            Format::Thin,
            format!(
                r#"{{"id":"{id}","type":"order.paid","created_at":"2026-11-30T12:34:56.789Z","url":"https://hooks.example.com/v1/events/{id}"}}"#
            ),
        ),
        (
            Format::Standard,
            r#"{"type":"order.paid","timestamp":"2026-11-30T12:34:56.789Z","data":{"order_id": 42}}"#
                .to_owned(),
        ),
        (
            Format::Cloudevents,
            format!(
                r#"{{"specversion":"1.0","id":"{id}","source":"urn:snaphook:acme","type":"order.paid","time":"2026-11-30T12:34:56.789Z","datacontenttype":"application/json","data":{{"order_id": 42}}}}"#
            ),
        ),
        (Format::CloudeventsBinary, r#"{"order_id": 42}"#.to_owned()),
        (Format::Raw, r#"{"order_id": 42}"#.to_owned()),
    ] {
        assert_eq!(body(format, &plain), expected, "{format:?}");
    }
}

#[test]
fn version_and_time_of_the_emitter_are_used_when_given() {
    let payload = Bytes::from_static(b"1");
    let occurred_at = Timestamp::parse("2024-02-29T00:00:00Z");
    let event = EventView { version: Some("2024-\"01\""), occurred_at, ..event(&payload) };

    let text = body(Format::Event, &event);
    assert!(
        text.contains(r#""version":"2024-\"01\"","created_at":"2024-02-29T00:00:00Z""#),
        "{text}"
    );
    let binary = render(Format::CloudeventsBinary, &event, "");
    assert!(binary.headers.contains(&("ce-version", "2024-%2201%22".to_owned())));
    assert!(binary.headers.contains(&("ce-time", "2024-02-29T00:00:00Z".to_owned())));

    for seconds in [-62_135_596_801, 253_402_300_800] {
        let odd = EventView { occurred_at: Some(Timestamp::from_seconds(seconds)), ..event };
        assert_eq!(odd.time(), id().created_at(), "no RFC 3339 for {seconds}");
    }
}

#[test]
fn json_is_embedded_byte_for_byte_and_the_rest_as_base64() {
    for (payload, content_type, embedded, why) in [
        (&br#"{"b":1.0,"a":12345678901234567890,"a":2,"e":1e400}"#[..], None, true, "odd numbers"),
        (b" \r\n[1]\n", None, true, "white space around is JSON"),
        (br#""\ud800""#, None, true, "half a character, in an escape"),
        (b"{\"d\":\"a\\u0000b\"}", Some("application/json; charset=UTF-8"), true, "a parameter"),
        (b"{}", Some("application/vnd.acme+json"), true, "a JSON type by its suffix"),
        (b"{}", Some("application/json;charset=utf-16"), false, "another encoding"),
        (b"{}", Some("text/plain"), false, "its type says that it is text"),
        (b"hello", None, false, "no JSON"),
        (b"", None, false, "nothing is no JSON"),
        (b"{} {}", None, false, "two documents"),
        (b"{\"a\":1,}", None, false, "nearly JSON"),
        (b"\xff\xfe\x00", None, false, "bytes"),
        (b"\"\xff\"", None, false, "no UTF-8 inside a string"),
        (b"\xef\xbb\xbf{}", None, false, "a byte order mark may not stand inside a document"),
    ] {
        let payload = Bytes::copy_from_slice(payload);
        let event = EventView { content_type, ..event(&payload) };
        for format in [Format::Event, Format::Standard, Format::Cloudevents] {
            let text = body(format, &event);
            let expected = if embedded {
                format!(r#","data":{}}}"#, String::from_utf8_lossy(&payload))
            } else {
                format!(r#","data_base64":"{}"}}"#, BASE64_STANDARD.encode(&payload))
            };
            assert!(text.ends_with(&expected), "{why}: {text}");
        }
        assert_eq!(render(Format::Raw, &event, "").body, payload, "{why}");
    }
}

#[test]
fn a_payload_of_which_nothing_was_said_is_what_its_bytes_are() {
    for (payload, given, expected, why) in [
        (&b"{\"a\": 1}"[..], None, JSON, "JSON, as is expected"),
        (b"1", None, JSON, "a number is JSON"),
        (br#""\ud800""#, None, JSON, "an escape is not looked into"),
        (b"hello", None, TEXT, "text"),
        (b"", None, TEXT, "the empty text"),
        (b"a\0b", None, TEXT, "a zero byte is UTF-8"),
        ("\u{feff}{}".as_bytes(), None, TEXT, "a byte order mark is none of JSON's"),
        (b"\"\xff\"", None, BYTES, "no UTF-8 in a string"),
        (b"hello", Some("application/json"), JSON, "what was said is not doubted"),
        (b"{}", Some("text/csv"), "text/csv", "nor taken for another"),
    ] {
        assert_eq!(content_type_of(given, payload), expected, "{why}");
        let bytes = Bytes::copy_from_slice(payload);
        let event = EventView { content_type: given, ..event(&bytes) };
        for format in [Format::Raw, Format::CloudeventsBinary] {
            assert_eq!(render(format, &event, "").content_type, expected, "{format:?}: {why}");
        }
        let document = body(Format::Cloudevents, &event);
        assert!(document.contains(&format!(r#""datacontenttype":"{expected}""#)), "{why}");
    }
}

#[test]
fn deep_nesting_is_no_matter() {
    let payload = Bytes::from([vec![b'['; 100_000], vec![b']'; 100_000]].concat());
    assert!(body(Format::Event, &event(&payload)).contains(r#""data":[["#));
}

#[test]
fn content_types_say_what_the_body_is() {
    let payload = Bytes::from_static(b"hi");
    let event = EventView { content_type: Some("text/plain"), ..event(&payload) };
    let types = ALL.map(|format| render(format, &event, "").content_type);
    assert_eq!(
        types,
        [JSON, JSON, JSON, CLOUDEVENTS_JSON, "text/plain", "text/plain"].map(str::to_owned)
    );
    assert!(body(Format::Cloudevents, &event).contains(r#""datacontenttype":"text/plain""#));
}

/// The required attributes of CloudEvents 1.0 and their constraints.
#[test]
fn cloudevents_have_what_the_specification_requires() {
    let payload = Bytes::from_static(b"{}");
    let versioned = EventView { version: Some("ä b"), ..event(&payload) };
    let document: Value = serde_json::from_str(&body(Format::Cloudevents, &versioned)).unwrap();
    let binary = render(Format::CloudeventsBinary, &versioned, "");
    for name in ["specversion", "id", "source", "type", "time", "version"] {
        let text = document[name].as_str().unwrap();
        assert!(!text.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase()), "{name}");
        let header = binary.headers.iter().find(|(header, _)| *header == format!("ce-{name}"));
        let (_, value) = header.expect(name);
        assert!(value == text || name == "version", "{name}: {value}");
    }
    assert_eq!(document["specversion"], "1.0");
    assert!(url::Url::parse(document["source"].as_str().unwrap()).is_ok(), "a URI");
    assert!(Timestamp::parse(document["time"].as_str().unwrap()).is_some(), "RFC 3339");
    assert!(binary.headers.contains(&("ce-version", "%C3%A4%20b".to_owned())));
}

proptest! {
    /// Whatever the payload is, the body is one JSON document, the same each time, and gives the
    /// payload back exactly.
    #[test]
    fn every_payload_comes_back(
        payload in prop_oneof![
            any::<Vec<u8>>(),
            "\\PC*".prop_map(String::into_bytes),
            "[ \\n]{0,2}(\\[1, ?2\\]|\\{\"a\":\"\\PC{0,9}\"\\}|-?[0-9]{1,30}(\\.[0-9]+)?)".prop_map(String::into_bytes),
        ],
        version in proptest::option::of(any::<String>()),
    ) {
        #[derive(Deserialize)]
        struct Body<'a> {
            #[serde(borrow)]
            data: Option<&'a RawValue>,
            data_base64: Option<String>,
        }
        let payload = Bytes::from(payload);
        let event = EventView { version: version.as_deref(), ..event(&payload) };
        for format in [Format::Event, Format::Standard, Format::Cloudevents] {
            let text = body(format, &event);
            prop_assert_eq!(&text, &body(format, &event));
            let parsed: Body<'_> = serde_json::from_str(&text).unwrap();
            let back = match (parsed.data, parsed.data_base64) {
                (Some(data), None) => data.get().as_bytes().to_vec(),
                (None, Some(text)) => BASE64_STANDARD.decode(text).unwrap(),
                _ => panic!("one of both: {text}"),
            };
            let trimmed = payload.trim_ascii();
            prop_assert!(back == *payload || back == *trimmed);
        }
    }
}
