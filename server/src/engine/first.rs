//! What is asked once, before attempt 1: does the endpoint's filter want the event, and may it pass
//! by what is declared of its type. SQL cannot ask either, and HTTP has asked the second already.

use std::sync::Arc;

use super::{Engine, attempt::Job};
use crate::{
    domain::{
        attempt::Mark,
        declared::{self, Asked, Declared},
        delivery::Cause,
        event::{Event, TEST_EVENT_TYPE},
    },
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
    let event = job.event.as_ref()?;
    // A test asks whether requests arrive, not whether the endpoint wants them.
    if let Some(filter) = &job.endpoint.filter
        && event.event_type != TEST_EVENT_TYPE
        && !filter.matches_bytes(&event.payload)
    {
        return Some((Mark::Filtered, None, String::new()));
    }
    let Check::Against(declared) = &job.check else { return None };
    let asked = Asked {
        event_type: &event.event_type,
        version: event.version.as_deref(),
        payload: &event.payload,
    };
    let problems = declared::problems(strict, declared.as_deref(), asked);
    if problems.is_empty() {
        return None;
    }
    let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Some((Mark::Dead, Some(Cause::Invalid), words.join("; ")))
}
