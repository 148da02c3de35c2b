//! Who may do what in the user's own database: emitters emit, strangers do nothing.

use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::support::databases::{Database, Kind};

/// A role of this test's own, for roles belong to the whole cluster.
fn role() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("test_role_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

async fn with_role(grants: &str, test: impl AsyncFn(&mut PgConnection, &str)) {
    let database = Database::migrated(Kind::Postgres).await;
    let mut owner = PgConnection::connect(&database.url).await.unwrap();
    let role = role();
    let create = format!("CREATE ROLE {role}; {}", grants.replace("ROLE", &role));
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut owner).await.unwrap();
    test(&mut owner, &role).await;
    sqlx::raw_sql(AssertSqlSafe(format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")))
        .execute(&mut owner)
        .await
        .unwrap();
    owner.close().await.unwrap();
    database.remove().await;
}

/// Our functions that `role` may execute, by name.
async fn executable(owner: &mut PgConnection, role: &str) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT DISTINCT p.proname::text FROM pg_proc p
         WHERE p.pronamespace = 'snaphook'::regnamespace
             AND has_function_privilege($1, p.oid, 'EXECUTE')
         ORDER BY 1",
    )
    .bind(role)
    .fetch_all(owner)
    .await
    .unwrap()
}

/// Our tables, views and sequences on which `role` has any privilege, with the privilege.
async fn accessible(owner: &mut PgConnection, role: &str) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT c.relname || ' ' || lower(p.privilege) FROM pg_class c,
             unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER',
                          'USAGE']) p (privilege)
         WHERE c.relnamespace = 'snaphook'::regnamespace AND CASE
             WHEN c.relkind = 'S' THEN p.privilege IN ('SELECT', 'UPDATE', 'USAGE')
                 AND has_sequence_privilege($1, c.oid, p.privilege)
             WHEN c.relkind IN ('r', 'p', 'v', 'm') THEN p.privilege <> 'USAGE'
                 AND has_table_privilege($1, c.oid, p.privilege)
             END
         ORDER BY 1",
    )
    .bind(role)
    .fetch_all(owner)
    .await
    .unwrap()
}

#[tokio::test]
async fn a_stranger_may_execute_and_see_nothing() {
    with_role("", async |owner, role| {
        assert_eq!(executable(owner, role).await, [""; 0]);
        assert_eq!(accessible(owner, role).await, [""; 0]);
        // What the catalog says is also what happens.
        owner.execute(AssertSqlSafe(format!("SET ROLE {role}"))).await.unwrap();
        for sql in [
            "SELECT snaphook.emit('acme', 'order.paid', '{}')",
            "INSERT INTO snaphook.outbox (tenant, type, data) VALUES ('acme', 'order.paid', '{}')",
            "SELECT count(*) FROM snaphook.events",
        ] {
            let error = owner.execute(sql).await.unwrap_err();
            let code = error.as_database_error().unwrap().code().unwrap().into_owned();
            assert_eq!(code, "42501", "{sql}: insufficient_privilege");
        }
    })
    .await;
}

#[tokio::test]
async fn an_emitter_may_emit_and_nothing_else() {
    with_role("GRANT snaphook_emitter TO ROLE", async |owner, role| {
        assert_eq!(executable(owner, role).await, ["emit", "emit_many", "emit_quiet"]);
        assert_eq!(accessible(owner, role).await, ["outbox insert"]);

        owner.execute(AssertSqlSafe(format!("SET ROLE {role}"))).await.unwrap();
        owner.execute("SELECT snaphook.emit('acme', 'order.paid', '{}')").await.unwrap();
        let insert = "INSERT INTO snaphook.outbox (tenant, type, data)
                      VALUES ('acme', 'order.paid', '{}') RETURNING id";
        owner.execute(insert).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn every_function_that_runs_as_its_owner_has_a_fixed_search_path() {
    with_role("", async |owner, _| {
        let loose: Vec<String> = sqlx::query_scalar(
            "SELECT p.oid::regprocedure::text FROM pg_proc p
             WHERE p.pronamespace = 'snaphook'::regnamespace AND p.prosecdef
                 AND p.proconfig IS DISTINCT FROM ARRAY['search_path=pg_catalog, pg_temp']",
        )
        .fetch_all(owner)
        .await
        .unwrap();
        assert_eq!(loose, [""; 0]);
    })
    .await;
}
