//! What waits in a prepared database: the backlog that is drained, and the troubles beside which
//! healthy endpoints are measured.

use std::net::SocketAddr;

use serde_json::{Map, json};

use super::{
    database::Database,
    setup::{EVENT_TYPE, ONE, TENANTS, payload},
    sink::SLOW,
};
use crate::{
    domain::{scope::Actor, tenant::TenantId},
    manage::{Manage, tenants::TenantChange},
};

/// Events of one statement while a backlog is made.
const FILL: u32 = 1_000;

/// The tenant of each trouble.
const DEAD: &str = "dead";
const SLEEPY: &str = "sleepy";
const CROWD: &str = "crowd";

/// Deliveries that wait for the endpoint that takes ten seconds.
const SLOW_WAITING: u32 = 1_000;

/// Deliveries that wait for each endpoint of the crowd.
pub const CROWD_WAITING: u32 = 100;

/// Emits `deliveries` events of one delivery each.
pub async fn fill(database: &Database, deliveries: u32) -> anyhow::Result<()> {
    let payload = payload();
    for start in (0..deliveries).step_by(usize::try_from(FILL)?) {
        let many = FILL.min(deliveries - start);
        database
            .run(format!(
                "SELECT cardinality(snaphook.emit_many(
                     array_agg('{prefix}' || n % {TENANTS}), array_agg('{EVENT_TYPE}'::text),
                     array_agg('{payload}'::text)))
                 FROM generate_series(1, {many}) n",
                prefix = ONE.prefix,
            ))
            .await?;
    }
    database.run("VACUUM (ANALYZE)").await
}

/// Makes an endpoint that nothing answers for, and one that answers late.
pub async fn add_troubles(manage: &Manage, sink: SocketAddr) -> anyhow::Result<()> {
    // A port of ours on which nobody listens: connecting fails at once.
    let nobody = std::net::TcpListener::bind((sink.ip(), 0))?.local_addr()?;
    add(manage, DEAD, &[format!("http://{nobody}/")]).await?;
    add(manage, SLEEPY, &[format!("http://{sink}{SLOW}")]).await
}

/// Makes many endpoints.
pub async fn add_crowd(manage: &Manage, sink: SocketAddr, many: u32) -> anyhow::Result<()> {
    let urls: Vec<String> = (0..many).map(|n| format!("http://{sink}/{CROWD}/{n}")).collect();
    add(manage, CROWD, &urls).await
}

async fn add(manage: &Manage, tenant: &str, urls: &[String]) -> anyhow::Result<()> {
    let (actor, tenant) = (Actor::command_line(), TenantId::parse(tenant)?);
    manage.put_tenant(&actor, &tenant, TenantChange::default()).await?;
    for url in urls {
        let settings = Map::from_iter([("url".to_owned(), json!(url))]);
        manage.create_endpoint(&actor, &tenant, settings).await?;
    }
    Ok(())
}

/// Lets so many deliveries wait for the endpoint that nothing answers for. Each was tried once
/// and is due.
pub async fn let_dead_wait(database: &Database, many: u32) -> anyhow::Result<()> {
    wait(database, DEAD, many, 1, "now()").await
}

/// Lets some deliveries wait for the endpoint that answers late.
pub async fn let_slow_wait(database: &Database) -> anyhow::Result<()> {
    wait(database, SLEEPY, SLOW_WAITING, 0, "now()").await
}

/// Lets a hundred deliveries wait for each endpoint of the crowd, tried once and due in an hour:
/// were they due, it would be their deliveries that take from others, not their number.
pub async fn let_crowd_wait(database: &Database) -> anyhow::Result<()> {
    wait(database, CROWD, CROWD_WAITING, 1, "now() + interval '1 hour'").await
}

/// `many` events for all endpoints of a tenant, written as they would lie there.
async fn wait(
    database: &Database,
    tenant: &str,
    many: u32,
    attempts: u8,
    due: &str,
) -> anyhow::Result<()> {
    database
        .run(format!(
            "WITH made AS (
                 INSERT INTO snaphook.events (id, tenant, type, payload, door)
                 SELECT (snaphook.micros() + n) << 11, '{tenant}', '{EVENT_TYPE}', '\\x7b7d', 0
                 FROM generate_series(1, {many}) n
                 RETURNING id
             )
             INSERT INTO snaphook.queue (event_id, endpoint_id, tenant, shard, state, attempt, rung, due_at)
             SELECT made.id, e.id, e.tenant, e.shard, {attempts}, {attempts}, {attempts}, {due}
             FROM made, snaphook.endpoints e WHERE e.tenant = '{tenant}'"
        ))
        .await?;
    database.run("VACUUM (ANALYZE)").await
}
