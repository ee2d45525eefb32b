//! The list of firings.

use model::TenantId;
use model::api::{RuleFiring, RuleFiringList};
use serde::{Deserialize, Serialize};
use store::actions::firings::{self, Firing, FiringFilter};
use uuid::Uuid;

use crate::actions::firings::Firings;
use crate::runtime::cursor::{self, CursorTime};
use crate::runtime::{Result, internal};

/// The default number of firings in a list.
const FIRINGS_LISTED: i64 = 50;

/// Which firings are listed.
#[derive(Clone, Debug, Default)]
pub struct FiringQuery {
    /// Only those of this rule.
    pub rule_id: Option<Uuid>,
    /// Only those about this object.
    pub object_id: Option<String>,
    /// The page size.
    pub limit: Option<i64>,
    /// Where the previous page ended.
    pub cursor: Option<String>,
}

/// Where a page of firings ended.
#[derive(Serialize, Deserialize)]
struct FiringCursor {
    rule_id: Option<Uuid>,
    object_id: Option<String>,
    at: CursorTime,
    id: Uuid,
}

impl Firings {
    /// A page of the firings of a tenant, newest first.
    pub async fn list(&self, tenant: TenantId, query: &FiringQuery) -> Result<RuleFiringList> {
        let limit = query.limit.unwrap_or(FIRINGS_LISTED);
        cursor::check_page_size(limit, cursor::MAX_PAGE)?;
        let is_of_list =
            |cursor: &FiringCursor| cursor.rule_id == query.rule_id && cursor.object_id == query.object_id;
        let cursor = query.cursor.as_deref().map(|text| cursor::decode(text, is_of_list)).transpose()?;
        let filter = FiringFilter {
            rule: query.rule_id,
            object_id: query.object_id.as_deref(),
            before: cursor.map(|cursor| (cursor.at.0, cursor.id)),
        };
        let firings = self
            .store
            .read("rule_firings", async |conn| firings::newest(conn, tenant, filter, limit + 1).await)
            .await?;
        let (firings, last) = cursor::cut(firings, limit);
        let next_cursor = last.map(|last| {
            cursor::encode(&FiringCursor {
                rule_id: query.rule_id,
                object_id: query.object_id.clone(),
                at: CursorTime(last.fired_at),
                id: last.firing_id,
            })
        });
        let firings = firings.into_iter().map(record).collect::<Result<_>>()?;
        Ok(RuleFiringList { firings, next_cursor })
    }
}

/// A firing as the API shows it.
pub(crate) fn record(firing: Firing) -> Result<RuleFiring> {
    Ok(RuleFiring {
        id: firing.firing_id,
        rule_id: firing.rule_id,
        object_id: firing.object_id,
        matched_when: firing.matched_when,
        signal_values: Some(serde_json::from_str(&firing.signal_values).map_err(internal)?),
        action_type: firing.action_type,
        status: firing.status,
        detail: firing.detail,
        fired_at: firing.fired_at,
    })
}
