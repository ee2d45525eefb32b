//! Which tariff applies to an analysis, and whether it is billed; `model/src/money.rs` computes the charge.

use std::collections::BTreeMap;

use model::Tariff;
use model::money::Charge;

/// The prices of a deployment.
#[derive(Clone, Debug)]
pub(crate) struct Prices {
    /// Whether analyses are billed.
    pub(crate) metering: bool,
    /// The price of models that have none of their own: that of the configured model, or the default.
    pub(crate) tariff: Tariff,
    /// The price of the second analyzer's models that have none of their own.
    pub(crate) second_tariff: Tariff,
    /// Prices by model, where they differ from the default.
    pub(crate) tariffs: BTreeMap<String, Tariff>,
}

impl Prices {
    /// The price of an analysis, whether or not it is billed.
    pub(crate) fn charge(&self, model: &str, input_tokens: u64, output_tokens: u64) -> Charge {
        self.tariffs.get(model).unwrap_or(&self.tariff).charge(input_tokens, output_tokens)
    }

    /// The price of the second stage of an analysis, whether or not it is billed.
    pub(crate) fn charge_second(&self, model: &str, input_tokens: u64, output_tokens: u64) -> Charge {
        self.tariffs.get(model).unwrap_or(&self.second_tariff).charge(input_tokens, output_tokens)
    }

    /// The amount billed for an analysis, in micro-dollars.
    pub(crate) fn billed_micros(&self, model: &str, input_tokens: u64, output_tokens: u64) -> i64 {
        if self.metering { self.charge(model, input_tokens, output_tokens).micros } else { 0 }
    }

    /// The amount billed for the second stage of an analysis, in micro-dollars.
    pub(crate) fn billed_second_micros(&self, model: &str, input_tokens: u64, output_tokens: u64) -> i64 {
        if self.metering { self.charge_second(model, input_tokens, output_tokens).micros } else { 0 }
    }
}
