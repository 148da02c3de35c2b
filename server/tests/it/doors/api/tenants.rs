//! `/v1/tenants`.

use http::Method;
use serde_json::{Value, json};

use super::on_both;

#[tokio::test]
async fn a_tenant_is_made_changed_and_deleted() {
    on_both(async |api| {
        let path = "/v1/tenants/globex";
        let body = json!({"owner_email": "it@globex.example", "metadata": {"plan": "gold"}});

        let made = api.call(Method::PUT, path, body).await.expect(201);
        assert_eq!(made["metadata"]["plan"], "gold");
        let change = json!({"metadata": {"plan": null, "seats": 3}, "owner_email": null});
        let changed = api.call(Method::PATCH, path, change).await.expect(200);
        assert_eq!(changed["metadata"], json!({"seats": 3}));
        assert_eq!(changed["owner_email"], Value::Null);
        let again = api.call(Method::PUT, path, Value::Null).await.expect(200);
        assert_eq!((&again["metadata"], &again["created_at"]), (&json!({}), &made["created_at"]));
        assert_eq!(api.get(path).await.expect(200), again);

        api.call(Method::DELETE, path, Value::Null).await.expect(204);
        assert_eq!(api.get(path).await.problem(404), "not_found");
        assert_eq!(api.call(Method::DELETE, path, Value::Null).await.problem(404), "not_found");
    })
    .await;
}

#[tokio::test]
async fn deleting_a_tenant_cancels_what_waits_and_ends_its_keys() {
    on_both(async |api| {
        use snaphook::domain::scope::Scope;
        let endpoint = api.add_endpoint(json!({"url": "https://example.com/"})).await;
        let event = api.emit("order.paid").await;
        let key = api.key(Some("acme"), &[Scope::Read]).await;

        api.call(Method::DELETE, "/v1/tenants/acme", Value::Null).await.expect(204);

        let deliveries = api.get(&format!("/v1/events/{event}/deliveries")).await.expect(200);
        assert_eq!(deliveries["data"][0]["state"], "canceled");
        let path = format!("/v1/tenants/acme/endpoints/{endpoint}");
        api.get(&path).await.problem(404);
        let answer = api.call_as(&key, Method::GET, "/v1/tenants/acme", Value::Null).await;
        assert_eq!(answer.problem(401), "unauthorized");
    })
    .await;
}

#[tokio::test]
async fn a_list_of_tenants_is_paged_both_ways() {
    on_both(async |api| {
        for name in ["t-1", "t-2", "t-3", "t-4"] {
            api.add_tenant(name).await;
        }
        let ids = |page: &Value| -> Vec<String> {
            let data = page["data"].as_array().unwrap();
            data.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
        };
        let first = api.get("/v1/tenants?limit=3").await.expect(200);
        assert_eq!(ids(&first), ["acme", "t-1", "t-2"]);
        let next = format!("/v1/tenants?limit=3&cursor={}", first["next"].as_str().unwrap());
        let second = api.get(&next).await.expect(200);
        assert_eq!(
            (ids(&second), &second["next"]),
            (vec!["t-3".into(), "t-4".into()], &Value::Null)
        );
        let back = format!("/v1/tenants?limit=3&cursor={}", second["previous"].as_str().unwrap());
        assert_eq!(ids(&api.get(&back).await.expect(200)), ids(&first));
    })
    .await;
}

#[tokio::test]
async fn bad_fields_of_a_tenant_are_named() {
    on_both(async |api| {
        for (body, expected) in [
            (json!({"owner_email": "nobody"}), "owner_email: \"nobody\" is no email address"),
            (json!({"owner_email": "a\u{0}@b"}), "owner_email: it contains the control character"),
            (json!({"owner_email": 5}), "owner_email: 5 does not fit; write a text"),
            (json!({"limits": {"speed": 1}}), "limits.speed: there is no such limit"),
            (json!({"limits": {"endpoints": -1}}), "limits.endpoints: -1 is no count"),
            (json!({"metadata": {"a": "x".repeat(20_000)}}), "metadata: it is 20008 bytes"),
            (json!({"colour": "red"}), "colour: there is no such field; known are"),
        ] {
            let answer = api.call(Method::PATCH, "/v1/tenants/acme", body.clone()).await;
            assert_eq!(answer.problem(422), "invalid_input", "{body}");
            assert!(answer.errors()[0].starts_with(expected), "{:?}", answer.errors());
        }
        let answer = api.call(Method::PUT, "/v1/tenants/a%20b", Value::Null).await;
        assert!(answer.errors()[0].starts_with("tenant: "), "{:?}", answer.errors());
    })
    .await;
}

#[tokio::test]
async fn a_tenant_has_no_more_endpoints_than_its_limit() {
    on_both(async |api| {
        let limits = json!({"limits": {"endpoints": 1}});
        api.call(Method::PATCH, "/v1/tenants/acme", limits).await.expect(200);
        let endpoint = json!({"url": "https://example.com/"});

        api.add_endpoint(endpoint.clone()).await;
        let answer = api.post("/v1/tenants/acme/endpoints", endpoint).await;

        assert_eq!(answer.problem(409), "too_many_endpoints");
    })
    .await;
}
