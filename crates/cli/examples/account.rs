//! The commands of an account alone, to try them without building the service.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

#[derive(Parser)]
#[command(name = "auspex", version)]
struct Arguments {
    #[command(subcommand)]
    command: auspex_cli::Command,
}

#[tokio::main]
async fn main() -> ExitCode {
    auspex_cli::run(Arguments::parse().command, Arguments::command()).await
}
