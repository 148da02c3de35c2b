//! From an endpoint's id to its place in the API, which is below its tenant.

use serde_json::Value;
use url::Url;

use super::{
    client::Client,
    exit::{Exit, Failure},
};

/// Where an endpoint is.
pub struct Place<'a> {
    client: &'a Client,
    tenant: String,
    endpoint: String,
}

impl Place<'_> {
    /// The endpoint's URL, or one below it.
    pub fn url(&self, below: &[&str]) -> Url {
        let above = ["v1", "tenants", &self.tenant, "endpoints", &self.endpoint];
        self.client.url(&[&above[..], below].concat())
    }
}

/// The place of `endpoint`. Without its tenant, its deliveries tell it; where it has none, all
/// tenants that the key can see are asked.
pub async fn endpoint<'a>(
    client: &'a Client,
    endpoint: &str,
    tenant: Option<&str>,
) -> anyhow::Result<Place<'a>> {
    let place =
        |tenant: &str| Place { client, tenant: tenant.to_owned(), endpoint: endpoint.to_owned() };
    if let Some(tenant) = tenant {
        return Ok(place(tenant));
    }
    let mut deliveries = client.url(&["v1", "deliveries"]);
    deliveries.query_pairs_mut().append_pair("endpoint", endpoint);
    // What is no endpoint's id is a bad filter; below it is not found.
    if let Ok(page) = client.page(&deliveries, 1).await
        && let Some(delivery) = page.data.first()
    {
        let delivery: Value = serde_json::from_str(delivery.get())?;
        if let Some(tenant) = delivery["tenant"].as_str() {
            return Ok(place(tenant));
        }
    }
    let (tenants, _) = client.list(&client.url(&["v1", "tenants"]), usize::MAX).await?;
    for tenant in tenants {
        let tenant: Value = serde_json::from_str(tenant.get())?;
        let Some(name) = tenant["id"].as_str() else { continue };
        let found = client.get(&place(name).url(&[])).await;
        match found {
            Ok(_) => return Ok(place(name)),
            Err(error) if super::exit::exit_of(&error) == Exit::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(Failure::new(Exit::NotFound, format!("there is no endpoint {endpoint:?}"))
        .hint("`snaphook endpoints list TENANT` shows them")
        .into())
}
