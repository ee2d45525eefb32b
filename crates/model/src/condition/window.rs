//! Windows and durations, as conditions write them.

use std::time::Duration;

/// The longest window and the longest duration.
pub const MAX_WINDOW: Duration = Duration::from_hours(30 * 24);
/// Units of durations, in seconds; the longest one that fits is written.
pub(super) const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Events with a name within a time up to the newest event read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventWindow {
    /// The name; any if none.
    pub name: Option<String>,
    /// How far back they are counted.
    pub window: Duration,
}

/// Parses a duration such as `30s`, `15m`, `24h` or `7d`, of at most 30 days.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (_, unit) = UNITS.into_iter().find(|(letter, _)| text.ends_with(*letter))?;
    let digits = &text[..text.len() - 1];
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(Duration::from_secs(number.checked_mul(unit)?)).filter(|duration| *duration <= MAX_WINDOW)
}
