//! Names, addresses and how long they may take.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};

use snaphook::{
    domain::outcome::Plain,
    world::{Request, World, resolver::ResolverKind},
};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{failed, names, policy, post, request, status, told, world, world_with};
use crate::support::receiver::{Receiver, Scripted, Step, answer};

/// A listener whose queue is full: further connections get no answer to their SYN.
async fn black_hole(address: &str) -> (SocketAddr, Vec<TcpStream>, TcpListener) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(address.parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut open = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
    {
        open.push(stream);
        assert!(open.len() < 64, "the queue does not fill");
    }
    (address, open, listener)
}

#[tokio::test]
async fn a_silent_address_costs_a_quarter_second_when_there_is_another() {
    let (hole, _open, _listener) = black_hole("127.0.0.3:0").await;
    let alive = format!("127.0.0.1:{}", hole.port());
    let receiver = Receiver::listen(&alive, None, |_| answer(200, "")).await;
    let world = world_with(|settings| {
        settings.resolver = names(&["127.0.0.3", "127.0.0.1"]);
        settings.policy = Arc::new(policy(&["127.0.0.0/8"]));
    });

    let sent = post(&world, &receiver.url_at("hooks.example", "/")).await;

    assert_eq!(status(&sent), 200);
    assert_eq!(sent.address, Some(receiver.address));
    let connect = sent.timings.connect;
    assert!(
        connect >= Duration::from_millis(240) && connect < Duration::from_millis(900),
        "{connect:?}"
    );
}

#[tokio::test]
async fn a_refusing_address_costs_nothing_when_there_is_another() {
    let receiver = Receiver::start(|_| answer(200, "")).await;
    let world = world_with(|settings| {
        settings.resolver = names(&["127.0.0.4", "127.0.0.1"]);
        settings.policy = Arc::new(policy(&["127.0.0.0/8"]));
    });

    let sent = post(&world, &receiver.url_at("hooks.example", "/")).await;

    assert_eq!(status(&sent), 200);
    assert!(sent.timings.connect < Duration::from_millis(200), "{:?}", sent.timings);
}

#[tokio::test]
async fn nobody_listening_is_told_from_nobody_answering() {
    let (hole, _open, _listener) = black_hole("127.0.0.1:0").await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let world = world_with(|settings| settings.connect_timeout = Duration::from_millis(300));

    let refused = post(&world, &format!("http://{closed}/")).await;
    let error = failed(refused, Plain::ConnectRefused);
    assert!(error.detail.contains("127.0.0.1"), "{error}");

    let silent = post(&world, &format!("http://{hole}/")).await;
    let took = silent.timings.connect;
    failed(silent, Plain::TimeoutConnect);
    assert!(took >= Duration::from_millis(300) && took < Duration::from_millis(900), "{took:?}");
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_a_connection_that_never_came() {
    let receiver = Scripted::start([Step::Hang]).await;
    let world = world_with(|settings| settings.connect_timeout = Duration::from_millis(300));
    let sent = post(&world, &receiver.url("/").replace("http:", "https:")).await;
    // The hand-shake has what is left of the time after the connection was made.
    let both = sent.timings.connect + sent.timings.tls;
    let error = failed(sent, Plain::TimeoutConnect);
    assert!(error.detail.contains("TLS"), "{error}");
    assert!(both >= Duration::from_millis(290), "{both:?}");
}

/// A name server that gives one answer to every question, or none.
pub(super) fn name_server(reply: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut question = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            if let Some(reply) = reply(&question[..length]) {
                socket.send_to(&reply, from).unwrap();
            }
        }
    });
    address
}

/// The question sent back, with a code (RFC 1035, section 4.1.1) and an address if it asks for
/// IPv4.
pub(super) fn reply(question: &[u8], code: u8, address: Option<[u8; 4]>) -> Vec<u8> {
    let name = question[12..].iter().position(|byte| *byte == 0).unwrap();
    let end = 12 + name + 5; // the name, its end, type and class
    let mut reply = question[..end].to_vec();
    reply[2] = 0x81; // an answer
    reply[3] = 0x80 | code; // by one who asks others
    reply[6..12].fill(0); // no records
    let asks_for_a = question[end - 4..end] == [0, 1, 0, 1];
    if let Some(address) = address.filter(|_| asks_for_a) {
        reply[7] = 1;
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]); // A, 60 s
        reply.extend(address);
    }
    reply
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_told_from_name_servers_that_fail() {
    let receiver = Receiver::start(|_| answer(200, "")).await;
    let alive = name_server(|question| Some(reply(question, 0, Some([127, 0, 0, 1]))));
    for (server, expected, why) in [
        (alive, "200", "an address"),
        (name_server(|question| Some(reply(question, 3, None))), "dns_not_found", "NXDOMAIN"),
        (name_server(|question| Some(reply(question, 0, None))), "dns_not_found", "no records"),
        (name_server(|question| Some(reply(question, 2, None))), "dns_failed", "SERVFAIL"),
        (name_server(|question| Some(reply(question, 5, None))), "dns_failed", "REFUSED"),
        (name_server(|_| None), "dns_timeout", "silence"),
    ] {
        let world = world_with(|settings| {
            settings.resolver = ResolverKind::Servers(vec![server]);
            settings.connect_timeout = Duration::from_secs(1);
        });
        let sent = post(&world, &receiver.url_at("hooks.example", "/")).await;
        assert_eq!(told(&sent), expected, "{why}: {:?}", sent.result);
        assert!(sent.timings.dns > Duration::ZERO, "{why}");
    }
}

#[tokio::test]
async fn a_name_is_asked_for_as_it_stands_without_search_domains() {
    let (asked, questions) = std::sync::mpsc::channel();
    let server = name_server(move |question| {
        let labels = question[12..].split(u8::is_ascii_control);
        let name: Vec<_> =
            labels.map(String::from_utf8_lossy).take_while(|label| label != "\u{1}").collect();
        asked.send(name.join(".")).unwrap();
        Some(reply(question, 3, None))
    });
    let world = world_with(|settings| settings.resolver = ResolverKind::Servers(vec![server]));

    failed(post(&world, "http://hooks.example/").await, Plain::DnsNotFound);

    drop(world);
    for name in questions.try_iter() {
        assert!(name.starts_with(".hooks.example."), "{name:?}");
        assert!(!name.contains("local"), "{name:?}");
    }
}

#[tokio::test]
async fn a_name_of_the_hosts_file_is_found_by_whoever_is_asked() {
    let receiver = Receiver::start(|_| answer(200, "")).await;
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    for resolver in [ResolverKind::System, ResolverKind::Servers(vec![nobody])] {
        let world = world_with(|settings| settings.resolver = resolver.clone());
        let url = receiver.url_at("localhost", "/");
        let sent = world.send(Request { internal: true, ..request(&url) }).await;
        assert_eq!(told(&sent), "200", "{resolver:?}: {:?}", sent.result);
    }
}

#[tokio::test]
async fn the_attempts_own_limit_may_be_shorter_than_that_of_connecting() {
    let (hole, _open, _listener) = black_hole("127.0.0.1:0").await;
    let hurried =
        Request { timeout: Duration::from_millis(200), ..request(&format!("http://{hole}/")) };
    let sent = world().send(hurried).await;
    let error = failed(sent, Plain::TimeoutTotal);
    assert!(error.detail.contains("a connection"), "{error}");
}
