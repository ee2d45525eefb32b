//! How our types are stored in columns of each database.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef};
use sqlx::types::time::{Date as SqlDate, OffsetDateTime};
use sqlx::{Decode, Encode, Postgres, Sqlite, Type};

use crate::api::{
    APIKeyStatus, ActionType, AnalysisSource, AuditActorKind, AuthorKind, CheckoutState, DeliveryStatus,
    EventRetention, EventType, FiringStatus, KeyRefusalCause, LabelSource, ReviewReason, ReviewStatus,
    RuleMode, TokenType, TrialStatus,
};
use crate::{Date, KeyKind, MemberRole, Provider, SignalType, Timestamp};

/// PostgreSQL counts from 2000-01-01, in microseconds for an instant and in days for a date.
const PG_EPOCH_MICROS: i64 = 946_684_800_000_000;
const PG_EPOCH_DAYS: i64 = 10_957;

// `Timestamp`: integer microseconds on SQLite, `timestamptz` on PostgreSQL.

impl Type<Sqlite> for Timestamp {
    fn type_info() -> SqliteTypeInfo {
        <i64 as Type<Sqlite>>::type_info()
    }

    fn compatible(info: &SqliteTypeInfo) -> bool {
        <i64 as Type<Sqlite>>::compatible(info)
    }
}

impl Encode<'_, Sqlite> for Timestamp {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        <i64 as Encode<Sqlite>>::encode(self.micros(), buffer)
    }
}

impl<'r> Decode<'r, Sqlite> for Timestamp {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        <i64 as Decode<Sqlite>>::decode(value).map(Self::from_micros)
    }
}

impl Type<Postgres> for Timestamp {
    fn type_info() -> PgTypeInfo {
        <OffsetDateTime as Type<Postgres>>::type_info()
    }
}

impl PgHasArrayType for Timestamp {
    fn array_type_info() -> PgTypeInfo {
        <OffsetDateTime as PgHasArrayType>::array_type_info()
    }
}

impl Encode<'_, Postgres> for Timestamp {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let micros =
            self.micros().checked_sub(PG_EPOCH_MICROS).ok_or("an instant too early for timestamptz")?;
        <i64 as Encode<Postgres>>::encode(micros, buffer)
    }
}

impl<'r> Decode<'r, Postgres> for Timestamp {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        binary_only(&value)?;
        let micros = <i64 as Decode<Postgres>>::decode(value)?;
        Ok(Self::from_micros(
            micros.checked_add(PG_EPOCH_MICROS).ok_or("an instant too late for a timestamp")?,
        ))
    }
}

// `Date`: text `YYYY-MM-DD` on SQLite (sortable and readable), `date` on PostgreSQL.

impl Type<Sqlite> for Date {
    fn type_info() -> SqliteTypeInfo {
        <str as Type<Sqlite>>::type_info()
    }
}

impl Encode<'_, Sqlite> for Date {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        <String as Encode<Sqlite>>::encode(self.to_string(), buffer)
    }
}

impl<'r> Decode<'r, Sqlite> for Date {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        Ok(<&str as Decode<Sqlite>>::decode(value)?.parse()?)
    }
}

impl Type<Postgres> for Date {
    fn type_info() -> PgTypeInfo {
        <SqlDate as Type<Postgres>>::type_info()
    }
}

impl PgHasArrayType for Date {
    fn array_type_info() -> PgTypeInfo {
        <SqlDate as PgHasArrayType>::array_type_info()
    }
}

impl Encode<'_, Postgres> for Date {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let days = i32::try_from(self.days() - PG_EPOCH_DAYS)?;
        <i32 as Encode<Postgres>>::encode(days, buffer)
    }
}

impl<'r> Decode<'r, Postgres> for Date {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        binary_only(&value)?;
        let days = <i32 as Decode<Postgres>>::decode(value)?;
        Ok(Self::from_days(i64::from(days) + PG_EPOCH_DAYS))
    }
}

/// Refuses the text format: prepared statements, which is all the store runs, always return binary values.
fn binary_only(value: &PgValueRef<'_>) -> Result<(), BoxDynError> {
    match value.format() {
        PgValueFormat::Binary => Ok(()),
        PgValueFormat::Text => Err("a value in PostgreSQL's text format".into()),
    }
}

/// Stores enums with `ALL` and `as_str` ([`text_values!`](crate::text_values)) in text columns: a text in the database
/// that belongs to no value is a decode error.
#[macro_export]
macro_rules! sql_text {
    ($($name:ident),+ $(,)?) => {$(
        impl ::sqlx::Type<::sqlx::Sqlite> for $name {
            fn type_info() -> ::sqlx::sqlite::SqliteTypeInfo {
                <str as ::sqlx::Type<::sqlx::Sqlite>>::type_info()
            }

            fn compatible(info: &::sqlx::sqlite::SqliteTypeInfo) -> bool {
                <str as ::sqlx::Type<::sqlx::Sqlite>>::compatible(info)
            }
        }

        impl ::sqlx::Type<::sqlx::Postgres> for $name {
            fn type_info() -> ::sqlx::postgres::PgTypeInfo {
                <str as ::sqlx::Type<::sqlx::Postgres>>::type_info()
            }

            fn compatible(info: &::sqlx::postgres::PgTypeInfo) -> bool {
                <str as ::sqlx::Type<::sqlx::Postgres>>::compatible(info)
            }
        }

        impl<DB: ::sqlx::Database> ::sqlx::Encode<'_, DB> for $name
        where
            for<'text> &'text str: ::sqlx::Encode<'text, DB>,
        {
            fn encode_by_ref(
                &self,
                buffer: &mut <DB as ::sqlx::Database>::ArgumentBuffer,
            ) -> ::std::result::Result<::sqlx::encode::IsNull, ::sqlx::error::BoxDynError> {
                <&str as ::sqlx::Encode<'_, DB>>::encode(self.as_str(), buffer)
            }
        }

        impl<'row, DB: ::sqlx::Database> ::sqlx::Decode<'row, DB> for $name
        where
            &'row str: ::sqlx::Decode<'row, DB>,
        {
            fn decode(
                value: <DB as ::sqlx::Database>::ValueRef<'row>,
            ) -> ::std::result::Result<Self, ::sqlx::error::BoxDynError> {
                let text = <&str as ::sqlx::Decode<'row, DB>>::decode(value)?;
                let known = <$name>::ALL.into_iter().find(|known| known.as_str() == text);
                known.ok_or_else(|| format!("{text:?} is no {}", stringify!($name)).into())
            }
        }
    )+};
}

sql_text!(
    APIKeyStatus,
    ActionType,
    AnalysisSource,
    AuditActorKind,
    AuthorKind,
    CheckoutState,
    DeliveryStatus,
    EventRetention,
    EventType,
    FiringStatus,
    KeyKind,
    KeyRefusalCause,
    LabelSource,
    MemberRole,
    Provider,
    ReviewReason,
    ReviewStatus,
    RuleMode,
    SignalType,
    TokenType,
    TrialStatus,
);
