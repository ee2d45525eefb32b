//! Progress on standard error: a bar on a terminal, otherwise a line every two seconds.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a line is written if there is no bar.
const INTERVAL: Duration = Duration::from_secs(2);

enum Display {
    Bar(ProgressBar),
    Lines { size: u64, last: Mutex<Instant> },
}

/// The progress display of an import.
pub(super) struct Progress {
    display: Display,
    /// What is imported.
    noun: &'static str,
}

impl Progress {
    pub(super) fn start(noun: &'static str, size: u64, offset: u64) -> Self {
        if offset > 0 && offset < size {
            eprintln!("An earlier run came to byte {offset} of {size}; going on from there.");
        }
        if !std::io::stderr().is_terminal() {
            return Self { display: Display::Lines { size, last: Mutex::new(Instant::now()) }, noun };
        }
        let bar = ProgressBar::new(size).with_position(offset);
        let template = "{bar:30.cyan} {percent:>3} %  {bytes} of {total_bytes}  {msg}  {eta} left";
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { display: Display::Bar(bar), noun }
    }

    /// Shows that everything before this byte offset is completed.
    pub(super) fn reached(&self, offset: u64, count: u64) {
        let noun = self.noun;
        match &self.display {
            Display::Bar(bar) => {
                bar.set_message(format!("{count} {noun}"));
                bar.set_position(offset);
            }
            Display::Lines { size, last } => {
                let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if last.elapsed() >= INTERVAL {
                    *last = Instant::now();
                    let percent = offset.saturating_mul(100) / size.max(&1);
                    eprintln!("{percent} %, {count} {noun} recorded");
                }
            }
        }
    }

    /// Prints a line without disturbing the bar.
    pub(super) fn print(&self, text: &str) {
        match &self.display {
            Display::Bar(bar) => bar.println(text),
            Display::Lines { .. } => eprintln!("{text}"),
        }
    }

    pub(super) fn finish(&self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}
