//! The queue of analyses with many schedulers: who waits how long, and what claiming asks of the database.
//!
//! A scheduler does what `service/src/analysis/scheduler.rs` does: it looks whether something is due, claims for its free slots
//! in turn among the tenants (with the service's own `Turns` and `Cursor`), and polls again when it may have missed something. The
//! database is ideal: each round trip takes the same time, however much is asked of it. How much is asked is the result.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use model::TenantId;
use service::runtime::{Cursor, Turns};
use uuid::Uuid;

use super::design::Design;
use super::present::Present;
use super::random::{Random, Tenants};

const SECOND: u64 = 1_000_000;
/// Polls and claims count from here on: by then the queue has its length.
const WARM_UP: u64 = 5 * SECOND;
/// How long a process that was killed is away.
const AWAY: u64 = 2 * SECOND;
/// Round trips that read histories and questions after a claim.
const READS: u64 = 6;

/// What to simulate.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) nodes: usize,
    /// The analyses that are asked for, in shares of what all slots can do.
    pub(super) load: f64,
    pub(super) seconds: u64,
    /// Processes that are killed, five seconds after the start.
    pub(super) killed: usize,
    pub(super) jump: Jump,
}

/// Where a scheduler goes on after a claim in vain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Jump {
    /// Where it was: it follows the others.
    Nowhere,
    /// Anywhere between two tenants that it has served: the service's.
    Between,
    /// After any tenant, each as likely as the others.
    Anywhere,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) asked: usize,
    pub(super) done: usize,
    pub(super) running: usize,
    pub(super) waiting: usize,
    /// Leases that expired because their process was killed.
    pub(super) expired: usize,
    /// Analyses that were done twice or by nobody that held them: there must be none.
    pub(super) doubled: usize,
    pub(super) polls: u64,
    /// Claims, as transactions.
    pub(super) claims: u64,
    /// Claims that others were quicker with.
    pub(super) empty_claims: u64,
    pub(super) round_trips: u64,
    /// Tenants with a job that `next_tenant` passes, each two looks into an index.
    pub(super) passed: u64,
    /// From being due to being started, in microseconds, in order: of the largest tenant and of all others.
    pub(super) largest_waits: Vec<u64>,
    pub(super) other_waits: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Leased,
    Done,
}

struct Job {
    tenant: u32,
    due: u64,
    state: State,
    /// How often it was claimed: what ends an older claim counts no more.
    claim: u32,
}

/// The jobs of a tenant.
#[derive(Default)]
struct Queue {
    due: VecDeque<u32>,
    /// Jobs in the table, due or not.
    present: u32,
    /// Until when a transaction holds jobs that others still see as due.
    locked_until: u64,
}

#[derive(Clone, Default)]
struct Node {
    in_use: usize,
    /// Whether the last poll filled all slots: a slot that is released wakes it.
    is_closed: bool,
    is_behind: bool,
    cursor: Cursor,
    busy_until: u64,
    is_woken: bool,
    /// Polls that were planned before this one are void.
    plan: u32,
    /// How often it was killed.
    life: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Asked,
    Due(u32),
    Committed(u32),
    Poll { node: u32, plan: u32 },
    Ended { node: u32, life: u32, job: u32, claim: u32 },
    Expired { job: u32, claim: u32 },
    Killed(u32),
}

struct World<'a> {
    design: &'a Design,
    case: Case,
    tenants: &'a Tenants,
    random: &'a mut Random,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    jobs: Vec<Job>,
    queues: Vec<Queue>,
    /// Tenants with a job that is due, or that looks so until a claim is committed.
    due: BTreeSet<u32>,
    /// When jobs will be due, in order.
    coming: VecDeque<u64>,
    present: Present,
    nodes: Vec<Node>,
    outcome: Outcome,
}

/// Runs the case.
pub(super) fn run(design: &Design, case: Case, tenants: &Tenants, random: &mut Random) -> Outcome {
    let mut world = World {
        design,
        case,
        tenants,
        random,
        events: BinaryHeap::new(),
        sequence: 0,
        jobs: Vec::new(),
        queues: (0..tenants.count()).map(|_| Queue::default()).collect(),
        due: BTreeSet::new(),
        coming: VecDeque::new(),
        present: Present::new(tenants.count()),
        nodes: vec![Node::default(); case.nodes],
        outcome: Outcome::default(),
    };
    world.run();
    world.outcome
}

impl World<'_> {
    fn run(&mut self) {
        self.plan(0, Event::Asked);
        for node in 0..self.case.nodes {
            // Processes do not start in step.
            let start = self.random.below(SECOND as usize) as u64;
            self.plan(start, Event::Poll { node: node as u32, plan: 0 });
        }
        for node in 0..self.case.killed.min(self.case.nodes) {
            self.plan(WARM_UP, Event::Killed(node as u32));
        }
        let end = self.case.seconds * SECOND;
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            if now > end {
                break;
            }
            self.happen(now, event);
        }
        self.count_up(end);
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn happen(&mut self, now: u64, event: Event) {
        match event {
            Event::Asked => self.ask(now),
            Event::Due(job) => {
                self.coming.pop_front();
                self.make_due(job);
            }
            Event::Committed(tenant) => {
                let queue = &self.queues[tenant as usize];
                if queue.due.is_empty() && queue.locked_until <= now {
                    self.due.remove(&tenant);
                }
            }
            Event::Poll { node, plan } if self.nodes[node as usize].plan == plan => self.poll(now, node),
            Event::Poll { .. } => {}
            Event::Ended { node, life, job, claim } => self.end(now, node, life, job, claim),
            Event::Expired { job, claim } => self.expire(job, claim),
            Event::Killed(node) => self.kill(now, node),
        }
    }

    fn ask(&mut self, now: u64) {
        let per_second = self.case.load * self.design.analyses_per_second(self.case.nodes);
        let tenant = self.tenants.draw(self.random) as u32;
        let (job, due) = (self.jobs.len() as u32, now + self.design.debounce_us);
        self.jobs.push(Job { tenant, due, state: State::Waiting, claim: 0 });
        let queue = &mut self.queues[tenant as usize];
        queue.present += 1;
        if queue.present == 1 {
            self.present.add(tenant as usize);
        }
        self.coming.push_back(due);
        self.plan(due, Event::Due(job));
        let next = now + self.random.gap(per_second);
        self.plan(next, Event::Asked);
    }

    fn make_due(&mut self, job: u32) {
        let tenant = self.jobs[job as usize].tenant;
        self.queues[tenant as usize].due.push_back(job);
        self.due.insert(tenant);
    }

    /// One poll of a scheduler: see `JobQueue::poll`.
    fn poll(&mut self, now: u64, node: u32) {
        let (poll, soon) = (self.design.poll_us, self.design.soon_us);
        let free = self.design.workers - self.nodes[node as usize].in_use;
        let was_behind = self.nodes[node as usize].is_behind;
        self.nodes[node as usize].is_closed = true;
        if free == 0 {
            return self.wait(node, now, now + poll);
        }
        let mut done_at = now;
        let mut round_trips = 0;
        if !was_behind {
            round_trips += 1;
            done_at += self.design.round_trip_us;
            if self.due.is_empty() {
                self.nodes[node as usize].is_closed = false;
                let next = self.coming.front().map_or(now + poll, |due| (*due).min(now + poll));
                self.count(now, round_trips, None);
                return self.wait(node, done_at, next);
            }
        }
        let claimed = self.claim(now, done_at, node, free);
        round_trips += claimed.round_trips;
        done_at += claimed.round_trips * self.design.round_trip_us;
        let is_behind = claimed.jobs == free;
        self.nodes[node as usize].is_behind = is_behind;
        self.nodes[node as usize].is_closed = is_behind;
        self.count(now, round_trips, Some(&claimed));
        let next = match claimed.jobs {
            0 if was_behind => now,
            0 => now + soon,
            _ if is_behind => now + poll,
            _ => now,
        };
        self.wait(node, done_at, next);
    }

    /// Plans the next poll of a scheduler that is busy until `done_at`.
    fn wait(&mut self, node: u32, done_at: u64, next: u64) {
        let state = &mut self.nodes[node as usize];
        state.busy_until = done_at;
        state.plan += 1;
        let plan = state.plan;
        let at = if std::mem::take(&mut state.is_woken) { done_at } else { next.max(done_at) };
        self.plan(at.max(1), Event::Poll { node, plan });
    }

    /// Claims live jobs in turn among the tenants: see `claim_in_turn`. There are no bulk jobs, which takes one statement to see.
    fn claim(&mut self, now: u64, begun: u64, node: u32, free: usize) -> Claimed {
        let mut turns = Turns::after(self.nodes[node as usize].cursor.after(), free);
        let mut claimed = Claimed { jobs: 0, round_trips: 2, transactions: 1, passed: 0 };
        while let Some(after) = turns.next_after() {
            let after = number_of(after);
            let next = self.due.range(after..).next().copied();
            let until = next.map_or(self.queues.len(), |tenant| tenant as usize + 1);
            claimed.passed += self.present.between(after as usize, until);
            claimed.round_trips += 1;
            turns.take(next.map(id_of));
        }
        let tenants: Vec<u32> = turns.tenants().iter().map(|tenant| number_of(*tenant) - 1).collect();
        let mut taken = Vec::new();
        for (index, tenant) in tenants.iter().enumerate() {
            let share = turns.share(index, free - taken.len()) as usize;
            let queue = &mut self.queues[*tenant as usize];
            let count = share.min(queue.due.len());
            taken.extend(queue.due.drain(..count));
            claimed.round_trips += 1;
        }
        claimed.jobs = taken.len();
        if claimed.jobs < free {
            claimed.round_trips += 3;
            claimed.transactions += 1;
        }
        let committed = begun + claimed.round_trips * self.design.round_trip_us;
        let cursor = &mut self.nodes[node as usize].cursor;
        for jobs in
            taken.chunk_by(|one, other| self.jobs[*one as usize].tenant == self.jobs[*other as usize].tenant)
        {
            cursor.served(id_of(self.jobs[jobs[0] as usize].tenant));
        }
        let is_outrun = taken.is_empty() && !tenants.is_empty();
        match self.case.jump {
            Jump::Between if is_outrun => cursor.jump(self.random.unit()),
            Jump::Anywhere if is_outrun => cursor.served(id_of(self.random.below(self.queues.len()) as u32)),
            _ => {}
        }
        for job in taken {
            self.start(now, committed, node, job);
        }
        claimed
    }

    fn start(&mut self, now: u64, committed: u64, node: u32, job: u32) {
        let tenant = self.jobs[job as usize].tenant;
        self.queues[tenant as usize].locked_until = committed;
        self.plan(committed, Event::Committed(tenant));
        let state = &mut self.jobs[job as usize];
        self.outcome.doubled += usize::from(state.state != State::Waiting);
        state.state = State::Leased;
        state.claim += 1;
        let (claim, due) = (state.claim, state.due);
        let started = committed + READS * self.design.round_trip_us;
        if due >= WARM_UP {
            let waits =
                if tenant == 0 { &mut self.outcome.largest_waits } else { &mut self.outcome.other_waits };
            waits.push(started - due);
        }
        let life = self.nodes[node as usize].life;
        self.nodes[node as usize].in_use += 1;
        let took = self.design.analysis_us / 2 + self.random.below(self.design.analysis_us as usize) as u64;
        self.plan(started + took, Event::Ended { node, life, job, claim });
        if self.case.killed > 0 {
            self.plan(now + self.design.lease_us, Event::Expired { job, claim });
        }
    }

    fn end(&mut self, now: u64, node: u32, life: u32, job: u32, claim: u32) {
        if self.nodes[node as usize].life != life {
            return;
        }
        let state = &mut self.jobs[job as usize];
        self.outcome.doubled += usize::from(state.state != State::Leased || state.claim != claim);
        state.state = State::Done;
        let queue = &mut self.queues[state.tenant as usize];
        queue.present -= 1;
        if queue.present == 0 {
            self.present.remove(state.tenant as usize);
        }
        let node_state = &mut self.nodes[node as usize];
        node_state.in_use -= 1;
        if node_state.is_closed {
            if now < node_state.busy_until {
                node_state.is_woken = true;
            } else {
                self.wait(node, now, now);
            }
        }
    }

    /// The lease of a job ends. If its process was killed, the job is due again.
    fn expire(&mut self, job: u32, claim: u32) {
        let state = &mut self.jobs[job as usize];
        if state.state == State::Leased && state.claim == claim {
            state.state = State::Waiting;
            self.outcome.expired += 1;
            self.make_due(job);
        }
    }

    fn kill(&mut self, now: u64, node: u32) {
        let state = &mut self.nodes[node as usize];
        *state = Node { life: state.life + 1, plan: state.plan, ..Node::default() };
        self.wait(node, now, now + AWAY);
    }

    fn count(&mut self, now: u64, round_trips: u64, claimed: Option<&Claimed>) {
        if now < WARM_UP {
            return;
        }
        self.outcome.polls += 1;
        self.outcome.round_trips += round_trips;
        if let Some(claimed) = claimed {
            self.outcome.round_trips += if claimed.jobs > 0 { READS } else { 0 };
            self.outcome.claims += claimed.transactions;
            self.outcome.empty_claims += u64::from(claimed.jobs == 0);
            self.outcome.passed += claimed.passed;
        }
    }

    fn count_up(&mut self, end: u64) {
        for job in &self.jobs {
            match job.state {
                State::Done => self.outcome.done += 1,
                State::Leased => self.outcome.running += 1,
                State::Waiting => {
                    self.outcome.waiting += 1;
                    // What still waits has waited at least this long: nobody who starves is left out.
                    if (WARM_UP..end).contains(&job.due) {
                        let outcome = &mut self.outcome;
                        let waits = if job.tenant == 0 {
                            &mut outcome.largest_waits
                        } else {
                            &mut outcome.other_waits
                        };
                        waits.push(end - job.due);
                    }
                }
            }
        }
        self.outcome.asked = self.jobs.len();
        self.outcome.largest_waits.sort_unstable();
        self.outcome.other_waits.sort_unstable();
    }
}

/// What one poll has claimed.
struct Claimed {
    jobs: usize,
    round_trips: u64,
    transactions: u64,
    passed: u64,
}

/// Ids start at 1, since the nil id comes before all tenants.
fn id_of(tenant: u32) -> TenantId {
    TenantId(Uuid::from_u128(u128::from(tenant) + 1))
}

/// The number of the first tenant after an id, or of the tenant with this id and one more.
fn number_of(id: TenantId) -> u32 {
    id.0.as_u128() as u32
}

impl Outcome {
    /// Whether every analysis that was asked for is done, running or waiting, and none was done twice.
    pub(super) fn is_conserved(&self) -> bool {
        self.asked == self.done + self.running + self.waiting && self.doubled == 0
    }
}

/// A percentile of values in order; zero if there are none.
pub(super) fn percentile(values: &[u64], percent: usize) -> u64 {
    values.get(values.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simulated(case: Case, seed: u64, largest: f64) -> Outcome {
        run(&Design::of_settings().unwrap(), case, &Tenants::new(2_000, largest), &mut Random::new(seed))
    }

    const CALM: Case = Case { nodes: 4, load: 0.8, seconds: 15, killed: 0, jump: Jump::Between };

    #[test]
    fn the_same_seed_has_the_same_outcome() {
        assert_eq!(simulated(CALM, 3, 0.5), simulated(CALM, 3, 0.5));
        assert_ne!(simulated(CALM, 3, 0.5), simulated(CALM, 4, 0.5));
    }

    #[test]
    fn work_is_conserved_though_processes_are_killed() {
        let outcome = simulated(Case { killed: 2, seconds: 60, load: 0.5, ..CALM }, 5, 0.5);
        assert!(outcome.is_conserved(), "{outcome:?}");
        assert!(outcome.expired > 0, "what a killed process held is due again when its lease ends");
        // What is left is in its debounce or has just been claimed: nothing from before the last lease that expired.
        let per_second = outcome.asked / 60;
        assert!(outcome.waiting + outcome.running <= 8 * per_second, "{outcome:?}");
    }

    #[test]
    fn schedulers_that_stay_where_they_were_follow_each_other() {
        let p99 = |jump| {
            let case = Case { nodes: 100, seconds: 20, jump, ..CALM };
            let tenants = Tenants::new(100_000, 0.0);
            let outcome = run(&Design::of_settings().unwrap(), case, &tenants, &mut Random::new(1));
            assert!(outcome.is_conserved(), "{outcome:?}");
            percentile(&outcome.other_waits, 99)
        };
        let [nowhere, between, anywhere] = [Jump::Nowhere, Jump::Between, Jump::Anywhere].map(p99);
        assert!(nowhere > 10 * between && nowhere > 10 * anywhere, "{nowhere} {between} {anywhere}");
    }

    #[test]
    fn no_tenant_starves_beside_one_with_more_than_its_share() {
        let outcome = simulated(Case { load: 1.5, seconds: 30, ..CALM }, 9, 0.5);
        assert!(outcome.is_conserved(), "{outcome:?}");
        let (others, largest) = (&outcome.other_waits, &outcome.largest_waits);
        assert!(percentile(others, 100) < 5 * SECOND, "{}", percentile(others, 100));
        assert!(percentile(largest, 50) > percentile(others, 99), "the largest waits for itself");
    }
}
