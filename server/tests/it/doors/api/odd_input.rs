//! Whatever is sent, it is taken or refused with a reason: never a defect of ours, never a panic.

use std::collections::BTreeSet;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{TestApi, on_both, wording::complaints};

/// What a field may be sent by mistake or by malice.
fn odd_values() -> Vec<Value> {
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(0),
        json!(u64::MAX),
        json!(1.5e300),
        json!(""),
        json!(" "),
        json!("\u{0}"),
        json!("a\r\nb"),
        json!("\u{202e}\u{fffd}😀"),
        json!("x".repeat(70_000)),
        json!([]),
        json!([null, -1, "\u{0}", {}]),
        json!({}),
        json!({"\u{0}": "\u{0}", "": null, "x": [1]}),
        json!({"a": {"b": {"$ref": "#"}}}),
        deep,
    ]
}

/// Each route that takes a body, and a body of which one field at a time is made odd.
pub fn bodies(endpoint: &str) -> Vec<(Method, String, Value)> {
    let at = |below: &str| format!("/v1/tenants/acme/endpoints/{endpoint}{below}");
    let settings = json!({
        "url": "https://example.com/", "description": "x", "event_types": ["*"], "filter": null,
        "format": "event", "signature": "standard", "headers": {}, "timeout": "5s",
        "retry_schedule": "brisk", "final_statuses": [], "max_in_flight": 1, "rate_limit": "5/s",
        "ordered": false, "reach": "public", "metadata": {}, "tls": {}, "secret": null,
    });
    let mut change = settings.clone();
    change.as_object_mut().unwrap().remove("secret");
    let types = json!({"name": "a.b", "description": "x", "schemas": {}, "example": 1,
        "archived": false});
    let mut type_change = types.clone();
    type_change.as_object_mut().unwrap().remove("name");
    vec![
        (Method::POST, "/v1/tenants/acme/endpoints".to_owned(), settings),
        (Method::PATCH, at(""), change),
        (Method::POST, at("/secrets"), json!({"kind": "hmac"})),
        (Method::POST, at("/secrets"), json!({"secret": null})),
        (Method::POST, at("/secrets/rotate"), json!({"kind": "hmac", "overlap": "0s"})),
        (
            Method::PUT,
            "/v1/tenants/odd".to_owned(),
            json!({"owner_email": null, "metadata": {}, "limits": {}}),
        ),
        (
            Method::PATCH,
            "/v1/tenants/acme".to_owned(),
            json!({"owner_email": null, "metadata": {}, "limits": {}}),
        ),
        (Method::POST, "/v1/event-types".to_owned(), types),
        (Method::PUT, "/v1/event-types/a.b".to_owned(), type_change.clone()),
        (Method::PATCH, "/v1/event-types/a.b".to_owned(), type_change),
        (
            Method::POST,
            "/v1/events".to_owned(),
            json!({"tenant": "acme", "type": "a.c", "data": 1,
            "key": null, "version": null, "occurred_at": null, "traceparent": null}),
        ),
        (
            Method::POST,
            "/v1/events/batch".to_owned(),
            json!({"events": [{"tenant": "acme", "type": "a", "data": 1}]}),
        ),
        (
            Method::POST,
            "/v1/keys".to_owned(),
            json!({"name": "", "tenant": null, "scopes": ["read"], "expires_at": null}),
        ),
    ]
}

#[track_caller]
fn assert_answered(status: StatusCode, what: &str) {
    let shown: String = what.chars().take(300).collect();
    assert!(!status.is_server_error(), "{status}: {shown}");
}

#[tokio::test]
async fn no_field_of_any_body_is_a_defect_of_ours_and_all_is_told_to_people() {
    on_both(async |api| {
        let mut unclear = BTreeSet::new();
        let endpoint = api.add_endpoint(json!({"url": "https://example.com/"})).await;
        for (method, path, body) in bodies(&endpoint) {
            for odd in odd_values() {
                let whole = api.call(method.clone(), &path, odd.clone()).await;
                assert_answered(whole.status, &format!("{method} {path} {odd}"));
                for field in body.as_object().unwrap().keys() {
                    let mut body = body.clone();
                    body[field] = odd.clone();
                    let answer = api.call(method.clone(), &path, body).await;
                    assert_answered(answer.status, &format!("{method} {path} {field}: {odd}"));
                    if answer.status == 422 {
                        unclear.extend(complaints(&answer, field));
                    }
                }
            }
        }
        assert!(unclear.is_empty(), "{unclear:#?}");
        api.deliver_all().await;
    })
    .await;
}

#[tokio::test]
async fn no_part_of_a_path_or_a_query_is_a_defect_of_ours() {
    on_both(async |api| {
        let long = "9".repeat(5_000);
        let odd = ["%00", "%2F", "..", "%ff%fe", "%E2%80%AE", "a%20b", "'%22--", long.as_str()];
        let document = snaphook::api::document();
        for (template, item) in document["paths"].as_object().unwrap() {
            for odd in odd {
                let (mut path, mut rest) = (String::new(), template.as_str());
                while let Some((before, after)) = rest.split_once('{') {
                    path = format!("{path}{before}{odd}");
                    rest = after.split_once('}').unwrap().1;
                }
                path.push_str(rest);
                for verb in item.as_object().unwrap().keys() {
                    let method: Method = verb.to_ascii_uppercase().parse().unwrap();
                    let answer = api.call(method, &path, Value::Null).await;
                    assert_answered(answer.status, &format!("{verb} {path}"));
                }
                query(api, template, item, odd).await;
            }
        }
    })
    .await;
}

/// Each parameter of a list, made odd.
async fn query(api: &TestApi, path: &str, item: &Value, odd: &str) {
    for parameter in item["get"]["parameters"].as_array().into_iter().flatten() {
        if parameter["in"] == "query" && !path.contains('{') {
            let name = parameter["name"].as_str().unwrap();
            for value in [odd, "", "-1", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "36500d"] {
                let path = format!("{path}?{name}={value}");
                assert_answered(api.get(&path).await.status, &path);
            }
        }
    }
}

#[tokio::test]
async fn requests_that_come_together_are_each_done_once() {
    on_both(async |api| {
        let event = json!({"tenant": "acme", "type": "a", "data": 1, "key": "same"});
        let together = (0..24).map(|_| api.post("/v1/events", event.clone()));
        let answers = futures_util::future::join_all(together).await;

        let accepted: Vec<Value> = answers.iter().map(|answer| answer.expect(202)).collect();
        let first = accepted.iter().filter(|one| one["duplicate"] == false).count();
        assert_eq!(first, 1, "one of them is the event");
        assert!(accepted.iter().all(|one| one["id"] == accepted[0]["id"]));
        assert_eq!(api.get("/v1/events").await.json()["data"].as_array().unwrap().len(), 1);
    })
    .await;
}
