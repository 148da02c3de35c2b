//! Every door takes the same and refuses the same: limits of each field, one by one, through all
//! of them, and data in each form that a door can carry.

use serde_json::Value;

use super::{
    doors::{
        Batch, CommandLine, Door, Given, Http, Place, Raw, Rust, RustMany, Sql, SqlMany, View,
        given,
    },
    node::Node,
};
use crate::support::databases::{Kind, on_both};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The command line goes by HTTP, whatever the database: once is enough, for it takes its time.
const ON_POSTGRES: &[Door] =
    &[Http, Batch, Raw, Rust, RustMany, Sql("text"), Sql("jsonb"), SqlMany, View];
const ON_SQLITE: &[Door] = &[Http, Batch, Raw, CommandLine, Rust, RustMany, View];

/// A field, a value for it, whether it is taken, and why.
fn limits() -> Vec<(&'static str, String, bool, &'static str)> {
    let long = |count| "x".repeat(count);
    let wide = |count| "é".repeat(count);
    vec![
        ("tenant", long(128), true, "the longest"),
        ("tenant", long(129), false, "too long"),
        ("tenant", "a b".to_owned(), false, "a blank"),
        ("tenant", wide(1), false, "no ASCII"),
        ("tenant", "acme\n".to_owned(), false, "a line break at the end"),
        ("type", long(256), true, "the longest"),
        ("type", long(257), false, "too long"),
        ("type", "order..paid".to_owned(), false, "an empty part"),
        ("type", "order.".to_owned(), false, "an empty part at the end"),
        ("type", "order.*".to_owned(), false, "a pattern"),
        ("type", wide(1), false, "no ASCII"),
        ("type", "order\n".to_owned(), false, "a line break at the end"),
        ("key", long(256), true, "the longest"),
        ("key", long(257), false, "too long"),
        ("key", wide(128), true, "256 bytes"),
        ("key", wide(129), false, "129 characters, but 258 bytes"),
        ("key", String::new(), false, "empty"),
        ("key", " ".to_owned(), true, "a blank is compared like any character"),
        ("key", "a\nb".to_owned(), false, "a line break"),
        ("key", "a\u{7f}".to_owned(), false, "DEL"),
        ("key", "a\u{85}".to_owned(), false, "a control character beyond ASCII"),
        ("version", long(64), true, "the longest"),
        ("version", long(65), false, "too long"),
        ("version", wide(32), true, "64 bytes"),
        ("version", wide(33), false, "33 characters, but 66 bytes"),
        ("version", String::new(), false, "empty"),
        ("version", "1\t".to_owned(), false, "a control character"),
        ("version", "1\u{9f}".to_owned(), false, "a control character beyond ASCII"),
        ("traceparent", TRACE.to_owned(), true, "as it should be"),
        ("traceparent", TRACE.to_uppercase(), false, "upper case"),
        ("traceparent", TRACE[..54].to_owned(), false, "too short"),
        ("traceparent", format!("{TRACE}\n"), false, "a line break at the end"),
        ("traceparent", TRACE.replace('-', "0"), false, "no dashes"),
        ("occurred_at", "0001-01-01T00:00:00Z".to_owned(), true, "the first moment"),
        ("occurred_at", "9999-12-31T23:59:59.999Z".to_owned(), true, "the last"),
        ("occurred_at", "infinity".to_owned(), false, "no time, but PostgreSQL has it"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_door_has_the_same_limits_and_names_the_field() {
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        let place = Place { node: &node, database };
        let sqlite = database.kind == Kind::Sqlite;
        for (field, value, taken, why) in &limits() {
            let event = given(field, value);
            for door in if sqlite { ON_SQLITE } else { ON_POSTGRES } {
                let Some(said) = place.emit(*door, &event).await else { continue };
                let case = format!("{door:?}, {field}: {why}: {said:?}");
                // Other programs may put bytes into SQLite that are no UTF-8: docs/sending.md.
                let ascii_alone = sqlite
                    && matches!(door, Rust | RustMany | View)
                    && matches!(*field, "key" | "version");
                if ascii_alone && *taken && !value.is_ascii() {
                    assert!(said.unwrap_err().contains("use printable ASCII"), "{case}");
                    continue;
                }
                assert_eq!(said.is_ok(), *taken, "{case}");
                if let Err(said) = said {
                    assert!(said.contains(field), "named: {case}");
                }
            }
        }
    })
    .await;
}

/// Data in some form: who can carry it, and what becomes of it.
struct Form {
    why: &'static str,
    data: Option<String>,
    doors: &'static [Door],
    /// The content type of what is kept; `None` if it is refused.
    kept_as: Option<&'static str>,
}

const JSON: Option<&str> = Some("application/json");
const TEXT: Option<&str> = Some("text/plain; charset=utf-8");
const TEXT_DOORS: &[Door] = &[Rust, Sql("text"), SqlMany, View];
const JSON_DOORS: &[Door] =
    &[Http, Batch, Raw, CommandLine, Rust, Sql("text"), Sql("json"), SqlMany, View];
const ALL: &[Door] =
    &[Http, Batch, Raw, CommandLine, Rust, Sql("text"), Sql("json"), Sql("jsonb"), SqlMany, View];

const MIB: usize = 1024 * 1024;
// The operating system bounds an argument of a command at 128 KiB.
const LARGE: &[Door] =
    &[Http, Batch, Raw, Rust, Sql("text"), Sql("json"), Sql("jsonb"), SqlMany, View];

fn forms() -> Vec<Form> {
    let json = |bytes: usize| Some(format!("\"{}\"", "x".repeat(bytes - 2)));
    let some = |text: &str| Some(text.to_owned());
    vec![
        Form { why: "an array", data: some("[1]"), doors: ALL, kept_as: JSON },
        Form { why: "JSON's null is a value", data: some("null"), doors: ALL, kept_as: JSON },
        Form {
            why: "a half of a character, escaped",
            data: some(r#""\ud800""#),
            doors: &[Raw, CommandLine, Rust, Sql("text"), Sql("json"), SqlMany, View],
            kept_as: JSON,
        },
        Form {
            why: "a zero byte, escaped",
            data: some(r#""\u0000""#),
            doors: JSON_DOORS,
            kept_as: JSON,
        },
        Form { why: "text that is no JSON", data: some("hello"), doors: TEXT_DOORS, kept_as: TEXT },
        Form { why: "nothing at all", data: some(""), doors: TEXT_DOORS, kept_as: TEXT },
        Form {
            why: "no JSON, where JSON is said",
            data: some("hello"),
            doors: &[Raw, CommandLine, Sql("json"), Sql("jsonb")],
            kept_as: None,
        },
        Form {
            why: "nothing, where JSON is said",
            data: some(""),
            doors: &[Raw, CommandLine, Sql("json"), Sql("jsonb")],
            kept_as: None,
        },
        Form {
            why: "no data",
            data: None,
            doors: &[Http, Batch, Raw, Sql("text"), Sql("json"), Sql("jsonb"), SqlMany, View],
            kept_as: None,
        },
        Form { why: "a byte below the limit", data: json(MIB - 1), doors: LARGE, kept_as: JSON },
        Form { why: "at the limit", data: json(MIB), doors: LARGE, kept_as: JSON },
        Form { why: "a byte over the limit", data: json(MIB + 1), doors: LARGE, kept_as: None },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_door_keeps_data_as_it_is_and_says_what_it_is() {
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        let place = Place { node: &node, database };
        let known = if database.kind == Kind::Sqlite { ON_SQLITE } else { ON_POSTGRES };
        for (n, form) in forms().into_iter().enumerate() {
            for (door_n, door) in form.doors.iter().enumerate() {
                if !known.contains(door) && *door != Sql("json")
                    || *door == Sql("json") && database.kind == Kind::Sqlite
                {
                    continue;
                }
                let key = format!("{n}-{door_n}");
                let event =
                    Given { data: form.data.clone(), key: Some(key.clone()), ..given("data", "") };
                let said = place.emit(*door, &event).await.unwrap();
                let case = format!("{door:?}: {}", form.why);
                let Some(content_type) = form.kept_as else {
                    assert!(said.is_err(), "{case}");
                    continue;
                };
                assert_eq!(said, Ok(()), "{case}");
                let list = format!("GET /v1/events?tenant=acme&key={key}");
                let listed = node.client.call(&list, &Value::Null);
                let id = listed["data"][0]["id"].as_str().unwrap();
                let shown = node.client.get(&format!("/v1/events/{id}"));
                let is_json = content_type == "application/json";
                assert_eq!(shown.1.contains("\"data_base64\":"), !is_json, "{case}");
                let payload = node.client.get(&format!("/v1/events/{id}/payload"));
                let header = format!("content-type: {content_type}\r\n");
                assert!(payload.0.contains(&header), "{case}: {}", payload.0);
                assert_eq!(payload.1, form.data.clone().unwrap(), "{case}");
            }
        }
    })
    .await;
}
