//! `…/endpoints/{endpoint}/secrets`.

use std::time::Duration;

use http::{Method, header};
use serde_json::{Value, json};
use snaphook_signature::{Clock, Received, Secret, verify_standard};

use super::{TestApi, on_both};

async fn endpoint(api: &TestApi) -> (String, String) {
    let settings = json!({"url": "https://example.com/"});
    let made = api.post("/v1/tenants/acme/endpoints", settings).await.expect(201);
    let path = format!("/v1/tenants/acme/endpoints/{}/secrets", made["id"].as_str().unwrap());
    (path, made["secret"].as_str().unwrap().to_owned())
}

async fn listed(api: &TestApi, path: &str) -> Vec<Value> {
    api.get(path).await.expect(200)["data"].as_array().unwrap().clone()
}

/// Whether the last request verifies with `secret`.
fn last_verifies(api: &TestApi, secret: &str) -> bool {
    use snaphook::world::World as _;
    let request = api.world.requests().pop().unwrap();
    let headers: Vec<(&str, &[u8])> =
        request.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let received = Received::new(&headers, &request.body);
    let now = api.world.now().seconds();
    let secret = Secret::parse(secret).unwrap();
    match verify_standard(&received, "webhook", &[secret], Clock::at(now)) {
        Ok(_) => true,
        Err(refusal) => {
            assert!(
                refusal.to_string().contains("signature"),
                "refused for another reason: {refusal}"
            );
            false
        }
    }
}

#[tokio::test]
async fn a_rotation_signs_with_both_until_its_overlap_ends() {
    on_both(async |api| {
        let (path, old) = endpoint(api).await;
        let body = json!({"overlap": "1h"});

        let answer = api.post(&format!("{path}/rotate"), body).await;
        let new = answer.expect(201)["secret"].as_str().unwrap().to_owned();

        assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
        let list = listed(api, &path).await;
        assert_eq!(list.len(), 2);
        assert!(list.iter().all(|one| one.get("secret").is_none()), "texts are not listed");
        assert!(list[0]["expires_at"].is_null() && list[1]["expires_at"].is_string());
        api.emit("order.paid").await;
        api.deliver_all().await;
        assert!(last_verifies(api, &old) && last_verifies(api, &new));

        api.world.pass(Duration::from_secs(3_601));
        assert_eq!(listed(api, &path).await.len(), 1);
        assert_eq!(listed(api, &format!("{path}?all=true")).await.len(), 2);
        api.emit("order.paid").await;
        api.deliver_all().await;
        assert!(!last_verifies(api, &old) && last_verifies(api, &new));
    })
    .await;
}

#[tokio::test]
async fn a_secret_is_live_once_on_an_endpoint_however_it_is_written() {
    on_both(async |api| {
        let (path, first) = endpoint(api).await;
        let other_padding = first.trim_end_matches('=');
        let id = listed(api, &path).await[0]["id"].as_str().unwrap().to_owned();
        for same in [&*first, other_padding] {
            let answer = api.post(&path, json!({"secret": same})).await;
            assert_eq!(answer.problem(409), "secret_exists");
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(&id) && !detail.contains(same), "{detail}");
        }
        assert_eq!(listed(api, &path).await.len(), 1);
        let (elsewhere, _) = endpoint(api).await;
        api.post(&elsewhere, json!({"secret": first})).await.expect(201);

        api.post(&format!("{path}/rotate"), json!({"overlap": "0s"})).await.expect(201);
        api.post(&path, json!({"secret": first})).await.expect(201);
    })
    .await;
}

#[tokio::test]
async fn a_rotation_without_overlap_ends_the_old_secret_at_once() {
    on_both(async |api| {
        let (path, old) = endpoint(api).await;

        api.post(&format!("{path}/rotate"), json!({"overlap": "0s"})).await.expect(201);

        assert_eq!(listed(api, &path).await.len(), 1);
        api.emit("order.paid").await;
        api.deliver_all().await;
        assert!(!last_verifies(api, &old));
    })
    .await;
}

#[tokio::test]
async fn the_last_live_secret_cannot_be_revoked() {
    on_both(async |api| {
        let (path, _) = endpoint(api).await;
        let first = listed(api, &path).await[0]["id"].as_str().unwrap().to_owned();
        let one = format!("{path}/{first}");

        let answer = api.call(Method::DELETE, &one, Value::Null).await;
        assert_eq!(answer.problem(409), "last_secret");
        api.post(&path, json!({"kind": "ed25519"})).await.expect(201);
        api.call(Method::DELETE, &one, Value::Null).await.expect(204);
        api.call(Method::DELETE, &one, Value::Null).await.expect(204);

        let list = listed(api, &path).await;
        assert_eq!((list.len(), &list[0]["kind"]), (1, &json!("ed25519")));
        assert!(list[0]["public_key"].as_str().unwrap().starts_with("whpk_"));
    })
    .await;
}

#[tokio::test]
async fn revealing_a_secret_gives_its_text_and_is_kept() {
    on_both(async |api| {
        let (path, text) = endpoint(api).await;
        let id = listed(api, &path).await[0]["id"].as_str().unwrap().to_owned();

        let answer = api.post(&format!("{path}/{id}/reveal"), Value::Null).await;

        assert_eq!(answer.expect(200)["secret"], text.as_str());
        assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
        let audit = api.get("/v1/audit?tenant=acme").await.expect(200);
        assert_eq!(audit["data"][0]["action"], "secret.reveal");
        assert_eq!(audit["data"][0]["object"], id.as_str());
        assert!(!audit.to_string().contains(&text), "the audit holds no secret");
    })
    .await;
}

#[tokio::test]
async fn a_secret_can_be_brought_along_if_it_can_sign() {
    on_both(async |api| {
        let (path, _) = endpoint(api).await;
        let known = Secret::new_hmac(&[5; 32]);
        let public = Secret::new_ed25519(&[6; 32]).public_text().unwrap();

        let made = api.post(&path, json!({"secret": known.text()})).await.expect(201);

        assert_eq!(made["secret"], known.text());
        for (body, expected) in [
            (json!({"secret": "whsec_YQ=="}), "secret: the secret holds 1 bytes"),
            (json!({"secret": public}), "secret: whpk_ is the public half"),
            (json!({"secret": known.text(), "kind": "hmac"}), "kind: "),
            (json!({"kind": "rsa"}), "kind: "),
        ] {
            let answer = api.post(&path, body).await;
            assert_eq!(answer.problem(422), "invalid_input");
            assert!(answer.errors()[0].starts_with(expected), "{:?}", answer.errors());
            assert!(!answer.errors()[0].contains("whsec_YQ"), "no secret in a message");
        }
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_has_ten_live_secrets_at_most() {
    on_both(async |api| {
        let (path, _) = endpoint(api).await;
        for _ in 0..9 {
            api.post(&path, Value::Null).await.expect(201);
        }
        assert_eq!(api.post(&path, Value::Null).await.problem(409), "too_many_secrets");
        let rotate = api.post(&format!("{path}/rotate"), Value::Null).await;
        assert_eq!(rotate.problem(409), "too_many_secrets");
        let too_long = api.post(&format!("{path}/rotate"), json!({"overlap": "31d"})).await;
        assert_eq!(too_long.problem(422), "invalid_input");
    })
    .await;
}

#[tokio::test]
async fn rotations_at_the_same_time_all_sign() {
    on_both(async |api| {
        let (path, _) = endpoint(api).await;
        let rotate = format!("{path}/rotate");
        let rotations = (0..5).map(|_| api.post(&rotate, json!({"overlap": "1h"})));
        let answers = futures_util::future::join_all(rotations).await;

        api.emit("order.paid").await;
        api.deliver_all().await;

        let mut made = 0;
        for answer in answers.iter().filter(|answer| answer.status == 201) {
            let secret = answer.json()["secret"].as_str().unwrap().to_owned();
            assert!(last_verifies(api, &secret), "whoever was given a secret can verify with it");
            made += 1;
        }
        assert!(made > 0, "{answers:?}");
    })
    .await;
}

#[tokio::test]
async fn each_rotation_has_an_overlap_of_its_own() {
    on_both(async |api| {
        let (path, mut current) = endpoint(api).await;
        for round in 0..3 {
            let answer = api.post(&format!("{path}/rotate"), json!({"overlap": "24h"})).await;
            let new = answer.expect(201)["secret"].as_str().unwrap().to_owned();
            api.world.pass(Duration::from_hours(23));
            api.emit("order.paid").await;
            api.deliver_all().await;
            assert!(last_verifies(api, &current) && last_verifies(api, &new), "round {round}");
            api.world.pass(Duration::from_hours(25));
            api.emit("order.paid").await;
            api.deliver_all().await;
            assert!(!last_verifies(api, &current) && last_verifies(api, &new), "round {round}");
            current = new;
        }
    })
    .await;
}
