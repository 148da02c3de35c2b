//! What listings share: how many, since when, and which. The API has the same words.

use url::Url;

use super::client::Client;

/// How much of a listing is shown.
#[derive(Debug, clap::Args)]
pub struct Range {
    /// At most so many
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub limit: usize,
}

/// The time that a listing covers.
#[derive(Debug, clap::Args)]
pub struct Span {
    /// From this time on: RFC 3339, or an age such as 2h or 7d
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Up to this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
}

/// A URL with those conditions that were given.
pub fn with(client: &Client, parts: &[&str], conditions: &[(&str, Option<&str>)]) -> Url {
    let mut url = client.url(parts);
    for (name, value) in conditions {
        if let Some(value) = value {
            url.query_pairs_mut().append_pair(name, value);
        }
    }
    url
}
