//! Time and chance without a network: for commands that work on the database alone, and must do
//! so also where no name server answers.

use std::time::Duration;

use super::{
    Boxed, Request, SendError, Sent, Timings, World,
    real::{chance, monotonic, wall_clock},
};
use crate::domain::{outcome::Plain, time::Timestamp};

/// A [`World`] that sends nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offline;

impl World for Offline {
    fn now(&self) -> Timestamp {
        wall_clock()
    }

    fn monotonic(&self) -> Duration {
        monotonic()
    }

    fn random(&self) -> u64 {
        chance()
    }

    fn send(&self, _: Request) -> Boxed<'_, Sent> {
        let refused = SendError::new(Plain::Internal, "this process sends nothing");
        let sent = Sent { result: Err(refused), timings: Timings::default(), address: None };
        Box::pin(std::future::ready(sent))
    }
}
