//! Faults that others' verifiers had, with the very inputs that showed them. `tests/field-cases.md`
//! has the list.

use aws_lc_rs::{
    encoding::{AsDer as _, PublicKeyX509Der},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use snaphook_signature::{Received, Scheme, Step, Verdict, Verifier};

const NOW: i64 = 1_700_000_000;

fn judged(
    scheme: &str,
    secret: &str,
    headers: &[(&str, &[u8])],
    body: &[u8],
    url: &str,
) -> Verdict {
    let scheme = Scheme::named(scheme).expect("a scheme");
    let verifier = Verifier::new(scheme, &[secret], None).expect("a secret");
    Verdict::from(&verifier.verify(&Received::new(headers, body).with_url(url), NOW))
}

#[test]
fn github_signs_the_bytes_whatever_they_are() {
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
        let verdict = |value: &[u8], body: &[u8]| {
            judged("github", "gh-secret-1", &[("x-hub-signature-256", value)], body, "")
        };
        let right = format!("sha256={digest}");
        assert_eq!(verdict(right.as_bytes(), body), Verdict::Ok, "{why}");
        assert_eq!(verdict(right.as_bytes(), &body[1..]), Verdict::BadSignature, "{why}");
        for wrong in
            [&b"sha256=\xc3\xa9"[..], &right.as_bytes()[..70], format!("{right}0").as_bytes()]
        {
            assert_ne!(verdict(wrong, body), Verdict::Ok, "{why}");
        }
        let upper = format!("sha256={}", digest.to_uppercase());
        assert_eq!(verdict(upper.as_bytes(), body), Verdict::BadSignature, "one spelling: {why}");
    }
}

#[test]
fn standard_webhooks_and_stripe_do_not_share_a_key() {
    let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
    let verdict = |signature: &str, body: &[u8]| {
        let headers = [
            ("webhook-id", &b"msg_p001"[..]),
            ("webhook-timestamp", b"1700000000"),
            ("webhook-signature", signature.as_bytes()),
        ];
        judged("standardwebhooks", secret, &headers, body, "")
    };
    let body = br#"{"a": 1.0,  "b":"x"}"#;
    let by_bytes = "v1,uF/CWGM5/DW0VURRoFfkAJdA6acPFtnlq2msELhO6/g=";
    let by_text = "v1,SRPSn9FRPzZRVRIfhNl1XvZ32J70FKNfeyEACxnMU58=";
    assert_eq!(verdict(by_bytes, body), Verdict::Ok);
    assert_eq!(verdict(by_text, body), Verdict::BadSignature);
    let empty = "v1,66IolnAb9z3gvyhTfUsqY0AzTSucUaYdzGRMNf9QxiE=";
    assert_eq!(verdict(empty, b""), Verdict::Ok, "an empty body is authentic");

    let stripe = Verifier::new(Scheme::named("stripe").unwrap(), &[secret], None).unwrap();
    let signed = stripe.sign(&Received::new(&[], body), "", NOW).unwrap();
    let (time, signature) = signed.headers[0].1.split_once(',').unwrap();
    for (header, expected, why) in [
        (format!("v0=ff,{time},{signature},v9=zz"), Verdict::Ok, "all parts, in any order"),
        (format!("{signature},{time}"), Verdict::Ok, "in another order"),
        (format!("{time},v0=ff"), Verdict::Malformed, "no part that counts"),
    ] {
        let headers = [("STRIPE-signature", header.as_bytes())];
        assert_eq!(judged("stripe", secret, &headers, body, ""), expected, "{why}");
    }
}

#[test]
fn sendgrid_signs_line_ends_too() {
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
    let der: PublicKeyX509Der<'_> = key.public_key().as_der().unwrap();
    let public = BASE64_STANDARD.encode(der.as_ref());
    let body = b"[{\"a\":1},\r\n{\"a\":2}]\r\n";
    let message = [b"1700000000", &body[..]].concat();
    let signature = BASE64_STANDARD.encode(key.sign(&SystemRandom::new(), &message).unwrap());
    let headers = [
        ("X-Twilio-Email-Event-Webhook-Signature", signature.as_bytes()),
        ("X-Twilio-Email-Event-Webhook-Timestamp", b"1700000000"),
    ];
    assert_eq!(judged("sendgrid", &public, &headers, body, ""), Verdict::Ok);
    let trimmed = &body[..body.len() - 2];
    assert_eq!(judged("sendgrid", &public, &headers, trimmed, ""), Verdict::BadSignature);
}

#[test]
fn a_url_is_taken_to_the_letter() {
    let form = b"From=%2B15550100&Digits=1";
    let twilio = [("x-twilio-signature", &b"K5YljDgXYmczpNgXmqdwBxF1DPQ="[..])];
    let square = |signature: &'static [u8]| [("x-square-hmacsha256-signature", signature)];
    let (plain, slash) = (
        square(b"zdxz67OLRt+NDJoVqkCAIwgDquZr6ynYkKah0VCkxOs="),
        square(b"XlzVe4dE/sEbPDtZcrdwksLp83VaK34Zs7xRygoJ59Q="),
    );
    for (scheme, secret, headers, body, url, expected) in [
        ("twilio", "tw-token", &twilio, &form[..], "https://h.example/x?b=1&a=x+y%27", Verdict::Ok),
        (
            "twilio",
            "tw-token",
            &twilio,
            form,
            "https://h.example/x?a=x+y%27&b=1",
            Verdict::BadSignature,
        ),
        ("square", "sq-key", &plain, b"{\"a\":1}", "https://h.example/hook", Verdict::Ok),
        ("square", "sq-key", &slash, b"{\"a\":1}", "https://h.example/hook/", Verdict::Ok),
        ("square", "sq-key", &slash, b"{\"a\":1}", "https://h.example/hook", Verdict::BadSignature),
    ] {
        assert_eq!(judged(scheme, secret, headers, body, url), expected, "{scheme} {url}");
    }
}

/// What is forged is refused as forged, however strange its body is.
#[test]
fn a_body_is_not_parsed_before_it_is_verified() {
    let deep = vec![b'['; 200_000];
    for body in [&deep[..], b"{\"a\":", b"\xff\xfe", b""] {
        let headers = [("x-hub-signature-256", &b"sha256=00"[..])];
        assert_eq!(judged("github", "s", &headers, body, ""), Verdict::BadSignature);
        let headers = [("linear-signature", &b"00"[..])];
        assert_eq!(judged("linear", "s", &headers, body, ""), Verdict::BadSignature);
    }
}

#[test]
fn a_header_that_is_there_twice_is_refused_in_either_order() {
    let good = [
        ("webhook-id", &b"msg_p001"[..]),
        ("webhook-timestamp", b"1700000000"),
        ("webhook-signature", b"v1,66IolnAb9z3gvyhTfUsqY0AzTSucUaYdzGRMNf9QxiE="),
    ];
    let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
    let scheme = Scheme::named("standardwebhooks").unwrap();
    let verifier = Verifier::new(scheme, &[secret], None).unwrap();
    for (second, step) in [
        (("webhook-id", &b"msg_p002"[..]), Step::Id),
        (("Webhook-Timestamp", b"1700000001"), Step::Timestamp),
        (("webhook-signature", b"v1,AAAA"), Step::Signature),
    ] {
        for position in [0, good.len()] {
            let mut headers = good.to_vec();
            headers.insert(position, second);
            let refusal = verifier.verify(&Received::new(&headers, b""), NOW).unwrap_err();
            assert_eq!(refusal.step(), step, "{refusal}");
        }
    }
}

/// What ends at the first difference.
const COMPARES: &[&str] = &[
    " == ",
    " != ",
    ".eq(",
    ".ne(",
    ".cmp(",
    ".starts_with(",
    ".ends_with(",
    ".contains(",
    ".strip_prefix(",
    ".strip_suffix(",
];

/// Without comments, and what is compared over two lines in one.
fn joined(code: &str) -> String {
    let mut joined = String::new();
    for line in code.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        let goes_on = COMPARES.iter().any(|sign| line.starts_with(sign.trim()));
        joined.push_str(if goes_on { " " } else { "\n" });
        joined.push_str(line);
    }
    joined
}

/// Whether a line compares, by whatever ends early, something that is called after what a secret
/// made. What is given as a text in the code itself is no secret, and no length is one.
fn compares_a_secret(line: &str) -> bool {
    const NAMES: &[&str] = &[
        "credential",
        "digest",
        "expected",
        "given",
        "hash",
        "hmac",
        "mac",
        "password",
        "secret",
        "signature",
        "tag",
        "verify_token",
    ];
    let code: String = line.split('"').step_by(2).collect();
    let mut words = code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let literal = [".starts_with(\"", ".strip_prefix(\""].iter().any(|call| line.contains(call));
    words.any(|word| NAMES.contains(&word))
        && COMPARES.iter().any(|sign| code.contains(sign))
        && !literal
        && !code.contains(".len()")
}

#[test]
fn a_comparison_that_ends_early_is_found_however_it_is_written() {
    for (code, expected, why) in [
        ("Self::Text(expected) => expected == given,", true, "an operator"),
        ("let genuine = tag.as_ref()\n    != self.signature;", true, "over two lines"),
        ("expected.as_bytes().eq(given.as_bytes())", true, "a method"),
        ("signatures.iter().any(|given| given.starts_with(&digits))", true, "a beginning"),
        ("known\n    .contains(&hash)", true, "a set"),
        ("same(expected.as_bytes(), given.as_bytes())", false, "the comparison"),
        ("// expected == given", false, "a comment"),
        ("if digest.len() != 32 {", false, "a length is no secret"),
        ("secret.starts_with(\"whsec_\")", false, "what everybody knows"),
        ("if name == other {", false, "no secret"),
    ] {
        assert_eq!(joined(code).lines().any(compares_a_secret), expected, "{code}: {why}");
    }
}

/// No `==` on anything that a secret made, and one place that compares: the crypto library's.
#[test]
fn there_is_one_comparison_and_it_is_the_librarys() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![folder];
    let (mut library, mut files) = (Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let is_code = path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("tests.rs");
            for line in joined(code).lines().filter(|_| is_code) {
                assert!(!compares_a_secret(line), "{}: {line}", path.display());
                if line.contains("verify_slices_are_equal") {
                    library.push(path.clone());
                }
            }
            files += 1;
        }
    }
    assert!(files > 20);
    assert!(matches!(&*library, [one] if one.ends_with("compare.rs")), "{library:?}");
}
