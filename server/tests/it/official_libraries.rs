//! Receivers verify with libraries that are not ours. Each profile, each attempt and each moment
//! of a rotation must pass them.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use snaphook::{
    domain::{
        endpoint::EndpointSettings,
        format::EventView,
        id::{EventId, SecretId, id_at},
        time::Timestamp,
    },
    engine::prepare::{EndpointSecret, Parcel, ReadyEndpoint, prepare},
};
use snaphook_signature::{Received, Scheme, Secret, Verifier};

use crate::support::oracle::{Library, Question, Recorded, assert_accepted, judge};

const NOW: Timestamp = Timestamp::from_seconds(1_796_042_096);
const PAYLOAD: &str = r#"{"order_id": 42, "amount": 4999.0, "note": "späti ☕ \u001B[0m"}"#;

/// A secret of the kind that `seed` says, newer ones with higher ids.
fn secret(age_rank: i64, secret: Secret, expires_at: Option<Timestamp>) -> EndpointSecret {
    EndpointSecret { id: SecretId(1_000 - age_rank), secret, expires_at }
}

fn hmac(seed: u8) -> Secret {
    Secret::new_hmac(&[seed; 32])
}

/// What a receiver gets from an endpoint with these settings and secrets at `now`.
fn sent(fields: &Value, secrets: Vec<EndpointSecret>, now: Timestamp) -> Recorded {
    let url = "https://example.com/in".to_owned();
    let mut settings = EndpointSettings { url, ..EndpointSettings::default() };
    assert_eq!(settings.apply(fields.as_object().unwrap()), []);
    assert_eq!(settings.validate(), []);
    let endpoint = ReadyEndpoint::new(&settings, secrets, Duration::from_secs(15)).unwrap();
    let payload = Bytes::from_static(PAYLOAD.as_bytes());
    let parcel = Parcel {
        event: EventView {
            id: EventId(id_at(NOW, 1)),
            tenant: "acme",
            event_type: "order.paid",
            version: Some("2024-01"),
            occurred_at: None,
            payload: &payload,
            content_type: None,
        },
        traceparent: None,
        endpoint: &endpoint,
        base_url: "https://hooks.example.com",
        inbound: None,
    };
    let request = prepare(&parcel, now).unwrap();
    let headers = request.headers.iter();
    let headers = headers
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    Recorded { headers, body: request.body.to_vec() }
}

fn question(request: &Recorded, library: Library, secret: &str, now: Timestamp) -> Question {
    let (request, secret) = (request.clone(), secret.to_owned());
    Question { request, library, secret, now: now.seconds() }
}

fn assert_refused(questions: &[Question], why: &str) {
    for judgment in judge(questions).into_iter().flatten() {
        assert!(!judgment.accepted, "{judgment:?}: {why}");
    }
}

#[test]
fn every_attempt_verifies_in_every_format_and_by_its_own_time_only() {
    let later = NOW + Duration::from_hours(28);
    let (mut first, mut second, mut out_of_time) = (vec![], vec![], vec![]);
    for format in ["event", "thin", "standard", "cloudevents", "cloudevents-binary", "raw"] {
        let at = |now| sent(&json!({ "format": format }), vec![secret(0, hmac(1), None)], now);
        let ask = |request: &Recorded, now| {
            question(request, Library::StandardWebhooks, hmac(1).text(), now)
        };
        first.push(ask(&at(NOW), NOW));
        second.push(ask(&at(later), later));
        out_of_time.push(ask(&at(later), NOW));
    }

    assert_accepted(&[first, second].concat());
    assert_refused(&out_of_time, "no eye on the time");
}

#[test]
fn during_a_rotation_receivers_with_either_secret_accept() {
    let end = NOW + Duration::from_hours(24);
    let secrets = vec![secret(1, hmac(1), Some(end)), secret(0, hmac(2), None)];
    let fields = json!({
        "signature": ["standard", {"profile": "t-v1", "header": "Stripe-Signature"}]
    });
    let during = sent(&fields, secrets.clone(), NOW);
    let after = sent(&fields, secrets, end);
    let ask = |request, known: &Secret, now| {
        [Library::StandardWebhooks, Library::Stripe]
            .map(|library| question(request, library, known.text(), now))
    };

    let good =
        [ask(&during, &hmac(1), NOW), ask(&during, &hmac(2), NOW), ask(&after, &hmac(2), end)];
    assert_accepted(&good.concat());
    assert_refused(&ask(&after, &hmac(1), end), "the old secret has ended");
}

#[test]
fn ed25519_and_the_other_profiles_verify_beside_the_standard_one() {
    let pair = Secret::new_ed25519(&[7; 32]);
    let secrets = vec![secret(1, hmac(1), None), secret(0, pair.clone(), None)];
    let fields = json!({"signature": [
        "standard", {"profile": "t-v1", "header": "Stripe-Signature"}, "sha256-hex"
    ]});
    let mut request = sent(&fields, secrets, NOW);
    let ask = |request: &Recorded| {
        [
            question(request, Library::StandardWebhooks, hmac(1).text(), NOW),
            question(request, Library::Stripe, hmac(1).text(), NOW),
            question(request, Library::GitHub, hmac(1).text(), NOW),
            question(request, Library::Ed25519, &pair.public_text().unwrap(), NOW),
        ]
    };

    assert_accepted(&ask(&request));

    // The judges must be able to say no.
    *request.body.last_mut().unwrap() = b' ';
    assert_refused(&ask(&request), "the body was changed");
}

#[test]
fn a_profile_can_stand_alone() {
    for (fields, library) in [
        (json!({"signature": {"profile": "t-v1", "header": "Stripe-Signature"}}), Library::Stripe),
        (json!({"signature": "sha256-hex"}), Library::GitHub),
    ] {
        let request = sent(&fields, vec![secret(0, hmac(1), None)], NOW);
        assert_accepted(&[question(&request, library, hmac(1).text(), NOW)]);
    }
}

/// What a provider's scheme signs is what the provider's own library accepts.
#[test]
fn what_the_schemes_sign_passes_the_senders_own_libraries() {
    let pair = Secret::new_ed25519(&[7; 32]);
    let public = pair.public_text().unwrap();
    let hmac = hmac(1);
    let mut good = Vec::new();
    for (scheme, secret, known, library) in [
        ("standardwebhooks", hmac.text(), hmac.text(), Library::StandardWebhooks),
        ("standardwebhooks_v1a", pair.text(), &*public, Library::Ed25519),
        ("svix", hmac.text(), hmac.text(), Library::Svix),
        ("stripe", hmac.text(), hmac.text(), Library::Stripe),
        ("github", "It's a secret", "It's a secret", Library::GitHub),
        ("slack", "8f742231b10e8888", "8f742231b10e8888", Library::Slack),
    ] {
        let verifier = Verifier::new(Scheme::named(scheme).unwrap(), &[secret], None).unwrap();
        let request = Received::new(&[], PAYLOAD.as_bytes());
        let signed = verifier.sign(&request, "msg_1", NOW.seconds()).unwrap();
        let request = Recorded { headers: signed.headers, body: PAYLOAD.into() };
        good.push(question(&request, library, known, NOW));
    }

    assert_accepted(&good);

    for question in &mut good {
        question.request.body[0] = b'[';
    }
    assert_refused(&good, "the body was changed");
}
