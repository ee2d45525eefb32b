//! Waiting for what takes a while, with progress where somebody watches.

use std::io::IsTerminal as _;
use std::str::FromStr;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use tokio::time::Instant;

use crate::cells::harmless;
use crate::failure::Failure;

/// How often the service is asked at first, and at most how rarely.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A time to wait: `500ms`, `30s`, `5m`, `1h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience(pub(crate) Duration);

impl FromStr for Patience {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit = text.trim_start_matches(|character: char| character.is_ascii_digit());
        let number = text[..text.len() - unit.len()].parse::<u64>();
        let scale = match unit {
            "ms" => 1,
            "s" | "" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => 0,
        };
        match number.ok().and_then(|number| number.checked_mul(scale)) {
            Some(millis) if scale > 0 => Ok(Self(Duration::from_millis(millis))),
            _ => Err("it must be a time such as 500ms, 30s, 5m or 1h".to_owned()),
        }
    }
}

/// Calls again and again until the response says that it is finished; returns the last one.
pub(crate) async fn until<T>(
    what: &str,
    patience: Duration,
    mut ask: impl AsyncFnMut() -> Result<(T, Value), Failure>,
    is_finished: impl Fn(&Value) -> bool,
) -> Result<T, Failure> {
    let progress = Progress::start(what);
    let (deadline, mut pause) = (Instant::now() + patience, FIRST_PAUSE);
    loop {
        let (answer, value) = ask().await?;
        if is_finished(&value) {
            return Ok(answer);
        }
        progress.reached(&value);
        if Instant::now() + pause > deadline {
            return Err(Failure::other(format!("{what}: not finished within {} s", patience.as_secs_f64())));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}

/// A line on standard error that shows how far something is, if somebody watches.
struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn start(what: &str) -> Self {
        let is_watched = std::io::stderr().is_terminal();
        let target = if is_watched { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::default_spinner());
        bar.set_message(harmless(what));
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar }
    }

    /// Shows `completed` of `total`, where the response has them.
    fn reached(&self, value: &Value) {
        if let (Some(total), Some(completed)) = (value["total"].as_u64(), value["completed"].as_u64()) {
            self.bar.set_length(total);
            if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
                self.bar.set_style(style);
            }
            self.bar.set_position(completed);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, millis) in
            [("500ms", 500), ("30s", 30_000), ("2", 2_000), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(text.parse(), Ok(Patience(Duration::from_millis(millis))), "{text}");
        }
        for text in ["", "s", "1d", "-1s", "99999999999999999999s", "18446744073709551615h"] {
            assert!(text.parse::<Patience>().is_err(), "{text}");
        }
    }
}
