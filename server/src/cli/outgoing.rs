//! An event of a server as the request that an endpoint would get: fetched, and made by the code
//! that makes all of them.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::Deserialize;
use snaphook_signature::{Received, Secret, Verifier};
use url::Url;

use super::{
    client::Client,
    exit::{Exit, Failure, exit_of},
    note,
    scheme_args::SchemeArgs,
};
use crate::{
    domain::{
        endpoint::{EndpointSettings, TIMEOUT_RANGE},
        format::{EventView, Format},
        forwarded::ForwardedHeaders,
        id::{EventId, SecretId},
        profile::{Profile, Profiles, Scheme},
        time::Timestamp,
    },
    engine::prepare::{EndpointSecret, Parcel, PassedOn, PrepareError, ReadyEndpoint, prepare},
    world::Request,
};

/// What a listing tells of an event.
#[derive(Deserialize)]
pub struct Summary {
    /// Its id.
    pub id: EventId,
    /// Whose it is.
    pub tenant: String,
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The source that took it.
    pub source: Option<String>,
    version: Option<String>,
    key: Option<String>,
    occurred_at: Option<Timestamp>,
    content_type: Option<String>,
    traceparent: Option<String>,
}

/// All that a request is made of.
pub struct Fetched {
    /// What the listing said.
    pub summary: Summary,
    /// Byte for byte.
    pub payload: Bytes,
    /// Where a source took it.
    headers: Option<ForwardedHeaders>,
    /// Headers that the server keeps to itself, for they hold a source's secret.
    left_out: Vec<String>,
}

/// What the API tells of headers.
#[derive(Deserialize)]
struct Headers {
    headers: Vec<Header>,
    #[serde(default)]
    left_out: Vec<String>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: Option<String>,
    value_base64: Option<String>,
}

impl Summary {
    /// Fetches the rest.
    pub async fn fetch(self, client: &Client) -> anyhow::Result<Fetched> {
        let id = self.id.to_string();
        let payload = client.get_bytes(&client.url(&["v1", "events", &id, "payload"])).await?;
        let (mut headers, mut left_out) = (None, Vec::new());
        if self.source.is_some() {
            let found = client.get(&client.url(&["v1", "events", &id, "headers"])).await;
            let found: Headers = serde_json::from_str(found.map_err(explain)?.get())?;
            left_out = found.left_out;
            headers = Some(read(found.headers)?);
        }
        Ok(Fetched { summary: self, payload, headers, left_out })
    }
}

fn explain(error: anyhow::Error) -> anyhow::Error {
    match exit_of(&error) {
        Exit::NotAllowed => error.context("what a source took goes on with what proves its sender"),
        _ => error,
    }
}

fn read(given: Vec<Header>) -> anyhow::Result<ForwardedHeaders> {
    let bytes = |header: Header| {
        let value = match (header.value, header.value_base64) {
            (Some(text), _) => text.into_bytes(),
            (_, text) => BASE64_STANDARD.decode(text.unwrap_or_default())?,
        };
        anyhow::Ok((header.name, value))
    };
    let headers: Vec<_> = given.into_iter().map(bytes).collect::<Result<_, _>>()?;
    let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
    Ok(ForwardedHeaders::of(pairs))
}

/// Makes requests of events, as one endpoint gets them.
pub struct Maker {
    endpoint: ReadyEndpoint,
    /// Signs what a source took anew, as a provider does.
    signer: Option<Verifier>,
    base_url: String,
    /// Made, since none was given.
    made: Option<Secret>,
}

impl Maker {
    /// Requests to `url`. Where a scheme is named, what a source took is signed anew by it.
    pub fn new(
        scheme: &SchemeArgs,
        url: &Url,
        format: Format,
        client: &Client,
    ) -> anyhow::Result<Self> {
        let given = scheme.secrets.read()?;
        let signer = match scheme.scheme()? {
            Some(_) => Some(signer(scheme)?),
            None => None,
        };
        let parsed = given.iter().map(|text| Secret::parse_pasted(text)).collect();
        let mut secrets: Vec<Secret> = match (parsed, &signer) {
            (Ok(secrets), _) => secrets,
            // Of the provider's form, and not of ours.
            (Err(_), Some(_)) => Vec::new(),
            (Err(error), None) => return Err(Failure::usage(format!("the secret: {error}")).into()),
        };
        let made = secrets.is_empty().then(|| client.secret_for("snaphook listen"));
        secrets.extend(made.clone());
        let mut settings =
            EndpointSettings { url: url.to_string(), format, ..EndpointSettings::default() };
        if signer.is_some() {
            settings.signature = Profiles(vec![Profile { scheme: Scheme::Source, header: None }]);
        }
        // The newest signs first: the first that was given.
        let secrets = (1..).zip(secrets.into_iter().rev()).map(|(id, secret)| EndpointSecret {
            id: SecretId(id),
            secret,
            expires_at: None,
        });
        let (_, timeout) = TIMEOUT_RANGE;
        let endpoint = ReadyEndpoint::new(&settings, secrets.collect(), timeout)?;
        let base_url = client.url(&[]).as_str().trim_end_matches('/').to_owned();
        Ok(Self { endpoint, signer, base_url, made })
    }

    /// Tells a secret that nobody gave.
    pub fn note_secret(&self) {
        if let Some(made) = &self.made {
            let whose = if self.signer.is_some() { "snaphook's own headers are " } else { "" };
            note(&format!(
                "{whose}signed with {}, in every session with this API key",
                made.text()
            ));
        }
    }

    /// Tells which headers an event lacks, where none is put in their place.
    pub fn lacking(&self, event: &Fetched) -> Option<String> {
        let names = event.left_out.join(", ");
        (self.signer.is_none() && !names.is_empty()).then(|| {
            format!(
                "without {names}, which is the source's secret itself; \
                 --scheme and --secret put one of your own there"
            )
        })
    }

    /// The request of an event.
    pub fn request(&self, event: &Fetched, now: Timestamp) -> Result<Request, PrepareError> {
        let Fetched { summary, payload, headers, .. } = event;
        let inbound = headers.as_ref().map(|headers| PassedOn {
            headers,
            key: summary.key.as_deref().unwrap_or_default(),
            signer: self.signer.as_ref(),
        });
        let view = EventView {
            id: summary.id,
            tenant: &summary.tenant,
            event_type: &summary.event_type,
            version: summary.version.as_deref(),
            occurred_at: summary.occurred_at,
            payload,
            content_type: summary.content_type.as_deref(),
        };
        let parcel = Parcel {
            event: view,
            traceparent: summary.traceparent.as_deref(),
            endpoint: &self.endpoint,
            base_url: &self.base_url,
            inbound,
        };
        prepare(&parcel, now)
    }
}

/// What signs as a provider does; refused where only the provider can.
fn signer(scheme: &SchemeArgs) -> anyhow::Result<Verifier> {
    let verifier = scheme.verifier()?.map_err(Failure::usage)?;
    let tried = verifier.sign(&Received::new(&[], b"{}").with_url("http://localhost/"), "id", 0);
    if let Err(error @ snaphook_signature::SignError::PublicScheme(_)) = tried {
        return Err(Failure::usage(error.to_string())
            .hint("leave --scheme out: what a source took goes on with the signature that it had")
            .into());
    }
    Ok(verifier)
}
