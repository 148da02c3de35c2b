//! The schema, with several processes and several versions of the program at it.

use sqlx::{Connection, Executor, PgConnection, SqliteConnection};

use crate::support::{
    databases::{Kind, on_both, on_both_empty},
    program::Program,
};

#[tokio::test]
async fn processes_that_migrate_at_the_same_time_wait_for_one_another() {
    on_both_empty(async |database| {
        let program = Program::new().with("SNAPHOOK_DATABASE", &database.url);
        let ended = std::thread::scope(|scope| {
            let run = || program.run(&["migrate"]);
            [(); 4].map(|()| scope.spawn(run)).map(|running| running.join().unwrap())
        });
        for one in ended {
            assert_eq!(one.code, 0, "{one:?}");
        }
        assert_eq!(program.run(&["migrate", "--dry-run"]).out, "", "nothing is missing");
    })
    .await;
}

#[tokio::test]
async fn a_schema_newer_than_the_binary_is_refused_with_the_remedy() {
    on_both(async |database| {
        let columns = "(version, description, installed_on, success, checksum, execution_time)";
        let values = "(9000, 'from the future', CURRENT_TIMESTAMP, TRUE, ''";
        match database.kind {
            Kind::Postgres => {
                let insert =
                    format!("INSERT INTO snaphook.migrations {columns} VALUES {values}, 1)");
                let mut owner = PgConnection::connect(&database.url).await.unwrap();
                owner.execute(sqlx::AssertSqlSafe(insert)).await.unwrap();
            }
            Kind::Sqlite => {
                let insert =
                    format!("INSERT INTO snaphook_migrations {columns} VALUES {values}, 1)");
                let mut owner = SqliteConnection::connect(&database.url).await.unwrap();
                owner.execute(sqlx::AssertSqlSafe(insert)).await.unwrap();
            }
        }
        let program = Program::new()
            .with("SNAPHOOK_DATABASE", &database.url)
            .with("SNAPHOOK_LISTEN", "127.0.0.1:0")
            .with("SNAPHOOK_MASTER_KEY", super::node::MASTER_KEY);

        for arguments in [&["serve"][..], &["migrate"], &["keys", "create", "--role", "operator"]] {
            let ended = program.run(arguments);
            assert_eq!((ended.code, ended.out.as_str()), (5, ""), "{arguments:?}: {ended:?}");
            let sentence = "the schema is at version 9000, and this binary knows versions up to ";
            assert!(ended.err.contains(sentence), "{arguments:?}: {}", ended.err);
            assert!(ended.err.contains("start the newer binary again"), "{}", ended.err);
        }
    })
    .await;
}
