//! Schemes and secrets of one's own: what is taken, and what is said of what is not.

use proptest::prelude::*;
use snaphook_signature::{Need, Received, Scheme, SchemeDocument, Step, Verdict, Verifier};

const NOW: i64 = 1_750_000_000;

const GOOD: &str = r#"
    auth = "hmac"
    hash = "sha256"
    enc = "hex"
    sig = { header = "X-Acme-Signature", pairs = ",", pick = "v1" }
    ts = { pick = "t", unit = "s", tolerance = 300 }
    sign = ["{ts}.", "{body}"]
    id = ["header:X-Acme-Id", "json:/id"]
    type = "json:/type"
"#;

#[test]
fn a_scheme_of_ones_own_signs_and_verifies() {
    for text in [GOOD.to_owned(), format!("[acme]\n{GOOD}")] {
        let scheme = Scheme::from_toml("file", &text).unwrap();
        let acme = Verifier::new(scheme, &["s3cret"], None).unwrap();
        let body = br#"{"id":"e1","type":"a.b"}"#;
        let signed = acme.sign(&Received::new(&[], body), "", NOW).unwrap();
        assert_eq!(signed.headers.len(), 1, "{signed:?}");
        let headers = [("x-acme-signature", signed.headers[0].1.as_bytes())];
        let verified = acme.verify(&Received::new(&headers, body), NOW).unwrap();
        assert_eq!(
            (verified.event_id.as_deref(), verified.event_type.as_deref()),
            (Some("e1"), Some("a.b"))
        );
    }
}

#[test]
fn every_scheme_of_the_table_can_be_written_and_read_again() {
    for name in Scheme::names() {
        let document = Scheme::named(name).unwrap().document().clone();
        let json = serde_json::to_string(&document).unwrap();
        let again: SchemeDocument = serde_json::from_str(&json).unwrap();
        assert_eq!(again, document, "{name}");
        assert!(Scheme::new(name, &again).is_ok(), "{name}");
    }
}

#[test]
fn what_is_wrong_with_a_scheme_is_named_with_its_field() {
    for (from, to, expected) in [
        (
            "auth = \"hmac\"",
            "auth = \"hmacc\"",
            "auth: \"hmacc\" is unknown; there are hmac, digest",
        ),
        ("auth = \"hmac\"", "", "missing field `auth`"),
        ("auth = \"hmac\"", "auth = \"token\"", "sign: has no use with auth = \"token\""),
        ("hash = \"sha256\"", "", "hash: is missing; there are sha1"),
        ("hash = \"sha256\"", "hash = \"md5\"", "hash: \"md5\" is unknown"),
        (
            "hash = \"sha256\"",
            "hash = \"sha256\"\nkey = \"whpk\"",
            "key: \"whpk\" does not go with auth = \"hmac\"",
        ),
        ("hash = \"sha256\"", "hash = \"sha256\"\nkey = \"rsa\"", "key: \"rsa\" is unknown"),
        ("enc = \"hex\"", "enc = \"hexx\"", "enc: \"hexx\" is unknown; there are hex"),
        ("enc = \"hex\"", "encoding = \"hex\"", "unknown field `encoding`"),
        ("header = \"X-Acme-Signature\", ", "", "sig: is in one place"),
        (
            "header = \"X-Acme-Signature\"",
            "header = \"X Acme\"",
            "sig.header: \"X Acme\" is no name of a header",
        ),
        (", pick = \"v1\"", "", "sig.pick: is missing"),
        ("pairs = \",\", pick = \"v1\"", "list = \",\"", "ts.pick: needs sig.pairs"),
        ("unit = \"s\"", "unit = \"h\"", "ts.unit: \"h\" is unknown; there are s, ms and rfc3339"),
        ("pick = \"t\", unit", "unit", "ts: is in one place"),
        ("sign = [\"{ts}.\", \"{body}\"]", "", "sign: is missing"),
        ("\"{body}\"]", "\"{bodi}\"]", "sign: \"bodi\" names no value"),
        ("\"{body}\"]", "\"{body\"]", "without its }"),
        ("\"json:/id\"]", "\"json:id\"]", "id: \"id\" is no JSON pointer"),
        ("type = \"json:/type\"", "type = 5", "expected a text or a list of texts"),
        (
            "type = \"json:/type\"",
            "id_scope = \"thing\"",
            "id_scope: \"thing\" is neither event nor object",
        ),
        ("ts = {", "ts2 = {", "unknown field `ts2`"),
    ] {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD, "{from} is not in it");
        let error = Scheme::from_toml("x", &text).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
    let other = Scheme::named("slack").unwrap().with_signature_header("X-Other").unwrap();
    assert_eq!(other.document().sig.as_ref().unwrap().header.as_deref(), Some("X-Other"));
    let error = Scheme::named("mailgun").unwrap().with_signature_header("X").unwrap_err();
    assert!(
        error.to_string().starts_with("sig.header: mailgun has its signature in no header"),
        "{error}"
    );
}

#[test]
fn what_is_wrong_with_a_secret_is_said_when_it_is_set() {
    let whsec = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
    for (scheme, secret, expected) in [
        ("standardwebhooks", format!("v1,{whsec}"), "leave that out and begin with whsec_"),
        ("svix", format!("{whsec}\n"), "white space"),
        (
            "standardwebhooks",
            "whsk_AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=".into(),
            "takes one for HMAC",
        ),
        ("standardwebhooks_v1a", whsec.into(), "takes whpk_"),
        ("stripe", String::new(), "the secret is empty"),
        ("stripe", format!(" {whsec}"), "white space around it"),
        ("stripe", format!("v1,{whsec}"), "begins with \"v1,\""),
        ("stripe", "x".repeat(20_000), "none has more than 16384"),
        ("adyen:payments", "wxyz".into(), "must be hexadecimal digits"),
        ("adyen:banking", "abc".into(), "3 hexadecimal digits, an odd number"),
        ("discord", "abcd".into(), "it must have 64"),
        ("sendgrid", "!".into(), "is not base64"),
        ("sendgrid", "AAAA".into(), "is no public key of ECDSA"),
        ("plaid", "{}".into(), "is no JSON Web Key"),
        ("postmark", "password".into(), "a colon between them"),
        ("aws_sns", "secret".into(), "give the topic's ARN"),
        ("aws_sns", "-----BEGIN CERTIFICATE-----".into(), "give it as PEM"),
    ] {
        let error = Verifier::new(Scheme::named(scheme).unwrap(), &[&secret], Some("k"));
        let error = error.expect_err(scheme).to_string();
        assert!(error.contains(expected), "{scheme}: {error}");
        assert!(!error.contains("AwQF") && !error.contains("xyz"), "{error}");
    }
    let none: [&str; 0] = [];
    for (scheme, expected) in [
        ("stripe", "stripe needs a secret: the one that the provider shows"),
        ("aws_sns", "aws_sns needs a secret: the topic's ARN"),
    ] {
        let error = Verifier::new(Scheme::named(scheme).unwrap(), &none, None).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    for scheme in ["pusher", "livekit", "braintree"] {
        let error =
            Verifier::new(Scheme::named(scheme).unwrap(), &["s"], None).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{scheme} needs a public key: ")), "{error}");
    }
    let many = vec!["s"; 17];
    let error =
        Verifier::new(Scheme::named("stripe").unwrap(), &many, None).unwrap_err().to_string();
    assert!(error.contains("17 secrets are too many"), "{error}");
}

/// What is fetched is asked for by name, and from the provider's own hosts alone.
#[test]
fn nothing_is_fetched_from_elsewhere() {
    let sns =
        Verifier::new(Scheme::named("aws_sns").unwrap(), &["arn:aws:sns:eu-west-1:1:t"], None)
            .unwrap();
    let message = |url: &str| {
        serde_json::json!({
            "Type": "Notification", "MessageId": "m", "TopicArn": "arn:aws:sns:eu-west-1:1:t",
            "Message": "x", "Timestamp": "2025-06-15T15:06:40.000Z", "SignatureVersion": "2",
            "Signature": "AAAA", "SigningCertURL": url,
        })
        .to_string()
    };
    let good = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem";
    let need = sns.need(&Received::new(&[], message(good).as_bytes()));
    assert_eq!(need, Ok(Some(Need::Certificate(good.to_owned()))));
    let unfetched = sns.verify(&Received::new(&[], message(good).as_bytes()), NOW).unwrap_err();
    assert_eq!((unfetched.verdict(), unfetched.step()), (Verdict::Malformed, Step::Key));

    let paypal = Verifier::new(Scheme::named("paypal").unwrap(), &["WH-1"], None).unwrap();
    for host in [
        "https://evil.test/x.pem",
        "http://sns.eu-west-1.amazonaws.com/x.pem",
        "https://sns.eu-west-1.amazonaws.com.evil.test/x.pem",
        "https://sns.eu-west-1.amazonaws.com@evil.test/x.pem",
        "https://sns.eu-west-1.amazonaws.com:8443/x.pem",
        "https://sns.evil.test/.amazonaws.com/x.pem",
        "https://sns.x.y.amazonaws.com/x.pem",
        "https://sns.amazonaws.com.cn/x.pem",
        "https://s3.amazonaws.com/x.pem",
        "https://sns.eu-west-1.amazonaws.com/x.pem?1.pem",
        "https://sns.eu-west-1.amazonaws.com/x.pem#1.pem",
        "https://api.paypal.com/v1/notifications/certs/x?1",
        "https://api.paypal.com.evil.test/v1/notifications/certs/x",
        "https://api.paypal.com/../v1/notifications/certs/x",
        "https://notpaypal.com/v1/notifications/certs/x",
    ] {
        let message = message(host);
        let headers = [("paypal-cert-url", host.as_bytes())];
        let request = Received::new(&headers, message.as_bytes());
        assert_eq!(sns.need(&request).unwrap_err().step(), Step::Key, "{host}");
        assert_eq!(paypal.need(&request).unwrap_err().step(), Step::Key, "{host}");
    }
}

#[test]
fn the_fetched_key_is_the_one_that_counts() {
    let cases = |text: &str| -> Vec<serde_json::Value> { serde_json::from_str(text).unwrap() };
    let sns = &cases(include_str!("vectors/aws_sns.json"))[0];
    let plaid = &cases(include_str!("vectors/plaid.json"))[0];
    let paypal = &cases(include_str!("vectors/paypal.json"))[0];
    let none: Vec<&str> = Vec::new();
    for (case, scheme, secrets, key, expected) in [
        (sns, "aws_sns", vec!["arn:aws:sns:us-west-2:123456789012:MyTopic"], "secret", Verdict::Ok),
        (
            sns,
            "aws_sns",
            vec!["arn:aws:sns:us-west-2:123456789012:Other"],
            "secret",
            Verdict::BadSignature,
        ),
        (paypal, "paypal", vec!["1JE4291016473214C"], "public_key", Verdict::Ok),
        (plaid, "plaid", none, "secret", Verdict::Ok),
        (plaid, "plaid", vec!["the API's secret"], "secret", Verdict::Ok),
    ] {
        let verifier = Verifier::new(Scheme::named(scheme).unwrap(), &secrets, None).unwrap();
        let headers: Vec<(&str, &[u8])> = case["headers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap().as_bytes()))
            .collect();
        let body = case["body_base64"].as_str().unwrap();
        let body = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, body).unwrap();
        let request = Received::new(&headers, &body);
        match verifier.need(&request) {
            Ok(need) => assert!(need.is_some(), "{scheme}"),
            // Nothing is fetched for a message of somebody else's topic.
            Err(refusal) => assert_eq!(refusal.verdict(), expected, "{scheme}"),
        }
        let result = verifier.verify_with(&request, NOW, case[key].as_str().unwrap());
        assert_eq!(Verdict::from(&result), expected, "{scheme}: {result:?}");
        let nonsense = verifier.verify_with(&request, NOW, "{}").unwrap_err();
        assert_eq!(nonsense.step(), Step::Key, "{scheme}");
        assert!(verifier.verify(&request, NOW).is_err(), "{scheme}: not without it");
    }
}

proptest! {
    #[test]
    fn no_document_panics(text in "(auth|sig|ts|sign|id) = [\"{}a-z:/\\[\\] =,]{0,40}", part in ".{0,30}") {
        let _ = Scheme::from_toml("x", &text);
        let mut document = Scheme::named("stripe").unwrap().document().clone();
        document.sign = vec![part.clone()];
        document.id.0 = vec![part];
        let _ = Scheme::new("x", &document);
    }

    #[test]
    fn no_secret_panics(text in ".{0,60}|-----BEGIN CERTIFICATE-----.{0,40}|\\{\"kty\":.{0,40}") {
        for name in Scheme::names() {
            let _ = Verifier::new(Scheme::named(name).unwrap(), &[&text], Some(&text));
        }
    }
}
