//! How our few value types are stored: natively in each database.

use sqlx::{
    Decode, Encode, Postgres, Sqlite, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef},
    sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef},
};

use crate::domain::{
    id::{ApiKeyId, EndpointId, EventId, RequestId, SecretId, SourceId},
    time::Timestamp,
};

/// `timestamptz` counts microseconds from 2000-01-01, so `psql` shows real dates.
const PG_EPOCH_MICROS: i64 = 946_684_800_000_000;

impl Type<Postgres> for Timestamp {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz")
    }
}

impl PgHasArrayType for Timestamp {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("_timestamptz")
    }
}

impl Encode<'_, Postgres> for Timestamp {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode_by_ref(&self.0.saturating_sub(PG_EPOCH_MICROS), buffer)
    }
}

impl Decode<'_, Postgres> for Timestamp {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let micros = i64::from_be_bytes(value.as_bytes()?.try_into()?);
        Ok(Self(micros.saturating_add(PG_EPOCH_MICROS)))
    }
}

/// Values that are an `i64` in SQLite.
macro_rules! integer_in_sqlite {
    ($($name:ident),*) => {$(
        impl Type<Sqlite> for $name {
            fn type_info() -> SqliteTypeInfo {
                <i64 as Type<Sqlite>>::type_info()
            }
            fn compatible(info: &SqliteTypeInfo) -> bool {
                <i64 as Type<Sqlite>>::compatible(info)
            }
        }

        impl Encode<'_, Sqlite> for $name {
            fn encode_by_ref(&self, arguments: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
                Encode::<Sqlite>::encode_by_ref(&self.0, arguments)
            }
        }

        impl Decode<'_, Sqlite> for $name {
            fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
                <i64 as Decode<Sqlite>>::decode(value).map(Self)
            }
        }
    )*};
}

/// Values that are a `bigint` in PostgreSQL.
macro_rules! bigint_in_postgres {
    ($($name:ident),*) => {$(
        impl Type<Postgres> for $name {
            fn type_info() -> PgTypeInfo {
                <i64 as Type<Postgres>>::type_info()
            }
        }

        impl PgHasArrayType for $name {
            fn array_type_info() -> PgTypeInfo {
                <i64 as PgHasArrayType>::array_type_info()
            }
        }

        impl Encode<'_, Postgres> for $name {
            fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
                Encode::<Postgres>::encode_by_ref(&self.0, buffer)
            }
        }

        impl Decode<'_, Postgres> for $name {
            fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
                <i64 as Decode<Postgres>>::decode(value).map(Self)
            }
        }
    )*};
}

integer_in_sqlite!(Timestamp, EventId, EndpointId, SecretId, ApiKeyId, SourceId, RequestId);
bigint_in_postgres!(EventId, EndpointId, SecretId, ApiKeyId, SourceId, RequestId);
