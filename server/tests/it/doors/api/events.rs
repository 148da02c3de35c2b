//! `GET /v1/events`.

use serde_json::{Value, json};

use super::{TestApi, on_both};

async fn types(api: &TestApi, query: &str) -> (Vec<String>, Value) {
    let page = api.get(&format!("/v1/events?{query}")).await.expect(200);
    let types =
        page["data"].as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap().to_owned());
    (types.collect(), page["next"].clone())
}

#[tokio::test]
async fn events_are_filtered_and_the_newest_is_first() {
    on_both(async |api| {
        for event_type in ["order.paid", "order.item.added", "orders", "order_x.y"] {
            api.emit(event_type).await;
        }
        for (query, expected) in [
            ("", vec!["order_x.y", "orders", "order.item.added", "order.paid"]),
            ("type=order.*", vec!["order.item.added", "order.paid"]),
            ("type=order.paid", vec!["order.paid"]),
            ("type=order.item.*", vec!["order.item.added"]),
            ("type=*&limit=1", vec!["order_x.y"]),
            ("since=1h", vec!["order_x.y", "orders", "order.item.added", "order.paid"]),
            ("until=1h", vec![]),
            ("since=2020-01-01T00:00:00Z&until=2021-01-01T00:00:00Z", vec![]),
            ("tenant=globex", vec![]),
        ] {
            assert_eq!(types(api, query).await.0, expected, "{query}");
        }
    })
    .await;
}

/// Waits until a feed shows `expected`. On a cluster that other tests share, their open
/// transactions hold it back for a moment: it cannot know that they are of another database.
async fn feed(api: &TestApi, query: &str, expected: &[&str]) -> Value {
    #[expect(clippy::disallowed_methods, reason = "waits for transactions of other tests")]
    let mut steps = tokio::time::interval(std::time::Duration::from_millis(20));
    for _ in 0..1_000 {
        steps.tick().await;
        let (seen, next) = types(api, query).await;
        if seen == expected {
            return next;
        }
        assert!(
            expected.starts_with(&seen.iter().map(String::as_str).collect::<Vec<_>>()),
            "{seen:?}"
        );
    }
    panic!("the feed never showed {expected:?}");
}

#[tokio::test]
async fn a_feed_goes_on_where_it_ended() {
    on_both(async |api| {
        let before_all = feed(api, "order=feed&limit=2", &[]).await;
        for event_type in ["a", "b", "c"] {
            api.emit(event_type).await;
        }
        let then = |next: &Value| format!("order=feed&limit=2&cursor={}", next.as_str().unwrap());
        let next = feed(api, "order=feed&limit=2", &["a", "b"]).await;
        feed(api, &then(&before_all), &["a", "b"]).await; // a place before there was any
        let next = feed(api, &then(&next), &["c"]).await;
        let next = feed(api, &then(&next), &[]).await;
        api.emit("d").await;
        feed(api, &then(&next), &["d"]).await; // asked again at the end
    })
    .await;
}

/// An id is drawn at the emit, so an event that commits late has an id that a reader has passed.
#[tokio::test]
async fn a_feed_never_skips_an_event_that_commits_late() {
    on_both(async |api| {
        if api.store.dialect() == snaphook::store::Dialect::Sqlite {
            return; // one writer: nothing can commit late
        }
        let mut late = api.store.begin().await.unwrap();
        late.accept(&crate::store::new_event("acme", "late")).await.unwrap();
        api.emit("early").await;

        let (seen, _) = types(api, "order=feed").await;
        assert!(seen.is_empty(), "nothing is shown past an open transaction: {seen:?}");
        late.commit().await.unwrap();

        feed(api, "order=feed", &["late", "early"]).await;
    })
    .await;
}

#[tokio::test]
async fn an_event_that_is_no_json_is_shown_in_base64() {
    on_both(async |api| {
        let path = "/v1/tenants/acme/events/a";
        let request = http::Request::post(path)
            .header("authorization", format!("Bearer {}", api.operator))
            .header("content-type", "text/plain")
            .body(axum::body::Body::from("hello"))
            .unwrap();
        let id = api.send(request).await.expect(202)["id"].as_str().unwrap().to_owned();

        let shown = api.get(&format!("/v1/events/{id}")).await.expect(200);

        assert_eq!((&shown["data_base64"], &shown["bytes"]), (&json!("aGVsbG8="), &json!(5)));
        assert!(shown.get("data").is_none());
        assert_eq!(
            (&shown["door"], &shown["content_type"]),
            (&json!("http"), &json!("text/plain"))
        );
    })
    .await;
}
