//! Handshakes as the providers make them and document them, and what a stranger may try with them.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;
use snaphook_signature::{Answer, Handshake, Handshakes, Received, Scheme, Verifier};

/// One recorded request, and a source that gets it.
struct Case {
    json: Value,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Case {
    fn all() -> Vec<Self> {
        let all: Vec<Value> = serde_json::from_str(include_str!("handshakes.json")).expect("JSON");
        all.into_iter().map(Self::read).collect()
    }

    fn named(name: &str) -> Self {
        Self::all().into_iter().find(|case| case.json["name"] == name).expect("a case")
    }

    fn read(json: Value) -> Self {
        let headers = pairs(&json["request"]["headers"]);
        let headers = headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect();
        let body = BASE64_STANDARD.decode(json["request"]["body_base64"].as_str().expect("a body"));
        Self { headers, body: body.expect("base64"), json }
    }

    fn provider(&self) -> &str {
        self.json["provider"].as_str().expect("a provider")
    }

    /// Meta's secret is what it shows, not what it signs with.
    fn secrets(&self) -> Vec<&str> {
        match self.provider() {
            "meta" => vec!["app-secret"],
            _ => self.json["secret"].as_str().into_iter().collect(),
        }
    }

    fn handshakes(&self) -> Handshakes {
        let scheme = Scheme::named(self.provider()).expect("a scheme");
        let token = self.json["secret"].as_str().filter(|_| self.provider() == "meta");
        Handshakes::new(scheme, &self.secrets(), self.json["public_key"].as_str(), token)
            .expect("secrets")
    }

    /// As a server goes about it: what is asked before, the signature, what is asked after.
    fn asked(&self, may_keep: bool) -> Option<Handshake> {
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let request = Received::new(&headers, &self.body)
            .with_method(self.json["request"]["method"].as_str().expect("a method"))
            .with_url(self.json["request"]["url"].as_str().expect("a URL"));
        let handshakes = self.handshakes();
        let before = handshakes.unverified(&request, may_keep);
        if before.is_some() || self.secrets().is_empty() {
            return before;
        }
        let scheme = Scheme::named(self.provider()).expect("a scheme");
        let verifier =
            Verifier::new(scheme, &self.secrets(), self.json["public_key"].as_str()).expect("one");
        match verifier.verify(&request, self.json["now"].as_i64().expect("a time")) {
            Ok(genuine) => handshakes.verified(&request, &genuine),
            Err(_) => Some(Handshake::Refused { status: 401, reason: "not genuine" }),
        }
    }

    fn set(&mut self, part: &str, value: &str) {
        self.json["request"][part] = value.into();
    }
}

fn pairs(headers: &Value) -> Vec<(String, String)> {
    let pair = |pair: &Value| {
        let part = |index: usize| pair[index].as_str().expect("text").to_owned();
        (part(0), part(1))
    };
    headers.as_array().expect("headers").iter().map(pair).collect()
}

fn answer(asked: Option<Handshake>) -> Answer {
    match asked {
        Some(Handshake::Answer(answer)) => answer,
        other => panic!("no answer: {other:?}"),
    }
}

fn status(asked: Option<&Handshake>) -> Option<u16> {
    asked.map(|asked| match asked {
        Handshake::Answer(answer) => answer.status,
        Handshake::Refused { status, .. } => *status,
    })
}

#[test]
fn every_recorded_handshake_gets_the_answer_that_the_provider_wants() {
    let cases = Case::all();
    assert!(cases.len() >= 17, "only {} handshakes are there", cases.len());
    for case in cases {
        let name = &case.json["name"];
        let expected = &case.json["expect_response"];
        let asked = case.asked(true);
        assert_eq!(status(asked.as_ref()).map(u64::from), expected["status"].as_u64(), "{name}");
        let Some(Handshake::Answer(answer)) = asked else { continue };
        for (header, value) in pairs(&expected["headers"]) {
            let found = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(&header));
            assert_eq!(found.map(|(_, value)| value), Some(&value), "{name}: {header}");
        }
        if let Some(body) = expected["body_base64"].as_str() {
            assert_eq!(BASE64_STANDARD.encode(&answer.body), body, "{name}");
        }
        if expected["body_json"].is_object() {
            let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
            assert_eq!(body, expected["body_json"], "{name}");
        }
        let kept = answer.keep.as_ref().map(|text| text.as_str());
        assert_eq!(kept, case.json["store_secret"].as_str(), "{name}");
        let header = |wanted: &str| answer.headers.iter().any(|(name, _)| name == wanted);
        assert_eq!(header("X-Content-Type-Options"), !answer.body.is_empty(), "{name}: no page");
    }
}

#[test]
fn a_challenge_that_could_be_a_body_is_not_signed() {
    let mut case = Case::named("x_twitter/handshake/crc");
    let long = "a".repeat(129);
    for (token, why) in [
        ("%7B%22for_user_id%22%3A%221%22%7D", "a body of JSON"),
        ("a=b", "a form"),
        ("a%20b", "a blank"),
        ("a%0Ab", "a line break"),
        ("%C3%A9", "not ASCII"),
        ("", "nothing"),
        (&*long, "too long"),
    ] {
        case.set("url", &format!("https://hooks.example.test/in/x?crc_token={token}"));
        assert_eq!(status(case.asked(false).as_ref()), Some(400), "{token}: {why}");
    }
    let mut case = Case::named("braintree/handshake/bt_challenge");
    let long = "a".repeat(33);
    for (challenge, why) in [
        ("5e8c48c1103f9df7958", "too short"),
        (&*long, "too long"),
        ("5E8C48C1103F9DF79581", "capitals"),
        ("PHhtbD48a2luZD5hPC8K", "base64 of XML"),
    ] {
        case.set("url", &format!("https://hooks.example.test/in/x?bt_challenge={challenge}"));
        assert_eq!(status(case.asked(false).as_ref()), Some(400), "{challenge}: {why}");
    }
}

#[test]
fn a_secret_is_taken_only_while_the_source_waits_for_one() {
    for name in ["asana/handshake/x_hook_secret", "notion/handshake/verification_token"] {
        let case = Case::named(name);
        assert_eq!(case.asked(false), None, "{name}: nobody waits");
        assert!(answer(case.asked(true)).keep.is_some(), "{name}");
    }
    let mut case = Case::named("asana/handshake/x_hook_secret");
    case.headers[0].1 = b" spaced ".to_vec();
    assert_eq!(status(case.asked(true).as_ref()), Some(400), "no secret at all");
    case.headers.push(("x-hook-secret".to_owned(), b"other".to_vec()));
    assert_eq!(case.asked(true), None, "two secrets, and none is asked for");
}

#[test]
fn what_must_be_signed_is_not_answered_unsigned() {
    for case in Case::all() {
        let (name, stranger) = (case.json["name"].clone(), case.provider().to_owned());
        let signed = ["zoom", "slack", "discord", "twitch_eventsub"].contains(&&*stranger);
        let mut forged = case;
        for (_, value) in &mut forged.headers {
            let last = value.len() - 1;
            value[last] ^= 1;
        }
        if signed {
            assert_eq!(status(forged.asked(true).as_ref()), Some(401), "{name}");
        }
    }
}

#[test]
fn a_body_that_is_long_or_deep_is_no_handshake() {
    let mut case = Case::named("notion/handshake/verification_token");
    let long =
        format!("{{\"verification_token\":\"secret_1\",\"a\":\"{}\"}}", "x".repeat(64 << 10));
    let deep = format!("{{\"verification_token\":\"s\",\"a\":{}}}", "[".repeat(60_000));
    for body in [long, deep] {
        case.body = body.into_bytes();
        assert_eq!(case.asked(true), None);
    }
}

#[test]
fn a_token_must_be_there_and_be_the_sources() {
    let case = Case::named("meta/handshake/hub_challenge");
    let request = Received::new(&[], b"")
        .with_method("GET")
        .with_url("/in/x?hub.mode=subscribe&hub.challenge=1&hub.verify_token=");
    for token in [None, Some(""), Some("other")] {
        let scheme = Scheme::named("meta").unwrap();
        let handshakes = Handshakes::new(scheme, &["app-secret"], None, token).unwrap();
        assert_eq!(status(handshakes.unverified(&request, true).as_ref()), Some(403), "{token:?}");
    }
    let mut case = case;
    case.set("url", "/in/x?hub.mode=unsubscribe&hub.verify_token=vt23a5b03b0e76");
    assert_eq!(status(case.asked(true).as_ref()), Some(401), "another mode");
}

#[test]
fn an_echo_in_a_header_cannot_end_it() {
    let mut case = Case::named("cloudevents/handshake/options");
    let rate = case.headers.pop().expect("a rate");
    let without = answer(case.asked(false));
    assert!(without.headers.iter().all(|(name, _)| name != "WebHook-Allowed-Rate"), "none asked");
    for value in [&b"a\r\nSet-Cookie: x"[..], b"a\x7f", b"a\x00"] {
        case.headers.push((rate.0.clone(), value.to_vec()));
        assert_eq!(status(case.asked(false).as_ref()), Some(400), "{value:?}");
        case.headers.pop();
    }
}

#[test]
fn events_that_look_alike_are_events() {
    for (scheme, body, why) in [
        ("discord", &br#"{"type":1,"event":{"type":"X"}}"#[..], "an event of Discord"),
        ("slack", br#"{"type":"event_callback","challenge":"x"}"#, "an event of Slack"),
        ("zoom", br#"{"event":"meeting.started"}"#, "an event of Zoom"),
        ("aws_sns", br#"{"Type":"Notification"}"#, "a message"),
    ] {
        let handshakes =
            Handshakes::new(Scheme::named(scheme).unwrap(), &[] as &[&str], None, None).unwrap();
        let verified = snaphook_signature::Verified {
            secret: 0,
            event_id: None,
            event_type: None,
            sent: None,
            evidence: None,
        };
        let request = Received::new(&[], body);
        assert_eq!(handshakes.verified(&request, &verified), None, "{why}");
    }
}

#[test]
fn a_subscription_is_confirmed_at_amazon_alone() {
    let scheme = Scheme::named("aws_sns").unwrap();
    let handshakes = Handshakes::new(scheme, &["arn:aws:sns:eu-west-1:1:t"], None, None).unwrap();
    let verified = snaphook_signature::Verified {
        secret: 0,
        event_id: None,
        event_type: None,
        sent: None,
        evidence: None,
    };
    for (url, expected) in [
        ("https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=1", Some(200)),
        ("http://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription", Some(400)),
        ("https://sns.eu-west-1.amazonaws.com.example.test/?a", Some(400)),
        ("https://s3.amazonaws.com/?a", Some(400)),
    ] {
        let body = format!("{{\"Type\":\"SubscriptionConfirmation\",\"SubscribeURL\":\"{url}\"}}");
        let asked = handshakes.verified(&Received::new(&[], body.as_bytes()), &verified);
        assert_eq!(status(asked.as_ref()), expected, "{url}");
        if expected == Some(200) {
            assert_eq!(answer(asked).visit.as_deref(), Some(url));
        }
    }
}

/// A source whose secrets are being rotated answers with the one that the request was signed with.
#[test]
fn the_answer_is_signed_with_the_secret_that_matched() {
    let case = Case::named("zoom/handshake/endpoint_url_validation");
    let secret = case.json["secret"].as_str().expect("a secret");
    let scheme = Scheme::named("zoom").unwrap();
    let secrets = ["zm-other", secret];
    let handshakes = Handshakes::new(scheme.clone(), &secrets, None, None).unwrap();
    let headers: Vec<_> =
        case.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    let request = Received::new(&headers, &case.body);
    let verified =
        Verifier::new(scheme, &secrets, None).unwrap().verify(&request, 1_750_000_000).unwrap();
    assert_eq!(verified.secret, 1);
    let body: Value =
        serde_json::from_slice(&answer(handshakes.verified(&request, &verified)).body).unwrap();
    assert_eq!(body, case.json["expect_response"]["body_json"]);
}
