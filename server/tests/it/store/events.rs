//! Events, read.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use snaphook::{
    domain::{event::Door, id::EventId},
    store::{
        Dialect, NewEvent,
        events::{EventFilter, EventSummary},
        page::Page,
    },
};

use super::{emit, new_event, on_both, tenant};
use crate::support::live::pause;

#[tokio::test]
async fn an_event_is_read_as_it_was_given_and_by_its_tenant_only() {
    on_both(async |store| {
        let new = NewEvent {
            content_type: Some("text/plain".to_owned()),
            key: Some("k".to_owned()),
            dedup: Some("k".to_owned()),
            version: Some("2".to_owned()),
            occurred_at: Some(super::NOW),
            payload: Bytes::from_static(b"\0\xff bytes"),
            ..new_event("acme", "order.paid")
        };
        let id = emit(store, &new).await.event;
        let mut tx = store.read().await.unwrap();

        let found: EventSummary = tx.find_event(Some(&tenant("acme")), id).await.unwrap().unwrap();

        assert_eq!((found.id, found.door(), found.payload_bytes), (id, Some(Door::Http), 8));
        assert_eq!((found.tenant, found.event_type), ("acme".into(), "order.paid".into()));
        assert_eq!((found.content_type, found.key), (new.content_type, new.key));
        assert_eq!((found.version, found.occurred_at), (new.version, new.occurred_at));
        assert!(tx.find_event(None, id).await.unwrap().is_some());
        assert!(tx.find_event(Some(&tenant("evil")), id).await.unwrap().is_none());
        assert_eq!(tx.find_payload(id).await.unwrap().unwrap(), b"\0\xff bytes");
        assert!(tx.find_payload(EventId(1)).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn each_condition_narrows_the_list() {
    on_both(async |store| {
        let keyed = NewEvent {
            key: Some("k".to_owned()),
            dedup: Some("k".to_owned()),
            ..new_event("acme", "order.paid")
        };
        emit(store, &keyed).await;
        emit(store, &new_event("acme", "order_paid")).await;
        let newest = emit(store, &new_event("evil", "order.paid")).await.event;
        let at = newest.created_at();
        let all = EventFilter::default;
        for (filter, expected, why) in [
            (all(), 3, "no condition"),
            (EventFilter { tenant: Some(tenant("acme")), ..all() }, 2, "tenant"),
            (EventFilter { event_type: Some("order.paid".parse().unwrap()), ..all() }, 2, "exact"),
            (EventFilter { event_type: Some("order.*".parse().unwrap()), ..all() }, 2, "prefix"),
            (EventFilter { event_type: Some("*".parse().unwrap()), ..all() }, 3, "every type"),
            (EventFilter { since: Some(at), ..all() }, 1, "from then on"),
            (EventFilter { until: Some(at), ..all() }, 2, "before then"),
            (EventFilter { since: Some(at + Duration::from_secs(9)), ..all() }, 0, "later"),
            (
                EventFilter { tenant: Some(tenant("acme")), key: Some("k".into()), ..all() },
                1,
                "key",
            ),
            (
                EventFilter { tenant: Some(tenant("evil")), key: Some("k".into()), ..all() },
                0,
                "of another",
            ),
        ] {
            let mut tx = store.read().await.unwrap();
            let list = tx.list_events(&filter, Page::first(9)).await.unwrap();
            assert_eq!(list.rows.len(), expected, "{why}");
        }
        let mut tx = store.read().await.unwrap();
        let first = tx.list_events(&all(), Page::first(1)).await.unwrap();
        assert_eq!(first.rows[0].id, newest);
        // What other tests of this cluster have open can hold the feed back; never more than all.
        let feed = tx.list_feed(&all(), Page::first(9)).await.unwrap();
        assert!(feed.rows.len() <= 3 && feed.rows.is_sorted_by_key(|row| row.id));
    })
    .await;
}

/// Else a feed whose filter wants nothing would look through all that others emit, each time anew.
#[tokio::test]
async fn the_end_of_a_feed_moves_on_with_what_its_filter_leaves_out_and_passes_nothing_over() {
    on_both(async |store| {
        if store.dialect() == Dialect::Sqlite {
            return; // its feed goes on behind the last row that was shown
        }
        let filter = EventFilter { tenant: Some(tenant("acme")), ..EventFilter::default() };
        let ask = async |cursor: Option<&str>| {
            let page = Page::new("feed", cursor, 9).unwrap();
            let page = store.read().await.unwrap().list_feed(&filter, page).await.unwrap();
            (page.rows, page.next.unwrap())
        };
        let mut late = store.begin().await.unwrap();
        late.accept(&new_event("acme", "late")).await.unwrap();
        let (_, first) = ask(None).await;
        emit(store, &new_event("globex", "other")).await;
        let (rows, mut cursor) = ask(Some(&first)).await;
        assert!(rows.is_empty(), "nothing is shown past an open transaction");
        late.commit().await.unwrap();

        // What other tests of this cluster have open can hold the feed back for a moment.
        let (mut shown, mut places) = (Vec::new(), BTreeSet::new());
        for _ in 0..1_000 {
            let (rows, next) = ask(Some(&cursor)).await;
            shown.extend(rows.into_iter().map(|row| row.event_type));
            places.insert(next.clone());
            cursor = next;
            if shown.len() + places.len() > 4 {
                break;
            }
            emit(store, &new_event("globex", "other")).await;
            pause(Duration::from_millis(20)).await;
        }

        assert_eq!(shown, ["late"], "it was open when the feed was asked");
        assert!(places.len() > 3, "with each transaction: {places:?}");
    })
    .await;
}
