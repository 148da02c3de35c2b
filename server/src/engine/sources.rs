//! Sources as the door uses them: parsed, opened and ready, found by the id in their URL.
//!
//! All of them are kept in memory, so that an id that nobody has costs no look into the database.
//! What changed is read again once the configuration's epoch is another; [`SourceBook::keep`] looks
//! every second, so a new source is found on every node after that.

use std::{
    borrow::Cow,
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use snaphook_signature::{Handshakes, IdScope, Scheme, Verifier};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::published::PlaidAccess;
use crate::{
    domain::{
        id::{SecretId, SourceId},
        problem::Problem,
        source::{
            Answer, BODY_LIMIT_DEFAULT, KEEP_REJECTED_DEFAULT, SourcePrivate, SourceSettings,
            SourceState, SourceToken,
        },
        tenant::TenantId,
        time::Timestamp,
    },
    store::{
        SourceRow, SourceSecretRow, Store, StoreError,
        seal::{Keyring, Place},
    },
};

/// How often the epoch is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// A source, ready for requests.
pub struct LiveSource {
    /// How other tables refer to it.
    pub id: SourceId,
    /// Its id for people.
    pub token: SourceToken,
    /// Whose it is.
    pub tenant: TenantId,
    /// The first part of the types of its events.
    pub name: Arc<str>,
    /// Whether what it takes goes on.
    pub state: SourceState,
    /// Until then a handshake may set its secret anew.
    pub armed_until: Option<Timestamp>,
    /// What the provider signs as its URL.
    pub public_url: String,
    /// Bytes of a body.
    pub body_limit: usize,
    /// The status of a refusal.
    pub reject_status: u16,
    /// What a genuine request is answered with.
    pub answer: Answer,
    /// Rejected requests that are kept.
    pub keep_rejected: u32,
    /// The configuration epoch of its last change.
    pub epoch: i64,
    /// What needs its secrets; or why nothing can be verified, which is the operator's to mend.
    pub ready: Result<ReadySource, String>,
}

impl LiveSource {
    /// The URL as the provider signs it: the one that it was given, with the query that came.
    pub fn signed_url(&self, query: Option<&str>) -> Cow<'_, str> {
        let given = self.public_url.as_str();
        match query {
            None => given.into(),
            Some(query) => {
                let bare = given.split_once('?').map_or(given, |(bare, _)| bare);
                format!("{bare}?{query}").into()
            }
        }
    }
}

/// What of a source needs its scheme and its secrets.
pub struct ReadySource {
    /// How the provider signs.
    pub scheme: Arc<Scheme>,
    /// Whether two requests with one id are one event.
    pub id_scope: IdScope,
    /// The second part of the credential, where the provider has two.
    pub public_key: Option<String>,
    /// Not revoked, the newest first.
    secrets: Vec<LiveSecret>,
    /// In the order of their ends; the last is without one.
    stages: Vec<Stage>,
}

/// What works with the secrets that are the live ones until `end`.
struct Stage {
    end: Option<Timestamp>,
    /// `None`: there was no secret to make one with.
    verifier: Option<Verifier>,
    handshakes: Handshakes,
}

/// A secret of a source, opened.
pub struct LiveSecret {
    /// Its id.
    pub id: SecretId,
    /// As the provider shows it.
    pub text: Zeroizing<String>,
    /// It verifies until then; without end when `None`.
    pub expires_at: Option<Timestamp>,
}

impl ReadySource {
    fn new(
        settings: &SourceSettings,
        private: SourcePrivate,
        secrets: Vec<LiveSecret>,
    ) -> Result<Self, Problem> {
        let mut settings = settings.clone();
        settings.put_private(private);
        let scheme = settings.scheme()?;
        let mut ends: Vec<Option<Timestamp>> =
            secrets.iter().filter_map(|secret| secret.expires_at).map(Some).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.push(None);
        let stage = |end: Option<Timestamp>| {
            let live = |secret: &&LiveSecret| match (secret.expires_at, end) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(expires), Some(end)) => expires >= end,
            };
            let texts: Vec<&str> =
                secrets.iter().filter(live).map(|secret| secret.text.as_str()).collect();
            let verifier = match settings.verifier(&texts) {
                Ok(verifier) => Some(verifier),
                Err(_) if texts.is_empty() => None,
                Err(problem) => return Err(problem),
            };
            Ok(Stage { end, verifier, handshakes: settings.handshakes(&texts)? })
        };
        Ok(Self {
            id_scope: settings.id_scope(&scheme),
            stages: ends.into_iter().map(stage).collect::<Result<_, _>>()?,
            public_key: settings.public_key,
            scheme,
            secrets,
        })
    }

    /// What verifies with the secrets that are live at `now`. `None` where there is no secret and
    /// the scheme needs one: then nothing is genuine.
    pub fn verifier(&self, now: Timestamp) -> Option<&Verifier> {
        self.stage(now).and_then(|stage| stage.verifier.as_ref())
    }

    /// What answers handshakes with the secrets that are live at `now`.
    pub fn handshakes(&self, now: Timestamp) -> Option<&Handshakes> {
        self.stage(now).map(|stage| &stage.handshakes)
    }

    fn stage(&self, now: Timestamp) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.end.is_none_or(|end| end > now))
    }

    /// What it takes to ask Plaid for a key, where the source has a client id and a secret.
    pub fn plaid(&self, now: Timestamp) -> Option<PlaidAccess<'_>> {
        let secret = self.secrets(now).find(|secret| !secret.text.starts_with('{'))?;
        Some(PlaidAccess { client: self.public_key.as_deref()?, secret: &secret.text })
    }

    /// The secrets that are live at `now`, the newest first.
    pub fn secrets(&self, now: Timestamp) -> impl Iterator<Item = &LiveSecret> {
        let live = move |secret: &&LiveSecret| secret.expires_at.is_none_or(|end| end > now);
        self.secrets.iter().filter(live)
    }
}

/// All sources. One a process, shared.
pub struct SourceBook {
    store: Store,
    keyring: Arc<Keyring>,
    base_url: String,
    known: RwLock<Known>,
    /// Of those who read what changed.
    turn: Mutex<()>,
}

#[derive(Default)]
struct Known {
    epoch: Option<i64>,
    by_token: HashMap<SourceToken, Arc<LiveSource>>,
    by_id: HashMap<SourceId, SourceToken>,
}

impl SourceBook {
    /// A book in which nothing stands yet. `base_url` is where others reach us.
    pub fn new(store: Store, keyring: Arc<Keyring>, base_url: String) -> Arc<Self> {
        let (known, turn) = (RwLock::default(), Mutex::default());
        Arc::new(Self { store, keyring, base_url, known, turn })
    }

    /// The source whose URL has this id.
    pub fn find(&self, token: &SourceToken) -> Option<Arc<LiveSource>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).by_token.get(token).cloned()
    }

    /// The source of this number.
    pub fn get(&self, id: SourceId) -> Option<Arc<LiveSource>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.by_id.get(&id).and_then(|token| known.by_token.get(token)).cloned()
    }

    /// All of them, in the order of their names.
    pub fn all(&self) -> Vec<Arc<LiveSource>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = known.by_token.values().cloned().collect();
        all.sort_by(|a, b| (&a.name, &a.token).cmp(&(&b.name, &b.token)));
        all
    }

    /// Whether it was read at all. Until then nobody can say that there is no such source.
    pub fn is_loaded(&self) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).epoch.is_some()
    }

    /// Reads what changed since the last call.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let _turn = self.turn.lock().await;
        let seen = self.known.read().unwrap_or_else(PoisonError::into_inner).epoch;
        let mut tx = self.store.read_engine().await?;
        // Before the rows: what changes in between is read once more, and never missed.
        let epoch = tx.config_epoch().await?;
        if seen == Some(epoch) {
            return Ok(());
        }
        let since = seen.unwrap_or(-1);
        let rows = tx.list_sources_changed_since(since).await?;
        let mut secrets: HashMap<SourceId, Vec<SourceSecretRow>> = HashMap::new();
        for secret in tx.list_source_secrets_changed_since(since).await? {
            secrets.entry(secret.source).or_default().push(secret);
        }
        drop(tx);
        let read = |row: Result<SourceRow, StoreError>| match row {
            Ok(row) => Some(row),
            Err(problem) => {
                tracing::error!("a source cannot be read, and stays as it was: {problem}");
                None
            }
        };
        let made: Vec<_> = rows
            .into_iter()
            .filter_map(read)
            .map(|row| {
                let (id, token, gone) = (row.id, row.token.clone(), row.deleted_at.is_some());
                let secrets = secrets.remove(&row.id).unwrap_or_default();
                let live = (!gone).then(|| Arc::new(self.live_source(row, &secrets)));
                (id, token, live)
            })
            .collect();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (id, token, live) in made {
            match live {
                None => {
                    known.by_id.remove(&id);
                    known.by_token.remove(&token);
                }
                Some(live) => {
                    known.by_id.insert(id, token.clone());
                    known.by_token.insert(token, live);
                }
            }
        }
        known.epoch = Some(epoch);
        Ok(())
    }

    /// Keeps the book up to date until it is dropped.
    pub async fn keep(&self) {
        let mut fails = false;
        loop {
            match self.refresh().await {
                Ok(()) => fails = false,
                Err(error) if !fails => {
                    fails = true;
                    tracing::warn!("what changed of the sources cannot be read: {error}");
                }
                Err(_) => {}
            }
            pause().await;
        }
    }

    fn live_source(&self, row: SourceRow, secrets: &[SourceSecretRow]) -> LiveSource {
        let settings = &row.settings;
        // What a source brings along (a scheme, keys) must not end the door.
        let ready = catch_unwind(AssertUnwindSafe(|| self.ready(&row, secrets)))
            .unwrap_or_else(|_| Err("its settings made us panic".to_owned()));
        if let Err(problem) = &ready {
            tracing::error!(source = settings.name, tenant = %row.tenant, "a source cannot verify: {problem}");
        }
        LiveSource {
            id: row.id,
            name: settings.name.as_str().into(),
            state: row.state,
            armed_until: row.armed_until,
            public_url: settings.public_url(&self.base_url, &row.token),
            body_limit: settings.body_limit.map_or(BODY_LIMIT_DEFAULT, |limit| limit.0),
            reject_status: settings.reject_status,
            answer: settings.answer.clone(),
            keep_rejected: settings.keep_rejected.unwrap_or(KEEP_REJECTED_DEFAULT),
            epoch: row.epoch,
            ready,
            token: row.token,
            tenant: row.tenant,
        }
    }

    fn ready(&self, row: &SourceRow, secrets: &[SourceSecretRow]) -> Result<ReadySource, String> {
        let private = match &row.sealed {
            None => SourcePrivate::default(),
            Some(sealed) => {
                let place = Place::of_source(&row.tenant, row.id);
                let plain = self.keyring.open(sealed, place).map_err(|error| error.to_string())?;
                serde_json::from_slice(&plain).map_err(|error| error.to_string())?
            }
        };
        let open = |secret: &SourceSecretRow| {
            let place = Place::of_source_secret(&secret.tenant, secret.id);
            let plain =
                self.keyring.open(&secret.sealed, place).map_err(|error| error.to_string())?;
            let text = std::str::from_utf8(&plain).map_err(|error| error.to_string())?;
            let text = Zeroizing::new(text.to_owned());
            Ok(LiveSecret { id: secret.id, text, expires_at: secret.expires_at })
        };
        let secrets = secrets.iter().map(open).collect::<Result<_, String>>()?;
        ReadySource::new(&row.settings, private, secrets).map_err(|problem| problem.to_string())
    }
}

#[expect(clippy::disallowed_methods, reason = "it waits beside the pipeline, and holds nothing")]
async fn pause() {
    tokio::time::sleep(EVERY).await;
}
