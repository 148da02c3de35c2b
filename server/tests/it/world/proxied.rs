//! Through a forward proxy: who is connected to stays our decision, unless the operator says
//! otherwise.

use std::sync::{Arc, Mutex, atomic::AtomicUsize};

use snaphook::{
    domain::outcome::Plain,
    world::{World, proxy::ProxySettings, real::RealWorld},
};
use tokio::{
    io::{AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_util::task::AbortOnDropHandle;

use super::{failed, names, policy, post, status, told, with_authority, world_with};
use crate::support::{
    certificates::Authority,
    receiver::{Receiver, Scripted, Step, accept, answer, read_request},
};

/// A proxy that connects everything to 127.0.0.1, whatever it is asked for.
struct Proxy {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
    _task: AbortOnDropHandle<()>,
}

impl Proxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://me:secret@{}", listener.local_addr().unwrap());
        let heads = Arc::new(Mutex::new(Vec::new()));
        let log = heads.clone();
        let task = accept(listener, Arc::new(AtomicUsize::new(0)), move |mut stream, _| {
            let log = log.clone();
            async move {
                let head = String::from_utf8(read_request(&mut stream).await.unwrap()).unwrap();
                let authority = head.split(' ').nth(1).unwrap();
                let port: u16 = authority.rsplit(':').next().unwrap().parse().unwrap();
                log.lock().unwrap().push(head);
                let mut onward = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut onward).await;
            }
        });
        Self { url, heads, _task: task }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn behind(proxy: &str, guards: bool, addresses: &[&str]) -> RealWorld {
    world_with(|settings| {
        settings.proxy = Some(ProxySettings::parse(proxy, guards).unwrap());
        settings.resolver = names(addresses);
        settings.policy = Arc::new(policy(&[]));
    })
}

#[tokio::test]
async fn the_proxy_is_told_the_judged_address_and_the_receiver_the_name() {
    let root = Authority::new("test root");
    let tls = root.issue("hooks.example", |_| {}).server(&["h2", "http/1.1"], None);
    let secure = Receiver::listen("127.0.0.1:0", Some(tls), |_| answer(200, "")).await;
    let plain = Receiver::start(|_| answer(200, "")).await;
    for receiver in [&secure, &plain] {
        let proxy = Proxy::start().await;
        let world = behind(&proxy.url, false, &["93.184.216.34"]);
        let url = receiver.url_at("hooks.example", "/");
        let sent = world.send(with_authority(&url, root.pem())).await;

        assert_eq!(told(&sent), "200", "{:?}", sent.result);
        let port = receiver.address.port();
        let expected = format!(
            "CONNECT 93.184.216.34:{port} HTTP/1.1\r\nHost: 93.184.216.34:{port}\r\n\
             Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n"
        );
        assert_eq!(proxy.heads(), [expected]);
        assert_eq!(sent.address.unwrap().to_string(), format!("93.184.216.34:{port}"));
    }
    let got = plain.requests().remove(0);
    assert_eq!(got.headers["host"], format!("hooks.example:{}", plain.address.port()));
    assert_eq!(got.path, "/");
    assert!(!got.headers.contains_key("proxy-authorization"), "that is for the proxy alone");
}

#[tokio::test]
async fn a_forbidden_address_does_not_reach_the_proxy() {
    let proxy = Proxy::start().await;
    for (addresses, url) in [
        (["93.184.216.34", "10.0.0.1"], "http://hooks.example/"),
        (["93.184.216.34", "93.184.216.34"], "http://10.0.0.1/"),
    ] {
        let world = behind(&proxy.url, false, &addresses);
        assert_eq!(told(&post(&world, url).await), "blocked_private", "{url}");
    }
    assert!(proxy.heads().is_empty());
}

#[tokio::test]
async fn a_proxy_that_guards_is_told_the_name_and_nobody_is_asked_for_addresses() {
    let receiver = Receiver::start(|_| answer(200, "")).await;
    let proxy = Proxy::start().await;
    let world = behind(&proxy.url, true, &["10.0.0.1"]);

    let sent = post(&world, &receiver.url_at("hooks.example", "/")).await;

    assert_eq!(status(&sent), 200);
    let port = receiver.address.port();
    assert!(proxy.heads()[0].starts_with(&format!("CONNECT hooks.example:{port} ")));
    assert_eq!(sent.address, None, "only the proxy knows");
    assert!(sent.timings.dns.is_zero());
    for literal in ["http://10.0.0.1/", "http://[::1]/", "http://localhost/"] {
        assert!(told(&post(&world, literal).await).starts_with("blocked_"), "{literal}");
    }
}

#[tokio::test]
async fn a_proxy_that_refuses_or_fails_is_named_as_the_cause() {
    for (reply, detail) in [
        ("HTTP/1.1 403 Forbidden\r\n\r\n", "403"),
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "egress.proxy"),
        ("HTTP/1.0 502 Bad Gateway\r\n\r\n", "502"),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "HTTP"),
        ("HTTP/1.1 200", "ended"),
        (&"x".repeat(20_000), "8192"),
    ] {
        let proxy = Scripted::start([Step::Read, Step::send(reply)]).await;
        let url = format!("http://me:secret@{}", proxy.address);
        let world = behind(&url, false, &["93.184.216.34"]);
        let error = failed(post(&world, "http://hooks.example/").await, Plain::Proxy);
        assert!(error.detail.contains(detail), "{error}");
        assert!(!error.detail.contains("secret"), "{error}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let world = behind(&format!("http://{closed}"), false, &["93.184.216.34"]);
    failed(post(&world, "http://hooks.example/").await, Plain::Proxy);
}
