//! HTTP/2, where receiver and TLS agree on it.

use std::{
    future::{pending, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use http::{HeaderName, HeaderValue, Response, Version, header};
use rustls::ServerConfig;
use snaphook::{
    domain::outcome::Plain,
    world::{Request, World},
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::{failed, status, told, with_authority, world};
use crate::support::{
    certificates::Authority,
    receiver::{Receiver, accept, answer},
};

fn server(protocols: &[&str]) -> (Authority, Arc<ServerConfig>) {
    let root = Authority::new("test root");
    let config = root.issue("hooks.example", |_| {}).server(protocols, None);
    (root, config)
}

#[tokio::test]
async fn a_burst_to_a_host_that_speaks_http2_makes_one_connection() {
    let (root, config) = server(&["h2", "http/1.1"]);
    let receiver = Receiver::listen("127.0.0.1:0", Some(config), |_| answer(200, "ok")).await;
    let url = receiver.url_at("hooks.example", "/a?b");
    let world = world();

    let posts = (0..64).map(|_| world.send(with_authority(&url, root.pem())));
    for sent in join_all(posts).await {
        assert_eq!(status(&sent), 200);
    }

    assert_eq!(receiver.connections(), 1);
    let requests = receiver.requests();
    assert_eq!(requests.len(), 64);
    for request in requests {
        assert_eq!(request.version, Version::HTTP_2);
        assert_eq!(request.path, "/a?b");
        assert_eq!(request.headers[header::CONTENT_LENGTH], "17");
        assert_eq!(&request.body[..], b"{\"hello\":\"world\"}");
        assert!(!request.headers.contains_key(header::HOST), "it has :authority");
    }
}

#[tokio::test]
async fn a_host_without_http2_is_spoken_to_in_http1_on_as_many_connections_as_needed() {
    let (root, config) = server(&["http/1.1"]);
    let receiver = Receiver::listen("127.0.0.1:0", Some(config), |_| answer(200, "ok")).await;
    let url = receiver.url_at("hooks.example", "/");
    let world = world();
    let posts = (0..16).map(|_| world.send(with_authority(&url, root.pem())));
    for sent in join_all(posts).await {
        assert_eq!(status(&sent), 200);
    }
    assert!(receiver.requests().iter().all(|request| request.version == Version::HTTP_11));
    assert!(receiver.connections() <= 16);
}

#[tokio::test]
async fn those_who_wait_for_a_first_connection_hear_at_once_that_it_failed() {
    let (_, config) = server(&["h2"]);
    let receiver = Receiver::listen("127.0.0.1:0", Some(config), |_| answer(200, "ok")).await;
    let url = receiver.url_at("hooks.example", "/");
    let world = world();
    let posts = (0..16).map(|_| super::post(&world, &url));
    for sent in join_all(posts).await {
        failed(sent, Plain::TlsUnknownIssuer);
    }
    assert!(receiver.connections() < 16, "{}", receiver.connections());
}

#[tokio::test]
async fn an_attempt_that_gives_up_leaves_the_first_connection_to_the_next() {
    let (root, config) = server(&["h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://hooks.example:{}/", listener.local_addr().unwrap().port());
    let _task = accept(listener, Arc::default(), move |stream, number| {
        let config = config.clone();
        async move {
            if number == 1 {
                pending::<()>().await; // the handshake of the first never ends
            }
            let tls = TlsAcceptor::from(config).accept(stream).await.unwrap();
            let mut open = h2::server::handshake(tls).await.unwrap();
            while let Some(Ok((_, stream))) = open.accept().await {
                respond(stream, Response::new(()));
            }
        }
    });
    let world = world();
    let patient = || with_authority(&url, root.pem());
    let hurried = Request { timeout: Duration::from_millis(200), ..patient() };

    let (first, second, third) =
        tokio::join!(world.send(hurried), world.send(patient()), world.send(patient()));

    failed(first, Plain::TimeoutTotal);
    assert_eq!(told(&second), "200", "{:?}", second.result);
    assert_eq!(told(&third), "200", "{:?}", third.result);
}

/// An HTTP/2 receiver made by hand, which `play`s each connection, by its number from 1.
async fn by_hand<F>(
    config: Arc<ServerConfig>,
    builder: h2::server::Builder,
    play: impl Fn(h2::server::Connection<Tls, bytes::Bytes>, usize) -> F + Send + Sync + Clone + 'static,
) -> (String, Arc<AtomicUsize>, AbortOnDropHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://hooks.example:{}/", listener.local_addr().unwrap().port());
    let count = Arc::new(AtomicUsize::new(0));
    let task = accept(listener, count.clone(), move |stream, number| {
        let (config, builder, play) = (config.clone(), builder.clone(), play.clone());
        async move {
            let tls = TlsAcceptor::from(config).accept(stream).await.unwrap();
            play(builder.handshake(tls).await.unwrap(), number).await;
        }
    });
    (url, count, task)
}

type Tls = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;

fn respond(mut respond: h2::server::SendResponse<bytes::Bytes>, response: Response<()>) {
    respond.send_response(response, true).unwrap();
}

#[tokio::test]
async fn a_request_that_the_receiver_did_not_look_at_goes_out_once_more() {
    let (root, config) = server(&["h2"]);
    let (url, connections, _task) =
        by_hand(config, h2::server::Builder::new(), |mut open, number| async move {
            while let Some(Ok((_, mut stream))) = open.accept().await {
                if number == 1 {
                    stream.send_reset(h2::Reason::REFUSED_STREAM);
                } else {
                    respond(stream, Response::new(()));
                }
            }
        })
        .await;
    let sent = world().send(with_authority(&url, root.pem())).await;
    assert_eq!(told(&sent), "200", "{:?}", sent.result);
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_receiver_that_never_looks_gets_the_request_twice_and_no_more() {
    let (root, config) = server(&["h2"]);
    let refuse = |mut open: h2::server::Connection<Tls, bytes::Bytes>, _| async move {
        while let Some(Ok((_, mut stream))) = open.accept().await {
            stream.send_reset(h2::Reason::REFUSED_STREAM);
        }
    };
    let (url, connections, _task) = by_hand(config, h2::server::Builder::new(), refuse).await;
    failed(world().send(with_authority(&url, root.pem())).await, Plain::Protocol);
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_connection_that_says_goodbye_is_replaced() {
    let (root, config) = server(&["h2"]);
    let (url, connections, _task) =
        by_hand(config, h2::server::Builder::new(), |mut open, _| async move {
            if let Some(Ok((_, stream))) = open.accept().await {
                respond(stream, Response::new(()));
                open.graceful_shutdown();
            }
            while open.accept().await.is_some() {}
        })
        .await;
    let world = world();
    for _ in 0..5 {
        let sent = world.send(with_authority(&url, root.pem())).await;
        assert_eq!(told(&sent), "200", "{:?}", sent.result);
    }
    assert!(connections.load(Ordering::SeqCst) >= 2);
}

#[tokio::test]
async fn a_connection_that_ends_without_goodbye_is_replaced_and_a_new_one_is_not() {
    let (root, config) = server(&["h2"]);
    let answers_once = |mut open: h2::server::Connection<Tls, bytes::Bytes>, _| async move {
        if let Some(Ok((_, stream))) = open.accept().await {
            respond(stream, Response::new(()));
        }
        open.accept().await; // and drops the second
    };
    let (url, connections, _task) =
        by_hand(config.clone(), h2::server::Builder::new(), answers_once).await;
    let world = world();
    for _ in 0..2 {
        let sent = world.send(with_authority(&url, root.pem())).await;
        assert_eq!(told(&sent), "200", "{:?}", sent.result);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 2);

    let answers_never = |mut open: h2::server::Connection<Tls, bytes::Bytes>, _| async move {
        open.accept().await;
    };
    let (url, connections, _task) =
        by_hand(config, h2::server::Builder::new(), answers_never).await;
    failed(world.send(with_authority(&url, root.pem())).await, Plain::ClosedEarly);
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_receiver_that_takes_few_requests_at_once_gets_more_connections() {
    let (root, config) = server(&["h2"]);
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(2);
    let (url, connections, _task) = by_hand(config, builder, |mut open, _| async move {
        let mut slow = tokio::task::JoinSet::new();
        while let Some(Ok((_, stream))) = open.accept().await {
            slow.spawn(async move {
                let _ =
                    tokio::time::timeout(Duration::from_millis(50), std::future::pending::<()>())
                        .await;
                respond(stream, Response::new(()));
            });
        }
    })
    .await;
    let world = world();
    for _ in 0..2 {
        assert_eq!(status(&world.send(with_authority(&url, root.pem())).await), 200);
    }
    let posts = (0..8).map(|_| world.send(with_authority(&url, root.pem())));
    for sent in join_all(posts).await {
        assert_eq!(told(&sent), "200", "{:?}", sent.result);
    }
    assert!(connections.load(Ordering::SeqCst) > 1);
}

#[tokio::test]
async fn headers_over_the_limit_and_broken_streams_end_by_name() {
    let (root, config) = server(&["h2"]);
    let large = |mut open: h2::server::Connection<Tls, bytes::Bytes>, _| async move {
        while let Some(Ok((_, stream))) = open.accept().await {
            let mut response = Response::new(());
            for number in 0..30 {
                let name: HeaderName = format!("x-{number}").parse().unwrap();
                let value = HeaderValue::from_bytes(&[b'a'; 1000]).unwrap();
                response.headers_mut().insert(name, value);
            }
            respond(stream, response);
        }
    };
    let (url, _, _task) = by_hand(config.clone(), h2::server::Builder::new(), large).await;
    failed(world().send(with_authority(&url, root.pem())).await, Plain::HeadersTooLarge);

    let reset = |mut open: h2::server::Connection<Tls, bytes::Bytes>, _| async move {
        while let Some(Ok((_, mut stream))) = open.accept().await {
            stream.send_reset(h2::Reason::INTERNAL_ERROR);
        }
    };
    let (url, connections, _task) = by_hand(config, h2::server::Builder::new(), reset).await;
    failed(world().send(with_authority(&url, root.pem())).await, Plain::Protocol);
    assert_eq!(connections.load(Ordering::SeqCst), 1, "not sent again");
}

#[tokio::test]
async fn a_body_without_end_and_a_silent_stream_end_while_others_go_on() {
    let (root, config) = server(&["h2"]);
    let (url, connections, _task) =
        by_hand(config, h2::server::Builder::new(), |mut open, _| async move {
            let mut streams = tokio::task::JoinSet::new();
            while let Some(Ok((request, mut stream))) = open.accept().await {
                match request.uri().path() {
                    "/silent" => {
                        streams.spawn(async move {
                            std::future::pending::<()>().await;
                            drop(stream);
                        });
                    }
                    "/endless" => {
                        let mut body = stream.send_response(Response::new(()), false).unwrap();
                        streams.spawn(async move {
                            loop {
                                body.reserve_capacity(8192);
                                let capacity = poll_fn(|cx| body.poll_capacity(cx)).await;
                                let Some(Ok(bytes)) = capacity else { return };
                                let chunk = vec![b'x'; bytes].into();
                                if body.send_data(chunk, false).is_err() {
                                    return;
                                }
                            }
                        });
                    }
                    _ => respond(stream, Response::new(())),
                }
            }
        })
        .await;
    let world = world();
    let to = |path: &str| with_authority(&format!("{url}{path}"), root.pem());
    let silent = Request { timeout: Duration::from_millis(500), ..to("silent") };
    let (silent, endless) = tokio::join!(world.send(silent), world.send(to("endless")));

    failed(silent, Plain::TimeoutTotal);
    let response = endless.result.unwrap();
    assert!(response.truncated && response.body.len() == 16_384);
    assert_eq!(status(&world.send(to("fine")).await), 200);
    assert_eq!(connections.load(Ordering::SeqCst), 1, "they share it");
}
