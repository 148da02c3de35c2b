//! The judges of what we send: the libraries that receivers use, in Node.js and Python. Our own
//! verifier would agree with our own mistakes.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// A request as its receiver got it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Names and values as they came.
    pub headers: Vec<(String, String)>,
    /// The raw bytes.
    pub body: Vec<u8>,
}

/// Which libraries are asked. Each stands for one on either side, but for `Slack` and `Ed25519`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// `standardwebhooks` and `svix`, npm and PyPI: `webhook-signature` with a `whsec_` secret.
    StandardWebhooks,
    /// `stripe`, npm and PyPI: `stripe-signature`.
    Stripe,
    /// `@octokit/webhooks-methods` and `gidgethub`: `x-hub-signature-256`.
    GitHub,
    /// `svix`, npm and PyPI: `svix-signature`.
    Svix,
    /// `slack_sdk`, PyPI: `x-slack-signature`.
    Slack,
    /// PyNaCl: `webhook-signature` with a `whpk_` public key.
    Ed25519,
}

impl Library {
    /// As the scripts call it, and how many verdicts Node.js and Python then give.
    fn plan(self) -> (&'static str, usize, usize) {
        match self {
            Self::StandardWebhooks => ("standardwebhooks,svix", 2, 2),
            Self::Stripe => ("stripe", 1, 1),
            Self::GitHub => ("github", 1, 1),
            Self::Svix => ("svix", 1, 1),
            Self::Slack => ("slack", 0, 1),
            Self::Ed25519 => ("ed25519", 0, 1),
        }
    }
}

/// What one library said of one request.
#[derive(Debug)]
pub struct Judgment {
    /// Its name and version.
    pub library: String,
    /// Whether it accepts.
    pub accepted: bool,
    /// What it complains about.
    pub error: String,
}

/// A request, and what its receiver knows.
#[derive(Clone, Debug)]
pub struct Question {
    /// As it was received.
    pub request: Recorded,
    /// Who is asked.
    pub library: Library,
    /// The receiver's secret.
    pub secret: String,
    /// The receiver's clock, in unix seconds.
    pub now: i64,
}

/// A request that a provider is to sign.
#[derive(Clone, Debug)]
pub struct Order {
    /// With whose library.
    pub library: Library,
    /// The provider's secret.
    pub secret: String,
    /// The event's id, where that is in a header.
    pub id: String,
    /// The provider's clock, in unix seconds.
    pub now: i64,
    /// The raw bytes.
    pub body: Vec<u8>,
}

/// The headers of each request, once as npm's library makes them and once as PyPI's, where there is
/// one.
pub fn sign(orders: &[Order]) -> Vec<Vec<Vec<(String, String)>>> {
    let oracle = installed();
    let (mut node, mut python) =
        (Command::new("node"), Command::new(oracle.join(".venv/bin/python")));
    node.arg(oracle.join("sign_inbound.mjs"));
    python.arg(oracle.join("sign_inbound.py"));
    let in_node = |order: &&Order| order.library != Library::Slack;
    let in_python = |order: &&Order| !matches!(order.library, Library::Stripe | Library::GitHub);
    let mut by_node = signed(&mut node, orders.iter().filter(in_node));
    let mut by_python = signed(&mut python, orders.iter().filter(in_python));
    let each = |order: &Order| {
        let node = in_node(&order).then(|| by_node.remove(0));
        let python = in_python(&order).then(|| by_python.remove(0));
        node.into_iter().chain(python).collect()
    };
    orders.iter().map(each).collect()
}

fn signed<'a>(
    command: &mut Command,
    orders: impl Iterator<Item = &'a Order>,
) -> Vec<Vec<(String, String)>> {
    let line = |order: &Order| {
        let line = json!({
            "lib": match order.library {
                Library::StandardWebhooks => "standardwebhooks",
                other => other.plan().0,
            },
            "secret": order.secret,
            "id": order.id,
            "now": order.now,
            "body_base64": BASE64_STANDARD.encode(&order.body),
        });
        format!("{line}\n")
    };
    let output = fed(command, &orders.map(line).collect::<String>());
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asserts that every library in question accepts each request. Ask many at once: the time goes
/// into starting the interpreters.
pub fn assert_accepted(questions: &[Question]) {
    for (question, judgments) in questions.iter().zip(judge(questions)) {
        for judgment in judgments {
            assert!(judgment.accepted, "{judgment:?} of {question:?}");
        }
    }
}

/// What every library in question says of each request.
pub fn judge(questions: &[Question]) -> Vec<Vec<Judgment>> {
    let oracle = installed();
    let python = oracle.join(".venv/bin/python");
    let mut in_python = run(
        Command::new(python).arg(oracle.join("verify_outbound.py")),
        questions.iter().collect(),
    );
    let for_node: Vec<_> =
        questions.iter().filter(|question| question.library.plan().1 > 0).collect();
    let mut in_node = Vec::new();
    if !for_node.is_empty() {
        in_node = run(Command::new("node").arg(oracle.join("verify_outbound.mjs")), for_node);
    }
    let judged = questions.iter().map(|question| {
        let (_, node, python) = question.library.plan();
        in_node.drain(..node).chain(in_python.drain(..python)).collect()
    });
    judged.collect()
}

fn run(command: &mut Command, questions: Vec<&Question>) -> Vec<Judgment> {
    let lines: String = questions.into_iter().map(line).collect();
    let output = fed(command.arg("--jsonl"), &lines);
    output.lines().map(|line| read(&serde_json::from_str(line).unwrap())).collect()
}

/// What a script prints that is given these lines.
fn fed(command: &mut Command, lines: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{command:?} failed: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

fn line(question: &Question) -> String {
    let line = json!({
        "headers": question.request.headers,
        "body_base64": BASE64_STANDARD.encode(&question.request.body),
        "secret": question.secret,
        "lib": question.library.plan().0,
        "now": question.now,
    });
    format!("{line}\n")
}

fn read(verdict: &Value) -> Judgment {
    let text = |name: &str| verdict[name].as_str().unwrap_or_default().to_owned();
    Judgment {
        library: text("lib"),
        accepted: verdict["ok"].as_bool().unwrap(),
        error: text("error"),
    }
}

/// Where the libraries are; installs them first if they are not there yet.
fn installed() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let script = root.join("server/tests/oracle/install.sh");
    let output = Command::new("bash").arg(&script).output().unwrap();
    assert!(
        output.status.success(),
        "the official libraries could not be installed; run {} by hand: {}",
        script.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    root.join("target/oracle")
}
