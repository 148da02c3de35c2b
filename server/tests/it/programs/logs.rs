//! What is logged, at the finest level: ids, and nothing that is a secret or a customer's.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};
use snaphook_signature::Secret;

use super::node::{MASTER_KEY, Node, pause, until};
use crate::support::{
    databases::on_both,
    program::{closed_port, exchange},
    receiver::{Received, Receiver, answer},
};

/// Planted where the log must not show them.
const PAYLOAD: &str = "planted-in-the-payload";
const HEADER: &str = "planted-in-a-header";
const QUERY: &str = "planted-in-a-query";
const ANSWER: &str = "planted-in-an-answer";
const WRONG_KEY: &str = "planted-as-a-key";

/// Emits and waits until that many of its deliveries are in `state`.
async fn see_through(node: &Node, state: &str, many: usize) {
    let event = json!({"tenant": "acme", "type": "order.paid", "data": {"note": PAYLOAD}});
    let event = node.client.call("POST /v1/events", &event)["id"].as_str().unwrap().to_owned();
    until("the end of an event's deliveries", || {
        let list = format!("GET /v1/events/{event}/deliveries");
        let listed = node.client.call(&list, &Value::Null);
        let ended = listed["data"].as_array().unwrap().iter();
        (ended.filter(|one| one["state"] == state).count() == many).then_some(())
    })
    .await;
}

/// Requests that are wrong, with what must not be logged inside.
fn make_mistakes(node: &Node) {
    let address = &node.client.address;
    let bearer = format!("Bearer {}", node.client.key);
    let good = ("authorization", bearer.as_str());
    let wrong = ("authorization", &*format!("Bearer {WRONG_KEY}"));
    let json = ("content-type", "application/json");
    for (what, header, body, expected) in [
        ("POST /v1/events", wrong, "{}".to_owned(), 401),
        ("POST /v1/events", good, format!("{{{PAYLOAD}"), 400),
        ("POST /v1/events", good, format!("{{\"{PAYLOAD}\": 1}}"), 422),
        (&format!("GET /v1/events?limit={QUERY}"), good, String::new(), 400),
        (&format!("GET /v1/{QUERY}"), good, String::new(), 404),
    ] {
        let (status, answer) = exchange(address, what, &[header, json], body.as_bytes()).unwrap();
        assert_eq!(status, expected, "{what}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_has_ids_and_no_secret_and_no_payload() {
    let settings = [
        ("SNAPHOOK_LOG_LEVEL", "trace"),
        ("SNAPHOOK_DELIVERY_RETRY_SCHEDULE", "0s,0s"),
        ("SNAPHOOK_DELIVERY_JITTER", "0"),
    ];
    on_both(async |database| {
        let node = Node::start(database, "one", &settings).await;
        let receiver = Receiver::start(|request: &Received| match request.path.as_str() {
            path if path.starts_with("/good") => answer(200, ANSWER),
            path if path.starts_with("/gone") => answer(410, ANSWER),
            _ => answer(500, ANSWER),
        })
        .await;
        let own = Secret::new_hmac(&[9; 32]).text().to_owned();
        let url = |path: &str| format!("{}?token={QUERY}", receiver.url(path));
        let headers = HashMap::from([("x-own", HEADER)]);
        let add = |url: String| {
            let fields = json!({"url": url, "headers": headers});
            let endpoint = node.client.add_endpoint("acme", fields);
            node.client.call(&format!("POST {endpoint}/secrets"), &json!({ "secret": own }));
            node.client.secret(&endpoint)
        };
        let mut secrets = vec![add(url("/good"))];
        see_through(&node, "delivered", 1).await;
        secrets.push(add(url("/bad")));
        secrets.push(add(url("/gone")));
        secrets.push(add(format!("http://127.0.0.1:{}/?token={QUERY}", closed_port())));
        see_through(&node, "dead", 3).await;
        make_mistakes(&node);
        pause(Duration::from_millis(100)).await;

        let log = node.log();
        let of_database = database.url.split(['@', '/']).filter_map(|part| part.split_once(':'));
        let password = of_database.map(|(_, password)| password).find(|text| text.len() > 5);
        let planted = [PAYLOAD, HEADER, QUERY, ANSWER, WRONG_KEY, MASTER_KEY, &own];
        let planted = planted.into_iter().chain(secrets.iter().map(String::as_str)).chain(password);
        for secret in planted.chain([node.client.key.as_str()]) {
            let line = log.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret} is in the log");
        }
        let lines: Vec<Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let is =
            |value: &Value, prefix: &str| value.as_str().is_some_and(|id| id.starts_with(prefix));
        let of_request = |line: &&Value| {
            let spans = line["spans"].as_array();
            spans.is_some_and(|spans| spans.iter().any(|span| is(&span["request_id"], "req_")))
        };
        assert!(lines.iter().filter(of_request).count() > 5, "{log}");
        let of_delivery = lines.iter().filter(|line| is(&line["delivery"], "dlv_"));
        assert!(of_delivery.count() > 5, "{log}");
    })
    .await;
}
