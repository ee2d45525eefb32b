//! Fuzzes the target that `FUZZ_TARGET` names, if built by `scripts/fuzz`; else runs it on files, to repeat what was found:
//!
//! ```sh
//! FUZZ_TARGET=cursors cargo run -p auspex-fuzz -- target/fuzz/cursors/crash-…
//! ```
#![cfg_attr(fuzzing, no_main)]

use std::sync::LazyLock;

use auspex_fuzz::{Check, TARGETS, find};

#[expect(
    clippy::disallowed_methods,
    reason = "libFuzzer reads the arguments, and there are no other settings"
)]
static CHECK: LazyLock<Check> = LazyLock::new(|| {
    let chosen = std::env::var("FUZZ_TARGET").unwrap_or_default();
    find(&chosen).unwrap_or_else(|| panic!("FUZZ_TARGET: one of {:?}", TARGETS.map(|(name, _)| name)))
});

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| CHECK(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    for file in std::env::args_os().skip(1) {
        CHECK(&std::fs::read(file)?);
    }
    Ok(())
}
