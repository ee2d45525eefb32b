//! Objects: taking events in, recording them in groups, and reading objects back.

pub(crate) mod cache;
pub(crate) mod ingest;
pub(crate) mod reads;
pub(crate) mod recorder;
