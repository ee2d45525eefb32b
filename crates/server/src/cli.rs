//! The command line. Each command says what went wrong in one line and ends with a status of its own.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks on its own streams")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use service::{Clock, Random};
use store::Store;

use crate::config::{Config, Origin, PREFIX};
use crate::{Server, logging, serve};

/// A signal analysis service: send events about objects, read typed answers about them.
#[derive(Parser)]
#[command(name = "auspex", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service until it is told to stop.
    Serve,
    /// Bring the database's schema up to date and exit.
    Migrate,
    /// Print the effective settings and where each comes from; secrets are masked.
    Config,
}

type CommandResult = Result<(), Box<dyn std::error::Error>>;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("auspex: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> CommandResult {
    let config = Config::load()?;
    if let Command::Config = command {
        print_settings(&config);
        return Ok(());
    }
    logging::start(&config)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::Serve => serve(config).await,
            Command::Migrate => migrate(config).await,
            Command::Config => Ok(()),
        }
    })
}

async fn serve(config: Config) -> CommandResult {
    let database =
        if config.database_url.is_some() { "as configured".to_owned() } else { config.database_address() };
    let stopping = serve::stop_signal()?;
    let server = Server::start(config, Clock::system(), Random::system()?).await?;
    println!("Auspex {} listens on {}", env!("CARGO_PKG_VERSION"), server.public_url());
    println!("  database  {database}");
    println!("  ready?    curl {}/readyz", server.public_url());
    println!("  stop      Ctrl-C");
    stopping.await;
    if !server.stop().await {
        return Err(format!("not everything finished within {} s", serve::DRAIN_LIMIT.as_secs()).into());
    }
    Ok(())
}

async fn migrate(config: Config) -> CommandResult {
    serve::prepare_data_directory(&config)?;
    let store = Store::open(&config.database_address()).await?;
    store.close().await;
    println!("The database is at the newest schema.");
    Ok(())
}

fn print_settings(config: &Config) {
    let width = config.effective.iter().map(|setting| setting.name.len()).max().unwrap_or(0) + PREFIX.len();
    for setting in &config.effective {
        let name = format!("{PREFIX}{}", setting.name.to_ascii_uppercase());
        let origin = match setting.origin {
            Origin::Environment => "  (environment)",
            Origin::File => "  (file)",
            Origin::Default => "",
        };
        println!("{}", format!("{name:width$} = {}{origin}", setting.shown).trim_end());
    }
}
