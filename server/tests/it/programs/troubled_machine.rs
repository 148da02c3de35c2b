//! A disk that is full and a clock that jumps: nothing is lost, and the program says what is
//! wrong.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;

use super::{
    node::{Node, until},
    troubled_database::{assert_all_arrive, emit, receive},
};
use crate::support::{
    databases::{Database, Kind, on_both},
    program::Program,
    receiver::{Received, Receiver, answer},
};

/// Lets the process live when a file may not grow: the write fails instead.
const IN_SPITE_OF_THE_LIMIT: &[&str] = &["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""];

/// How large the node's files may get.
fn limit_files(node: &Node, bytes: Option<u64>) {
    let process = Pid::from_raw(i32::try_from(node.process()).unwrap());
    let maximum = getrlimit(Resource::Fsize).maximum;
    let limit = Rlimit { current: bytes.or(maximum), maximum };
    prlimit(process, Resource::Fsize, limit).unwrap();
}

/// No file may grow: to SQLite the same as a disk that is full, and it needs no disk of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_of_and_loses_nothing() {
    let database = Database::migrated(Kind::Sqlite).await;
    let program = Program::new().through(IN_SPITE_OF_THE_LIMIT);
    let node = Node::start_as(program, &database, "one", &[]).await;
    let (_receiver, received) = receive(&node, &json!({})).await;
    let mut emitted: Vec<String> = (0..20).map(|_| emit(&node).expect("there is room")).collect();

    limit_files(&node, Some(4_096));
    let wait = until("a refusal", || match emit(&node) {
        Ok(event) => {
            emitted.push(event);
            None
        }
        Err(wait) => Some(wait),
    })
    .await;
    assert!((1..60).contains(&wait), "Retry-After: {wait}");
    until("a line in the log", || node.log().contains("cannot write").then_some(())).await;

    limit_files(&node, None);
    emitted.push(until("room again", || emit(&node).ok()).await);
    assert_all_arrive(&emitted, &received).await;
    drop(node);
    database.remove().await;
}

/// The library that lies about the wall clock, for programs that are told to load it.
fn lying_clock() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    folders
        .map(|folder| folder.join("faketime/libfaketimeMT.so.1"))
        .chain([PathBuf::from("/usr/lib/faketime/libfaketimeMT.so.1")])
        .find(|file| file.exists())
        .expect("this test needs the package faketime: run scripts/install")
}

/// A receiver that refuses each event once.
async fn reluctant() -> (Receiver, Arc<Mutex<HashMap<String, usize>>>) {
    let seen: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let log = seen.clone();
    let receiver = Receiver::start(move |request: &Received| {
        let id = request.headers["webhook-id"].to_str().unwrap().to_owned();
        let mut seen = log.lock().unwrap();
        let count = seen.entry(id).or_default();
        *count += 1;
        answer(if *count == 1 { 500 } else { 204 }, "")
    })
    .await;
    (receiver, seen)
}

fn set_clock(file: &Path, offset: &str) {
    let next = file.with_extension("next");
    std::fs::write(&next, offset).unwrap();
    std::fs::rename(next, file).unwrap(); // whole, whenever it is read
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_clock_that_jumps_loses_nothing_and_is_told_of() {
    on_both(async |database| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("clock");
        set_clock(&file, "+0");
        let (library, offset) = (lying_clock(), file.display().to_string());
        let settings = [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME_TIMESTAMP_FILE", &*offset),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            // Leases are looked at sooner, and with them the clock.
            ("SNAPHOOK_DELIVERY_LEASE", "40s"),
        ];
        let node = Node::start(database, "one", &settings).await;
        let (receiver, seen) = reluctant().await;
        let fields = json!({"url": receiver.url("/"), "retry_schedule": ["0s", "1s", "1s"]});
        node.client.add_endpoint("acme", fields);

        for (jump, offset) in [("two hours back", "-2h"), ("four hours on", "+2h"), ("back", "+0")]
        {
            let before = node.log().matches("clock").count();
            set_clock(&file, offset);
            // More than a ring holds, so that some are parked.
            let emitted: Vec<String> = (0..60).map(|_| emit(&node).expect("all is well")).collect();
            until(&format!("a second attempt of each, {jump}"), || {
                let seen = seen.lock().unwrap();
                emitted.iter().all(|event| seen.get(event) == Some(&2)).then_some(())
            })
            .await;
            until(&format!("a line about the clock, {jump}"), || {
                (node.log().matches("clock").count() > before).then_some(())
            })
            .await;
        }
        drop(node);
    })
    .await;
}
