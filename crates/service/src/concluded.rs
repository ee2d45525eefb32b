//! What stands about an object once an analysis of it was written: rules and webhooks go by it.

use model::{Answer, TenantId, Timestamp};

/// An analysis that has just been written, in the transaction that is still open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concluded<'a> {
    /// Whose object it is.
    pub(crate) tenant: TenantId,
    /// The object.
    pub(crate) object_id: &'a str,
    /// What this analysis found.
    pub(crate) found: &'a [Answer],
    /// Every answer that the object now has to an enabled signal, the ones just found among them.
    pub(crate) standing: &'a [Answer],
    /// What answered.
    pub(crate) model: &'a str,
    /// Whether a caller waited for it.
    pub(crate) is_sync: bool,
    /// When.
    pub(crate) at: Timestamp,
}
