//! The use cases of the service, and the outside world that they need. Knows nothing of HTTP servers.
//!
//! [`Service`] holds what every use case works with; each noun's file adds its use cases to it.

mod accounts;
mod address_budget;
mod analysis;
mod audit;
mod authentication;
mod belief;
mod bell;
mod billing;
mod bulk_runs;
mod checkouts;
mod clock;
mod concluded;
mod concluder;
mod default_signals;
mod delivery;
mod error;
mod firings;
mod gauges;
mod group_writer;
mod hands;
mod histories;
mod identities;
mod ingest;
mod keys;
pub mod mail;
mod nodes;
mod notifications;
mod object_cache;
mod objects;
mod operators;
mod outbound;
mod outbox;
mod password_reset;
mod passwords;
mod playground;
mod providers;
mod random;
mod rate;
mod recorder;
mod rekeying;
mod rules;
mod running;
mod scheduler;
mod sealing;
mod sign_in;
mod signals;
mod signing;
mod slack;
mod stripe;
mod sweeper;
mod throttle;
mod tokens;
pub mod traces;
mod turns;
mod two_factor;
mod unpaid;
mod usage;
mod verdict;
mod webhooks;
mod workers;

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use analyzer::{AdaptiveLimit, Analyzer};
use model::{Tariff, TenantId};
use store::Store;
use store::recording::Enforcement;

pub use address_budget::{AddressBudget, client_network};
pub use audit::{Audit, Drift};
pub use authentication::{Caller, Credential, Presented, SessionId};
pub use billing::{LedgerKind, LedgerQuery};
pub use clock::{Clock, ClockHands};
pub use error::{Error, Kind, Result};
pub use gauges::QueueGauges;
pub use ingest::Ingested;
pub use nodes::Nodes;
pub use objects::ObjectQuery;
pub use providers::{GithubOptions, GoogleOptions, ProvenIdentity, Providers};
pub use random::Random;
pub use rate::{Allowance, Decision, RateBudget};
pub use rekeying::{MASTER_KEY_FACT, RekeyError, is_rekeying, rekey};
pub use sealing::{CannotUnseal, InvalidMasterKey, MasterKey, Sealer};
pub use signing::RequestLine;
pub use store::objects::Sort;
pub use stripe::{API_VERSION as STRIPE_API_VERSION, Stripe, StripeOptions};
pub use throttle::{Limit, Throttle};
pub use traces::Traces;
pub use webhooks::DeliveryQuery;
pub use workers::Workers;

use self::authentication::Gate;
use self::belief::Beliefs;
use self::bell::Bell;
use self::bulk_runs::Feeder;
use self::concluder::Concluder;
use self::delivery::Courier;
use self::delivery::board::Board;
use self::group_writer::GroupWriter;
use self::histories::Asked;
use self::mail::{Letters, Mailer};
use self::object_cache::ObjectCache;
use self::outbound::Outbound;
use self::passwords::Passwords;
use self::recorder::Recorder;
use self::running::Running;
use self::scheduler::Scheduler;
use self::slack::Slack;
use self::unpaid::Waker;

/// Everything that use cases work with. One for each process.
pub struct Service {
    store: Store,
    clock: Clock,
    random: Random,
    sealer: Sealer,
    options: Options,
    workers: Workers,
    mailer: Mailer,
    slack: Slack,
    outbound: Outbound,
    letters: Letters,
    providers: Providers,
    /// Card payments, where they are configured.
    payments: Option<Stripe>,
    throttle: Throttle,
    passwords: Passwords,
    gate: Gate,
    nodes: Nodes,
    rate: RateBudget,
    addresses: AddressBudget,
    analyzer: Arc<dyn Analyzer>,
    traces: Traces,
    /// How many analyses at a time the analyzer has shown to bear.
    pace: Mutex<AdaptiveLimit>,
    recorder: GroupWriter<Recorder>,
    concluder: Concluder,
    cache: Arc<ObjectCache>,
    /// What tenants ask, as callers who wait are answered by.
    questions: Beliefs<TenantId, Asked>,
    /// Analyses under way here.
    running: Running,
    /// Rung when an analysis was scheduled or a worker got free.
    bell: Bell,
    /// Rung when a bulk run was started or one of its analyses has ended.
    feeder_bell: Bell,
    /// Rung when deliveries were queued or a receiver is to be tried again.
    courier_bell: Bell,
    /// Deliveries that this process has claimed.
    board: Arc<Board>,
    /// Whether this process sends deliveries.
    delivers_here: AtomicBool,
    /// Rung when a limit on events is set.
    sweeper_bell: Bell,
}

/// What an operator decides about the use cases.
#[expect(clippy::struct_excessive_bools, reason = "switches, each of its own")]
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether strangers may make an account.
    pub allow_registration: bool,
    /// What a new account starts with.
    pub signup_credit_cents: u32,
    /// Requests a minute for a tenant, over all nodes.
    pub rate_limit_per_minute: u32,
    /// How long an object must be quiet before it is analyzed.
    pub debounce: Duration,
    /// How long an object that is never quiet waits at most.
    pub debounce_max: Duration,
    /// Synchronous analyses at a time for a tenant, over all nodes.
    pub sync_limit: u32,
    /// Analyses at a time in this process.
    pub workers: u16,
    /// How long an analyzer may take.
    pub analyzer_timeout: Duration,
    /// Whether analyses are billed.
    pub metering: bool,
    /// Whether an empty balance pauses analyses; else it may go negative.
    pub block: bool,
    /// Whether addresses that strangers name may lead into private networks.
    pub allow_private_targets: bool,
    /// How often a webhook delivery is tried.
    pub webhook_max_attempts: u16,
    /// The wait after a delivery's first attempt; it doubles with each.
    pub webhook_retry_base: Duration,
    /// How long a receiver may take, in all.
    pub webhook_timeout: Duration,
    /// Below this a mail warns.
    pub low_balance_cents: u32,
    /// The smallest top-up.
    pub topup_min_cents: u32,
    /// The largest top-up.
    pub topup_max_cents: u32,
    /// What analyses cost by default.
    pub tariff: Tariff,
    /// What they cost with particular models.
    pub tariffs: BTreeMap<String, Tariff>,
}

impl Options {
    /// What analyses by a model cost.
    fn tariff_of(&self, model: &str) -> Tariff {
        self.tariffs.get(model).copied().unwrap_or(self.tariff)
    }

    /// Whether an empty balance refuses work.
    fn blocks(&self) -> bool {
        self.metering && self.block
    }
}

/// What a process brings along: its memory, its time, its dice, its keys and its ways out.
pub struct Foundations {
    /// The database.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// The dice.
    pub random: Random,
    /// The keys of secrets at rest.
    pub sealer: Sealer,
    /// Background tasks.
    pub workers: Workers,
    /// The way of mail.
    pub mailer: Mailer,
    /// What mails say.
    pub letters: Letters,
    /// Identity providers.
    pub providers: Providers,
    /// Card payments, where they are configured.
    pub payments: Option<Stripe>,
    /// What answers questions.
    pub analyzer: Arc<dyn Analyzer>,
    /// Where traces are told to.
    pub traces: Traces,
}

impl Service {
    /// Puts the use cases on their foundations. In the background run only the writers that they hand their work to.
    pub fn start(foundations: Foundations, options: Options) -> Result<Arc<Self>> {
        let Foundations {
            store,
            clock,
            random,
            sealer,
            workers,
            mailer,
            letters,
            providers,
            payments,
            analyzer,
            traces,
        } = foundations;
        let bell = Bell::default();
        let pace = Mutex::new(AdaptiveLimit::new(usize::from(options.workers)));
        let enforcement = if options.blocks() { Enforcement::Block } else { Enforcement::Grace };
        let cache = Arc::new(ObjectCache::new(store.backend()));
        let recorder = Recorder {
            store: store.clone(),
            random: random.clone(),
            enforcement,
            bell: bell.clone(),
            cache: Arc::clone(&cache),
        };
        let recorder = recorder.start(&workers);
        let nodes = Nodes::new(store.clone(), clock.clone(), &random);
        let (concluder, lanes) = Concluder::new(store.backend(), traces.clone());
        let outbound = Outbound::new(options.allow_private_targets)?;
        let slack =
            Slack::new(store.clone(), clock.clone(), random.clone(), sealer.clone(), outbound.clone());
        let service = Arc::new(Self {
            throttle: Throttle::new(store.clone(), clock.clone()),
            passwords: Passwords::new(random.clone())?,
            gate: Gate::new(),
            rate: RateBudget::new(store.clone(), clock.clone(), nodes.clone(), options.rate_limit_per_minute),
            addresses: AddressBudget::new(clock.clone()),
            nodes,
            store,
            clock,
            random,
            sealer,
            options,
            workers,
            mailer,
            slack,
            outbound,
            letters,
            providers,
            payments,
            pace,
            analyzer,
            traces,
            recorder,
            concluder,
            cache,
            questions: Beliefs::new(),
            running: Running::default(),
            bell,
            feeder_bell: Bell::default(),
            courier_bell: Bell::default(),
            board: Arc::default(),
            delivers_here: AtomicBool::new(false),
            sweeper_bell: Bell::default(),
        });
        lanes.start(&service);
        Ok(service)
    }

    /// Starts what every process does in the background: it is counted among the nodes.
    pub fn start_node(&self) {
        let nodes = self.nodes.clone();
        self.workers.start(|stop| nodes.run(stop));
    }

    /// Starts what a process that works off queues does in the background.
    pub fn start_queues(self: &Arc<Self>) {
        let mailer = self.mailer.clone();
        self.workers.start(|stop| mailer.run(stop));
        let slack = self.slack.clone();
        self.workers.start(|stop| slack.run(stop));
        let sweeper = sweeper::Sweeper::new(
            self.store.clone(),
            self.clock.clone(),
            self.throttle.clone(),
            self.sweeper_bell.clone(),
        );
        self.workers.start(|stop| sweeper.run(stop));
        let service = Arc::clone(self);
        self.workers.start(|stop| scheduler::listen(service, stop));
        let scheduler = Scheduler::new(Arc::clone(self));
        self.workers.start(|stop| scheduler.run(stop));
        let waker = Waker::new(Arc::clone(self));
        self.workers.start(|stop| waker.run(stop));
        let feeder = Feeder::new(Arc::clone(self));
        self.workers.start(|stop| feeder.run(stop));
        self.delivers_here.store(true, Ordering::Relaxed);
        let courier = Courier::new(Arc::clone(self));
        self.workers.start(|stop| courier.run(stop));
    }

    /// Budgets of requests for tenants.
    pub fn rate(&self) -> &RateBudget {
        &self.rate
    }

    /// Budgets of requests for addresses that nobody has signed in from.
    pub fn addresses(&self) -> &AddressBudget {
        &self.addresses
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Where traces are told to.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    /// The dice.
    pub fn random(&self) -> &Random {
        &self.random
    }
}

/// A failure of ours, with its cause for the log.
fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    Error::new(Kind::Internal, "internal error").because(cause)
}
