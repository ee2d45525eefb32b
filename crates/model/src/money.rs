//! Money in integers: amounts in micro-dollars, and exact decimals for the costs they are computed from.

use std::fmt;

/// The only currency.
pub const CURRENCY: &str = "usd";
/// A cent, in micro-dollars.
pub const MICROS_PER_CENT: i64 = 10_000;

/// An amount in whole cents, rounded toward zero.
pub const fn cents(micros: i64) -> i64 {
    micros / MICROS_PER_CENT
}

/// Prices of a model's tokens, in micro-dollars per million tokens, and the margin on them, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tariff {
    /// The price of a million input tokens.
    pub input_per_mtok: u64,
    /// The price of a million output tokens.
    pub output_per_mtok: u64,
    /// The factor on the cost, in millionths.
    pub margin: u64,
}

/// The cost of an analysis, and the charge for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The cost, in millionths of a micro-dollar: tokens times micro-dollars per million tokens.
    cost_picos: u128,
    /// The margin in millionths.
    margin: u64,
    /// The charge in micro-dollars: cost times margin, rounded half up.
    pub micros: i64,
}

const MILLION: u128 = 1_000_000;

impl Tariff {
    /// The charge for this many tokens.
    pub fn charge(&self, input_tokens: u64, output_tokens: u64) -> Charge {
        let cost_picos = u128::from(input_tokens) * u128::from(self.input_per_mtok)
            + u128::from(output_tokens) * u128::from(self.output_per_mtok);
        let scaled = cost_picos * u128::from(self.margin);
        let divisor = MILLION * MILLION;
        let micros = (scaled + divisor / 2) / divisor;
        Charge { cost_picos, margin: self.margin, micros: i64::try_from(micros).unwrap_or(i64::MAX) }
    }
}

impl Charge {
    /// The cost in dollars, as exact decimal text.
    pub fn cost_usd(&self) -> String {
        Decimal(self.cost_picos, 12).to_string()
    }

    /// The margin, as exact decimal text.
    pub fn cost_margin(&self) -> String {
        Decimal(u128::from(self.margin), 6).to_string()
    }
}

/// An integer and its number of decimals, written without trailing zeros.
struct Decimal(u128, u32);

impl fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10_u128.pow(self.1);
        let decimals = format!("{:0width$}", self.0 % one, width = self.1 as usize);
        let decimals = decimals.trim_end_matches('0');
        if decimals.is_empty() {
            write!(formatter, "{}", self.0 / one)
        } else {
            write!(formatter, "{}.{decimals}", self.0 / one)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARIFF: Tariff = Tariff { input_per_mtok: 100_000, output_per_mtok: 400_000, margin: 1_000_000 };

    #[test]
    fn a_charge_is_cost_times_margin_rounded_half_up() {
        let charge = TARIFF.charge(1_000, 10);
        assert_eq!(
            (charge.micros, charge.cost_usd().as_str(), charge.cost_margin().as_str()),
            (104, "0.000104", "1")
        );
        assert_eq!(TARIFF.charge(4, 0).micros, 0, "0.4 micro-dollars");
        assert_eq!(TARIFF.charge(5, 0).micros, 1, "0.5 micro-dollars");
        assert_eq!(TARIFF.charge(5, 0).cost_usd(), "0.0000005");
        let with_margin = Tariff { margin: 1_250_000, ..TARIFF }.charge(1_000_000, 0);
        assert_eq!((with_margin.micros, with_margin.cost_margin().as_str()), (125_000, "1.25"));
        assert_eq!(TARIFF.charge(0, 0).cost_usd(), "0");
    }

    #[test]
    fn cents_are_rounded_toward_zero() {
        let micros = [0, 9_999, 10_000, -9_999, -10_000, -19_999, i64::MIN, i64::MAX];
        let expected = [0, 0, 1, 0, -1, -1, -922_337_203_685_477, 922_337_203_685_477];
        assert_eq!(micros.map(cents), expected);
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let tariff = Tariff { input_per_mtok: 999_999_999_000_000, output_per_mtok: 0, margin: 1_000_000 };
        assert_eq!(tariff.charge(u64::from(u32::MAX), 0).micros, 4_294_967_290_705_032_705);
    }
}
