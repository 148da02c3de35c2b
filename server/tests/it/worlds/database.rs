//! The database of a world: its clock is the world's, so that ids and due times are as old as
//! the world says; and what it holds in the end.

use snaphook::{
    domain::{
        id::{EndpointId, EventId, ID_EPOCH},
        time::Timestamp,
    },
    store::Store,
};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use crate::support::databases::{Database, Kind};

/// In PostgreSQL, a clock that stands before the system's own in every search path.
const CLOCK: &str = "CREATE SCHEMA world;
    CREATE TABLE world.clock (now timestamptz NOT NULL);
    INSERT INTO world.clock VALUES (now());
    CREATE FUNCTION world.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
        AS 'SELECT now FROM world.clock';";

/// A database, and a connection beside the nodes' own.
pub struct WorldDatabase {
    database: Database,
    beside: Beside,
    pub store: Store,
}

enum Beside {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

/// An attempt on record.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    pub event: EventId,
    pub endpoint: EndpointId,
    pub number: i64,
    pub outcome: i64,
    pub sent: bool,
    pub status: i64,
    /// Not counted by its ladder.
    pub probe: bool,
}

impl WorldDatabase {
    pub async fn new(kind: Kind) -> Self {
        let database = Database::quick(kind).await;
        if kind == Kind::Postgres {
            database.execute(CLOCK).await;
            // Crashes are the nodes' here, not the database's.
            database
                .execute(&format!(
                    "ALTER DATABASE {0} SET search_path = world, pg_catalog, public;
                     ALTER DATABASE {0} SET synchronous_commit = off",
                    database.name()
                ))
                .await;
        }
        let store = database.open().await;
        let beside = match kind {
            Kind::Postgres => Beside::Postgres(PgConnection::connect(&database.url).await.unwrap()),
            Kind::Sqlite => {
                let mut connection = SqliteConnection::connect(&database.url).await.unwrap();
                let patience = "PRAGMA busy_timeout = 5000; PRAGMA synchronous = OFF";
                sqlx::raw_sql(patience).execute(&mut connection).await.unwrap();
                Beside::Sqlite(connection)
            }
        };
        Self { database, beside, store }
    }

    pub fn kind(&self) -> Kind {
        self.database.kind
    }

    /// As new.
    pub async fn empty(&mut self) {
        crate::pipeline::crash_sweep::empty(&self.database).await;
        let sequence = match self.kind() {
            Kind::Postgres => "ALTER SEQUENCE snaphook.event_sequence RESTART",
            Kind::Sqlite => "UPDATE snaphook.sequence SET n = 0, a = 1, b = 0, c = 1, micros = 0",
        };
        self.run(sequence).await;
    }

    /// The next event is made at this time.
    pub async fn set_clock(&mut self, time: Timestamp) {
        let statement = match self.kind() {
            Kind::Postgres => {
                format!("UPDATE world.clock SET now = to_timestamp({} / 1000000.0)", time.0)
            }
            Kind::Sqlite => {
                format!("UPDATE snaphook.sequence SET micros = {}", time.0 - ID_EPOCH.0 - 1)
            }
        };
        self.run(&statement).await;
    }

    /// Endpoints that new events go to.
    pub async fn active(&mut self) -> i64 {
        self.number("SELECT count(*) FROM snaphook.endpoints WHERE state = 0").await
    }

    /// The event of this key, and how many deliveries wait for it; nothing if it is not there.
    pub async fn fan_out(&mut self, key: &str) -> Option<(EventId, i64)> {
        let found = self
            .lines(&format!(
                "SELECT e.id || ' ' || (SELECT count(*) FROM snaphook.queue q
                     WHERE q.event_id = e.id) FROM snaphook.events e WHERE e.key = '{key}'"
            ))
            .await;
        assert!(found.len() <= 1, "two events of one key: {found:?}");
        let numbers = numbers(found.first()?);
        Some((EventId(numbers[0]), numbers[1]))
    }

    /// Deliveries that nothing keeps from being made.
    pub async fn waiting(&mut self) -> i64 {
        self.number(
            "SELECT count(*) FROM snaphook.queue q JOIN snaphook.endpoints e
                 ON e.id = q.endpoint_id WHERE e.state = 0",
        )
        .await
    }

    /// The pairs that are in the queue.
    pub async fn queued(&mut self) -> Vec<(EventId, EndpointId)> {
        let text = "SELECT event_id || ' ' || endpoint_id FROM snaphook.queue";
        let lines = self.lines(text).await;
        lines.iter().map(|line| numbers(line)).map(|n| (EventId(n[0]), EndpointId(n[1]))).collect()
    }

    /// All that is on record, each delivery's oldest first.
    pub async fn attempts(&mut self) -> Vec<Recorded> {
        let lines = self
            .lines(
                "SELECT event_id || ' ' || endpoint_id || ' ' || n || ' ' || outcome || ' '
                     || CASE WHEN sent THEN 1 ELSE 0 END || ' ' || coalesce(status, 0)
                     || ' ' || CASE WHEN probe THEN 1 ELSE 0 END
                 FROM snaphook.attempts ORDER BY event_id, endpoint_id, n, started_at",
            )
            .await;
        let recorded = |line: &String| {
            let n = numbers(line);
            Recorded {
                event: EventId(n[0]),
                endpoint: EndpointId(n[1]),
                number: n[2],
                outcome: n[3],
                sent: n[4] == 1,
                status: n[5],
                probe: n[6] == 1,
            }
        };
        lines.iter().map(recorded).collect()
    }

    pub async fn remove(self) {
        self.store.close().await;
        match self.beside {
            Beside::Postgres(connection) => connection.close().await.unwrap(),
            Beside::Sqlite(connection) => connection.close().await.unwrap(),
        }
        self.database.remove().await;
    }

    async fn run(&mut self, statement: &str) {
        match &mut self.beside {
            Beside::Postgres(connection) => {
                sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await.unwrap();
            }
            Beside::Sqlite(connection) => {
                let statement = statement.replace("snaphook.", "snaphook_");
                sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await.unwrap();
            }
        }
    }

    async fn number(&mut self, query: &str) -> i64 {
        let query = format!("SELECT '' || ({query})");
        self.lines(&query).await[0].parse().unwrap()
    }

    async fn lines(&mut self, query: &str) -> Vec<String> {
        match &mut self.beside {
            Beside::Postgres(connection) => {
                sqlx::query_scalar(AssertSqlSafe(query)).fetch_all(connection).await.unwrap()
            }
            Beside::Sqlite(connection) => {
                let query = AssertSqlSafe(query.replace("snaphook.", "snaphook_"));
                sqlx::query_scalar(query).fetch_all(connection).await.unwrap()
            }
        }
    }
}

fn numbers(line: &str) -> Vec<i64> {
    line.split(' ').map(|number| number.parse().unwrap()).collect()
}
