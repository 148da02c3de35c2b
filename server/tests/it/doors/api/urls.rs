//! URLs judged when they are saved, through the whole door: every case of `cases/urls.json`.

use serde_json::{Value, json};

use super::on_both;

#[tokio::test]
async fn every_url_gets_its_verdict_and_its_stored_form() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../../../cases/urls.json")).unwrap();
    assert!(cases.len() > 50);
    on_both(async |api| {
        for case in &cases {
            let answer = api.post("/v1/tenants/acme/endpoints", json!({"url": case["url"]})).await;
            if case["verdict"] == "accept" {
                assert_eq!(answer.expect(201)["url"], case["stored"], "{case}");
            } else {
                assert_eq!(answer.problem(422), "invalid_input", "{case}");
                assert!(answer.errors().iter().all(|one| one.starts_with("url: ")), "{case}");
            }
        }
    })
    .await;
}
