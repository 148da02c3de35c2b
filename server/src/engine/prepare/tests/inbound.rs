//! What a source took.

use snaphook_signature::Scheme as Provider;

use super::*;
use crate::domain::forwarded::ForwardedHeaders;

/// As a request of `scheme` came in an hour ago, with what forwarding adds to it.
fn signed(scheme: &str, key: &str, body: &'static [u8]) -> (Verifier, ForwardedHeaders) {
    let signer = Verifier::new(Provider::named(scheme).unwrap(), &[key], None).unwrap();
    let request = Received::new(&[], body).with_url("https://hooks.example.com/in/src_1");
    let came = NOW.seconds() - 3_600;
    let outgoing = signer.sign(&request, "id-1", came).unwrap();
    let own = [("Content-Type".to_owned(), "application/json; charset=utf-8".to_owned())];
    let sent = outgoing.headers.into_iter().chain(own);
    let headers: Vec<(String, Vec<u8>)> =
        sent.map(|(name, value)| (name, value.into_bytes())).collect();
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
    (signer, ForwardedHeaders::of(headers))
}

fn prepared(
    fields: &serde_json::Value,
    body: &'static [u8],
    headers: &ForwardedHeaders,
    signer: Option<&Verifier>,
) -> (ReadyEndpoint, Request) {
    let endpoint = ready(fields, vec![secret(1, 0, None)]);
    let payload = Bytes::from_static(body);
    let inbound = Some(PassedOn { headers, key: "id-1", signer });
    let request = prepare(&Parcel { inbound, ..parcel(&endpoint, &payload) }, NOW).unwrap();
    (endpoint, request)
}

#[test]
fn it_goes_on_as_it_came_with_our_signature_beside_it() {
    let given: [(&str, &[u8]); 6] = [
        ("User-Agent", b"Provider/1"),
        ("X-Twice", b"1"),
        ("Content-Type", b"text/odd"),
        ("x-twice", b"\xff2"),
        ("webhook-id", b"msg_1"),
        ("X-Signature", b"abc"),
    ];
    let headers = ForwardedHeaders::of(given.into_iter());
    for format in ["event", "thin", "raw", "cloudevents-binary"] {
        let fields = json!({"format": format, "signature": ["standard", "sha256-hex"]});
        let (endpoint, request) = prepared(&fields, b"raw \xff bytes", &headers, None);

        assert_eq!(request.body, b"raw \xff bytes"[..]);
        for (name, value) in [
            ("user-agent", "Provider/1"),
            ("content-type", "text/odd"),
            ("webhook-id", "msg_1"),
            ("x-signature", "abc"),
        ] {
            assert_eq!(text(&request, name), value);
        }
        let twice: Vec<&[u8]> =
            request.headers.get_all("x-twice").iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(twice, [&b"1"[..], b"\xff2"]);
        let clock = Clock { now: NOW.seconds(), tolerance: Duration::ZERO };
        let secrets = [endpoint.secrets[0].secret.clone()];
        let verify = |request: &Received<'_>| {
            verify_standard(request, "snaphook", &secrets, clock).map(drop)
        };
        assert_eq!(received(&request, verify), Ok(()));
        assert_eq!(request.headers.len(), 9, "and nothing else: {:?}", request.headers);
    }
}

#[test]
fn the_owners_headers_win_and_ours_cannot_be_taken() {
    let given: [(&str, &[u8]); 3] =
        [("authorization", b"of the provider"), ("X-A", b"1"), ("x-a", b"2")];
    let headers = ForwardedHeaders::of(given.into_iter());
    let fields = json!({"headers": {"Authorization": "Bearer t", "X-A": "own"}});
    let (_, request) = prepared(&fields, b"", &headers, None);
    assert_eq!(text(&request, "authorization"), "Bearer t");
    assert_eq!(request.headers.get_all("x-a").iter().count(), 1);
    assert_eq!(text(&request, "user-agent"), USER_AGENT, "where the provider names none");
}

#[test]
fn an_old_signature_is_made_anew_where_that_is_asked_for_and_can_be_done() {
    for scheme in ["stripe", "slack", "standardwebhooks", "github", "shopify"] {
        let key = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
        let body = br#"{"id": "id-1", "type": "a.b", "token": "x"}"#;
        let (signer, headers) = signed(scheme, key, body);
        let verdict = |fields: &serde_json::Value, with: Option<&Verifier>| {
            let (_, request) = prepared(fields, body, &headers, with);
            assert_eq!(request.body, body[..], "{scheme}");
            received(&request, |request| signer.verify(request, NOW.seconds()).is_ok())
        };
        let ages = ["stripe", "slack", "standardwebhooks"].contains(&scheme);
        assert_eq!(verdict(&json!({}), Some(&signer)), !ages, "{scheme}: as it came");
        let anew = json!({"signature": "source"});
        assert!(verdict(&anew, Some(&signer)), "{scheme}: made anew");
        assert_eq!(verdict(&anew, None), !ages, "{scheme}: no secret to sign with");
    }
}

#[test]
fn what_is_in_the_body_or_covers_the_url_is_made_anew_too() {
    let (body, mut tried) = (br#"{"event": "a", "timestamp": 1}"#, 0);
    for scheme in Provider::names() {
        let keys = [
            "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
            "0123456789abcdef0123456789abcdef",
            "user:pass",
        ];
        let provider = Provider::named(scheme).unwrap();
        let made =
            keys.iter().find_map(|key| Verifier::new(provider.clone(), &[key], Some("1")).ok());
        let Some(signer) = made else { continue };
        let headers =
            ForwardedHeaders::of([("content-type", &b"application/json"[..])].into_iter());
        let endpoint = ready(&json!({"signature": "source"}), vec![secret(1, 0, None)]);
        let payload = Bytes::from_static(body);
        let unsigned = Received::new(&[], body).with_url(endpoint.url());
        if signer.sign(&unsigned, "id-1", NOW.seconds()).is_err() {
            continue;
        }
        let inbound = Some(PassedOn { headers: &headers, key: "id-1", signer: Some(&signer) });
        let request = prepare(&Parcel { inbound, ..parcel(&endpoint, &payload) }, NOW).unwrap();
        let pairs: Vec<(&str, &[u8])> =
            request.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        let seen = Received::new(&pairs, &request.body).with_url(&request.url);
        let verdict = signer.verify(&seen, NOW.seconds());
        assert!(verdict.is_ok(), "{scheme}: {verdict:?}");
        tried += 1;
    }
    assert!(tried > 60, "of all providers, {tried} were tried");
}

#[test]
fn what_no_source_took_is_signed_by_the_standard_although_source_is_asked_for() {
    for signature in [json!("source"), json!(["source", "t-v1"])] {
        let endpoint = ready(&json!({ "signature": signature }), vec![secret(1, 0, None)]);
        let request = prepare(&parcel(&endpoint, &Bytes::from_static(b"{}")), NOW).unwrap();
        let standard = verifies(&request, &endpoint.secrets[0], NOW);
        assert_eq!(standard, signature.is_string(), "{signature}");
        assert_eq!(request.headers.contains_key("x-webhook-signature"), !standard);
    }
}
