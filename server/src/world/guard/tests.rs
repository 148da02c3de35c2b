use proptest::prelude::*;

use super::*;

const NONE: &[&str] = &[];
const PORTS: &[&str] = &["80", "443", "1024-65535"];

fn policy(allow: &[&str], deny: &[&str]) -> Policy {
    Policy::new(allow, deny, PORTS, false).unwrap()
}

fn url(text: &str) -> EndpointUrl {
    EndpointUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The verdict of `check_address` for a name, or of a literal when host and address are one.
fn verdict(policy: &Policy, host: &str, address: &str, internal: bool) -> Option<Verdict> {
    let checked = policy.check_address(host, address.parse().unwrap(), 443, internal);
    checked.err().map(|blocked| blocked.verdict)
}

#[derive(serde::Deserialize)]
struct Case {
    url: String,
    verdict: String,
    why: String,
    stored: Option<String>,
}

#[test]
fn every_published_url_gets_its_verdict_and_stored_form() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../../../tests/cases/urls.json")).unwrap();
    assert_eq!(cases.len(), 60, "the cases are there");
    for Case { url, verdict, why, stored } in cases {
        let judged = EndpointUrl::parse(&url).map_err(|error| error.to_string()).and_then(|url| {
            Policy::default().check_url(&url, false).map_err(|blocked| blocked.to_string())?;
            Ok(url.to_string())
        });
        match verdict.as_str() {
            "accept" => assert_eq!(judged, Ok(stored.unwrap()), "{why}"),
            _ => assert!(judged.is_err(), "{url} passed: {why}"),
        }
    }
}

#[test]
fn names_without_a_public_meaning_are_refused_unless_internal_or_allowed() {
    for host in [
        "localhost",
        "a.localhost",
        "db.internal",
        "printer.local",
        "router.home.arpa",
        "metadata",
        "x.onion",
        "localhost.localdomain",
    ] {
        let url = url(&format!("https://{host}/"));
        let blocked = Policy::default().check_url(&url, false).expect_err(host);
        assert_eq!(blocked.reason().name(), "blocked_name");
        assert!(Policy::default().check_url(&url, true).is_ok(), "{host}, internal");
        assert!(policy(&[host], NONE).check_url(&url, false).is_ok(), "{host}, allowed");
        assert_eq!(verdict(&Policy::default(), host, "8.8.8.8", false), Some(Verdict::Name));
    }
    for host in ["notlocalhost.example", "internal.example", "local.example.com"] {
        assert!(Policy::default().check_url(&url(&format!("https://{host}/")), false).is_ok());
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let lan =
        policy(&["10.1.0.0/16", "*.corp.example", "::1"], &["10.1.9.0/24", "bad.corp.example"]);
    let host = policy(&["hooks.corp.example"], &["8.8.8.8"]);
    for (policy, host, address, internal, expected, why) in [
        (&lan, "a.example", "10.1.2.3", false, None, "an allowed range"),
        (&lan, "a.example", "::ffff:10.1.2.3", false, None, "the same, mapped"),
        (&lan, "a.example", "64:ff9b::a01:203", false, Some(Verdict::Private), "not by NAT64"),
        (&lan, "a.example", "10.2.2.3", false, Some(Verdict::Private), "outside of it"),
        (&lan, "a.example", "10.1.9.3", true, Some(Verdict::Denied), "deny wins over all"),
        (&lan, "x.corp.example", "192.168.0.9", false, None, "below an allowed name"),
        (&lan, "corp.example", "192.168.0.9", false, Some(Verdict::Private), "not the name itself"),
        (&lan, "xcorp.example", "192.168.0.9", false, Some(Verdict::Private), "another name"),
        (&lan, "bad.corp.example", "9.9.9.9", false, Some(Verdict::Denied), "a denied name"),
        (
            &lan,
            "x.corp.example",
            "169.254.169.254",
            false,
            Some(Verdict::Metadata),
            "never by name",
        ),
        (&lan, "::1", "::1", false, None, "an allowed address"),
        (&host, "hooks.corp.example", "10.0.0.1", false, None, "an allowed name"),
        (&host, "hooks.corp.example", "64:ff9b::808:808", false, Some(Verdict::Denied), "NAT64"),
        (&host, "a.example", "::ffff:8.8.8.8", false, Some(Verdict::Denied), "mapped"),
    ] {
        assert_eq!(verdict(policy, host, address, internal), expected, "{host} {address}: {why}");
    }
}

#[test]
fn where_a_private_range_is_allowed_private_names_are_judged_by_their_addresses() {
    let lan = policy(&["10.0.0.0/8"], NONE);
    assert!(lan.check_url(&url("https://db.internal/"), false).is_ok(), "it may lie in there");
    assert_eq!(verdict(&lan, "db.internal", "10.1.2.3", false), None, "and it does");
    assert_eq!(verdict(&lan, "db.internal", "8.8.8.8", false), Some(Verdict::Name), "or not");
    let other = policy(&["9.0.0.0/8", "hooks.example"], NONE);
    assert!(other.check_url(&url("https://db.internal/"), false).is_err(), "a public range");
}

#[test]
fn internal_reach_opens_private_ranges_and_nothing_else() {
    let policy = Policy::default().with_own_addresses(["192.168.7.7".parse().unwrap()]);
    for (address, expected) in [
        ("127.0.0.1", None),
        ("::1", None),
        ("10.0.0.1", None),
        ("192.168.7.7", None),
        ("100.64.0.1", None),
        ("fd12::1", None),
        ("8.8.8.8", None),
        ("64:ff9b::a00:1", Some(Verdict::Private)),
        ("169.254.169.254", Some(Verdict::Metadata)),
        ("fd00:ec2::254", Some(Verdict::Metadata)),
        ("100.100.100.200", Some(Verdict::Metadata)),
        ("168.63.129.16", Some(Verdict::Platform)),
        ("169.254.1.1", Some(Verdict::LinkLocal)),
        ("0.0.0.0", Some(Verdict::Unspecified)),
        ("::", Some(Verdict::Unspecified)),
        ("224.0.0.1", Some(Verdict::Multicast)),
        ("255.255.255.255", Some(Verdict::Reserved)),
    ] {
        assert_eq!(verdict(&policy, "app", address, true), expected, "{address}");
        assert_eq!(verdict(&policy, address, address, true), expected, "{address} as a literal");
    }
}

#[test]
fn own_addresses_are_refused_to_customers_in_every_form() {
    let own = ["198.41.0.4".parse().unwrap(), "2a01:4f8::1".parse().unwrap()];
    let policy = Policy::default().with_own_addresses(own);
    for address in ["198.41.0.4", "::ffff:198.41.0.4", "64:ff9b::c629:4", "2a01:4f8::1"] {
        assert_eq!(verdict(&policy, "a.example", address, false), Some(Verdict::Own), "{address}");
    }
    assert_eq!(verdict(&policy, "a.example", "198.41.0.5", false), None, "a neighbor");
}

#[test]
fn ports_and_plain_http_are_the_operators_to_allow() {
    for (text, ok) in [
        ("https://example.com:80/", true),
        ("https://example.com:1024/", true),
        ("https://example.com:22/", false),
        ("https://example.com:1023/", false),
        ("https://8.8.8.8:6/", false),
    ] {
        assert_eq!(Policy::default().check_url(&url(text), false).is_ok(), ok, "{text}");
        assert_eq!(Policy::default().check_url(&url(text), true).is_ok(), ok, "{text}, internal");
    }
    let https = Policy::new(NONE, NONE, PORTS, true).unwrap();
    for host in ["example.com", "8.8.8.8"] {
        let plain = url(&format!("http://{host}/"));
        assert_eq!(https.check_url(&plain, false).unwrap_err().verdict, Verdict::Insecure);
        assert!(https.check_url(&plain, true).is_ok(), "services of our own may speak plainly");
    }
}

#[test]
fn a_refusal_says_what_opens_the_address_and_nothing_that_does_not() {
    for (host, internal, part) in [
        ("10.0.0.7", false, "unless the operator sets reach to internal"),
        ("169.254.169.254", false, "nothing opens this one but its own range"),
        ("169.254.169.254", true, "nothing opens this one but its own range"),
        ("64:ff9b::a00:7", true, "nothing opens this one but its own range"),
        ("192.0.2.1", false, "nothing opens this one but its own range"),
    ] {
        let refused = Policy::default().check_address(host, host.parse().unwrap(), 443, internal);
        assert!(refused.unwrap_err().sentence.contains(part), "{host}, internal: {internal}");
    }
}

#[test]
fn a_refusal_names_host_address_and_rule() {
    let blocked =
        Policy::default().check_address("a.example", "10.0.0.1".parse().unwrap(), 443, false);
    let sentence = blocked.unwrap_err().to_string();
    for part in ["a.example", "10.0.0.1", "private", "RFC 1918"] {
        assert!(sentence.contains(part), "{sentence}");
    }
    let denied = policy(NONE, &["8.8.8.0/24"]);
    let blocked = denied.check_url(&url("https://8.8.8.8/"), false).unwrap_err();
    assert!(blocked.sentence.contains("8.8.8.0/24"), "{blocked}");
}

#[test]
fn entries_that_cannot_be_meant_are_refused_with_a_remedy() {
    for (allow, deny, port, expected) in [
        ("0.0.0.0/0", "", "80", "guard.allow: \"0.0.0.0/0\" would open"),
        ("::/0", "", "80", "/7 or longer"),
        ("10.1.2.3/8", "", "80", "write 10.0.0.0/8"),
        ("10.0.0", "", "80", "write 10.0.0.0"),
        ("*", "", "80", "example.com"),
        ("a*.example.com", "", "80", "*.example.com"),
        ("", "::ffff:10.0.0.0/104", "80", "write it as IPv4"),
        ("", "10.0.0.0/33", "80", "guard.deny"),
        ("", "http://example.com", "80", "guard.deny"),
        ("", "", "0", "guard.ports"),
        ("", "", "9-8", "guard.ports"),
        ("", "", "70000", "1 to 65535"),
        ("", "", "", "guard.ports"),
    ] {
        let list = |entry: &'static str| [entry].into_iter().filter(|entry| !entry.is_empty());
        let list = |entry| list(entry).collect::<Vec<_>>();
        let errors = Policy::new(&list(allow), &list(deny), &list(port), false).unwrap_err();
        assert_eq!(errors.len(), 1);
        assert!(errors[0].to_string().contains(expected), "{}", errors[0]);
    }
    let all = Policy::new(&["0.0.0.0/0"], &["*"], &["0"], false).unwrap_err();
    assert_eq!(all.len(), 3, "all mistakes are told at once");
    assert!(Policy::new(NONE, &["0.0.0.0/0", "::/0"], PORTS, false).is_ok(), "deny may be wide");
}

proptest! {
    /// With no lists, what the policy lets through is what the table calls public.
    #[test]
    fn the_default_policy_is_the_table(bits: u128, v4: u32) {
        for address in [IpAddr::from(bits.to_be_bytes()), IpAddr::from(v4.to_be_bytes())] {
            let checked = Policy::default().check_address("a.example", address, 443, false);
            prop_assert_eq!(checked.is_ok(), judge(address) == Verdict::Public);
        }
    }

    /// No entry of the settings panics.
    #[test]
    fn any_entry_is_read_or_refused(entry in "[0-9a-f:./*%-]{0,20}|\\PC{0,20}") {
        let list = [entry.as_str()];
        let _ = Policy::new(&list, &list, &list, true);
    }
}
