//! What is fuzzed: every parser of bytes that others write. A target must not panic, and what it
//! lets pass must keep the promises that the rest of the program builds on.

use bytes::Bytes;
use serde_json::Value;
use snaphook::{
    domain::{
        duration,
        endpoint::EndpointSettings,
        event_type::{EventType, Pattern},
        filter::Filter,
        final_statuses::FinalStatuses,
        format::{EventView, Format, render},
        id::{DeliveryId, EventId},
        outcome::{Outcome, classify},
        own_headers::OwnHeaders,
        retry_after::retry_after,
        schema::Schema,
        tenant::TenantId,
        time::Timestamp,
        url::EndpointUrl,
    },
    store::page::Page,
    world::guard::Policy,
};
use snaphook_signature::{
    Clock, Received, Scheme, Secret, Verifier, verify_sha256_hex, verify_standard, verify_t_v1,
};

/// Takes any bytes, and panics if a promise is broken.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const ALL: &[(&str, Target)] = &[
    ("answer", answer),
    ("endpoint", endpoint),
    ("filter", filter),
    ("format", format),
    ("guard", guard),
    ("schema", schema),
    ("scheme", scheme),
    ("secret", secret),
    ("signature", signature),
    ("texts", texts),
    ("url", url),
];

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

/// The first line, and the rest.
fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

/// A URL that is taken is plain, stable, and means one host to whoever reads it.
fn url(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(url) = EndpointUrl::parse(text) else { return };
    let stored = url.as_str();
    assert_eq!(EndpointUrl::parse(stored).as_ref().map(EndpointUrl::as_str), Ok(stored));
    assert!(stored.is_ascii() && !stored.contains(['#', '@', '\\', ' ']), "{stored}");
    let rest = stored.split_once("://").expect("a scheme").1;
    let host = rest.split(['/', '?']).next().expect("a host");
    assert!(
        host.starts_with(url.host().trim_matches(['[', ']'])) || host.starts_with('['),
        "{stored}"
    );
    assert!(!url.host().ends_with('.'), "{stored}");
    let _ = Policy::default().check_url(&url, false);
}

/// What the guard is told, and what it is asked.
fn guard(bytes: &[u8]) {
    let (list, host) = halves(bytes);
    let (Ok(list), Ok(host)) = (std::str::from_utf8(list), std::str::from_utf8(host)) else {
        return;
    };
    let entries: Vec<&str> = list.split(',').collect();
    let none: [&str; 0] = [];
    let strict = Policy::new(&none, &entries, &none, false);
    if let Ok(address) = host.parse() {
        let refused = |policy: &Policy| policy.check_address(host, address, 443, false).is_err();
        if let Ok(policy) = &strict {
            assert!(refused(policy) || !refused(&Policy::default()), "{list} {host}");
        }
        if let Ok(policy) = Policy::new(&entries, &none, &none, false) {
            let _ = policy.check_address(host, address, 443, true);
        }
    }
}

/// A status and a `Retry-After` never ask for more than a day, and never for less than nothing.
fn answer(bytes: &[u8]) {
    let (status, value) = halves(bytes);
    let asked = retry_after(value, NOW);
    assert!(asked.is_none_or(|pause| pause.as_secs() <= 86_400), "{asked:?}");
    let status = std::str::from_utf8(status).ok().and_then(|text| text.parse().ok());
    let status = status.unwrap_or(503);
    let outcome = classify(status, Some(value), &FinalStatuses::default(), NOW);
    assert_eq!(matches!(outcome, Outcome::Delivered), status / 100 == 2, "{status}");
}

/// An endpoint that passes is shown and can be read again; nothing in its headers breaks a line.
fn endpoint(bytes: &[u8]) {
    let Ok(Value::Object(change)) = serde_json::from_slice(bytes) else { return };
    let mut settings = EndpointSettings::default();
    let problems = settings.apply(&change);
    if !problems.is_empty() || !settings.validate().is_empty() {
        return;
    }
    for (name, value) in settings.headers.iter() {
        let breaks =
            |text: &str| text.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 127);
        assert!(!breaks(name) && !breaks(value), "{name}: {value}");
    }
    let text = serde_json::to_string(&settings).expect("settings are JSON");
    let again: EndpointSettings = serde_json::from_str(&text).expect("what was written is read");
    assert_eq!(again, settings);
    let _ = OwnHeaders::default().merge(&change);
}

/// A filter that is read asks any payload, in bounded time.
fn filter(bytes: &[u8]) {
    let (source, payload) = halves(bytes);
    let Ok(source) = serde_json::from_slice::<Value>(source) else { return };
    let Ok(filter) = Filter::parse(&source) else { return };
    let wanted = filter.matches_bytes(payload);
    let opposite = Filter::parse(&serde_json::json!({ "not": source }));
    if let (Ok(opposite), Ok(payload)) = (opposite, serde_json::from_slice::<Value>(payload)) {
        assert_eq!(opposite.matches(&payload), !wanted, "{source} of {payload}");
    }
}

/// A schema that is taken judges any payload, in bounded time.
fn schema(bytes: &[u8]) {
    let (source, payload) = halves(bytes);
    let Ok(source) = serde_json::from_slice::<Value>(source) else { return };
    let Ok(schema) = Schema::compile(&source) else { return };
    let problems = schema.check(payload);
    assert!(problems.len() <= 100, "{}", problems.len());
}

/// Whatever was emitted, a body is rendered, the same each time.
fn format(bytes: &[u8]) {
    let (event_type, payload) = halves(bytes);
    let payload = Bytes::copy_from_slice(payload);
    let event_type = String::from_utf8_lossy(event_type);
    let event = EventView {
        id: EventId(1 << 40),
        tenant: "acme",
        event_type: &event_type,
        version: None,
        occurred_at: None,
        payload: &payload,
        content_type: None,
    };
    for format in [Format::Event, Format::Thin, Format::Standard, Format::Cloudevents, Format::Raw]
    {
        let body = render(format, &event, "https://hooks.example").body;
        assert_eq!(body, render(format, &event, "https://hooks.example").body);
        if EventType::parse(&event_type).is_ok() && format != Format::Raw {
            serde_json::from_slice::<&serde_json::value::RawValue>(&body).expect("a JSON body");
        }
    }
}

/// No header is genuine by chance, and none makes a verifier panic.
fn signature(bytes: &[u8]) {
    let (header, rest) = halves(bytes);
    let (time, body) = halves(rest);
    let headers: Vec<(&str, &[u8])> = vec![
        ("webhook-id", b"evt_1".as_slice()),
        ("webhook-timestamp", time),
        ("webhook-signature", header),
        ("x-signature", header),
    ];
    let request = Received::new(&headers, body);
    let secret = Secret::new_hmac(&[7; 32]);
    let clock = Clock::at(NOW.seconds());
    assert!(verify_standard(&request, "webhook", &[secret], clock).is_err());
    assert!(verify_t_v1(&request, "x-signature", &[b"a key"], clock).is_err());
    assert!(verify_sha256_hex(&request, "x-signature", &[b"a key"]).is_err());
}

/// No request of any provider is genuine by chance, and no scheme of one's own, secret or request
/// makes a verifier panic. The first line is the scheme's name or its TOML, then a header a line
/// up to an empty one, then the body.
fn scheme(bytes: &[u8]) {
    let (first, rest) = halves(bytes);
    let Ok(first) = std::str::from_utf8(first) else { return };
    let toml = first.replace('\r', "\n");
    let known = Scheme::named(first).is_ok();
    let Ok(scheme) =
        Scheme::named(first).or_else(|_| Scheme::from_toml("x", &toml).map(Into::into))
    else {
        return;
    };
    let mut headers: Vec<(&str, &[u8])> = Vec::new();
    let mut body = rest;
    loop {
        let (line, more) = halves(body);
        body = more;
        if line.is_empty() {
            break;
        }
        let at = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let name = std::str::from_utf8(&line[..at]).unwrap_or_default();
        headers.push((name, line.get(at + 1..).unwrap_or_default()));
    }
    let request = Received::new(&headers, body).with_url("https://h.example/x?a=b");
    for secret in [SECRET, "71:a9", "00ff", first] {
        let Ok(verifier) = Verifier::new(scheme.clone(), &[secret], Some("key")) else { continue };
        let _ = verifier.need(&request);
        let genuine = verifier.verify(&request, NOW.seconds()).is_ok();
        assert!(!genuine || !known || secret != SECRET, "genuine by chance");
        let _ = verifier.sign(&request, "evt_1", NOW.seconds());
    }
}

/// Nobody has guessed it.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A secret that is taken reads as itself.
fn secret(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for secret in [Secret::parse(text), Secret::parse_pasted(text)].into_iter().flatten() {
        let again = Secret::parse(secret.text()).expect("its own text");
        assert!(again.is_same_key(&secret));
    }
}

/// The short texts of routes and settings.
fn texts(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(duration) = duration::parse(text) {
        assert_eq!(duration::parse(&duration::format(duration)), Ok(duration), "{text}");
    }
    if let (Ok(event_type), Ok(pattern)) = (EventType::parse(text), Pattern::parse(text)) {
        assert!(pattern.matches(&event_type), "{text}");
    }
    if let Ok(id) = text.parse::<DeliveryId>() {
        assert_eq!(id.to_string(), text);
    }
    let _ = TenantId::parse(text);
    let _ = Timestamp::parse(text);
    let _ = Page::<i64>::new("events", Some(text), 50);
}
