//! Deserialization of records from JSON objects only.

use serde::de::Visitor;
use serde::{Deserializer, forward_to_deserialize_any};

/// Deserializes a record only from an object: derived code would also accept an array, with fields by position.
pub(crate) struct FromObject<D>(pub(crate) D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for FromObject<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Implements this for records with `#[serde(remote = "Self")]` that are part of other records.
macro_rules! object_only {
    ($($record:ident),*) => {$(
        impl<'de> serde::Deserialize<'de> for $record {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $record::deserialize($crate::record::FromObject(deserializer))
            }
        }

        impl serde::Serialize for $record {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $record::serialize(self, serializer)
            }
        }
    )*};
}

pub(crate) use object_only;
