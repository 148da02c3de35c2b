//! A row of the queue as it is read: by the places of its columns, for a lookup of each by name
//! costs more than all else that is done for a row.

use sqlx::{
    ColumnIndex, Decode, Encode, FromRow, Postgres, Sqlite, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef, types::Oid},
    sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef},
};

use crate::domain::{
    event::{Event, Inbound},
    forwarded::ForwardedHeaders,
    id::{EndpointId, EventId, SourceId},
    time::Timestamp,
};

/// Where a row lies just now: a hint that makes its completion cheap, never its identity. The
/// `ctid` in PostgreSQL, its block above its line; the primary key in SQLite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot(pub i64);

/// A delivery that has something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where the row lies just now.
    pub slot: Slot,
    /// The event.
    pub event_id: EventId,
    /// Where it goes.
    pub endpoint_id: EndpointId,
    /// Whose it is.
    pub tenant: String,
    /// The endpoint's shard.
    pub shard: i16,
    /// 0, or the number of the redelivery.
    pub run: i32,
    /// Attempts that are on record: the fence.
    pub attempt: i32,
    /// Attempts of this run that its ladder has counted.
    pub rung: i32,
    /// When it may be attempted.
    pub due_at: Timestamp,
}

/// The columns of a [`Row`], in the order in which it is read. Each is `columns_of_row!()` of a
/// statement that is written down.
macro_rules! columns_of_row {
    (postgres) => {
        "ctid AS slot, event_id, endpoint_id, tenant, shard, run, attempt, rung, due_at"
    };
    (sqlite) => {
        "slot, event_id, endpoint_id, tenant, shard, run, attempt, rung, due_at"
    };
    (q) => {
        "q.slot, q.event_id, q.endpoint_id, q.tenant, q.shard, q.run, q.attempt, q.rung, q.due_at"
    };
}
pub(super) use columns_of_row;

impl<'r, R> FromRow<'r, R> for Row
where
    R: sqlx::Row,
    usize: ColumnIndex<R>,
    Slot: Decode<'r, R::Database>,
    EventId: Decode<'r, R::Database>,
    EndpointId: Decode<'r, R::Database>,
    Timestamp: Decode<'r, R::Database>,
    String: Decode<'r, R::Database>,
    i16: Decode<'r, R::Database>,
    i32: Decode<'r, R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        Ok(Self {
            slot: row.try_get_unchecked(0)?,
            event_id: row.try_get_unchecked(1)?,
            endpoint_id: row.try_get_unchecked(2)?,
            tenant: row.try_get_unchecked(3)?,
            shard: row.try_get_unchecked(4)?,
            run: row.try_get_unchecked(5)?,
            attempt: row.try_get_unchecked(6)?,
            rung: row.try_get_unchecked(7)?,
            due_at: row.try_get_unchecked(8)?,
        })
    }
}

/// An event as the engine reads it, from the columns `id, tenant, type, version, payload,
/// content_type, occurred_at, traceparent, checked, key, door, source_id, source_type,
/// source_headers`.
pub(super) struct EventRow(pub Event);

impl<'r, R> FromRow<'r, R> for EventRow
where
    R: sqlx::Row,
    usize: ColumnIndex<R>,
    EventId: Decode<'r, R::Database>,
    Option<Timestamp>: Decode<'r, R::Database>,
    String: Decode<'r, R::Database>,
    Option<String>: Decode<'r, R::Database>,
    Vec<u8>: Decode<'r, R::Database>,
    Option<Vec<u8>>: Decode<'r, R::Database>,
    Option<SourceId>: Decode<'r, R::Database>,
    i16: Decode<'r, R::Database>,
    bool: Decode<'r, R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        let payload: Vec<u8> = row.try_get_unchecked(4)?;
        let source: Option<SourceId> = row.try_get_unchecked(11)?;
        let inbound = match source {
            None => None,
            Some(source) => {
                let headers: Option<Vec<u8>> = row.try_get_unchecked(13)?;
                let headers = ForwardedHeaders::from_bytes(&headers.unwrap_or_default());
                Some(Inbound { source, source_type: row.try_get_unchecked(12)?, headers })
            }
        };
        Ok(Self(Event {
            id: row.try_get_unchecked(0)?,
            tenant: row.try_get_unchecked(1)?,
            event_type: row.try_get_unchecked(2)?,
            version: row.try_get_unchecked(3)?,
            payload: payload.into(),
            content_type: row.try_get_unchecked(5)?,
            occurred_at: row.try_get_unchecked(6)?,
            traceparent: row.try_get_unchecked(7)?,
            checked: row.try_get_unchecked(8)?,
            key: row.try_get_unchecked(9)?,
            door: row.try_get_unchecked(10)?,
            inbound,
        }))
    }
}

/// The type `tid` and its arrays, by the numbers that `pg_type.dat` of PostgreSQL gives them.
const TID: Oid = Oid(27);
const TID_ARRAY: Oid = Oid(1010);

impl Type<Postgres> for Slot {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TID)
    }
}

impl PgHasArrayType for Slot {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TID_ARRAY)
    }
}

/// As `tidsend` and `tidrecv` have it: 32 bits of the block, 16 of the line in it.
impl Encode<'_, Postgres> for Slot {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&self.0.to_be_bytes()[2..]);
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Slot {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let bytes: [u8; 6] = value.as_bytes()?.try_into()?;
        let mut wide = [0; 8];
        wide[2..].copy_from_slice(&bytes);
        Ok(Self(i64::from_be_bytes(wide)))
    }
}

impl Type<Sqlite> for Slot {
    fn type_info() -> SqliteTypeInfo {
        <i64 as Type<Sqlite>>::type_info()
    }
}

impl Encode<'_, Sqlite> for Slot {
    fn encode_by_ref(&self, arguments: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Sqlite>::encode_by_ref(&self.0, arguments)
    }
}

impl Decode<'_, Sqlite> for Slot {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
        <i64 as Decode<Sqlite>>::decode(value).map(Self)
    }
}
