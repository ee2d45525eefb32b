//! Cells of tables and fields: values of the API as people read them.

use anstyle::{AnsiColor, Style};
use client::Timestamp;
use serde_json::Value;

/// What stands for a value that is not there.
const NOTHING: &str = "–";

/// A value to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    content: Content,
    /// How it looks where there are colours.
    pub(crate) style: Style,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Text(String),
    /// A time, shown as its distance from now on a terminal, and in full elsewhere.
    Time(String),
}

impl Cell {
    fn new(content: Content) -> Self {
        Self { content, style: Style::new() }
    }

    fn coloured(self, colour: AnsiColor) -> Self {
        Self { style: Style::new().fg_color(Some(colour.into())), ..self }
    }

    /// The text on one line, given the present time on a terminal and none elsewhere.
    pub(crate) fn text(&self, now: Option<Timestamp>) -> String {
        match (&self.content, now) {
            (Content::Time(text), Some(now)) => {
                text.parse().map_or_else(|_| text.clone(), |at| distance(at, now))
            }
            (Content::Text(text) | Content::Time(text), _) => text.clone(),
        }
    }
}

/// Any text, without what a terminal would act on.
pub(crate) fn text(text: impl AsRef<str>) -> Cell {
    Cell::new(Content::Text(harmless(text.as_ref())))
}

/// A value as text: a string as it is, a list with commas, an object as JSON.
pub(crate) fn value(value: &Value) -> Cell {
    text(match value {
        Value::Null => NOTHING.to_owned(),
        Value::String(content) => content.clone(),
        Value::Bool(flag) => (if *flag { "yes" } else { "no" }).to_owned(),
        Value::Array(items) if items.is_empty() => NOTHING.to_owned(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    })
}

/// A number with this many decimals.
pub(crate) fn decimal(value: &Value, decimals: usize) -> Cell {
    text(value.as_f64().map_or_else(|| NOTHING.to_owned(), |number| format!("{number:.decimals$}")))
}

/// A time.
pub(crate) fn time(value: &Value) -> Cell {
    match value.as_str() {
        Some(at) => Cell { style: Style::new().dimmed(), ..Cell::new(Content::Time(harmless(at))) },
        None => text(NOTHING),
    }
}

/// An amount in micro-dollars, as US dollars.
pub(crate) fn micros(value: &Value) -> Cell {
    text(value.as_i64().map_or_else(|| NOTHING.to_owned(), |amount| dollars(amount, 6)))
}

/// An amount in cents, as US dollars.
pub(crate) fn cents(value: &Value) -> Cell {
    text(value.as_i64().map_or_else(|| NOTHING.to_owned(), |amount| dollars(amount, 2)))
}

/// An id, which stands back where there are colours.
pub(crate) fn id(of: &Value) -> Cell {
    Cell { style: Style::new().dimmed(), ..value(of) }
}

/// A status: green is good, yellow waits, red needs a person.
pub(crate) fn status(of: &Value) -> Cell {
    let cell = value(of);
    match of {
        Value::Bool(true) => cell.coloured(AnsiColor::Green),
        Value::Bool(false) => cell.coloured(AnsiColor::Yellow),
        Value::String(status) => match status.as_str() {
            "active" | "delivered" | "dispatched" | "done" | "live" | "resolved" => {
                cell.coloured(AnsiColor::Green)
            }
            "dead" | "error" | "failed" | "revoked" => cell.coloured(AnsiColor::Red),
            _ => cell.coloured(AnsiColor::Yellow),
        },
        _ => cell,
    }
}

/// The value of an answer: a probability, a position on a scale, or an option.
pub(crate) fn answer(answer: &Value) -> Cell {
    match answer["type"].as_str() {
        Some("noul") => {
            let cell = decimal(&answer["noul"], 2);
            let is_yes = answer["noul"].as_f64().is_some_and(|probability| probability >= 0.5);
            if is_yes { Cell { style: Style::new().bold(), ..cell } } else { cell }
        }
        Some("score") => decimal(&answer["score"], 2),
        _ => value(&answer["choice"]),
    }
}

/// A figure with its interval: `0.91 (0.86 to 0.95)`.
pub(crate) fn figure(figure: &Value) -> Cell {
    let number = |name: &str| figure[name].as_f64();
    match (number("value"), number("low"), number("high")) {
        (Some(value), Some(low), Some(high)) => text(format!("{value:.3} ({low:.3} to {high:.3})")),
        _ => text(NOTHING),
    }
}

fn dollars(amount: i64, decimals: u32) -> String {
    let unit = 10_u64.pow(decimals);
    let (sign, amount) = (if amount < 0 { "-" } else { "" }, amount.unsigned_abs());
    format!("{sign}${}.{:0width$}", amount / unit, amount % unit, width = decimals as usize)
}

/// A single line in which nothing moves the cursor, changes colours or reverses the direction of writing: what events say comes
/// from strangers.
pub(crate) fn harmless(text: &str) -> String {
    let shown = |character: char| match character {
        '\n' | '\r' | '\t' | '\u{85}' | '\u{2028}' | '\u{2029}' => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        character if character.is_control() => '\u{fffd}',
        character => character,
    };
    text.chars().map(shown).collect()
}

/// How long ago, or how far in the future, a time is.
fn distance(at: Timestamp, now: Timestamp) -> String {
    let span = |seconds: u64| match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    };
    if at > now {
        format!("in {}", span(at.since(now).as_secs()))
    } else {
        format!("{} ago", span(now.since(at).as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plain(cell: &Cell) -> String {
        cell.text(None)
    }

    #[test]
    fn values_are_shown_as_people_read_them() {
        assert_eq!(plain(&value(&json!(null))), "–");
        assert_eq!(plain(&value(&json!(true))), "yes");
        assert_eq!(plain(&value(&json!(["a", "b"]))), "a, b");
        assert_eq!(plain(&value(&json!({"a": 1}))), r#"{"a":1}"#);
        assert_eq!(plain(&decimal(&json!(0.126), 2)), "0.13");
        assert_eq!(plain(&cents(&json!(-1_205))), "-$12.05");
        assert_eq!(plain(&micros(&json!(1_000_042))), "$1.000042");
        assert_eq!(plain(&answer(&json!({"type": "choice", "choice": "browsing"}))), "browsing");
        assert_eq!(
            plain(&figure(&json!({"value": 0.5, "low": 0.25, "high": 0.75}))),
            "0.500 (0.250 to 0.750)"
        );
    }

    #[test]
    fn what_a_terminal_would_act_on_is_replaced() {
        assert_eq!(plain(&text("a\u{1b}[31m\nb\u{202e}c\u{9b}")), "a\u{fffd}[31m b\u{fffd}c\u{fffd}");
    }

    #[test]
    fn times_are_distances_on_a_terminal() {
        let cell = time(&json!("2026-01-01T00:00:00.000000Z"));
        let at: Timestamp = "2026-01-01T00:00:00.000000Z".parse().unwrap();
        assert_eq!(plain(&cell), "2026-01-01T00:00:00.000000Z");
        for (seconds, text) in [(3, "3 s ago"), (120, "2 min ago"), (7_200, "2 h ago"), (864_000, "10 d ago")]
        {
            assert_eq!(cell.text(Some(Timestamp::from_seconds(at.seconds() + seconds))), text);
        }
        assert_eq!(cell.text(Some(Timestamp::from_seconds(at.seconds() - 90))), "in 1 min");
    }
}
