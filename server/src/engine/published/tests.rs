//! A world that publishes what it is told to, and counts who asks.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use tokio::sync::Notify;

use super::*;
use crate::{
    domain::{outcome::Plain, time::Timestamp},
    world::{Boxed, SendError, Sent, Timings},
};

const PEM: &str = "-----BEGIN CERTIFICATE-----\n";

type Answering = dyn Fn(&Request) -> Result<Response, SendError> + Send + Sync;

/// Counts requests, and answers each once its gate is opened, if it has one.
struct Outside {
    answering: Box<Answering>,
    asked: Mutex<Vec<Request>>,
    seconds: AtomicU64,
    gate: Option<Notify>,
}

impl Outside {
    fn new(
        answering: impl Fn(&Request) -> Result<Response, SendError> + Send + Sync + 'static,
    ) -> Self {
        let (asked, seconds) = (Mutex::default(), AtomicU64::new(1));
        Self { answering: Box::new(answering), asked, seconds, gate: None }
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn wait(&self, time: Duration) {
        self.seconds.fetch_add(time.as_secs(), Ordering::SeqCst);
    }
}

impl World for Outside {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.seconds.load(Ordering::SeqCst))
    }

    fn random(&self) -> u64 {
        0
    }

    fn send(&self, request: Request) -> Boxed<'_, Sent> {
        Box::pin(async move {
            let result = (self.answering)(&request);
            self.asked.lock().unwrap().push(request);
            if let Some(gate) = &self.gate {
                gate.notified().await;
            }
            Sent { result, timings: Timings::default(), address: None }
        })
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it stands beside failures")]
fn answer(status: u16, body: &str) -> Result<Response, SendError> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    Ok(Response { status, headers: HeaderMap::new(), body, truncated: false })
}

fn at(number: usize) -> Need {
    Need::Certificate(format!("https://sns.eu-west-1.amazonaws.com/{number}.pem"))
}

fn published(outside: Outside) -> (Published, Arc<Outside>) {
    let outside = Arc::new(outside);
    (Published::new(outside.clone()), outside)
}

#[tokio::test]
async fn of_many_that_need_the_same_one_fetches_and_it_is_kept_for_a_day() {
    let gate = Some(Notify::new());
    let (published, outside) = published(Outside { gate, ..Outside::new(|_| answer(200, PEM)) });
    let need = at(1);
    let all = join_all((0..50).map(|_| published.get(&need, None)));
    let opened = async { outside.gate.as_ref().unwrap().notify_one() };
    let (all, ()) = tokio::join!(all, opened);
    assert!(all.iter().all(|text| text.as_deref() == Ok(PEM)));
    assert_eq!(outside.asked(), 1);

    outside.wait(KEPT_FOR.saturating_sub(Duration::from_secs(1)));
    published.get(&need, None).await.unwrap();
    assert_eq!(outside.asked(), 1);
    outside.wait(Duration::from_secs(1));
    outside.gate.as_ref().unwrap().notify_one();
    published.get(&need, None).await.unwrap();
    assert_eq!(outside.asked(), 2, "a day is over");
}

#[tokio::test]
async fn it_goes_by_https_to_public_addresses_within_limits() {
    let (published, outside) = published(Outside::new(|_| answer(200, PEM)));
    published.get(&at(1), None).await.unwrap();
    published
        .visit("https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription")
        .await
        .unwrap();
    for request in outside.asked.lock().unwrap().iter() {
        assert_eq!(request.method, Method::GET);
        assert!(!request.internal && request.body.is_empty());
        assert_eq!(
            (request.timeout, request.answer_bytes),
            (FETCH_TIMEOUT, Some(ANSWER_BYTES_MAX))
        );
    }
    for url in ["http://sns.eu-west-1.amazonaws.com/1.pem", "file:///x.pem", ""] {
        assert!(published.get(&Need::Certificate(url.to_owned()), None).await.is_err(), "{url}");
        assert!(published.visit(url).await.is_err(), "{url}");
    }
    assert_eq!(outside.asked(), 2);
}

#[tokio::test]
async fn what_cannot_be_had_is_said_so_and_not_asked_for_again_at_once() {
    let truncated = || Ok(Response { truncated: true, ..answer(200, PEM).unwrap() });
    let refused = || Err(SendError::new(Plain::Internal, "no"));
    for (answering, why) in [
        (Box::new(|_: &Request| answer(404, PEM)) as Box<Answering>, "answered 404"),
        (Box::new(|_: &Request| answer(302, PEM)), "answered 302"),
        (Box::new(|_: &Request| answer(200, "<html>")), "no certificate"),
        (Box::new(move |_: &Request| truncated()), "more than 65536 bytes"),
        (Box::new(move |_: &Request| refused()), "no"),
    ] {
        let (published, outside) = published(Outside::new(answering));
        for _ in 0..3 {
            let error = published.get(&at(1), None).await.unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        assert_eq!(outside.asked(), 1, "{why}");
        outside.wait(FAILED_FOR);
        published.get(&at(1), None).await.unwrap_err();
        assert_eq!(outside.asked(), 2, "{why}");
    }
}

#[tokio::test]
async fn forged_requests_do_not_push_out_what_genuine_ones_use() {
    let there = |request: &Request| request.url.ends_with("/0.pem") || request.url.len() > 50;
    let (published, outside) =
        published(Outside::new(move |r| answer(if there(r) { 200 } else { 404 }, PEM)));
    published.get(&at(0), None).await.unwrap();
    for number in 1..1_000 {
        published.get(&at(number), None).await.unwrap_err();
    }
    assert_eq!(published.kept.lock().unwrap().len(), KEPT_MAX);
    assert_eq!(outside.asked(), 1_000);
    published.get(&at(0), None).await.unwrap();
    assert_eq!(outside.asked(), 1_000, "still kept");

    for number in 0..KEPT_MAX {
        outside.wait(Duration::from_secs(1));
        published.get(&at(1_000_000_000_000 + number), None).await.unwrap();
        published.get(&at(0), None).await.unwrap();
    }
    assert_eq!(published.kept.lock().unwrap().len(), KEPT_MAX);
    assert_eq!(outside.asked(), 1_000 + KEPT_MAX, "what is used stays");
}

#[tokio::test]
async fn plaid_is_asked_for_the_key_that_a_request_names() {
    let key =
        r#"{"alg":"ES256","crv":"P-256","expired_at":null,"kid":"k1","kty":"EC","x":"a","y":"b"}"#;
    let body = format!("{{\"key\":{key},\"request_id\":\"r\"}}");
    let (published, outside) = published(Outside::new(move |request| {
        let asked: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        match asked["key_id"].as_str() {
            Some("k1" | "k2") => answer(200, &body),
            Some("old") => answer(200, &body.replace("null", "1700000000").replace("k1", "old")),
            _ => answer(400, "{}"),
        }
    }));
    let access = |client| Some(PlaidAccess { client, secret: "s" });
    let need = |kid: &str| Need::Jwk(kid.to_owned());
    assert_eq!(published.get(&need("k1"), access("c@sandbox")).await.as_deref(), Ok(key));
    assert_eq!(published.get(&need("k1"), access("c")).await.as_deref(), Ok(key));
    {
        let asked = outside.asked.lock().unwrap();
        let hosts: Vec<_> = asked.iter().map(|request| &*request.url).collect();
        assert_eq!(
            hosts,
            [
                "https://sandbox.plaid.com/webhook_verification_key/get",
                "https://production.plaid.com/webhook_verification_key/get",
            ]
        );
        let body: serde_json::Value = serde_json::from_slice(&asked[0].body).unwrap();
        assert_eq!(body, serde_json::json!({"client_id": "c", "secret": "s", "key_id": "k1"}));
        assert_eq!(asked[0].method, Method::POST);
    }
    for (kid, why) in [("k2", "another key"), ("old", "has ended"), ("k3", "answered 400")] {
        let error = published.get(&need(kid), access("c")).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    assert!(published.get(&need("k1"), None).await.is_err(), "nothing to ask with");
}
