//! What holds for every scheme of the table: it verifies what it signs, sees every changed byte,
//! bounds its work, and says which step failed.

use proptest::prelude::*;
use snaphook_signature::{
    Outgoing, Received, Refusal, Scheme, SignError, Step, Verdict, Verified, Verifier,
};

const NOW: i64 = 1_796_042_096;
const URL: &str = "https://hooks.example.com/in/x?data.id=7&code=none";

/// Those whose providers give out public keys.
const PUBLIC: &[&str] = &["aws_sns", "discord", "paypal", "plaid", "sendgrid"];

/// Those whose proof says nothing of the body.
const BODY_NOT_COVERED: &[&str] = &[
    "auth0_log_stream",
    "azure_event_grid",
    "cloudevents",
    "cloudflare_notifications",
    "generic_basic_auth",
    "generic_static_header",
    "gitlab_token",
    "mailgun",
    "mercadopago",
    "microsoft_graph",
    "okta_event_hook",
    "postmark",
    "telegram",
];

fn secret(name: &str) -> &'static str {
    match name {
        "standardwebhooks_v1a" => "whsk_AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=",
        "postmark" | "generic_basic_auth" => "hook:pass:word",
        _ if name.starts_with("adyen") => {
            "B3CF4FF17077E81A684324DBDF8C96B332521A743775030E419A94A150C0A033"
        }
        _ => "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
    }
}

fn body(name: &str) -> &'static [u8] {
    match name {
        "adyen:payments" => {
            br#"{"notificationItems":[{"NotificationRequestItem":{"amount":{"value":1130,"currency":"EUR"},"pspReference":"7914","eventCode":"AUTHORISATION","success":"true","additionalData":{}}}]}"#
        }
        "microsoft_graph" => br#"{"value":[{"changeType":"updated"},{"changeType":"created"}]}"#,
        "braintree" => b"<notification><kind>check</kind></notification>",
        "twilio" => b"To=%2B1555&From=%2B1556&Body=a+b",
        _ => br#"{"id":"evt_1","type":"order.paid","data":{"amount":4999.0}}"#,
    }
}

fn verifier(name: &str) -> Verifier {
    let secrets = [secret(name)];
    Verifier::new(Scheme::named(name).expect("a scheme"), &secrets, Some("key_1"))
        .expect("a secret")
}

/// A request as it would be sent.
#[derive(Clone)]
struct Sent {
    headers: Vec<(String, String)>,
    url: String,
    body: Vec<u8>,
}

impl Sent {
    fn of(name: &str) -> Self {
        let body = body(name);
        let request = Received::new(&[], body).with_url(URL);
        let Outgoing { headers, body: changed, url } =
            verifier(name).sign(&request, "evt_1", NOW).expect("signed");
        Self {
            headers,
            url: url.unwrap_or_else(|| URL.to_owned()),
            body: changed.unwrap_or_else(|| body.to_vec()),
        }
    }

    fn verified(&self, verifier: &Verifier, now: i64) -> Result<Verified, Refusal> {
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (&**name, value.as_bytes())).collect();
        verifier.verify(&Received::new(&headers, &self.body).with_url(&self.url), now)
    }
}

fn with_shared_keys() -> impl Iterator<Item = &'static str> {
    Scheme::names().filter(|name| !PUBLIC.contains(name))
}

#[test]
fn every_scheme_verifies_what_it_signs() {
    let mut count = 0;
    for name in with_shared_keys() {
        let verified = Sent::of(name).verified(&verifier(name), NOW);
        assert_eq!(verified.as_ref().map(|verified| verified.secret), Ok(0), "{name}");
        count += 1;
    }
    assert!(count >= 72, "only {count} schemes");
    let discord = ["1e668100cf2ccbdc07e5a394bf3a1a55827412da7d2b5411207e9a58bee0d1a3"];
    let discord = Verifier::new(Scheme::named("discord").unwrap(), &discord, None).unwrap();
    let refused = discord.sign(&Received::new(&[], b"{}"), "", NOW);
    assert_eq!(refused, Err(SignError::PublicScheme("discord".to_owned())));
}

/// Exhaustive: each byte of the body, of each header that was added, and of the URL.
#[test]
fn no_changed_byte_passes() {
    for name in with_shared_keys().filter(|name| !BODY_NOT_COVERED.contains(name)) {
        let verifier = verifier(name);
        let sent = Sent::of(name);
        for at in 0..sent.body.len() {
            let mut other = sent.clone();
            other.body[at] ^= 1;
            // Adyen and Braintree sign fields, and not how they are written.
            let same_fields = ["adyen:payments", "braintree", "twilio"].contains(&name);
            assert!(same_fields || other.verified(&verifier, NOW).is_err(), "{name}: byte {at}");
        }
    }
    for name in with_shared_keys() {
        let verifier = verifier(name);
        let sent = Sent::of(name);
        let signed: Vec<_> = (0..sent.headers.len())
            .filter(|at| {
                sent.headers[*at].0.to_lowercase().contains("sign")
                    || sent.headers[*at].0 == "Authorization"
            })
            .collect();
        for (header, value) in signed.iter().map(|at| (*at, sent.headers[*at].1.as_bytes())) {
            for at in 0..value.len() {
                let mut changed = value.to_vec();
                changed[at] ^= 1;
                let mut other = sent.clone();
                other.headers[header].1 = String::from_utf8(changed).unwrap();
                let result = other.verified(&verifier, NOW);
                let base64_tail = name.contains("basic") || name == "postmark";
                let any_case = result.is_ok()
                    && other.headers[header].1.eq_ignore_ascii_case(&sent.headers[header].1);
                assert!(
                    result.is_err() || base64_tail || any_case,
                    "{name}: {} byte {at}",
                    sent.headers[header].0
                );
            }
        }
    }
}

#[test]
fn another_secret_does_not_pass_and_an_old_one_does() {
    for name in with_shared_keys().filter(|name| !["box", "microsoft_graph"].contains(name)) {
        let wrong = match name {
            "standardwebhooks_v1a" => "whsk_BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ=",
            "postmark" | "generic_basic_auth" => "hook:other",
            _ if name.starts_with("adyen") => {
                "00CF4FF17077E81A684324DBDF8C96B332521A743775030E419A94A150C0A033"
            }
            _ => "whsec_AQECAwQFBgcICQoLDA0ODxAREhMUFRYX",
        };
        let scheme = Scheme::named(name).unwrap();
        let sent = Sent::of(name);
        let only = Verifier::new(scheme.clone(), &[wrong], Some("key_1")).unwrap();
        let result = sent.verified(&only, NOW);
        assert_eq!(Verdict::from(&result), Verdict::BadSignature, "{name}: {result:?}");
        let both = Verifier::new(scheme, &[wrong, secret(name)], Some("key_1")).unwrap();
        assert_eq!(sent.verified(&both, NOW).map(|verified| verified.secret), Ok(1), "{name}");
    }
}

#[test]
fn age_counts_either_way_where_there_is_one() {
    for name in with_shared_keys() {
        let scheme = Scheme::named(name).unwrap();
        let Some(ts) = &scheme.document().ts else { continue };
        let tolerance = i64::try_from(ts.tolerance).unwrap();
        let sent = Sent::of(name);
        for (off, expected) in [
            (tolerance, Verdict::Ok),
            (-tolerance, Verdict::Ok),
            (tolerance + 1, Verdict::Stale),
            (-tolerance - 1, Verdict::Stale),
        ] {
            let result = sent.verified(&verifier(name), NOW + off);
            assert_eq!(Verdict::from(&result), expected, "{name} {off}: {result:?}");
        }
        let patient = verifier(name).with_tolerance(std::time::Duration::from_hours(1));
        assert!(sent.verified(&patient, NOW + 3600).is_ok(), "{name}");
    }
}

/// A forged request that is also old is forged, and what is missing is said first.
#[test]
fn the_step_that_failed_is_named() {
    let stripe = verifier("stripe");
    for (header, expected, why) in [
        (None, Step::Signature, "Stripe-Signature is missing"),
        (Some(""), Step::Signature, "Stripe-Signature is empty"),
        (Some("v1=00"), Step::Timestamp, "t= in Stripe-Signature is missing"),
        (
            Some("t=1.5,v1=00"),
            Step::Timestamp,
            "t= in Stripe-Signature is no timestamp in whole seconds",
        ),
        (Some("t=1,t=2,v1=00"), Step::Timestamp, "t= in Stripe-Signature is given more than once"),
        (Some("t=1,v0=00"), Step::Signature, "Stripe-Signature has no v1="),
        (Some("t=1,v1=00"), Step::Signature, "Stripe-Signature does not match the secret"),
        (Some("t=1,v1=\u{e9}"), Step::Signature, "Stripe-Signature has characters outside ASCII"),
    ] {
        let headers: Vec<_> =
            header.map(|value| ("stripe-signature", value.as_bytes())).into_iter().collect();
        let refusal = stripe.verify(&Received::new(&headers, b"{}"), NOW).unwrap_err();
        assert_eq!(refusal.step(), expected, "{header:?}");
        assert!(refusal.to_string().starts_with(why), "{header:?}: {refusal}");
    }
    let square = Sent { url: format!("{URL}/"), ..Sent::of("square") };
    let refusal = square.verified(&verifier("square"), NOW).unwrap_err().to_string();
    assert!(refusal.contains("to the last slash"), "a hint at the URL: {refusal}");
}

/// Contentful's requests name which headers are signed: the time must be one of them.
#[test]
fn contentful_must_sign_its_time() {
    let mut sent = Sent::of("contentful");
    let list = sent.headers.iter_mut().find(|(name, _)| name.ends_with("Signed-Headers")).unwrap();
    list.1 = "x-contentful-signed-headers".to_owned();
    let refusal = sent.verified(&verifier("contentful"), NOW).unwrap_err().to_string();
    assert!(refusal.ends_with("does not name X-Contentful-Timestamp"), "{refusal}");
}

#[test]
fn every_item_of_adyens_must_hold() {
    let item = std::str::from_utf8(body("adyen:payments")).unwrap();
    let item = item.strip_prefix(r#"{"notificationItems":["#).unwrap().strip_suffix("]}").unwrap();
    let two = format!(r#"{{"notificationItems":[{item},{item}]}}"#);
    let request = Received::new(&[], two.as_bytes());
    let signed = verifier("adyen:payments").sign(&request, "", NOW).unwrap().body.unwrap();
    let mut sent = Sent { headers: Vec::new(), url: URL.to_owned(), body: signed };
    assert!(sent.verified(&verifier("adyen:payments"), NOW).is_ok());
    let text = String::from_utf8(sent.body).unwrap();
    let at = text.rfind("1130").unwrap();
    sent.body = format!("{}9999{}", &text[..at], &text[at + 4..]).into_bytes();
    let result = sent.verified(&verifier("adyen:payments"), NOW);
    assert_eq!(Verdict::from(&result), Verdict::BadSignature, "the second item was changed");
}

#[test]
fn floods_are_refused_before_they_cost_anything() {
    let many = |entry: &str, between: &str| vec![entry; 10_000].join(between);
    for (name, header, value) in [
        ("stripe", "stripe-signature", format!("t=1,{}", many("v1=00", ","))),
        ("stripe", "stripe-signature", format!("t=1,v1=00,{}", vec!["x=1"; 100].join(","))),
        ("standardwebhooks", "webhook-signature", many("v1,AAAA", " ")),
        ("standardwebhooks", "webhook-signature", vec!["v1,AAAA"; 33].join(" ")),
        ("pagerduty", "x-pagerduty-signature", vec!["v1=00"; 33].join(",")),
        ("github", "x-hub-signature-256", format!("sha256={}", "0".repeat(1 << 20))),
        ("livekit", "authorization", "a.".repeat(1 << 19)),
    ] {
        let headers = [
            ("webhook-id", &b"a"[..]),
            ("webhook-timestamp", b"1796042096"),
            (header, value.as_bytes()),
        ];
        let result = verifier(name).verify(&Received::new(&headers, b"{}"), NOW);
        assert_eq!(Verdict::from(&result), Verdict::Malformed, "{name}: {result:?}");
    }
    let names: Vec<_> = (0..101).map(|number| format!("X-DocuSign-Signature-{number}")).collect();
    let headers: Vec<_> = names.iter().map(|name| (&**name, &b"AAAA"[..])).collect();
    let result = verifier("docusign").verify(&Received::new(&headers, b"{}"), NOW);
    assert_eq!(Verdict::from(&result), Verdict::Malformed);
}

#[test]
fn an_id_that_is_given_twice_is_refused() {
    for name in ["github", "standardwebhooks", "gitlab_token"] {
        let mut sent = Sent::of(name);
        let id = sent.headers.iter().find(|(_, value)| value == "evt_1").expect("an id").clone();
        sent.headers.push((id.0.to_lowercase(), "evt_2".to_owned()));
        let refusal = sent.verified(&verifier(name), NOW).unwrap_err();
        assert_eq!(refusal.step(), Step::Id, "{name}: {refusal}");
    }
}

/// An id that is not signed can be put on a copy: the signature tells.
#[test]
fn evidence_is_kept_where_the_id_is_not_signed() {
    for (name, expected) in [
        ("github", true),
        ("shopify", true),
        ("bitbucket", true),
        ("stripe", false),
        ("standardwebhooks", false),
        ("slack", false),
        ("gitlab_token", false),
    ] {
        let mut sent = Sent::of(name);
        let verified = sent.verified(&verifier(name), NOW).unwrap();
        assert_eq!(verified.evidence.is_some(), expected, "{name}: {verified:?}");
        if expected {
            sent.headers[0].1 = "another".to_owned();
            let copy = sent.verified(&verifier(name), NOW).unwrap();
            assert_eq!(
                (copy.event_id.as_deref(), &copy.evidence),
                (Some("another"), &verified.evidence)
            );
        }
    }
}

#[test]
fn the_id_can_be_taken_from_elsewhere_without_changing_what_is_signed() {
    let own = verifier("standardwebhooks")
        .with_id_from(&["json:/none", "{json:/data/amount}-{json:/type}"])
        .and_then(|verifier| verifier.with_type_from(&["const:poke"]))
        .unwrap();
    let verified = Sent::of("standardwebhooks").verified(&own, NOW).unwrap();
    assert_eq!(verified.event_id.as_deref(), Some("4999.0-order.paid"));
    assert_eq!(verified.event_type.as_deref(), Some("poke"));
    let error = verifier("stripe").with_id_from(&["jsn:/id"]).unwrap_err().to_string();
    assert!(error.starts_with("id_from: \"jsn:/id\" names no value"), "{error}");
}

proptest! {
    /// Whatever comes in, there is a verdict, and it is not `ok`.
    #[test]
    fn no_request_panics_and_none_is_genuine_by_chance(
        value in prop_oneof![
            any::<Vec<u8>>(),
            "(t=[0-9]{0,12},)?(v1=[0-9a-f]{0,70},?){0,4}".prop_map(String::into_bytes),
            "[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}".prop_map(String::into_bytes),
            "(Basic |Bearer |sha256=|v0=)[A-Za-z0-9+/=]{0,60}".prop_map(String::into_bytes),
        ],
        body in prop_oneof![
            any::<Vec<u8>>(),
            "bt_signature=[a-z|&%0-9]{0,30}&bt_payload=[A-Za-z0-9%]{0,30}".prop_map(String::into_bytes),
            "\\{\"(signature|value|notificationItems|Type)\":[\\[\\{]?[\"a-z:,0-9\\]\\}]{0,40}".prop_map(String::into_bytes),
        ],
        time in prop_oneof![any::<Vec<u8>>(), Just(NOW.to_string().into_bytes())],
        url in ".{0,40}|https://h\\.example(:[0-9]{0,5})?/[a-z?&=%.]{0,20}",
    ) {
        for name in with_shared_keys() {
            let verifier = verifier(name);
            let document = verifier.scheme().document().clone();
            let sig = document.sig.and_then(|sig| sig.header).unwrap_or_else(|| "X-Twilio-Signature".into());
            let ts = document.ts.and_then(|ts| ts.header).unwrap_or_else(|| "x-other".into());
            let headers = [(&*sig, &*value), (&*ts, &*time), ("webhook-id", b"a")];
            let request = Received::new(&headers, &body).with_url(&url);
            prop_assert!(verifier.verify(&request, NOW).is_err(), "{}", name);
            let _ = verifier.sign(&request, "a", NOW);
        }
    }

    /// Any body, as far as the scheme signs bytes.
    #[test]
    fn any_bytes_are_signed_as_they_are(body: Vec<u8>, bit: usize) {
        for name in ["standardwebhooks", "stripe", "github", "slack", "square", "hubspot:v3", "box"] {
            let verifier = verifier(name);
            let request = Received::new(&[], &body).with_url(URL);
            let Outgoing { headers, .. } = verifier.sign(&request, "evt_1", NOW).unwrap();
            let mut sent = Sent { headers, url: URL.to_owned(), body: body.clone() };
            prop_assert!(sent.verified(&verifier, NOW).is_ok(), "{}", name);
            if !body.is_empty() {
                let bit = bit % (8 * body.len());
                sent.body[bit / 8] ^= 1 << (bit % 8);
                prop_assert_eq!(Verdict::from(&sent.verified(&verifier, NOW)), Verdict::BadSignature);
            }
        }
    }
}

#[test]
fn what_an_unproven_request_says_of_itself_is_told_to_who_asks() {
    for (scheme, headers, id, why) in [
        ("github", [("X-GitHub-Event", "ping"), ("X-GitHub-Delivery", "guid")], "guid", "headers"),
        (
            "svix",
            [("webhook-signature", "v1,x"), ("webhook-id", "msg_1")],
            "msg_1",
            "its other scheme",
        ),
    ] {
        let scheme = Scheme::named(scheme).expect("a scheme");
        let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
        let verifier = Verifier::new(scheme, &[secret], None).expect("a secret");
        let headers = headers.map(|(name, value)| (name, value.as_bytes()));
        let request = Received::new(&headers, b"{\"type\":\"ping\"}");
        assert!(verifier.verify(&request, 0).is_err(), "{why}");
        let told = verifier.unproven(&request);
        assert_eq!(told, (Some(id.to_owned()), Some("ping".to_owned())), "{why}");
    }
}
