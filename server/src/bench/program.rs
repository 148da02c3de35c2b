//! The server under test: `snaphook serve`, as a process of its own with the settings that a user
//! has, but for what makes it reach this machine.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;

use super::{
    load::Caller,
    machine::memory_of,
    setup::{LOOPBACK, MASTER_KEY, Prepared},
};
use crate::world::real::monotonic;

/// How long it may take to start, and later for the last result to be on record.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// How often to ask it.
const ASK_EVERY: Duration = Duration::from_millis(2);

/// A running server. Dropped, it is killed: its database is thrown away too.
pub struct Program {
    child: Child,
    address: SocketAddr,
    api_key: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Starts one on `prepared`, and waits until it is ready.
    pub async fn start(prepared: &Prepared, folder: &Path) -> anyhow::Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(std::env::current_exe()?);
        // No setting of the caller's may change what is measured.
        let ours = std::env::vars_os()
            .filter(|(name, _)| !name.to_string_lossy().starts_with(crate::config::keys::PREFIX));
        command
            .env_clear()
            .envs(ours)
            .env("SNAPHOOK_MASTER_KEY", MASTER_KEY)
            .env("SNAPHOOK_GUARD_ALLOW", LOOPBACK)
            .env("SNAPHOOK_LOG_LEVEL", "warn")
            .env("SNAPHOOK_DATABASE", prepared.database.url())
            .args(["serve", "--listen", &address.to_string()])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child = command.spawn().context("the server does not start")?;
        let mut program = Self { child, address, api_key: prepared.api_key.clone() };
        program.until_ready().await?;
        Ok(program)
    }

    async fn until_ready(&mut self) -> anyhow::Result<()> {
        let end = monotonic() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                anyhow::bail!("the server ended at once, with {status}");
            }
            if let Ok(mut caller) = Caller::connect(self.address).await {
                let asked = self.request(Method::GET, "/readyz", Bytes::new());
                if caller.call(asked).await.is_ok_and(|(status, _)| status == StatusCode::OK) {
                    return Ok(());
                }
            }
            anyhow::ensure!(monotonic() < end, "the server is not ready after {PATIENCE:?}");
            rest(ASK_EVERY).await;
        }
    }

    /// Where its API is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Its memory in RAM, in MB.
    pub fn memory(&self) -> f64 {
        memory_of(self.child.id()).0
    }

    /// The most that its memory ever was, in MB.
    pub fn memory_most(&self) -> f64 {
        memory_of(self.child.id()).1
    }

    /// A request to its API.
    pub fn request(&self, method: Method, path: &str, body: Bytes) -> Request<Full<Bytes>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string())
            .header("authorization", format!("Bearer {}", self.api_key))
            .header("content-type", "application/json")
            .body(Full::new(body));
        request.expect("paths and keys are text that a header takes")
    }

    /// How many deliveries it says are on record as delivered, since it started.
    pub async fn delivered(&self) -> anyhow::Result<u64> {
        self.ask_delivered(&mut Caller::connect(self.address).await?).await
    }

    async fn ask_delivered(&self, caller: &mut Caller) -> anyhow::Result<u64> {
        let asked = self.request(Method::GET, "/metrics", Bytes::new());
        let (status, body) = caller.call(asked).await?;
        anyhow::ensure!(status == StatusCode::OK, "/metrics answered {status}");
        Ok(delivered(&String::from_utf8_lossy(&body)))
    }

    /// Waits until it says that so many deliveries are on record as delivered. What it says is
    /// compared with its database later.
    pub async fn until_delivered(&self, many: u64) -> anyhow::Result<()> {
        let mut caller = Caller::connect(self.address).await?;
        let mut last = (0, monotonic());
        loop {
            let delivered = self.ask_delivered(&mut caller).await?;
            if delivered >= many {
                return Ok(());
            }
            let now = monotonic();
            if delivered > last.0 {
                last = (delivered, now);
            }
            let stuck = now.saturating_sub(last.1) > PATIENCE;
            anyhow::ensure!(!stuck, "{delivered} of {many} deliveries are recorded, and no more");
            rest(ASK_EVERY).await;
        }
    }
}

/// The deliveries that ended as delivered, in the text of `/metrics`.
fn delivered(metrics: &str) -> u64 {
    let ours = |line: &&str| {
        line.starts_with("snaphook_deliveries_total{") && line.contains("state=\"delivered\"")
    };
    let count = metrics.lines().find(ours).and_then(|line| line.rsplit(' ').next());
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// A port that nobody has just now.
fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "a bench waits beside the pipeline, not in it")]
pub async fn rest(time: Duration) {
    tokio::time::sleep(time).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_delivered_is_counted() {
        let metrics = "snaphook_deliveries_total{state=\"dead\",cause=\"gone\"} 4\n\
                       snaphook_deliveries_total{state=\"delivered\",cause=\"\"} 17\n";
        assert_eq!(delivered(metrics), 17);
        assert_eq!(delivered(""), 0);
    }
}
