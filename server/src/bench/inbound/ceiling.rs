//! The ceiling ACK0: the server's own HTTP, with nothing behind it but reading the body.

use std::{net::Ipv4Addr, sync::Arc};

use axum::{Router, body::Bytes, http::StatusCode, routing::post};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    super::{
        Plan,
        machine::Usage,
        report::{Sample, as_number, per_second},
        setup::Fixture,
    },
    CLIENTS,
    load::{Provider, push_until},
};
use crate::{
    server::connections::{ConnectionLimits, serve},
    world::real::monotonic,
};

/// Requests a second.
pub async fn ceiling(plan: &Plan, fixture: &Fixture) -> anyhow::Result<Sample> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let provider = Provider::new(listener.local_addr()?, "/in/ceiling".to_owned())?;
    let router = Router::new().route("/in/{source}", post(async |_: Bytes| StatusCode::OK));
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    tasks.spawn(serve(listener, router, ConnectionLimits::default(), stop.clone()));
    let (begun, usage) = (monotonic(), Usage::now(None, &fixture.cluster));
    let many = push_until(&Arc::new(provider), CLIENTS, begun + plan.time, true).await?;
    let took = monotonic().saturating_sub(begun);
    let now = Usage::now(None, &fixture.cluster);
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    Ok(Sample { value: per_second(many, took), cpu: now.each_since(usage, as_number(many)) })
}
