//! Requests that are kept apart, and what is forgotten of them.

use std::time::Duration;

use bytes::Bytes;
use snaphook::{
    domain::{
        id::{EventId, RequestId, SourceId},
        request_state::RequestState,
        time::Timestamp,
    },
    store::{NewRequest, RequestRow, Store, page::Page},
};

use super::{NOW, on_both, tenant};

pub fn request(id: i64, state: RequestState) -> NewRequest {
    NewRequest {
        id: RequestId(id),
        source: SourceId(1),
        tenant: tenant("acme"),
        received_at: NOW + Duration::from_secs(id.unsigned_abs()),
        state,
        step: Some("signature"),
        reason: Some("does not match".to_owned()),
        method: "POST".to_owned(),
        target: "/in/src_1?a=b".to_owned(),
        headers: [("x-a", &b"\xff"[..]), ("x-a", b"2")].into_iter().collect(),
        body: Some(Bytes::from_static(b"\0{}")),
        provider_id: Some("evt_1".to_owned()),
        provider_type: None,
        event: Some(EventId(9)),
        digest: None,
    }
}

async fn add(store: &Store, request: &NewRequest) -> bool {
    let mut tx = store.begin().await.unwrap();
    let new = tx.add_request(request).await.unwrap();
    tx.commit().await.unwrap();
    new
}

async fn list(store: &Store, state: Option<RequestState>) -> Vec<RequestRow> {
    let mut tx = store.read().await.unwrap();
    tx.list_requests(SourceId(1), state, Page::first(50)).await.unwrap().rows
}

async fn ids(store: &Store) -> Vec<i64> {
    list(store, None).await.iter().map(|row| row.id.0).collect()
}

#[tokio::test]
async fn a_request_is_kept_as_it_came() {
    on_both(async |store| {
        let given = request(1, RequestState::Rejected);
        assert!(add(store, &given).await);
        let mut tx = store.read().await.unwrap();
        let row = tx.find_request(Some(&given.tenant), given.id).await.unwrap().unwrap();
        assert_eq!((row.source, row.received_at), (given.source, given.received_at));
        assert_eq!((&row.method, &row.target), (&given.method, &given.target));
        assert_eq!((&row.headers, &row.body), (&given.headers, &given.body));
        assert_eq!(row.step.as_deref(), given.step);
        assert_eq!((&row.reason, &row.provider_id), (&given.reason, &given.provider_id));
        assert_eq!((row.event, row.provider_type), (given.event, None));
        assert_eq!(tx.find_request(Some(&tenant("other")), given.id).await.unwrap(), None);
        assert!(tx.find_request(None, given.id).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_genuine_request_is_kept_once_and_refused_ones_each_time() {
    on_both(async |store| {
        let mut conflict = request(1, RequestState::Conflict);
        conflict.digest = Some([7; 32]);
        assert!(add(store, &conflict).await);
        conflict.id = RequestId(2);
        assert!(!add(store, &conflict).await, "the same again");
        conflict.source = SourceId(2);
        assert!(add(store, &conflict).await, "at another source");
        for id in [3, 4] {
            assert!(add(store, &request(id, RequestState::Rejected)).await);
        }
        assert_eq!(ids(store).await, [4, 3, 1]);
        let rejected = list(store, Some(RequestState::Rejected)).await;
        assert_eq!(rejected.len(), 2);
        assert_eq!(rejected[0].body, None, "a list has no bodies");
    })
    .await;
}

#[tokio::test]
async fn a_request_is_accepted_once_and_looked_at_again_as_often_as_one_likes() {
    on_both(async |store| {
        let (given, later) = (request(1, RequestState::Rejected), NOW + Duration::from_secs(9));
        add(store, &given).await;
        let mut tx = store.begin().await.unwrap();
        tx.update_request_verdict(given.id, "ok", None, later).await.unwrap();
        assert!(tx.accept_request(given.id, EventId(5), "key_1", later).await.unwrap());
        assert!(!tx.accept_request(given.id, EventId(6), "key_2", later).await.unwrap());
        let row = tx.find_request(None, given.id).await.unwrap().unwrap();
        assert_eq!((row.state, row.event), (RequestState::Accepted, Some(EventId(5))));
        assert_eq!((row.verdict.as_deref(), row.step, row.reason), (Some("ok"), None, None));
        assert_eq!((row.verified_at, row.accepted_at), (Some(later), Some(later)));
        assert_eq!(row.accepted_by.as_deref(), Some("key_1"));
        let refusal = Some(("timestamp", "too old"));
        tx.update_request_verdict(given.id, "stale", refusal, later).await.unwrap();
        let row = tx.find_request(None, given.id).await.unwrap().unwrap();
        assert_eq!(row.step.as_deref(), Some("timestamp"));
        tx.commit().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_is_beyond_the_bounds_or_past_its_time_is_forgotten() {
    on_both(async |store| {
        for id in 1..=6 {
            add(store, &request(id, RequestState::Rejected)).await;
        }
        add(store, &request(7, RequestState::Conflict)).await;
        let apart = store.read().await.unwrap().count_requests_apart().await.unwrap();
        assert_eq!(apart, [(SourceId(1), 1)], "nobody needs to look at what was refused");
        let size = list(store, None).await[0].size;
        let beyond = async |many, bytes| {
            let mut tx = store.begin().await.unwrap();
            tx.delete_rejected_beyond(SourceId(1), many, bytes).await.unwrap();
            tx.commit().await.unwrap();
        };
        beyond(5, 1 << 20).await;
        assert_eq!(ids(store).await, [7, 6, 5, 4, 3, 2], "by number; a conflict is not rejected");
        beyond(5, 3 * size).await;
        assert_eq!(ids(store).await, [7, 6, 5, 4], "by bytes");

        let mut tx = store.begin().await.unwrap();
        let before = NOW + Duration::from_secs(5);
        assert_eq!(tx.delete_requests_before(before).await.unwrap(), 1);
        tx.commit().await.unwrap();
        assert_eq!(ids(store).await, [7, 6, 5]);
    })
    .await;
}

#[tokio::test]
async fn what_was_seen_is_forgotten_after_its_time() {
    on_both(async |store| {
        use super::received::{arrival, receive};
        use snaphook::domain::received::Finding;
        receive(store, arrival("evt_1", "sig_1", "{}")).await;
        let forget = async |time: Timestamp| {
            let mut tx = store.begin().await.unwrap();
            let many = tx.delete_received_before(time).await.unwrap();
            tx.commit().await.unwrap();
            many
        };
        assert_eq!(forget(Timestamp::from_seconds(1_700_000_000)).await, 0);
        assert_eq!(forget(Timestamp::from_seconds(9_000_000_000)).await, 2, "id and signature");
        let again = receive(store, arrival("evt_1", "sig_1", "{}")).await;
        assert_eq!(again.finding, Finding::New);
    })
    .await;
}
