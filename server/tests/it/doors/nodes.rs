//! Many nodes on one database, as processes.

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::mpsc,
    time::Duration,
};

use snaphook::world::real::monotonic;

use crate::support::{
    databases::{Database, Kind},
    program::{Program, Running, get, get_with},
};

/// Enough that each of two nodes owns some of their shards, whatever their ids are.
const ENDPOINTS: usize = 16;

const LONG: Duration = Duration::from_secs(30);

/// Answers 204 to everything and tells the path of each request.
fn receiver() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4096];
            let read = stream.read(&mut bytes).unwrap();
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
            if tell.send(path).is_err() {
                return;
            }
        }
    });
    (url, told)
}

struct Node {
    running: Running,
    address: String,
}

impl Node {
    fn start(program: &Program, name: &str) -> Self {
        let mut running = program.start_with(&["serve"], &[("SNAPHOOK_NODE", name)]);
        let line = running.wait_for("snaphook is ready");
        let address = line.split("listen=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        Self { running, address }
    }

    /// Whether this node has delivered anything.
    fn has_delivered(&self, key: &str) -> bool {
        let bearer = format!("Bearer {key}");
        let metrics = get_with(&self.address, "/metrics", &[("authorization", &bearer)]);
        metrics.contains("snaphook_attempts_total{outcome=\"delivered\"}")
    }
}

#[tokio::test]
async fn two_nodes_share_the_work_and_when_one_stops_the_other_goes_on_within_a_second() {
    let database = Database::migrated(Kind::Postgres).await;
    let program = Program::new()
        .with("SNAPHOOK_DATABASE", &database.url)
        .with("SNAPHOOK_MASTER_KEY", &"0123456789abcdef".repeat(4))
        .with("SNAPHOOK_GUARD_ALLOW", "127.0.0.0/8")
        .with("SNAPHOOK_LISTEN", "127.0.0.1:0");
    let key = program.run(&["keys", "create", "--role", "operator"]).out.trim().to_owned();
    let (url, told) = receiver();
    let (first, second) = (Node::start(&program, "first"), Node::start(&program, "second"));
    assert_eq!(get(&second.address, "/readyz").0, 200);
    let program = program
        .with("SNAPHOOK_URL", &format!("http://{}", second.address))
        .with("SNAPHOOK_API_KEY", &key);
    assert_eq!(program.run(&["tenants", "create", "acme"]).code, 0);
    for endpoint in 0..ENDPOINTS {
        let url = format!("{url}/{endpoint}");
        assert_eq!(program.run(&["endpoints", "create", "acme", "--url", &url]).code, 0);
    }
    let emit_and_wait = || {
        assert_eq!(program.run(&["emit", "acme", "a.b"]).code, 0);
        let (begun, mut reached) = (monotonic(), BTreeSet::new());
        while reached.len() < ENDPOINTS {
            reached.insert(told.recv_timeout(LONG).unwrap());
        }
        monotonic().saturating_sub(begun)
    };

    let begun = monotonic();
    while !(first.has_delivered(&key) && second.has_delivered(&key)) {
        emit_and_wait();
        assert!(monotonic().saturating_sub(begun) < LONG, "one node has nothing to do");
    }
    first.running.signal("TERM");
    assert_eq!(first.running.end().code, 0);
    let took = emit_and_wait();

    assert!(took < Duration::from_secs(1), "{took:?}");
    drop(second);
    database.remove().await;
}
