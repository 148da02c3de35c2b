//! Endpoints: made, changed, deleted. A URL is judged when it is saved, and again at each
//! attempt; what is write-only is sealed here.

use std::net::IpAddr;

use serde_json::{Map, Value};
use snaphook_signature::Secret;

use super::{Deed, Manage, ManageError, new_id, secrets::checked_secret, tenants::endpoints_max};
use crate::{
    domain::{
        endpoint::{EndpointSettings, Private, Reach},
        endpoint_kind::EndpointKind,
        endpoint_state::EndpointState,
        health::Health,
        id::{EndpointId, EventId},
        problem::{Problem, shown},
        scope::{Actor, Scope},
        tenant::TenantId,
        tls_settings::TlsSettings,
        url::{EndpointUrl, UrlError},
    },
    store::{
        CommandKind, EndpointRow, SecretRow, Tx,
        seal::{Place, SealError},
    },
    world::{TlsProfile, tls::check_profile},
};

impl Manage {
    /// Makes an endpoint with one secret for HMAC: the one in `change.secret`, or a new one; none
    /// for one that is pulled, to which nothing is signed.
    pub async fn create_endpoint(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        mut change: Map<String, Value>,
    ) -> Result<(EndpointRow, Option<(SecretRow, Secret)>), ManageError> {
        let secret = given_secret(change.remove("secret"));
        let mut settings = EndpointSettings::default();
        let mut problems = settings.apply(&change);
        problems.extend(secret.as_ref().err().cloned());
        if let (EndpointKind::Queue, Ok(Some(_))) = (settings.kind, &secret) {
            problems
                .push(Problem::new("secret", "an endpoint of kind queue has none; leave it out"));
        }
        self.check(&mut settings, &mut problems);
        refuse(problems)?;
        let secret = secret.ok().flatten();
        let secret = match settings.kind {
            EndpointKind::Http => Some(secret.unwrap_or_else(|| self.new_hmac())),
            EndpointKind::Queue => None,
        };
        if settings.reach == Reach::Internal {
            may_reach_inside(actor)?;
        }
        let now = self.now();
        let id = EndpointId(new_id(&*self.world));
        let mut row = EndpointRow {
            id,
            tenant: tenant.clone(),
            shard: 0,
            state: EndpointState::Active,
            state_reason: None,
            state_since: now,
            discarding: false,
            sealed: self.seal(tenant, id, &mut settings),
            settings,
            health: Health::default(),
            epoch: 0,
            created_at: now,
            updated_at: now,
            deleted_at: None,
        };
        let secret = secret.map(|secret| (self.secret_row(tenant, id, &secret), secret));
        let mut tx = self.store.begin().await?;
        tx.lock_configuration().await?;
        refuse_too_many(&mut tx, tenant).await?;
        tx.add_endpoint(&mut row).await?;
        if let Some((row, _)) = &secret {
            tx.add_secret(row).await?;
        }
        Deed::new(actor, "endpoint.create", &id)
            .of(tenant)
            .with("url", row.settings.url.as_str())
            .write(&mut tx, &*self.world)
            .await?;
        tx.commit().await?;
        Ok((row, secret))
    }

    /// Changes the settings that are named.
    pub async fn update_endpoint(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        id: EndpointId,
        change: &Map<String, Value>,
    ) -> Result<EndpointRow, ManageError> {
        let mut tx = self.store.begin().await?;
        tx.lock_configuration().await?;
        let found = tx.find_tenant_endpoint(tenant, id).await?;
        let mut row = found.ok_or_else(|| ManageError::not_found("endpoint", &id))?;
        let before = (row.settings.reach, row.settings.url.clone());
        let mut settings = self.open_settings(&row)?;
        let mut problems = settings.apply(change);
        if settings.kind != row.settings.kind {
            problems.push(Problem::new("kind", "it stays as it was made; create another endpoint"));
            settings.kind = row.settings.kind;
        }
        self.check(&mut settings, &mut problems);
        refuse(problems)?;
        if settings.reach == Reach::Internal && before != (settings.reach, settings.url.clone()) {
            may_reach_inside(actor)?;
        }
        row.sealed = self.seal(tenant, id, &mut settings);
        row.settings = settings;
        row.updated_at = self.now();
        tx.update_endpoint(&mut row).await?;
        let named: Vec<Value> = change.keys().map(|name| Value::from(name.as_str())).collect();
        Deed::new(actor, "endpoint.update", &id)
            .of(tenant)
            .with("fields", named)
            .write(&mut tx, &*self.world)
            .await?;
        let command = tx.add_command(row.shard, CommandKind::Look, id, EventId(0)).await?;
        tx.commit().await?;
        self.await_owner(command).await?;
        Ok(row)
    }

    /// Deletes an endpoint and cancels what waits for it. Its history stays.
    pub async fn delete_endpoint(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        id: EndpointId,
    ) -> Result<(), ManageError> {
        let command = self.end_endpoint(actor, tenant, id).await?;
        self.await_owner(command).await?;
        Ok(())
    }

    /// As `delete_endpoint`, without waiting: gives the command that its owner will see to.
    pub(super) async fn end_endpoint(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        id: EndpointId,
    ) -> Result<i64, ManageError> {
        let mut tx = self.store.begin().await?;
        tx.lock_configuration().await?;
        let found = tx.find_tenant_endpoint(tenant, id).await?;
        let mut row = found.ok_or_else(|| ManageError::not_found("endpoint", &id))?;
        let now = self.now();
        (row.deleted_at, row.updated_at) = (Some(now), now);
        tx.update_endpoint(&mut row).await?;
        let mut canceled = tx.end_waiting(id, None, now, "{}").await?;
        let command = tx.add_command(row.shard, CommandKind::Look, id, EventId(0)).await?;
        Deed::new(actor, "endpoint.delete", &id).of(tenant).write(&mut tx, &*self.world).await?;
        tx.commit().await?;
        // In steps, so that nobody waits for long. Should this process die on the way, the owner
        // of the shard finds rows of a deleted endpoint and does the same.
        while canceled > 0 {
            let mut tx = self.store.begin().await?;
            canceled = tx.end_waiting(id, None, now, "{}").await?;
            tx.commit().await?;
        }
        Ok(command)
    }

    /// The settings of an endpoint with what was sealed of them. Show only
    /// [`EndpointSettings::shown`] of it.
    pub fn open_settings(&self, row: &EndpointRow) -> Result<EndpointSettings, SealError> {
        let mut settings = row.settings.clone();
        if let Some(sealed) = &row.sealed {
            let place = Place::of_endpoint(&row.tenant, row.id);
            let plain = self.keyring.open(sealed, place)?;
            let private: Private = serde_json::from_slice(&plain).map_err(|_| {
                SealError::Malformed { place: place.to_string(), bytes: sealed.len() }
            })?;
            settings.put_private(private);
        }
        Ok(settings)
    }

    fn seal(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        settings: &mut EndpointSettings,
    ) -> Option<Vec<u8>> {
        let private = settings.take_private();
        if private.is_empty() {
            return None;
        }
        let plain =
            zeroize::Zeroizing::new(serde_json::to_vec(&private).expect("texts in maps are JSON"));
        Some(self.keyring.seal(&plain, Place::of_endpoint(tenant, id)))
    }

    /// Adds all that is wrong with the settings taken together, and puts the URL into the form in
    /// which it is stored, signed, logged and connected to. A field that could not be read at all
    /// is named for that alone: what stands in its place is not the caller's.
    fn check(&self, settings: &mut EndpointSettings, problems: &mut Vec<Problem>) {
        let mut more = settings.validate();
        if settings.kind == EndpointKind::Queue {
            problems.extend(more);
            return;
        }
        let internal = settings.reach == Reach::Internal;
        match EndpointUrl::parse(&settings.url) {
            Ok(url) => {
                let judged = self.policy.check_url(&url, internal);
                more.extend(judged.err().map(|blocked| Problem::new("url", blocked)));
                url.as_str().clone_into(&mut settings.url);
            }
            Err(UrlError::AddressForm { written, address }) => {
                more.retain(|problem| problem.field != "url");
                more.push(Problem::new(
                    "url",
                    self.plainly(&settings.url, written, address, internal),
                ));
            }
            Err(_) => {} // among those above
        }
        more.extend(tls_problem(&settings.tls));
        let unread: Vec<String> = problems.iter().map(|problem| problem.field.clone()).collect();
        let read = |problem: &Problem| {
            !unread.iter().any(|field| {
                let rest = problem.field.strip_prefix(field.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            })
        };
        problems.extend(more.into_iter().filter(read));
    }

    /// Of an address in an odd form: to write it plainly, unless it would be refused all the same.
    fn plainly(&self, url: &str, written: String, address: IpAddr, internal: bool) -> String {
        let plain = url.replacen(&written, &address.to_string(), 1);
        let judged = EndpointUrl::parse(&plain).map(|url| self.policy.check_url(&url, internal));
        match judged {
            Ok(Err(blocked)) => {
                format!("{} is another way to write {address}; {blocked}", shown(&written))
            }
            _ => UrlError::AddressForm { written, address }.to_string(),
        }
    }
}

/// The secret that was brought along with an endpoint, if one was.
fn given_secret(value: Option<Value>) -> Result<Option<Secret>, Problem> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => checked_secret(&text).map(Some),
        Some(_) => Err(Problem::new("secret", "write a text in quotes, as \"whsec_…\"")),
    }
}

/// Refuses one more endpoint to a tenant that is not there, or has as many as it may.
async fn refuse_too_many(tx: &mut Tx, tenant: &TenantId) -> Result<(), ManageError> {
    let owner = tx.find_tenant(tenant).await?;
    let owner = owner.ok_or_else(|| ManageError::not_found("tenant", tenant))?;
    match endpoints_max(&owner) {
        Some(most) if tx.count_endpoints(tenant).await?.cast_unsigned() >= most => {
            let detail = format!(
                "tenant {tenant} may have {most} endpoints and has them; delete one, or ask the \
                 operator to raise limits.endpoints"
            );
            Err(ManageError::conflict("too_many_endpoints", detail))
        }
        _ => Ok(()),
    }
}

/// Certificates that could not be used, once their shape is right.
fn tls_problem(tls: &TlsSettings) -> Option<Problem> {
    if tls.is_empty() || !tls.problems().is_empty() {
        return None;
    }
    let error = check_profile(&TlsProfile::from(tls)).err()?;
    Some(Problem::new(format!("tls.{}", error.field()), error))
}

fn refuse(problems: Vec<Problem>) -> Result<(), ManageError> {
    if problems.is_empty() { Ok(()) } else { Err(ManageError::Invalid(problems)) }
}

/// Requests into the operator's own network are the operator's to allow.
fn may_reach_inside(actor: &Actor) -> Result<(), ManageError> {
    if actor.is_operator() && actor.scopes.contains(Scope::Manage) {
        return Ok(());
    }
    Err(ManageError::Forbidden(
        "reach: only an operator's key with the scope manage may set \"internal\", or the url of \
         an endpoint that has it; use \"public\""
            .to_owned(),
    ))
}
