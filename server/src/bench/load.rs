//! Load over HTTP: callers that each keep a connection and send one event after the other, as a
//! fleet of business processes does.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet};

use super::{
    program::Program,
    setup::{EVENT_TYPE, FanOut, TENANTS, payload},
};
use crate::world::real::monotonic;

/// Callers at once: enough that their events can be committed in groups.
const CALLERS: u32 = 64;

/// One connection.
pub struct Caller {
    sender: SendRequest<Full<Bytes>>,
    _connection: JoinSet<()>,
}

impl Caller {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // The caller sees it too, at its next request.
            let _ = connection.await;
        });
        Ok(Self { sender, _connection: tasks })
    }

    /// Sends a request and reads the whole answer.
    pub async fn call(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }
}

/// Sends events for so long. Gives how many were accepted; one that is not is an error.
pub async fn send(program: &Arc<Program>, to: FanOut, time: Duration) -> anyhow::Result<u64> {
    let end = monotonic() + time;
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        callers.spawn(send_until(end, program.clone(), to, number));
    }
    let mut accepted = 0;
    while let Some(done) = callers.join_next().await {
        accepted += done??;
    }
    Ok(accepted)
}

async fn send_until(
    end: Duration,
    program: Arc<Program>,
    to: FanOut,
    caller: u32,
) -> anyhow::Result<u64> {
    let mut connection = Caller::connect(program.address()).await?;
    let data = payload();
    let (mut accepted, mut tenant) = (0, caller % TENANTS);
    while monotonic() < end {
        // Coprime to the number of tenants: each caller comes to all of them.
        tenant = (tenant + 7) % TENANTS;
        let prefix = to.prefix;
        let body =
            format!(r#"{{"tenant":"{prefix}{tenant}","type":"{EVENT_TYPE}","data":{data}}}"#);
        let request = program.request(Method::POST, "/v1/events", body.into());
        let (status, body) = connection.call(request).await.context("an event was not sent")?;
        anyhow::ensure!(
            status == StatusCode::ACCEPTED,
            "an event was answered {status}: {}",
            String::from_utf8_lossy(&body)
        );
        accepted += 1;
    }
    Ok(accepted)
}
