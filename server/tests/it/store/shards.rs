//! Leases: a shard has one owner at a time, and finds a new one when its lease is over.

use std::{collections::BTreeSet, time::Duration};

use snaphook::{
    domain::time::Timestamp,
    store::{Lease, SHARDS, Store},
};

use super::{NOW, on_both};

const LEASE: Duration = Duration::from_secs(45);

async fn claim(store: &Store, node: &str, now: Timestamp, limit: i64) -> Vec<Lease> {
    let mut tx = store.begin_engine().await.unwrap();
    let leases = tx.claim_free_shards(node, now, now + LEASE, limit).await.unwrap();
    tx.commit().await.unwrap();
    leases
}

#[tokio::test]
async fn two_nodes_get_different_shards_and_all_of_them_together() {
    on_both(async |store| {
        let one = claim(store, "one", NOW, 32).await;
        let two = claim(store, "two", NOW, 64).await;
        let nothing = claim(store, "three", NOW, 64).await;

        let ids: BTreeSet<_> = one.iter().chain(&two).map(|lease| lease.id).collect();
        assert_eq!((one.len(), two.len()), (32, 32));
        assert_eq!(ids, (0..SHARDS).collect());
        assert_eq!(nothing, []);
    })
    .await;
}

#[tokio::test]
async fn a_shard_is_free_again_when_its_lease_is_over_and_not_before() {
    on_both(async |store| {
        claim(store, "dead", NOW, 64).await;
        let early = claim(store, "heir", NOW + LEASE - Duration::from_secs(1), 64).await;
        let late = claim(store, "heir", NOW + LEASE + Duration::from_secs(1), 64).await;
        assert_eq!((early.len(), late.len()), (0, 64));
    })
    .await;
}

#[tokio::test]
async fn a_renewal_keeps_what_is_still_ours_and_tells_what_was_lost() {
    on_both(async |store| {
        let claimed = claim(store, "slow", NOW, 2).await;
        let later = NOW + LEASE + Duration::from_secs(1);
        assert_eq!(claim(store, "quick", later, 1).await.len(), 1);

        let mut tx = store.begin_engine().await.unwrap();
        let kept = tx.renew_shards("slow", later + LEASE).await.unwrap();
        tx.commit().await.unwrap();

        assert_eq!(kept.len(), 1);
        assert!(claimed.contains(&kept[0]), "under the same epoch");
    })
    .await;
}

#[tokio::test]
async fn a_node_that_starts_again_takes_its_own_back_at_once_under_a_new_epoch() {
    on_both(async |store| {
        let before = claim(store, "one", NOW, 3).await;
        claim(store, "two", NOW, 3).await;

        let mut tx = store.begin_engine().await.unwrap();
        let mut again = tx.claim_own_shards("one", NOW + LEASE).await.unwrap();
        tx.commit().await.unwrap();

        again.sort_by_key(|lease| lease.id);
        let mut expected: Vec<_> =
            before.iter().map(|lease| Lease { id: lease.id, epoch: lease.epoch + 1 }).collect();
        expected.sort_by_key(|lease| lease.id);
        assert_eq!(again, expected);
    })
    .await;
}

#[tokio::test]
async fn a_released_shard_can_be_taken_at_once_but_only_its_owner_releases_it() {
    on_both(async |store| {
        let lease = claim(store, "one", NOW, 64).await[0];
        let stale = Lease { epoch: lease.epoch - 1, ..lease };
        for (node, lease, expected) in [("two", lease, 0), ("one", stale, 0), ("one", lease, 1)] {
            let mut tx = store.begin_engine().await.unwrap();
            tx.release_shard(node, lease).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(claim(store, "two", NOW, 64).await.len(), expected, "{node} {lease:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn nodes_that_live_are_counted() {
    on_both(async |store| {
        let mut tx = store.begin_engine().await.unwrap();
        for (node, now, expected) in [
            ("one", NOW, 1),
            ("two", NOW, 2),
            ("two", NOW + LEASE + Duration::from_secs(1), 1), // one was not seen for a lease
        ] {
            assert_eq!(tx.mark_node(node, now, LEASE).await.unwrap(), expected, "{node}");
        }
        tx.delete_node("two").await.unwrap();
        assert_eq!(tx.mark_node("three", NOW, LEASE).await.unwrap(), 2, "one and three");
        tx.commit().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_forgotten_shard_is_adopted_once_and_under_a_new_epoch() {
    on_both(async |store| {
        let seen = claim(store, "one", NOW, 1).await[0];
        let mut tx = store.begin_engine().await.unwrap();
        assert_eq!(tx.adopt_shard("two", seen, NOW + LEASE).await.unwrap(), None, "not theirs");
        let adopted = tx.adopt_shard("one", seen, NOW + LEASE).await.unwrap();
        assert_eq!(adopted, Some(Lease { epoch: seen.epoch + 1, ..seen }));
        assert_eq!(tx.adopt_shard("one", seen, NOW + LEASE).await.unwrap(), None, "it moved on");
        tx.commit().await.unwrap();
    })
    .await;
}
