//! Secrets of endpoints: made, rotated, revoked, shown to those who may see them.

use std::time::Duration;

use snaphook_signature::{Kind, Secret};

use super::{Deed, Manage, ManageError, new_id, random_bytes};
use crate::{
    domain::{
        id::{EndpointId, EventId, SecretId},
        limits::SECRETS_MAX,
        problem::Problem,
        scope::Actor,
        secret_kind::SecretKind,
        tenant::TenantId,
    },
    store::{CommandKind, EndpointRow, SecretRow, Tx, seal::Place},
};

/// How long old secrets go on signing after a rotation when nobody says.
pub const OVERLAP_DEFAULT: Duration = Duration::from_hours(24);

/// The longest overlap: past it a rotation is forgotten, not finished.
pub const OVERLAP_MAX: Duration = Duration::from_hours(30 * 24);

/// What a new secret is.
#[derive(Clone, Debug)]
pub enum NewSecret {
    /// Made here.
    Random(SecretKind),
    /// Brought along by its owner.
    Given(String),
}

/// Reads a secret that somebody brought along. It must be able to sign.
pub(super) fn checked_secret(text: &str) -> Result<Secret, Problem> {
    let secret = Secret::parse(text).map_err(|error| Problem::new("secret", error))?;
    match secret.kind() {
        Kind::Hmac | Kind::Ed25519 => Ok(secret),
        Kind::Ed25519Public => Err(Problem::new(
            "secret",
            "whpk_ is the public half and cannot sign; give the private key, whsk_…",
        )),
    }
}

impl Manage {
    /// Adds a secret beside those that are live.
    pub async fn create_secret(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        endpoint: EndpointId,
        new: NewSecret,
    ) -> Result<(SecretRow, Secret), ManageError> {
        let secret = self.secret_of(new)?;
        let row = self.secret_row(tenant, endpoint, &secret);
        let mut tx = self.store.begin().await?;
        let owner = self.lock_endpoint(&mut tx, tenant, endpoint).await?;
        let live = tx.list_live_secrets(endpoint, self.now()).await?;
        self.refuse_live_twice(&live, &secret)?;
        refuse_too_many(live.len())?;
        tx.add_secret(&row).await?;
        Deed::new(actor, "secret.create", &row.id)
            .of(tenant)
            .with("endpoint", endpoint.to_string())
            .write(&mut tx, &*self.world)
            .await?;
        self.commit_and_tell(tx, &owner).await?;
        Ok((row, secret))
    }

    /// Makes a new secret of `kind`; the live ones of that kind sign on for `overlap`, no longer.
    pub async fn rotate_secret(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        endpoint: EndpointId,
        kind: SecretKind,
        overlap: Duration,
    ) -> Result<(SecretRow, Secret), ManageError> {
        if overlap > OVERLAP_MAX {
            return Err(ManageError::one("overlap", "it is over 720h; take a shorter one"));
        }
        let secret = self.secret_of(NewSecret::Random(kind))?;
        let row = self.secret_row(tenant, endpoint, &secret);
        let now = self.now();
        let mut tx = self.store.begin().await?;
        let owner = self.lock_endpoint(&mut tx, tenant, endpoint).await?;
        let live = tx.list_live_secrets(endpoint, now).await?;
        if !overlap.is_zero() {
            refuse_too_many(live.len())?;
        }
        for mut old in live.into_iter().filter(|old| old.kind == kind) {
            let ends = now + overlap;
            if overlap.is_zero() {
                old.revoked_at = Some(now);
            }
            if old.expires_at.is_none_or(|expires| expires > ends) {
                old.expires_at = Some(ends);
            }
            tx.update_secret(&old).await?;
        }
        tx.add_secret(&row).await?;
        Deed::new(actor, "secret.rotate", &row.id)
            .of(tenant)
            .with("endpoint", endpoint.to_string())
            .with("overlap", crate::domain::duration::format(overlap))
            .write(&mut tx, &*self.world)
            .await?;
        self.commit_and_tell(tx, &owner).await?;
        Ok((row, secret))
    }

    /// Ends a secret at once. The last live one stays: nothing goes out unsigned.
    pub async fn revoke_secret(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        endpoint: EndpointId,
        id: SecretId,
    ) -> Result<(), ManageError> {
        let now = self.now();
        let mut tx = self.store.begin().await?;
        let owner = self.lock_endpoint(&mut tx, tenant, endpoint).await?;
        let found = tx.find_secret(tenant, endpoint, id).await?;
        let mut row = found.ok_or_else(|| ManageError::not_found("secret", &id))?;
        if !row.is_live(now) {
            return Ok(());
        }
        if tx.list_live_secrets(endpoint, now).await?.len() == 1 {
            return Err(ManageError::conflict(
                "last_secret",
                format!("secret {id} is the last live one of its endpoint; rotate first"),
            ));
        }
        row.revoked_at = Some(now);
        tx.update_secret(&row).await?;
        Deed::new(actor, "secret.revoke", &id)
            .of(tenant)
            .with("endpoint", endpoint.to_string())
            .write(&mut tx, &*self.world)
            .await?;
        self.commit_and_tell(tx, &owner).await
    }

    /// The text of a secret, for one who may see it; that he saw it is kept.
    pub async fn reveal_secret(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        endpoint: EndpointId,
        id: SecretId,
    ) -> Result<(SecretRow, Secret), ManageError> {
        let mut tx = self.store.begin().await?;
        let found = tx.find_secret(tenant, endpoint, id).await?;
        let row = found.ok_or_else(|| ManageError::not_found("secret", &id))?;
        Deed::new(actor, "secret.reveal", &id)
            .of(tenant)
            .with("endpoint", endpoint.to_string())
            .write(&mut tx, &*self.world)
            .await?;
        tx.commit().await?;
        let secret = self.open_secret(&row)?;
        Ok((row, secret))
    }

    /// A secret from its row.
    pub fn open_secret(&self, row: &SecretRow) -> Result<Secret, ManageError> {
        let place = Place::of_secret(&row.tenant, row.id);
        let plain = self.keyring.open(&row.sealed, place)?;
        let text = std::str::from_utf8(&plain).unwrap_or_default();
        Secret::parse(text).map_err(|error| {
            ManageError::Store(crate::store::StoreError::Unreadable(format!("{place}: {error}")))
        })
    }

    pub(super) fn new_hmac(&self) -> Secret {
        Secret::new_hmac(&random_bytes(&*self.world))
    }

    fn secret_of(&self, new: NewSecret) -> Result<Secret, ManageError> {
        match new {
            NewSecret::Random(SecretKind::Hmac) => Ok(self.new_hmac()),
            NewSecret::Random(SecretKind::Ed25519) => {
                Ok(Secret::new_ed25519(&random_bytes(&*self.world)))
            }
            NewSecret::Given(text) => {
                checked_secret(&text).map_err(|problem| ManageError::Invalid(vec![problem]))
            }
        }
    }

    pub(super) fn secret_row(
        &self,
        tenant: &TenantId,
        endpoint: EndpointId,
        secret: &Secret,
    ) -> SecretRow {
        let id = SecretId(new_id(&*self.world));
        let kind = match secret.kind() {
            Kind::Hmac => SecretKind::Hmac,
            Kind::Ed25519 | Kind::Ed25519Public => SecretKind::Ed25519,
        };
        let sealed = self.keyring.seal(secret.text().as_bytes(), Place::of_secret(tenant, id));
        SecretRow {
            id,
            endpoint,
            tenant: tenant.clone(),
            kind,
            sealed,
            created_at: self.now(),
            expires_at: None,
            revoked_at: None,
        }
    }

    /// Refuses a secret that is live already: a receiver would get each signature twice, and
    /// revoking the one would leave the other signing.
    fn refuse_live_twice(&self, live: &[SecretRow], new: &Secret) -> Result<(), ManageError> {
        for row in live {
            if self.open_secret(row)?.is_same_key(new) {
                let detail = format!(
                    "secret {} of this endpoint is the same and live; use it, or revoke it first",
                    row.id
                );
                return Err(ManageError::conflict("secret_exists", detail));
            }
        }
        Ok(())
    }

    /// The endpoint, with the configuration locked against others' changes.
    async fn lock_endpoint(
        &self,
        tx: &mut Tx,
        tenant: &TenantId,
        id: EndpointId,
    ) -> Result<EndpointRow, ManageError> {
        tx.lock_configuration().await?;
        let found = tx.find_tenant_endpoint(tenant, id).await?;
        found.ok_or_else(|| ManageError::not_found("endpoint", &id))
    }

    async fn commit_and_tell(&self, mut tx: Tx, owner: &EndpointRow) -> Result<(), ManageError> {
        let command = tx.add_command(owner.shard, CommandKind::Look, owner.id, EventId(0)).await?;
        tx.commit().await?;
        self.await_owner(command).await?;
        Ok(())
    }
}

fn refuse_too_many(live: usize) -> Result<(), ManageError> {
    if live < SECRETS_MAX {
        return Ok(());
    }
    Err(ManageError::conflict(
        "too_many_secrets",
        format!("the endpoint has {live} live secrets and can have {SECRETS_MAX}; revoke one"),
    ))
}
