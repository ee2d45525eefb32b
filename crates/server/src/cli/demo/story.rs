//! The story: what happens on the marketplace. The accounts are shops and numbers, not people.

use client::api::EventInput;
use serde_json::json;

/// The condition of the demo's rule, and of its search.
pub(super) const WHEN: &str = "is_scammer > 0.5";

/// An account of the marketplace and its activity.
pub(super) struct Account {
    pub(super) id: &'static str,
    pub(super) kind: &'static str,
    pub(super) about: &'static str,
    pub(super) activities: &'static [Activity],
}

/// Something that an account did or said.
pub(super) enum Activity {
    Did(&'static str, &'static str),
    Said(&'static str),
}

use Activity::{Did, Said};

impl Activity {
    pub(super) fn event(&self) -> EventInput {
        match self {
            Did(name, detail) => EventInput::event(*name).with_metadata(&json!({"detail": detail})),
            Said(text) => EventInput::message(*text),
        }
    }
}

/// An honest seller, a dishonest one, and a buyer.
pub(super) const ACCOUNTS: &[Account] = &[
    Account {
        id: "seller-harbour-books",
        kind: "seller",
        about: "sells old maps, has for years",
        activities: &[
            Did("identity_verified", "by passport"),
            Did("listing_created", "Atlas of 1962, spine repaired, see the third photo, 18 dollars"),
            Said("The spine is repaired, so I lowered the price. Please pay through the platform as usual."),
            Did("order_shipped", "on the same day, with a tracking number"),
            Did("order_completed", "the buyer left five stars: exactly as described"),
            Did("refund_granted", "another parcel was damaged in the post; refunded at once"),
        ],
    },
    Account {
        id: "seller-quick-phones",
        kind: "seller",
        about: "opened two hours ago",
        activities: &[
            Did("account_created", "two hours ago, by a throw-away address"),
            Did("listing_created", "Brand new phone, sealed, 90 percent off, today only"),
            Said(
                "The platform is slow. Write to me outside and pay by gift card or wire transfer, then I ship today.",
            ),
            Said(
                "Others are waiting. Pay within ten minutes or it is gone. You do not need buyer protection for this.",
            ),
            Did("reported", "the photos are copied from another seller"),
            Did("reported", "a buyer paid by gift card and got nothing"),
            Did(
                "reported",
                "the seller refuses payment through the platform and threatens users who ask why",
            ),
        ],
    },
    Account {
        id: "buyer-1042",
        kind: "buyer",
        about: "looks for an atlas",
        activities: &[
            Did("searched", "atlas 1960s"),
            Did("item_viewed", "Atlas of 1962, three times today"),
            Did("basket_added", "Atlas of 1962"),
            Said("Can you deliver to my address by Friday? I would like to pay now."),
            Did("checkout_started", "card payment through the platform"),
        ],
    },
];

/// Messages that wait for a verdict before they are published.
pub(super) const VERDICTS: &[(&str, Activity)] = &[
    (
        "seller-parcel-desk",
        Said(
            "Your parcel is held at customs. Confirm your card number and PIN on our page within one hour and pay the fee by \
             gift card, or it is destroyed.",
        ),
    ),
    (
        "seller-harbour-books",
        Said("I posted your parcel this morning. The tracking number is in your order."),
    ),
];
