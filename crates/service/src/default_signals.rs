//! The questions that every new account starts with. They are ordinary signals: edit, disable or delete them.

use serde_json::json;

/// A question: key, type, instructions and criteria.
pub(crate) struct DefaultSignal {
    pub(crate) key: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) instructions: String,
    pub(crate) criteria: String,
}

/// The three of them, one of each type.
pub(crate) fn all() -> [DefaultSignal; 3] {
    [
        DefaultSignal {
            key: "is_scammer",
            kind: "noul",
            instructions: json!(
                "Judge from the history of events and messages whether this user is trying to defraud others. Weigh \
                 what they do over what they say: moving buyers off the platform, asking for payment by untraceable \
                 means, listings that are too good to be true, copied or contradictory claims, pressure to hurry, \
                 refusing ordinary safeguards, and reports by several people count; a single late delivery, a rude \
                 message or a dispute that was settled do not."
            )
            .to_string(),
            criteria: json!({
                "true": "The user deceives others to get money, goods or credentials, or is clearly preparing to.",
                "false": "The user deals honestly, or there is nothing beyond ordinary mistakes and disputes."
            })
            .to_string(),
        },
        DefaultSignal {
            key: "trust_score",
            kind: "score",
            instructions: json!(
                "Rate how far this user can be trusted in a transaction, given everything that has happened so far. \
                 Completed sales, verified identity, kept promises and problems put right raise trust; cancellations, \
                 chargebacks, evasions and broken promises lower it; recent and repeated behaviour counts more than \
                 old and single events. With little history, stay in the middle."
            )
            .to_string(),
            criteria: json!([
                "High risk: there are clear signs of harm to others, or several serious warnings.",
                "Neutral: there is too little history, or good and bad signs balance.",
                "Trusted: there is a record of kept promises and nothing serious against the user."
            ])
            .to_string(),
        },
        DefaultSignal {
            key: "buyer_intent",
            kind: "choice",
            instructions: json!(
                "Decide how close this user is to buying, from what they view, search, ask and do. Judge by the most \
                 recent activity; an old interest that ended in a purchase or in leaving does not count."
            )
            .to_string(),
            criteria: json!({
                "browsing": "Looks around without a particular item in mind, or shows no sign of buying.",
                "comparing": "Weighs particular items, sellers or prices against each other, or asks about details.",
                "ready_to_buy": "Is about to buy: has put items in the basket, negotiates the final price, asks how to pay or about delivery to their address, or has started to check out."
            })
            .to_string(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_a_whole_question() {
        for signal in all() {
            let instructions: String = serde_json::from_str(&signal.instructions).unwrap();
            assert!(instructions.len() > 100 && !instructions.contains("  "), "{}", signal.key);
            let criteria: serde_json::Value = serde_json::from_str(&signal.criteria).unwrap();
            let parts =
                criteria.as_object().map_or_else(|| criteria.as_array().unwrap().len(), serde_json::Map::len);
            assert!(parts >= 2, "{}", signal.key);
        }
    }
}
