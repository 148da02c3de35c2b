//! Requests that the senders' own libraries signed, and what must be said of each. Where those
//! libraries disagree with one another, `alternatives` has the other answers.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;
use snaphook_signature::{
    Clock, Genuine, Received, Refusal, Secret, Verdict, sign_standard, verify_sha256_hex,
    verify_standard, verify_t_v1,
};

/// One recorded request.
struct Case {
    json: Value,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Case {
    fn text(&self, field: &str) -> &str {
        self.json[field].as_str().unwrap_or_default()
    }

    fn secrets(&self) -> Vec<&str> {
        match &self.json["secrets"] {
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => vec![self.text("secret")],
        }
    }

    fn clock(&self) -> Clock {
        Clock::at(self.json["now"].as_i64().expect("a time"))
    }

    fn judged<T>(&self, judge: impl FnOnce(&Received<'_>) -> T) -> T {
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        judge(&Received::new(&headers, &self.body))
    }

    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        std::str::from_utf8(&found.expect("a header").1).expect("text")
    }
}

fn cases(text: &str) -> Vec<Case> {
    let cases: Vec<Value> = serde_json::from_str(text).expect("vectors");
    let read = |json: Value| {
        let headers = json["headers"].as_array().expect("headers").iter();
        let headers = headers.map(|pair| {
            let part = |index: usize| pair[index].as_str().expect("text").to_owned();
            (part(0), part(1).into_bytes())
        });
        let headers = headers.collect();
        let body = json["body_base64"].as_str().expect("a body");
        Case { headers, body: BASE64_STANDARD.decode(body).expect("base64"), json }
    };
    cases.into_iter().map(read).collect()
}

/// Runs all cases; those that go by an alternative must be listed in `chosen`.
fn check(text: &str, chosen: &[(&str, &str)], judge: impl Fn(&Case) -> Result<Genuine, Refusal>) {
    let cases = cases(text);
    assert!(cases.len() > 20, "the vectors are there");
    for case in &cases {
        let result = judge(case);
        let verdict = Verdict::from(&result).name();
        let kind = case.text("name").split('/').nth(1).expect("a kind");
        let expected = chosen.iter().find(|(name, _)| *name == kind);
        match expected {
            Some((_, other)) => {
                let allowed = case.json["alternatives"].as_array().expect("alternatives");
                assert!(allowed.iter().any(|name| name == other), "{kind}: {other} is no choice");
                assert_eq!(verdict, *other, "{kind}: {result:?}");
            }
            None => assert_eq!(verdict, case.text("expect"), "{kind}: {result:?}"),
        }
    }
}

fn standard(case: &Case, prefix: &str) -> Result<Genuine, Refusal> {
    let secrets: Result<Vec<_>, _> = case.secrets().into_iter().map(Secret::parse_pasted).collect();
    // A secret that cannot be read is refused when it is set; the vectors call that malformed.
    let secrets = secrets.map_err(|_| Refusal::Malformed {
        part: "the secret".to_owned(),
        problem: "cannot be read",
    })?;
    case.judged(|request| verify_standard(request, prefix, &secrets, case.clock()))
}

#[test]
fn standard_webhooks() {
    // Shorter than the specification allows, so it is refused when it is set.
    let chosen = [("secret_5_bytes", "malformed")];
    let text = include_str!("vectors/standardwebhooks.json");
    check(text, &chosen, |case| standard(case, "webhook"));
}

#[test]
fn standard_webhooks_v1a() {
    let text = include_str!("vectors/standardwebhooks_v1a.json");
    check(text, &[], |case| standard(case, "webhook"));
}

#[test]
fn a_sender_with_its_own_header_names() {
    let chosen = [("secret_5_bytes", "malformed")];
    check(include_str!("vectors/svix.json"), &chosen, |case| {
        let own = case.headers.iter().any(|(name, _)| name.to_lowercase().starts_with("svix-"));
        standard(case, if own { "svix" } else { "webhook" })
    });
}

#[test]
fn t_v1() {
    check(
        include_str!("vectors/generic_t_v1.json"),
        &[("signature_garbage", "malformed")],
        |case| {
            let keys: Vec<_> = case.secrets().into_iter().map(str::as_bytes).collect();
            case.judged(|request| verify_t_v1(request, "x-webhook-signature", &keys, case.clock()))
        },
    );
}

#[test]
fn sha256_hex() {
    check(include_str!("vectors/github.json"), &[("signature_garbage", "malformed")], |case| {
        let keys: Vec<_> = case.secrets().into_iter().map(str::as_bytes).collect();
        case.judged(|request| verify_sha256_hex(request, "x-hub-signature-256", &keys))
    });
}

/// Ed25519 has no chance in it, so our signature must be theirs to the last bit.
#[test]
fn v1a_signatures_are_equal_to_the_recorded_ones() {
    let mut compared = 0;
    for case in cases(include_str!("vectors/standardwebhooks_v1a.json")) {
        let single = !case.header_has_several();
        if !(single && case.text("expect") == "ok" && case.json["secrets"].is_null()) {
            continue;
        }
        let secret = Secret::parse(case.text("signing_secret")).expect("a private key");
        let time = case.header("webhook-timestamp").parse().expect("a time");
        let signed = sign_standard(case.header("webhook-id"), time, &case.body, [&secret]);
        assert_eq!(
            signed.as_deref(),
            Ok(case.header("webhook-signature")),
            "{}",
            case.text("name")
        );
        compared += 1;
    }
    assert!(compared >= 5, "only {compared} were compared");
}

impl Case {
    fn header_has_several(&self) -> bool {
        let signatures = self.headers.iter().filter(|(name, _)| name.contains("ignature"));
        signatures.count() != 1 || self.header("webhook-signature").contains(' ')
    }
}
