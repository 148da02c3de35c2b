//! The signals that ask a process to end.

use std::{io, time::Duration};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Supervisors may send the first signal twice (to the process and to its group, say): a second one
/// means haste only when it comes this long after the first.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// SIGTERM, which orchestrators send, and SIGINT, which Ctrl-C does.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes charge of both: from now on they end nothing by themselves.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits, after a signal, for another that is not the same one sent twice.
    pub async fn again(&mut self) {
        let same = async {
            loop {
                self.next().await;
            }
        };
        let _: Result<(), _> = tokio::time::timeout(SAME_SIGNAL, same).await;
        self.next().await;
    }

    /// Waits for the next of either.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
