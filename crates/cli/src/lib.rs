//! The command line of an account: everything that a person or a script does with a service, on the Rust client.
//!
//! The binary `auspex` has these commands beside those of operators; [`Command`] is flattened into its own.

mod browser;
mod cells;
mod commands;
mod context;
mod data;
mod environment;
mod failure;
mod json_text;
mod messages;
mod output;
mod paging;
mod profiles;
mod prompt;
mod table;
mod waiting;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::commands::{
    access, api, billing, completions, events, export, keys, labels, objects, playground, reviews, rules,
    settings, signals, webhooks,
};

pub use crate::context::{Common, Connection};
pub use crate::failure::Failure;

/// The commands of an account.
#[derive(Subcommand)]
pub enum Command {
    /// Sign in, and store a key for this machine.
    Login(One<access::Login>),
    /// Open an account, and store a key for this machine.
    Signup(One<access::Signup>),
    /// Revoke the key of this machine, and forget it.
    Logout(One<access::Logout>),
    /// Show whose credentials are used, and where.
    Whoami(One<access::Whoami>),
    /// Show how the service and the account are doing.
    Status(One<access::Status>),
    /// The questions that are asked about every object.
    Signals(Group<signals::Command>),
    /// What happened to objects.
    Events(Group<events::Command>),
    /// What events are about, and the answers about it.
    Objects(Group<objects::Command>),
    /// Analyze events without recording anything.
    Playground(One<playground::Arguments>),
    /// Conditions, and what happens when they become true.
    Rules(Group<rules::Command>),
    /// Endpoints that receive signed deliveries.
    Webhooks(Group<webhooks::Command>),
    /// API keys.
    Keys(Group<keys::Command>),
    /// What people say is true.
    Labels(Group<labels::Command>),
    /// Objects that people are to look at.
    Reviews(Group<reviews::Command>),
    /// What the account decides for all its objects.
    Settings(Group<settings::Command>),
    /// The balance and the ledger.
    Billing(One<billing::Arguments>),
    /// Analyses and spend by day.
    Usage(One<billing::UsageArguments>),
    /// Write everything of one kind to a file.
    Export(One<export::Arguments>),
    /// Print the completions of a shell.
    Completions(completions::Arguments),
    /// Make any call of the API.
    Api(One<api::Arguments>),
}

/// A command with arguments of its own and those of every command.
#[derive(Args)]
pub struct One<A: Args> {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    arguments: A,
}

/// A group of commands, each of which takes the arguments of every command.
#[derive(Args)]
pub struct Group<C: Subcommand> {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: C,
}

/// Runs a command to its end. `program` is the whole command line that it belongs to, for completions.
pub async fn run(command: Command, program: clap::Command) -> ExitCode {
    match dispatch(command, program).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.exit_code())
        }
    }
}

async fn dispatch(command: Command, program: clap::Command) -> Result<(), Failure> {
    match command {
        Command::Login(One { common, arguments }) => arguments.run(&common).await,
        Command::Signup(One { common, arguments }) => arguments.run(&common).await,
        Command::Logout(One { common, arguments }) => arguments.run(&common).await,
        Command::Whoami(One { common, arguments }) => arguments.run(&common).await,
        Command::Status(One { common, arguments }) => arguments.run(&common).await,
        Command::Signals(Group { common, command }) => command.run(&common).await,
        Command::Events(Group { common, command }) => command.run(&common).await,
        Command::Objects(Group { common, command }) => command.run(&common).await,
        Command::Playground(One { common, arguments }) => arguments.run(&common).await,
        Command::Rules(Group { common, command }) => command.run(&common).await,
        Command::Webhooks(Group { common, command }) => command.run(&common).await,
        Command::Keys(Group { common, command }) => command.run(&common).await,
        Command::Labels(Group { common, command }) => command.run(&common).await,
        Command::Reviews(Group { common, command }) => command.run(&common).await,
        Command::Settings(Group { common, command }) => command.run(&common).await,
        Command::Billing(One { common, arguments }) => arguments.run(&common).await,
        Command::Usage(One { common, arguments }) => arguments.run(&common).await,
        Command::Export(One { common, arguments }) => arguments.run(&common).await,
        Command::Completions(arguments) => arguments.run(program),
        Command::Api(One { common, arguments }) => arguments.run(&common).await,
    }
}
