//! What is asked before attempt 1: does the endpoint's filter want the event, and may it pass by what
//! is declared of its type. SQL and providers cannot be asked to mend either; HTTP has asked the
//! second already. A redelivery asks the second again, for a schema may have been mended since.

use std::sync::Arc;

use super::{Engine, attempt::Job};
use crate::{
    domain::{attempt::Mark, declared::Declared, delivery::Cause, event::Event, first_check},
    store::{Row, StoreError, Tx},
};

/// What an event is held against.
#[derive(Clone, Debug)]
pub enum Check {
    /// Nothing: its door has checked it.
    None,
    /// What is declared of its type, if it is.
    Against(Option<Arc<Declared>>),
}

impl Engine {
    /// What to hold an event against, as of an epoch of the configuration.
    pub async fn check_of(
        &self,
        tx: &mut Tx,
        epoch: i64,
        event: &Event,
    ) -> Result<Check, StoreError> {
        if event.checked {
            return Ok(Check::None);
        }
        Ok(Check::Against(self.store.declared_of(tx, epoch, event).await?))
    }
}

/// Whether a delivery is looked at before its next attempt: before the first, and at the beginning
/// of each new run.
pub fn is_asked(row: &Row) -> bool {
    row.attempt == 0 || (row.run > 0 && row.rung == 0)
}

/// How a delivery ends without a request, if it does, and why in words. A new run is asked for by a
/// person, who has seen what the filter does not want; but the event must fit its schema.
pub fn judge(job: &Job, strict: bool) -> Option<(Mark, Option<Cause>, String)> {
    if !is_asked(&job.row) {
        return None;
    }
    let declared = match &job.check {
        Check::None => None,
        Check::Against(declared) => Some(declared.as_deref()),
    };
    let filter = job.endpoint.filter.as_ref().filter(|_| job.row.run == 0);
    first_check::judge(job.event.as_ref()?, filter, declared, strict)
}
