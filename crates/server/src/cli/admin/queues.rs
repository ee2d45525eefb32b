//! `auspex admin queues`: what waits, and moving on what is stuck.

use clap::{Args, Subcommand, ValueEnum};
use model::TenantId;
use service::{QueueReport, Queues, WorkKind};
use store::upkeep::queues::Selection;
use uuid::Uuid;

use super::super::table::Table;
use super::super::{CommandResult, print_json, print_line};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct Arguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
pub(in crate::cli) enum Action {
    /// Make stuck or dead work due now, with all of its attempts.
    Requeue(Chosen),
    /// Remove stuck or dead work; a delivery that still waits becomes a dead letter.
    Drop(Chosen),
}

#[derive(Args)]
pub(in crate::cli) struct Chosen {
    /// What kind of work.
    kind: Kind,
    /// Only that of this account.
    #[arg(long, required_unless_present = "all")]
    tenant: Option<Uuid>,
    /// Only this one: an object's id with `analyses`, otherwise the id of the delivery or message.
    #[arg(long, requires = "tenant")]
    id: Option<String>,
    /// That of all accounts.
    #[arg(long, conflicts_with_all = ["tenant", "id"])]
    all: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(in crate::cli) enum Kind {
    /// Analyses that were tried before and failed.
    Analyses,
    /// Webhook deliveries that wait.
    Deliveries,
    /// Deliveries that were given up.
    DeadLetters,
    /// Emails that wait.
    Mails,
    /// Chat messages that wait.
    Chats,
}

impl Kind {
    fn work(self) -> WorkKind {
        match self {
            Self::Analyses => WorkKind::Analyses,
            Self::Deliveries => WorkKind::Deliveries,
            Self::DeadLetters => WorkKind::DeadLetters,
            Self::Mails => WorkKind::Mails,
            Self::Chats => WorkKind::Chats,
        }
    }
}

impl Chosen {
    fn selection(&self) -> Result<Selection, String> {
        let Some(tenant) = self.tenant else { return Ok(Selection::all()) };
        let of_tenant = Selection::of_tenant(TenantId(tenant));
        match (&self.id, self.kind) {
            (None, _) => Ok(of_tenant),
            (Some(object), Kind::Analyses) => Ok(of_tenant.with_object(object)),
            (Some(id), _) => {
                let id =
                    id.parse().map_err(|_| format!("--id: {id} is not the id of a delivery or a message"))?;
                Ok(of_tenant.with_id(id))
            }
        }
    }
}

pub(super) async fn run(arguments: Arguments, queues: &Queues) -> CommandResult {
    match arguments.action {
        None => {
            let report = queues.report().await?;
            if arguments.json { print_json(&report)? } else { print(&report) }
        }
        Some(Action::Requeue(chosen)) => {
            let moved = queues.requeue(chosen.kind.work(), &chosen.selection()?).await?;
            print_line(&format!("{moved} queued again."));
        }
        Some(Action::Drop(chosen)) => {
            let dropped = queues.drop_work(chosen.kind.work(), &chosen.selection()?).await?;
            print_line(&format!("{dropped} dropped."));
        }
    }
    Ok(())
}

fn print(report: &QueueReport) {
    let mut table = Table::new(&[
        "queue",
        "waiting",
        "due",
        "oldest due since",
        "leased",
        "retried",
        "suspect",
        "parked",
    ]);
    for queue in &report.queues {
        let state = &queue.state;
        table.row([
            queue.name.to_owned(),
            state.waiting.to_string(),
            state.due.to_string(),
            state.oldest_due.map(|at| at.to_string()).unwrap_or_default(),
            state.leased.to_string(),
            state.retried.to_string(),
            state.suspect.to_string(),
            state.parked.to_string(),
        ]);
    }
    table.print();
    print_line(&format!("{} bulk runs, {} dead letters", report.bulk_runs, report.dead_letters));
    if report.failing_endpoints.is_empty() {
        return;
    }
    print_line("");
    let mut table =
        Table::new(&["failing endpoint", "account", "failures", "rests until", "waiting", "dead"]);
    for endpoint in &report.failing_endpoints {
        table.row([
            endpoint.endpoint_id.to_string(),
            endpoint.tenant_id.to_string(),
            endpoint.consecutive_failures.to_string(),
            endpoint.resting_until.map(|at| at.to_string()).unwrap_or_default(),
            endpoint.waiting.to_string(),
            endpoint.dead.to_string(),
        ]);
    }
    table.print();
}
