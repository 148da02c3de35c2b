use proptest::prelude::*;

use super::*;
use crate::{Verdict, sign_sha256_hex, sign_standard, sign_t_v1};

const NOW: i64 = 1_700_000_000;
const BODY: &[u8] = b"{\"a\": 1.0,  \"b\":\"x\"}";
const RIGHT: &str = "v1,uF/CWGM5/DW0VURRoFfkAJdA6acPFtnlq2msELhO6/g=";

fn secret() -> Secret {
    Secret::parse("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX").unwrap()
}

fn standard(id: &str, timestamp: &str, signature: &str) -> Verdict {
    let headers = [
        ("Webhook-Id", id.as_bytes()),
        ("WEBHOOK-TIMESTAMP", timestamp.as_bytes()),
        ("webhook-signature", signature.as_bytes()),
    ];
    let request = Received::new(&headers, BODY);
    (&verify_standard(&request, "webhook", &[secret()], Clock::at(NOW))).into()
}

#[test]
fn a_right_signature_is_found_wherever_it_stands() {
    for signature in [
        RIGHT.to_owned(),
        format!("v1,AAAA {RIGHT}"),
        format!("{RIGHT} v1,AAAA"),
        format!("v2,zz v1a,AAAA  {RIGHT}"),
    ] {
        assert_eq!(standard("msg_p001", "1700000000", &signature), Verdict::Ok, "{signature}");
    }
    let text_as_key = "v1,SRPSn9FRPzZRVRIfhNl1XvZ32J70FKNfeyEACxnMU58=";
    assert_eq!(standard("msg_p001", "1700000000", text_as_key), Verdict::BadSignature);
}

/// Each is signed over that very text, so that only the reading of the time can refuse it.
#[test]
fn a_time_is_plain_digits_or_nothing() {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &(0..24).collect::<Vec<u8>>());
    for text in [
        "abc",
        "",
        "1700000000.5",
        "1e9",
        "+1700000000",
        " 1700000000",
        "01700000000",
        "-1",
        "１７００００００００",
        "99999999999999999999999",
        "0",
    ] {
        let value = tag(&key, &[format!("msg_p001.{text}.").as_bytes(), BODY]);
        let signature = format!("v1,{}", BASE64_STANDARD.encode(value));
        assert_eq!(standard("msg_p001", text, &signature), Verdict::Malformed, "{text:?}");
    }
}

#[test]
fn age_is_judged_after_the_signature_and_to_the_second() {
    for (age, expected) in [
        (300, Verdict::Ok),
        (301, Verdict::Stale),
        (-300, Verdict::Ok),
        (-301, Verdict::Stale),
        (-1_698_300_000_000, Verdict::Stale),
    ] {
        let sent = NOW - age;
        let signature = sign_standard("a", sent, BODY, [&secret()]).unwrap();
        assert_eq!(standard("a", &sent.to_string(), &signature), expected, "{age}");
    }
    assert_eq!(standard("msg_p001", "1600000000", RIGHT), Verdict::BadSignature, "forged and old");
}

#[test]
fn a_header_that_is_given_twice_is_refused_in_either_order() {
    let good = [
        ("webhook-id", &b"msg_p001"[..]),
        ("webhook-timestamp", b"1700000000"),
        ("webhook-signature", RIGHT.as_bytes()),
    ];
    for (name, value) in [
        ("webhook-id", &b"msg_p002"[..]),
        ("Webhook-Timestamp", b"1700000001"),
        ("webhook-signature", b"v1,AAAA"),
    ] {
        for position in [0, good.len()] {
            let mut headers = good.to_vec();
            headers.insert(position, (name, value));
            let request = Received::new(&headers, BODY);
            let result = verify_standard(&request, "webhook", &[secret()], Clock::at(NOW));
            let refusal = result.unwrap_err().to_string();
            assert!(refusal.contains("more than once"), "{name}: {refusal}");
        }
    }
}

#[test]
fn a_private_key_verifies_by_its_public_half() {
    let private = Secret::new_ed25519(&[3; 32]);
    let public = Secret::parse(&private.public_text().unwrap()).unwrap();
    let signature = sign_standard("a", NOW, BODY, [&private]).unwrap();
    let time = NOW.to_string();
    let headers = [
        ("webhook-id", &b"a"[..]),
        ("webhook-timestamp", time.as_bytes()),
        ("webhook-signature", signature.as_bytes()),
    ];
    let request = Received::new(&headers, BODY);

    let secrets = [secret(), public, private];
    let result = verify_standard(&request, "webhook", &secrets, Clock::at(NOW));

    assert_eq!(result, Ok(Genuine { secret: 1 }));
}

#[test]
fn hexadecimal_schemes_verify_what_they_sign() {
    let secrets = [Secret::new_hmac(&[1; 32]), secret()];
    let keys: Vec<&[u8]> = secrets.iter().map(|secret| secret.text().as_bytes()).collect();
    let t_v1 = sign_t_v1(NOW, BODY, [&secrets[1]]).unwrap();
    let sha256 = sign_sha256_hex(BODY, [&secrets[1]]).unwrap();
    let headers = [("X-Sig", t_v1.as_bytes()), ("X-Hub-Signature-256", sha256.as_bytes())];
    let request = Received::new(&headers, BODY);

    let second = Ok(Genuine { secret: 1 });
    assert_eq!(verify_t_v1(&request, "x-sig", &keys, Clock::at(NOW)), second);
    assert_eq!(verify_sha256_hex(&request, "x-hub-signature-256", &keys), second);
    let late = verify_t_v1(&request, "x-sig", &keys, Clock::at(NOW + 301));
    assert_eq!(Verdict::from(&late), Verdict::Stale);
}

/// Digests that were computed elsewhere, over bodies that others have tripped over.
#[test]
fn bytes_are_hashed_as_they_are() {
    for (body, digest, why) in [
        (
            &br#"{"m":"\u001B[0m"}"#[..],
            "a34a18591aaad8351e14aec65fe8d0964f6ae34e03148f113daf7c7946029456",
            "an escape in upper case",
        ),
        (
            b"\xff\xfe\x00",
            "961cc02eccbce40be24640454377b69b16925bf3de1e48a252c7547e971c6fc4",
            "no text at all",
        ),
        (
            br#"{"d":"a\u0000b"}"#,
            "bb6cca97b073df81c35443a376a34d54bf756efd9f66460292dd99888b7a5d9c",
            "an escaped zero",
        ),
        (
            b"\xef\xbb\xbf{\"a\":1}",
            "e139c05b7c8c9818de8e4dd60f57b5836e35e738e2fd13f1c4db8195aa4cb878",
            "a byte order mark in front",
        ),
    ] {
        let verify = |signature: String| {
            let headers = [("X-Hub-Signature-256", signature.as_bytes())];
            let request = Received::new(&headers, body);
            Verdict::from(&verify_sha256_hex(&request, "x-hub-signature-256", &[b"gh-secret-1"]))
        };
        assert_eq!(verify(format!("sha256={digest}")), Verdict::Ok, "{why}");
        for wrong in
            ["\u{e9}".to_owned(), digest[1..].to_owned(), format!("{digest}0"), "g".repeat(64)]
        {
            assert_ne!(verify(format!("sha256={wrong}")), Verdict::Ok, "{why}: {wrong}");
        }
    }
}

#[test]
fn an_empty_key_verifies_nothing() {
    let digest = tag(&hmac::Key::new(hmac::HMAC_SHA256, b""), &[BODY]);
    let signature = format!("sha256={}", hex::encode(digest));
    let headers = [("x-sig", signature.as_bytes())];
    let result = verify_sha256_hex(&Received::new(&headers, BODY), "x-sig", &[b""]);
    assert_eq!(Verdict::from(&result), Verdict::BadSignature);
}

#[test]
fn more_signatures_than_any_sender_has_are_refused_unread() {
    let many = vec!["v1,AAAA"; 33].join(" ");
    assert_eq!(standard("a", "1700000000", &many), Verdict::Malformed);
    let hex = format!("t=1{}", ",v1=00".repeat(33));
    let headers = [("x", hex.as_bytes())];
    let result = verify_t_v1(&Received::new(&headers, BODY), "x", &[b"k"], Clock::at(NOW));
    assert_eq!(Verdict::from(&result), Verdict::Malformed);
}

proptest! {
    /// Whatever bytes come in, there is a verdict, and it is not `ok`.
    #[test]
    fn no_header_panics_and_none_is_genuine_by_chance(
        id in any::<Vec<u8>>(),
        time in prop_oneof![any::<Vec<u8>>(), Just(b"1700000000".to_vec())],
        signature in prop_oneof![
            any::<Vec<u8>>(),
            "(v1|v1a|v9),[A-Za-z0-9+/=]{0,90}( v1,.{0,50})?".prop_map(String::into_bytes),
            "(t=[0-9]{0,12},)?v1=[0-9a-f]{0,70}(,v1=.{0,9})?".prop_map(String::into_bytes),
            "sha256=[0-9a-fA-F]{0,70}".prop_map(String::into_bytes),
        ],
        body in any::<Vec<u8>>(),
    ) {
        let headers = [
            ("webhook-id", &*id), ("webhook-timestamp", &*time), ("webhook-signature", &*signature),
        ];
        let request = Received::new(&headers, &body);
        let secrets = [secret(), Secret::new_ed25519(&[3; 32])];
        let clock = Clock::at(NOW);
        prop_assert!(verify_standard(&request, "webhook", &secrets, clock).is_err());
        prop_assert!(verify_t_v1(&request, "webhook-signature", &[b"k"], clock).is_err());
        prop_assert!(verify_sha256_hex(&request, "webhook-signature", &[b"k"]).is_err());
    }

    /// One flipped bit anywhere in the body is seen.
    #[test]
    fn every_bit_of_the_body_counts(body in proptest::collection::vec(any::<u8>(), 1..64), bit: usize) {
        let secret = secret();
        let signature = sign_standard("a", NOW, &body, [&secret]).unwrap();
        let time = NOW.to_string();
        let headers = [
            ("webhook-id", &b"a"[..]),
            ("webhook-timestamp", time.as_bytes()),
            ("webhook-signature", signature.as_bytes()),
        ];
        let verify = |body: &[u8]| {
            let request = Received::new(&headers, body);
            verify_standard(&request, "webhook", std::slice::from_ref(&secret), Clock::at(NOW))
        };
        prop_assert!(verify(&body).is_ok());
        let mut other = body.clone();
        let bit = bit % (8 * body.len());
        other[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Verdict::from(&verify(&other)), Verdict::BadSignature);
    }
}
