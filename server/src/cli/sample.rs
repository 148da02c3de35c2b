//! The sample that `snaphook dev` shows: tenant `acme`, one endpoint, one event.

use http::Method;
use serde_json::{Value, json};
use snaphook_signature::Secret;

use super::{
    client::Client,
    exit::{Exit, exit_of},
};
use crate::{domain::tenant::TenantId, manage::Manage, store::page::Page};

const TENANT: &str = "acme";

/// By which the endpoint is found again at the next start.
const MARK: (&str, &str) = ("made_by", "snaphook dev");

/// What was set up.
pub struct Sample {
    /// The endpoint's id.
    pub endpoint: String,
    /// The id of the event that is on its way to it.
    pub event: String,
}

/// Makes what is not there yet, points the endpoint to `receiver`, and emits an event.
pub async fn set_up(client: &Client, receiver: &str) -> anyhow::Result<Sample> {
    let tenant = client.url(&["v1", "tenants", TENANT]);
    match client.get(&tenant).await {
        Ok(_) => {}
        Err(error) if exit_of(&error) == Exit::NotFound => {
            client.send(Method::PUT, &tenant, &json!({})).await?;
        }
        Err(error) => return Err(error),
    }
    let endpoint = endpoint(client, receiver).await?;
    let event = json!({
        "tenant": TENANT,
        "type": "order.paid",
        "data": {"order_id": 1, "amount": 4999, "currency": "eur"},
    });
    let event = client.send(Method::POST, &client.url(&["v1", "events"]), &event).await?;
    let event: Value = serde_json::from_str(event.get())?;
    Ok(Sample { endpoint, event: event["id"].as_str().unwrap_or_default().to_owned() })
}

async fn endpoint(client: &Client, receiver: &str) -> anyhow::Result<String> {
    let all = client.url(&["v1", "tenants", TENANT, "endpoints"]);
    let (endpoints, _) = client.list(&all, usize::MAX).await?;
    let (mark, name) = MARK;
    for endpoint in endpoints {
        let endpoint: Value = serde_json::from_str(endpoint.get())?;
        if let (Some(id), true) = (endpoint["id"].as_str(), endpoint["metadata"][mark] == name) {
            // The receiver has a new port at every start.
            let at = client.url(&["v1", "tenants", TENANT, "endpoints", id]);
            client.send(Method::PATCH, &at, &json!({"url": receiver})).await?;
            return Ok(id.to_owned());
        }
    }
    let new = json!({
        "url": receiver,
        "description": "The receiver of snaphook dev",
        "metadata": {mark: name},
    });
    let made = client.send(Method::POST, &all, &new).await?;
    let made: Value = serde_json::from_str(made.get())?;
    Ok(made["id"].as_str().unwrap_or_default().to_owned())
}

/// The live secrets of the sample endpoint.
pub async fn secrets(manage: &Manage) -> anyhow::Result<Vec<Secret>> {
    let tenant = TenantId::parse(TENANT)?;
    let mut reader = manage.store.read().await?;
    let page = Page::new("sample", None, 250)?;
    let endpoints = reader.list_endpoints(&tenant, page).await?;
    let (mark, name) = MARK;
    let mut secrets = Vec::new();
    for endpoint in endpoints
        .rows
        .iter()
        .filter(|row| row.settings.metadata.get(mark).is_some_and(|value| value == name))
    {
        for row in reader.list_live_secrets(endpoint.id, manage.world.now()).await? {
            secrets.push(manage.open_secret(&row)?);
        }
    }
    Ok(secrets)
}
