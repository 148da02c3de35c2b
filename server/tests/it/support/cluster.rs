//! A PostgreSQL server of a test's own, which it may stop: the one that all tests share must not
//! go away.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::databases::Database;

/// A server, as `scripts/with-postgres` makes one. Dropped, it is gone with all its data.
pub struct Cluster {
    /// Its database.
    pub database: Database,
    data: PathBuf,
    /// The script, which keeps the server as long as it is not ended.
    script: Child,
}

impl Cluster {
    /// Makes one and starts it.
    pub fn start() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tell = "echo $SNAPHOOK_TEST_POSTGRES; echo $SNAPHOOK_TEST_POSTGRES_DATA; exec cat";
        let mut script = Command::new(root.join("scripts/with-postgres"))
            .args(["sh", "-c", tell])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(script.stdout.take().unwrap()).lines();
        let mut line = || lines.next().expect("the script says why it made no server").unwrap();
        let (url, data) = (line(), line());
        Self { database: Database::of_cluster(&url), data: data.into(), script }
    }

    /// Stops it: `fast` ends its sessions, `immediate` leaves everything as a crash does.
    pub fn stop(&self, mode: &str) {
        self.control(&["stop", "--mode", mode]);
    }

    /// Starts it again, at its address.
    pub fn start_again(&self) {
        // As it was started: its port is in there.
        let options = std::fs::read_to_string(self.data.join("postmaster.opts")).unwrap();
        let (_, port) = options.rsplit_once("\"-p\" ").unwrap();
        let port = port.trim().trim_matches('"');
        self.control(&["start", "--options", &format!("-p {port}")]);
    }

    /// Both in one breath.
    pub fn restart(&self, mode: &str) {
        self.control(&["restart", "--mode", mode]);
    }

    fn control(&self, what: &[&str]) {
        let owner = std::fs::metadata(&self.data).unwrap();
        let home = self.data.parent().unwrap();
        let mut command = Command::new("pg_ctl");
        command.args(what).arg("--silent").arg("--wait").arg("--pgdata").arg(&self.data);
        command.arg("--log").arg(home.join("server.log")).current_dir(home);
        if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.uid(owner.uid()).gid(owner.gid()); // it refuses root
        }
        let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
        assert!(ended.success(), "pg_ctl {what:?}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.script.stdin.take()); // then its command ends, and it cleans up
        drop(self.script.wait());
    }
}
