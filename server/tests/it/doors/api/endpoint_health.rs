//! How an endpoint is doing as the API shows it, and what people can do about it.

use serde_json::{Value, json};
use snaphook::engine::Owner;

use super::{TestApi, on_both};
use crate::support::simulated::turn;

/// An endpoint whose receiver fails, and so many events to it, all attempted once.
async fn failing(api: &TestApi, many: usize) -> (String, Owner) {
    let settings = json!({"url": "https://example.com/fail", "retry_schedule": ["0s", "10h"]});
    let id = api.add_endpoint(settings).await;
    for _ in 0..many {
        api.emit("order.paid").await;
    }
    let engine = api.engine();
    let mut owner = Owner::new(engine.clone());
    owner.claim().await.unwrap();
    turn(&engine, &mut owner).await.unwrap();
    (format!("/v1/tenants/acme/endpoints/{id}"), owner)
}

#[tokio::test]
async fn a_failing_endpoint_shows_since_when_why_and_what_comes_next() {
    on_both(async |api| {
        let well = api.add_endpoint(json!({"url": "https://example.com/", "event_types": ["x"]}));
        let well = format!("/v1/tenants/acme/endpoints/{}", well.await);
        let new = api.get(&well).await.expect(200)["health"].clone();
        let closed = json!({"state": "closed", "since": null, "next_probe_at": null});
        assert_eq!(
            new,
            json!({"state": "healthy", "since": null, "reason": null, "status": null,
                "last_success_at": null, "last_failure_at": null, "warned_at": [],
                "disables_at": null, "circuit": closed})
        );

        let (path, _owner) = failing(api, 6).await;
        let health = api.get(&path).await.expect(200)["health"].clone();
        assert_eq!((&health["state"], &health["reason"]), (&json!("failing"), &json!("status")));
        assert_eq!((&health["status"], &health["circuit"]["state"]), (&json!(500), &json!("open")));
        for time in ["since", "last_failure_at", "disables_at"] {
            assert!(health[time].is_string(), "{time}");
        }
        assert!(health["circuit"]["next_probe_at"].is_string());
        let page = api.get("/v1/deliveries?state=held").await.expect(200);
        let held = page["data"].as_array().unwrap();
        assert_eq!(held.len(), 6);
        assert!(held.iter().all(|one| one["held_by"] == "circuit"));
        assert_eq!(api.get("/v1/deliveries?state=pending").await.json()["data"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn an_open_circuit_can_be_probed_and_no_other() {
    on_both(async |api| {
        let (path, mut owner) = failing(api, 6).await;
        let sent = api.world.requests().len();
        let answer = api.post(&format!("{path}/probe"), Value::Null).await.expect(202);
        assert_eq!(answer["health"]["circuit"]["state"], "open");
        let engine = api.engine();
        turn(&engine, &mut owner).await.unwrap();
        assert_eq!(api.world.requests().len(), sent + 1);
        let page = api.get("/v1/deliveries?state=held").await.expect(200);
        let oldest = page["data"].as_array().unwrap().last().unwrap().clone();
        let oldest = format!("/v1/deliveries/{}", oldest["id"].as_str().unwrap());
        let attempts = api.get(&oldest).await.expect(200)["attempts"].clone();
        assert_eq!((&attempts[0]["probe"], &attempts[1]["probe"]), (&json!(false), &json!(true)));

        let well = api.add_endpoint(json!({"url": "https://example.com/", "event_types": ["x"]}));
        let well = format!("/v1/tenants/acme/endpoints/{}", well.await);
        let refused = api.post(&format!("{well}/probe"), Value::Null).await;
        assert_eq!(refused.problem(409), "circuit_not_open");
        api.post(&format!("{well}/pause"), Value::Null).await.expect(202);
        let refused = api.post(&format!("{well}/probe"), Value::Null).await;
        assert_eq!(refused.problem(409), "endpoint_not_active");
        api.post("/v1/tenants/acme/endpoints/ep_0000000000001/probe", Value::Null)
            .await
            .problem(404);
    })
    .await;
}

#[tokio::test]
async fn a_disabled_endpoint_is_enabled_with_or_without_what_it_held() {
    on_both(async |api| {
        for held in ["send", "discard"] {
            let (path, mut owner) = failing(api, 3).await;
            let id = path.rsplit('/').next().unwrap().parse().unwrap();
            let mut tx = api.store.begin().await.unwrap();
            let mut row = tx.find_endpoint(id).await.unwrap().unwrap();
            row.state = snaphook::domain::endpoint_state::EndpointState::Disabled;
            row.state_reason = Some("because".to_owned());
            tx.update_endpoint(&mut row).await.unwrap();
            tx.commit().await.unwrap();
            let disabled = api.get(&path).await.expect(200);
            assert_eq!(disabled["health"]["state"], "disabled");
            assert_eq!(disabled["health"]["since"], disabled["state_since"]);
            for (body, field) in [(json!({"held": "burn"}), "held"), (json!({"hold": 1}), "hold")] {
                let refused = api.post(&format!("{path}/enable"), body).await;
                assert!(refused.status.is_client_error());
                let words = String::from_utf8_lossy(&refused.bytes).into_owned();
                assert!(words.contains(field), "{words}");
            }

            let enable = json!({ "held": held });
            let enabled = api.post(&format!("{path}/enable"), enable).await.expect(202);
            assert_eq!(enabled["discarding"], held == "discard");
            let engine = api.engine();
            turn(&engine, &mut owner).await.unwrap();

            let shown = api.get(&path).await.expect(200);
            assert_eq!((&shown["state"], &shown["discarding"]), (&json!("active"), &json!(false)));
            assert_eq!(shown["state_reason"], Value::Null);
            let query =
                format!("/v1/deliveries?endpoint={}&cause=disabled", shown["id"].as_str().unwrap());
            let dead = api.get(&query).await.expect(200)["data"].as_array().unwrap().len();
            assert_eq!(dead, if held == "discard" { 3 } else { 0 }, "{held}");
            api.post(&format!("{path}/enable"), Value::Null).await.expect(200);
        }
    })
    .await;
}
