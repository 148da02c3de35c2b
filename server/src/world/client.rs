//! The delivery client: guard, connection, exchange, and once more if the connection was stale.
//! Follows no redirect: there is no code that could.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{
    Request, Response, SendError, Sent,
    connect::{Connector, blocked},
    connection::Connection,
    exchange::{self, exchange},
    pool::{Key, Lease, Pool},
    target::Target,
    tls::TlsSetups,
    trace::{Phase, Trace},
};
use crate::domain::outcome::Plain;

/// Sends requests.
pub(super) struct Client {
    pub connector: Connector,
    pub pool: Arc<Pool>,
    pub tls: TlsSetups,
    pub response_bytes: usize,
}

impl Client {
    /// One attempt, within its time.
    pub(super) async fn post(&self, request: Request) -> Sent {
        let trace = Trace::start();
        let attempt = timeout(request.timeout, self.attempt(&request, &trace)).await;
        let (timings, address) = trace.finish();
        let result = match attempt {
            Err(_) => Err(overdue(request.timeout, &trace)),
            Ok(Err(error)) => Err(error),
            Ok(Ok((response, lease))) => {
                if let Some(lease) = lease {
                    lease.keep().await;
                }
                Ok(response)
            }
        };
        Sent { result, timings, address }
    }

    /// Closes the kept connections to the host of `url`.
    pub(super) fn forget(&self, url: &str) {
        if let Ok(target) = Target::parse(url) {
            let (https, authority) = (target.url.is_https(), target.authority());
            self.pool.forget(|key| key.https == https && *key.authority == *authority);
        }
    }

    /// The answer, and the connection if it can be used again.
    async fn attempt(
        &self,
        request: &Request,
        trace: &Trace,
    ) -> Result<(Response, Option<Lease>), SendError> {
        let target = Target::parse(&request.url)?;
        exchange::check_headers(&request.headers)?;
        let policy = self.connector.policy.load_full();
        policy.check_url(&target.url, request.internal).map_err(blocked)?;
        let tls = self.tls.of(request.tls.as_ref())?;
        let key = Key {
            https: target.url.is_https(),
            authority: target.authority().into(),
            tls: tls.id,
            internal: request.internal,
        };
        let dial = |place| async {
            let link =
                self.connector.connect(&target, request.internal, &tls.config, trace).await?;
            let (tasks, stop) = self.pool.tasks();
            Connection::open(link, place, tasks, stop, target.url.host()).await
        };
        let mut is_second = false;
        loop {
            trace.enter(Phase::Pool);
            let mut lease = self.pool.checkout(&key, dial).await?;
            let reused = lease.reused;
            let keep = request.answer_bytes.unwrap_or(self.response_bytes);
            match exchange(lease.connection(), reused, &target, request, keep, trace).await {
                Ok(answered) => return Ok((answered.response, answered.ended.then_some(lease))),
                Err(fault) if fault.again && !is_second => {
                    // The others were kept as long; the second request shall get a new one.
                    is_second = true;
                    drop(lease);
                    self.pool.forget(|other| *other == key);
                }
                Err(fault) => return Err(fault.error),
            }
        }
    }
}

fn overdue(limit: Duration, trace: &Trace) -> SendError {
    let awaited = trace.phase().awaited();
    let status = match trace.status() {
        Some(status) => format!("; the status was {status}"),
        None => String::new(),
    };
    SendError::new(
        Plain::TimeoutTotal,
        format!("the attempt was not over within {limit:?}, while waiting for {awaited}{status}"),
    )
}
