//! How the API says no, whatever is asked.

use axum::body::Body;
use http::{Method, Request, header};
use serde_json::{Value, json};

use super::on_both;

#[tokio::test]
async fn a_body_must_be_json_and_say_so() {
    on_both(async |api| {
        for (content_type, body, status, code) in [
            (Some("text/plain"), "{}", 415, "unsupported_media_type"),
            (None, "{}", 415, "unsupported_media_type"),
            (Some("application/json"), "{", 400, "malformed_json"),
            (Some("application/json"), "", 400, "malformed_json"),
            (Some("application/json"), "{} {}", 400, "malformed_json"),
            (Some("application/json"), "[]", 422, "invalid_input"),
            (Some("application/json; charset=utf-8"), "{}", 422, "invalid_input"),
            (Some("application/vnd.acme+json"), "{}", 422, "invalid_input"),
        ] {
            let mut request = Request::post("/v1/tenants/acme/endpoints")
                .header(header::AUTHORIZATION, format!("Bearer {}", api.operator));
            if let Some(content_type) = content_type {
                request = request.header(header::CONTENT_TYPE, content_type);
            }
            let answer = api.send(request.body(Body::from(body)).unwrap()).await;
            assert_eq!(answer.problem(status), code, "{content_type:?} {body}");
        }
        // serde takes an array for the object, its members in order.
        let ordered = json!(["acme", "order.paid", {}, null, null, null, null]).to_string();
        let request = Request::post("/v1/events")
            .header(header::AUTHORIZATION, format!("Bearer {}", api.operator))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(ordered))
            .unwrap();
        assert_eq!(api.send(request).await.problem(422), "invalid_input");
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let request = Request::post("/v1/events")
            .header(header::AUTHORIZATION, format!("Bearer {}", api.operator))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(deep))
            .unwrap();
        assert!(api.send(request).await.status.is_client_error(), "and no stack overflows");
    })
    .await;
}

#[tokio::test]
async fn a_body_over_its_limit_is_413() {
    on_both(async |api| {
        let body = json!({"url": "x".repeat(1024 * 1024)});
        let answer = api.post("/v1/tenants/acme/endpoints", body).await;
        assert_eq!(answer.problem(413), "too_large");
    })
    .await;
}

#[tokio::test]
async fn bad_parameters_are_named() {
    on_both(async |api| {
        for (query, expected) in [
            ("limit=0", "limit: 0 is not from 1 to 250"),
            ("limit=251", "limit: 251 is not from 1 to 250"),
            ("limit=many", "limit: \"many\" is no number"),
            ("cursor=abc", "cursor: it is no cursor of this server"),
            ("since=soon", "since: \"soon\" is no time"),
            ("type=a..b", "type: "),
            ("tenant=", "tenant: it is empty; leave it out, or give a value"),
            ("limit=", "limit: it is empty; leave it out, or give a value"),
            ("tpye=a", "tpye: there is no such parameter here"),
            ("type=a&type=b", "type: it is given twice"),
            ("type=a%00", "type: it contains NUL"),
            ("key=k", "key: a key belongs to a tenant"),
            ("order=random", "order: \"random\" is unknown; use newest, feed"),
        ] {
            let answer = api.get(&format!("/v1/events?{query}")).await;
            assert_eq!(answer.problem(400), "invalid_query", "{query}");
            assert!(answer.errors()[0].starts_with(expected), "{:?}", answer.errors());
        }
        let answer = api.get("/v1/event-types?archived=yes").await;
        assert_eq!(answer.errors(), ["archived: \"yes\" does not fit; write true or false"]);
        api.get("/v1/events?cursor=").await.expect(200);
        let answer = api.get("/v1/deliveries?state=lost").await;
        assert!(answer.errors()[0].contains("pending, held, delivered, dead"));
    })
    .await;
}

#[tokio::test]
async fn a_cursor_belongs_to_its_list_and_its_filters() {
    on_both(async |api| {
        for _ in 0..2 {
            api.emit("order.paid").await;
        }
        let page = api.get("/v1/events?limit=1").await.expect(200);
        let cursor = page["next"].as_str().unwrap();
        for path in [
            format!("/v1/events?limit=1&type=order.*&cursor={cursor}"),
            format!("/v1/events?limit=1&order=feed&cursor={cursor}"),
            format!("/v1/audit?cursor={cursor}"),
        ] {
            let answer = api.get(&path).await;
            assert_eq!(answer.problem(400), "invalid_query", "{path}");
            assert!(answer.errors()[0].starts_with("cursor: it belongs to another list"));
        }
    })
    .await;
}

#[tokio::test]
async fn unknown_routes_and_methods_are_problems_too() {
    on_both(async |api| {
        assert_eq!(api.get("/v1/nothing").await.problem(404), "unknown_route");
        let answer = api.call(Method::DELETE, "/v1/events", Value::Null).await;
        assert_eq!(answer.problem(405), "method_not_allowed");
        assert_eq!(answer.headers[header::ALLOW], "GET,HEAD,POST");
    })
    .await;
}

#[tokio::test]
async fn every_answer_has_the_id_of_its_request() {
    on_both(async |api| {
        let with = |id: &str| {
            let request = Request::get("/v1/nothing").header("x-request-id", id);
            api.send(request.body(Body::empty()).unwrap())
        };
        let answer = with("caller-7").await;
        assert_eq!(answer.headers["x-request-id"], "caller-7");
        assert_eq!(answer.json()["request_id"], "caller-7");
        assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store", "what is a tenant's own");
        for odd in ["a b", &"x".repeat(129)] {
            let answer = with(odd).await;
            let id = answer.headers["x-request-id"].to_str().unwrap();
            assert!(id.starts_with("req_"), "{id}");
        }
    })
    .await;
}
