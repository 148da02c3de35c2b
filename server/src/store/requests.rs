//! Requests that a source keeps apart: refused ones, and genuine ones that a person should look
//! at before they become events. None of them goes anywhere by itself.

use bytes::Bytes;

use super::{
    StoreError, Tx, on,
    page::{Order, Page, Paged},
};
use crate::domain::{
    id::{EventId, RequestId, SourceId},
    received::Digest,
    request_headers::RequestHeaders,
    request_state::RequestState,
    tenant::TenantId,
    time::Timestamp,
};

/// Rows that one step deletes: a few milliseconds, so that nobody waits for it.
const STEP: i64 = 1_000;

/// A request that is to be kept.
#[derive(Clone, Debug)]
pub struct NewRequest {
    /// Its id.
    pub id: RequestId,
    /// Where it came in.
    pub source: SourceId,
    /// Whose the source is.
    pub tenant: TenantId,
    /// When it came.
    pub received_at: Timestamp,
    /// Why it is kept.
    pub state: RequestState,
    /// At which step it was refused.
    pub step: Option<&'static str>,
    /// What was wrong, in words.
    pub reason: Option<String>,
    /// Its method.
    pub method: String,
    /// Its path and query.
    pub target: String,
    /// Its headers.
    pub headers: RequestHeaders,
    /// Its body; `None` where that is too large to be kept.
    pub body: Option<Bytes>,
    /// What a genuine one calls the event.
    pub provider_id: Option<String>,
    /// And its type.
    pub provider_type: Option<String>,
    /// The event that was there before.
    pub event: Option<EventId>,
    /// Of a genuine one: what makes the same request again the same one.
    pub digest: Option<Digest>,
}

/// A request that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRow {
    /// Its id.
    pub id: RequestId,
    /// Where it came in.
    pub source: SourceId,
    /// Whose the source is.
    pub tenant: TenantId,
    /// When it came.
    pub received_at: Timestamp,
    /// Where it stands.
    pub state: RequestState,
    /// At which step it was refused, at the last look.
    pub step: Option<String>,
    /// What was wrong, in words.
    pub reason: Option<String>,
    /// Its method.
    pub method: String,
    /// Its path and query.
    pub target: String,
    /// Its headers.
    pub headers: RequestHeaders,
    /// Its body; `None` where that was too large to be kept, and in lists.
    pub body: Option<Bytes>,
    /// Bytes of its headers and its body, kept or not.
    pub size: i64,
    /// What a genuine one calls the event.
    pub provider_id: Option<String>,
    /// And its type.
    pub provider_type: Option<String>,
    /// The event that was there before; of an accepted one, the event that it became.
    pub event: Option<EventId>,
    /// What the last look at it came to, if it was looked at again.
    pub verdict: Option<String>,
    /// When that was.
    pub verified_at: Option<Timestamp>,
    /// When it was accepted.
    pub accepted_at: Option<Timestamp>,
    /// By whom.
    pub accepted_by: Option<String>,
}

#[derive(sqlx::FromRow)]
struct Columns {
    id: RequestId,
    source_id: SourceId,
    tenant: String,
    received_at: Timestamp,
    state: i16,
    step: Option<String>,
    reason: Option<String>,
    method: String,
    target: String,
    headers: Vec<u8>,
    body: Option<Vec<u8>>,
    size: i64,
    provider_id: Option<String>,
    provider_type: Option<String>,
    event_id: Option<EventId>,
    verdict: Option<String>,
    verified_at: Option<Timestamp>,
    accepted_at: Option<Timestamp>,
    accepted_by: Option<String>,
}

impl TryFrom<Columns> for RequestRow {
    type Error = StoreError;

    fn try_from(columns: Columns) -> Result<Self, StoreError> {
        let id = columns.id;
        let unreadable = |what: &str| StoreError::Unreadable(format!("{what} of request {id}"));
        Ok(Self {
            id,
            source: columns.source_id,
            tenant: TenantId::parse(&columns.tenant).map_err(|_| unreadable("the tenant"))?,
            received_at: columns.received_at,
            state: RequestState::from_code(columns.state).ok_or_else(|| unreadable("the state"))?,
            step: columns.step,
            reason: columns.reason,
            method: columns.method,
            target: columns.target,
            headers: RequestHeaders::from_bytes(&columns.headers)
                .ok_or_else(|| unreadable("the headers"))?,
            body: columns.body.map(Bytes::from),
            size: columns.size,
            provider_id: columns.provider_id,
            provider_type: columns.provider_type,
            event: columns.event_id,
            verdict: columns.verdict,
            verified_at: columns.verified_at,
            accepted_at: columns.accepted_at,
            accepted_by: columns.accepted_by,
        })
    }
}

/// The columns of [`Columns`]; `$body` is the body's, or a null in its place.
macro_rules! columns {
    ($body:literal) => {
        concat!(
            "id, source_id, tenant, received_at, state, step, reason, method, target, headers, ",
            $body,
            " AS body, size, provider_id, provider_type, event_id, verdict, verified_at, \
             accepted_at, accepted_by"
        )
    };
}

impl Tx {
    /// Keeps a request, but for a genuine one that is kept already. Gives whether it was new.
    pub async fn add_request(&mut self, request: &NewRequest) -> Result<bool, StoreError> {
        let text = "INSERT INTO snaphook.requests (id, source_id, tenant, received_at, state, step, reason,
                 method, target, headers, body, size, provider_id, provider_type, event_id, digest)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
             ON CONFLICT DO NOTHING";
        let headers = request.headers.to_bytes();
        let size = headers.len() + request.body.as_ref().map_or(0, Bytes::len);
        let added = on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(request.id)
                .bind(request.source)
                .bind(request.tenant.as_str())
                .bind(request.received_at)
                .bind(request.state.code())
                .bind(request.step)
                .bind(request.reason.as_deref())
                .bind(request.method.as_str())
                .bind(request.target.as_str())
                .bind(headers)
                .bind(request.body.as_deref())
                .bind(i64::try_from(size).unwrap_or(i64::MAX))
                .bind(request.provider_id.as_deref())
                .bind(request.provider_type.as_deref())
                .bind(request.event)
                .bind(request.digest.as_ref().map(|digest| &digest[..]))
                .execute(connection)
                .await?
                .rows_affected()
        });
        Ok(added == 1)
    }

    /// A request, its body too; only `tenant`'s, if one is given.
    pub async fn find_request(
        &mut self,
        tenant: Option<&TenantId>,
        id: RequestId,
    ) -> Result<Option<RequestRow>, StoreError> {
        let text = concat!(
            "SELECT ",
            columns!("body"),
            " FROM snaphook.requests
             WHERE id = $1 AND (CAST($2 AS text) IS NULL OR tenant = $2)"
        );
        let found: Option<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql)
                .bind(id)
                .bind(tenant.map(TenantId::as_str))
                .fetch_optional(connection)
                .await?
        });
        found.map(RequestRow::try_from).transpose()
    }

    /// What a source keeps, without the bodies, the newest first; in this state, if one is given.
    pub async fn list_requests(
        &mut self,
        source: SourceId,
        state: Option<RequestState>,
        page: Page<i64>,
    ) -> Result<Paged<RequestRow>, StoreError> {
        let text = format!(
            "SELECT {columns}
             FROM snaphook.requests
             WHERE source_id = $1 AND (CAST($2 AS smallint) IS NULL OR state = $2)
                 AND (CAST($3 AS bigint) IS NULL OR id {beyond} $3)
             ORDER BY id {direction}
             LIMIT $4",
            columns = columns!("NULL"),
            beyond = page.beyond(Order::Descending),
            direction = page.direction(Order::Descending),
        );
        let found: Vec<Columns> = on!(self, sqlx::AssertSqlSafe(text), |sql, connection| {
            sqlx::query_as(sql)
                .bind(source)
                .bind(state.map(RequestState::code))
                .bind(page.key().copied())
                .bind(page.fetch())
                .fetch_all(connection)
                .await?
        });
        let rows: Result<Vec<RequestRow>, _> =
            found.into_iter().map(RequestRow::try_from).collect();
        Ok(page.finish(rows?, |row| row.id.0))
    }

    /// How many genuine requests wait for a person to look at them, by source.
    pub async fn count_requests_apart(&mut self) -> Result<Vec<(SourceId, i64)>, StoreError> {
        let (conflict, replay) =
            (RequestState::Conflict.code(), RequestState::ReplaySuspected.code());
        let text = "SELECT source_id, CAST(count(*) AS bigint) FROM snaphook.requests
             WHERE state IN ($1, $2) GROUP BY source_id ORDER BY source_id";
        Ok(on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(conflict).bind(replay).fetch_all(connection).await?
        }))
    }

    /// Writes down what another look at a request came to.
    pub async fn update_request_verdict(
        &mut self,
        id: RequestId,
        verdict: &str,
        refusal: Option<(&str, &str)>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let text =
            "UPDATE snaphook.requests SET verdict = $2, step = $3, reason = $4, verified_at = $5
             WHERE id = $1";
        on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(id)
                .bind(verdict)
                .bind(refusal.map(|(step, _)| step))
                .bind(refusal.map(|(_, reason)| reason))
                .bind(now)
                .execute(connection)
                .await
                .map(drop)
        })?;
        Ok(())
    }

    /// Marks a request as accepted, for ever. False when it was before.
    pub async fn accept_request(
        &mut self,
        id: RequestId,
        event: EventId,
        by: &str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let text = "UPDATE snaphook.requests
             SET state = 3, event_id = $2, accepted_by = $3, accepted_at = $4
             WHERE id = $1 AND state <> 3";
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(id)
                .bind(event)
                .bind(by)
                .bind(now)
                .execute(connection)
                .await?
                .rows_affected()
        });
        Ok(done == 1)
    }

    /// Forgets the oldest rejected requests of a source beyond so many, and beyond so many bytes.
    pub async fn delete_rejected_beyond(
        &mut self,
        source: SourceId,
        many: u32,
        bytes: i64,
    ) -> Result<u64, StoreError> {
        let text = "DELETE FROM snaphook.requests WHERE id IN (
                 SELECT id FROM (
                     SELECT id, row_number() OVER newest AS many, sum(size) OVER newest AS bytes
                     FROM snaphook.requests WHERE source_id = $1 AND state = 0
                     WINDOW newest AS (ORDER BY id DESC)
                 ) r WHERE many > $2 OR bytes > $3)";
        let deleted = on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(source)
                .bind(i64::from(many))
                .bind(bytes)
                .execute(connection)
                .await?
                .rows_affected()
        });
        Ok(deleted)
    }

    /// Forgets what was kept before `time`, at most 1,000 requests.
    pub async fn delete_requests_before(&mut self, time: Timestamp) -> Result<u64, StoreError> {
        let text = "DELETE FROM snaphook.requests WHERE id IN (
                 SELECT id FROM snaphook.requests WHERE received_at < $1 AND state <> 3 ORDER BY received_at LIMIT $2)";
        let deleted = on!(self, text, |sql, connection| {
            sqlx::query(sql).bind(time).bind(STEP).execute(connection).await?.rows_affected()
        });
        Ok(deleted)
    }

    /// Forgets what sources saw before `time`, at most 1,000 entries.
    pub async fn delete_received_before(&mut self, time: Timestamp) -> Result<u64, StoreError> {
        let text = "DELETE FROM snaphook.received WHERE (source_id, digest) IN (
                 SELECT source_id, digest FROM snaphook.received WHERE at < $1 ORDER BY at LIMIT $2)";
        let deleted = on!(self, text, |sql, connection| {
            sqlx::query(sql).bind(time).bind(STEP).execute(connection).await?.rows_affected()
        });
        Ok(deleted)
    }
}
