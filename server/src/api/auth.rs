//! Who is calling. A key is looked up by the hash of its text and kept in memory for a few
//! seconds; after that long a revoked key is refused everywhere.
//!
//! What a caller must not see does not exist for it: a foreign tenant is a 404, never a 403.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::{HeaderMap, header, request::Parts},
};

use super::{Api, error::ApiError, extract::refuse_query};
use crate::{
    domain::{
        id::ApiKeyId,
        scope::{Actor, Scope},
        tenant::TenantId,
    },
    manage::api_keys::hash_of,
    store::api_keys::ApiKeyRow,
};

/// How long a key is taken as read.
const FRESH: Duration = Duration::from_secs(5);

/// Keys in memory at once: about a megabyte.
const KEPT_MAX: usize = 4_096;

/// Keys that were looked up lately. Only those that exist are kept, so that a new key is good at
/// once.
#[derive(Default)]
pub struct KnownKeys {
    kept: Mutex<HashMap<Vec<u8>, (Duration, ApiKeyRow)>>,
}

impl KnownKeys {
    fn find(&self, hash: &[u8], now: Duration) -> Option<ApiKeyRow> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, row) = kept.get(hash)?;
        (now.saturating_sub(*at) < FRESH).then(|| row.clone())
    }

    fn keep(&self, hash: Vec<u8>, now: Duration, row: ApiKeyRow) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(hash, (now, row));
    }
}

/// A caller with a good key.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Which key it is.
    pub key: ApiKeyId,
    /// Who it speaks for, and what it may do.
    pub actor: Actor,
}

impl Caller {
    /// The caller of a request with these headers.
    pub async fn of(api: &Api, headers: &HeaderMap) -> Result<Self, ApiError> {
        const HOW: &str = "send your API key as `Authorization: Bearer shk_…`";
        let given = headers.get(header::AUTHORIZATION).ok_or(ApiError::unauthorized(HOW))?;
        let (scheme, text) = given
            .to_str()
            .ok()
            .and_then(|value| value.split_once(' '))
            .ok_or(ApiError::unauthorized(HOW))?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(ApiError::unauthorized(HOW));
        }
        let row = api.find_key(text.trim()).await?;
        let row = row.filter(|row| row.is_live(api.manage.world.now())).ok_or_else(|| {
            ApiError::unauthorized(
                "this API key is unknown, expired or revoked; make one with `snaphook keys create`",
            )
        })?;
        Ok(Self {
            key: row.id,
            actor: Actor { name: row.id.to_string(), tenant: row.tenant, scopes: row.scopes },
        })
    }

    /// Refuses a caller whose key lacks `scope`.
    fn needs(&self, scope: Scope) -> Result<(), ApiError> {
        if self.actor.scopes.contains(scope) {
            return Ok(());
        }
        let detail = format!("this needs the scope {scope}; use a key that has it");
        Err(ApiError::forbidden("scope_missing", detail))
    }

    /// Refuses callers who do not speak for the operator.
    pub fn needs_operator(&self) -> Result<(), ApiError> {
        if self.actor.is_operator() {
            return Ok(());
        }
        Err(ApiError::forbidden("operator_only", "this needs an operator's key"))
    }

    /// Refuses a path below a tenant that the caller may not know of.
    async fn check_path(&self, parts: &mut Parts, api: &Arc<Api>) -> Result<(), ApiError> {
        let params = RawPathParams::from_request_parts(parts, api).await;
        let params = params.map_err(|_| ApiError::not_found("path", parts.uri.path()))?;
        let tenant = params.iter().find(|(name, _)| *name == "tenant");
        if let (Some((_, tenant)), false) = (tenant, self.actor.is_operator()) {
            self.tenant(tenant)?;
        }
        Ok(())
    }

    /// The tenant that a path names, if the caller may know of it.
    pub fn tenant(&self, name: &str) -> Result<TenantId, ApiError> {
        let not_found = || ApiError::not_found("tenant", name);
        let tenant = TenantId::parse(name).map_err(|_| not_found())?;
        if self.actor.sees(&tenant) { Ok(tenant) } else { Err(not_found()) }
    }

    /// The tenant to look through: the one that was named, if the caller may know of it, else its
    /// own; `None` is all, for the operator.
    pub fn within(&self, named: Option<&str>) -> Result<Option<TenantId>, ApiError> {
        match named {
            Some(name) => self.tenant(name).map(Some),
            None => Ok(self.actor.tenant.clone()),
        }
    }
}

/// Callers with a scope. They come before the body is read: who may not call learns nothing of
/// what the call would take.
macro_rules! callers {
    ($($(#[$doc:meta])* $name:ident needs $scope:ident $(and $more:ident)?;)*) => {$(
        $(#[$doc])*
        pub struct $name(pub Caller);

        impl FromRequestParts<Arc<Api>> for $name {
            type Rejection = ApiError;

            async fn from_request_parts(
                parts: &mut Parts,
                api: &Arc<Api>,
            ) -> Result<Self, ApiError> {
                let caller = Caller::of(api, &parts.headers).await?;
                caller.needs(Scope::$scope)?;
                $(caller.$more()?;)?
                caller.check_path(parts, api).await?;
                refuse_query(parts)?;
                Ok(Self(caller))
            }
        }
    )*};
}

callers! {
    /// Whoever may look.
    Reader needs Read;
    /// Whoever may send events.
    Emitter needs Emit;
    /// Whoever may change things.
    Manager needs Manage;
    /// The operator, changing things.
    OperatorManager needs Manage and needs_operator;
}

impl Api {
    async fn find_key(&self, text: &str) -> Result<Option<ApiKeyRow>, ApiError> {
        let hash = hash_of(text);
        let now = self.manage.world.monotonic();
        if let Some(row) = self.known_keys.find(&hash, now) {
            return Ok(Some(row));
        }
        let row = self.store.read().await?.find_api_key_by_hash(&hash).await?;
        if let Some(row) = &row {
            self.known_keys.keep(hash, now, row.clone());
        }
        Ok(row)
    }
}
