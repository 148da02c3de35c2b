use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;
use snaphook_signature::{Clock, Received, verify_sha256_hex, verify_standard, verify_t_v1};

use super::*;
use crate::domain::{
    id::{EventId, id_at},
    own_headers::OwnHeaders,
};

mod inbound;

const NOW: Timestamp = Timestamp::from_seconds(1_796_042_096);

fn secret(seed: u8, age: u64, expires_at: Option<Timestamp>) -> EndpointSecret {
    let made_at = NOW - Duration::from_secs(age);
    EndpointSecret {
        id: SecretId(id_at(made_at, seed.into())),
        secret: Secret::new_hmac(&[seed; 32]),
        expires_at,
    }
}

fn settings(fields: &serde_json::Value) -> EndpointSettings {
    let url = "https://example.com/in".to_owned();
    let mut settings = EndpointSettings { url, ..EndpointSettings::default() };
    assert_eq!(settings.apply(fields.as_object().unwrap()), []);
    assert_eq!(settings.validate(), []);
    settings
}

fn ready(fields: &serde_json::Value, secrets: Vec<EndpointSecret>) -> ReadyEndpoint {
    ReadyEndpoint::new(&settings(fields), secrets, Duration::from_secs(15)).unwrap()
}

fn parcel<'a>(endpoint: &'a ReadyEndpoint, payload: &'a Bytes) -> Parcel<'a> {
    Parcel {
        event: EventView {
            id: EventId(id_at(NOW, 1)),
            tenant: "acme",
            event_type: "order.paid",
            version: None,
            occurred_at: None,
            payload,
            content_type: None,
        },
        traceparent: None,
        endpoint,
        base_url: "https://hooks.example.com",
        inbound: None,
    }
}

fn text<'a>(request: &'a Request, name: &str) -> &'a str {
    request.headers.get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
}

/// Gives the request to a verifier as a receiver would have it.
fn received<T>(request: &Request, verify: impl FnOnce(&Received<'_>) -> T) -> T {
    let headers: Vec<(&str, &[u8])> =
        request.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    verify(&Received::new(&headers, &request.body))
}

fn verifies(request: &Request, secret: &EndpointSecret, now: Timestamp) -> bool {
    let clock = Clock { now: now.seconds(), tolerance: Duration::ZERO };
    let secrets = [secret.secret.clone()];
    received(request, |received| verify_standard(received, "webhook", &secrets, clock)).is_ok()
}

#[test]
fn a_request_has_what_the_contract_promises() {
    let fields = json!({"headers": {"X-Token": "t"}, "timeout": "20s", "reach": "internal"});
    let endpoint = ready(&fields, vec![secret(1, 0, None)]);
    let payload = Bytes::from_static(b"{\"a\": 1}");
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let parcel = Parcel { traceparent: Some(traceparent), ..parcel(&endpoint, &payload) };

    let request = prepare(&parcel, NOW).unwrap();

    let id = parcel.event.id.to_string();
    for (name, expected) in [
        ("webhook-id", id.as_str()),
        ("webhook-timestamp", "1796042096"),
        ("content-type", "application/json"),
        ("user-agent", concat!("snaphook/", env!("CARGO_PKG_VERSION"))),
        ("x-token", "t"),
        ("traceparent", traceparent),
    ] {
        assert_eq!(text(&request, name), expected, "{name}");
    }
    assert!(verifies(&request, &endpoint.secrets[0], NOW));
    assert_eq!((request.timeout.as_secs(), request.internal), (20, true));
    assert_eq!(request.headers.len(), 7, "and nothing else");
}

#[test]
fn debug_shows_neither_header_values_nor_secrets() {
    let fields = json!({"headers": {"X-Token": "s3cret"}});
    let endpoint = ready(&fields, vec![secret(1, 0, None)]);
    let payload = Bytes::from_static(b"{}");

    let request = prepare(&parcel(&endpoint, &payload), NOW).unwrap();

    let shown = format!("{endpoint:?} {request:?}");
    assert!(!shown.contains("s3cret") && !shown.contains("whsec_"), "{shown}");
    assert_eq!(text(&request, "x-token"), "s3cret");
}

#[test]
fn later_attempts_have_the_same_id_and_body_and_a_fresh_signature() {
    let endpoint = ready(&json!({}), vec![secret(1, 0, None)]);
    let payload = Bytes::from_static(b"{}");
    let parcel = parcel(&endpoint, &payload);
    let later = NOW + Duration::from_hours(28);

    let (first, second) = (prepare(&parcel, NOW).unwrap(), prepare(&parcel, later).unwrap());

    assert_eq!(first.body, second.body);
    assert_eq!(text(&first, "webhook-id"), text(&second, "webhook-id"));
    assert_ne!(text(&first, "webhook-signature"), text(&second, "webhook-signature"));
    assert!(verifies(&second, &endpoint.secrets[0], later));
}

#[test]
fn during_a_rotation_both_secrets_sign_and_the_newest_comes_first() {
    let end = NOW + Duration::from_hours(24);
    let (old, new) = (secret(1, 3600, Some(end)), secret(2, 60, None));
    let endpoint = ready(&json!({}), vec![old.clone(), new.clone()]);
    let payload = Bytes::from_static(b"{}");
    let parcel = parcel(&endpoint, &payload);

    let during = prepare(&parcel, NOW).unwrap();
    let after = prepare(&parcel, end).unwrap();

    let entries: Vec<_> = text(&during, "webhook-signature").split(' ').collect();
    let id = parcel.event.id.to_string();
    let first = sign_standard(&id, NOW.seconds(), &during.body, [&new.secret]).unwrap();
    assert_eq!((entries.len(), entries[0]), (2, first.as_str()));
    assert!(verifies(&during, &old, NOW) && verifies(&during, &new, NOW));
    assert!(!verifies(&after, &old, end) && verifies(&after, &new, end));
}

#[test]
fn profiles_go_besides_or_instead_of_the_standard_one() {
    let mut secrets = vec![secret(1, 0, None)];
    secrets.push(EndpointSecret {
        id: SecretId(1),
        secret: Secret::new_ed25519(&[9; 32]),
        expires_at: None,
    });
    let fields = json!({
        "signature": ["standard", "t-v1", {"profile": "sha256-hex", "header": "X-My-Sig"}]
    });
    let endpoint = ready(&fields, secrets.clone());
    let payload = Bytes::from_static(b"{}");

    let request = prepare(&parcel(&endpoint, &payload), NOW).unwrap();

    let key = secrets[0].secret.text().as_bytes();
    let clock = Clock::at(NOW.seconds());
    received(&request, |received| {
        verify_t_v1(received, "X-Webhook-Signature", &[key], clock).unwrap();
        verify_sha256_hex(received, "X-My-Sig", &[key]).unwrap();
        let public = Secret::parse(&secrets[1].secret.public_text().unwrap()).unwrap();
        verify_standard(received, "webhook", &[public], clock).unwrap();
    });
    assert_eq!(text(&request, "x-webhook-id"), text(&request, "webhook-id"));

    let alone = ready(&json!({"signature": "sha256-hex"}), secrets);
    let request = prepare(&parcel(&alone, &payload), NOW).unwrap();
    assert!(!request.headers.contains_key("webhook-signature"));
    assert!(request.headers.contains_key("webhook-id"), "dedup needs it in any case");
}

#[test]
fn without_a_live_secret_nothing_is_sent() {
    let payload = Bytes::from_static(b"{}");
    for (fields, secrets, expected) in [
        (json!({}), vec![], "no secret to sign with"),
        (json!({}), vec![secret(1, 60, Some(NOW))], "no secret to sign with"),
        (
            json!({"signature": "t-v1"}),
            vec![EndpointSecret {
                id: SecretId(1),
                secret: Secret::new_ed25519(&[9; 32]),
                expires_at: None,
            }],
            "t-v1 signs with HMAC only",
        ),
    ] {
        let endpoint = ready(&fields, secrets);
        let error = prepare(&parcel(&endpoint, &payload), NOW).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Rows that the door never saw.
#[test]
fn a_stored_header_that_cannot_be_sent_is_an_error_and_shows_no_value() {
    for (name, value) in [
        ("X-Token", "s3cret\r\nX-Injected: 1"),
        ("X-Token", "s3cret\n"),
        ("X To", "s3cret"),
        ("Host", "s3cret"),
        ("webhook-id", "s3cret"),
        ("Content-Length", "0"),
    ] {
        let mut settings = settings(&json!({}));
        let headers = [(name.to_owned(), value.to_owned())];
        settings.headers = headers.into_iter().collect::<OwnHeaders>();
        let result = ReadyEndpoint::new(&settings, vec![], Duration::from_secs(15));
        let error = result.unwrap_err().to_string();
        assert!(error.contains(name) && !error.contains("s3cret"), "{error}");
    }
}

#[test]
fn a_content_type_or_version_of_the_emitter_cannot_add_headers() {
    let fields = json!({"format": "cloudevents-binary"});
    let endpoint = ready(&fields, vec![secret(1, 0, None)]);
    let payload = Bytes::from_static(b"{}");
    let mut parcel = parcel(&endpoint, &payload);

    parcel.event.version = Some("1\r\nX-Injected: 1");
    let request = prepare(&parcel, NOW).unwrap();
    assert_eq!(text(&request, "ce-version"), "1%0D%0AX-Injected:%201");

    parcel.event.content_type = Some("text/plain\r\nX-Injected: 1");
    let error = prepare(&parcel, NOW).unwrap_err();
    assert!(matches!(error, PrepareError::Header { name, .. } if name == "content-type"));
}

#[test]
fn only_a_well_formed_traceparent_is_passed_on() {
    let trace = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";
    for (text, expected) in [
        (format!("00-{trace}-01"), true),
        (format!("01-{trace}-01-more"), true),
        (format!("00-{trace}-01-more"), false),
        (format!("ff-{trace}-01"), false),
        (format!("00-{}-01", trace.to_uppercase()), false),
        (format!("00-{trace}-1"), false),
        (format!("01-{trace}-01-a\r\nx: y"), false),
        (String::new(), false),
    ] {
        assert_eq!(is_traceparent(&text), expected, "{text}");
    }
}

proptest! {
    /// Any payload, in any format: what is sent verifies, and no field of an event can break out.
    #[test]
    fn every_request_verifies(
        payload in any::<Vec<u8>>(),
        version in proptest::option::of(any::<String>()),
        traceparent in proptest::option::of(any::<String>()),
        format in 0..6_usize,
    ) {
        let names =
            ["event", "thin", "standard", "cloudevents", "cloudevents-binary", "raw"];
        let endpoint = ready(&json!({"format": names[format]}), vec![secret(1, 0, None)]);
        let payload = Bytes::from(payload);
        let mut parcel = parcel(&endpoint, &payload);
        parcel.event.version = version.as_deref();
        parcel.traceparent = traceparent.as_deref();

        let request = prepare(&parcel, NOW).unwrap();

        prop_assert!(verifies(&request, &endpoint.secrets[0], NOW));
    }
}
