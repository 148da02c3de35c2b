//! The ceiling RAW: requests prepared and posted as in an attempt, from memory, with the same
//! client to the same receiver. What a delivery costs beyond this is the queue.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use snaphook_signature::Secret;
use tokio::task::JoinSet;

use super::{
    Plan,
    machine::Usage,
    report::{Sample, as_number, per_second},
    setup::{self, Fixture},
    sink::Sink,
};
use crate::{
    domain::{
        endpoint::EndpointSettings,
        format::EventView,
        id::{EventId, SecretId, id_at},
    },
    engine::prepare::{EndpointSecret, Parcel, ReadyEndpoint, prepare},
    world::{
        World as _,
        real::{RealWorld, monotonic, wall_clock},
        settings::ClientSettings,
    },
};

/// Requests at once. More make it slower, fewer too.
const AT_ONCE: usize = 64;

/// Requests a second.
pub async fn post(plan: &Plan, fixture: &Fixture, sink: &Sink) -> anyhow::Result<Sample> {
    let world = Arc::new(RealWorld::new(ClientSettings::new(Arc::new(setup::policy())))?);
    let settings = EndpointSettings {
        url: format!("http://{}/raw/0", sink.address()),
        ..EndpointSettings::default()
    };
    let id = SecretId(id_at(wall_clock(), 1));
    let secret = EndpointSecret { id, secret: Secret::new_hmac(&[7; 32]), expires_at: None };
    let endpoint = ReadyEndpoint::new(&settings, vec![secret], Duration::from_secs(15))?;
    let endpoint = Arc::new(endpoint);
    let (begun, before) = (monotonic(), sink.requests());
    let usage = Usage::now(None, &fixture.cluster);
    let end = begun + plan.time;
    let mut tasks = JoinSet::new();
    for _ in 0..AT_ONCE {
        tasks.spawn(post_until(end, world.clone(), endpoint.clone()));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let took = monotonic().saturating_sub(begun);
    let now = Usage::now(None, &fixture.cluster);
    world.shutdown().await;
    let many = sink.requests() - before;
    Ok(Sample { value: per_second(many, took), cpu: now.each_since(usage, as_number(many)) })
}

/// One request after the other.
async fn post_until(
    end: Duration,
    world: Arc<RealWorld>,
    endpoint: Arc<ReadyEndpoint>,
) -> anyhow::Result<()> {
    let payload = Bytes::from(setup::payload());
    while monotonic() < end {
        let now = wall_clock();
        let event = EventView {
            id: EventId(id_at(now, world.random())),
            tenant: "raw",
            event_type: setup::EVENT_TYPE,
            version: None,
            occurred_at: None,
            payload: &payload,
            content_type: None,
        };
        let parcel =
            Parcel { event, traceparent: None, endpoint: &endpoint, base_url: "", inbound: None };
        let sent = world.send(prepare(&parcel, now)?).await;
        let status = sent.result?.status;
        anyhow::ensure!(status == 204, "the receiver answered {status}");
    }
    Ok(())
}
