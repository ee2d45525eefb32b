//! The command line. A command that fails prints one line and exits with a failure status.

#![expect(clippy::print_stderr, reason = "commands print to standard error")]

mod admin;
mod backup;
mod demo;
mod import;
mod model;
mod table;

use std::io::Write as _;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use service::{Clock, Random};
use store::Store;

use crate::config::{Config, Origin, PREFIX};
use crate::{Server, assembly, logging, serve};

/// A signal analysis service: send events about objects, read typed answers about them.
#[derive(Parser)]
#[command(name = "auspex", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Args)]
struct ServeArguments {
    /// How many seconds ahead of the host's clock the service goes: for stories of the console that take days. In development
    /// builds only.
    #[cfg(debug_assertions)]
    #[arg(long, hide = true, default_value_t = 0)]
    clock_ahead_s: u64,
}

impl ServeArguments {
    #[cfg(debug_assertions)]
    fn clock(&self) -> Clock {
        Clock::system_ahead(std::time::Duration::from_secs(self.clock_ahead_s))
    }

    #[cfg(not(debug_assertions))]
    #[expect(clippy::unused_self, reason = "it has arguments in development builds only")]
    fn clock(&self) -> Clock {
        Clock::system()
    }
}

#[derive(Subcommand)]
enum Command {
    /// Run the service until it receives SIGTERM or Ctrl-C.
    Serve(ServeArguments),
    /// Play a small marketplace story on a temporary database, through the real HTTP API, and show the answers.
    Demo(demo::Arguments),
    /// Send the events of a file to a running service; an interrupted import resumes, and no event is recorded twice.
    Import(import::Arguments),
    /// Migrate the database to the newest schema and exit.
    Migrate,
    /// Write a checked copy of the database to a file, while the service runs; the master key is not in it.
    Backup(backup::Arguments),
    /// Fill an empty database from a backup; the master key is not in it.
    Restore(backup::Arguments),
    /// Print the effective settings and where each comes from; secrets are masked.
    Config {
        /// Print what every setting means, as docs/settings.md has it.
        #[arg(long)]
        reference: bool,
    },
    /// Print the OpenAPI document.
    Openapi,
    /// Measure the configured model on labelled lines of your own.
    #[command(subcommand)]
    Model(model::Command),
    /// Manage accounts, users, keys and balances in the database.
    #[command(subcommand)]
    Admin(admin::Command),
    #[command(flatten)]
    Account(Box<cli::Command>),
}

type CommandResult = Result<(), Box<dyn std::error::Error>>;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("auspex: {}", reason(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Why a command failed. An operator gets to see the cause that a client of the service does not.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<service::Error>().and_then(service::Error::cause) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn run(command: Command) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let command = match command {
        Command::Openapi => {
            print_line(&crate::openapi_document().to_pretty_json()?);
            return Ok(ExitCode::SUCCESS);
        }
        Command::Config { reference: true } => {
            print_line(crate::config::reference::reference()?.trim_end());
            return Ok(ExitCode::SUCCESS);
        }
        command => command,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let command = match command {
        // These do not need the service's settings.
        Command::Account(command) => {
            return Ok(runtime.block_on(cli::run(*command, Arguments::command())));
        }
        Command::Demo(arguments) => {
            return runtime.block_on(demo::run(arguments)).map(|()| ExitCode::SUCCESS);
        }
        Command::Import(arguments) => {
            return runtime.block_on(import::run(arguments)).map(|()| ExitCode::SUCCESS);
        }
        command => command,
    };
    let config = Config::load()?;
    if let Command::Config { .. } = command {
        print_settings(&config);
        return Ok(ExitCode::SUCCESS);
    }
    logging::start(&config)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let outcome = runtime.block_on(async {
        match command {
            Command::Serve(arguments) => Box::pin(serve(config, arguments.clock())).await,
            Command::Migrate => migrate(&config).await,
            Command::Backup(arguments) => backup::back_up(&arguments, &config).await,
            Command::Restore(arguments) => backup::restore(&arguments, &config).await,
            Command::Admin(command) => admin::run(command, &config).await,
            Command::Model(command) => model::run(command, &config).await,
            Command::Config { .. }
            | Command::Openapi
            | Command::Demo(_)
            | Command::Import(_)
            | Command::Account(_) => Ok(()),
        }
    });
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn serve(config: Config, clock: Clock) -> CommandResult {
    let database =
        if config.database_url.is_some() { "as configured".to_owned() } else { config.database_address() };
    let mail = config.smtp_url.is_none().then(|| config.data_dir.join("mail"));
    let stopping = serve::stop_signal()?;
    let _lock = assembly::lock_database(&config)?;
    let server = Server::start(config, clock, Random::system()?).await?;
    print_welcome(server.public_url(), &database, mail.as_deref());
    let mut stopping = pin!(stopping);
    let outgrown = tokio::select! {
        () = &mut stopping => None,
        // Whoever starts this binary again is told the same.
        reason = server.service().wait_until_outgrown() => Some(reason.to_owned()),
    };
    let mut drain = pin!(server.stop());
    let is_drained = if outgrown.is_some() {
        // Signals count meanwhile: the second one ends the process at once.
        tokio::select! {
            is_drained = &mut drain => is_drained,
            () = stopping => drain.await,
        }
    } else {
        drain.await
    };
    if !is_drained {
        return Err(format!("not everything finished within {} s", serve::DRAIN_LIMIT.as_secs()).into());
    }
    outgrown.map_or(Ok(()), |reason| Err(reason.into()))
}

/// Prints a line. A stream that was closed early, such as by `head`, is not an error.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints a value as JSON, for programs.
fn print_json(value: &impl serde::Serialize) -> CommandResult {
    print_line(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Prints the URL and what to do next.
fn print_welcome(url: &str, database: &str, mail: Option<&Path>) {
    let mut lines = vec![
        format!("Auspex {} listens on {url}", env!("CARGO_PKG_VERSION")),
        format!("  database  {database}"),
    ];
    if let Some(directory) = mail {
        lines.push(format!("  mail      {} (set AUSPEX_SMTP_URL to send it)", directory.display()));
    }
    if cfg!(feature = "console") {
        lines.push(format!("  console   {url}/"));
    }
    lines.push(format!("  API       {url}/docs"));
    let next = if cfg!(feature = "console") {
        "in the console, or in another terminal:"
    } else {
        "in another terminal:"
    };
    lines.push(format!("  next      open an account, {next}"));
    lines.push(format!("            auspex signup --url {url}"));
    lines.push("  stop      Ctrl-C".to_owned());
    print_line(&lines.join("\n"));
}

async fn migrate(config: &Config) -> CommandResult {
    assembly::prepare_data_directory(config)?;
    let store = Store::open(&config.database_address()).await?;
    store.close().await;
    print_line("The database is at the newest schema.");
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
        print_line(format!("{name:width$} = {}{origin}", setting.shown).trim_end());
    }
}
