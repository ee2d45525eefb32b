//! The state of the HTTP API.

use std::path::PathBuf;
use std::sync::Arc;

use service::Service;
use url::Url;

use super::body_budget::BodyBudget;
use super::mcp::McpEndpoint;
use super::session_cookie::SessionCookie;
use crate::config::NetworkList;
use crate::meters::Meters;

/// The state that handlers share.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) service: Arc<Service>,
    pub(crate) public_url: Url,
    /// The directory whose disk must not be full.
    pub(crate) data_dir: PathBuf,
    pub(crate) trusted_proxies: NetworkList,
    /// `None` if metrics are disabled.
    pub(crate) meters: Option<Meters>,
    pub(crate) bodies: BodyBudget,
    pub(crate) session_cookie: SessionCookie,
    pub(crate) mcp: McpEndpoint,
}
