//! What sources receive: each event once, whatever comes how often and in which company.

use bytes::Bytes;
use snaphook::{
    domain::{
        event_type::EventType,
        id::{EventId, SourceId},
        received::{Finding, Identity, hash_of},
        source::SourceState,
    },
    store::{Arrival, Receipt, SHARDS, SourceRow, Store, deliveries::DeliveryFilter, page::Page},
};

use super::{add_endpoint, fresh, on_both, tenant};

/// A request with this id, signature and body at source 1; `""` is none.
pub fn arrival(id: &str, signature: &str, body: &str) -> Arrival {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (key, evidence, digest) = (some(id), some(signature), hash_of(body.as_bytes()));
    let identity = Identity {
        id: key.as_deref(),
        event_type: Some("charge.paid"),
        evidence: evidence.as_deref(),
        body: &digest,
    };
    Arrival {
        source: SourceId(1),
        tenant: tenant("acme"),
        event_type: EventType::parse("stripe.charge.paid").unwrap(),
        payload: Bytes::copy_from_slice(body.as_bytes()),
        content_type: Some("application/json".to_owned()),
        dedup: identity.dedup(false),
        evidence: identity.evidence(),
        key,
        source_type: Some("charge.paid".to_owned()),
        headers: Bytes::from_static(b"x-a: 1\n"),
        body: digest,
    }
}

/// Stores it.
pub async fn receive(store: &Store, arrival: Arrival) -> Receipt {
    store.receive(arrival).await.unwrap()
}

/// Stores them in one transaction, and gives the findings.
async fn together(store: &Store, arrivals: &[Arrival]) -> Vec<Receipt> {
    let mut tx = store.begin().await.unwrap();
    let receipts = tx.receive_many(&arrivals.iter().collect::<Vec<_>>()).await.unwrap();
    tx.commit().await.unwrap();
    receipts
}

fn findings(receipts: &[Receipt]) -> Vec<Finding> {
    receipts.iter().map(|receipt| receipt.finding).collect()
}

async fn events_on_their_way(store: &Store) -> Vec<EventId> {
    fresh(store).await.into_iter().map(|row| row.event_id).collect()
}

#[tokio::test]
async fn what_was_seen_is_told_from_what_is_new() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["stripe.*"]).await;
        let first = receive(store, arrival("evt_1", "sig_1", "{}")).await;
        assert_eq!(first.finding, Finding::New);

        for (id, signature, body, finding, same_event, why) in [
            ("evt_1", "sig_1", "{}", Finding::Duplicate, true, "the same again"),
            ("evt_1", "sig_9", "{}", Finding::Duplicate, true, "signed anew"),
            ("evt_1", "sig_2", "[]", Finding::Conflict, true, "the same id, another body"),
            ("evt_2", "sig_1", "{}", Finding::ReplaySuspected, true, "a copy under another id"),
            ("evt_2", "sig_1", "{}", Finding::ReplaySuspected, true, "and again"),
            ("evt_2", "sig_9", "{}", Finding::ReplaySuspected, true, "a copy of the second"),
            ("evt_3", "sig_3", "{}", Finding::New, false, "another event with the same body"),
            ("evt_2", "sig_4", "{}", Finding::New, false, "an id that was only ever suspected"),
            ("", "", "{}", Finding::New, false, "no id is like no other"),
            ("", "", "{}", Finding::New, false, "not even its own"),
        ] {
            let receipt = receive(store, arrival(id, signature, body)).await;
            assert_eq!(receipt.finding, finding, "{why}");
            assert_eq!(receipt.event == first.event, same_event, "{why}");
        }
        assert_eq!(events_on_their_way(store).await.len(), 5, "what is new, and nothing else");
    })
    .await;
}

#[tokio::test]
async fn two_sources_and_two_tenants_have_nothing_in_common() {
    on_both(async |store| {
        let here = receive(store, arrival("evt_1", "sig_1", "{}")).await;
        let there = Arrival { source: SourceId(2), ..arrival("evt_1", "sig_1", "{}") };
        let there = receive(store, there).await;
        assert_eq!((here.finding, there.finding), (Finding::New, Finding::New));
        assert_ne!(here.event, there.event);
    })
    .await;
}

#[tokio::test]
async fn requests_of_one_group_are_told_from_one_another() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["*"]).await;
        let receipts = together(
            store,
            &[
                arrival("evt_1", "sig_1", "{}"),
                arrival("evt_1", "sig_1", "{}"),
                arrival("evt_2", "sig_1", "{}"),
                arrival("evt_2", "sig_1", "{}"),
                arrival("", "", "{}"),
                arrival("evt_1", "sig_1", "[]"),
                arrival("evt_3", "sig_3", "{}"),
            ],
        )
        .await;

        let expected = [
            Finding::New,
            Finding::Duplicate,
            Finding::ReplaySuspected,
            Finding::ReplaySuspected,
            Finding::New,
            Finding::Conflict,
            Finding::New,
        ];
        assert_eq!(findings(&receipts), expected);
        for n in [1, 2, 3, 5] {
            assert_eq!(receipts[n].event, receipts[0].event, "{n} names the first event");
        }
        let mut new: Vec<_> = [0, 4, 6].map(|n| receipts[n].event).into();
        new.sort();
        assert_eq!(events_on_their_way(store).await, new);
    })
    .await;
}

#[tokio::test]
async fn what_comes_again_and_again_at_once_is_one_event() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["*"]).await;
        let calls = (0..200).map(|n| {
            let (id, signature) = (format!("evt_{}", n % 20), format!("sig_{}", n % 20));
            store.receive(arrival(&id, &signature, "{}"))
        });
        let receipts: Vec<_> =
            futures_util::future::join_all(calls).await.into_iter().map(Result::unwrap).collect();

        let new = receipts.iter().filter(|receipt| receipt.finding == Finding::New).count();
        assert_eq!(new, 20);
        let others = receipts.iter().filter(|receipt| receipt.finding == Finding::Duplicate);
        assert_eq!(others.count(), 180);
        assert_eq!(events_on_their_way(store).await.len(), 20);
    })
    .await;
}

#[tokio::test]
async fn a_received_event_is_there_with_the_commit_or_not_at_all() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["*"]).await;
        let one = arrival("evt_1", "sig_1", "{}");
        let mut tx = store.begin().await.unwrap();
        tx.receive_many(&[&one]).await.unwrap();
        tx.rollback().await.unwrap();
        assert_eq!(events_on_their_way(store).await, []);
        assert_eq!(receive(store, one).await.finding, Finding::New, "its sender tries again");
    })
    .await;
}

#[tokio::test]
async fn a_request_that_cannot_be_stored_harms_no_other() {
    on_both(async |store| {
        let poison = Arrival {
            content_type: Some("a\0b".to_owned()), // the door lets none pass
            ..arrival("evt_0", "", "{}")
        };
        let calls = (0..50).map(|n| {
            let one = if n == 25 { poison.clone() } else { arrival(&format!("evt_{n}"), "", "{}") };
            store.receive(one)
        });
        let results = futures_util::future::join_all(calls).await;
        let stored = results.iter().filter(|result| result.is_ok()).count();
        assert!(stored >= 49, "{stored}");
    })
    .await;
}

#[tokio::test]
async fn what_a_paused_source_holds_is_released_step_by_step_once_it_is_resumed() {
    on_both(async |store| {
        let mut row = super::sources::add_source(store, "acme", "stripe", 1).await;
        add_endpoint(store, "acme", 1, &["stripe.charge.*"]).await;
        set_state(store, &mut row, SourceState::Paused).await;
        for n in 0..5 {
            let held = Arrival { source: row.id, ..arrival(&format!("evt_{n}"), "", "{}") };
            assert_eq!(receive(store, held).await.finding, Finding::Held);
        }
        assert!(store.read().await.unwrap().has_held().await.unwrap());
        assert_eq!(release(store, 9).await, 0, "as long as it is paused");
        assert_eq!(waiting(store).await, 0);

        set_state(store, &mut row, SourceState::Active).await;
        assert_eq!(release(store, 3).await, 3);
        assert_eq!(waiting(store).await, 3);
        assert_eq!(release(store, 3).await, 2);
        assert_eq!(waiting(store).await, 5);
        assert!(!store.read().await.unwrap().has_held().await.unwrap());
        let shards: Vec<i16> = (0..SHARDS).collect();
        let told = store.read().await.unwrap().list_commands(&shards).await.unwrap();
        assert!(!told.is_empty(), "the owner of the lane is told");
    })
    .await;
}

async fn set_state(store: &Store, row: &mut SourceRow, state: SourceState) {
    row.state = state;
    let mut tx = store.begin().await.unwrap();
    assert!(tx.update_source(row).await.unwrap());
    tx.commit().await.unwrap();
}

async fn release(store: &Store, most: i32) -> i64 {
    let mut tx = store.begin().await.unwrap();
    let released = tx.release_held(most).await.unwrap();
    tx.commit().await.unwrap();
    released
}

async fn waiting(store: &Store) -> usize {
    let mut tx = store.read().await.unwrap();
    let filter = DeliveryFilter::default();
    tx.list_deliveries(&filter, Page::first(50)).await.unwrap().rows.len()
}

#[tokio::test]
async fn a_received_event_keeps_what_its_source_says() {
    on_both(async |store| {
        let receipt = receive(store, arrival("evt_1", "sig_1", "\u{feff}{}")).await;
        let mut tx = store.read().await.unwrap();
        let event = tx.list_events_by_id(&[receipt.event]).await.unwrap().remove(&receipt.event);
        let event = event.unwrap();
        assert_eq!(event.payload, "\u{feff}{}".as_bytes());
        assert_eq!(event.event_type, "stripe.charge.paid");
        assert_eq!(event.content_type.as_deref(), Some("application/json"));
        assert!(!event.checked, "the engine holds it against its schema");
    })
    .await;
}
