//! Requests that the senders' own libraries signed, and what must be said of each. Where those
//! libraries disagree with one another, `alternatives` has the other answers, and `CHOSEN` names
//! the cases in which ours is one of them.

use std::{collections::BTreeSet, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;
use snaphook_signature::{
    Received, Refusal, Scheme, Secret, Verdict, Verified, Verifier, sign_standard,
};

/// One recorded request.
struct Case {
    json: Value,
    scheme: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Case {
    fn read(provider: &str, json: Value) -> Self {
        let headers = json["headers"].as_array().expect("headers").iter();
        let headers = headers.map(|pair| {
            let part = |index: usize| pair[index].as_str().expect("text").to_owned();
            (part(0), part(1).into_bytes())
        });
        let headers = headers.collect();
        let body =
            BASE64_STANDARD.decode(json["body_base64"].as_str().expect("a body")).expect("base64");
        let scheme = match json["scheme"].as_str() {
            Some(variant) => format!("{provider}:{variant}"),
            _ => provider.to_owned(),
        };
        Self { json, scheme, headers, body }
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.json[field].as_str()
    }

    /// What was done to the request.
    fn kind(&self) -> &str {
        self.text("name").and_then(|name| name.split_once('/')).expect("provider/kind").1
    }

    fn secrets(&self) -> Vec<&str> {
        match &self.json["secrets"] {
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => vec![self.text("secret").unwrap_or_default()],
        }
    }

    fn now(&self) -> i64 {
        self.json["now"].as_i64().expect("a time")
    }

    /// What we say of it. A secret of a wrong form is refused when it is set; the vectors call
    /// that malformed.
    fn judged(&self) -> Result<Result<Verified, Refusal>, String> {
        let scheme = Scheme::named(&self.scheme).expect("a scheme");
        let verifier = Verifier::new(scheme, &self.secrets(), self.text("public_key"))
            .map_err(|error| error.to_string())?;
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let request = Received::new(&headers, &self.body)
            .with_method(self.text("method").unwrap_or("POST"))
            .with_url(self.text("url").expect("a URL"));
        Ok(verifier.verify(&request, self.now()))
    }

    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        std::str::from_utf8(&found.expect("a header").1).expect("text")
    }
}

/// Every case there is, with the provider's name in front.
fn all() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    let cases = files.iter().flat_map(|file| {
        let provider = file.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let text = std::fs::read_to_string(file).expect("vectors");
        let cases: Vec<Value> = serde_json::from_str(&text).expect("vectors");
        cases.into_iter().map(|json| Case::read(provider, json)).collect::<Vec<_>>()
    });
    cases.collect()
}

/// What was done to a request, and our verdict where it is one of the alternatives. The reasons
/// are in the README.
const CHOSEN: &[(&str, &str)] = &[
    ("alg_hs256_keyed_with_public_jwk", "malformed"),
    ("alg_none", "malformed"),
    ("empty_token", "malformed"),
    ("hs512_with_same_key", "malformed"),
    ("missing_id_header", "bad_signature"),
    ("non_utf8_body", "bad_signature"),
    ("non_utf8_body", "malformed"),
    ("other_key_id", "malformed"),
    ("secret_5_bytes", "malformed"),
    ("signature_garbage", "malformed"),
    ("signature_truncated", "malformed"),
    ("timestamp_is_a_string", "ok"),
    ("uppercase_hex", "bad_signature"),
];

#[test]
fn every_recorded_request_gets_its_verdict_id_and_type() {
    let cases = all();
    assert!(cases.len() >= 1_752, "only {} vectors are there", cases.len());
    let mut wrong = Vec::new();
    let mut other = BTreeSet::new();
    for case in &cases {
        let name = format!("{} {}", case.scheme, case.kind());
        let result = case.judged();
        let verdict = match &result {
            Ok(result) => Verdict::from(result).name(),
            Err(_) => "malformed",
        };
        if Some(verdict) != case.text("expect") {
            let allowed = case.json["alternatives"].as_array();
            if allowed.is_some_and(|all| all.iter().any(|name| name == verdict)) {
                other.insert((case.kind(), verdict));
            } else {
                wrong.push(format!("{name}: {verdict}, not {:?}: {result:?}", case.text("expect")));
            }
        }
        if let Ok(Ok(verified)) = &result {
            let told = (verified.event_id.as_deref(), verified.event_type.as_deref());
            let expected = (case.text("event_id"), case.text("event_type"));
            if told != expected && case.text("expect") == Some("ok") {
                wrong.push(format!("{name}: {told:?}, not {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    let other: Vec<_> = other.into_iter().collect();
    assert_eq!(other, CHOSEN, "the verdicts that are one of the alternatives");
}

/// Ed25519 has no chance in it, so our signature must be theirs to the last bit.
#[test]
fn v1a_signatures_are_equal_to_the_recorded_ones() {
    let mut compared = 0;
    for case in all().iter().filter(|case| case.scheme == "standardwebhooks_v1a") {
        let signatures =
            case.headers.iter().filter(|(name, _)| name.to_lowercase().ends_with("signature"));
        let single = signatures.count() == 1 && !case.header("webhook-signature").contains(' ');
        if !(single && case.text("expect") == Some("ok") && case.json["secrets"].is_null()) {
            continue;
        }
        let secret =
            Secret::parse(case.text("signing_secret").expect("a key")).expect("a private key");
        let time = case.header("webhook-timestamp").parse().expect("a time");
        let signed = sign_standard(case.header("webhook-id"), time, &case.body, [&secret]);
        assert_eq!(signed.as_deref(), Ok(case.header("webhook-signature")), "{}", case.kind());
        compared += 1;
    }
    assert!(compared >= 5, "only {compared} were compared");
}
