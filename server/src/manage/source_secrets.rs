//! Secrets of sources: the provider makes them, so here they are added, rotated to a new one,
//! revoked, and shown to those who may see them.

use std::time::Duration;

use zeroize::Zeroizing;

use super::{Deed, Manage, ManageError, new_id, secrets::OVERLAP_MAX};
use crate::{
    domain::{
        duration, id::SecretId, limits::SECRETS_MAX, problem::Problem, scope::Actor,
        source::SourceToken,
    },
    store::{SourceRow, SourceSecretRow, StoreError, Tx, seal::Place},
};

impl Manage {
    /// Adds a secret beside those that are live.
    pub async fn create_source_secret(
        &self,
        actor: &Actor,
        token: &SourceToken,
        text: Zeroizing<String>,
    ) -> Result<SourceSecretRow, ManageError> {
        let mut tx = self.store.begin().await?;
        let source = self.lock_editable(&mut tx, actor, token).await?;
        self.judge_new(&mut tx, &source, &text).await?;
        let row = self.source_secret_row(&source, &text);
        tx.add_source_secret(&row).await?;
        self.end_with(tx, Deed::new(actor, "source_secret.create", &row.id), &source).await?;
        Ok(row)
    }

    /// Adds a secret; those that are live verify on for `overlap`, no longer.
    pub async fn rotate_source_secret(
        &self,
        actor: &Actor,
        token: &SourceToken,
        text: Zeroizing<String>,
        overlap: Duration,
    ) -> Result<SourceSecretRow, ManageError> {
        if overlap > OVERLAP_MAX {
            return Err(ManageError::one("overlap", "it is over 720h; take a shorter one"));
        }
        let now = self.now();
        let mut tx = self.store.begin().await?;
        let source = self.lock_editable(&mut tx, actor, token).await?;
        self.judge_new(&mut tx, &source, &text).await?;
        for mut old in tx.list_live_source_secrets(source.id, now).await? {
            let ends = now + overlap;
            if overlap.is_zero() {
                old.revoked_at = Some(now);
            }
            if old.expires_at.is_none_or(|expires| expires > ends) {
                old.expires_at = Some(ends);
            }
            tx.update_source_secret(&old).await?;
        }
        let row = self.source_secret_row(&source, &text);
        tx.add_source_secret(&row).await?;
        let deed = Deed::new(actor, "source_secret.rotate", &row.id)
            .with("overlap", duration::format(overlap));
        self.end_with(tx, deed, &source).await?;
        Ok(row)
    }

    /// Ends a secret at once. The last live one stays: without it nothing would be genuine.
    pub async fn revoke_source_secret(
        &self,
        actor: &Actor,
        token: &SourceToken,
        id: SecretId,
    ) -> Result<(), ManageError> {
        let now = self.now();
        let mut tx = self.store.begin().await?;
        let source = self.lock_editable(&mut tx, actor, token).await?;
        let found = tx.find_source_secret(source.id, id).await?;
        let mut row = found.ok_or_else(|| ManageError::not_found("secret", &id))?;
        if !row.is_live(now) {
            return Ok(());
        }
        if tx.list_live_source_secrets(source.id, now).await?.len() == 1 {
            return Err(ManageError::conflict(
                "last_secret",
                format!("secret {id} is the last live one of its source; rotate first"),
            ));
        }
        row.revoked_at = Some(now);
        tx.update_source_secret(&row).await?;
        self.end_with(tx, Deed::new(actor, "source_secret.revoke", &id), &source).await
    }

    /// The text of a secret, for one who may see it; that he saw it is kept.
    pub async fn reveal_source_secret(
        &self,
        actor: &Actor,
        token: &SourceToken,
        id: SecretId,
    ) -> Result<(SourceSecretRow, Zeroizing<String>), ManageError> {
        let mut tx = self.store.begin().await?;
        let found = tx.find_source(actor.tenant.as_ref(), token).await?;
        let source = found.ok_or_else(|| ManageError::not_found("source", token))?;
        let found = tx.find_source_secret(source.id, id).await?;
        let row = found.ok_or_else(|| ManageError::not_found("secret", &id))?;
        Deed::new(actor, "source_secret.reveal", &id)
            .of(&source.tenant)
            .with("source", token.to_string())
            .write(&mut tx, &*self.world)
            .await?;
        tx.commit().await?;
        let text = self.open_source_secret(&row)?;
        Ok((row, text))
    }

    /// The texts of the live secrets of a source, the newest first.
    pub(super) async fn live_source_texts(
        &self,
        tx: &mut Tx,
        source: &SourceRow,
    ) -> Result<Vec<Zeroizing<String>>, ManageError> {
        let rows = tx.list_live_source_secrets(source.id, self.now()).await?;
        rows.iter().map(|row| self.open_source_secret(row)).collect()
    }

    pub(super) fn open_source_secret(
        &self,
        row: &SourceSecretRow,
    ) -> Result<Zeroizing<String>, ManageError> {
        let place = Place::of_source_secret(&row.tenant, row.id);
        let plain = self.keyring.open(&row.sealed, place)?;
        let text = std::str::from_utf8(&plain).map_err(|error| {
            ManageError::Store(StoreError::Unreadable(format!("{place}: {error}")))
        })?;
        Ok(Zeroizing::new(text.to_owned()))
    }

    pub(super) fn source_secret_row(&self, source: &SourceRow, text: &str) -> SourceSecretRow {
        let id = SecretId(new_id(&*self.world));
        let sealed =
            self.keyring.seal(text.as_bytes(), Place::of_source_secret(&source.tenant, id));
        SourceSecretRow {
            id,
            source: source.id,
            tenant: source.tenant.clone(),
            sealed,
            created_at: self.now(),
            expires_at: None,
            revoked_at: None,
        }
    }

    /// Refuses a secret that its scheme cannot use, that is live already, or that is one too many.
    async fn judge_new(
        &self,
        tx: &mut Tx,
        source: &SourceRow,
        text: &Zeroizing<String>,
    ) -> Result<(), ManageError> {
        let settings = self.open_source_settings(source)?;
        let problems = settings.secret_problems(&[text.as_str()]);
        if let Some(problem) = problems.into_iter().next() {
            let field = if problem.field == "secrets[0]" { "secret" } else { &*problem.field };
            return Err(ManageError::Invalid(vec![Problem::new(field, &problem.problem)]));
        }
        let live = self.live_source_texts(tx, source).await?;
        if live.contains(text) {
            let detail = "a live secret of this source is the same; use it, or revoke it first";
            return Err(ManageError::conflict("secret_exists", detail));
        }
        if live.len() >= SECRETS_MAX {
            let detail = format!(
                "the source has {} live secrets and can have {SECRETS_MAX}; revoke one",
                live.len()
            );
            return Err(ManageError::conflict("too_many_secrets", detail));
        }
        Ok(())
    }

    async fn end_with(
        &self,
        mut tx: Tx,
        deed: Deed<'_>,
        source: &SourceRow,
    ) -> Result<(), ManageError> {
        deed.of(&source.tenant)
            .with("source", source.token.to_string())
            .write(&mut tx, &*self.world)
            .await?;
        tx.commit().await?;
        (self.reread)().await;
        Ok(())
    }
}
