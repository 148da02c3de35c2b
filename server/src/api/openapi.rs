//! The OpenAPI document, made from the handlers themselves. What all operations share is added
//! here once: the key, the problem document, pages, `Idempotency-Key`.

use serde_json::{Value, json};
use utoipa::PartialSchema as _;

use super::{
    error::{FieldProblem, ProblemDocument},
    routes,
};

/// What the operations are about, in the order in which a newcomer needs them.
const TAGS: [(&str, &str); 10] = [
    ("events", "What happened: handed in, listed, shown"),
    ("tenants", "Your customers, under your own ids"),
    ("endpoints", "Where events go, and which of them"),
    ("secrets", "What requests to an endpoint are signed with"),
    ("sources", "Where signed requests of providers come in, and their secrets"),
    ("event types", "What you declare: descriptions and JSON Schemas"),
    ("deliveries", "Events on their way to endpoints; dead letters are `state=dead`"),
    ("queues", "Endpoints of kind `queue`, from which consumers pull"),
    ("keys", "Who may call this API"),
    ("system", "Health, metrics, who changed what"),
];

/// How to call: a section of the page for people.
const AUTHENTICATION: &str = "Send an API key with each request: `Authorization: Bearer shk_…`. \
    `snaphook keys create --role operator` makes the first one on the database itself; \
    `POST /v1/keys` makes more. A key is the operator's and sees all tenants, or it is bound to one \
    tenant, for which no other exists. Of the scopes `read`, `emit` and `manage` it has those that \
    it was given. A revoked key is refused everywhere after five seconds. `/healthz` and \
    `/readyz` need no key.";

/// The document as JSON.
pub fn document() -> Value {
    let (_, document) = routes().split_for_parts();
    let mut document = serde_json::to_value(document).expect("an OpenAPI document is JSON");
    document["info"] = json!({
        "title": "snaphook",
        "version": env!("CARGO_PKG_VERSION"),
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        "description": "Webhooks: events go in, deliveries go out until they arrive. Times are \
            RFC 3339 in UTC, durations are written as 30s, 5m, 28h. Unknown fields and parameters \
            are refused. Errors are problem documents (RFC 9457) with a stable code.",
    });
    let schemas = &mut document["components"]["schemas"];
    schemas["Problem"] = schema(ProblemDocument::schema());
    schemas["FieldProblem"] = schema(FieldProblem::schema());
    document["components"]["securitySchemes"] = json!({
        "key": { "type": "http", "scheme": "bearer", "description": AUTHENTICATION }
    });
    let tag = |(name, description)| json!({ "name": name, "description": description });
    document["tags"] = TAGS.map(tag).to_vec().into();
    document["security"] = json!([{ "key": [] }]);
    let paths = document["paths"].as_object_mut().expect("there are paths");
    for item in paths.values_mut().filter_map(Value::as_object_mut) {
        for (method, operation) in item.iter_mut() {
            complete(method, operation);
        }
    }
    document
}

fn schema(schema: impl serde::Serialize) -> Value {
    serde_json::to_value(schema).expect("a schema is JSON")
}

/// Adds to an operation what it shares with others of its kind.
fn complete(method: &str, operation: &mut Value) {
    operation["responses"]["default"] = json!({
        "description": "A problem",
        "content": { "application/problem+json": {
            "schema": { "$ref": "#/components/schemas/Problem" }
        } }
    });
    for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
        if response["description"].as_str().is_none_or(str::is_empty) {
            response["description"] = meaning_of(status).into();
        }
    }
    let is_list = operation["operationId"].as_str().is_some_and(|id| id.starts_with("list_"));
    let mut shared = Vec::new();
    if is_list {
        shared.push(json!({ "name": "limit", "in": "query", "description": "Items of a page",
            "schema": { "type": "integer", "minimum": 1, "maximum": 250, "default": 50 } }));
        shared.push(json!({ "name": "cursor", "in": "query", "schema": { "type": "string" },
            "description": "`next` or `previous` of a page, with the same filters" }));
    }
    if method == "post" {
        shared.push(json!({ "name": "Idempotency-Key", "in": "header",
            "schema": { "type": "string", "minLength": 1, "maxLength": 256 },
            "description": "Sent again with the same key, the request does its work once and gets \
                the same answer, for 24 h" }));
    }
    if shared.is_empty() {
        return;
    }
    match operation["parameters"].as_array_mut() {
        Some(parameters) => parameters.extend(shared),
        None => operation["parameters"] = shared.into(),
    }
}

fn meaning_of(status: &str) -> &'static str {
    match status {
        "201" => "Made",
        "202" => "Accepted",
        "204" => "Done",
        _ => "As asked for",
    }
}
