//! `kill -9` under load: what was answered with 202 is delivered all the same.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use serde_json::{Value, json};
use snaphook::world::real::monotonic;

use super::node::{Client, Node, until};
use crate::support::{
    databases::on_both,
    receiver::{Received, Receiver, answer},
    soak::soak,
};

/// How often the server is killed: in `make test`, and in `make soak`.
const ROUNDS: (usize, usize) = (2, 20);

/// From its start on, a server delivers again within this time: of a loaded machine, and with the
/// machine to itself.
const AGAIN: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(3));

/// Events accepted in a round before the server dies.
const ACCEPTED_A_ROUND: usize = 150;

/// `delivery.max_in_flight_per_endpoint`: as many requests may have reached the one endpoint
/// whose results the server did not live to write.
const IN_FLIGHT: usize = 16;

type Accepted = Arc<Mutex<HashSet<String>>>;

/// Emits on a connection after the other until the server is gone, or the test says so.
fn emitter(client: Client, accepted: Accepted, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    let event = json!({"tenant": "acme", "type": "order.paid", "data": {"n": 1}});
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            match client.try_call("POST /v1/events", &event) {
                Ok((202, made)) => {
                    accepted.lock().unwrap().insert(made["id"].as_str().unwrap().to_owned());
                }
                Ok((status, answer)) => panic!("{status} {answer}"),
                Err(_) => return,
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_before_a_kill_is_delivered_after_it() {
    on_both(async |database| {
        let mut node = Node::start(database, "one", &[]).await;
        let arrivals: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let log = arrivals.clone();
        let receiver = Receiver::start(move |request: &Received| {
            let id = request.headers["webhook-id"].to_str().unwrap().to_owned();
            *log.lock().unwrap().entry(id).or_default() += 1;
            answer(204, "")
        })
        .await;
        node.client.add_endpoint("acme", json!({ "url": receiver.url("/") }));
        let accepted = Accepted::default();

        let rounds = soak(ROUNDS.0, ROUNDS.1);
        for round in 1..=rounds {
            let stop = Arc::new(AtomicBool::new(false));
            let emitters: Vec<_> = (0..4)
                .map(|_| emitter(node.client.clone(), accepted.clone(), stop.clone()))
                .collect();
            until("a load", || {
                let enough = accepted.lock().unwrap().len() >= round * ACCEPTED_A_ROUND;
                let delivering = arrivals.lock().unwrap().len() > (round - 1) * ACCEPTED_A_ROUND;
                (enough && delivering).then_some(())
            })
            .await;
            node.kill();
            stop.store(true, Ordering::Relaxed);
            for emitter in emitters {
                emitter.join().unwrap();
            }
            // So that the first request after the restart is known for what it is.
            let before = arrivals.lock().unwrap().values().sum::<usize>();
            let begun = monotonic();
            node.restart().await;
            node.client.call("POST /v1/events", &json!({"tenant": "acme", "type": "a", "data": 1}));
            until("a delivery", || {
                (arrivals.lock().unwrap().values().sum::<usize>() > before).then_some(())
            })
            .await;
            let took = monotonic().saturating_sub(begun);
            assert!(took < soak(AGAIN.0, AGAIN.1), "round {round}: it took {took:?}");
        }

        let accepted = accepted.lock().unwrap().clone();
        until("all that was accepted", || {
            let arrivals = arrivals.lock().unwrap();
            accepted.iter().all(|event| arrivals.contains_key(event)).then_some(())
        })
        .await;
        until("an empty queue", || {
            let waiting = node.client.call("GET /v1/deliveries?state=pending", &Value::Null);
            waiting["data"].as_array().unwrap().is_empty().then_some(())
        })
        .await;
        let again: usize = arrivals.lock().unwrap().values().map(|times| times - 1).sum();
        assert!(again <= rounds * IN_FLIGHT, "{again} requests were sent again");
        assert!(node.terminate().success());
    })
    .await;
}
