//! A business transaction may stay open as long as it likes. Its event's id is older than those
//! of events that were committed, and read, before it.

use std::time::Duration;

use snaphook::domain::id::{EventId, id_at};
use sqlx::{Connection, PgConnection};

use crate::support::{
    databases::{Database, Kind},
    pipeline::Pipeline,
    simulated::Reply::Status,
};

/// An event that is younger than `older` by `age`: as if that time had passed.
async fn emit_younger(database: &Database, older: EventId, age: Duration) {
    let id = id_at(older.created_at() + age, 1);
    database
        .execute(&format!(
            "INSERT INTO snaphook.events (id, tenant, type, payload, door)
             VALUES ({id}, 'acme', 'order.paid', '{{}}', 0);
             INSERT INTO snaphook.queue (event_id, endpoint_id, tenant, shard, due_at)
             SELECT {id}, endpoint_id, 'acme', shard, now() FROM snaphook.subscriptions"
        ))
        .await;
}

#[tokio::test]
async fn a_transaction_that_was_open_for_any_time_is_found() {
    let database = Database::migrated(Kind::Postgres).await;
    for (open, within, why) in [
        (Duration::from_millis(5), Duration::ZERO, "by the hot scan's slack"),
        (Duration::from_millis(1_800), Duration::from_millis(400), "by the late scan"),
        (Duration::from_millis(2_500), Duration::from_secs(30), "by the sweep"),
        (Duration::from_hours(9), Duration::from_secs(30), "by the sweep, however long"),
    ] {
        let mut p = Pipeline::new(&database, |_, _| Status(200)).await;
        let name = format!("open-{}", open.as_millis());
        let endpoint = p.plant(&name).await;
        let mut business = PgConnection::connect(&database.url).await.unwrap();
        let emit = "SELECT a.id FROM snaphook.accept('acme', 'order.paid', '{}', NULL, NULL, NULL,
                        NULL, NULL, NULL, 0::smallint, false) a";
        sqlx::query("BEGIN").execute(&mut business).await.unwrap();
        let late: i64 = sqlx::query_scalar(emit).fetch_one(&mut business).await.unwrap();
        emit_younger(&database, EventId(late), open).await;
        p.world.pass(open);
        assert!(p.pass(Duration::ZERO).await > 0, "the younger one is delivered");
        p.pass(Duration::ZERO).await;
        assert_eq!(p.requests(&name), 1, "and the open one cannot be seen");

        sqlx::query("COMMIT").execute(&mut business).await.unwrap();
        business.close().await.unwrap();
        p.pass(within).await;

        assert_eq!(p.standing(EventId(late), endpoint).await, "delivered", "{open:?}: {why}");
        let end = "DELETE FROM snaphook.subscriptions; DELETE FROM snaphook.shards;
                   INSERT INTO snaphook.shards (id) SELECT generate_series(0, 63)";
        database.execute(end).await;
        p.store.close().await;
    }
    database.remove().await;
}

#[tokio::test]
async fn what_is_rolled_back_is_never_sent() {
    let database = Database::migrated(Kind::Postgres).await;
    let mut p = Pipeline::new(&database, |_, _| Status(200)).await;
    p.plant("a").await;
    let mut business = PgConnection::connect(&database.url).await.unwrap();
    for statement in ["BEGIN", "SELECT snaphook.emit('acme', 'order.paid', '{}')", "ROLLBACK"] {
        sqlx::query(statement).execute(&mut business).await.unwrap();
        assert_eq!(p.pass(Duration::from_secs(1)).await, 0);
    }
    assert_eq!(p.pass(Duration::from_mins(2)).await, 0);
    business.close().await.unwrap();
    database.remove().await;
}
