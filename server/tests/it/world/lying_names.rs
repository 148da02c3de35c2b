//! Name servers that lie, in what they say or in how: none leads to a connection, and each costs
//! no more than the time for connecting.

use std::time::Duration;

use snaphook::world::resolver::ResolverKind;

use super::{
    dialing::{name_server, reply},
    post, told, world_with,
};
use crate::support::receiver::{Receiver, answer};

/// For one attempt to connect, DNS inside.
const LIMIT: Duration = Duration::from_secs(1);

type Lie = fn(&[u8]) -> Option<Vec<u8>>;

const LOOPBACK: Option<[u8; 4]> = Some([127, 0, 0, 1]);

/// An answer with one record of this type: type, class, 60 s, and what it says.
fn record(question: &[u8], kind: u8, says: &[u8]) -> Vec<u8> {
    let mut text = reply(question, 0, None);
    text[7] = 1;
    text.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60]);
    text.extend(u16::try_from(says.len()).unwrap().to_be_bytes());
    text.extend(says);
    text
}

fn lies() -> Vec<(Lie, &'static [&'static str], &'static str)> {
    const NONE: &[&str] = &["dns_failed", "dns_timeout", "dns_not_found"];
    vec![
        (
            |question| {
                let mut text = reply(question, 0, LOOPBACK);
                text[0] ^= 0xff;
                Some(text)
            },
            NONE,
            "the answer to another question, by its number",
        ),
        (
            |question| {
                let mut text = reply(question, 0, LOOPBACK);
                text[13] ^= 1;
                Some(text)
            },
            NONE,
            "the answer to another question, by its name",
        ),
        (|_| Some(b"HTTP/1.1 200 OK".to_vec()), NONE, "no DNS at all"),
        (|_| Some(vec![0xff; 1_200]), NONE, "garbage"),
        (|question| Some(question[..12].to_vec()), NONE, "half of an answer"),
        (|question| Some(record(question, 5, &[0xc0, 12])), NONE, "a name that stands for itself"),
        (
            |question| {
                let mut text = reply(question, 0, None);
                text[7] = 1;
                let own = u8::try_from(text.len()).unwrap();
                text.extend([0xc0, own, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
                Some(text)
            },
            NONE,
            "a name whose letters are where it stands itself",
        ),
        (|question| Some(record(question, 1, &[127, 0, 0])), NONE, "an address that is too short"),
        (
            |question| {
                let mut text = reply(question, 0, LOOPBACK);
                text[2] |= 2;
                Some(text)
            },
            NONE,
            "an answer cut off, and nobody there for the rest of it",
        ),
        (
            |question| Some(reply(question, 0, Some([10, 0, 0, 1]))),
            &["blocked_private"],
            "an address inside",
        ),
        (
            |question| Some(reply(question, 0, Some([169, 254, 169, 254]))),
            &["blocked_metadata"],
            "the address of secrets",
        ),
    ]
}

#[tokio::test]
async fn a_name_server_that_lies_leads_nowhere() {
    let receiver = Receiver::start(|_| answer(200, "")).await;
    for (lie, ends, why) in lies() {
        let server = name_server(lie);
        let world = world_with(|settings| {
            settings.resolver = ResolverKind::Servers(vec![server]);
            settings.connect_timeout = LIMIT;
        });

        let began = tokio::time::Instant::now();
        let sent = post(&world, &receiver.url_at("hooks.example", "/")).await;

        let (told, took) = (told(&sent), began.elapsed());
        assert!(ends.contains(&&*told), "{why}: {told}: {:?}", sent.result);
        assert!(took < LIMIT * 2, "{why}: {took:?}");
    }
    assert_eq!(receiver.connections(), 0);
}
