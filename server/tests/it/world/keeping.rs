//! Connections that are kept: how often they are used, when they are closed, who may share them.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use http::Response;
use snaphook::{
    domain::outcome::Plain,
    world::{Request, TlsProfile, World},
};

use super::{failed, post, request, status, told, with_authority, world, world_with};
use crate::support::{
    certificates::Authority,
    receiver::{Receiver, Scripted, Step, answer},
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn requests_one_after_the_other_share_one_connection() {
    let receiver = Receiver::start(|_| answer(200, "ok")).await;
    let world = world();
    for number in 0..100 {
        let sent = post(&world, &receiver.url("/")).await;
        assert_eq!(status(&sent), 200);
        let timings = sent.timings;
        assert_eq!((timings.dns + timings.connect).is_zero(), number > 0, "{timings:?}");
        assert_eq!(sent.address, Some(receiver.address), "also on a kept connection");
    }
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn an_answer_over_the_kept_bytes_is_drained_and_its_connection_kept() {
    for (bytes, connections, why) in
        [(16_384, 1, "just kept"), (40_000, 1, "drained"), (200_000, 3, "too long to drain")]
    {
        let receiver = Receiver::start(move |_| Response::new(vec![b'x'; bytes].into())).await;
        let world = world();
        for _ in 0..3 {
            let response = post(&world, &receiver.url("/")).await.result.unwrap();
            assert_eq!(response.body.len(), 16_384);
            assert_eq!(response.truncated, bytes > 16_384);
        }
        assert_eq!(receiver.connections(), connections, "{why}");
    }
}

#[tokio::test]
async fn a_request_that_meets_a_closing_connection_goes_out_once_more() {
    // Answers once, reads the second request, and closes without a word.
    let receiver = Scripted::start([Step::Read, Step::send(OK), Step::Read]).await;
    let world = world();

    assert_eq!(status(&post(&world, &receiver.url("/")).await), 200);
    assert_eq!(status(&post(&world, &receiver.url("/")).await), 200);

    assert_eq!(receiver.connections(), 2);
    assert_eq!(receiver.requests().len(), 3, "the second request twice");
}

#[tokio::test]
async fn a_new_connection_that_closes_is_not_tried_again() {
    let receiver = Scripted::start([Step::Read]).await;
    failed(post(&world(), &receiver.url("/")).await, Plain::ClosedEarly);
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_replaced() {
    let receiver = Scripted::start([Step::Read, Step::send(OK)]).await;
    let world = world();
    for _ in 0..20 {
        assert_eq!(status(&post(&world, &receiver.url("/")).await), 200);
    }
    assert_eq!(receiver.connections(), 20);
}

#[tokio::test]
async fn a_receiver_that_says_close_is_taken_at_its_word() {
    let receiver = Receiver::start(|_| {
        Response::builder().header("connection", "close").body("ok".into()).unwrap()
    })
    .await;
    let world = world();
    for _ in 0..3 {
        assert_eq!(status(&post(&world, &receiver.url("/")).await), 200);
    }
    assert_eq!(receiver.connections(), 3);
}

/// Waits until `is_true`, for what happens in the background; at most 5 s.
async fn until(what: &str, is_true: impl Fn() -> bool) {
    for _ in 0..500 {
        if is_true() {
            return;
        }
        let _ = tokio::time::timeout(Duration::from_millis(10), std::future::pending::<()>()).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn idle_connections_are_closed_though_nobody_posts_again() {
    let receiver = Scripted::start([Step::Read, Step::send(OK), Step::Read, Step::Hang]).await;
    let world = world_with(|settings| settings.idle = Duration::from_millis(100));
    assert_eq!(status(&post(&world, &receiver.url("/")).await), 200);
    assert_eq!(receiver.open(), 1);
    until("closed", || receiver.open() == 0).await;
}

#[tokio::test]
async fn all_hosts_together_have_no_more_connections_than_allowed() {
    let world = world_with(|settings| settings.connections_max = 4);
    let mut receivers = Vec::new();
    for _ in 0..10 {
        let receiver = Scripted::start([Step::Read, Step::send(OK), Step::Read, Step::Hang]).await;
        assert_eq!(status(&post(&world, &receiver.url("/")).await), 200);
        receivers.push(receiver);
    }
    let open = || receivers.iter().map(Scripted::open).collect::<Vec<_>>();
    until("four are left", || open().iter().sum::<usize>() == 4).await;
    assert_eq!(open(), [0, 0, 0, 0, 0, 0, 1, 1, 1, 1], "the last used stay");
}

#[tokio::test]
async fn requests_over_the_bound_wait_for_a_connection_and_then_go() {
    let receiver = Receiver::start(|_| answer(200, "ok")).await;
    let other = Receiver::start(|_| answer(200, "ok")).await;
    let world = world_with(|settings| settings.connections_max = 2);
    let posts = (0..40).map(|number| {
        let url = if number % 2 == 0 { receiver.url("/") } else { other.url("/") };
        let world = &world;
        async move { post(world, &url).await }
    });
    for sent in join_all(posts).await {
        assert_eq!(status(&sent), 200);
    }
}

#[tokio::test]
async fn a_connection_never_serves_another_endpoints_certificates() {
    let authority = Authority::new("test root");
    let server = authority.issue("hooks.example", |_| {}).server(&["http/1.1"], None);
    let receiver = Receiver::listen("127.0.0.1:0", Some(server), |_| answer(200, "")).await;
    let url = receiver.url_at("hooks.example", "/");
    let world = world();

    let sent = world.send(with_authority(&url, authority.pem())).await;
    assert_eq!(status(&sent), 200);
    failed(post(&world, &url).await, Plain::TlsUnknownIssuer);

    let client = authority.issue("client", |_| {});
    let own = TlsProfile { ca: Some(authority.pem()), identity: Some(client.pem()) };
    let sent = world.send(Request { tls: Some(Arc::new(own)), ..request(&url) }).await;
    assert_eq!(status(&sent), 200);
    let sent = world.send(with_authority(&url, authority.pem())).await;
    assert_eq!(status(&sent), 200);

    let used: Vec<_> = receiver.requests().iter().map(|request| request.connection).collect();
    assert_eq!(used, [1, 3, 1], "the second connection was refused by us");
}

#[tokio::test]
async fn an_attempt_that_is_over_time_closes_its_connection() {
    let receiver = Scripted::start([Step::Read, Step::Hang]).await;
    let world = world();
    let hurried = Request { timeout: Duration::from_millis(100), ..request(&receiver.url("/")) };
    failed(world.send(hurried).await, Plain::TimeoutTotal);
    until("closed", || receiver.open() == 0).await;
}

#[tokio::test]
async fn shutdown_closes_everything_and_later_requests_fail() {
    let receiver = Scripted::start([Step::Read, Step::send(OK), Step::Read, Step::Hang]).await;
    let world = world();
    assert_eq!(status(&post(&world, &receiver.url("/")).await), 200);
    world.shutdown().await;
    until("closed", || receiver.open() == 0).await;
    assert_eq!(told(&post(&world, &receiver.url("/")).await), "internal");
}
