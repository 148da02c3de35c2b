//! `kill -9` while providers post: what got a 2xx is there, once, and is delivered. What got none is
//! sent again, as providers do.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
};

use serde_json::{Value, json};
use snaphook::{
    domain::{
        id::{SecretId, SourceId},
        source::{SourceSettings, SourceState, SourceToken},
        tenant::TenantId,
    },
    store::{
        Options, SourceRow, SourceSecretRow, Store,
        events::EventFilter,
        page::Page,
        seal::{Keyring, MasterKey, Place},
    },
    world::real::wall_clock,
};
use snaphook_signature::{Received as Signed, Scheme, Verifier};

use super::node::{MASTER_KEY, Node, until};
use crate::support::{
    databases::{Database, on_both},
    program::exchange,
    receiver::{Received, Receiver, answer},
    soak::soak,
};

/// How often the server is killed: in `make test`, and in `make soak`.
const ROUNDS: (usize, usize) = (2, 20);

/// Requests that are acknowledged in a round before the server dies.
const ACKNOWLEDGED_A_ROUND: usize = 150;

/// Providers that post at once.
const SENDERS: usize = 6;

pub(super) const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

/// Makes a source beside the server, as one of several servers would.
async fn add_source(database: &Database) -> SourceToken {
    let store = open(database).await;
    let now = wall_clock();
    let mut settings = SourceSettings::default();
    let change = json!({"name": "shop", "scheme": "stripe"});
    assert_eq!(settings.apply(change.as_object().unwrap()), []);
    let mut row = SourceRow {
        id: SourceId(1),
        token: SourceToken::new(1 << 100),
        tenant: TenantId::parse("acme").unwrap(),
        state: SourceState::Active,
        state_since: now,
        armed_until: None,
        settings,
        sealed: None,
        from_file: false,
        epoch: 0,
        created_at: now,
        updated_at: now,
        deleted_at: None,
    };
    let keyring = Keyring::new(MasterKey::parse(MASTER_KEY).unwrap(), Vec::new());
    let place = Place::of_source_secret(&row.tenant, SecretId(1));
    let secret = SourceSecretRow {
        id: SecretId(1),
        source: row.id,
        tenant: row.tenant.clone(),
        sealed: keyring.seal(SECRET.as_bytes(), place),
        created_at: now,
        expires_at: None,
        revoked_at: None,
    };
    let mut tx = store.begin().await.unwrap();
    assert!(tx.add_source(&mut row).await.unwrap());
    tx.add_source_secret(&secret).await.unwrap();
    tx.commit().await.unwrap();
    store.close().await;
    row.token
}

async fn open(database: &Database) -> Store {
    Store::open(&database.url, Options { migrate: false, serve: false }).await.unwrap()
}

/// What a provider says of its event `id`.
pub(super) fn body_of(id: &str) -> String {
    format!(r#"{{"id":"{id}","type":"charge.paid"}}"#)
}

/// The status of `sent` under a signature of `signed`: the same, or it is forged.
pub(super) fn post_signed(
    address: &str,
    token: &SourceToken,
    signed: &str,
    sent: &str,
) -> std::io::Result<u16> {
    let verifier = Verifier::new(Scheme::named("stripe").unwrap(), &[SECRET], None).unwrap();
    let now = wall_clock().0.div_euclid(1_000_000);
    let signed = verifier.sign(&Signed::new(&[], signed.as_bytes()), "", now).unwrap();
    let headers: Vec<(&str, &str)> =
        signed.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    exchange(address, &format!("POST /in/{token}"), &headers, sent.as_bytes())
        .map(|(status, _)| status)
}

/// The status of the event `id`, posted once; an error where no whole answer came.
fn post(address: &str, token: &SourceToken, id: &str) -> std::io::Result<u16> {
    let body = body_of(id);
    post_signed(address, token, &body, &body)
}

/// What the providers know.
#[derive(Default)]
struct Sent {
    next: AtomicUsize,
    /// Without an answer yet.
    open: Mutex<HashSet<String>>,
    acknowledged: Mutex<HashSet<String>>,
}

impl Sent {
    /// Posts an event until it is acknowledged or the server is gone. Every third is sent twice.
    fn send(&self, address: &str, token: &SourceToken, id: &str, twice: bool) -> bool {
        self.open.lock().unwrap().insert(id.to_owned());
        for _ in 0..=usize::from(twice) {
            match post(address, token, id) {
                Ok(200) => {
                    self.open.lock().unwrap().remove(id);
                    self.acknowledged.lock().unwrap().insert(id.to_owned());
                }
                Ok(status) => panic!("{id}: {status}"),
                Err(_) => return false,
            }
        }
        true
    }
}

fn sender(
    sent: Arc<Sent>,
    address: String,
    token: SourceToken,
    stop: Arc<AtomicBool>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let n = sent.next.fetch_add(1, Ordering::Relaxed);
            if !sent.send(&address, &token, &format!("evt_{n}"), n.is_multiple_of(3)) {
                return;
            }
        }
    })
}

/// How often each event is there, by the provider's id.
async fn stored(database: &Database) -> BTreeMap<String, usize> {
    let store = open(database).await;
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = Page::new("events", cursor.as_deref(), 250).unwrap();
        let mut tx = store.read().await.unwrap();
        let listed = tx.list_events(&EventFilter::default(), page).await.unwrap();
        drop(tx);
        for event in listed.rows {
            *found.entry(event.key.unwrap()).or_default() += 1;
        }
        cursor = listed.next;
        if cursor.is_none() {
            break;
        }
    }
    store.close().await;
    found
}

async fn kill_under_load(
    node: &mut Node,
    database: &Database,
    token: &SourceToken,
    sent: &Arc<Sent>,
    round: usize,
) {
    let stop = Arc::new(AtomicBool::new(false));
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| sender(sent.clone(), node.client.address.clone(), token.clone(), stop.clone()))
        .collect();
    until("a load", || {
        let many = sent.acknowledged.lock().unwrap().len();
        (many >= round * ACKNOWLEDGED_A_ROUND).then_some(())
    })
    .await;
    node.kill();
    stop.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.join().unwrap();
    }
    let before = stored(database).await;
    for id in sent.acknowledged.lock().unwrap().iter() {
        assert_eq!(before.get(id), Some(&1), "round {round}: {id} was acknowledged");
    }
    node.restart().await;
    until_known(node, token).await;
    let open: Vec<_> = sent.open.lock().unwrap().iter().cloned().collect();
    for id in open {
        assert!(sent.send(&node.client.address, token, &id, false), "its sender tries again");
    }
}

/// Waits until the server knows the source.
async fn until_known(node: &Node, token: &SourceToken) {
    let known = || (post(&node.client.address, token, "evt_0").ok()? == 200).then_some(());
    until("the source", known).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_before_a_kill_is_there_once_and_delivered() {
    on_both(async |database| {
        let mut node = Node::start(database, "one", &[]).await;
        let arrivals: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let log = arrivals.clone();
        let receiver = Receiver::start(move |request: &Received| {
            let text = String::from_utf8_lossy(&request.body).into_owned();
            let id = text.split("evt_").find(|part| part.starts_with(|c: char| c.is_ascii_digit()));
            if let Some(id) = id.and_then(|rest| rest.split('"').next()) {
                *log.lock().unwrap().entry(format!("evt_{id}")).or_default() += 1;
            }
            answer(204, "")
        })
        .await;
        let endpoint = json!({ "url": receiver.url("/"), "format": "raw" });
        node.client.add_endpoint("acme", endpoint);
        let token = add_source(database).await;
        let sent = Arc::new(Sent::default());
        until_known(&node, &token).await;

        for round in 1..=soak(ROUNDS.0, ROUNDS.1) {
            kill_under_load(&mut node, database, &token, &sent, round).await;
        }

        let acknowledged = sent.acknowledged.lock().unwrap().clone();
        until("all that was acknowledged", || {
            let arrivals = arrivals.lock().unwrap();
            acknowledged.iter().all(|id| arrivals.contains_key(id)).then_some(())
        })
        .await;
        until("an empty queue", || {
            let waiting = node.client.call("GET /v1/deliveries?state=pending", &Value::Null);
            waiting["data"].as_array().unwrap().is_empty().then_some(())
        })
        .await;
        let stored = stored(database).await;
        let twice: Vec<_> = stored.iter().filter(|(_, many)| **many != 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        assert!(acknowledged.iter().all(|id| stored.contains_key(id)));
        assert!(node.terminate().success());
    })
    .await;
}
