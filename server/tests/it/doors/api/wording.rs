//! What a caller is told of a bad input: the field, the value and the remedy, in words that need
//! no knowledge of the program.

use axum::body::Body;
use http::{Method, Request, header};
use serde_json::{Value, json};

use super::{Answer, TestApi, odd_input::bodies, on_both};

/// Words of the program's own libraries and types, which say nothing to a caller.
const INTERNAL: &[&str] = &[
    "invalid type",
    "invalid value",
    "expected a",
    "expected u",
    "expected i",
    "expected struct",
    "unknown variant",
    "unknown field",
    "missing field",
    "duplicate field",
    "did not match",
    "single key",
    "unit value",
    "floating point",
    "Error",
    "Some(",
    "None",
];

/// By one of these a sentence says what to do.
const REMEDIES: &[&str] = &["; ", "write ", "give ", "leave ", "use ", "allowed", "known are"];

/// What of an answer about `field` a caller could not make sense of. Schemas have words of their
/// own, which their tests know.
pub fn complaints(answer: &Answer, field: &str) -> Vec<String> {
    let wrong = |error: &String| {
        let internal = INTERNAL.iter().find(|word| error.contains(**word));
        let problem = match internal {
            Some(word) => format!("says {word:?}"),
            None if !error.starts_with(field) => format!("does not name {field}"),
            None if error.len() > 600 => "is long".to_owned(),
            None if field != "schemas" && !REMEDIES.iter().any(|part| error.contains(part)) => {
                "has no remedy".to_owned()
            }
            None => return None,
        };
        Some(format!("{problem}: {error}"))
    };
    answer.errors().iter().filter_map(wrong).collect()
}

/// Sends a body as it is written.
async fn send(api: &TestApi, method: &Method, path: &str, body: impl Into<Body>) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::AUTHORIZATION, format!("Bearer {}", api.operator))
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.into());
    api.send(request.unwrap()).await
}

#[tokio::test]
async fn a_member_given_twice_is_refused_by_its_name() {
    on_both(async |api| {
        let endpoint = api.add_endpoint(json!({"url": "https://example.com/"})).await;
        for (method, path, body) in bodies(&endpoint) {
            for (field, value) in body.as_object().unwrap() {
                let once = body.to_string();
                let twice = format!("{},{field:?}:{value}}}", once.strip_suffix('}').unwrap());
                let answer = send(api, &method, &path, twice).await;
                assert_eq!(answer.problem(422), "invalid_input", "{method} {path} {field}");
                assert_eq!(answer.errors(), [format!("{field}: it is given twice; give it once")]);
            }
        }
        let at = format!("/v1/tenants/acme/endpoints/{endpoint}");
        for (path, body, field) in [
            (&*at, r#"{"metadata":{"a":1,"a":1}}"#, "metadata.a"),
            (&at, r#"{"headers":{"X-A":"1","X-A":"2"}}"#, "headers.X-A"),
            (&at, r#"{"filter":{"any":[{"/a":1},{"/b":1,"/b":2}]}}"#, "filter.any[1]./b"),
            (&at, r#"{"tls":{"ca":null,"ca":null}}"#, "tls.ca"),
            ("/v1/tenants/acme", r#"{"limits":{"endpoints":1,"endpoints":2}}"#, "limits.endpoints"),
        ] {
            let answer = send(api, &Method::PATCH, path, body).await;
            assert_eq!(answer.problem(422), "invalid_input", "{body}");
            assert_eq!(answer.errors(), [format!("{field}: it is given twice; give it once")]);
        }
        let batch = r#"{"events":[{"tenant":"acme","type":"a","type":"b","data":1}]}"#;
        let answer = send(api, &Method::POST, "/v1/events/batch", batch).await.expect(202);
        assert_eq!(answer["results"][0]["error"]["errors"][0]["field"], "type");
        let event = r#"{"tenant":"acme","type":"a","data":{"a":1,"a":2}}"#;
        let answer = send(api, &Method::POST, "/v1/events", event).await.expect(202);
        let path = format!("/v1/events/{}/payload", answer["id"].as_str().unwrap());
        assert_eq!(api.get(&path).await.bytes, r#"{"a":1,"a":2}"#, "the caller's own bytes");
    })
    .await;
}

#[tokio::test]
async fn what_is_no_json_is_told_by_line_and_column() {
    on_both(async |api| {
        let endpoints = "/v1/tenants/acme/endpoints";
        for (path, body, expected) in [
            (endpoints, "", "it is empty; send an object"),
            (endpoints, "\u{feff}{}", "it begins with a byte order mark"),
            (endpoints, "{\"url\":\n\"a\" \"b\"}", "expected `,` or `}` at line 2 column 5"),
            (endpoints, "{\"url\":nul}", "expected ident at line 1 column 11"),
            (endpoints, "{} x", "trailing characters at line 1 column 4"),
            ("/v1/events", "{\"tenant\":5,\n\"data\":[1,}", "expected value at line 2 column 11"),
            (
                "/v1/events",
                "{\"tenant\":\"acme\"",
                "EOF while parsing an object at line 1 column 16",
            ),
            ("/v1/events", "{} {}", "trailing characters at line 1 column 4"),
            ("/v1/events/batch", "{\"events\":[{]}", "key must be a string at line 1 column 13"),
        ] {
            let answer = send(api, &Method::POST, path, body).await;
            assert_eq!(answer.problem(400), "malformed_json", "{body}");
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.starts_with("the body is no JSON: "), "{detail}");
            assert!(detail.contains(expected), "{body}: {detail}");
        }
    })
    .await;
}

#[tokio::test]
async fn each_wrong_value_is_told_in_one_sentence() {
    on_both(async |api| {
        let endpoints = "/v1/tenants/acme/endpoints";
        let many = json!({"url": "https://example.com/", "event_types": vec!["a"; 300]});
        let cases = [
            (endpoints, json!({"url": 5}), "url: 5 does not fit; write a text in quotes"),
            (endpoints, json!({}), "url: the URL is empty; write one like https://"),
            (endpoints, many, "event_types: there are 300; at most 256 are allowed"),
            (endpoints, json!({"url": "http://127.1/"}), "url: \"127.1\" is another way to write 127.0.0.1; "),
            (
                endpoints,
                json!({"url": "http://[::ffff:127.0.0.1]/"}),
                "url: \"[::ffff:127.0.0.1]\" is another way to write 127.0.0.1; ",
            ),
            (
                endpoints,
                json!({"url": "http://[::ffff:8.8.8.8]:80/"}),
                "url: \"[::ffff:8.8.8.8]\" is another way to write the address 8.8.8.8; write",
            ),
            (
                endpoints,
                json!({"url": "http://[::1"}),
                "url: \"[::1\" is no host: its bracket is not closed; write",
            ),
            (endpoints, json!({"url": "http://134744072/"}), "url: \"134744072\" is another way to write the address 8.8.8.8; write that instead"),
            ("/v1/events", json!({"tenant": "acme", "data": 1}), "type: it is missing; give it"),
            (
                "/v1/events",
                json!({"tenant": "acme", "type": "a", "data": 1, "occurred_at": "10000-01-01T00:00:00Z"}),
                "occurred_at: \"10000-01-01T00:00:00Z\" is no time in the years 1 to 9999; write RFC 3339",
            ),
            ("/v1/events", json!({"tenant": "acme", "type": "a", "data": 1, "Key": "k"}), "Key: there is no such field; known are tenant, type, data"),
            ("/v1/keys", json!({"scopes": ["fly"]}), "scopes[0]: \"fly\" is unknown; use read, emit, manage"),
            ("/v1/keys", json!({"scopes": "read"}), "scopes: \"read\" does not fit; write a list in [ ]"),
        ];
        for (path, body, expected) in cases {
            let answer = api.post(path, body).await;
            assert_eq!(answer.problem(422), "invalid_input", "{expected}");
            let told = answer.errors();
            assert!(told.len() == 1 && told[0].starts_with(expected), "{expected}: {told:#?}");
            assert!(!told[0].contains("write http://127"), "it would be refused next: {told:?}");
        }
        let late = json!({"tenant": "acme", "type": "a", "data": 1, "occurred_at": "9999-12-31T00:00:00Z"});
        let event = api.post("/v1/events", late).await.expect(202);
        assert_eq!(event["occurred_at"], "9999-12-31T00:00:00Z");
    })
    .await;
}

#[tokio::test]
async fn what_is_compressed_is_refused_by_the_header() {
    on_both(async |api| {
        let event = json!({"tenant": "acme", "type": "a", "data": 1}).to_string();
        for (path, coding, status) in [
            ("/v1/events", "gzip", 415),
            ("/v1/events", "identity", 202),
            ("/v1/tenants/acme/events/a", "gzip", 415),
            ("/v1/tenants/acme/events/a", "br, gzip", 415),
            ("/v1/tenants/acme/endpoints", "zstd", 415),
        ] {
            let request = Request::post(path)
                .header(header::AUTHORIZATION, format!("Bearer {}", api.operator))
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::CONTENT_ENCODING, coding)
                .body(Body::from(event.clone()));
            let answer = api.send(request.unwrap()).await;
            let body = answer.expect(status);
            if status == 415 {
                assert_eq!(answer.problem(415), "unsupported_content_encoding");
                let detail = body["detail"].as_str().unwrap();
                assert!(
                    detail.starts_with(&format!("content-encoding is {coding:?}; ")),
                    "{detail}"
                );
            }
        }
    })
    .await;
}

#[tokio::test]
async fn nothing_is_taken_where_nothing_can_be_said() {
    on_both(async |api| {
        let endpoint = api.add_endpoint(json!({"url": "https://example.com/"})).await;
        let at = format!("/v1/tenants/acme/endpoints/{endpoint}");
        // Accepted, not done: no node delivers here, so none has heard. Once more is no change.
        for (path, body, status) in [
            ("pause", "", 202),
            ("pause", "{}", 200),
            ("resume", r#"{"until":"tomorrow"}"#, 422),
            ("resume", "[]", 422),
            ("resume?force=true", "", 400),
            ("resume", "", 202),
        ] {
            let answer = send(api, &Method::POST, &format!("{at}/{path}"), body).await;
            answer.expect(status);
            if status == 422 && body.contains("until") {
                let told = "until: there is no such field, and none is known here; leave it out";
                assert_eq!(answer.errors(), [told]);
            }
        }
        for path in ["/v1/tenants/acme?limit=5", &format!("{at}?tenant=acme"), "/v1/keys?role=x"] {
            let answer = api.get(path).await;
            assert_eq!(answer.problem(400), "invalid_query", "{path}");
            assert!(
                answer.errors()[0].ends_with(": there is no such parameter here; leave it out")
            );
        }
        let listed = api.get(&format!("{at}/secrets?limit=5")).await;
        assert_eq!(listed.expect(200)["next"], Value::Null);
    })
    .await;
}
