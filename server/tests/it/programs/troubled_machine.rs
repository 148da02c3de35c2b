//! A disk that is full and a clock that jumps: nothing is lost, and the program says what is
//! wrong.

use std::{
    collections::HashMap,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
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
    soak::is_soak,
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
/// In `make soak`, disks that are really full too.
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
    if is_soak() {
        outlives_full_disks().await;
    }
}

/// A disk of memory of so many MB, for root alone to make.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    fn new(megabytes: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m,mode=777");
        let mount = ["-t", "tmpfs", "-o", &size, "none"];
        let made = Command::new("mount").args(mount).arg(folder.path()).status().unwrap();
        assert!(made.success(), "a full disk is made with `mount`: run `make soak` as root");
        let chmod = Command::new("chmod").args(["-R", "a+rwx"]).arg(folder.path()).status();
        assert!(chmod.unwrap().success());
        Self { folder }
    }

    /// Fills it up, but for so many bytes.
    fn fill_but(&self, left: usize) {
        let mut ballast = std::fs::File::create(self.ballast()).unwrap();
        while ballast.write_all(&vec![0; 65_536]).is_ok() {}
        let length = ballast.metadata().unwrap().len();
        ballast.set_len(length.saturating_sub(u64::try_from(left).unwrap())).unwrap();
    }

    fn make_room(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.folder.path().join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.folder.path()).status());
    }
}

/// 60 KB of it: the event's id, or the status of the refusal.
fn emit_large(node: &Node) -> Result<String, u16> {
    let event = json!({"tenant": "acme", "type": "order.paid", "data": "x".repeat(60_000)});
    let (status, answer) = node.client.try_call("POST /v1/events", &event).unwrap();
    if status == 202 { Ok(answer["id"].as_str().unwrap().to_owned()) } else { Err(status) }
}

async fn outlives_a_full_disk(disk: &Disk, database: &Database) {
    let node = Node::start(database, "one", &[]).await;
    let (_receiver, received) = receive(&node, &json!({})).await;
    let mut emitted = vec![emit_large(&node).unwrap()];
    disk.fill_but(1 << 20);
    let status = until("a refusal", || match emit_large(&node) {
        Ok(event) => {
            emitted.push(event);
            None
        }
        Err(status) => Some(status),
    })
    .await;
    assert_eq!(status, 503, "{}: {}", database.kind, node.log());
    until("a line in the log", || node.log().contains("cannot write").then_some(())).await;
    disk.make_room();
    emitted.push(until("room again", || emit_large(&node).ok()).await);
    assert_all_arrive(&emitted, &received).await;
}

/// Disks that are really full, of both kinds of database.
async fn outlives_full_disks() {
    let disk = Disk::new(16);
    outlives_a_full_disk(&disk, &Database::in_folder(disk.folder.path()).await).await;
    let disk = Disk::new(64);
    let folder = disk.folder.path().join("tablespace");
    std::fs::create_dir(&folder).unwrap();
    let owned = Command::new("chown").arg("postgres").arg(&folder).status().unwrap();
    assert!(owned.success());
    let readable = Command::new("chmod").args(["a+rx"]).arg(disk.folder.path()).status();
    assert!(readable.unwrap().success());
    let database = Database::in_tablespace(&folder).await;
    outlives_a_full_disk(&disk, &database).await;
    database.remove_with_tablespace().await;
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
            // Each first attempt fails, and none is to be held back for that.
            ("SNAPHOOK_CIRCUIT_OPEN_AFTER", "1000"),
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
