//! Compiled schemas, kept as long as the configuration's epoch stands.

use std::{collections::HashMap, panic::catch_unwind, sync::Arc};

use super::first::Check;
use crate::{
    domain::{event::Event, schema::Schema},
    store::{StoreError, Tx},
};

/// Compiled schemas by type and version.
#[derive(Default)]
pub struct Schemas {
    epoch: i64,
    checks: HashMap<(String, String), Check<Arc<Schema>>>,
}

impl Schemas {
    /// What to check of `event` before its first attempt.
    pub async fn check_of(
        &mut self,
        tx: &mut Tx,
        event: &Event,
        epoch: i64,
        strict: bool,
    ) -> Result<Check<Arc<Schema>>, StoreError> {
        if event.checked {
            return Ok(Check::None);
        }
        if self.epoch != epoch {
            self.checks.clear();
            self.epoch = epoch;
        }
        let version = event.version.clone().unwrap_or_default();
        let key = (event.event_type.clone(), version);
        if let Some(check) = self.checks.get(&key) {
            return Ok(check.clone());
        }
        let check = match tx.find_schema(&key.0, &key.1).await? {
            None if strict => Check::Undeclared,
            None | Some(None) => Check::None,
            Some(Some(text)) => compile(&key.0, &text),
        };
        self.checks.insert(key, check.clone());
        Ok(check)
    }
}

/// A schema that was saved compiles; one that does not was put there by other hands.
fn compile(name: &str, text: &str) -> Check<Arc<Schema>> {
    let source = serde_json::from_str(text).map_err(|error| error.to_string());
    let schema = source.and_then(|source| {
        catch_unwind(|| Schema::compile(&source).map_err(|error| error.to_string()))
            .unwrap_or_else(|_| Err("a panic".to_owned()))
    });
    match schema {
        Ok(schema) => Check::Schema(Arc::new(schema)),
        Err(problem) => {
            tracing::error!(event_type = name, "a stored schema does not compile: {problem}");
            Check::None
        }
    }
}
