//! `snaphook listen` beside a running server: its live events, handed on to a program here, which
//! gets what an endpoint would get. The server does not notice.

mod lost;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use http::HeaderValue;
use serde_json::{Value, json};
use snaphook::world::real::wall_clock;
use snaphook_signature::{Clock, Received as Signed, Scheme, Secret, Verifier, verify_standard};

use super::node::{Node, until};
use crate::support::{
    databases::on_both,
    program::{Ended, Running, closed_port},
    receiver::{Received, Receiver, answer},
};

const PROVIDERS: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
const LOCAL: &str = "whsec_CAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

/// The program under development, which accepts everything.
async fn handler() -> Receiver {
    Receiver::start(|_: &Received| answer(204, "")).await
}

/// Starts a session against a server, and gives what it said until it was ready.
fn listen_at(node: &Node, address: &str, arguments: &[&str]) -> (Running, Vec<String>) {
    let server = format!("http://{address}");
    let to = ["listen", "--server", &server, "--api-key", &node.client.key];
    let mut running = node.program.start(&[&to, arguments].concat());
    let said = running.errors_until("forwarding to ");
    (running, said)
}

fn listen(node: &Node, arguments: &[&str]) -> (Running, Vec<String>) {
    listen_at(node, &node.client.address, arguments)
}

/// Ends a session as a person does: what it printed, and where another one can go on.
fn interrupt(running: Running) -> (Ended, String) {
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code, 0, "{ended:?}");
    let place = place(&ended);
    (ended, place)
}

fn place(ended: &Ended) -> String {
    let (_, place) = ended.err.rsplit_once("--after ").unwrap();
    place.trim().to_owned()
}

/// A source of `acme`, and the path of its URL.
fn add_source(node: &Node, scheme: &str) -> String {
    node.client.call("PUT /v1/tenants/acme", &json!({}));
    let new = json!({"tenant": "acme", "name": scheme, "scheme": scheme, "secrets": [PROVIDERS]});
    let made = node.client.call("POST /v1/sources", &new);
    format!("/in/{}", made["id"].as_str().unwrap())
}

fn verifier(scheme: &str, secret: &str) -> Verifier {
    Verifier::new(Scheme::named(scheme).unwrap(), &[secret], None).unwrap()
}

/// Posts what a provider signed, with these headers besides.
fn provide(node: &Node, (scheme, path): (&str, &str), headers: &[(&str, &[u8])], body: &[u8]) {
    let now = wall_clock().seconds();
    let signed = verifier(scheme, PROVIDERS).sign(&Signed::new(headers, body), "", now).unwrap();
    let signed = signed.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let mut request =
        format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n", body.len())
            .into_bytes();
    for (name, value) in headers.iter().copied().chain(signed) {
        request.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    request.extend(b"connection: close\r\n\r\n");
    let mut stream = TcpStream::connect(&node.client.address).unwrap();
    stream.write_all(&[&request, body].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
}

/// Emits an event and gives its id.
fn emit(node: &Node, tenant: &str, event_type: &str) -> String {
    let event = json!({"tenant": tenant, "type": event_type, "data": {"n": 1}});
    node.client.call("POST /v1/events", &event)["id"].as_str().unwrap().to_owned()
}

/// What the handler got, once it is so many.
async fn got(handler: &Receiver, many: usize) -> Vec<Received> {
    let found = until("requests", || Some(handler.requests()).filter(|got| got.len() >= many));
    let found = found.await;
    assert_eq!(found.len(), many);
    found
}

fn pairs(request: &Received) -> Vec<(&str, &[u8])> {
    request.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}

/// Whether a provider's own library would take it.
fn is_providers(request: &Received, scheme: &str, secret: &str) -> bool {
    let pairs = pairs(request);
    let signed = Signed::new(&pairs, &request.body);
    verifier(scheme, secret).verify(&signed, wall_clock().seconds()).is_ok()
}

/// Whether it is signed as snaphook signs.
fn is_ours(request: &Received, prefix: &str, secret: &str) -> bool {
    let secret = Secret::parse(secret).unwrap();
    let clock = Clock::at(wall_clock().seconds());
    let pairs = pairs(request);
    verify_standard(&Signed::new(&pairs, &request.body), prefix, &[secret], clock).is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_source_takes_arrives_here_as_it_came_with_either_signature() {
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        let (stripe, github) = (add_source(&node, "stripe"), add_source(&node, "github"));
        let handler = handler().await;
        let to = handler.url("/hook?a=b");
        let audited = node.client.call("GET /v1/audit", &Value::Null);
        let shared = ["--forward-to", &to, "--secret", LOCAL];
        let (of_stripe, said) = listen(&node, &[&["--source", "stripe"], &shared[..]].concat());
        assert!(!said.join("\n").contains(LOCAL), "{said:?}");
        let id = github.rsplit('/').next().unwrap();
        let (of_github, _) = listen(&node, &[&["--source", id], &shared[..]].concat());

        let spaced = br#"{ "id": "evt_1",  "type": "charge.paid", "u": "https:\/\/x", "n": 1.10 }"#;
        let odd: [(&str, &[u8]); 3] =
            [("x-twice", b"1"), ("content-type", b"application/json"), ("x-twice", b"\xff2")];
        provide(&node, ("stripe", &stripe), &odd, spaced);
        let arrived = got(&handler, 1).await.pop().unwrap();

        assert_eq!((arrived.path.as_str(), &arrived.body[..]), ("/hook?a=b", &spaced[..]));
        assert!(is_providers(&arrived, "stripe", PROVIDERS), "with the signature that it had");
        assert!(is_ours(&arrived, "snaphook", LOCAL), "and with the local one");
        let twice = arrived.headers.get_all("x-twice").iter();
        assert_eq!(twice.map(HeaderValue::as_bytes).collect::<Vec<_>>(), [&b"1"[..], b"\xff2"]);
        assert_eq!(arrived.headers["content-type"], "application/json");

        let bytes: [(&str, &[u8]); 2] =
            [("x-github-event", b"push"), ("x-github-delivery", b"d-1")];
        provide(&node, ("github", &github), &bytes, b"\x00\xff\r\n\x80");
        let arrived = got(&handler, 2).await.pop().unwrap();
        assert_eq!(&arrived.body[..], b"\x00\xff\r\n\x80");
        assert!(is_providers(&arrived, "github", PROVIDERS));

        for (session, event_type) in [(of_stripe, "stripe.charge.paid"), (of_github, "github.push")]
        {
            let (ended, _) = interrupt(session);
            assert!(ended.out.contains("\t204\tevt_"), "{ended:?}");
            assert!(ended.out.contains(event_type) && ended.out.lines().count() == 1, "{ended:?}");
        }
        let listed = node.run(&["events", "list", "--source", "github"]);
        assert!(listed.out.contains("\tgithub.push\t") && listed.out.lines().count() == 1);
        let deliveries = node.client.call("GET /v1/deliveries", &Value::Null);
        assert_eq!(deliveries["data"], json!([]), "the server did nothing");
        assert_eq!(node.client.call("GET /v1/audit", &Value::Null), audited);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_source_took_is_signed_anew_as_its_provider_would() {
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        let stripe = add_source(&node, "stripe");
        let handler = handler().await;
        provide(&node, ("stripe", &stripe), &[], br#"{"id": "evt_1", "type": "charge.paid"}"#);
        let url = handler.url("/");
        let arguments = ["--source", "stripe", "--since", "1h", "--forward-to", &url];
        let anew = ["--scheme", "stripe", "--secret", LOCAL, "--once"];

        let (session, _) = listen(&node, &[&arguments[..], &anew].concat());

        assert_eq!(session.end().code, 0);
        let arrived = got(&handler, 1).await.pop().unwrap();
        assert!(is_providers(&arrived, "stripe", LOCAL));
        assert!(!is_providers(&arrived, "stripe", PROVIDERS));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn emitted_events_are_signed_with_a_local_secret_that_stays_the_same() {
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        let handler = handler().await;
        let url = handler.url("/");
        emit(&node, "acme", "order.old");
        let (session, said) = listen(&node, &["--tenant", "acme", "--forward-to", &url]);
        let raw = ["--tenant", "acme", "--forward-to", &url, "--format", "raw", "--secret", LOCAL];
        emit(&node, "globex", "order.paid");
        let id = emit(&node, "acme", "order.paid");

        let arrived = got(&handler, 1).await.pop().unwrap();

        assert_eq!(arrived.headers["webhook-id"], id.as_str());
        let body: Value = serde_json::from_slice(&arrived.body).unwrap();
        assert_eq!((&body["type"], &body["data"]), (&json!("order.paid"), &json!({"n": 1})));
        let told = |said: &[String]| {
            let secret = said.iter().find_map(|line| line.strip_prefix("signed with "));
            secret.unwrap().split(',').next().unwrap().to_owned()
        };
        assert!(is_ours(&arrived, "webhook", &told(&said)));
        let (again, said_again) = listen(&node, &["--tenant", "acme", "--forward-to", &url]);
        assert_eq!(told(&said_again), told(&said));
        interrupt(again);
        interrupt(session);
        let (session, _) = listen(&node, &raw);
        emit(&node, "acme", "order.paid");
        let arrived = got(&handler, 2).await.pop().unwrap();
        assert_eq!(&arrived.body[..], br#"{"n":1}"#);
        assert!(is_ours(&arrived, "webhook", LOCAL));
        interrupt(session);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_tells_what_it_leaves_out() {
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        let handler = handler().await;
        let url = handler.url("/");
        let arguments = ["--tenant", "acme", "--forward-to", &url, "--event-types", "a.*,c"];
        let (mut session, _) = listen(&node, &[&arguments[..], &["--json"]].concat());
        for event_type in ["a.b", "b", "b", "c"] {
            emit(&node, "acme", event_type);
        }

        assert!(session.read_until("\"c\"")[0].contains("\"a.b\""));

        session.wait_for("left out: b is not among --event-types");
        let (ended, _) = interrupt(session);
        let told = "forwarded 2, accepted 2; left out 2: b 2";
        assert!(ended.err.contains(told), "{ended:?}");
        assert_eq!(handler.requests().len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_takes_here_is_told_and_the_next_goes_on() {
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        let port = closed_port().to_string();
        let arguments = ["--tenant", "acme", "--forward-to", &port];
        let (mut session, _) = listen(&node, &arguments);
        let events = [emit(&node, "acme", "a.b"), emit(&node, "acme", "a.b")];

        for (event, line) in events.iter().zip(session.read_until(&events[1])) {
            let told = format!("\t\t{event}\ta.b\t7\tcannot reach http://localhost:{port}/");
            assert!(line.contains(&told), "{line}");
        }

        let refusing = Receiver::start(|_: &Received| answer(500, "no")).await;
        let url = refusing.url("/");
        let again = ["--tenant", "acme", "--since", "1h", "--once", "--json", "--forward-to", &url];
        let (once, _) = listen(&node, &again);
        let ended = once.end();
        assert_eq!(ended.code, 1, "{ended:?}");
        let line: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!((&line["event_id"], &line["status"]), (&json!(events[0]), &json!(500)));
        assert!(session.ends_at_once(), "an interrupt ends it at once");
    })
    .await;
}

impl Running {
    /// Whether an interrupt ends it before it could wait for anything.
    fn ends_at_once(self) -> bool {
        self.signal("INT");
        self.ends_within(Duration::from_secs(2))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_forwarded_is_refused_with_its_reason() {
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        let stripe = add_source(&node, "stripe");
        provide(&node, ("stripe", &stripe), &[], br#"{"id": "evt_1", "type": "charge.paid"}"#);
        let reader = json!({"scopes": ["read"], "tenant": null});
        let reader = node.client.call("POST /v1/keys", &reader)["key"].as_str().unwrap().to_owned();
        let to = ["--forward-to", "3000"];
        for (arguments, code, part) in [
            (&["--source", "nobody"][..], 3, "nobody"),
            (&["--source", "src_00000000000000000000000000"], 3, "src_0000"),
            (&["--tenant", "acme", "--secret", "whsec_short"], 2, "the secret: "),
            (&["--tenant", "acme", "--scheme", "stripe"], 2, "give the secret"),
            (&["--tenant", "acme", "--scheme", "discord", "--secret", KEY], 2, "public key"),
            (&["--tenant", "acme", "--after", "nonsense"], 2, "cursor"),
            (&["--tenant", "acme", "--since", "tomorrow"], 2, "2h"),
            (&["--tenant", "acme", "--event-types", "a b"], 2, "a b"),
            (&["--tenant", "acme", "--port", "1"], 2, "--port"),
            (&["--tenant", "acme", "--status", "200"], 2, "--status"),
            (&["--event-types", "a"], 2, "--source"),
        ] {
            let ended = node.run(&[&["listen"], arguments, &to].concat());
            assert_eq!(ended.code, code, "{arguments:?}: {ended:?}");
            assert!(ended.err.contains(part), "{arguments:?}: {ended:?}");
        }
        let without = node.run(&["listen", "--source", "stripe"]);
        assert!(without.code == 2 && without.err.contains("--forward-to"), "{without:?}");
        let server = format!("http://{}", node.client.address);
        let weak = ["listen", "--source", "stripe", "--since", "1h", "--api-key", &reader];
        let ended = node.program.run(&[&weak[..], &["--server", &server], &to].concat());
        assert_eq!(ended.code, 4, "{ended:?}");
        assert!(ended.err.contains("the scope manage"), "{ended:?}");
    })
    .await;
}

const KEY: &str = "795c92ce4ae67b73cca7c338456f11fef4361190fc311958671c89037a64722a";
