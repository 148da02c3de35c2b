//! `pgbouncer` between programs and PostgreSQL: who emits may be behind any pool, who delivers
//! needs sessions of its own, and says so.

use std::{
    fs,
    process::{Child, Command, Stdio},
    str::FromStr,
    time::Duration,
};

use snaphook::world::real::monotonic;
use sqlx::{ConnectOptions, Connection, Executor, PgConnection, Row, postgres::PgConnectOptions};
use tempfile::TempDir;

use super::{
    node::{MASTER_KEY, Node, until},
    troubled_database::{assert_all_arrive, receive},
};
use crate::support::{
    databases::{Database, Kind},
    program::{Program, closed_port},
};

/// A pooler with two names for one database: `transaction` and `session`, by their modes.
struct Pooler {
    port: u16,
    child: Child,
    _folder: TempDir,
}

impl Pooler {
    async fn start(database: &Database) -> Self {
        let (folder, port, server) = (TempDir::new().unwrap(), closed_port(), database.server());
        let options = PgConnectOptions::from_str(&database.url).unwrap();
        let url = options.to_url_lossy();
        let (name, password) = (database.name(), url.password().unwrap());
        let at = format!(
            "host={} port={} dbname={name} user={} password={password}",
            server.ip(),
            server.port(),
            options.get_username()
        );
        let text = format!(
            "[databases]\ntransaction = {at} pool_mode=transaction\nsession = {at} \
             pool_mode=session\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\n"
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, text).unwrap();
        // Root may not run it, and whoever it becomes must be able to read its settings.
        let mut command = Command::new("pgbouncer");
        command.env("PATH", "/usr/sbin:/usr/bin:/bin");
        if rustix::process::geteuid().is_root() {
            let readable = Command::new("chmod").args(["-R", "a+rX"]).arg(folder.path()).status();
            assert!(readable.unwrap().success());
            command.args(["-u", "nobody"]);
        }
        let child = command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("this test needs the package pgbouncer: run scripts/install");
        let pooler = Self { port, child, _folder: folder };
        until("the pooler", || std::net::TcpStream::connect(("127.0.0.1", port)).ok().map(drop))
            .await;
        pooler
    }

    fn url(&self, mode: &str) -> String {
        format!("postgres://any@127.0.0.1:{}/{mode}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_emit_through_a_pool_of_transactions() {
    let database = Database::migrated(Kind::Postgres).await;
    let pooler = Pooler::start(&database).await;
    let node = Node::start(&database, "one", &[]).await;
    let (_receiver, received) = receive(&node, &serde_json::json!({})).await;
    let options = PgConnectOptions::from_str(&pooler.url("transaction")).unwrap();
    let mut program = PgConnection::connect_with(&options.extra_float_digits(None)).await.unwrap();

    let mut emitted = Vec::new();
    for end in ["ROLLBACK", "COMMIT"] {
        program.execute("BEGIN").await.unwrap();
        let emit = sqlx::raw_sql("SELECT snaphook.emit('acme', 'order.paid', '{}')");
        let event: String = emit.fetch_one(&mut program).await.unwrap().get(0);
        program.execute(end).await.unwrap();
        emitted.push(event);
    }

    assert_all_arrive(&emitted[1..], &received).await;
    assert!(!received.lock().unwrap().contains(&emitted[0]), "it was rolled back");
    program.close().await.unwrap();
    drop((node, pooler));
    database.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_transactions_is_refused_and_one_of_sessions_will_do() {
    let database = Database::migrated(Kind::Postgres).await;
    let pooler = Pooler::start(&database).await;
    let program = Program::new()
        .with("SNAPHOOK_DATABASE", &pooler.url("transaction"))
        .with("SNAPHOOK_MASTER_KEY", MASTER_KEY);

    let ended = program.run(&["serve"]);

    assert_ne!(ended.code, 0, "{ended:?}");
    assert!(ended.err.contains("pool_mode = session"), "it names the remedy: {ended:?}");

    let url = pooler.url("session");
    let node = Node::start(&database, "one", &[("SNAPHOOK_DATABASE", &url)]).await;
    let (_receiver, received) = receive(&node, &serde_json::json!({})).await;
    let mut other = PgConnection::connect(&database.url).await.unwrap();
    for _ in 0..3 {
        let begun = monotonic();
        let event = snaphook::Emit::new("acme", "order.paid", "{}");
        let event = snaphook::emit(&mut other, event).await.unwrap().to_string();
        assert_all_arrive(&[event], &received).await;
        let took = monotonic().saturating_sub(begun);
        assert!(took < Duration::from_secs(2), "the bell is heard: {took:?}");
    }
    other.close().await.unwrap();
    drop((node, pooler));
    database.remove().await;
}
