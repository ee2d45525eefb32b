//! Compiles the library that shifts a process's clock. Without a C compiler the file is empty, and that fault is left out.

use std::path::Path;
use std::process::Command;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=src/clock.c");
    #[expect(
        clippy::disallowed_methods,
        reason = "cargo tells build scripts their directory in this way only"
    )]
    let directory = std::env::var_os("OUT_DIR").unwrap_or_default();
    let library = Path::new(&directory).join("clock.so");
    let arguments = ["-shared", "-fPIC", "-O2", "src/clock.c", "-o"];
    let compiled = Command::new("cc").args(arguments).arg(&library).status();
    if compiled.is_ok_and(|status| status.success()) { Ok(()) } else { std::fs::write(&library, []) }
}
