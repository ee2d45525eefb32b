//! What findings mean: from what was measured to a state and a sentence that says what to do.
//!
//! The limits are those of the column "investigate when" in docs/operations.md.

use std::time::Duration;

use model::api::HealthPart;
use model::api::HealthState::{self, Bad, Good, Worry};
use store::upkeep::gauges::COUNT_LIMIT;
use store::upkeep::queues::QueueState;

use crate::analysis::CallCounts;

/// Analyses that are due may wait this long.
const LAG: Duration = Duration::from_mins(1);
/// Beyond this, answers are useless for most.
const HOPELESS_LAG: Duration = Duration::from_mins(10);
/// Mails and deliveries that are due may wait this long.
const DUE: Duration = Duration::from_mins(5);
/// Beyond this, nobody sends them.
const UNSENT: Duration = Duration::from_mins(30);
/// An answer of the database that is slower than this is worth a look.
const SLOW: Duration = Duration::from_millis(500);
/// A difference of clocks that is worth a look, and one that is wrong, in seconds.
const CLOCK_OFFSETS: (f64, f64) = (0.5, 2.0);
/// Calls of the analyzer below which a share says nothing.
const FEW_CALLS: usize = 5;
/// Accounts with a resting endpoint from which on it is hardly the receivers' fault.
const MANY_ACCOUNTS: i64 = 3;

/// What a queue holds, and how long the oldest that is due has waited.
pub(super) struct Waiting<'a> {
    pub(super) name: &'static str,
    pub(super) state: &'a QueueState,
    pub(super) late: Duration,
}

pub(super) fn part(state: HealthState, advice: impl Into<String>) -> HealthPart {
    HealthPart { state, advice: advice.into() }
}

pub(super) fn queues(queues: &[Waiting<'_>]) -> HealthPart {
    let suspect: i64 = queues.iter().map(|queue| queue.state.suspect).sum();
    if suspect > 0 {
        let advice = format!(
            "{} begun by a process that never ended it. After five such ends it is given up; look into the log for crashes, \
             and at it with `auspex admin queues`.",
            counted(suspect, "piece of work was", "pieces of work were")
        );
        return part(Worry, advice);
    }
    if let Some(full) = queues.iter().find(|queue| queue.state.waiting >= COUNT_LIMIT) {
        let advice = format!(
            "{COUNT_LIMIT} or more {} wait. Add workers (AUSPEX_WORKERS) or nodes if they do not become fewer; `auspex admin \
             queues` shows what waits.",
            full.name
        );
        return part(Worry, advice);
    }
    let waiting: i64 = queues.iter().map(|queue| queue.state.waiting).sum();
    let parked: i64 = queues.iter().map(|queue| queue.state.parked).sum();
    match (waiting, parked) {
        (0, _) => part(Good, "Nothing waits."),
        (_, 0) => part(Good, format!("{} in all queues.", counted(waiting, "waits", "wait"))),
        _ => part(
            Good,
            format!(
                "{} in all queues, {parked} of them for money or for the end of a suspension.",
                counted(waiting, "waits", "wait")
            ),
        ),
    }
}

pub(super) fn lag(late: Duration) -> HealthPart {
    let advice = format!(
        "The oldest analysis has been due for {}. Add workers (AUSPEX_WORKERS) or nodes, or check the analyzer.",
        spoken(late)
    );
    match late {
        late if late > HOPELESS_LAG => part(Bad, advice),
        late if late > LAG => part(Worry, advice),
        _ => part(Good, "Analyses begin within a minute of being due."),
    }
}

pub(super) fn analyzer(model: &str, calls: CallCounts, retried: i64) -> HealthPart {
    if let Some(part) = failing_analyzer(model, "AUSPEX_ANALYZER_URL", calls) {
        return part;
    }
    if retried > 0 {
        let advice = format!(
            "{} to be tried again. If that goes on, look into the log for what the analyzer says.",
            counted(retried, "analysis failed and is", "analyses failed and are")
        );
        return part(Worry, advice);
    }
    match calls.calls {
        0 => part(
            Good,
            format!(
                "This process has not called {model} in the last ten minutes, and no analysis is retried."
            ),
        ),
        _ => answering(model, calls),
    }
}

/// While it does not answer, nothing is retried: the first answers stand.
pub(super) fn second_analyzer(model: &str, calls: CallCounts) -> HealthPart {
    if let Some(failing) = failing_analyzer(model, "AUSPEX_ESCALATE_URL", calls) {
        let advice = format!("{} Meanwhile the first answers stand.", failing.advice);
        return part(Worry, advice);
    }
    match calls.calls {
        0 => part(Good, format!("This process has not called {model} in the last ten minutes.")),
        _ => answering(model, calls),
    }
}

fn answering(model: &str, CallCounts { calls, failed, throttled }: CallCounts) -> HealthPart {
    part(Good, format!("{model} answered {} of the last {calls} calls.", calls - failed - throttled))
}

/// An analyzer that fails or refuses too many calls.
fn failing_analyzer(
    model: &str,
    setting: &str,
    CallCounts { calls, failed, throttled }: CallCounts,
) -> Option<HealthPart> {
    let is_enough = calls >= FEW_CALLS;
    if is_enough && failed * 10 > calls {
        let advice = format!(
            "{failed} of the last {calls} calls of {model} failed or found it down. Check its server and {setting}; \
             the log names the errors."
        );
        return Some(part(if failed * 2 > calls { Bad } else { Worry }, advice));
    }
    if is_enough && throttled * 2 > calls {
        let advice = format!(
            "{model} refused {throttled} of the last {calls} calls because there were too many. Raise the limit at the provider, or \
             lower AUSPEX_WORKERS."
        );
        return Some(part(Worry, advice));
    }
    None
}

/// Deliveries by how late they are, and in how many accounts an endpoint rests.
pub(super) fn deliveries(queue: &Waiting<'_>, resting_accounts: i64) -> HealthPart {
    if queue.late > DUE {
        let advice = format!(
            "The oldest delivery has been due for {}. Check that a node with the role `worker` or `all` runs.",
            spoken(queue.late)
        );
        return part(if queue.late > UNSENT { Bad } else { Worry }, advice);
    }
    if resting_accounts >= MANY_ACCOUNTS {
        let advice = format!(
            "Endpoints of {resting_accounts} accounts fail at once. Check that this network lets requests out; `auspex admin queues` \
             lists the endpoints."
        );
        return part(Worry, advice);
    }
    match queue.state.waiting {
        0 => part(Good, "Everything is delivered."),
        waiting => part(Good, format!("{}.", counted(waiting, "delivery waits", "deliveries wait"))),
    }
}

pub(super) fn mail(queue: &Waiting<'_>, is_sent: bool) -> HealthPart {
    let QueueState { waiting, retried, .. } = *queue.state;
    if !is_sent {
        return part(
            Worry,
            "Mail is written to files, so nobody receives any. Set AUSPEX_SMTP_URL to send it.",
        );
    }
    if queue.late > DUE {
        let advice = format!(
            "The oldest mail has been due for {}. Check that a node with the role `worker` or `all` runs.",
            spoken(queue.late)
        );
        return part(if queue.late > UNSENT { Bad } else { Worry }, advice);
    }
    if retried > 0 {
        let advice = format!(
            "{} not be sent yet; password resets are affected too. Check AUSPEX_SMTP_URL with `auspex admin doctor`.",
            counted(retried, "mail could", "mails could")
        );
        return part(if retried == waiting && retried >= 10 { Bad } else { Worry }, advice);
    }
    part(
        Good,
        if waiting == 0 {
            "Everything is sent.".to_owned()
        } else {
            format!("{}.", counted(waiting, "mail waits", "mails wait"))
        },
    )
}

/// The database: how long it took, connections in use and admitted, how far the host's clock is ahead of its, in seconds, and
/// why it takes no writes, if it does not.
pub(super) fn database(
    version: &str,
    took: Duration,
    connections: Option<(i64, i64)>,
    clock_offset_s: Option<f64>,
    refusal: Option<&str>,
) -> HealthPart {
    if let Some(reason) = refusal {
        return part(Bad, format!("It is not ready: {reason}. Look at its log and its disk."));
    }
    let offset = clock_offset_s.unwrap_or_default().abs();
    if offset > CLOCK_OFFSETS.0 {
        let advice = format!(
            "The clock of this host is {offset:.1} s off the database's. Synchronize both (NTP); until then, nothing goes by this host's."
        );
        return part(if offset > CLOCK_OFFSETS.1 { Bad } else { Worry }, advice);
    }
    if let Some((used, admitted)) = connections
        && used * 10 > admitted * 9
    {
        let advice = format!(
            "{used} of {admitted} connections are in use. Raise max_connections, or run fewer processes."
        );
        return part(Worry, advice);
    }
    if took > SLOW {
        let advice = format!(
            "{version} took {} ms to answer. Look for slow disks and long statements; auspex_store_transaction_seconds shows since when.",
            took.as_millis()
        );
        return part(Worry, advice);
    }
    part(Good, format!("{version} answers within {} ms.", SLOW.as_millis()))
}

/// Nodes with a heartbeat, those that went silent, and the loops of this process that keep failing.
pub(super) fn nodes(live: i64, silent: i64, failing_workers: &[&str]) -> HealthPart {
    if let Some(worker) = failing_workers.first() {
        let advice = format!(
            "The worker \"{worker}\" of this process has failed five times within a minute. The log has the panic; restart the process."
        );
        return part(Bad, advice);
    }
    if silent > 0 {
        let advice = format!(
            "{} without saying so. Its work is taken over; look at why it ended.",
            counted(silent, "node has stopped", "nodes have stopped")
        );
        return part(Worry, advice);
    }
    part(Good, format!("{} running.", counted(live, "node is", "nodes are")))
}

fn counted(number: i64, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

fn spoken(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} minutes", seconds / 60),
        seconds => format!("{} hours", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: QueueState =
        QueueState { waiting: 0, due: 0, oldest_due: None, leased: 0, retried: 0, suspect: 0, parked: 0 };

    fn queue(state: &QueueState, late_s: u64) -> Waiting<'_> {
        Waiting { name: "analyses", state, late: Duration::from_secs(late_s) }
    }

    #[track_caller]
    fn assert_part(part: &HealthPart, state: HealthState, words: &str) {
        assert_eq!(part.state, state, "{}", part.advice);
        assert!(part.advice.contains(words), "{:?} in {:?}", words, part.advice);
        assert!(part.advice.ends_with('.'), "a sentence: {}", part.advice);
    }

    #[test]
    fn queues_worry_about_crashes_and_overflow() {
        assert_part(&queues(&[queue(&IDLE, 0)]), Good, "Nothing waits");
        let busy = QueueState { waiting: 7, parked: 2, ..IDLE };
        assert_part(&queues(&[queue(&busy, 0)]), Good, "7 wait in all queues, 2 of them for money");
        let suspect = QueueState { waiting: 1, suspect: 1, ..IDLE };
        assert_part(&queues(&[queue(&IDLE, 0), queue(&suspect, 0)]), Worry, "auspex admin queues");
        let full = QueueState { waiting: COUNT_LIMIT, ..IDLE };
        assert_part(&queues(&[queue(&full, 0)]), Worry, "AUSPEX_WORKERS");
    }

    #[test]
    fn lag_worries_after_a_minute() {
        assert_part(&lag(LAG), Good, "within a minute");
        assert_part(&lag(Duration::from_secs(61)), Worry, "61 s");
        assert_part(&lag(Duration::from_mins(11)), Bad, "11 minutes");
        assert_part(&lag(Duration::from_hours(3)), Bad, "3 hours");
    }

    #[test]
    fn the_analyzer_is_judged_by_its_share_of_failures() {
        let counts = |calls, failed, throttled| CallCounts { calls, failed, throttled };
        assert_part(&analyzer("m", counts(0, 0, 0), 0), Good, "has not called m");
        assert_part(&analyzer("m", counts(20, 2, 0), 0), Good, "answered 18 of the last 20");
        assert_part(&analyzer("m", counts(20, 3, 0), 0), Worry, "AUSPEX_ANALYZER_URL");
        assert_part(&analyzer("m", counts(20, 11, 0), 0), Bad, "11 of the last 20");
        assert_part(&analyzer("m", counts(4, 4, 0), 0), Good, "answered 0");
        assert_part(&analyzer("m", counts(20, 0, 11), 0), Worry, "Raise the limit");
        assert_part(&analyzer("m", counts(0, 0, 0), 3), Worry, "3 analyses failed");
    }

    #[test]
    fn deliveries_and_mail_worry_about_what_nobody_sends() {
        let waiting = QueueState { waiting: 2, retried: 1, ..IDLE };
        assert_part(&deliveries(&queue(&IDLE, 0), 2), Good, "delivered");
        assert_part(&deliveries(&queue(&waiting, 300), 0), Good, "2 deliveries wait");
        assert_part(&deliveries(&queue(&waiting, 301), 0), Worry, "`worker`");
        assert_part(&deliveries(&queue(&waiting, 1_801), 0), Bad, "30 minutes");
        assert_part(&deliveries(&queue(&waiting, 0), 3), Worry, "3 accounts");
        assert_part(&mail(&queue(&IDLE, 0), false), Worry, "AUSPEX_SMTP_URL");
        assert_part(&mail(&queue(&IDLE, 0), true), Good, "sent");
        assert_part(&mail(&queue(&waiting, 0), true), Worry, "1 mail could not be sent");
        let stuck = QueueState { waiting: 10, retried: 10, ..IDLE };
        assert_part(&mail(&queue(&stuck, 0), true), Bad, "password resets");
        assert_part(&mail(&queue(&IDLE, 301), true), Worry, "5 minutes");
    }

    #[test]
    fn the_database_and_nodes_say_what_is_wrong() {
        let quick = Duration::from_millis(3);
        let judged = |connections, offset| database("SQLite 3", quick, connections, offset, None);
        assert_part(&judged(Some((90, 100)), Some(-0.5)), Good, "SQLite 3");
        assert_part(&judged(Some((91, 100)), None), Worry, "max_connections");
        assert_part(&judged(None, Some(-0.6)), Worry, "NTP");
        assert_part(&judged(None, Some(2.1)), Bad, "2.1 s");
        assert_part(&database("SQLite 3", Duration::from_secs(1), None, None, None), Worry, "1000 ms");
        assert_part(&database("", quick, None, None, Some("the database takes no writes")), Bad, "no writes");
        assert_part(&nodes(1, 0, &[]), Good, "1 node is running");
        assert_part(&nodes(2, 1, &[]), Worry, "1 node has stopped");
        assert_part(&nodes(2, 1, &["courier"]), Bad, "courier");
    }
}
