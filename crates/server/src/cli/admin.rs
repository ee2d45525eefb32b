//! `auspex admin`: what an operator does on the database, beside a running service or without one.

use std::io::{IsTerminal as _, Read as _};

use clap::Subcommand;
use model::TenantId;
use service::{Clock, Random, Service};
use uuid::Uuid;

use super::{CommandResult, say};
use crate::assembly::assemble;
use crate::config::Config;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Accounts.
    #[command(subcommand)]
    Tenant(Tenant),
    /// People who sign in to the console.
    #[command(subcommand)]
    User(User),
    /// API keys.
    #[command(subcommand)]
    Key(Key),
}

#[derive(Subcommand)]
pub(super) enum Tenant {
    /// Open an account, with its signup credit and the default signals.
    Create {
        /// What it is called.
        name: String,
    },
    /// List every account: id, time of creation, name.
    List,
}

#[derive(Subcommand)]
pub(super) enum User {
    /// Add a person to an account; the password is read from standard input.
    Create {
        /// The account's id.
        #[arg(long)]
        tenant: Uuid,
        /// The person's address.
        email: String,
    },
}

#[derive(Subcommand)]
pub(super) enum Key {
    /// Make a key and print its id and secret.
    Create {
        /// The account's id.
        #[arg(long)]
        tenant: Uuid,
        /// What people call it.
        #[arg(long)]
        name: Option<String>,
    },
    /// Take over an old long key from before request signing; it is read from standard input.
    ImportLegacy {
        /// The account's id.
        #[arg(long)]
        tenant: Uuid,
        /// What people call it.
        #[arg(long, default_value = "Legacy key")]
        name: String,
    },
}

pub(super) async fn run(command: Command, config: &Config) -> CommandResult {
    let service = assemble(config, Clock::system(), Random::system()?).await?;
    let outcome = match command {
        Command::Tenant(command) => tenant(command, &service).await,
        Command::User(command) => user(command, &service).await,
        Command::Key(command) => key(command, &service).await,
    };
    service.store().close().await;
    outcome
}

async fn tenant(command: Tenant, service: &Service) -> CommandResult {
    match command {
        Tenant::Create { name } => say(&service.create_tenant(&name).await?.tenant_id.to_string()),
        Tenant::List => {
            for tenant in service.tenants().await? {
                say(&format!("{}  {}  {}", tenant.tenant_id, tenant.created_at, tenant.name));
            }
        }
    }
    Ok(())
}

async fn user(command: User, service: &Service) -> CommandResult {
    let User::Create { tenant, email } = command;
    let password = read_secret("password")?;
    say(&format!("{}", service.create_user(TenantId(tenant), &email, &password).await?));
    Ok(())
}

async fn key(command: Key, service: &Service) -> CommandResult {
    match command {
        Key::Create { tenant, name } => {
            let made = service.create_key_for(TenantId(tenant), name).await?;
            say(&format!("key    {}", made.key));
            say(&format!("secret {}", made.secret));
        }
        Key::ImportLegacy { tenant, name } => {
            let tenant = service.demand_tenant(TenantId(tenant)).await?;
            let key = service.import_legacy_key(tenant.tenant_id, &name, &read_secret("old key")?).await?;
            say(&format!("key    {}", key.key));
        }
    }
    Ok(())
}

/// Secrets come by standard input: arguments show up in process lists and shell histories.
fn read_secret(what: &str) -> std::io::Result<String> {
    if std::io::stdin().is_terminal() {
        eprintln!("Type the {what} and end with Ctrl-D:");
    }
    let mut secret = String::new();
    std::io::stdin().read_to_string(&mut secret)?;
    Ok(secret.trim_end_matches(['\r', '\n']).to_owned())
}
