//! No connection reaches what the guard forbids, whatever name, answer or redirect leads there.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Response;
use snaphook::{
    domain::outcome::Plain,
    world::{Request, World, guard::Policy, resolver::ResolverKind},
};

use super::{failed, names, policy, post, request, status, told, world, world_with};
use crate::support::receiver::{Receiver, answer};

#[tokio::test]
async fn a_forbidden_address_is_never_connected_to_however_it_is_spelled() {
    let forbidden = Receiver::listen("127.0.0.2:0", None, |_| answer(200, "")).await;
    let port = forbidden.address.port();
    for (addresses, host, expected, why) in [
        (vec!["127.0.0.2"], "evil.example", "blocked_loopback", "a name"),
        (vec!["127.0.0.1", "127.0.0.2"], "evil.example", "blocked_loopback", "a mixed answer"),
        (vec!["1.1.1.1", "127.0.0.2"], "evil.example", "blocked_loopback", "public and private"),
        (vec!["127.0.0.1"], "127.0.0.2", "blocked_loopback", "a literal"),
        (vec!["127.0.0.1"], "[::ffff:7f00:2]", "invalid_request", "IPv4 in IPv6 clothes"),
        (vec!["127.0.0.1"], "[::1]", "blocked_loopback", "IPv6"),
        (vec!["::ffff:127.0.0.2"], "evil.example", "blocked_loopback", "the same by name"),
        (vec!["127.0.0.1"], "2130706434", "invalid_request", "a number"),
        (vec!["127.0.0.1"], "0x7f.0.0.2", "invalid_request", "hexadecimal"),
        (vec!["127.0.0.1"], "0177.2", "invalid_request", "octal and short"),
        (vec!["127.0.0.2"], "localhost", "blocked_name", "a private name"),
        (vec!["169.254.169.254"], "evil.example", "blocked_metadata", "a cloud's metadata"),
    ] {
        let world = world_with(|settings| settings.resolver = names(&addresses));
        let sent = post(&world, &format!("http://{host}:{port}/")).await;
        assert_eq!(told(&sent), expected, "{host} {addresses:?}: {why}");
        assert_eq!(sent.address, None, "{host}: {why}");
    }
    let world = world_with(|settings| {
        settings.resolver = ResolverKind::System;
        settings.policy = Arc::new(policy(&[]));
    });
    let sent = post(&world, &format!("http://localhost:{port}/")).await;
    assert_eq!(told(&sent), "blocked_name");
    assert_eq!(forbidden.connections(), 0);
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_an_answer_and_not_followed() {
    let forbidden = Receiver::listen("127.0.0.2:0", None, |_| answer(200, "")).await;
    let location = forbidden.url("/secret");
    for code in [301, 302, 303, 307, 308] {
        let location = location.clone();
        let receiver = Receiver::start(move |_| {
            let builder = Response::builder().status(code).header("location", &location);
            builder.body("".into()).unwrap()
        })
        .await;
        let sent = post(&world(), &receiver.url("/")).await;
        assert_eq!(status(&sent), code);
        assert_eq!(receiver.requests().len(), 1);
    }
    assert_eq!(forbidden.connections(), 0);
}

/// The first answer is allowed, all later ones lead to `then`.
fn rebinding(then: &'static str) -> (ResolverKind, Arc<AtomicUsize>) {
    let questions = Arc::new(AtomicUsize::new(0));
    let count = questions.clone();
    let resolver = ResolverKind::Static(Arc::new(move |_| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        let address: IpAddr = if first { "127.0.0.1" } else { then }.parse().unwrap();
        vec![address]
    }));
    (resolver, questions)
}

#[tokio::test]
async fn a_name_that_changes_its_answer_is_judged_anew_with_each_connection() {
    let receiver = Receiver::start(|_| answer(200, "")).await;
    let port = receiver.address.port();
    let forbidden = Receiver::listen(&format!("127.0.0.2:{port}"), None, |_| answer(200, "")).await;
    let url = receiver.url_at("rebind.example", "/");
    let (resolver, questions) = rebinding("127.0.0.2");
    let world = world_with(|settings| settings.resolver = resolver);

    assert_eq!(told(&post(&world, &url).await), "200");
    assert_eq!(told(&post(&world, &url).await), "200", "a kept connection stays where it is");
    assert_eq!(questions.load(Ordering::SeqCst), 1);

    world.forget(&url);
    assert_eq!(told(&post(&world, &url).await), "blocked_loopback");
    assert_eq!(forbidden.connections(), 0);
}

#[tokio::test]
async fn a_kept_connection_stays_with_its_judged_address_no_longer_than_its_age() {
    let receiver = Receiver::start(|_| answer(200, "")).await;
    let url = receiver.url_at("rebind.example", "/");
    let (resolver, _) = rebinding("169.254.169.254");
    let world = world_with(|settings| {
        settings.resolver = resolver;
        settings.age = Duration::from_millis(300);
    });

    let began = tokio::time::Instant::now();
    let end = loop {
        let told = told(&post(&world, &url).await);
        if told != "200" {
            break told;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "never judged anew");
    };

    assert_eq!(end, "blocked_metadata");
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_new_policy_rules_at_once_and_closes_what_the_old_one_allowed() {
    let receiver = Receiver::start(|_| answer(200, "")).await;
    let url = receiver.url("/");
    let world = world();
    assert_eq!(told(&post(&world, &url).await), "200");

    world.set_policy(&policy(&[])).unwrap();
    assert_eq!(told(&post(&world, &url).await), "blocked_loopback");
    world.set_policy(&policy(&["127.0.0.1"])).unwrap();
    assert_eq!(told(&post(&world, &url).await), "200");
    assert_eq!(receiver.connections(), 2, "not the old connection");
}

#[tokio::test]
async fn reach_internal_opens_loopback_for_its_own_endpoint_alone() {
    let receiver = Receiver::start(|_| answer(200, "")).await;
    let url = receiver.url_at("hooks.example", "/");
    let world = world_with(|settings| settings.policy = Arc::new(policy(&[])));
    let inside = Request { internal: true, ..request(&url) };

    assert_eq!(status(&world.send(inside).await), 200);
    assert_eq!(told(&post(&world, &url).await), "blocked_loopback", "not over its connection");
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn this_hosts_own_addresses_are_refused() {
    let own = snaphook::world::own_addresses::own_addresses().unwrap();
    let world = world_with(|settings| settings.policy = Arc::new(Policy::default()));
    for address in own.iter().filter(|address| address.is_ipv4()) {
        let sent = post(&world, &format!("http://{address}:8080/")).await;
        assert!(told(&sent).starts_with("blocked_"), "{address}: {}", told(&sent));
    }
}

#[tokio::test]
async fn ports_and_plain_http_are_judged_before_anybody_is_asked() {
    let (resolver, questions) = rebinding("127.0.0.1");
    let strict = Policy::new(&["127.0.0.1"], &[] as &[&str], &["443"], true).unwrap();
    let world = world_with(|settings| {
        settings.resolver = resolver;
        settings.policy = Arc::new(strict);
    });
    for (url, expected) in [
        ("https://hooks.example:22/", "blocked_port"),
        ("http://hooks.example:443/", "blocked_insecure"),
    ] {
        assert_eq!(told(&post(&world, url).await), expected, "{url}");
    }
    assert_eq!(questions.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_url_that_is_not_in_its_stored_form_is_not_connected_to() {
    let receiver = Receiver::start(|_| answer(200, "")).await;
    let port = receiver.address.port();
    for url in [
        format!("http://127.0.0.1:{port}"),
        format!("HTTP://127.0.0.1:{port}/"),
        format!("http://good.example@127.0.0.1:{port}/"),
        "http://[fe80::1%25eth0]/".to_owned(),
        "http://127.0.0.1:0/".to_owned(),
        "no url".to_owned(),
    ] {
        failed(post(&world(), &url).await, Plain::InvalidRequest);
    }
    assert_eq!(receiver.connections(), 0);
}
