//! `/openapi.json`, `/docs`, and the state of the process.

use std::{collections::BTreeSet, path::Path};

use http::{Method, header};
use serde_json::Value;

use super::on_both;

/// The committed document is what people read without a server. `SNAPHOOK_BLESS=1` writes it.
#[test]
fn the_committed_openapi_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    let current = serde_json::to_string_pretty(&snaphook::api::document()).unwrap() + "\n";
    let bless = std::env::var_os("SNAPHOOK_BLESS").is_some();
    if bless {
        std::fs::write(&path, &current).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == current,
        "docs/openapi.json is stale; run `SNAPHOOK_BLESS=1 cargo test -p snaphook --test it openapi`"
    );
}

#[test]
fn every_reference_in_the_document_leads_somewhere() {
    fn walk<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| walk(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let document = snaphook::api::document();
    let mut found = Vec::new();
    walk(&document, &mut found);
    assert!(found.len() > 50);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn every_response_and_every_operation_is_described() {
    let document = snaphook::api::document();
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (verb, operation) in item.as_object().unwrap() {
            assert!(operation["summary"].is_string(), "{verb} {path}");
            assert!(names.insert(operation["operationId"].to_string()), "{verb} {path}: twice");
            for (status, response) in operation["responses"].as_object().unwrap() {
                assert!(response["description"].is_string(), "{verb} {path}: {status}");
            }
        }
    }
}

fn operations(item: &Value) -> impl Iterator<Item = &Value> {
    item.as_object().unwrap().values()
}

#[tokio::test]
async fn the_page_lists_every_route_and_runs_no_script() {
    on_both(async |api| {
        let document = api.call_as("", Method::GET, "/openapi.json", Value::Null).await.expect(200);
        let page = api.call_as("", Method::GET, "/docs", Value::Null).await;
        let text = String::from_utf8(page.bytes.to_vec()).unwrap();

        for path in document["paths"].as_object().unwrap().keys() {
            assert!(text.contains(&format!("</b> {path}</code>")), "{path}");
        }
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part}"));
        let sections = ["authentication", "events", "tenants", "endpoints", "secrets"];
        let places = sections.map(|name| place(&format!("<h2>{name}</h2>")));
        assert!(places.is_sorted(), "a newcomer reads how to call and how to send first");
        assert!(text.contains("<code>Authorization: Bearer shk_…</code>"));
        let tags: BTreeSet<&str> = document["tags"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tag| tag["name"].as_str().unwrap())
            .collect();
        for operation in document["paths"].as_object().unwrap().values().flat_map(operations) {
            assert!(tags.contains(operation["tags"][0].as_str().unwrap()), "{operation}");
        }
        let prose = text.split("<h2>").map(|part| part.replace("</code>", "<code>"));
        let prose = prose.flat_map(|part| {
            part.split("<code>").step_by(2).map(str::to_owned).collect::<Vec<_>>()
        });
        assert_eq!(prose.filter(|part| part.contains('`')).collect::<Vec<_>>(), [""; 0]);
        let home = api.call_as("", Method::GET, "/", Value::Null).await;
        assert_eq!(
            (home.status.as_u16(), home.headers[header::LOCATION].to_str().unwrap()),
            (303, "/docs")
        );
        let policy = page.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'self'"), "{policy}");
        assert!(!text.contains("<script") && !text.contains("style="));
        let style = api.call_as("", Method::GET, "/docs.css", Value::Null).await;
        assert_eq!(style.headers[header::CONTENT_TYPE], "text/css");
    })
    .await;
}

#[tokio::test]
async fn the_process_says_whether_it_lives_and_can_work() {
    on_both(async |api| {
        let alive = api.call_as("", Method::GET, "/healthz", Value::Null).await.expect(200);
        assert_eq!(alive["status"], "alive");
        let ready = api.call_as("", Method::GET, "/readyz", Value::Null).await.expect(200);
        assert_eq!(ready["status"], "ready");
        api.store.close().await;
        let answer = api.call_as("", Method::GET, "/readyz", Value::Null).await;
        assert_eq!(answer.problem(503), "not_ready");
        api.call_as("", Method::GET, "/healthz", Value::Null).await.expect(200);
        let answer = api.get("/v1/tenants/acme").await;
        assert_eq!(answer.headers[header::RETRY_AFTER], "2");
        assert_eq!(answer.problem(503), "unavailable");
    })
    .await;
}

#[tokio::test]
async fn metrics_count_what_came_in() {
    on_both(async |api| {
        api.emit("order.paid").await;
        let answer = api.get("/metrics").await;
        let text = String::from_utf8(answer.bytes.to_vec()).unwrap();
        assert!(text.contains("snaphook_events_accepted_total{door=\"http\"} 1"), "{text}");
    })
    .await;
}

/// A code is a promise: `docs/api.md` lists each, and none that is never given.
#[test]
fn every_code_of_a_problem_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut given = BTreeSet::new();
    for folder in ["src/api", "src/manage"] {
        for file in std::fs::read_dir(root.join(folder)).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let text: String = text.split_whitespace().collect();
            for start in ["conflict(\"", "forbidden(\"", "StatusCode::"] {
                for after in text.split(start).skip(1) {
                    let status = |letter: char| letter.is_ascii_uppercase() || letter == '_';
                    let code = match start {
                        "StatusCode::" => after.trim_start_matches(status).strip_prefix(",\""),
                        _ => Some(after),
                    };
                    given.extend(code.and_then(|code| code.split('"').next()).map(str::to_owned));
                }
            }
        }
    }
    let page = std::fs::read_to_string(root.join("../docs/api.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| 4") || line.starts_with("| 5"));
    let listed: BTreeSet<String> =
        rows.map(|row| row.split('`').nth(1).unwrap().to_owned()).collect();
    assert!(given.len() > 25, "{given:?}");
    assert_eq!(listed, given);
}
