//! The extractor, the layer, the memory against repeats, and the example program that has all.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use axum::{Extension, Router, body::Body, http::Request, routing::post};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use snaphook_signature::{
    Dedup, Memory, Received, RedisDedup, Scheme, Sight, VerifiedEvent, Verifier, WebhookLayer,
    Webhooks,
};
use sqlx::{Connection as _, PgConnection, SqliteConnection};
use tower::ServiceExt as _;

const NOW: i64 = 1_796_042_096;
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
const BODY: &[u8] =
    br#"{"id":"evt_1","type":"charge.succeeded","data":{"object":{"amount":4999}}}"#;

fn verifier(scheme: &str) -> Verifier {
    Verifier::new(Scheme::named(scheme).expect("a scheme"), &[SECRET], None).expect("a secret")
}

fn signed(scheme: &str, now: i64, body: &'static [u8]) -> Request<Body> {
    let outgoing = verifier(scheme)
        .sign(&Received::new(&[], body).with_url("https://h.example/x"), "evt_1", now)
        .expect("signed");
    let mut request = Request::post("/");
    for (name, value) in outgoing.headers {
        request = request.header(name, value);
    }
    request.body(Body::from(body)).expect("a request")
}

fn webhooks(scheme: &str) -> Webhooks {
    Webhooks::new(verifier(scheme)).with_clock(|| NOW).with_body_limit(1 << 10)
}

async fn told(event: VerifiedEvent) -> String {
    format!("{:?} {} {}", event.dedup_key(), event.body.len(), event.headers.len())
}

/// What the layer lets through: the same body, and the event among the extensions.
async fn passed(Extension(event): Extension<VerifiedEvent>, body: Bytes) -> String {
    assert_eq!(event.body, body);
    told(event).await
}

#[tokio::test]
async fn extractor_and_layer_let_in_what_is_genuine_and_nothing_else() {
    let extractor = || Router::new().route("/", post(told)).with_state(webhooks("stripe"));
    let layer =
        || Router::new().route("/", post(passed)).layer(WebhookLayer::new(webhooks("stripe")));
    let forged = || {
        let mut request = signed("stripe", NOW, BODY);
        *request.body_mut() = Body::from("{}");
        request
    };
    let broken = || {
        let pieces = [Ok(Bytes::from_static(BODY)), Err(std::io::Error::other("reset"))];
        let mut request = signed("stripe", NOW, BODY);
        *request.body_mut() = Body::from_stream(futures_util::stream::iter(pieces));
        request
    };
    let large: &[u8] = &[b' '; 1025];
    for app in [extractor(), layer()] {
        for (request, status, why) in [
            (signed("stripe", NOW, BODY), 200, "genuine"),
            (signed("stripe", NOW - 301, BODY), 401, "too old"),
            (forged(), 401, "another body"),
            (Request::post("/").body(Body::empty()).expect("a request"), 401, "no signature"),
            (signed("stripe", NOW, large), 413, "larger than the limit"),
            (broken(), 400, "ended early"),
        ] {
            let answer = app.clone().oneshot(request).await.expect("an answer");
            assert_eq!(answer.status(), status, "{why}");
            let body = answer.into_body().collect().await.expect("a body").to_bytes();
            let expected: &[u8] = if status == 200 { br#"Some("evt_1") 74 1"# } else { b"" };
            assert_eq!(body, expected, "{why}");
        }
    }
}

#[tokio::test]
async fn an_id_that_names_a_thing_is_no_key_by_itself() {
    let body = br#"{"payload":{"uri":"https://c.example/1"},"event":"invitee.created"}"#;
    let event = webhooks("calendly").receive(signed("calendly", NOW, body)).await.expect("genuine");
    let key = event.dedup_key().expect("a key");
    assert!(key.starts_with("https://c.example/1 invitee.created "), "{key}");
    assert_eq!(key.len(), "https://c.example/1 invitee.created ".len() + 64);
    let url = webhooks("square").with_url("https://h.example/x");
    assert!(url.receive(signed("square", NOW, BODY)).await.is_ok());
    assert!(webhooks("square").receive(signed("square", NOW, BODY)).await.is_err(), "no URL");
}

/// The same on both databases: an event is new once; not at all when its transaction failed.
async fn remembers<M: Memory>(connection: &mut M) {
    Dedup::create_table(connection).await.expect("a table");
    Dedup::create_table(connection).await.expect("it may be there");
    let (stripe, github) = (Dedup::of("stripe"), Dedup::of("github"));
    for (dedup, key, expected, why) in [
        (&stripe, "a", true, "first"),
        (&stripe, "a", false, "seen"),
        (&github, "a", true, "another source"),
        (&stripe, "A", true, "another key"),
        (&stripe, "a' OR '1'='1", true, "a key is a value"),
    ] {
        assert_eq!(dedup.is_new(connection, key).await.expect("asked"), expected, "{why}");
    }
    let kept = stripe.prune(connection, Duration::from_hours(1)).await.expect("pruned");
    assert_eq!(kept, 0, "nothing is that old");
    tokio::time::timeout(Duration::from_secs(30), async {
        while stripe.prune(connection, Duration::from_secs(0)).await.expect("pruned") == 0 {}
    })
    .await
    .expect("within a second or two all are older than nothing");
    assert!(stripe.is_new(connection, "a").await.expect("asked"), "forgotten");
    assert!(!github.is_new(connection, "a").await.expect("asked"), "not this source's");
}

#[tokio::test]
async fn sqlite_remembers_and_forgets() {
    let mut connection = SqliteConnection::connect("sqlite::memory:").await.expect("a database");
    remembers(&mut connection).await;
    let mut transaction = connection.begin().await.expect("a transaction");
    assert!(Dedup::of("x").is_new(&mut *transaction, "1").await.expect("asked"));
    transaction.rollback().await.expect("rolled back");
    assert!(Dedup::of("x").is_new(&mut connection, "1").await.expect("asked"), "it failed");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "where the tests' PostgreSQL is")]
async fn postgres_remembers_and_forgets_and_a_second_waits_for_the_first() {
    let url = std::env::var("SNAPHOOK_TEST_POSTGRES")
        .expect("run this by `scripts/with-postgres cargo test …`, which starts a PostgreSQL");
    let mut one = PgConnection::connect(&url).await.expect("a database");
    let mut two = PgConnection::connect(&url).await.expect("a database");
    for connection in [&mut one, &mut two] {
        let schema = "CREATE SCHEMA IF NOT EXISTS signature_dedup";
        drop(sqlx::query(schema).execute(&mut *connection).await); // the other made it
        let path = "SET search_path TO signature_dedup";
        sqlx::query(path).execute(&mut *connection).await.expect("a schema");
    }
    sqlx::query("DROP TABLE IF EXISTS seen_webhooks").execute(&mut one).await.expect("dropped");
    remembers(&mut one).await;

    let mut transaction = one.begin().await.expect("a transaction");
    assert!(Dedup::of("x").is_new(&mut *transaction, "1").await.expect("asked"));
    let second = async { Dedup::of("x").is_new(&mut two, "1").await.expect("asked") };
    tokio::pin!(second);
    let early = tokio::time::timeout(Duration::from_millis(200), &mut second).await;
    assert!(early.is_err(), "the second waits");
    transaction.rollback().await.expect("rolled back");
    assert!(second.await, "the first failed, so the second is new");
}

/// A Redis of few words, enough for the three commands.
fn redis() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let mut known = std::collections::HashMap::new();
        let (stream, _) = listener.accept().expect("a client");
        let mut answers = stream.try_clone().expect("a stream");
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        while let Some(count) = lines.next() {
            let count: usize = count[1..].parse().expect("an array");
            let words: Vec<_> =
                (0..count).map(|_| lines.by_ref().nth(1).expect("a word")).collect();
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            let answer = match &*words {
                ["SET", key, value, "NX", "PX", time] => {
                    assert!(time.parse::<u64>().expect("a time") > 0);
                    let free = !known.contains_key(*key);
                    if free {
                        known.insert((*key).to_owned(), (*value).to_owned());
                    }
                    if free { "+OK\r\n".to_owned() } else { "$-1\r\n".to_owned() }
                }
                ["SET", key, value, "PX", _] => {
                    known.insert((*key).to_owned(), (*value).to_owned());
                    "+OK\r\n".to_owned()
                }
                ["GET", key] => known.get(*key).map_or("$-1\r\n".to_owned(), |value| {
                    format!("${}\r\n{value}\r\n", value.len())
                }),
                ["DEL", key] => format!(":{}\r\n", usize::from(known.remove(*key).is_some())),
                _ => "+OK\r\n".to_owned(),
            };
            answers.write_all(answer.as_bytes()).expect("answered");
        }
    });
    format!("redis://{address}/")
}

#[tokio::test]
async fn redis_tells_what_is_in_work_from_what_is_done() {
    let client = redis::Client::open(redis()).expect("a client");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let dedup = RedisDedup::of("stripe", Duration::from_hours(1)).with_lease(Duration::ZERO);
    let connection = &mut connection;
    assert_eq!(dedup.begin(connection, "a").await.expect("asked"), Sight::New);
    assert_eq!(dedup.begin(connection, "a").await.expect("asked"), Sight::InWork);
    dedup.give_back(connection, "a").await.expect("told");
    assert_eq!(dedup.begin(connection, "a").await.expect("asked"), Sight::New, "given back");
    dedup.done(connection, "a").await.expect("told");
    assert_eq!(dedup.begin(connection, "a").await.expect("asked"), Sight::Done);
    assert_eq!(dedup.begin(connection, "b").await.expect("asked"), Sight::New);
}

/// The example, as a program of its own: built with the tests, started, and sent to.
struct Example(Child);

impl Drop for Example {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn sent(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(request).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).expect("a status").to_owned()
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the example has the system's clock")]
async fn the_example_takes_an_event_of_stripe_once() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("example-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let database = format!("sqlite:{}?mode=rwc", folder.join("shop.db").display());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("target")
        .join("debug/examples/axum_stripe");
    let child = Command::new(&program)
        .args(["127.0.0.1:0", &database])
        .env("STRIPE_SECRET", SECRET)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));
    let mut example = Example(child);
    let mut line = String::new();
    BufReader::new(example.0.stdout.take().expect("its output"))
        .read_line(&mut line)
        .expect("a line");
    let address = line.trim().strip_prefix("listening on ").expect("an address");

    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let now = i64::try_from(now.as_secs()).expect("before the end");
    let request = |now: i64| {
        let (parts, _) = signed("stripe", now, BODY).into_parts();
        let signature = parts.headers["stripe-signature"].to_str().expect("text").to_owned();
        let head = format!(
            "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nstripe-signature: {signature}\r\ncontent-length: {}\r\n\r\n",
            BODY.len()
        );
        [head.as_bytes(), BODY].concat()
    };
    assert_eq!(sent(address, &request(now)), "200");
    assert_eq!(sent(address, &request(now - 1)), "200", "a repeat with a new signature");
    assert_eq!(sent(address, &request(now - 1000)), "401");
    drop(example);

    let mut connection = SqliteConnection::connect(&database).await.expect("a database");
    let charges: i64 = sqlx::query_scalar("SELECT count(*) FROM charges WHERE amount = 4999")
        .fetch_one(&mut connection)
        .await
        .expect("counted");
    assert_eq!(charges, 1, "worked on once");
    std::fs::remove_dir_all(&folder).expect("removed");
}
