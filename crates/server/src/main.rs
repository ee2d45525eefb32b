//! The `auspex` command.

fn main() -> std::process::ExitCode {
    auspex_server::cli::main()
}
