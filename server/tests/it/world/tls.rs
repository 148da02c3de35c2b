//! Certificates: whom we believe, whom not, and by what name.

use std::{io::Write, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, IsCa, date_time_ymd};
use rustls::{ServerConfig, version::TLS12};
use snaphook::{
    domain::outcome::Plain,
    world::{Request, Sent, TlsProfile, World, tls::Roots},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use super::{failed, post, request, status, told, with_authority, world, world_with};
use crate::support::{
    certificates::{Authority, Identity},
    receiver::{Receiver, Scripted, Step, accept, answer},
};

async fn receiver(server: Arc<ServerConfig>) -> Receiver {
    Receiver::listen("127.0.0.1:0", Some(server), |_| answer(200, "")).await
}

async fn post_trusting(authority: &Authority, receiver: &Receiver) -> Sent {
    let url = receiver.url_at("hooks.example", "/");
    world().send(with_authority(&url, authority.pem())).await
}

#[tokio::test]
async fn every_bad_certificate_has_its_own_name() {
    let root = Authority::new("test root");
    let middle = root.below("test intermediate");
    let expired = |params: &mut CertificateParams| {
        (params.not_before, params.not_after) =
            (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    };
    let future = |params: &mut CertificateParams| {
        (params.not_before, params.not_after) =
            (date_time_ymd(2100, 1, 1), date_time_ymd(2101, 1, 1));
    };
    let as_ca = |params: &mut CertificateParams| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    };
    let client_only = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    };
    let name = "hooks.example";
    for (identity, expected, detail) in [
        (root.issue(name, |_| {}), "200", ""),
        (root.issue(name, expired), "tls_expired", "2021-01-01"),
        (root.issue(name, future), "tls_not_yet_valid", "2100-01-01"),
        (root.issue("other.example", |_| {}), "tls_name_mismatch", "other.example"),
        (Authority::new("x").issue(name, |_| {}), "tls_unknown_issuer", "intermediate"),
        (middle.issue(name, |_| {}), "tls_unknown_issuer", "intermediate"),
        (Identity::self_signed(name, |_| {}), "tls_self_signed", "authority"),
        (Identity::self_signed(name, as_ca), "tls_self_signed", "CA:TRUE"),
        (root.issue(name, client_only), "tls_bad_certificate", ""),
    ] {
        let receiver = receiver(identity.server(&[], None)).await;
        let sent = post_trusting(&root, &receiver).await;
        assert_eq!(told(&sent), expected, "{:?}", sent.result);
        if let Err(error) = sent.result {
            assert!(error.detail.contains(detail), "{error}");
        }
        assert_eq!(receiver.requests().len(), usize::from(expected == "200"), "{expected}");
    }

    let mut whole = middle.issue(name, |_| {});
    whole.chain.push(middle.der());
    let receiver = receiver(whole.server(&[], None)).await;
    assert_eq!(status(&post_trusting(&root, &receiver).await), 200, "the whole chain");
}

#[tokio::test]
async fn a_self_signed_certificate_can_be_an_endpoints_own_authority() {
    let identity = Identity::self_signed("hooks.example", |_| {});
    let receiver = receiver(identity.server(&[], None)).await;
    let url = receiver.url_at("hooks.example", "/");
    let (pem, _) = identity.pem();
    let world = world();
    assert_eq!(status(&world.send(with_authority(&url, pem)).await), 200);
    failed(post(&world, &url).await, Plain::TlsSelfSigned);
}

#[tokio::test]
async fn a_private_authority_replaces_the_public_ones_for_its_endpoint_alone() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let receiver = receiver(ours.issue("hooks.example", |_| {}).server(&[], None)).await;
    let url = receiver.url_at("hooks.example", "/");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(ours.pem().as_bytes()).unwrap();
    let world = world_with(|settings| settings.roots = Roots::File(file.path().to_owned()));

    assert_eq!(status(&post(&world, &url).await), 200, "by the operator's file");
    let sent = world.send(with_authority(&url, theirs.pem())).await;
    failed(sent, Plain::TlsUnknownIssuer);
}

#[tokio::test]
async fn an_address_can_have_a_certificate_too() {
    let root = Authority::new("test root");
    for (name, expected) in [("127.0.0.1", "200"), ("hooks.example", "tls_name_mismatch")] {
        let receiver = receiver(root.issue(name, |_| {}).server(&[], None)).await;
        let sent = world().send(with_authority(&receiver.url("/"), root.pem())).await;
        assert_eq!(told(&sent), expected, "{name}: {:?}", sent.result);
    }
}

#[tokio::test]
async fn a_receiver_that_wants_a_client_certificate_gets_the_endpoints_own() {
    let (root, clients) = (Authority::new("test root"), Authority::new("clients"));
    let stranger = Authority::new("strangers").issue("client", |_| {});
    let known = clients.issue("client", |_| {});
    let server = root.issue("hooks.example", |_| {});
    for versions in [&[&TLS12][..], rustls::ALL_VERSIONS] {
        let receiver =
            receiver(server.server_of(versions, &["h2", "http/1.1"], Some(&clients))).await;
        let url = receiver.url_at("hooks.example", "/");
        for (identity, expected) in [
            (Some(known.pem()), "200"),
            (None, "tls_client_certificate"),
            (Some(stranger.pem()), "tls_client_certificate"),
        ] {
            let tls = Some(Arc::new(TlsProfile { ca: Some(root.pem()), identity }));
            let sent = world().send(Request { tls, ..request(&url) }).await;
            assert_eq!(told(&sent), expected, "{versions:?} {:?}", sent.result);
        }
        assert_eq!(receiver.requests().len(), 1);
    }
}

#[tokio::test]
async fn what_is_no_tls_or_too_old_a_one_is_a_failed_handshake() {
    let alert = vec![0x15, 3, 1, 0, 2, 2, 70]; // protocol_version (RFC 8446, section 6.2)
    for (script, why) in [
        (vec![Step::Send(alert), Step::Hang], "a version below 1.2"),
        (vec![Step::send("HTTP/1.1 400 Bad Request\r\n\r\n"), Step::Hang], "plain HTTP"),
        (vec![], "closes at once"),
    ] {
        let receiver = Scripted::start(script).await;
        let url = receiver.url("/").replace("http:", "https:");
        let error = failed(post(&world(), &url).await, Plain::TlsHandshake);
        assert!(!error.detail.is_empty(), "{why}");
    }
}

#[tokio::test]
async fn an_answer_that_ends_without_the_farewell_of_tls_is_whole_if_http_says_so() {
    let root = Authority::new("test root");
    let config = root.issue("hooks.example", |_| {}).server(&["http/1.1"], None);
    for (reply, expected) in [
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", "200"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nnot the end", "closed_early"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = config.clone();
        let _task = accept(listener, Arc::default(), move |stream, _| {
            let acceptor = TlsAcceptor::from(config.clone());
            async move {
                let mut tls = acceptor.accept(stream).await.unwrap();
                while tls.read_u8().await.unwrap() != b'}' {}
                tls.write_all(reply.as_bytes()).await.unwrap();
                tls.flush().await.unwrap();
            }
        });
        let url = format!("https://hooks.example:{port}/");
        let sent = world().send(with_authority(&url, root.pem())).await;
        assert_eq!(told(&sent), expected, "{:?}", sent.result);
    }
}

#[tokio::test]
async fn certificates_that_cannot_be_used_end_the_attempt_by_name() {
    let tls = TlsProfile { ca: Some("nonsense".to_owned()), identity: None };
    let sent = world()
        .send(Request { tls: Some(Arc::new(tls)), ..request("https://hooks.example/") })
        .await;
    let error = failed(sent, Plain::InvalidRequest);
    assert!(error.detail.contains("PEM"), "{error}");
}
