//! Every route and every kind of caller: who may do what, as one table. A route that is not in
//! it fails the test, so none is ever opened unthought.

use http::{Method, StatusCode};
use serde_json::{Value, json};
use snaphook::domain::{
    request_state::RequestState,
    scope::Scope::{self, Emit, Manage, Read},
};

use super::api::{TestApi, on_both, requests};

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq)]
enum May {
    /// Anybody, without a key.
    Anyone,
    /// Keys with this scope: the operator's, and those of the tenant it is about.
    Tenant(Scope),
    /// Keys with this scope, each within what it sees.
    Each(Scope),
    /// Operators' keys with this scope.
    Operator(Scope),
}
use May::{Anyone, Each, Operator, Tenant};

const ROUTES: &[(&str, &str, May)] = &[
    ("get", "/healthz", Anyone),
    ("get", "/readyz", Anyone),
    ("get", "/metrics", Operator(Read)),
    ("get", "/v1/audit", Each(Manage)),
    ("get", "/v1/deliveries", Each(Read)),
    ("get", "/v1/deliveries/{delivery}", Tenant(Read)),
    ("post", "/v1/deliveries/{delivery}/cancel", Tenant(Manage)),
    ("post", "/v1/deliveries/{delivery}/redeliver", Tenant(Manage)),
    ("post", "/v1/deliveries/{delivery}/try-now", Tenant(Manage)),
    ("get", "/v1/event-types", Each(Read)),
    ("post", "/v1/event-types", Operator(Manage)),
    ("get", "/v1/event-types/{name}", Each(Read)),
    ("put", "/v1/event-types/{name}", Operator(Manage)),
    ("patch", "/v1/event-types/{name}", Operator(Manage)),
    ("delete", "/v1/event-types/{name}", Operator(Manage)),
    ("get", "/v1/events", Each(Read)),
    ("post", "/v1/events", Each(Emit)),
    ("post", "/v1/events/batch", Each(Emit)),
    ("get", "/v1/events/{event}", Tenant(Read)),
    ("get", "/v1/events/{event}/deliveries", Tenant(Read)),
    ("get", "/v1/events/{event}/headers", Tenant(Manage)),
    ("get", "/v1/events/{event}/payload", Tenant(Read)),
    ("get", "/v1/keys", Each(Manage)),
    ("post", "/v1/keys", Each(Manage)),
    ("get", "/v1/keys/{key}", Tenant(Manage)),
    ("delete", "/v1/keys/{key}", Tenant(Manage)),
    ("post", "/v1/queues/{endpoint}/ack", Tenant(Manage)),
    ("post", "/v1/queues/{endpoint}/claim", Tenant(Manage)),
    ("post", "/v1/queues/{endpoint}/nack", Tenant(Manage)),
    ("get", "/v1/requests/{request}", Tenant(Manage)),
    ("post", "/v1/requests/{request}/accept", Tenant(Manage)),
    ("post", "/v1/requests/{request}/redeliver", Tenant(Manage)),
    ("post", "/v1/requests/{request}/verify", Tenant(Manage)),
    ("get", "/v1/sources", Each(Read)),
    ("post", "/v1/sources", Each(Manage)),
    ("get", "/v1/sources/{source}", Tenant(Read)),
    ("patch", "/v1/sources/{source}", Tenant(Manage)),
    ("delete", "/v1/sources/{source}", Tenant(Manage)),
    ("post", "/v1/sources/{source}/arm", Tenant(Manage)),
    ("post", "/v1/sources/{source}/pause", Tenant(Manage)),
    ("post", "/v1/sources/{source}/resume", Tenant(Manage)),
    ("get", "/v1/sources/{source}/requests", Tenant(Read)),
    ("get", "/v1/sources/{source}/secrets", Tenant(Read)),
    ("post", "/v1/sources/{source}/secrets", Tenant(Manage)),
    ("post", "/v1/sources/{source}/secrets/rotate", Tenant(Manage)),
    ("delete", "/v1/sources/{source}/secrets/{secret}", Tenant(Manage)),
    ("post", "/v1/sources/{source}/secrets/{secret}/reveal", Tenant(Manage)),
    ("get", "/v1/tenants", Each(Read)),
    ("get", "/v1/tenants/{tenant}", Tenant(Read)),
    ("put", "/v1/tenants/{tenant}", Operator(Manage)),
    ("patch", "/v1/tenants/{tenant}", Tenant(Manage)),
    ("delete", "/v1/tenants/{tenant}", Operator(Manage)),
    ("get", "/v1/tenants/{tenant}/endpoints", Tenant(Read)),
    ("post", "/v1/tenants/{tenant}/endpoints", Tenant(Manage)),
    ("get", "/v1/tenants/{tenant}/endpoints/{endpoint}", Tenant(Read)),
    ("patch", "/v1/tenants/{tenant}/endpoints/{endpoint}", Tenant(Manage)),
    ("delete", "/v1/tenants/{tenant}/endpoints/{endpoint}", Tenant(Manage)),
    ("post", "/v1/tenants/{tenant}/endpoints/{endpoint}/enable", Tenant(Manage)),
    ("post", "/v1/tenants/{tenant}/endpoints/{endpoint}/pause", Tenant(Manage)),
    ("post", "/v1/tenants/{tenant}/endpoints/{endpoint}/probe", Tenant(Manage)),
    ("post", "/v1/tenants/{tenant}/endpoints/{endpoint}/resume", Tenant(Manage)),
    ("post", "/v1/tenants/{tenant}/endpoints/{endpoint}/test", Tenant(Manage)),
    ("get", "/v1/tenants/{tenant}/endpoints/{endpoint}/secrets", Tenant(Read)),
    ("post", "/v1/tenants/{tenant}/endpoints/{endpoint}/secrets", Tenant(Manage)),
    ("post", "/v1/tenants/{tenant}/endpoints/{endpoint}/secrets/rotate", Tenant(Manage)),
    ("delete", "/v1/tenants/{tenant}/endpoints/{endpoint}/secrets/{secret}", Tenant(Manage)),
    ("post", "/v1/tenants/{tenant}/endpoints/{endpoint}/secrets/{secret}/reveal", Tenant(Manage)),
    ("post", "/v1/tenants/{tenant}/events/{type}", Tenant(Emit)),
];

#[test]
fn every_route_is_in_the_table() {
    let document = snaphook::api::document();
    let mut declared: Vec<(String, String)> = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        declared.extend(item.as_object().unwrap().keys().map(|verb| (verb.clone(), path.clone())));
    }
    let mut listed: Vec<(String, String)> =
        ROUTES.iter().map(|(verb, path, _)| ((*verb).to_owned(), (*path).to_owned())).collect();
    declared.sort();
    listed.sort();
    assert_eq!(listed, declared);
}

/// Real things of `acme`, to put into the paths.
struct Things {
    names: Vec<(&'static str, String)>,
}

impl Things {
    async fn new(api: &TestApi) -> Self {
        let endpoint = api.add_endpoint(json!({"url": "https://example.com/"})).await;
        let event = api.emit("order.paid").await;
        let page = api.get(&format!("/v1/events/{event}/deliveries")).await.expect(200);
        let delivery = page["data"][0]["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/tenants/acme/endpoints/{endpoint}/secrets");
        let secret = api.get(&path).await.expect(200)["data"][0]["id"].as_str().unwrap().to_owned();
        let new = json!({"tenant": "acme", "scopes": ["read"]});
        let key = api.post("/v1/keys", new).await.expect(201)["id"].as_str().unwrap().to_owned();
        let new = json!({
            "tenant": "acme", "name": format!("shop-{}", &event[10..]), "scheme": "github",
            "secrets": ["one"],
        });
        let source =
            api.post("/v1/sources", new).await.expect(201)["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/sources/{source}/secrets");
        let page = api.get(&path).await.expect(200);
        let source_secret = page["data"][0]["id"].as_str().unwrap().to_owned();
        let token = source.parse().unwrap();
        let request = requests::keep(api, &token, 1, "two", RequestState::Rejected).await;
        let request = request.strip_prefix("/v1/requests/").unwrap().to_owned();
        let name = "order.paid".to_owned();
        api.call(Method::PUT, "/v1/event-types/order.paid", Value::Null).await.expect(201);
        let names = vec![
            ("{tenant}", "acme".to_owned()),
            ("{endpoint}", endpoint),
            ("{event}", event),
            ("{delivery}", delivery),
            ("{secret}", secret),
            ("{source}", source),
            ("{request}", request),
            ("{secret of a source}", source_secret),
            ("{key}", key),
            ("{name}", name),
            ("{type}", "order.paid".to_owned()),
        ];
        Self { names }
    }

    fn path(&self, template: &str) -> String {
        let template = if template.starts_with("/v1/sources/") {
            template.replace("{secret}", "{secret of a source}")
        } else {
            template.to_owned()
        };
        self.names.iter().fold(template, |path, (name, value)| path.replace(name, value))
    }
}

/// A body that nobody takes: whoever gets as far as its fields is let in.
fn wrong_body() -> Value {
    json!({"no_such_field": 1})
}

async fn call(api: &TestApi, key: &str, (verb, path): (&str, &str)) -> StatusCode {
    let method: Method = verb.to_ascii_uppercase().parse().unwrap();
    // What can be done to these takes no fields, and is looked for after they are read.
    let bare = matches!(verb, "get" | "delete")
        || path.starts_with("/v1/deliveries/")
        || path.starts_with("/v1/requests/")
        || (verb == "post" && path.starts_with("/v1/sources/"));
    let body = if bare { Value::Null } else { wrong_body() };
    api.call_as(key, method, path, body).await.status
}

#[tokio::test]
async fn nobody_calls_what_is_not_theirs() {
    on_both(async |api| {
        api.add_tenant("globex").await;
        let things = Things::new(api).await;
        let all = [Read, Emit, Manage];
        let foreign = api.key(Some("globex"), &all).await;
        for (verb, template, may) in ROUTES {
            let path = things.path(template);
            let ask = async |key: &str| call(api, key, (verb, &path)).await.as_u16();
            let shown = format!("{verb} {template}");
            let (scope, in_vain) = match may {
                Anyone => {
                    assert_eq!(ask("").await, 200, "{shown} without a key");
                    continue;
                }
                Tenant(scope) => (*scope, Some(404)),
                Each(scope) => (*scope, None),
                Operator(scope) => (*scope, Some(403)),
            };
            assert_eq!(ask("").await, 401, "{shown} without a key");
            assert_eq!(ask("shk_guessed").await, 401, "{shown} with a key that is none");
            let others: Vec<Scope> = all.into_iter().filter(|other| *other != scope).collect();
            for tenant in [None, Some("acme"), Some("globex")] {
                let key = api.key(tenant, &others).await;
                assert_eq!(ask(&key).await, 403, "{shown} without {scope} for {tenant:?}");
            }
            if let Some(expected) = in_vain {
                assert_eq!(ask(&foreign).await, expected, "{shown} of a foreign tenant");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn everybody_calls_what_is_theirs() {
    on_both(async |api| {
        // Those that end something come last, and their things are made anew for each caller.
        for owner in [None, Some("acme")] {
            for (verb, template, may) in ROUTES {
                let scope = match (may, owner) {
                    (Anyone, _) | (Operator(_), Some(_)) => continue,
                    (Tenant(scope) | Each(scope) | Operator(scope), _) => *scope,
                };
                api.add_tenant("acme").await;
                let things = Things::new_or_known(api).await;
                let key = api.key(owner, &[scope]).await;
                let status = call(api, &key, (verb, &things.path(template))).await;
                assert!(
                    ![401, 403, 404].contains(&status.as_u16()) && !status.is_server_error(),
                    "{verb} {template} for {owner:?}: {status}"
                );
            }
        }
    })
    .await;
}

impl Things {
    /// As `new`, where the event type may be declared already.
    async fn new_or_known(api: &TestApi) -> Self {
        api.call(Method::DELETE, "/v1/event-types/order.paid", Value::Null).await;
        Self::new(api).await
    }
}
