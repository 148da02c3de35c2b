//! The delivery client against receivers on loopback: 127.0.0.1 is allowed by the tests' policy,
//! all other addresses are judged as ever.

mod dialing;
mod flooding;
mod guarded;
mod hostile;
mod keeping;
mod lying_names;
mod proxied;
mod second_protocol;
mod tls;
mod wire;

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method};
use snaphook::{
    domain::outcome::Plain,
    world::{
        Request, SendError, Sent, TlsProfile, World, guard::Policy, real::RealWorld,
        resolver::ResolverKind, settings::ClientSettings, tls::Roots,
    },
};

/// A client that may reach 127.0.0.1 on any port; every name stands for that address.
fn world() -> RealWorld {
    world_with(|_| {})
}

fn world_with(adjust: impl FnOnce(&mut ClientSettings)) -> RealWorld {
    let mut settings = ClientSettings::new(Arc::new(policy(&["127.0.0.1"])));
    settings.resolver = names(&["127.0.0.1"]);
    settings.roots = Roots::Bundled; // quicker than reading the system's
    adjust(&mut settings);
    RealWorld::new(settings).unwrap()
}

fn policy(allow: &[&str]) -> Policy {
    Policy::new(allow, &[] as &[&str], &["1-65535"], false).unwrap()
}

/// Every name has these addresses.
fn names(addresses: &[&str]) -> ResolverKind {
    let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
    ResolverKind::Static(Arc::new(move |_| addresses.clone()))
}

fn request(url: &str) -> Request {
    Request {
        method: Method::POST,
        url: url.into(),
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"{\"hello\":\"world\"}"),
        answer_bytes: None,
        timeout: Duration::from_secs(10),
        internal: false,
        tls: None,
    }
}

fn with_authority(url: &str, pem: String) -> Request {
    let tls = TlsProfile { ca: Some(pem), identity: None };
    Request { tls: Some(Arc::new(tls)), ..request(url) }
}

async fn post(world: &RealWorld, url: &str) -> Sent {
    world.send(request(url)).await
}

/// The status, or the name of the reason.
fn told(sent: &Sent) -> String {
    match &sent.result {
        Ok(response) => response.status.to_string(),
        Err(error) => error.reason.to_string(),
    }
}

fn failed(sent: Sent, expected: Plain) -> SendError {
    let error = sent.result.expect_err("no answer");
    assert_eq!(error.reason, expected.into(), "{error}");
    error
}

/// The memory of this process, which is this test's own.
fn megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
}

fn status(sent: &Sent) -> u16 {
    sent.result.as_ref().unwrap_or_else(|error| panic!("{error}")).status
}

#[test]
fn every_reason_is_explained_in_the_documents() {
    let document = include_str!("../../../../docs/reasons.md");
    for plain in Plain::ALL {
        let row = format!("| `{}` |", plain.name());
        assert!(document.contains(&row), "docs/reasons.md has no row for {}", plain.name());
    }
}
