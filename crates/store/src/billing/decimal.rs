//! Decimal numbers, which columns keep as text so that no digit is lost.

use sqlx::error::BoxDynError;
use sqlx::postgres::PgTypeInfo;
use sqlx::sqlite::SqliteTypeInfo;
use sqlx::{Database, Decode, Postgres, Sqlite, Type};

/// A decimal number in a column of text, as near as a number of the API comes to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decimal(pub f64);

impl Type<Sqlite> for Decimal {
    fn type_info() -> SqliteTypeInfo {
        <str as Type<Sqlite>>::type_info()
    }

    fn compatible(info: &SqliteTypeInfo) -> bool {
        <str as Type<Sqlite>>::compatible(info)
    }
}

impl Type<Postgres> for Decimal {
    fn type_info() -> PgTypeInfo {
        <str as Type<Postgres>>::type_info()
    }

    fn compatible(info: &PgTypeInfo) -> bool {
        <str as Type<Postgres>>::compatible(info)
    }
}

impl<'row, DB: Database> Decode<'row, DB> for Decimal
where
    &'row str: Decode<'row, DB>,
{
    fn decode(value: DB::ValueRef<'row>) -> Result<Self, BoxDynError> {
        Ok(Self(<&str as Decode<'row, DB>>::decode(value)?.parse()?))
    }
}
