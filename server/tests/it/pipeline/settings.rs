//! Changed settings are in force at the next attempt, and none starts on old ones.

use std::time::Duration;

use serde_json::json;
use snaphook::{
    domain::secret_kind::SecretKind,
    engine::{EngineSettings, Owner},
    manage::secrets::NewSecret,
};

use crate::support::{
    databases::{Database, Kind, on_both},
    pipeline::Pipeline,
    simulated::{
        Reply::{self, Status},
        event,
    },
};

fn down_at_first(_: &str, count: u32) -> Reply {
    Status(if count == 1 { 500 } else { 200 })
}

#[tokio::test]
async fn nothing_starts_on_settings_older_than_five_seconds() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, _| Status(200)).await;
        p.plant("a").await;
        p.emit("order.paid").await;
        p.owner.refresh().await.unwrap();
        p.owner.fetch().await.unwrap();

        p.world.pass(Duration::from_secs(5));
        assert_eq!(p.owner.take(9).await.unwrap().len(), 0, "they were not read for five seconds");

        p.owner.refresh().await.unwrap();
        p.world.set_tick(Duration::from_secs(6)); // between one look at the clock and the next
        assert_eq!(p.owner.take(9).await.unwrap().len(), 0, "they aged while the event was read");
        p.world.set_tick(Duration::ZERO);

        p.owner.refresh().await.unwrap();
        assert_eq!(p.owner.take(9).await.unwrap().len(), 1, "nothing was lost by waiting");
    })
    .await;
}

#[tokio::test]
async fn nothing_starts_under_a_lease_that_may_end_before_it() {
    let database = Database::migrated(Kind::Postgres).await;
    let mut p = Pipeline::new(&database, |_, _| Status(200)).await;
    p.plant("a").await;
    p.emit("order.paid").await;
    p.owner.fetch().await.unwrap();
    let (lease, timeout) = (p.engine.settings.lease, p.engine.settings.timeout);

    p.world.pass(lease.saturating_sub(timeout));
    p.owner.refresh().await.unwrap();
    assert_eq!(p.owner.take(9).await.unwrap().len(), 0, "the attempt may take as long as is left");

    p.owner.claim().await.unwrap();
    assert_eq!(p.owner.take(9).await.unwrap().len(), 1);
    database.remove().await;
}

#[tokio::test]
async fn a_new_url_is_used_at_the_next_attempt() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, down_at_first).await;
        let endpoint = p.plant("old").await;
        let event = p.emit("order.paid").await;
        assert_eq!(p.turn().await, 1);

        p.change(endpoint, json!({ "url": "https://new.example/" })).await;
        p.world.pass(Duration::from_secs(9));
        p.turn().await; // fails once at the new one, too
        p.run_dry().await;

        assert_eq!((p.requests("old"), p.requests("new")), (1, 2));
        assert_eq!(p.standing(event, endpoint).await, "delivered");
    })
    .await;
}

/// Entries of the signature of the last request: one a live secret.
fn signatures(p: &Pipeline) -> usize {
    let requests = p.world.requests();
    let header = requests.last().unwrap().headers["webhook-signature"].to_str().unwrap().to_owned();
    header.split(' ').count()
}

#[tokio::test]
async fn a_revoked_secret_signs_nothing_more_and_an_old_one_until_its_time() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, _| Status(200)).await;
        let endpoint = p.plant("a").await;
        let (actor, acme) = (p.actor.clone(), p.acme.clone());
        let expect = async |p: &mut Pipeline, expected: usize, why: &str| {
            p.emit("order.paid").await;
            assert_eq!(p.turn().await, 1);
            assert_eq!(signatures(p), expected, "{why}");
        };
        expect(&mut p, 1, "one secret").await;

        let new = NewSecret::Random(SecretKind::Hmac);
        let made = p.manage.create_secret(&actor, &acme, endpoint, new).await.unwrap();
        expect(&mut p, 2, "two secrets").await;
        p.manage.revoke_secret(&actor, &acme, endpoint, made.0.id).await.unwrap();
        expect(&mut p, 1, "one of them revoked").await;

        let (hmac, overlap) = (SecretKind::Hmac, Duration::from_hours(1));
        p.manage.rotate_secret(&actor, &acme, endpoint, hmac, overlap).await.unwrap();
        expect(&mut p, 2, "both, during the overlap").await;
        p.pass(overlap).await;
        expect(&mut p, 1, "the new one, when it is over").await;
    })
    .await;
}

#[tokio::test]
async fn a_paused_endpoint_holds_what_comes_and_what_waits_and_a_resumed_one_gets_it() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, _| Status(200)).await;
        let endpoint = p.plant("a").await;
        let waiting = p.emit("order.paid").await;
        p.owner.refresh().await.unwrap();
        p.owner.fetch().await.unwrap(); // it waits in the owner's memory

        p.manage.pause_endpoint(&p.actor, &p.acme, endpoint).await.unwrap();
        let coming = p.emit("order.paid").await;
        assert_eq!(p.turn().await + p.pass(Duration::from_hours(1)).await, 0);
        for event in [waiting, coming] {
            assert_eq!(p.standing(event, endpoint).await, "held");
        }

        p.manage.resume_endpoint(&p.actor, &p.acme, endpoint).await.unwrap();
        assert_eq!(p.pass(Duration::ZERO).await, 2);
        for event in [waiting, coming] {
            assert_eq!(p.standing(event, endpoint).await, "delivered");
        }
    })
    .await;
}

#[tokio::test]
async fn what_waited_while_a_node_was_away_is_held_or_sent_by_the_next() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, _| Status(200)).await;
        let endpoint = p.plant("a").await;
        p.manage.pause_endpoint(&p.actor, &p.acme, endpoint).await.unwrap();
        let event = p.emit("order.paid").await;
        p.pass(Duration::ZERO).await;

        p.owner = Owner::new(p.engine.clone());
        p.run_dry().await;
        assert_eq!(p.standing(event, endpoint).await, "held");

        p.manage.resume_endpoint(&p.actor, &p.acme, endpoint).await.unwrap();
        p.owner = Owner::new(p.engine.clone());
        p.run_dry().await;
        assert_eq!(p.standing(event, endpoint).await, "delivered");
    })
    .await;
}

#[tokio::test]
async fn what_waits_for_a_deleted_endpoint_is_canceled() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, _| Status(500)).await;
        let endpoint = p.plant("a").await;
        let retried = p.emit("order.paid").await;
        assert_eq!(p.turn().await, 1);
        let fresh = p.emit("order.paid").await;

        p.manage.delete_endpoint(&p.actor, &p.acme, endpoint).await.unwrap();
        p.pass(Duration::from_hours(1)).await;

        for event in [retried, fresh] {
            assert_eq!(p.standing(event, endpoint).await, "canceled");
        }
        assert_eq!(p.requests("a"), 1);
    })
    .await;
}

/// As after a crash in the middle of a deletion, or an emit that was open all along.
#[tokio::test]
async fn the_owner_cancels_what_a_deletion_left_behind() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, _| Status(200)).await;
        let endpoint = p.plant("a").await;
        let event = p.emit("order.paid").await;
        let mut tx = p.store.begin().await.unwrap();
        let mut row = tx.find_endpoint(endpoint).await.unwrap().unwrap();
        row.deleted_at = Some(p.now());
        tx.update_endpoint(&mut row).await.unwrap();
        tx.commit().await.unwrap();

        for _ in 0..3 {
            assert_eq!(p.turn().await, 0);
            p.owner.end_unwanted().await.unwrap();
        }

        assert_eq!(p.standing(event, endpoint).await, "canceled");
    })
    .await;
}

#[tokio::test]
async fn an_emit_that_was_open_while_its_endpoint_was_deleted_sends_nothing() {
    let database = Database::migrated(Kind::Postgres).await;
    let mut p = Pipeline::new(&database, |_, _| Status(200)).await;
    let endpoint = p.plant("a").await;
    let mut open = p.store.begin().await.unwrap();
    let event = open.accept(&event("order.paid", None)).await.unwrap().event;
    p.manage.delete_endpoint(&p.actor, &p.acme, endpoint).await.unwrap();
    p.pass(Duration::from_secs(1)).await;
    open.commit().await.unwrap();

    for _ in 0..3 {
        assert_eq!(p.pass(Duration::from_secs(1)).await, 0);
        p.owner.end_unwanted().await.unwrap();
    }

    assert_eq!(p.standing(event, endpoint).await, "canceled");
    database.remove().await;
}

#[tokio::test]
async fn an_endpoint_without_a_setting_follows_the_operators() {
    on_both(async |database| {
        let settings = EngineSettings { max_in_flight: 2, ..EngineSettings::default() };
        let mut p = Pipeline::with(database, settings, |_, _| Status(200)).await;
        p.plant("a").await;
        let wide = p.plant_with("wide", |settings| settings.max_in_flight = Some(5)).await;
        for _ in 0..9 {
            p.emit("order.paid").await;
        }
        p.owner.refresh().await.unwrap();
        p.owner.fetch().await.unwrap();

        let jobs = p.owner.take(64).await.unwrap();

        let of_wide = jobs.iter().filter(|job| job.row.endpoint_id == wide).count();
        assert_eq!((of_wide, jobs.len() - of_wide), (5, 2));
        assert_eq!(p.owner.take(64).await.unwrap().len(), 0, "caps are exact");
    })
    .await;
}
