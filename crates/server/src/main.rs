//! `auspex`, the command.

use mimalloc::MiMalloc;

/// What one thread allocates is freed by another all the time here: requests, rows and deliveries wander. The system's
/// allocator has threads wait for each other then.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> std::process::ExitCode {
    auspex_server::cli::main()
}
