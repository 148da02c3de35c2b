//! Event types that the operator declares. A schema that does not compile is refused here, so
//! that no event ever meets one.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Deed, Manage, ManageError, check_words};
use crate::{
    domain::{
        endpoint::DESCRIPTION_BYTES_MAX,
        event_type::EventType,
        limits::{SCHEMA_BYTES_MAX, VERSION_BYTES_MAX, check_text},
        problem::Problem,
        schema::Schema,
        scope::Actor,
    },
    store::{Tx, event_types::EventTypeRow},
};

/// Versions of one type that may have a schema.
const VERSIONS_MAX: usize = 100;

/// What can be set on an event type. `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct EventTypeChange {
    /// For people.
    pub description: Option<String>,
    /// A payload as it might be; `Some(Value::Null)` removes it.
    pub example: Option<Value>,
    /// Whether it is kept for its history alone.
    pub archived: Option<bool>,
    /// JSON Schemas by version, `""` for events that name none; `null` removes one.
    pub schemas: Option<BTreeMap<String, Value>>,
}

impl Manage {
    /// Declares a type; a conflict if it is declared already.
    pub async fn create_event_type(
        &self,
        actor: &Actor,
        name: &EventType,
        change: EventTypeChange,
    ) -> Result<EventTypeRow, ManageError> {
        let row = self.new_event_type(name, change)?;
        let mut tx = self.store.begin().await?;
        if !tx.add_event_type(&row).await? {
            return Err(ManageError::conflict(
                "event_type_exists",
                format!("the event type {name} is declared already; change it with PATCH"),
            ));
        }
        Deed::new(actor, "event_type.create", &name).write(&mut tx, &*self.world).await?;
        self.commit_event_types(tx).await?;
        Ok(row)
    }

    /// Declares a type, or sets one that is declared to exactly this. Tells whether it was made.
    pub async fn put_event_type(
        &self,
        actor: &Actor,
        name: &EventType,
        change: EventTypeChange,
    ) -> Result<(EventTypeRow, bool), ManageError> {
        let mut row = self.new_event_type(name, change)?;
        let mut tx = self.store.begin().await?;
        let made = tx.add_event_type(&row).await?;
        if !made {
            let found = tx.find_event_type(name).await?;
            row.created_at = found.map_or(row.created_at, |found| found.created_at);
            tx.update_event_type(&row).await?;
        }
        let action = if made { "event_type.create" } else { "event_type.update" };
        Deed::new(actor, action, &name).write(&mut tx, &*self.world).await?;
        self.commit_event_types(tx).await?;
        Ok((row, made))
    }

    /// Changes what is named and leaves the rest.
    pub async fn update_event_type(
        &self,
        actor: &Actor,
        name: &EventType,
        change: EventTypeChange,
    ) -> Result<EventTypeRow, ManageError> {
        let mut tx = self.store.begin().await?;
        tx.lock_configuration().await?;
        let found = tx.find_event_type(name).await?;
        let mut row = found.ok_or_else(|| ManageError::not_found("event type", &name))?;
        apply(&mut row, change)?;
        row.updated_at = self.now();
        tx.update_event_type(&row).await?;
        Deed::new(actor, "event_type.update", &name).write(&mut tx, &*self.world).await?;
        self.commit_event_types(tx).await?;
        Ok(row)
    }

    /// Forgets a type and its schemas. Events of it are accepted all the same, unless
    /// `event_types.strict` is set.
    pub async fn delete_event_type(
        &self,
        actor: &Actor,
        name: &EventType,
    ) -> Result<(), ManageError> {
        let mut tx = self.store.begin().await?;
        if !tx.delete_event_type(name).await? {
            return Err(ManageError::not_found("event type", &name));
        }
        Deed::new(actor, "event_type.delete", &name).write(&mut tx, &*self.world).await?;
        self.commit_event_types(tx).await?;
        Ok(())
    }

    /// The doors of this process look again whatever the commit came to: an error may be all that
    /// is left of a success.
    async fn commit_event_types(&self, tx: Tx) -> Result<(), ManageError> {
        let committed = tx.commit().await;
        self.store.event_types_changed();
        Ok(committed?)
    }

    fn new_event_type(
        &self,
        name: &EventType,
        change: EventTypeChange,
    ) -> Result<EventTypeRow, ManageError> {
        let now = self.now();
        let mut row = EventTypeRow {
            name: name.clone(),
            description: String::new(),
            example: None,
            archived: false,
            created_at: now,
            updated_at: now,
            schemas: BTreeMap::new(),
        };
        apply(&mut row, change)?;
        Ok(row)
    }
}

fn apply(row: &mut EventTypeRow, change: EventTypeChange) -> Result<(), ManageError> {
    let mut problems = Vec::new();
    if let Some(description) = change.description {
        problems.extend(check_words("description", &description, DESCRIPTION_BYTES_MAX));
        row.description = description;
    }
    if let Some(example) = change.example {
        let text = (!example.is_null()).then(|| example.to_string());
        let bytes = text.as_ref().map_or(0, String::len);
        if bytes > SCHEMA_BYTES_MAX {
            let problem = format!("it is {bytes} bytes; {SCHEMA_BYTES_MAX} are allowed");
            problems.push(Problem::new("example", problem));
        }
        row.example = text;
    }
    if let Some(archived) = change.archived {
        row.archived = archived;
    }
    for (version, schema) in change.schemas.into_iter().flatten() {
        if schema.is_null() {
            row.schemas.remove(&version);
            continue;
        }
        problems.extend(schema_problem(&version, &schema));
        row.schemas.insert(version, schema.to_string());
    }
    if row.schemas.len() > VERSIONS_MAX {
        let problem = format!("there are {}; {VERSIONS_MAX} are allowed", row.schemas.len());
        problems.push(Problem::new("schemas", problem));
    }
    if problems.is_empty() { Ok(()) } else { Err(ManageError::Invalid(problems)) }
}

fn schema_problem(version: &str, schema: &Value) -> Option<Problem> {
    let shown: String = version.chars().take(64).flat_map(char::escape_default).collect();
    if !version.is_empty()
        && let Err(problem) = check_text(version, VERSION_BYTES_MAX)
    {
        return Some(Problem::new(format!("schemas.{shown}"), problem));
    }
    let problem = Schema::compile(schema).err()?;
    Some(Problem::new(format!("schemas.{shown}{}", problem.path), problem.problem))
}
