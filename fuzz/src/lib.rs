//! Targets for fuzzing: what must hold of each parser of foreign bytes, whatever the bytes are.
//!
//! A target is a function, so that it compiles and is tested with everything else; only `main.rs` knows libFuzzer. The parsers'
//! files are included by path and not through their crates: those would have to be built with coverage too, with both databases
//! and the embedded model. What stands around them here is only what their imports name.

// The included files' own tests belong to their crates.
#![cfg(not(test))]
#![allow(dead_code, reason = "a target uses what it needs of a file")]
#![allow(unreachable_pub, reason = "the files' own visibility is for their crates")]
#![allow(clippy::expect_used, reason = "a target that cannot be set up must end")]

mod conditions;
mod cursors;
mod histories;
mod import_lines;
mod passkeys;
mod signatures;
mod tokens;

/// Runs one case: panics if something does not hold.
pub type Check = fn(&[u8]);

/// The targets by name.
pub const TARGETS: [(&str, Check); 7] = [
    ("conditions", conditions::check),
    ("cursors", cursors::check),
    ("histories", histories::check),
    ("import_lines", import_lines::check),
    ("passkeys", passkeys::check),
    ("signatures", signatures::check),
    ("tokens", tokens::check),
];

/// The target of this name.
pub fn find(name: &str) -> Option<Check> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, check)| *check)
}

/// The bytes up to a zero, and those after it.
fn halves(data: &[u8]) -> (&[u8], &[u8]) {
    let middle = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    (&data[..middle], data.get(middle + 1..).unwrap_or_default())
}

// What the included files name.

// The import's lines are read with the client's records, which are the model's.
extern crate model as client;

#[path = "../../crates/client/src/sign.rs"]
mod sign;

#[path = "../../crates/server/src/parse_errors.rs"]
mod parse_errors;

mod runtime {
    pub(crate) type Result<T, E> = std::result::Result<T, E>;
}

mod accounts {
    pub(crate) mod refusals {
        use model::api::KeyRefusalCause;

        #[derive(Debug)]
        pub(crate) struct Rejection {
            pub(crate) cause: KeyRefusalCause,
            pub(crate) detail: Option<String>,
        }

        impl Rejection {
            pub(crate) fn new(cause: KeyRefusalCause, detail: impl Into<String>) -> Self {
                Self { cause, detail: Some(detail.into()) }
            }

            pub(crate) fn bare(cause: KeyRefusalCause) -> Self {
                Self { cause, detail: None }
            }
        }
    }
}
