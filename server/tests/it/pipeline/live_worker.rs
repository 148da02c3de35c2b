//! The worker in real time: prompt, fair, hard to kill, and orderly at its end.

use std::time::Duration;

use snaphook::{store::Store, world::real::monotonic};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use crate::support::{
    databases::{Database, Kind, on_both},
    live::{Receivers, pause, quick, start},
    simulated::{Simulated, at, event, plant},
};

const SECOND: Duration = Duration::from_secs(1);

/// Endpoints at these names, each of events of the type of its name.
async fn plant_all(
    store: &Store,
    names: &[&str],
    adjust: impl Fn(&mut snaphook::domain::endpoint::EndpointSettings),
) {
    let world = Simulated::new(|_, _| 200);
    for name in names {
        let mut settings = at(&format!("https://{name}.example/"));
        settings.event_types = vec![(*name).to_owned()];
        adjust(&mut settings);
        plant(store, &world, settings).await;
    }
}

async fn emit(store: &Store, name: &str, count: usize) {
    for _ in 0..count {
        store.accept(event(name, None)).await.unwrap();
    }
}

fn to(seen: &[crate::support::live::Seen], name: &str) -> usize {
    seen.iter().filter(|one| one.url.contains(name)).count()
}

/// A connection of another program, open already.
enum Foreign {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Foreign {
    async fn connect(database: &Database) -> Self {
        match database.kind {
            Kind::Sqlite => Self::Sqlite(SqliteConnection::connect(&database.url).await.unwrap()),
            Kind::Postgres => Self::Postgres(PgConnection::connect(&database.url).await.unwrap()),
        }
    }

    async fn emit(&mut self, name: &str) {
        match self {
            Self::Sqlite(connection) => {
                let insert = format!(
                    "INSERT INTO snaphook_outbox (tenant, type, data) VALUES ('acme', '{name}', '{{}}')"
                );
                sqlx::raw_sql(AssertSqlSafe(insert)).execute(connection).await.unwrap();
            }
            Self::Postgres(connection) => {
                let emit = format!("SELECT snaphook.emit('acme', '{name}', '{{}}')");
                sqlx::raw_sql(AssertSqlSafe(emit)).execute(connection).await.unwrap();
            }
        }
    }
}

/// Emits one by one while the worker sleeps; gives the median of the times to the request.
async fn latency(database: &Database, receivers: &Receivers) -> Duration {
    let mut foreign = Foreign::connect(database).await;
    let mut times = Vec::new();
    let before = receivers.answered().len();
    for n in 1..=9 {
        pause(Duration::from_millis(120)).await; // it falls asleep again
        let begun = monotonic();
        foreign.emit("a").await;
        receivers.wait_for(before + n, 10 * SECOND).await;
        times.push(receivers.answered()[before + n - 1].at.saturating_sub(begun));
    }
    times.sort();
    times[times.len() / 2]
}

/// The bound is 100 ms on a machine of one's own; polling alone would take half a second.
#[tokio::test]
async fn a_sleeping_worker_hears_another_programs_commit_at_once() {
    on_both(async |database| {
        let store = database.open().await;
        plant_all(&store, &["a"], |_| {}).await;
        let receivers = Receivers::new(|_| Duration::ZERO);
        let (worker, _) = start(store, &receivers, quick("one"));
        pause(SECOND / 2).await;

        let median = latency(database, &receivers).await;

        assert!(median < Duration::from_millis(200), "{median:?}");
        worker.drain().await;
    })
    .await;
}

/// Five seconds are more than the scan for late rows goes back, and after four it rests.
#[tokio::test]
async fn what_a_long_transaction_commits_behind_younger_events_goes_soon() {
    let database = Database::migrated(Kind::Postgres).await;
    let store = database.open().await;
    plant_all(&store, &["a"], |_| {}).await;
    let receivers = Receivers::new(|_| Duration::ZERO);
    let (worker, _) = start(store.clone(), &receivers, quick("one"));
    // The quiet one wakes nobody when it commits.
    for (round, emit_as) in ["emit", "emit_quiet"].into_iter().enumerate() {
        pause(SECOND).await; // it sleeps
        let mut long = PgConnection::connect(&database.url).await.unwrap();
        let begin = format!("BEGIN; SELECT snaphook.{emit_as}('acme', 'a', '{{}}')");
        sqlx::raw_sql(AssertSqlSafe(begin)).execute(&mut long).await.unwrap();
        emit(&store, "a", 1).await;
        receivers.wait_for(2 * round + 1, 10 * SECOND).await;
        pause(5 * SECOND).await;
        sqlx::raw_sql("COMMIT").execute(&mut long).await.unwrap();
        let committed = monotonic();
        receivers.wait_for(2 * round + 2, 10 * SECOND).await;
        let took = receivers.answered()[2 * round + 1].at.saturating_sub(committed);
        assert!(took < 4 * SECOND, "{emit_as}: {took:?}");
        long.close().await.unwrap();
    }
    worker.drain().await;
    store.close().await;
    database.remove().await;
}

#[tokio::test]
async fn a_slow_endpoint_holds_nobody_up() {
    on_both(async |database| {
        let store = database.open().await;
        plant_all(&store, &["slow", "healthy"], |_| {}).await;
        let receivers = Receivers::new(|url| {
            if url.contains("slow") { Duration::from_mins(1) } else { Duration::ZERO }
        });
        let (_worker, _) = start(store.clone(), &receivers, quick("one"));
        emit(&store, "slow", 40).await;
        let stuck = async {
            while to(&receivers.begun(), "slow") < 16 {
                pause(SECOND / 50).await;
            }
        };
        tokio::time::timeout(10 * SECOND, stuck).await.expect("the slow one is at its cap");

        emit(&store, "healthy", 40).await;
        receivers.wait_for(40, 2 * SECOND).await;

        assert_eq!(to(&receivers.begun(), "slow"), 16, "and never over its cap");
    })
    .await;
}

#[tokio::test]
async fn a_drain_finishes_what_is_under_way_and_starts_nothing() {
    on_both(async |database| {
        let store = database.open().await;
        plant_all(&store, &["a"], |settings| settings.max_in_flight = Some(1)).await;
        let receivers = Receivers::new(|_| SECOND / 2);
        let (worker, _) = start(store.clone(), &receivers, quick("one"));
        emit(&store, "a", 3).await;
        let first = async {
            while receivers.begun().is_empty() {
                pause(SECOND / 100).await;
            }
        };
        tokio::time::timeout(10 * SECOND, first).await.unwrap();

        worker.drain().await;
        assert_eq!((receivers.begun().len(), receivers.answered().len()), (1, 1));
        pause(SECOND / 4).await;
        assert_eq!(receivers.begun().len(), 1);

        let (worker, _) = start(store, &receivers, quick("one"));
        receivers.wait_for(3, 10 * SECOND).await;
        worker.drain().await;
        assert_eq!(receivers.begun().len(), 3, "what was recorded is not sent again");
    })
    .await;
}

#[tokio::test]
async fn a_panic_in_the_worker_itself_ends_no_pipeline() {
    on_both(async |database| {
        let store = database.open().await;
        plant_all(&store, &["a"], |_| {}).await;
        let receivers = Receivers::new(|_| Duration::ZERO);
        let (worker, world) = start(store.clone(), &receivers, quick("one"));
        for n in 1..=5 {
            world.panic_once();
            pause(Duration::from_millis(30 * n)).await;
            emit(&store, "a", 1).await;
        }
        let events = |seen: &[crate::support::live::Seen]| {
            seen.iter().map(|one| &one.event).collect::<std::collections::HashSet<_>>().len()
        };
        receivers.wait(15 * SECOND, |seen| events(seen) == 5).await;
        worker.drain().await;
    })
    .await;
}

#[tokio::test]
async fn connections_that_are_cut_cost_time_and_nothing_else() {
    let database = Database::migrated(Kind::Postgres).await;
    let store = database.open().await;
    plant_all(&store, &["a"], |_| {}).await;
    let receivers = Receivers::new(|_| SECOND / 50);
    let (worker, _) = start(store, &receivers, quick("one"));
    let mut foreign = Foreign::connect(&database).await;
    for _ in 0..8 {
        for _ in 0..5 {
            foreign.emit("a").await;
        }
        pause(SECOND / 8).await;
        database
            .execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name = 'snaphook'",
            )
            .await;
    }

    receivers.wait_for(40, 10 * SECOND).await;
    pause(SECOND).await;
    let median = latency(&database, &receivers).await;

    assert!(median < Duration::from_millis(200), "the bell rings as before: {median:?}");
    assert_eq!(receivers.answered().len(), 49, "nothing was sent twice");
    worker.drain().await;
    database.remove().await;
}
