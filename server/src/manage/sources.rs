//! Sources: made, changed, paused, armed, deleted. Secrets are judged by the scheme when they are
//! configured, so that no wrong one waits for the first request to be refused. What a table of the
//! settings file made is changed there alone.

use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::{Deed, Manage, ManageError, new_id};
use crate::{
    domain::{
        id::SourceId,
        limits::SOURCES_MAX,
        problem::Problem,
        scope::Actor,
        source::{ARMED_FOR, SourcePrivate, SourceSettings, SourceState, SourceToken},
        tenant::TenantId,
    },
    store::{
        SourceRow, Tx,
        page::Page,
        seal::{Place, SealError},
    },
};

impl Manage {
    /// Makes a source with the secrets in `change.secrets`, of which there may be none yet.
    pub async fn create_source(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        mut change: Map<String, Value>,
    ) -> Result<SourceRow, ManageError> {
        let given = given_secrets(change.remove("secrets"));
        let mut settings = SourceSettings::default();
        let mut problems = settings.apply(&change);
        check(&settings, &mut problems);
        match &given {
            Err(problem) => problems.push(problem.clone()),
            Ok(_) if !problems.is_empty() => {} // judged by a scheme that is wrong itself
            Ok(texts) => problems.extend(settings.secret_problems(&plain(texts))),
        }
        let texts = given.unwrap_or_default();
        if !problems.is_empty() {
            return Err(ManageError::Invalid(problems));
        }
        let mut tx = self.store.begin().await?;
        tx.lock_configuration().await?;
        if tx.find_tenant(tenant).await?.is_none() {
            return Err(ManageError::not_found("tenant", tenant));
        }
        if tx.count_sources(tenant).await? >= SOURCES_MAX {
            let detail = format!("tenant {tenant} has {SOURCES_MAX} sources, the most; delete one");
            return Err(ManageError::conflict("too_many_sources", detail));
        }
        let row = self.add_source(&mut tx, tenant, settings, &texts, false).await?;
        Deed::new(actor, "source.create", &row.token)
            .of(tenant)
            .with("name", row.settings.name.as_str())
            .with("scheme", row.settings.scheme.name())
            .write(&mut tx, &*self.world)
            .await?;
        tx.commit().await?;
        (self.reread)().await;
        Ok(row)
    }

    /// Keeps a source and its secrets. All of them were judged.
    pub(super) async fn add_source(
        &self,
        tx: &mut Tx,
        tenant: &TenantId,
        mut settings: SourceSettings,
        secrets: &[Zeroizing<String>],
        from_file: bool,
    ) -> Result<SourceRow, ManageError> {
        let now = self.now();
        let id = SourceId(new_id(&*self.world));
        let chance = [self.world.random(), self.world.random()].map(u128::from);
        let mut row = SourceRow {
            id,
            token: SourceToken::new(chance[0] << 64 | chance[1]),
            tenant: tenant.clone(),
            state: SourceState::Active,
            state_since: now,
            armed_until: None,
            sealed: self.seal_source(tenant, id, &mut settings),
            settings,
            from_file,
            epoch: 0,
            created_at: now,
            updated_at: now,
            deleted_at: None,
        };
        if !tx.add_source(&mut row).await? {
            return Err(name_taken(tenant, &row.settings.name));
        }
        for text in secrets {
            tx.add_source_secret(&self.source_secret_row(&row, text)).await?;
        }
        Ok(row)
    }

    /// Changes the settings that are named.
    pub async fn update_source(
        &self,
        actor: &Actor,
        token: &SourceToken,
        change: &Map<String, Value>,
    ) -> Result<SourceRow, ManageError> {
        let mut tx = self.store.begin().await?;
        let mut row = self.lock_editable(&mut tx, actor, token).await?;
        let mut settings = self.open_source_settings(&row)?;
        let mut problems = Vec::new();
        if change.contains_key("secrets") {
            let problem = "secrets are added, rotated and revoked at /v1/sources/{source}/secrets";
            problems.push(Problem::new("secrets", problem));
        }
        let named: Map<String, Value> =
            change.iter().filter(|(name, _)| *name != "secrets").map(owned).collect();
        problems.extend(settings.apply(&named));
        check(&settings, &mut problems);
        let live = self.live_source_texts(&mut tx, &row).await?;
        if problems.is_empty() && !live.is_empty() {
            problems.extend(settings.verifier(&live).err().map(with_live_secrets));
        }
        if !problems.is_empty() {
            return Err(ManageError::Invalid(problems));
        }
        if let Some(other) = tx.find_source_named(&row.tenant, &settings.name).await?
            && other.id != row.id
        {
            return Err(name_taken(&row.tenant, &settings.name));
        }
        row.sealed = self.seal_source(&row.tenant, row.id, &mut settings);
        row.settings = settings;
        let fields: Vec<Value> = change.keys().map(|name| Value::from(name.as_str())).collect();
        let deed = Deed::new(actor, "source.update", token).with("fields", fields);
        self.save_source(tx, deed, row).await
    }

    /// Deletes a source: from then on its URL is nobody's. Its events and their deliveries stay.
    pub async fn delete_source(
        &self,
        actor: &Actor,
        token: &SourceToken,
    ) -> Result<(), ManageError> {
        let mut tx = self.store.begin().await?;
        let mut row = self.lock_editable(&mut tx, actor, token).await?;
        row.deleted_at = Some(self.now());
        self.save_source(tx, Deed::new(actor, "source.delete", token), row).await?;
        Ok(())
    }

    /// Deletes the sources of a tenant that is going itself, those of the settings file too.
    pub(super) async fn end_sources(
        &self,
        actor: &Actor,
        tx: &mut Tx,
        tenant: &TenantId,
    ) -> Result<(), ManageError> {
        loop {
            let rows = tx.list_sources(Some(tenant), Page::first(u16::MAX)).await?.rows;
            if rows.is_empty() {
                return Ok(());
            }
            for mut row in rows {
                let now = self.now();
                (row.deleted_at, row.updated_at) = (Some(now), now);
                tx.update_source(&mut row).await?;
                Deed::new(actor, "source.delete", &row.token)
                    .of(tenant)
                    .write(tx, &*self.world)
                    .await?;
            }
        }
    }

    /// Holds what a source takes from now on, or lets it go on. Nothing of it is lost.
    pub async fn set_source_state(
        &self,
        actor: &Actor,
        token: &SourceToken,
        state: SourceState,
    ) -> Result<SourceRow, ManageError> {
        let mut tx = self.store.begin().await?;
        let mut row = self.lock_source(&mut tx, actor, token).await?;
        if row.state == state {
            tx.rollback().await?;
            return Ok(row);
        }
        (row.state, row.state_since) = (state, self.now());
        let action = match state {
            SourceState::Active => "source.resume",
            SourceState::Paused => "source.pause",
        };
        let row = self.save_source(tx, Deed::new(actor, action, token), row).await?;
        (self.wake)();
        Ok(row)
    }

    /// Lets the provider's handshake set the secret within the next hour, though there is one.
    pub async fn arm_source(
        &self,
        actor: &Actor,
        token: &SourceToken,
    ) -> Result<SourceRow, ManageError> {
        let mut tx = self.store.begin().await?;
        let mut row = self.lock_source(&mut tx, actor, token).await?;
        row.armed_until = Some(self.now() + ARMED_FOR);
        self.save_source(tx, Deed::new(actor, "source.arm", token), row).await
    }

    /// The settings of a source with what was sealed of them. Show only
    /// [`SourceSettings::shown`] of it.
    pub fn open_source_settings(&self, row: &SourceRow) -> Result<SourceSettings, SealError> {
        let mut settings = row.settings.clone();
        if let Some(sealed) = &row.sealed {
            let place = Place::of_source(&row.tenant, row.id);
            let plain = self.keyring.open(sealed, place)?;
            let private: SourcePrivate = serde_json::from_slice(&plain).map_err(|_| {
                SealError::Malformed { place: place.to_string(), bytes: sealed.len() }
            })?;
            settings.put_private(private);
        }
        Ok(settings)
    }

    pub(super) fn seal_source(
        &self,
        tenant: &TenantId,
        id: SourceId,
        settings: &mut SourceSettings,
    ) -> Option<Vec<u8>> {
        let private = settings.take_private();
        if private.is_empty() {
            return None;
        }
        let plain = Zeroizing::new(serde_json::to_vec(&private).expect("a text is JSON"));
        Some(self.keyring.seal(&plain, Place::of_source(tenant, id)))
    }

    /// The source, with the configuration locked against others' changes.
    pub(super) async fn lock_source(
        &self,
        tx: &mut Tx,
        actor: &Actor,
        token: &SourceToken,
    ) -> Result<SourceRow, ManageError> {
        tx.lock_configuration().await?;
        let found = tx.find_source(actor.tenant.as_ref(), token).await?;
        found.ok_or_else(|| ManageError::not_found("source", token))
    }

    /// The same, unless a table of the settings file made it.
    pub(super) async fn lock_editable(
        &self,
        tx: &mut Tx,
        actor: &Actor,
        token: &SourceToken,
    ) -> Result<SourceRow, ManageError> {
        let row = self.lock_source(tx, actor, token).await?;
        if row.from_file {
            return Err(ManageError::conflict(
                "from_file",
                format!(
                    "source {} stands in the settings file; change its [[source]] table there and \
                     start the server again",
                    row.settings.name
                ),
            ));
        }
        Ok(row)
    }

    async fn save_source(
        &self,
        mut tx: Tx,
        deed: Deed<'_>,
        mut row: SourceRow,
    ) -> Result<SourceRow, ManageError> {
        row.updated_at = self.now();
        tx.update_source(&mut row).await?;
        let tenant = row.tenant.clone();
        deed.of(&tenant).write(&mut tx, &*self.world).await?;
        tx.commit().await?;
        (self.reread)().await;
        Ok(row)
    }
}

fn owned((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

/// Adds all that is wrong with the settings taken together. A field that could not be read at all
/// is named for that alone: what stands in its place is not the caller's.
fn check(settings: &SourceSettings, problems: &mut Vec<Problem>) {
    let unread: Vec<String> = problems.iter().map(|problem| problem.field.clone()).collect();
    let is_read = |problem: &Problem| {
        let part = |text: &str| text.split(['.', '[']).next().unwrap_or_default().to_owned();
        !unread.iter().any(|field| part(field) == part(&problem.field))
    };
    problems.extend(settings.validate().into_iter().filter(is_read));
}

/// The secrets that come along with a source.
fn given_secrets(value: Option<Value>) -> Result<Vec<Zeroizing<String>>, Problem> {
    let wrong = || Problem::new("secrets", "write a list of texts in quotes, as [\"whsec_…\"]");
    let texts = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(texts)) => texts,
        Some(_) => return Err(wrong()),
    };
    let read = texts.into_iter().map(|text| match text {
        Value::String(text) => Ok(Zeroizing::new(text)),
        _ => Err(wrong()),
    });
    read.collect()
}

pub(super) fn plain(texts: &[Zeroizing<String>]) -> Vec<&str> {
    texts.iter().map(|text| text.as_str()).collect()
}

/// A change of the scheme must suit the secrets that are live.
fn with_live_secrets(problem: Problem) -> Problem {
    if problem.field != "secrets" {
        return problem;
    }
    let why = format!("the live secrets do not suit it ({}); make a new source", problem.problem);
    Problem::new("scheme", why)
}

fn name_taken(tenant: &TenantId, name: &str) -> ManageError {
    let detail = format!("tenant {tenant} has a source of the name {name}; use another name");
    ManageError::conflict("name_taken", detail)
}
