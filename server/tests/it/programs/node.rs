//! One server process on a test's database, and a client of its API.

use std::{
    future::pending,
    io,
    process::{Child, Command, ExitStatus},
    time::Duration,
};

use serde::Serialize;
use serde_json::{Value, json};
use snaphook::world::real::monotonic;
use tempfile::NamedTempFile;
use tokio::time::timeout;

use crate::support::{
    databases::Database,
    program::{Ended, Program, exchange, whole_exchange},
};

/// Long enough for a loaded machine; a test that passes waits for what it needs and no longer.
const PATIENCE: Duration = Duration::from_mins(1);

/// The master key of all nodes.
pub const MASTER_KEY: &str = "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90";

/// A server that runs. Dropped, it is killed.
pub struct Node {
    /// For other commands with the same settings.
    pub program: Program,
    /// Talks to this node as an operator.
    pub client: Client,
    child: Child,
    log: NamedTempFile,
}

/// Calls the API of one node with one key.
#[derive(Clone)]
pub struct Client {
    /// Host and port.
    pub address: String,
    /// The API key.
    pub key: String,
}

impl Node {
    /// Starts a server of this name on `database`, which may reach this machine, and waits until
    /// it is ready.
    pub async fn start(database: &Database, name: &str, settings: &[(&str, &str)]) -> Self {
        Self::start_as(Program::new(), database, name, settings).await
    }

    /// The same, by a program that is run in a way of its own.
    pub async fn start_as(
        program: Program,
        database: &Database,
        name: &str,
        settings: &[(&str, &str)],
    ) -> Self {
        let program = program
            .with("SNAPHOOK_DATABASE", &database.url)
            .with("SNAPHOOK_MASTER_KEY", MASTER_KEY)
            .with("SNAPHOOK_GUARD_ALLOW", "127.0.0.0/8")
            .with("SNAPHOOK_LISTEN", "127.0.0.1:0")
            .with("SNAPHOOK_LOG_FORMAT", "json")
            .with("SNAPHOOK_NODE", name);
        let program =
            settings.iter().fold(program, |program, (name, value)| program.with(name, value));
        let made = program.run(&["keys", "create", "--role", "operator"]);
        assert_eq!(made.code, 0, "{made:?}");
        let log = NamedTempFile::new().unwrap();
        let child = spawn(&program, &log);
        let client = Client { address: String::new(), key: made.out.trim().to_owned() };
        let mut node = Self { program, client, child, log };
        node.wait_until_ready().await;
        node
    }

    /// Ends it as `kill -9` does: nothing is finished, nothing is given back.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends it a signal by name.
    pub fn signal(&self, name: &str) {
        let process = self.process().to_string();
        let sent = Command::new("kill").args(["-s", name, &process]).status().unwrap();
        assert!(sent.success(), "kill -s {name} {process}");
    }

    /// The id of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// How much of the memory is its own now, in MB.
    pub fn megabytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
    }

    /// Ends it as an orchestrator does, and waits for its end.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.child.wait().unwrap()
    }

    /// Starts it again after its end. Its port is another one.
    pub async fn restart(&mut self) {
        self.log = NamedTempFile::new().unwrap();
        self.child = spawn(&self.program, &self.log);
        self.wait_until_ready().await;
    }

    /// What it has logged since its last start.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }

    /// Runs a client command against it.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        let url = format!("http://{}", self.client.address);
        let to = ["--server", &url, "--api-key", &self.client.key];
        self.program.run(&[arguments, &to].concat())
    }

    async fn wait_until_ready(&mut self) {
        let ready = until("a server that is ready", || {
            if let Some(ended) = self.child.try_wait().unwrap() {
                panic!("it ended with {ended}: {}", self.log());
            }
            let log = self.log();
            let line = log.lines().find(|line| line.contains("snaphook is ready"))?;
            Some(serde_json::from_str::<Value>(line).unwrap())
        });
        let line = ready.await;
        line["listen"].as_str().unwrap().clone_into(&mut self.client.address);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn spawn(program: &Program, log: &NamedTempFile) -> Child {
    program.command(&["serve"]).stderr(log.reopen().unwrap()).spawn().unwrap()
}

impl Client {
    /// What the API answers to `body`, where null is none: status and JSON, or why there was no
    /// whole answer.
    pub fn try_call(&self, what: &str, body: &impl Serialize) -> io::Result<(u16, Value)> {
        let bearer = format!("Bearer {}", self.key);
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let body = serde_json::to_vec(body)?;
        let body = if body == b"null" { Vec::new() } else { body };
        let (status, answer) = exchange(&self.address, what, &headers, &body)?;
        Ok((status, serde_json::from_str(&answer).unwrap_or_default()))
    }

    /// The JSON of a call that must succeed.
    pub fn call(&self, what: &str, body: &impl Serialize) -> Value {
        let (status, answer) = self.try_call(what, body).unwrap();
        assert!((200..300).contains(&status), "{what}: {status} {answer}");
        answer
    }

    /// What the API shows, as it comes: status line with headers, and body.
    pub fn get(&self, path: &str) -> (String, String) {
        let bearer = format!("Bearer {}", self.key);
        let headers = [("authorization", &*bearer)];
        whole_exchange(&self.address, &format!("GET {path}"), &headers, b"").unwrap()
    }

    /// An endpoint of `tenant` that wants everything; gives its path.
    pub fn add_endpoint(&self, tenant: &str, mut fields: Value) -> String {
        self.call(&format!("PUT /v1/tenants/{tenant}"), &json!({}));
        fields["event_types"] = json!(["*"]);
        let made = self.call(&format!("POST /v1/tenants/{tenant}/endpoints"), &fields);
        format!("/v1/tenants/{tenant}/endpoints/{}", made["id"].as_str().unwrap())
    }

    /// The text of an endpoint's one secret.
    pub fn secret(&self, endpoint: &str) -> String {
        let listed = self.call(&format!("GET {endpoint}/secrets"), &Value::Null);
        let secret = listed["data"][0]["id"].as_str().unwrap();
        let told = self.call(&format!("POST {endpoint}/secrets/{secret}/reveal"), &Value::Null);
        told["secret"].as_str().unwrap().to_owned()
    }
}

/// Looks again and again until there is something to see, and fails after a minute.
pub async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = monotonic() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(monotonic() < end, "waited in vain for {what}");
        pause(Duration::from_millis(10)).await;
    }
}

/// Lets time pass.
pub async fn pause(time: Duration) {
    let _ = timeout(time, pending::<()>()).await;
}
