//! Every recorded handshake, over a socket, at a server that runs. Its clock is the machine's, so
//! what is signed with a time is signed anew, as of now.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use snaphook::world::real::wall_clock;
use snaphook_signature::{Received, Scheme, Verifier};

use super::node::Node;
use crate::support::{databases::on_both, program::whole_exchange};

const CASES: &str = include_str!("../../../../signature/tests/handshakes.json");

/// A recorded request, as it is sent now.
struct Sent {
    what: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// What the source must know of its sender, where the record has one.
    secret: Option<String>,
}

impl Sent {
    fn of(case: &Value) -> Self {
        let recorded = &case["request"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let headers = recorded["headers"].as_array().unwrap().iter();
        let url = recorded["url"].as_str().unwrap();
        let query = url.split_once('?').map(|(_, query)| format!("?{query}"));
        let mut sent = Self {
            what: format!("{} {{}}{}", text(&recorded["method"]), query.unwrap_or_default()),
            headers: headers.map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
            body: BASE64_STANDARD.decode(text(&recorded["body_base64"])).unwrap(),
            secret: case["secret"].as_str().map(str::to_owned),
        };
        let provider = text(&case["provider"]);
        let is_signed = sent.headers.iter().any(|(name, _)| name.to_lowercase().contains("sign"));
        if provider == "discord" {
            sent.sign_as_discord(case["expect_response"]["status"] == 200);
        } else if is_signed {
            sent.sign(&provider);
        }
        sent
    }

    fn set(&mut self, name: &str, value: String) {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value));
    }

    fn sign(&mut self, provider: &str) {
        let secret = self.secret.as_deref().unwrap();
        let verifier = Verifier::new(Scheme::named(provider).unwrap(), &[secret], None).unwrap();
        let headers: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let given = Received::new(&headers, &self.body);
        let signed = verifier.sign(&given, "", wall_clock().seconds()).unwrap();
        for (name, value) in signed.headers {
            self.set(&name, value);
        }
    }

    /// With a key of our own: nobody but Discord has the one of the record.
    fn sign_as_discord(&mut self, well: bool) {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        self.secret = Some(hex::encode(pair.public_key()));
        let now = wall_clock().seconds().to_string();
        if well {
            let signature = pair.sign(&[now.as_bytes(), &self.body].concat());
            self.set("X-Signature-Ed25519", hex::encode(signature));
        }
        self.set("X-Signature-Timestamp", now);
    }

    /// A source for it, and the path of its URL.
    fn add_source(&self, node: &Node, case: &Value) -> String {
        let provider = case["provider"].as_str().unwrap();
        let name = case["name"].as_str().unwrap().replace('/', "_");
        let mut new = json!({"tenant": "acme", "name": name, "scheme": provider});
        new["public_key"] = case["public_key"].clone();
        match (provider, &self.secret) {
            ("meta", Some(token)) => {
                new["verify_token"] = json!(token);
                new["secrets"] = json!(["app-secret"]);
            }
            (_, Some(secret)) => new["secrets"] = json!([secret]),
            (_, None) => {}
        }
        let made = node.client.call("POST /v1/sources", &new);
        made["id"].as_str().unwrap().to_owned()
    }
}

fn assert_is((head, body): &(String, String), expected: &Value, name: &Value) {
    let status = format!("HTTP/1.1 {} ", expected["status"]);
    assert!(head.starts_with(&status), "{name}: {head}");
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    };
    for pair in expected["headers"].as_array().unwrap() {
        assert_eq!(header(pair[0].as_str().unwrap()), pair[1].as_str(), "{name}: {head}");
    }
    if let Some(text) = expected["body_base64"].as_str() {
        assert_eq!(BASE64_STANDARD.encode(body), text, "{name}");
    }
    if expected["body_json"].is_object() {
        assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected["body_json"], "{name}");
    }
    if !body.is_empty() {
        assert_eq!(header("x-content-type-options"), Some("nosniff"), "{name}");
    }
}

#[tokio::test]
async fn every_recorded_handshake_is_answered_by_a_server_that_runs() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    assert!(cases.len() > 16, "{} cases", cases.len());
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        node.client.call("PUT /v1/tenants/acme", &json!({}));
        for case in &cases {
            let sent = Sent::of(case);
            let source = sent.add_source(&node, case);
            let what = sent.what.replace("{}", &format!("/in/{source}"));
            let headers: Vec<(&str, &str)> =
                sent.headers.iter().map(|(name, value)| (&**name, &**value)).collect();

            let answer = whole_exchange(&node.client.address, &what, &headers, &sent.body);

            assert_is(&answer.unwrap(), &case["expect_response"], &case["name"]);
            if let Some(secret) = case["store_secret"].as_str() {
                let path = format!("/v1/sources/{source}");
                assert_eq!(node.client.secret(&path), secret, "{}: it is kept", case["name"]);
            }
        }
        let events = node.client.call("GET /v1/events", &Value::Null);
        assert_eq!(events["data"], json!([]), "none is an event");
    })
    .await;
}
