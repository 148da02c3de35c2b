//! What is asked once, before attempt 1: does the endpoint's filter want the event, and may it pass
//! by what is declared of its type. SQL cannot ask either, and HTTP has asked the second already.

use std::sync::Arc;

use super::{Engine, attempt::Job};
use crate::{
    domain::{attempt::Mark, declared::Declared, delivery::Cause, event::Event, first_check},
    store::{StoreError, Tx},
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
        let version = event.version.as_deref();
        let declared = self.store.declared_at(tx, epoch, &event.event_type, version).await?;
        Ok(Check::Against(declared))
    }
}

/// How a delivery ends without a request, if it does, and why in words.
pub fn judge(job: &Job, strict: bool) -> Option<(Mark, Option<Cause>, String)> {
    if job.row.attempt > 0 {
        return None;
    }
    let declared = match &job.check {
        Check::None => None,
        Check::Against(declared) => Some(declared.as_deref()),
    };
    first_check::judge(job.event.as_ref()?, job.endpoint.filter.as_ref(), declared, strict)
}
