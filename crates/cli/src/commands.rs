//! The commands, a module for each group.

pub(crate) mod access;
pub(crate) mod api;
pub(crate) mod billing;
pub(crate) mod completions;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod keys;
pub(crate) mod labels;
pub(crate) mod objects;
pub(crate) mod playground;
pub(crate) mod reviews;
pub(crate) mod rules;
pub(crate) mod settings;
pub(crate) mod signals;
pub(crate) mod webhooks;
