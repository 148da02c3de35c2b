use serde_json::json;

use super::*;

fn settings(change: &Value) -> Result<SourceSettings, Vec<Problem>> {
    let mut settings = SourceSettings::default();
    let mut whole = json!({"name": "shop", "scheme": "github"});
    whole.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let problems = settings.apply(whole.as_object().unwrap());
    if !problems.is_empty() {
        return Err(problems);
    }
    let problems = settings.validate();
    if problems.is_empty() { Ok(settings) } else { Err(problems) }
}

#[test]
fn every_wrong_field_is_named_and_says_what_to_write() {
    for (change, field, part) in [
        (json!({"name": ""}), "name", "stripe.invoice.paid"),
        (json!({"name": "a.b"}), "name", "one part"),
        (json!({"name": "a b"}), "name", "letters, digits"),
        (json!({"name": "x".repeat(65)}), "name", "64 are allowed"),
        (json!({"name": "snaphook"}), "name", "our own"),
        (json!({"name": 7}), "name", "7"),
        (json!({"scheme": null}), "scheme", "it is missing"),
        (json!({"scheme": "strip"}), "scheme", "docs/providers.md"),
        (json!({"scheme": "hubspot"}), "scheme", "hubspot:v3"),
        (json!({"scheme": {"auth": "hmac"}}), "scheme.hash", ""),
        (json!({"scheme": {"auth": "token", "sig": {"header": "x"}, "odd": 1}}), "scheme.odd", ""),
        (
            json!({"scheme": {"auth": "token", "sig": {"header": "x"}, "else": "github"}}),
            "scheme.else",
            "leave it out",
        ),
        (
            json!({"scheme": "adyen:payments", "signature_header": "x"}),
            "signature_header",
            "no header",
        ),
        (json!({"signature_header": "a b"}), "signature_header", "no name of a header"),
        (json!({"tolerance": "8d"}), "tolerance", "7d"),
        (json!({"tolerance": 300}), "tolerance", "30s"),
        (json!({"public_key": ""}), "public_key", "1 to 16384"),
        (json!({"verify_token": ""}), "verify_token", "1 to 256"),
        (json!({"verify_token": 7}), "verify_token", "in quotes"),
        (json!({"verify_token": "(hidden)"}), "verify_token", "there is none"),
        (json!({"public_url": "example.com/in"}), "public_url", "https://"),
        (json!({"public_url": "https://a b/"}), "public_url", "no URL"),
        (json!({"id_from": ["nonsense"]}), "id_from", ""),
        (json!({"id_from": vec!["header:x"; 17]}), "id_from", "at most 16"),
        (json!({"type_from": ["json:no-slash"]}), "type_from", ""),
        (json!({"type_from": ["x".repeat(257)]}), "type_from[0]", "at most 256"),
        (json!({"id_scope": "both"}), "id_scope", "both"),
        (json!({"body_limit": "65MiB"}), "body_limit", "64MiB"),
        (json!({"body_limit": 0}), "body_limit", "does not fit"),
        (json!({"body_limit": "1MB"}), "body_limit", "MiB"),
        (json!({"reject_status": 403}), "reject_status", "401 or 400"),
        (json!({"answer": {"status": 500}}), "answer.status", "200 to 299"),
        (
            json!({"answer": {"headers": {"Content-Length": "1"}}}),
            "answer.headers.Content-Length",
            "leave it out",
        ),
        (json!({"answer": {"headers": {"x y": "1"}}}), "answer.headers.x y", "no header's name"),
        (json!({"answer": {"headers": {"x": "a\nb"}}}), "answer.headers.x", "one line"),
        (json!({"answer": {"body": "x".repeat(20_000)}}), "answer.body", "16384"),
        (json!({"answer": {"code": 200}}), "answer.code", ""),
        (json!({"schemas": {"a": {"type": 7}}}), "schemas.a", ""),
        (json!({"keep_rejected": 10_001}), "keep_rejected", "10000"),
        (json!({"secret": "x"}), "secret", "no such field"),
    ] {
        let problems = settings(&change).expect_err(&change.to_string());
        let found = problems.iter().find(|problem| problem.field == field);
        let found = found.unwrap_or_else(|| panic!("{change}: {problems:?}"));
        assert!(found.problem.contains(part), "{change}: {found}");
    }
}

#[test]
fn what_is_usual_is_taken_and_written_as_it_was() {
    let change = json!({
        "signature_header": "X-Own", "tolerance": "10m", "public_key": "k", "public_url": "https://a.example/in?x=1",
        "id_from": ["header:x-id", "json:/id"], "id_scope": "object", "type_from": ["json:/type"],
        "body_limit": "64KiB", "reject_status": 400, "keep_rejected": 0,
        "answer": {"status": 202, "headers": {"content-type": "text/plain"}, "body": "OK"},
        "schemas": {"ping": {"type": "object"}},
    });
    let taken = settings(&change).unwrap();
    let written = serde_json::to_value(&taken).unwrap();
    for (field, value) in change.as_object().unwrap() {
        assert_eq!(&written[field], value, "{field}");
    }
    assert_eq!(serde_json::from_value::<SourceSettings>(written).unwrap(), taken);
    assert_eq!(taken.id_scope(&taken.scheme().unwrap()), IdScope::Object);
}

#[test]
fn a_scheme_of_ones_own_is_written_in_the_tables_form() {
    let scheme = json!({
        "auth": "hmac", "hash": "sha256", "enc": "hex", "sig": {"header": "X-Sig"}, "sign": ["{body}"],
    });
    let taken = settings(&json!({"scheme": scheme})).unwrap();
    assert_eq!(taken.scheme.name(), "custom");
    assert_eq!(serde_json::to_value(&taken.scheme).unwrap(), scheme);
    assert!(taken.verifier(&["s"]).is_ok());
}

#[test]
fn the_verify_token_is_kept_apart_and_never_shown() {
    let mut taken = settings(&json!({"scheme": "meta", "verify_token": "hush"})).unwrap();
    let shown = serde_json::to_value(taken.shown()).unwrap();
    assert_eq!(shown["verify_token"], HIDDEN);
    assert!(!format!("{taken:?}").contains("hush"));

    assert!(taken.apply(shown.as_object().unwrap()).is_empty());
    assert_eq!(taken.verify_token, Some(Token("hush".to_owned())), "sent back, it stays");

    let private = taken.take_private();
    assert!(!serde_json::to_string(&taken).unwrap().contains("hush"));
    taken.put_private(private);
    assert_eq!(taken.verify_token, Some(Token("hush".to_owned())));
}

#[test]
fn a_secret_is_judged_by_its_scheme() {
    for (scheme, secret, field) in [
        ("standardwebhooks", "not base64!", "secrets"),
        ("github", "", "secrets"),
        ("braintree", "pr1v4te", "public_key"),
    ] {
        let taken = settings(&json!({"scheme": scheme})).unwrap();
        let problem = taken.verifier(&[secret]).unwrap_err();
        assert_eq!(problem.field, field, "{scheme}: {problem}");
        assert!(secret.is_empty() || !problem.problem.contains(secret), "{problem}");
    }
}

#[test]
fn the_url_that_is_signed_is_ours_unless_said_otherwise() {
    let token = SourceToken::new(7);
    let mut set = settings(&json!({})).unwrap();
    assert_eq!(
        set.public_url("https://a.example/", &token),
        format!("https://a.example/in/{token}")
    );
    set.public_url = Some("https://b.example/hooks".to_owned());
    assert_eq!(set.public_url("https://a.example", &token), "https://b.example/hooks");
}
