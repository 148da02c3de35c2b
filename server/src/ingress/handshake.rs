//! Handshakes: a provider tries the URL, and hears what it wants to. What they look like and what
//! may be said is the crate's; here is what happens by them: a secret is kept, a page is fetched.
//! And what must be fetched before a request can be verified.

use std::sync::Arc;

use snaphook_signature::{Answer, Handshake, Handshakes, Received};

use super::{
    Ingress,
    answer::Outcome,
    judge::{Doubt, Incoming, pairs},
};
use crate::{
    domain::{
        id::{SecretId, id_at},
        time::Timestamp,
    },
    engine::sources::{LiveSource, ReadySource},
    store::{SourceSecretRow, StoreError, seal::Place},
};

/// Where a handshake that is refused failed.
const STEP: &str = "handshake";

impl Incoming {
    fn handshakes(&self) -> Option<(&ReadySource, &Handshakes)> {
        let ready = self.source.ready.as_ref().ok()?;
        Some((ready, ready.handshakes(self.at)?))
    }

    /// Whether the source waits for a secret that the provider brings.
    fn may_keep(&self, ready: &ReadySource) -> bool {
        self.source.armed_until.is_some_and(|until| until > self.at)
            || ready.secrets(self.at).next().is_none()
    }
}

/// Whether requests of this method are looked at.
pub fn takes(source: &LiveSource, method: &str, at: Timestamp) -> bool {
    let ready = source.ready.as_ref().ok();
    let handshakes = ready.and_then(|ready| ready.handshakes(at));
    method == "POST"
        || handshakes.is_some_and(|handshakes| handshakes.methods().any(|other| other == method))
}

impl Ingress {
    /// What is asked before anything can be verified; `None` when nothing is.
    pub(super) async fn greet(&self, incoming: &Incoming) -> Option<Outcome> {
        let (ready, handshakes) = incoming.handshakes()?;
        let method = incoming.head.method.as_str();
        if handshakes.methods().all(|other| other != method) {
            return None; // nearly always: what follows is not for nothing
        }
        let may_keep = incoming.may_keep(ready);
        let asked = {
            let headers = pairs(&incoming.head.headers);
            let target = incoming.target();
            let received =
                Received::new(&headers, &incoming.body).with_method(method).with_url(&target);
            handshakes.unverified(&received, may_keep)?
        };
        Some(self.answer(incoming, asked).await)
    }

    /// Does what is to be done, and then answers.
    pub(super) async fn answer(&self, incoming: &Incoming, asked: Handshake) -> Outcome {
        let answer = match asked {
            Handshake::Answer(answer) => answer,
            Handshake::Refused { status, reason } => {
                self.rejects.put(incoming, STEP, reason.to_owned());
                return Outcome::HandshakeRefused(status);
            }
        };
        let source = &incoming.source;
        if let Some(secret) = &answer.keep {
            match self.keep_secret(incoming, secret).await {
                Ok(true) => {
                    tracing::info!(source = %source.name, tenant = %source.tenant, "a handshake brought the source's secret");
                }
                Ok(false) => {
                    let reason = "the source has its secret, and waits for none; arm it first";
                    self.rejects.put(incoming, STEP, reason.to_owned());
                    return Outcome::Rejected(source.clone());
                }
                Err(error) => {
                    tracing::warn!(source = %source.name, tenant = %source.tenant, "a secret could not be kept: {error}");
                    return Outcome::Unavailable;
                }
            }
        }
        if let Some(url) = &answer.visit
            && let Err(error) = self.engine.published.visit(url).await
        {
            tracing::warn!(source = %source.name, tenant = %source.tenant, "a subscription could not be confirmed: {error}");
            return Outcome::Unavailable;
        }
        let Answer { status, headers, body, .. } = answer;
        Outcome::Handshake { status, headers, body }
    }

    /// `false` when the source waits for none.
    async fn keep_secret(&self, incoming: &Incoming, text: &str) -> Result<bool, StoreError> {
        let (engine, source) = (&self.engine, &incoming.source);
        let id = SecretId(id_at(incoming.at, engine.world.random()));
        let sealed =
            engine.keyring.seal(text.as_bytes(), Place::of_source_secret(&source.tenant, id));
        let row = SourceSecretRow {
            id,
            source: source.id,
            tenant: source.tenant.clone(),
            sealed,
            created_at: incoming.at,
            expires_at: None,
            revoked_at: None,
        };
        let mut tx = engine.store.begin().await?;
        if !tx.add_awaited_source_secret(&row).await? {
            return Ok(false);
        }
        tx.commit().await?;
        // The first event may follow at once. Other nodes read it within a second.
        engine.sources.refresh().await?;
        Ok(true)
    }

    /// What must be fetched for the request to be verified, if anything.
    pub(super) async fn published(&self, incoming: &Incoming) -> Result<Option<Arc<str>>, Doubt> {
        let Some(need) = incoming.need()? else { return Ok(None) };
        let ready = incoming.ready()?;
        let plaid = ready.plaid(incoming.at);
        match self.engine.published.get(&need, plaid).await {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                let source = &incoming.source;
                tracing::warn!(source = %source.name, tenant = %source.tenant, "a request cannot be verified: {error}");
                Err(Doubt::Unknown)
            }
        }
    }
}
