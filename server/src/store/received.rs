//! What sources receive: verified requests become events, many in one statement, each once. The
//! functions in SQL see to dedup, event and fan-out together.

use bytes::Bytes;

use super::{
    Db, Dialect, Store, StoreError, Tx,
    group::{Grouped, Results, for_all, lost},
    in_file::View,
    on,
};
use crate::domain::{
    event_type::EventType,
    forwarded::ForwardedHeaders,
    id::{EventId, SourceId},
    limits::{KEY_BYTES_MAX, check_content_type},
    problem::shorten,
    received::{Digest, Finding, Identity, hash_of},
    source::event_type_of,
    tenant::TenantId,
};

/// The way in of SQLite.
static RECEIVE: View = View::new(
    "INSERT INTO snaphook_receive (n, source_id, tenant, type, payload, content_type, key, source_type,
         headers, digest, evidence, body_digest)",
    12,
);

/// A verified request on its way in. Its texts hold no NUL, which PostgreSQL would refuse.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Where it came in.
    pub source: SourceId,
    /// Whose the source is.
    pub tenant: TenantId,
    /// `{source}.{type}`.
    pub event_type: EventType,
    /// The body, as it came.
    pub payload: Bytes,
    /// As the provider said, where that is a content type.
    pub content_type: Option<String>,
    /// The provider's id of the event, as it is shown.
    pub key: Option<String>,
    /// The type in the provider's spelling.
    pub source_type: Option<String>,
    /// The headers that are passed on, as they are kept.
    pub headers: Bytes,
    /// What makes two requests the same event; `None` where nothing does.
    pub dedup: Option<Digest>,
    /// The signature, where it does not cover the id.
    pub evidence: Option<Digest>,
    /// Of the body, which tells a repeat from another event of the same id.
    pub body: Digest,
}

/// The source of an arrival, as far as its event tells of it.
#[derive(Clone, Copy, Debug)]
pub struct ArrivalSource<'a> {
    /// Which.
    pub id: SourceId,
    /// Whose.
    pub tenant: &'a TenantId,
    /// The first part of the event's type.
    pub name: &'a str,
    /// Whether ids name things, of which there may be several events.
    pub names_object: bool,
}

impl Arrival {
    /// A genuine request with what it says of itself: `id`, `provider_type`, and `evidence` where
    /// the signature does not cover the id.
    pub fn new(
        source: ArrivalSource<'_>,
        (id, provider_type, evidence): (Option<&str>, Option<&str>, Option<&str>),
        headers: &ForwardedHeaders,
        payload: Bytes,
    ) -> Self {
        let body = hash_of(&payload);
        let identity = Identity { id, event_type: provider_type, evidence, body: &body };
        let content_type = headers.iter().find(|(name, _)| *name == "content-type");
        let content_type = content_type.and_then(|(_, value)| std::str::from_utf8(value).ok());
        Self {
            source: source.id,
            tenant: source.tenant.clone(),
            event_type: event_type_of(source.name, provider_type),
            content_type: content_type
                .filter(|text| check_content_type(text).is_ok())
                .map(str::to_owned),
            key: id.map(shown),
            source_type: provider_type.map(shown),
            headers: headers.to_bytes().into(),
            dedup: identity.dedup(source.names_object),
            evidence: identity.evidence(),
            body,
            payload,
        }
    }

    /// What makes the same request again the same one, though its id or its signature were seen
    /// before; `None` where it has no id.
    pub fn digest(&self) -> Option<Digest> {
        let dedup = self.dedup?;
        Some(hash_of(&[dedup, self.body].concat()))
    }
}

/// A provider's text as it is shown: without control characters, and no longer than a key.
fn shown(text: &str) -> String {
    let shown: String =
        text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect();
    if shown.len() <= KEY_BYTES_MAX { shown } else { shorten(&shown, KEY_CHARS_SHOWN) }
}

/// Characters of a text that is too long: with any of them, it is no longer than a key.
const KEY_CHARS_SHOWN: usize = KEY_BYTES_MAX / 4 - 1;

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The event that it is, or that was there before.
    pub event: EventId,
    /// Which of the two.
    pub finding: Finding,
}

impl TryFrom<(EventId, i16)> for Receipt {
    type Error = StoreError;

    fn try_from((event, finding): (EventId, i16)) -> Result<Self, StoreError> {
        let known = Finding::from_code(finding);
        let unknown = || StoreError::Unreadable(format!("the finding {finding}"));
        Ok(Self { event, finding: known.ok_or_else(unknown)? })
    }
}

impl Grouped for Arrival {
    type Answer = Receipt;

    fn bytes(&self) -> usize {
        self.payload.len() + self.headers.len()
    }

    fn store(store: &Store, group: &[&Self]) -> impl Future<Output = Results<Receipt>> + Send {
        store.receive_group(group)
    }
}

impl Store {
    /// Stores a verified request as an event with its deliveries, unless it is one that was seen.
    /// On disk when it returns.
    pub async fn receive(&self, arrival: Arrival) -> Result<Receipt, StoreError> {
        let mut results = match &self.groups {
            Some(groups) => groups.receive.run(vec![arrival]).await?,
            None => self.receive_group(&[&arrival]).await,
        };
        results.pop().unwrap_or_else(|| Err(lost()))
    }

    /// One transaction for all. A failure that is none of the database's state may be one
    /// request's alone, and must not be everybody's for as long as its sender repeats it.
    async fn receive_group(&self, arrivals: &[&Arrival]) -> Results<Receipt> {
        match self.receive_at_once(arrivals).await {
            Err(error) if arrivals.len() > 1 && !error.is_passing() => {
                let mut results = Vec::with_capacity(arrivals.len());
                for arrival in arrivals {
                    let one = self.receive_at_once(&[arrival]).await;
                    results.push(one.and_then(|mut one| one.pop().unwrap_or_else(|| Err(lost()))));
                }
                results
            }
            outcome => for_all(outcome, arrivals.len()),
        }
    }

    async fn receive_at_once(&self, arrivals: &[&Arrival]) -> Result<Results<Receipt>, StoreError> {
        let mut tx = self.begin_group(arrivals.len()).await?;
        let receipts = tx.receive_many(arrivals).await?;
        tx.commit().await?;
        if receipts.len() != arrivals.len() {
            return Err(lost());
        }
        Ok(receipts.into_iter().map(Ok).collect())
    }
}

impl Tx {
    /// Stores verified requests; all or none.
    pub async fn receive_many(
        &mut self,
        arrivals: &[&Arrival],
    ) -> Result<Vec<Receipt>, StoreError> {
        let rows = match self.dialect() {
            Dialect::Postgres => self.receive_by_function(arrivals).await?,
            Dialect::Sqlite => self.receive_by_view(arrivals).await?,
        };
        rows.into_iter().map(Receipt::try_from).collect()
    }

    async fn receive_by_function(
        &mut self,
        arrivals: &[&Arrival],
    ) -> Result<Vec<(EventId, i16)>, StoreError> {
        let Db::Postgres(connection) = &mut self.db else { unreachable!("asked by the caller") };
        self.faults.step()?;
        let dedups: Vec<_> =
            arrivals.iter().map(|one| one.dedup.as_ref().map(|d| &d[..])).collect();
        let evidences: Vec<_> =
            arrivals.iter().map(|one| one.evidence.as_ref().map(|digest| &digest[..])).collect();
        let (keyed, proven) =
            (dedups.iter().any(Option::is_some), evidences.iter().any(Option::is_some));
        let rows = sqlx::query_as(
            "WITH bell AS (SELECT snaphook.ring())
             SELECT r.id, r.finding
             FROM bell, snaphook.receive_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) r",
        )
        .bind(arrivals.iter().map(|one| one.source).collect::<Vec<_>>())
        .bind(arrivals.iter().map(|one| one.tenant.as_str()).collect::<Vec<_>>())
        .bind(arrivals.iter().map(|one| one.event_type.as_str()).collect::<Vec<_>>())
        .bind(arrivals.iter().map(|one| one.payload.as_ref()).collect::<Vec<_>>())
        .bind(arrivals.iter().map(|one| one.content_type.as_deref()).collect::<Vec<_>>())
        .bind(arrivals.iter().map(|one| one.key.as_deref()).collect::<Vec<_>>())
        .bind(arrivals.iter().map(|one| one.source_type.as_deref()).collect::<Vec<_>>())
        .bind(arrivals.iter().map(|one| one.headers.as_ref()).collect::<Vec<_>>())
        .bind(keyed.then_some(dedups))
        .bind((keyed && proven).then_some(evidences))
        .bind(arrivals.iter().map(|one| &one.body[..]).collect::<Vec<_>>())
        .fetch_all(&mut **connection)
        .await?;
        self.faults.step()?;
        Ok(rows)
    }

    async fn receive_by_view(
        &mut self,
        arrivals: &[&Arrival],
    ) -> Result<Vec<(EventId, i16)>, StoreError> {
        let found = self
            .put_rows(&RECEIVE, arrivals, |query, one| {
                query
                    .bind(one.source)
                    .bind(one.tenant.as_str())
                    .bind(one.event_type.as_str())
                    .bind(one.payload.as_ref())
                    .bind(one.content_type.as_deref())
                    .bind(one.key.as_deref())
                    .bind(one.source_type.as_deref())
                    .bind(one.headers.as_ref())
                    .bind(one.dedup.as_ref().map(|digest| &digest[..]))
                    .bind(one.evidence.as_ref().map(|digest| &digest[..]))
                    .bind(&one.body[..])
            })
            .await?;
        Ok(found.into_iter().map(|(_, event, finding)| (event, finding)).collect())
    }

    /// Whether any event is held for its source.
    pub async fn has_held(&mut self) -> Result<bool, StoreError> {
        let text = "SELECT event_id FROM snaphook.held_events ORDER BY source_id, event_id LIMIT 1";
        let held: Option<EventId> = on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).fetch_optional(connection).await?
        });
        Ok(held.is_some())
    }

    /// Sends events on their way that were held for a source that is not paused any more, at most
    /// `most` of them. Gives back how many.
    pub async fn release_held(&mut self, most: i32) -> Result<i64, StoreError> {
        let released = match self.dialect() {
            Dialect::Postgres => {
                on!(self, "SELECT snaphook.release_held($1)", |sql, connection| {
                    sqlx::query_scalar(sql).bind(most).fetch_one(connection).await?
                })
            }
            Dialect::Sqlite => {
                // From one source to the next, however much each of them holds.
                let text = "DELETE FROM snaphook.held_events WHERE (source_id, event_id) IN (
                     WITH RECURSIVE holding (source_id) AS (
                         SELECT min(source_id) FROM snaphook.held_events
                         UNION ALL
                         SELECT (SELECT min(h.source_id) FROM snaphook.held_events h
                                 WHERE h.source_id > holding.source_id)
                         FROM holding WHERE holding.source_id IS NOT NULL
                     )
                     SELECT h.source_id, h.event_id FROM snaphook.held_events h
                     WHERE h.source_id IN (
                         SELECT source_id FROM holding
                         WHERE source_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM snaphook.sources s
                             WHERE s.id = holding.source_id AND s.state = 1 AND s.deleted_at IS NULL))
                     ORDER BY h.source_id, h.event_id LIMIT $1)";
                let done = on!(self, text, |sql, connection| {
                    sqlx::query(sql).bind(most).execute(connection).await?.rows_affected()
                });
                i64::try_from(done).unwrap_or(i64::MAX)
            }
        };
        if released > 0 {
            self.notify("command").await?;
        }
        Ok(released)
    }
}
