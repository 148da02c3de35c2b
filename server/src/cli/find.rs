//! From an endpoint's id to its place in the API, which is below its tenant; and from a source's
//! id or name to its own.

use serde_json::Value;
use url::Url;

use super::{
    client::Client,
    exit::{Exit, Failure},
};

/// Where an endpoint or a source is.
pub struct Place<'a> {
    client: &'a Client,
    above: Vec<String>,
}

impl<'a> Place<'a> {
    fn new(client: &'a Client, above: &[&str]) -> Self {
        Self { client, above: above.iter().map(|part| (*part).to_owned()).collect() }
    }

    /// Its URL, or one below it.
    pub fn url(&self, below: &[&str]) -> Url {
        let above = self.above.iter().map(String::as_str);
        self.client.url(&above.chain(below.iter().copied()).collect::<Vec<_>>())
    }
}

/// Whether a text is the id of a source.
pub fn is_source(text: &str) -> bool {
    text.starts_with("src_")
}

/// Whether a text is the id of an endpoint: they have no names.
pub fn is_endpoint(text: &str) -> bool {
    text.starts_with("ep_")
}

/// The place of `source`, given by its id, or by its name where one source alone has it.
pub async fn source<'a>(client: &'a Client, source: &str) -> anyhow::Result<Place<'a>> {
    let id = source_id(client, source).await?;
    Ok(Place::new(client, &["v1", "sources", &id]))
}

/// The id of `source`, given as for [`source`].
pub async fn source_id(client: &Client, source: &str) -> anyhow::Result<String> {
    if is_source(source) {
        return Ok(source.to_owned());
    }
    let (sources, _) = client.list(&client.url(&["v1", "sources"]), usize::MAX).await?;
    let mut ids = Vec::new();
    for found in sources {
        let found: Value = serde_json::from_str(found.get())?;
        if found["name"] == source {
            ids.extend(found["id"].as_str().map(str::to_owned));
        }
    }
    match ids.as_slice() {
        [id] => Ok(id.clone()),
        [] => Err(Failure::new(Exit::NotFound, format!("there is no source {source:?}"))
            .hint("`snaphook sources list` shows them")
            .into()),
        _ => Err(Failure::usage(format!("several sources have the name {source}"))
            .hint("`snaphook sources list` shows their ids; give one of these")
            .into()),
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
        |tenant: &str| Place::new(client, &["v1", "tenants", tenant, "endpoints", endpoint]);
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
