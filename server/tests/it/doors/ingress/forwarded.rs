//! What a source took, on its way to whoever processes it: as it came, to URLs and to consumers.

use std::time::Duration;

use http::Request;
use serde_json::json;
use snaphook::{
    domain::{
        endpoint_kind::EndpointKind,
        profile::{Profile, Profiles, Scheme},
        retry::{Jitter, RetrySchedule},
        source::SourceState,
    },
    engine::Owner,
    manage::{Manage, queues::PullRules},
    world::{World as _, guard::Policy},
};
use snaphook_signature::Received;

use super::{SECRET, TestDoor, TestSource, on_both, shop};
use crate::support::simulated::{Simulated, at, keyring, plant, run_dry};

const BODY: &[u8] = br#"{ "id": "evt_1",  "type": "charge.paid" }"#;

/// Whether an official verifier of the provider would take the request at this time.
fn is_genuine(door: &TestDoor, source: &TestSource, n: usize) -> bool {
    let request = &door.world.requests()[n];
    let headers: Vec<(&str, &[u8])> =
        request.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let received = Received::new(&headers, &request.body).with_url(&request.url);
    let verifier = source.row.settings.verifier(&[SECRET]).unwrap();
    verifier.verify(&received, door.world.now().seconds()).is_ok()
}

#[tokio::test]
async fn a_handler_gets_the_raw_body_and_the_headers_as_they_came() {
    on_both(async |door| {
        let source = door.add_source(shop("stripe")).await;
        door.add_endpoint("handler").await;
        let (mut parts, body) = door.signed(&source, "", BODY).into_parts();
        for (name, value) in [
            ("x-twice", &b"1"[..]),
            ("x-twice", b"\xff2"),
            ("x-forwarded-for", b"192.0.2.1"),
            ("connection", b"x-hop"),
            ("x-hop", b"1"),
            ("snaphook-id", b"evt_forged"),
        ] {
            let name: http::HeaderName = name.parse().unwrap();
            parts.headers.append(name, http::HeaderValue::from_bytes(value).unwrap());
        }
        let answer = door.send(Request::from_parts(parts, body)).await;
        assert_eq!(answer.status, 200);

        assert_eq!(door.deliver().await, 1);

        let request = &door.world.requests()[0];
        assert_eq!(request.body, BODY);
        let twice: Vec<_> =
            request.headers.get_all("x-twice").iter().map(http::HeaderValue::as_bytes).collect();
        assert_eq!(twice, [&b"1"[..], b"\xff2"]);
        assert_eq!(request.headers["content-type"], "application/json");
        assert!(is_genuine(door, &source, 0), "with the signature that it had");
        for name in ["x-forwarded-for", "connection", "x-hop", "webhook-id", "webhook-signature"] {
            assert!(!request.headers.contains_key(name), "{name}");
        }
        let event = door.events().await[0].to_string();
        assert_eq!(request.headers["snaphook-id"], event.as_str());
        assert!(request.headers["snaphook-signature"].to_str().unwrap().starts_with("v1,"));
    })
    .await;
}

#[tokio::test]
async fn a_retry_hours_later_is_genuine_where_it_is_signed_anew() {
    on_both(async |door| {
        let failing = Simulated::new(|_, n| if n < 3 { 500 } else { 200 });
        let door = TestDoor::on(door.store.clone(), failing);
        for (scheme, anew, expected) in
            [("stripe", false, false), ("stripe", true, true), ("github", false, true)]
        {
            let before = door.world.requests().len();
            let name = format!("{scheme}-{anew}");
            let source = door.add_source(json!({"name": name, "scheme": scheme})).await;
            let mut settings = at(&format!("https://handler.example/{name}"));
            settings.event_types = vec![format!("{name}.*")];
            settings.retry_schedule = serde_json::from_value(json!(["0s", "10h", "10h"])).unwrap();
            if anew {
                let profile = Profile { scheme: Scheme::Source, header: None };
                settings.signature = Profiles(vec![profile]);
            }
            plant(&door.store, &door.world, settings).await;
            assert_eq!(door.post(&source, &name, BODY).await, 200);

            let mut owner = Owner::new(door.engine.clone());
            run_dry(&door.engine, &mut owner, &door.world).await.unwrap();

            let requests = door.world.requests().split_off(before);
            assert_eq!(requests.len(), 3, "{name}");
            let ids: Vec<_> = requests.iter().map(|one| &one.headers["snaphook-id"]).collect();
            assert_eq!(ids[0], ids[2]);
            let times = requests.iter().map(|one| &one.headers["snaphook-timestamp"]);
            let times: Vec<i64> = times.map(|v| v.to_str().unwrap().parse().unwrap()).collect();
            assert!(times[2] - times[0] >= 72_000, "{times:?}");
            assert_eq!(is_genuine(&door, &source, before + 2), expected, "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_consumer_gets_what_a_source_took_and_what_it_held() {
    on_both(async |door| {
        let source = door.add_source(shop("stripe")).await;
        let mut settings = at("");
        settings.kind = EndpointKind::Queue;
        let queue = plant(&door.store, &door.world, settings).await;
        let manage = Manage {
            store: door.store.clone(),
            world: door.world.clone(),
            keyring: std::sync::Arc::new(keyring()),
            policy: std::sync::Arc::new(Policy::default()),
            wake: std::sync::Arc::new(|| {}),
            reread: snaphook::manage::no_door(),
            owner_wait: Duration::ZERO,
        };
        let schedule = RetrySchedule::default();
        let rules = PullRules { schedule: &schedule, jitter: Jitter::NONE, strict: true };
        let lease = Duration::from_secs(30);
        assert_eq!(door.post(&source, "", BODY).await, 200);
        let paused = door.set(source, |row| row.state = SourceState::Paused).await;
        let held = br#"{"id": "evt_2", "type": "a.type/of:theirs"}"#;
        assert_eq!(door.post(&paused, "", held).await, 200);

        let row = manage.find_queue(None, queue).await.unwrap();
        let claim = manage.claim(&row, 9, lease, rules).await.unwrap();

        let [one] = claim.claimed.as_slice() else { panic!("{:?}", claim.claimed) };
        let inbound = one.event.inbound.as_ref().unwrap();
        assert_eq!((one.event.payload.as_ref(), one.event.key.as_deref()), (BODY, Some("evt_1")));
        assert_eq!(inbound.source, paused.row.id);
        assert_eq!(inbound.source_type.as_deref(), Some("charge.paid"));
        assert!(inbound.headers.iter().any(|(name, _)| name == "stripe-signature"));
        assert_eq!(door.deliver().await, 0, "nobody else sends it");
        door.set(paused, |row| row.state = SourceState::Active).await;
        door.engine.release_held().await.unwrap();
        let claim = manage.claim(&row, 9, lease, rules).await.unwrap();
        assert_eq!(claim.claimed.len(), 1, "what was held while the source was paused");
        assert_eq!(claim.claimed[0].event.event_type, "shop.a.type.of.theirs");
    })
    .await;
}
