//! Sources that stand in the settings file: made and changed when a server starts, by their names.
//! Their URLs stay the same from start to start and on every node, for the database keeps them.
//!
//! A source whose table is gone goes on as it is and can be changed like any other from then on:
//! a node that started with an older file, or with none, must not make providers hear 404.

use zeroize::Zeroizing;

use super::{Deed, Manage, ManageError};
use crate::{
    domain::{
        scope::Actor,
        source::{GivenSource, Token},
        tenant::TenantId,
    },
    store::{SourceRow, Tx, tenants::TenantRow},
};

impl Manage {
    /// Makes the sources of the settings file what their tables say.
    pub async fn put_file_sources(
        &self,
        actor: &Actor,
        given: &[GivenSource],
    ) -> Result<(), ManageError> {
        if given.is_empty() && self.store.read().await?.list_file_sources().await?.is_empty() {
            return Ok(());
        }
        let mut tx = self.store.begin().await?;
        tx.lock_configuration().await?;
        for source in given {
            self.put_tenant_of(actor, &mut tx, &source.tenant).await?;
            match tx.find_source_named(&source.tenant, &source.settings.name).await? {
                Some(row) => self.put_again(actor, &mut tx, row, source).await?,
                None => self.put_anew(actor, &mut tx, source).await?,
            }
        }
        for mut row in tx.list_file_sources().await? {
            let is_given = |source: &GivenSource| {
                source.tenant == row.tenant && source.settings.name == row.settings.name
            };
            if given.iter().any(is_given) {
                continue;
            }
            tracing::warn!(
                source = row.settings.name,
                tenant = %row.tenant,
                "no [[source]] table names this source any more; it goes on, and can be changed \
                 or deleted over the API"
            );
            row.from_file = false;
            row.updated_at = self.now();
            tx.update_source(&mut row).await?;
            self.note(actor, &mut tx, "source.release", &row).await?;
        }
        tx.commit().await?;
        (self.reread)().await;
        Ok(())
    }

    async fn put_tenant_of(
        &self,
        actor: &Actor,
        tx: &mut Tx,
        tenant: &TenantId,
    ) -> Result<(), ManageError> {
        let now = self.now();
        let row = TenantRow {
            id: tenant.clone(),
            owner_email: None,
            metadata: serde_json::Map::new(),
            limits: serde_json::Map::new(),
            created_at: now,
            updated_at: now,
        };
        if tx.add_tenant(&row).await? {
            Deed::new(actor, "tenant.create", tenant).of(tenant).write(tx, &*self.world).await?;
        }
        Ok(())
    }

    async fn put_anew(
        &self,
        actor: &Actor,
        tx: &mut Tx,
        source: &GivenSource,
    ) -> Result<(), ManageError> {
        let settings = source.settings.clone();
        let texts: Vec<_> = source.secrets.iter().map(text_of).collect();
        let row = self.add_source(tx, &source.tenant, settings, &texts, true).await?;
        self.note(actor, tx, "source.create", &row).await
    }

    /// Changes what is other than in its table, and nothing if nothing is.
    async fn put_again(
        &self,
        actor: &Actor,
        tx: &mut Tx,
        mut row: SourceRow,
        source: &GivenSource,
    ) -> Result<(), ManageError> {
        let mut changed = false;
        if !row.from_file || self.open_source_settings(&row)? != source.settings {
            let mut settings = source.settings.clone();
            row.sealed = self.seal_source(&row.tenant, row.id, &mut settings);
            (row.settings, row.from_file, row.updated_at) = (settings, true, self.now());
            tx.update_source(&mut row).await?;
            changed = true;
        }
        // Without any in the table, they are added otherwise: by hand, or by a handshake.
        if !source.secrets.is_empty() {
            changed |= self.put_secrets(tx, &row, &source.secrets).await?;
        }
        if changed {
            self.note(actor, tx, "source.update", &row).await?;
        }
        Ok(())
    }

    /// Makes the live secrets exactly these. Tells whether they were others.
    async fn put_secrets(
        &self,
        tx: &mut Tx,
        source: &SourceRow,
        given: &[Token],
    ) -> Result<bool, ManageError> {
        let now = self.now();
        let mut missing: Vec<_> = given.iter().map(text_of).collect();
        let mut changed = false;
        for mut row in tx.list_live_source_secrets(source.id, now).await? {
            let text = self.open_source_secret(&row)?;
            if let Some(place) = missing.iter().position(|wanted| *wanted == text) {
                missing.remove(place);
            } else {
                row.revoked_at = Some(now);
                tx.update_source_secret(&row).await?;
                changed = true;
            }
        }
        for text in &missing {
            tx.add_source_secret(&self.source_secret_row(source, text)).await?;
            changed = true;
        }
        Ok(changed)
    }

    async fn note(
        &self,
        actor: &Actor,
        tx: &mut Tx,
        action: &'static str,
        row: &SourceRow,
    ) -> Result<(), ManageError> {
        Deed::new(actor, action, &row.token)
            .of(&row.tenant)
            .with("name", row.settings.name.as_str())
            .with("from_file", row.from_file)
            .write(tx, &*self.world)
            .await?;
        Ok(())
    }
}

fn text_of(token: &Token) -> Zeroizing<String> {
    Zeroizing::new(token.0.clone())
}
