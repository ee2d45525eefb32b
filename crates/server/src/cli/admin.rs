//! `auspex admin`: commands for operators, which work on the database whether or not the service is running.

mod doctor;
mod queues;

use std::io::{IsTerminal as _, Read as _};

use clap::Subcommand;
use model::{MemberRole, TenantId};
use service::{Audit, Clock, Queues, Random, Service, audit as audit_log};
use store::accounts::audit_log::Origin;
use uuid::Uuid;

use super::{CommandResult, print_line};
use crate::assembly::{self, assemble};
use crate::config::Config;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Manage accounts.
    #[command(subcommand)]
    Tenant(Tenant),
    /// Manage users, who sign in to the console.
    #[command(subcommand)]
    User(User),
    /// Manage API keys.
    #[command(subcommand)]
    Key(Key),
    /// Add an amount to an account's balance, or subtract it if negative, and print the balance in cents.
    Credit {
        /// The account's id.
        tenant: Uuid,
        /// The amount in cents.
        #[arg(allow_negative_numbers = true)]
        amount_cents: i64,
        /// The reason, which the account sees in its ledger.
        #[arg(long)]
        note: Option<String>,
    },
    /// Show what waits in every queue, and move on what is stuck or dead.
    Queues(queues::Arguments),
    /// Check what the deployment stands on, and say what to do; fails if something is wrong.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Recompute the balances and usage of all accounts from their ledgers, check the chains of their audit logs, and fail if
    /// anything differs.
    Audit,
    /// Move every secret in the database from the previous master key to the new one; stop the service first.
    Rekey,
}

#[derive(Subcommand)]
pub(super) enum Tenant {
    /// Open an account, with its signup credit and the default signals.
    Create {
        /// The account's name.
        name: String,
    },
    /// List every account: id, time of creation, state if it is suspended, name.
    List,
    /// Suspend an account: its keys and sessions are refused, and its jobs and deliveries wait.
    Suspend {
        /// The account's id.
        tenant: Uuid,
    },
    /// End a suspension.
    Resume {
        /// The account's id.
        tenant: Uuid,
    },
    /// Delete an account and everything that belongs to it, except for the sums of its ledger. There is no way back.
    Delete {
        /// The account's id.
        tenant: Uuid,
        /// Confirms that the account is to be deleted.
        #[arg(long, required = true)]
        yes: bool,
    },
}

#[derive(Subcommand)]
pub(super) enum User {
    /// Add a user to an account; the password is read from standard input.
    Create {
        /// The account's id.
        #[arg(long)]
        tenant: Uuid,
        /// The user's email address.
        email: String,
        /// What the user may do: viewer, analyst, admin or owner. By default, the first user of an account is its owner, and others
        /// are admins.
        #[arg(long, value_parser = parse_role)]
        role: Option<MemberRole>,
    },
    /// Turn two-factor off for a user who has lost it; their sessions end, and they are mailed.
    ResetMfa {
        /// The user's email address.
        email: String,
    },
}

#[derive(Subcommand)]
pub(super) enum Key {
    /// Create a key and print its id and secret.
    Create {
        /// The account's id.
        #[arg(long)]
        tenant: Uuid,
        /// A name of your choice.
        #[arg(long)]
        name: Option<String>,
    },
    /// Import a legacy key from before request signing; it is read from standard input.
    ImportLegacy {
        /// The account's id.
        #[arg(long)]
        tenant: Uuid,
        /// A name of your choice.
        #[arg(long, default_value = "Legacy key")]
        name: String,
    },
}

pub(super) async fn run(command: Command, config: &Config) -> CommandResult {
    if !matches!(command, Command::Doctor { .. }) {
        require_database(config)?;
    }
    match command {
        Command::Rekey => return rekey(config).await,
        Command::Doctor { json } => return doctor::run(json, config).await,
        _ => {}
    }
    let service = assemble(config, Clock::system(), Random::system()?).await?;
    let origin = Origin { at: service.clock().now(), address: None, request_id: None };
    let outcome = audit_log::acting_as_operator(origin, Box::pin(run_on(command, &service))).await;
    service.store().close().await;
    outcome
}

/// Refuses to work where there is no SQLite file: whoever forgets a setting or stands in another directory would get a new, empty
/// database.
fn require_database(config: &Config) -> Result<(), String> {
    let address = config.database_address();
    match store::sqlite_path(&address) {
        Some(path) if !path.exists() => Err(format!(
            "there is no database at {}: run this with the settings and in the directory of the service \
             (AUSPEX_DATA_DIR, AUSPEX_DATABASE_URL), or make a new one first with: auspex migrate",
            path.display()
        )),
        _ => Ok(()),
    }
}

async fn run_on(command: Command, service: &Service) -> CommandResult {
    match command {
        Command::Tenant(command) => tenant(command, service).await,
        Command::User(command) => user(command, service).await,
        Command::Key(command) => key(command, service).await,
        Command::Credit { tenant, amount_cents, note } => {
            let balance =
                service.billing.balances.adjust(TenantId(tenant), amount_cents, note.as_deref()).await;
            balance.map(|balance| print_line(&balance.to_string())).map_err(Into::into)
        }
        Command::Audit => audit(service).await,
        Command::Queues(arguments) => {
            queues::run(arguments, &Queues::new(service.store().clone(), service.clock().clone())).await
        }
        Command::Rekey | Command::Doctor { .. } => Ok(()),
    }
}

async fn rekey(config: &Config) -> CommandResult {
    let moved = assembly::rekey(config, &Clock::system(), &Random::system()?).await?;
    print_line(&format!("{moved} secrets were moved to the new master key."));
    print_line("Start the service with AUSPEX_MASTER_KEY; AUSPEX_MASTER_KEY_PREVIOUS is no longer needed.");
    Ok(())
}

async fn tenant(command: Tenant, service: &Service) -> CommandResult {
    match command {
        Tenant::Create { name } => {
            print_line(&service.accounts.operators.create_tenant(&name).await?.tenant_id.to_string());
        }
        Tenant::List => {
            for tenant in service.accounts.operators.tenants().await? {
                let state = match (tenant.suspended_at, tenant.deleting_at) {
                    (_, Some(_)) => "  (being deleted)",
                    (Some(_), None) => "  (suspended)",
                    (None, None) => "",
                };
                print_line(&format!("{}  {}{state}  {}", tenant.tenant_id, tenant.created_at, tenant.name));
            }
        }
        Tenant::Suspend { tenant } => {
            service.accounts.closure.suspend(TenantId(tenant)).await?;
            print_line("The account is suspended; every node refuses it within a second.");
        }
        Tenant::Resume { tenant } => {
            service.accounts.closure.resume(TenantId(tenant)).await?;
            print_line("The account is no longer suspended; what waited goes on within seconds.");
        }
        Tenant::Delete { tenant, .. } => {
            let rows = service.accounts.closure.delete(TenantId(tenant)).await?;
            print_line(&format!("The account is deleted with {rows} rows; the sums of its ledger are kept."));
        }
    }
    Ok(())
}

async fn user(command: User, service: &Service) -> CommandResult {
    let (tenant, email, role) = match command {
        User::Create { tenant, email, role } => (tenant, email, role),
        User::ResetMfa { email } => {
            service.accounts.operators.reset_mfa(&email).await?;
            print_line("For this user, two-factor is off and all sessions have ended.");
            return Ok(());
        }
    };
    let password = read_secret("password")?;
    print_line(&format!(
        "{}",
        service.accounts.operators.create_user(TenantId(tenant), &email, &password, role).await?
    ));
    Ok(())
}

fn parse_role(text: &str) -> Result<MemberRole, String> {
    let known = MemberRole::ALL.into_iter().find(|role| role.as_str() == text);
    known.ok_or_else(|| "it must be viewer, analyst, admin or owner".to_owned())
}

async fn key(command: Key, service: &Service) -> CommandResult {
    match command {
        Key::Create { tenant, name } => {
            let created = service.accounts.operators.create_key_for(TenantId(tenant), name).await?;
            print_line(&format!("key    {}", created.key));
            print_line(&format!("secret {}", created.secret));
        }
        Key::ImportLegacy { tenant, name } => {
            let tenant = service.accounts.operators.require_tenant(TenantId(tenant)).await?;
            let key = service
                .accounts
                .keys
                .import_legacy(tenant.tenant_id, &name, &read_secret("old key")?)
                .await?;
            print_line(&format!("key    {}", key.key));
        }
    }
    Ok(())
}

async fn audit(service: &Service) -> CommandResult {
    let log = service.accounts.audit_log.check().await?;
    for (tenant, reason) in &log.breaks {
        print_line(&format!("{tenant}  audit log: {reason}"));
    }
    let books = print_audit(&service.billing.audit.run().await?);
    if !log.breaks.is_empty() {
        return Err(format!("the audit logs of {} accounts were altered", log.breaks.len()).into());
    }
    print_line(&format!("The audit logs with {} lines are unaltered.", log.lines));
    books
}

/// Prints the result of an audit; one that found something is a failure.
pub(super) fn print_audit(audit: &Audit) -> CommandResult {
    let (tenants, lines) = (audit.tenants, audit.lines);
    if audit.drifts.is_empty() {
        print_line(&format!("The ledgers of {tenants} accounts with {lines} entries are consistent."));
        return Ok(());
    }
    let width = audit.drifts.iter().map(|drift| drift.what.chars().count()).max().unwrap_or(0);
    for drift in &audit.drifts {
        print_line(&format!(
            "{}  {:width$}  expected {}, found {}",
            drift.tenant, drift.what, drift.expected, drift.found
        ));
    }
    Err(format!("{} numbers disagree in the books of {tenants} accounts", audit.drifts.len()).into())
}

/// Reads a secret from standard input: arguments show up in process lists and shell histories.
fn read_secret(what: &str) -> std::io::Result<String> {
    if std::io::stdin().is_terminal() {
        eprintln!("Type the {what} and end with Ctrl-D:");
    }
    let mut secret = String::new();
    std::io::stdin().read_to_string(&mut secret)?;
    Ok(secret.trim_end_matches(['\r', '\n']).to_owned())
}
