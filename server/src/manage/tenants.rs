//! Tenants: the operator's customers. Deleting one ends what belongs to it and keeps the history.

use serde_json::{Map, Value};

use super::{Deed, Manage, ManageError, check_words};
use crate::{
    domain::{endpoint::METADATA_BYTES_MAX, problem::Problem, scope::Actor, tenant::TenantId},
    store::{page::Page, tenants::TenantRow},
};

/// Bytes of an email address (RFC 5321, 4.5.3.1: a path of 256 with its brackets).
const EMAIL_BYTES_MAX: usize = 254;

/// What can be set on a tenant. `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct TenantChange {
    /// `Some(None)` removes it.
    pub owner_email: Option<Option<String>>,
    /// Members are merged one by one, `null` removes one (RFC 7396).
    pub metadata: Option<Map<String, Value>>,
    /// As `metadata`. Known is `endpoints`, the most that the tenant may have.
    pub limits: Option<Map<String, Value>>,
}

impl Manage {
    /// Makes a tenant, or sets one that is there to exactly this. Tells whether it was made.
    pub async fn put_tenant(
        &self,
        actor: &Actor,
        id: &TenantId,
        change: TenantChange,
    ) -> Result<(TenantRow, bool), ManageError> {
        let now = self.now();
        let mut row = TenantRow {
            id: id.clone(),
            owner_email: None,
            metadata: Map::new(),
            limits: Map::new(),
            created_at: now,
            updated_at: now,
        };
        apply(&mut row, change)?;
        let mut tx = self.store.begin().await?;
        let made = tx.add_tenant(&row).await?;
        if !made {
            tx.lock_configuration().await?;
            row.created_at = tx.find_tenant(id).await?.map_or(now, |found| found.created_at);
            tx.update_tenant(&row).await?;
        }
        let action = if made { "tenant.create" } else { "tenant.update" };
        Deed::new(actor, action, &id).of(id).write(&mut tx, &*self.world).await?;
        tx.commit().await?;
        Ok((row, made))
    }

    /// Changes what is named and leaves the rest.
    pub async fn update_tenant(
        &self,
        actor: &Actor,
        id: &TenantId,
        change: TenantChange,
    ) -> Result<TenantRow, ManageError> {
        let mut tx = self.store.begin().await?;
        tx.lock_configuration().await?;
        let found = tx.find_tenant(id).await?;
        let mut row = found.ok_or_else(|| ManageError::not_found("tenant", &id))?;
        apply(&mut row, change)?;
        row.updated_at = self.now();
        tx.update_tenant(&row).await?;
        Deed::new(actor, "tenant.update", &id).of(id).write(&mut tx, &*self.world).await?;
        tx.commit().await?;
        Ok(row)
    }

    /// Deletes a tenant: its endpoints and sources go, what waits for them is canceled, its API keys end. Its
    /// events and the history of its deliveries stay until their time is over.
    pub async fn delete_tenant(&self, actor: &Actor, id: &TenantId) -> Result<(), ManageError> {
        if self.store.read().await?.find_tenant(id).await?.is_none() {
            return Err(ManageError::not_found("tenant", &id));
        }
        let mut last = None;
        loop {
            last = self.end_endpoints(actor, id).await?.or(last);
            let mut tx = self.store.begin().await?;
            tx.lock_configuration().await?;
            if tx.count_endpoints(id).await? > 0 {
                continue; // made in the meantime
            }
            self.end_sources(actor, &mut tx, id).await?;
            if !tx.delete_tenant(id).await? {
                return Err(ManageError::not_found("tenant", &id));
            }
            tx.revoke_tenant_api_keys(id, self.now()).await?;
            Deed::new(actor, "tenant.delete", &id).of(id).write(&mut tx, &*self.world).await?;
            tx.commit().await?;
            (self.reread)().await;
            break;
        }
        // Owners take commands in their order: who has seen the last has seen its others too.
        if let Some(command) = last {
            self.await_owner(command).await?;
        }
        Ok(())
    }

    /// Deletes all endpoints of a tenant. Gives the last command to an owner.
    async fn end_endpoints(
        &self,
        actor: &Actor,
        id: &TenantId,
    ) -> Result<Option<i64>, ManageError> {
        let mut last = None;
        loop {
            let page = Page::first(u16::MAX);
            let endpoints = self.store.read().await?.list_endpoints(id, page).await?.rows;
            if endpoints.is_empty() {
                return Ok(last);
            }
            for endpoint in endpoints {
                match self.end_endpoint(actor, id, endpoint.id).await {
                    Ok(command) => last = Some(command),
                    Err(ManageError::NotFound { .. }) => {} // another call was faster
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

fn apply(row: &mut TenantRow, change: TenantChange) -> Result<(), ManageError> {
    let mut problems = Vec::new();
    if let Some(email) = change.owner_email {
        problems.extend(email.as_deref().and_then(email_problem));
        row.owner_email = email;
    }
    if let Some(metadata) = change.metadata {
        merge(&mut row.metadata, metadata);
        let bytes = serde_json::to_string(&row.metadata).map_or(usize::MAX, |text| text.len());
        if bytes > METADATA_BYTES_MAX {
            let problem = format!("it is {bytes} bytes; {METADATA_BYTES_MAX} are allowed");
            problems.push(Problem::new("metadata", problem));
        }
    }
    if let Some(limits) = change.limits {
        merge(&mut row.limits, limits);
        problems.extend(row.limits.iter().filter_map(|(name, value)| limit_problem(name, value)));
    }
    if problems.is_empty() { Ok(()) } else { Err(ManageError::Invalid(problems)) }
}

fn merge(stored: &mut Map<String, Value>, change: Map<String, Value>) {
    for (name, value) in change {
        match value {
            Value::Null => drop(stored.remove(&name)),
            value => drop(stored.insert(name, value)),
        }
    }
}

fn email_problem(email: &str) -> Option<Problem> {
    let field = "owner_email";
    let wrong = check_words(field, email, EMAIL_BYTES_MAX);
    let is_address = email.split_once('@').is_some_and(|(local, domain)| {
        !local.is_empty() && !domain.is_empty() && !email.contains(char::is_whitespace)
    });
    wrong.or_else(|| {
        let problem = format!("{email:?} is no email address; write one like owner@example.com");
        (!is_address).then(|| Problem::new(field, problem))
    })
}

fn limit_problem(name: &str, value: &Value) -> Option<Problem> {
    let shown: String = name.chars().take(64).collect();
    let field = format!("limits.{shown}");
    match name {
        "endpoints" if value.as_u64().is_some() => None,
        "endpoints" => Some(Problem::new(
            field,
            format!("{value} is no count; write the most endpoints that the tenant may have"),
        )),
        _ => Some(Problem::new(field, "there is no such limit; known is endpoints")),
    }
}

/// The most endpoints that a tenant may have, if that is limited.
pub(super) fn endpoints_max(tenant: &TenantRow) -> Option<u64> {
    tenant.limits.get("endpoints").and_then(Value::as_u64)
}
