//! `auspex admin`: what an operator does on the database, beside a running service or without one.

use std::io::{IsTerminal as _, Read as _};

use clap::Subcommand;
use model::TenantId;
use service::{Clock, Random, Service};
use uuid::Uuid;

use super::{CommandResult, say};
use crate::assembly::{self, assemble};
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
    /// Add to an account's balance, or take from it where the amount is negative, and print the balance in cents.
    Credit {
        /// The account's id.
        tenant: Uuid,
        /// How much, in cents.
        #[arg(allow_negative_numbers = true)]
        amount_cents: i64,
        /// Why; the account sees it in its ledger.
        #[arg(long)]
        note: Option<String>,
    },
    /// Work balances and usage out anew from the ledger, for every account, and fail where they differ.
    Audit,
    /// Move every secret in the database from the previous master key to the new one, while no service runs.
    Rekey,
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
    if let Command::Rekey = command {
        return rekey(config).await;
    }
    let service = assemble(config, Clock::system(), Random::system()?).await?;
    let outcome = match command {
        Command::Tenant(command) => tenant(command, &service).await,
        Command::User(command) => user(command, &service).await,
        Command::Key(command) => key(command, &service).await,
        Command::Credit { tenant, amount_cents, note } => {
            let balance =
                service.billing.balances.adjust(TenantId(tenant), amount_cents, note.as_deref()).await;
            balance.map(|balance| say(&balance.to_string())).map_err(Into::into)
        }
        Command::Audit => audit(&service).await,
        Command::Rekey => Ok(()),
    };
    service.store().close().await;
    outcome
}

async fn rekey(config: &Config) -> CommandResult {
    let moved = assembly::rekey(config, &Clock::system(), &Random::system()?).await?;
    say(&format!("{moved} secrets were moved to the new master key."));
    say("Start the service with AUSPEX_MASTER_KEY; AUSPEX_MASTER_KEY_PREVIOUS has served its turn.");
    Ok(())
}

async fn tenant(command: Tenant, service: &Service) -> CommandResult {
    match command {
        Tenant::Create { name } => {
            say(&service.accounts.operators.create_tenant(&name).await?.tenant_id.to_string())
        }
        Tenant::List => {
            for tenant in service.accounts.operators.tenants().await? {
                say(&format!("{}  {}  {}", tenant.tenant_id, tenant.created_at, tenant.name));
            }
        }
    }
    Ok(())
}

async fn user(command: User, service: &Service) -> CommandResult {
    let User::Create { tenant, email } = command;
    let password = read_secret("password")?;
    say(&format!("{}", service.accounts.operators.create_user(TenantId(tenant), &email, &password).await?));
    Ok(())
}

async fn key(command: Key, service: &Service) -> CommandResult {
    match command {
        Key::Create { tenant, name } => {
            let made = service.accounts.operators.create_key_for(TenantId(tenant), name).await?;
            say(&format!("key    {}", made.key));
            say(&format!("secret {}", made.secret));
        }
        Key::ImportLegacy { tenant, name } => {
            let tenant = service.accounts.operators.demand_tenant(TenantId(tenant)).await?;
            let key = service
                .accounts
                .keys
                .import_legacy(tenant.tenant_id, &name, &read_secret("old key")?)
                .await?;
            say(&format!("key    {}", key.key));
        }
    }
    Ok(())
}

async fn audit(service: &Service) -> CommandResult {
    let audit = service.billing.audit.run().await?;
    let (tenants, lines) = (audit.tenants, audit.lines);
    if audit.drifts.is_empty() {
        say(&format!("Books of {tenants} accounts with {lines} lines agree."));
        return Ok(());
    }
    let width = audit.drifts.iter().map(|drift| drift.what.chars().count()).max().unwrap_or(0);
    for drift in &audit.drifts {
        say(&format!(
            "{}  {:width$}  expected {}, found {}",
            drift.tenant, drift.what, drift.expected, drift.found
        ));
    }
    Err(format!("{} numbers disagree in the books of {tenants} accounts", audit.drifts.len()).into())
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
