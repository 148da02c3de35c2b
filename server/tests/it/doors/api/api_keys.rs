//! `/v1/keys`.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use snaphook::domain::scope::Scope;

use super::on_both;

#[tokio::test]
async fn a_key_works_from_its_making_to_its_end() {
    on_both(async |api| {
        let new = json!({"name": "ci", "tenant": "acme", "scopes": ["read", "emit"]});
        let made = api.post("/v1/keys", new).await.expect(201);
        let key = made["key"].as_str().unwrap().to_owned();
        let path = format!("/v1/keys/{}", made["id"].as_str().unwrap());
        let try_it = || api.call_as(&key, Method::GET, "/v1/tenants/acme", Value::Null);

        try_it().await.expect(200);
        let shown = api.get(&path).await.expect(200);
        assert_eq!(
            (&shown["role"], &shown["scopes"]),
            (&json!("tenant"), &json!(["read", "emit"]))
        );
        assert!(shown.get("key").is_none() && !shown.to_string().contains(&key));
        api.call(Method::DELETE, &path, Value::Null).await.expect(204);
        api.world.pass(Duration::from_secs(5));
        assert_eq!(try_it().await.problem(401), "unauthorized");
        assert!(api.get(&path).await.expect(200)["revoked_at"].is_string());
    })
    .await;
}

#[tokio::test]
async fn a_key_ends_when_it_expires() {
    on_both(async |api| {
        use snaphook::world::World as _;
        let expires = api.world.now() + Duration::from_mins(1);
        let new = json!({"scopes": ["read"], "expires_at": expires});
        let made = api.post("/v1/keys", new).await.expect(201);
        let key = made["key"].as_str().unwrap();

        api.call_as(key, Method::GET, "/v1/events", Value::Null).await.expect(200);
        api.world.pass(Duration::from_mins(1));
        api.call_as(key, Method::GET, "/v1/events", Value::Null).await.problem(401);
    })
    .await;
}

#[tokio::test]
async fn a_key_makes_none_that_may_do_more_than_itself() {
    on_both(async |api| {
        api.add_tenant("globex").await;
        let key = api.key(Some("acme"), &[Scope::Read, Scope::Manage]).await;
        let post = |body: Value| api.call_as(&key, Method::POST, "/v1/keys", body);

        post(json!({"scopes": ["emit"]})).await.problem(403);
        post(json!({"scopes": ["read"], "tenant": "globex"})).await.problem(404);
        let made = post(json!({"scopes": ["read"]})).await.expect(201);
        assert_eq!(made["tenant"], "acme", "its own, without being asked");
        let seen = api.call_as(&key, Method::GET, "/v1/keys", Value::Null).await.expect(200);
        assert_eq!(seen["data"].as_array().unwrap().len(), 2, "the operator's are not seen");
    })
    .await;
}

#[tokio::test]
async fn bad_fields_of_a_key_are_named() {
    on_both(async |api| {
        for (body, expected) in [
            (json!({"scopes": []}), "scopes: it is empty; name one at least"),
            (json!({"scopes": ["fly"]}), "scopes[0]: \"fly\" is unknown; use read"),
            (json!({"scopes": ["read"], "name": "a\u{7}"}), "name: it contains"),
            (json!({"scopes": ["read"], "expires_at": "2020-01-01T00:00:00Z"}), "expires_at: "),
            (json!({}), "scopes: it is missing"),
        ] {
            let answer = api.post("/v1/keys", body.clone()).await;
            assert_eq!(answer.problem(422), "invalid_input", "{body}");
            assert!(answer.errors()[0].starts_with(expected), "{:?}", answer.errors());
        }
        let unknown = json!({"scopes": ["read"], "tenant": "nobody"});
        api.post("/v1/keys", unknown).await.problem(404);
    })
    .await;
}
