use serde_json::json;

use super::*;

fn settings(fields: &Value) -> EndpointSettings {
    let mut settings = EndpointSettings::default();
    let problems = settings.apply(fields.as_object().expect("an object"));
    assert_eq!(problems, []);
    settings
}

fn full() -> Value {
    json!({
        "kind": "http",
        "url": "https://hooks.example.com/in",
        "description": "billing",
        "event_types": ["order.*", "invoice.paid"],
        "filter": {"/amount": {"gte": 1000}},
        "format": "cloudevents-binary",
        "signature": ["standard", {"profile": "sha256-hex", "header": "X-My-Sig"}],
        "headers": {"Authorization": "Bearer abc"},
        "timeout": "20s",
        "retry_schedule": ["0s", "5s", "28h"],
        "final_statuses": [400, "4xx"],
        "max_in_flight": 4,
        "rate_limit": "50/s",
        "ordered": true,
        "reach": "internal",
        "metadata": {"team": "billing"},
        "tls": {"ca": "-----BEGIN CERTIFICATE-----\n…", "client_cert": null, "client_key": null},
    })
}

#[test]
fn reads_what_it_writes() {
    let settings = settings(&full());

    let written = serde_json::to_value(&settings).unwrap();

    assert_eq!(written, full());
    assert_eq!(serde_json::from_value::<EndpointSettings>(written).unwrap(), settings);
    assert_eq!(settings.validate(), []);
}

#[test]
fn every_bad_field_is_named_at_once() {
    let change = json!({
        "url": 5, "format": "xml", "signature": "md5", "timeout": 15, "retry_schedule": ["5"],
        "final_statuses": [true], "max_in_flight": -1, "rate_limit": "fast", "ordered": "yes",
        "reach": "everywhere", "headers": ["X-A"], "tls": {"cert": "x"}, "destination": "x", "kind": "mail",
    });

    let problems = EndpointSettings::default().apply(change.as_object().unwrap());

    let mut fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
    fields.sort_unstable();
    let mut expected: Vec<_> = change.as_object().unwrap().keys().map(String::as_str).collect();
    expected.retain(|name| !["tls", "retry_schedule", "final_statuses"].contains(name));
    expected.extend(["tls.cert", "retry_schedule[0]", "final_statuses[0]"]);
    expected.sort_unstable();
    assert_eq!(fields, expected);
    for (field, remedy) in [
        ("timeout", "\"30s\""),
        ("retry_schedule[0]", "write 5s"),
        (
            "final_statuses[0]",
            "true does not fit; write a status or a class of them, for example 400 or \"4xx\"",
        ),
        ("format", "cloudevents-binary"),
        ("rate_limit", "50/s"),
        ("destination", "url description"),
        ("kind", "queue"),
    ] {
        let problem = problems.iter().find(|problem| problem.field == field).unwrap();
        assert!(problem.problem.contains(remedy), "{problem}");
    }
}

#[test]
fn an_error_about_headers_or_keys_shows_nothing_of_them() {
    let change = json!({"headers": "Bearer s3cret", "tls": ["s3cret"]});
    let change2 = json!({"headers": {"X": ["s3cret"]}, "tls": {"client_key": ["s3cret"]}});
    for change in [change, change2] {
        let problems = EndpointSettings::default().apply(change.as_object().unwrap());
        assert_eq!(problems.len(), 2);
        assert!(!format!("{problems:?}").contains("s3cret"), "{problems:?}");
    }
}

#[test]
fn refuses_what_cannot_be_delivered() {
    for (change, field) in [
        (json!({"url": ""}), "url"),
        (json!({"url": "ftp://example.com"}), "url"),
        (json!({"event_types": ["a", "a.*.b"]}), "event_types[1]"),
        (json!({"event_types": ["a", "a.*", "a"]}), "event_types[0]"),
        (json!({"filter": {"amount": 1}}), "filter"),
        (json!({"filter": {"/amount": {"over": 5}}}), "filter"),
        (json!({"retry_schedule": []}), "retry_schedule"),
        (json!({"retry_schedule": "hourly"}), "retry_schedule"),
        (json!({"final_statuses": [429]}), "final_statuses"),
        (json!({"description": "x".repeat(1_025)}), "description"),
        (json!({"event_types": []}), "event_types"),
        (json!({"event_types": vec!["a"; 257]}), "event_types"),
        (json!({"timeout": "999ms"}), "timeout"),
        (json!({"timeout": "31s"}), "timeout"),
        (json!({"max_in_flight": 0}), "max_in_flight"),
        (json!({"max_in_flight": 1_001}), "max_in_flight"),
        (json!({"metadata": {"x": "y".repeat(16_384)}}), "metadata"),
        (json!({"signature": []}), "signature"),
        (json!({"headers": {"Host": "x"}}), "headers.Host"),
        (json!({"headers": {"x-my-sig": "x"}}), "headers.x-my-sig"),
        (json!({"headers": {"CE-Id": "x"}}), "headers.CE-Id"),
        (json!({"tls": {"client_key": "k"}}), "tls.client_cert"),
    ] {
        let mut settings = settings(&full());
        assert_eq!(settings.apply(change.as_object().unwrap()), [], "{change}");
        let problems = settings.validate();
        assert!(problems.iter().any(|problem| problem.field == field), "{change}: {problems:?}");
    }
}

#[test]
fn of_many_patterns_that_are_wrong_in_one_way_one_sentence_is_told() {
    for (patterns, expected) in [
        (vec!["a"; 300], "event_types: there are 300; at most 256 are allowed, use order.* or *"),
        (vec!["a"; 256], "event_types[0]: \"a\" is given 256 times; give it once"),
        (vec!["a..b"; 256], "event_types[0]: \"a..b\" has an empty part; parts are"),
        (vec![], "event_types: it is empty; name at least one, [\"*\"] means all"),
    ] {
        let mut settings = settings(&full());
        settings.apply(json!({"event_types": patterns}).as_object().unwrap());
        let told: Vec<_> = settings.validate().iter().map(ToString::to_string).collect();
        assert!(told.len() == 1 && told[0].starts_with(expected), "{told:?}");
    }
}

#[test]
fn null_brings_back_the_default_and_absent_fields_stay() {
    let mut settings = settings(&full());

    let change = json!({"timeout": null, "headers": {"X-B": "2"}, "metadata": {"team": null}});
    assert_eq!(settings.apply(change.as_object().unwrap()), []);

    assert_eq!(settings.timeout, None);
    assert_eq!(settings.description, "billing");
    assert!(settings.metadata.is_empty());
    let names: Vec<_> = settings.headers.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Authorization", "X-B"]);
}

#[test]
fn private_parts_are_taken_out_and_put_back() {
    let mut settings = settings(&full());
    settings.tls.client_key = Some("-----BEGIN PRIVATE KEY-----".to_owned());
    let before = settings.clone();

    let private = settings.take_private();
    let stored = serde_json::to_string(&settings).unwrap();
    let sealed = serde_json::to_vec(&private).unwrap();
    settings.put_private(serde_json::from_slice(&sealed).unwrap());

    assert!(!stored.contains("Bearer abc") && !stored.contains("PRIVATE KEY"), "{stored}");
    assert_eq!(settings, before);
    let debug = format!("{settings:?} {private:?}");
    assert!(!debug.contains("Bearer abc") && !debug.contains("PRIVATE KEY"), "{debug}");
}

#[test]
fn what_is_shown_hides_values_and_can_be_applied_again() {
    let mut stored = settings(&full());
    stored.tls.client_key = Some("-----BEGIN PRIVATE KEY-----".to_owned());
    let shown = serde_json::to_value(stored.shown()).unwrap();
    let text = shown.to_string();
    assert!(!text.contains("Bearer abc") && !text.contains("PRIVATE KEY"), "{text}");

    let before = stored.clone();
    assert_eq!(stored.apply(shown.as_object().unwrap()), []);

    assert_eq!(stored, before);
}
