use proptest::prelude::*;

use super::*;

#[test]
fn the_stored_form_is_plain() {
    for (text, stored, why) in [
        ("https://example.com", "https://example.com/", "a path is added"),
        ("HTTPS://Example.COM/Hook", "https://example.com/Hook", "case, but of the path"),
        ("https://hooks.test./x", "https://hooks.test/x", "one final dot is dropped"),
        ("https://example.com:443/", "https://example.com/", "the default port is dropped"),
        ("http://example.com:443/", "http://example.com:443/", "not another's"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/", "UTS 46"),
        ("http://8.8.8.8/", "http://8.8.8.8/", "an address"),
        ("http://[2606:4700:0:0::1]/", "http://[2606:4700::1]/", "an address in short form"),
        ("https://my_app.example/", "https://my_app.example/", "an underscore"),
        ("https://example.com/a?b=\"{|}'", "https://example.com/a?b=%22{|}%27", "odd query"),
        ("https://example.com?a", "https://example.com/?a", "query without path"),
    ] {
        let url = EndpointUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(url.as_str(), stored, "{text}: {why}");
    }
}

#[test]
fn what_two_parsers_might_read_differently_is_refused_by_name() {
    for (text, expected) in [
        ("", "empty"),
        ("https://example.com/ x", "contains ' '"),
        (" https://example.com/", "contains ' '"),
        ("https://example.com/\u{a0}", "percent-encoded"),
        ("https://example.com/a\\b", "percent-encoded"),
        ("https://example.com\t/", "contains '\\t'"),
        ("ftp://example.com/", "must begin with https://"),
        ("//example.com/", "must begin with https://"),
        ("https:////example.com/", "no host"),
        ("https://:443/", "no host"),
        ("https://user:password@example.com/", "headers"),
        ("https://@example.com/", "headers"),
        ("https://example.com/#", "fragment"),
        ("http://[fe80::1%25eth0]/", "contains %"),
        ("http://hooks%2eexample/", "contains %"),
        ("http://134744072/", "address 8.8.8.8"),
        ("http://8.8.8.8./", "address 8.8.8.8"),
        ("http://8.8.8.010/", "address 8.8.8.8"),
        ("http://1.2.3.4.5/", "no host"),
        ("http://[hooks.example]/", "no host"),
        ("https://hooks.test../", "between two dots"),
        ("https://-a.example/", "hyphen"),
        ("https://a!b.example/", "cannot be part of a name"),
        ("https://example.com:0/", "1 to 65535"),
        ("https://example.com:65536/", "1 to 65535"),
        ("https://example.com:8x/", "1 to 65535"),
    ] {
        let error = EndpointUrl::parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let label = format!("https://{}.com/", "a".repeat(LABEL_BYTES_MAX + 1));
    assert!(EndpointUrl::parse(&label).is_err());
    let long = format!("https://example.com/{}", "é".repeat(URL_BYTES_MAX / 4));
    assert!(
        matches!(EndpointUrl::parse(&long), Err(UrlError::TooLong(_))),
        "the stored form counts"
    );
}

/// Texts that are nearly URLs: every piece is one that has once fooled a parser.
fn nearly_a_url() -> impl Strategy<Value = String> {
    let scheme = prop::sample::select(vec![
        "https://",
        "http://",
        "HTTP://",
        "https:",
        "https:/",
        "https:///",
        "ftp://",
        "",
    ]);
    let piece = prop::sample::select(vec![
        "example.com",
        "127.0.0.1",
        "[::1]",
        "[::ffff:1.2.3.4]",
        "0x7f",
        "１２７",
        "。",
        ".",
        ":",
        "80",
        "0",
        "@",
        "%00",
        "%2e",
        "/",
        "\\",
        "?",
        "#",
        "..",
        "a=b",
        "é",
        "ß",
        "xn--",
        "-",
        "_",
        "[",
        "]",
        "|",
        "{",
        "}",
        "\"",
        "'",
        "<",
        "^",
        "`",
        "~",
        "\u{ad}",
        "\u{200d}",
    ]);
    (scheme, prop::collection::vec(piece, 0..8)).prop_map(|(s, p)| s.to_owned() + &p.concat())
}

fn holds(text: &str) -> Result<(), TestCaseError> {
    let Ok(url) = EndpointUrl::parse(text) else { return Ok(()) };
    let again = EndpointUrl::parse(url.as_str());
    prop_assert_eq!(again.as_ref(), Ok(&url), "stable");
    let uri: http::Uri = url.as_str().parse().unwrap();
    let theirs = uri.host().unwrap().trim_matches(['[', ']']);
    prop_assert_eq!(theirs, url.host());
    prop_assert_eq!(uri.port_u16().unwrap_or(if url.https { 443 } else { 80 }), url.port());
    prop_assert_eq!(theirs.parse().ok(), url.address());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// No text panics, and what is accepted reads the same for everybody.
    #[test]
    fn accepted_urls_are_stable_and_mean_one_host(text in nearly_a_url()) {
        holds(&text)?;
    }

    #[test]
    fn any_host_is_refused_or_means_one(host in "\\PC{0,12}", tail in "\\PC{0,12}") {
        holds(&format!("https://{host}/{tail}"))?;
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        holds(&text)?;
    }
}
