//! A round: load and faults, then peace until the work is done, then the checks.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::check::{self, Checked, Known, KnownEndpoint};
use crate::database::Waiting;
use crate::journal::Journal;
use crate::load::Load;
use crate::peer::Manner;
use crate::plan::{self, Action, Fault, Weather};
use crate::receiver::Role;
use crate::system::System;
use crate::{Result, say, system};

/// How long the load goes on after the last fault.
const AFTER: Duration = Duration::from_secs(3);
/// How long the work may take that is left when the faults are lifted: the longest rest of an endpoint (15 s at these settings),
/// the retries of a job (5, 10, 20 s), the leases that must expire (8 s), and a busy machine.
const SETTLE: Duration = Duration::from_secs(75);
/// How long a node without a fault of its own may acknowledge nothing while it is asked: what is promised is 10 s.
const SILENCE: Duration = Duration::from_secs(15);
/// How long a node may take to come back after a fault of its own.
const RECOVERY: Duration = Duration::from_secs(10);
/// How many objects are read at each node, and how long a node may show what was before or refuse: one on SQLite that was
/// started with a wrong clock corrects it after ten seconds, and until then no signature is in its time.
const READS: usize = 5;
const STALE: Duration = Duration::from_secs(30);
/// The connections that a node may have to PostgreSQL.
const CONNECTIONS: i64 = 20;
/// How many of the failures are shown.
const SHOWN: usize = 12;

/// What a round has shown.
pub(crate) struct Outcome {
    pub(crate) faults: usize,
    pub(crate) checked: Checked,
    pub(crate) wrong: Vec<String>,
}

/// When a fault struck a node, or all.
#[derive(Clone, Copy)]
pub(crate) struct Strike {
    pub(crate) node: Option<usize>,
    pub(crate) from: Instant,
    pub(crate) to: Instant,
}

/// Runs a round.
pub(crate) async fn run(
    system: &Arc<System>,
    journal: &Arc<Journal>,
    seed: u64,
    round: usize,
) -> Result<Outcome> {
    let name = system.backend.name();
    let faults = plan::draw(seed, name, round, &system.kinds, system.nodes.len());
    let shown: Vec<String> = faults.iter().map(Fault::to_string).collect();
    say(&format!("{name} round {round}: {}", shown.join("; ")));
    refill_poor(system).await?;
    let begun = Instant::now();
    let mut wrong = Vec::new();
    let strikes = disturb(system, journal, &faults, seed, round, &mut wrong).await;
    lift(system)?;
    wrong.extend(silences(system.nodes.len(), begun, Instant::now(), &strikes, &journal.take_acknowledged()));
    conclude(system, journal, &format!("{name} round {round}"), Instant::now(), faults.len(), wrong).await
}

/// Waits until what is left of a round is done, and checks everything.
pub(crate) async fn conclude(
    system: &System,
    journal: &Journal,
    name: &str,
    lifted: Instant,
    faults: usize,
    mut wrong: Vec<String>,
) -> Result<Outcome> {
    if let Err(error) = system.wait_until_ready().await {
        wrong.push(error.to_string());
    }
    wrong.extend(settle(system, lifted).await?);
    let settled = lifted.elapsed();
    wrong.extend(journal.take_oddities());
    for node in &system.nodes {
        wrong.extend(node.take_crashes().into_iter().map(|crash| format!("{}: {crash}", node.url)));
    }
    let (checked, found) = check_all(system, journal).await?;
    wrong.extend(found);
    wrong.extend(check_connections(system).await?);
    wrong.extend(check_reads(system).await?);
    if let Err(error) = system.admin(&["audit"]).await {
        wrong.push(error.to_string());
    }
    let exits: u64 = system.nodes.iter().map(crate::node::Node::exits).sum();
    let Checked { events, analyses, firings, deliveries, dead } = checked;
    say(&format!(
        "{name}: responses {}; settled in {:.1} s; in all {events} events, {analyses} analyses, {firings} firings, \
         {deliveries} deliveries ({dead} dead), {exits} failed starts; {}",
        journal.take_statuses(),
        settled.as_secs_f64(),
        if wrong.is_empty() { "everything holds".to_owned() } else { format!("{} FAILURES", wrong.len()) },
    ));
    for failure in wrong.iter().take(SHOWN) {
        say(&format!("{name}: {failure}"));
    }
    Ok(Outcome { faults, checked, wrong })
}

/// Gives the poor tenant money for some analyses, so that work that waits for money goes on.
pub(crate) async fn refill_poor(system: &System) -> Result<()> {
    for tenant in system.tenants.iter().filter(|tenant| tenant.is_poor) {
        system.admin(&["credit", &tenant.id.to_string(), "20"]).await?;
    }
    Ok(())
}

/// Runs the load and the faults, until the last of them is over.
async fn disturb(
    system: &Arc<System>,
    journal: &Arc<Journal>,
    faults: &[Fault],
    seed: u64,
    round: usize,
    wrong: &mut Vec<String>,
) -> Vec<Strike> {
    let (load, tasks) = (Load::start(system, journal, seed, round), TaskTracker::new());
    let struck: Vec<_> = faults
        .iter()
        .map(|fault| {
            let (system, fault) = (Arc::clone(system), *fault);
            tasks.spawn(async move { strike(&system, fault).await })
        })
        .collect();
    let mut strikes = Vec::new();
    for one in struck {
        match one.await {
            Ok((strike, outcome)) => {
                strikes.extend(strike);
                if let Err(error) = outcome {
                    wrong.push(error.to_string());
                }
            }
            Err(error) => wrong.push(error.to_string()),
        }
    }
    tokio::time::sleep(AFTER).await;
    load.stop().await;
    strikes
}

/// Waits until a fault is due, applies it, and lifts it again.
async fn strike(system: &System, fault: Fault) -> (Option<Strike>, Result<()>) {
    tokio::time::sleep(fault.begins).await;
    let from = Instant::now();
    let outcome = apply(system, fault).await;
    let node = (!fault.strikes_all()).then_some(fault.node);
    (fault.stops_nodes().then(|| Strike { node, from, to: Instant::now() }), outcome)
}

async fn apply(system: &System, fault: Fault) -> Result<()> {
    let node = &system.nodes[fault.node];
    let pass = || tokio::time::sleep(fault.lasts);
    match fault.action {
        Action::Kill => {
            node.kill().await;
            pass().await;
            node.start()?;
        }
        Action::Terminate => {
            let ended = node.terminate().await;
            pass().await;
            node.start()?;
            ended?;
        }
        Action::Freeze => {
            node.signal("STOP").await;
            pass().await;
            node.signal("CONT").await;
        }
        Action::Weather(weather) => {
            node.set_weather(weather);
            pass().await;
            node.set_weather(Weather::Fair);
        }
        Action::RestartDatabase => {
            if let Some(postgres) = &system.postgres {
                postgres.restart().await?;
            }
        }
        Action::Clock(offset) => {
            node.set_clock(offset)?;
            pass().await;
            node.set_clock(0)?;
        }
        Action::FillDisk => {
            system.disk.fill()?;
            pass().await;
            system.disk.empty()?;
        }
        Action::Receivers(manner) => {
            set_receivers(system, manner);
            pass().await;
            set_receivers(system, Manner::Honest);
        }
        Action::Analyzer(manner) => {
            system.analyzer.set(manner);
            pass().await;
            system.analyzer.set(Manner::Honest);
        }
    }
    Ok(())
}

fn set_receivers(system: &System, manner: Manner) {
    let endpoints = system.tenants.iter().flat_map(|tenant| &tenant.endpoints);
    for endpoint in endpoints.filter(|endpoint| endpoint.receiver.role == Role::Moody) {
        endpoint.receiver.set(manner);
    }
}

/// Ends what overlapping faults may have left.
fn lift(system: &System) -> Result<()> {
    for node in &system.nodes {
        node.start()?;
    }
    Ok(())
}

/// Nodes that acknowledged nothing for too long although no fault struck them.
pub(crate) fn silences(
    nodes: usize,
    begun: Instant,
    ended: Instant,
    strikes: &[Strike],
    acknowledged: &[(usize, Instant)],
) -> Vec<String> {
    let mut found = Vec::new();
    for node in 0..nodes {
        let own = strikes.iter().filter(|strike| strike.node.is_none_or(|struck| struck == node));
        // While it is struck it owes nothing.
        let mut marks: Vec<(Instant, Instant)> =
            own.map(|strike| (strike.from, strike.to + RECOVERY)).collect();
        let times = acknowledged.iter().filter(|(by, _)| *by == node).map(|(_, at)| (*at, *at));
        marks.extend(times);
        marks.sort_unstable();
        marks.push((ended, ended));
        let mut last = begun;
        for (from, to) in marks {
            let silent = from.saturating_duration_since(last);
            if silent > SILENCE {
                let at = last.duration_since(begun).as_secs_f64();
                found.push(format!(
                    "node {node} acknowledged nothing for {:.1} s from {at:.1} s on",
                    silent.as_secs_f64()
                ));
            }
            last = last.max(to);
        }
    }
    found
}

/// Waits until nothing waits any more.
async fn settle(system: &System, lifted: Instant) -> Result<Vec<String>> {
    let silent = system.silent_endpoint();
    loop {
        let waiting = system.database.waiting(silent).await;
        match waiting {
            Ok(Waiting::NOTHING) => return Ok(Vec::new()),
            Ok(waiting) if lifted.elapsed() > SETTLE => {
                return Ok(vec![format!(
                    "{} s after the last fault there still waits: {waiting:?}",
                    SETTLE.as_secs()
                )]);
            }
            Err(error) if lifted.elapsed() > SETTLE => return Err(error),
            _ => tokio::time::sleep(Duration::from_millis(500)).await,
        }
    }
}

async fn check_all(system: &System, journal: &Journal) -> Result<(Checked, Vec<String>)> {
    let (sent, calls) = (journal.sent(), system.analyzer.calls());
    let (mut all, mut wrong) = (Checked::default(), Vec::new());
    for (number, tenant) in system.tenants.iter().enumerate() {
        let known = Known {
            sent: sent.iter().filter(|sent| sent.tenant == number).collect(),
            calls: &calls,
            is_poor: tenant.is_poor,
            rules: tenant.rules,
            endpoints: tenant
                .endpoints
                .iter()
                .map(|endpoint| KnownEndpoint {
                    id: endpoint.id,
                    role: endpoint.receiver.role,
                    accepted: endpoint.receiver.accepted(),
                })
                .collect(),
            nodes: system.nodes.len(),
        };
        let (checked, found) = check::check(&known, &system.database.rows(tenant.id).await?);
        all = all + checked;
        wrong.extend(found.into_iter().map(|failure| format!("tenant {number}: {failure}")));
        let receivers = tenant.endpoints.iter().map(|endpoint| &endpoint.receiver);
        wrong.extend(receivers.flat_map(|receiver| receiver.forged()));
    }
    Ok((all, wrong))
}

/// On PostgreSQL every node is known by its name, and has no more connections than it may.
async fn check_connections(system: &System) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let Some(connections) = system.database.connections().await? else { return Ok(wrong) };
    for name in (0..system.nodes.len()).map(system::node_name) {
        let count = connections.get(&name).copied().unwrap_or(0);
        if !(1..=CONNECTIONS).contains(&count) {
            wrong.push(format!("{name} has {count} connections"));
        }
    }
    Ok(wrong)
}

/// Every node shows what is in the database, however long it caches.
async fn check_reads(system: &System) -> Result<Vec<String>> {
    let tenant = &system.tenants[0];
    let rows = system.database.rows(tenant.id).await?;
    let mut wrong = Vec::new();
    for (number, node) in system.nodes.iter().enumerate() {
        for (object_id, event_count) in rows.objects.iter().take(READS) {
            let path = format!("/v1/objects/{object_id}");
            let begun = Instant::now();
            loop {
                let read = system.http.call(&node.url, tenant, "GET", &path, None, &Value::Null).await;
                let found = read.map(|read| read.body["event_count"].as_i64()).unwrap_or_default();
                if found == Some(*event_count) {
                    break;
                }
                if begun.elapsed() > STALE {
                    wrong.push(format!(
                        "node {number} shows {found:?} events of {object_id}, not {event_count}"
                    ));
                    break;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_a_fault_must_go_on() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let strikes = [Strike { node: Some(0), from: at(5), to: at(30) }];
        // Node 0 is excused until it has recovered, node 1 is not.
        let acknowledged = [(0, at(4)), (1, at(4)), (0, at(50)), (1, at(28)), (1, at(40)), (1, at(50))];
        assert_eq!(
            silences(2, begun, at(55), &strikes, &acknowledged),
            ["node 1 acknowledged nothing for 24.0 s from 4.0 s on"]
        );
        let all = [Strike { node: None, ..strikes[0] }];
        assert!(silences(2, begun, at(55), &all, &acknowledged).is_empty());
        assert_eq!(silences(1, begun, at(80), &strikes, &acknowledged).len(), 1, "at the end");
    }
}
