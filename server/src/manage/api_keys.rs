//! API keys. The command line makes the first one on the database itself, so these functions need
//! no more than that and chance.

use std::fmt;

use aws_lc_rs::digest;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use super::{Deed, ManageError, check_words, new_id, random_bytes};
use crate::{
    domain::{
        id::ApiKeyId,
        problem::Problem,
        scope::{Actor, Scopes},
        tenant::TenantId,
        time::Timestamp,
    },
    store::{Store, api_keys::ApiKeyRow},
    world::World,
};

/// How a key's text begins, so that scanners for leaked secrets can find it.
const PREFIX: &str = "shk_";

/// Bytes of a key's name.
const NAME_BYTES_MAX: usize = 256;

/// What a new key is to be.
#[derive(Clone, Debug)]
pub struct NewApiKey {
    /// For people.
    pub name: String,
    /// `None`: the operator's.
    pub tenant: Option<TenantId>,
    /// What it may do.
    pub scopes: Scopes,
    /// It is good until then; without end when `None`.
    pub expires_at: Option<Timestamp>,
}

/// The text of a key, which is shown once. `Debug` prints nothing of it.
#[derive(Clone)]
pub struct KeyText(Zeroizing<String>);

impl KeyText {
    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText")
    }
}

/// Under which a key's text is kept and found.
pub fn hash_of(text: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, text.as_bytes()).as_ref().to_vec()
}

/// Makes a key. A tenant's caller can make keys of that tenant alone, with no more than its own
/// scopes.
pub async fn create_api_key(
    store: &Store,
    world: &dyn World,
    actor: &Actor,
    new: NewApiKey,
) -> Result<(ApiKeyRow, KeyText), ManageError> {
    let now = world.now();
    let mut problems: Vec<Problem> =
        check_words("name", &new.name, NAME_BYTES_MAX).into_iter().collect();
    if let Some(expires) = new.expires_at.filter(|expires| *expires <= now) {
        problems.push(Problem::new("expires_at", format!("{expires} is past")));
    }
    if !problems.is_empty() {
        return Err(ManageError::Invalid(problems));
    }
    let foreign = actor.tenant.is_some() && actor.tenant != new.tenant;
    if foreign || new.scopes.iter().any(|scope| !actor.scopes.contains(scope)) {
        return Err(ManageError::Forbidden(
            "a key cannot make one that may do more than itself; name its own tenant and some of \
             its own scopes"
                .to_owned(),
        ));
    }
    let bytes = random_bytes(world);
    let text = Zeroizing::new(format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(*bytes)));
    let row = ApiKeyRow {
        id: ApiKeyId(new_id(world)),
        name: new.name,
        tenant: new.tenant,
        scopes: new.scopes,
        created_at: now,
        expires_at: new.expires_at,
        revoked_at: None,
    };
    let mut tx = store.begin().await?;
    tx.add_api_key(&row, &hash_of(&text)).await?;
    let deed = Deed::new(actor, "api_key.create", &row.id).with("scopes", row.scopes.to_string());
    let deed = match &row.tenant {
        Some(tenant) => deed.of(tenant),
        None => deed,
    };
    deed.write(&mut tx, world).await?;
    tx.commit().await?;
    Ok((row, KeyText(text)))
}

/// Ends a key at once; nodes that have it in memory follow within 5 s. One that was ended before
/// stays so.
pub async fn revoke_api_key(
    store: &Store,
    world: &dyn World,
    actor: &Actor,
    id: ApiKeyId,
) -> Result<(), ManageError> {
    let mut tx = store.begin().await?;
    let found = tx.find_api_key(actor.tenant.as_ref(), id).await?;
    let row = found.ok_or_else(|| ManageError::not_found("API key", &id))?;
    if !tx.revoke_api_key(id, world.now()).await? {
        return Ok(());
    }
    let deed = Deed::new(actor, "api_key.revoke", &id);
    let deed = match &row.tenant {
        Some(tenant) => deed.of(tenant),
        None => deed,
    };
    deed.write(&mut tx, world).await?;
    tx.commit().await?;
    Ok(())
}
