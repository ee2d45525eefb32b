//! Builds the rooms and starts their workers.

use std::sync::Arc;

use analyzer::Analyzer;
use opentelemetry::trace::FutureExt as _;
use store::Store;
use tracing::{Instrument as _, Span};

use crate::accounts::{AccountParts, Accounts, Providers};
use crate::actions::{Actions, Courier, CourierHandle};
use crate::analysis::{Analysis, BulkRuns, Scheduler, TrialRunner};
use crate::billing::{Billing, Prices, Stripe, Unpaid};
use crate::exports::Exports;
use crate::objects::{ObjectCache, Objects};
use crate::options::Options;
use crate::outbox::mail::{MailTemplates, Mailer};
use crate::outbox::{ChatOutbox, Notifications};
use crate::quality::{Computing, Quality};
use crate::runtime::intake::Intake;
use crate::runtime::{
    AddressBudget, Clock, Health, Nodes, Outbound, Random, RateBudget, Result, Sealer, SweepRequests,
    Throttle, Traces, Waiting, Wakeup, Workers, internal,
};
use crate::upkeep::{Backstop, Checkup, Gauges, Listener, Readiness, Sweeper, follow_replica};
use crate::wiring::{Analyzers, Wiring};

/// The rooms of one process.
pub struct Service {
    /// Objects and their events.
    pub objects: Objects,
    /// Signals, verdicts and analyses.
    pub analysis: Analysis,
    /// Rules and webhooks.
    pub actions: Actions,
    /// Labels, and how good the answers are by them.
    pub quality: Quality,
    /// Tenants, members and keys.
    pub accounts: Accounts,
    /// Balances and payments.
    pub billing: Billing,
    /// Everything of one kind, as a stream.
    pub exports: Exports,
    /// The health of the install.
    pub checkup: Checkup,
    /// Queue lengths.
    pub gauges: Gauges,
    /// Whether this process should get requests.
    pub readiness: Readiness,
    /// The request rate limit of each tenant.
    pub rate: RateBudget,
    /// The request rate limit of each client address, for requests without a valid credential.
    pub addresses: AddressBudget,
    store: Store,
    clock: Clock,
    random: Random,
    traces: Traces,
    workers: Workers,
    nodes: Nodes,
    queues: QueueWorkers,
}

/// The dependencies of the rooms: database, clock, randomness, keys, and clients for external systems.
pub struct Dependencies {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// The source of randomness.
    pub random: Random,
    /// Seals secrets at rest.
    pub sealer: Sealer,
    /// Background tasks.
    pub workers: Workers,
    /// Queues and sends mails.
    pub mailer: Mailer,
    /// The texts of mails.
    pub templates: MailTemplates,
    /// Identity providers.
    pub providers: Providers,
    /// Card payments, where they are configured.
    pub payments: Option<Stripe>,
    /// Answers questions.
    pub analyzer: Arc<dyn Analyzer>,
    /// Answers those that the first one is unsure of, where it is configured.
    pub second_analyzer: Option<Arc<dyn Analyzer>>,
    /// Where traces are sent.
    pub traces: Traces,
}

/// The queue workers of this process; they run once [`Service::start_queues`] is called.
struct QueueWorkers {
    scheduler: Scheduler,
    bulk_runs: BulkRuns,
    trials: TrialRunner,
    unpaid: Unpaid,
    mailer: Mailer,
    chat: ChatOutbox,
    courier: Courier,
    sweeper: Sweeper,
    listener: Listener,
    backstop: Backstop,
}

impl Service {
    /// Builds the rooms and starts their group writers. No other background work is started.
    pub fn start(dependencies: Dependencies, options: Options) -> Result<Arc<Self>> {
        let Dependencies {
            store,
            clock,
            random,
            sealer,
            workers,
            mailer,
            templates,
            providers,
            payments,
            analyzer,
            second_analyzer,
            traces,
        } = dependencies;
        let (scheduler, sweeps, trials) = (Wakeup::default(), SweepRequests::default(), Wakeup::default());
        let outbound = Outbound::new(options.allow_private_targets)?;
        let throttle = Throttle::new(store.clone(), clock.clone());
        let chat =
            ChatOutbox::new(store.clone(), clock.clone(), random.clone(), sealer.clone(), outbound.clone());
        let wiring = Wiring {
            chat,
            notifications: Notifications { store: store.clone(), mailer: mailer.clone(), templates },
            prices: Prices {
                metering: options.metering,
                // Servers add a date or a version to the name of the model that was requested.
                tariff: *options.tariffs.get(analyzer.model()).unwrap_or(&options.tariff),
                second_tariff: second_analyzer
                    .as_ref()
                    .and_then(|second| options.tariffs.get(second.model()))
                    .copied()
                    .unwrap_or(options.tariff),
                tariffs: options.tariffs.clone(),
            },
            unpaid: Unpaid {
                store: store.clone(),
                clock: clock.clone(),
                blocks: options.metering && options.block,
                scheduler: scheduler.clone(),
                trials: trials.clone(),
            },
            objects: Arc::new(ObjectCache::new(store.is_shared())),
            courier: CourierHandle::new(options.webhook_timeout),
            jobs: Intake::new(usize::from(options.workers)),
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            sealer: sealer.clone(),
            workers: workers.clone(),
            traces,
            scheduler,
            trials,
            computing: Computing::new(),
            outbound,
            mailer,
            options,
        };
        let accounts = Accounts::new(AccountParts {
            store: store.clone(),
            clock: clock.clone(),
            random,
            sealer,
            workers,
            throttle: throttle.clone(),
            providers: Arc::new(providers),
            notifications: wiring.notifications.clone(),
            public_url: wiring.options.public_url.clone(),
            operators: wiring.options.operators.clone(),
            allow_registration: wiring.options.allow_registration,
            limits_invitations: wiring.options.confirm_recipients,
            registrations_per_hour: wiring.options.registrations_per_hour,
            signup_credit_cents: wiring.options.signup_credit_cents,
            recent_proof: wiring.options.recent_proof,
            courier: wiring.courier.clone(),
            sweeps: sweeps.clone(),
        })?;
        let billing = wiring.billing(payments);
        let (checkouts, expiry) = (billing.checkouts.clone(), wiring.expiry());
        let store = store.for_maintenance();
        let history_days = u32::from(wiring.options.answer_history_days);
        let audit_days = u32::from(wiring.options.audit_days);
        let closure = accounts.closure.clone();
        let sweeper = Sweeper {
            store,
            clock,
            throttle,
            checkouts,
            expiry,
            closure,
            history_days,
            audit_days,
            requests: sweeps,
        };
        let analyzers = Analyzers { first: analyzer, second: second_analyzer };
        Ok(Arc::new(Self::assemble(wiring, accounts, sweeper, billing, analyzers)))
    }

    fn assemble(
        wiring: Wiring,
        accounts: Accounts,
        sweeper: Sweeper,
        billing: Billing,
        analyzers: Analyzers,
    ) -> Self {
        let (store, clock) = (wiring.store.clone(), wiring.clock.clone());
        let nodes = Nodes::new(store.clone(), clock.clone(), &wiring.random);
        let (objects, actions) = (wiring.objects(&nodes), wiring.actions());
        let scheduler = wiring.scheduler(analyzers, wiring.concluder(&actions, &billing));
        let analysis = wiring.analysis(&objects, &billing, &scheduler);
        let trials = wiring.trial_runner(&billing, &scheduler);
        let limit = wiring.options.rate_limit_per_minute;
        Self {
            checkup: Checkup {
                store: store.clone(),
                clock: clock.clone(),
                asker: scheduler.asker.clone(),
                health: wiring.workers.health().clone(),
                sends_mail: wiring.options.sends_mail,
            },
            readiness: Readiness {
                store: store.clone(),
                recorder: Arc::clone(&objects.ingest.recorder),
                health: wiring.workers.health().clone(),
                nodes: nodes.clone(),
            },
            objects,
            actions,
            quality: wiring.quality(),
            exports: Exports::new(
                store.for_lists(),
                clock.clone(),
                accounts.authentication.clone(),
                wiring.options.export_max,
            ),
            accounts,
            billing,
            gauges: Gauges { store: store.clone(), clock: clock.clone(), running: scheduler.running.clone() },
            rate: RateBudget::new(store.clone(), clock.clone(), nodes.clone(), limit),
            addresses: AddressBudget::new(clock.clone()),
            queues: QueueWorkers {
                listener: Listener {
                    store: store.clone(),
                    clock: clock.clone(),
                    scheduler: wiring.scheduler.clone(),
                    courier: wiring.courier.wakeup.clone(),
                },
                backstop: Backstop {
                    store: store.clone(),
                    clock: clock.clone(),
                    scheduler: wiring.scheduler.clone(),
                    courier: wiring.courier.wakeup.clone(),
                    mailer: wiring.mailer.wakeup().clone(),
                    chat: wiring.chat.wakeup().clone(),
                    trials: wiring.trials.clone(),
                    feeder: scheduler.feeder.clone(),
                },
                courier: wiring.courier(),
                sweeper,
                scheduler,
                bulk_runs: analysis.bulk_runs.clone(),
                trials,
                unpaid: wiring.unpaid,
                mailer: wiring.mailer,
                chat: wiring.chat,
            },
            analysis,
            store,
            clock,
            random: wiring.random,
            traces: wiring.traces,
            workers: wiring.workers,
            nodes,
        }
    }

    /// The health of the loops of this process.
    pub fn health(&self) -> &Health {
        self.workers.health()
    }

    /// Waits until this binary cannot work with the schema any more, which a newer one has migrated, and says why.
    pub async fn wait_until_outgrown(&self) -> &str {
        self.nodes.wait_until_outgrown().await
    }

    /// Starts the background work of every process: its heartbeat, the writer of what it refuses, and who follows the replica.
    pub fn start_node(&self) {
        let nodes = self.nodes.clone();
        self.workers.supervise("heartbeat", move |supervision| nodes.clone().run(supervision.stop));
        let refusals = self.accounts.refusals.clone();
        self.workers.supervise("refusals", move |supervision| refusals.clone().run(supervision.stop));
        if self.store.has_replica() {
            let store = self.store.clone();
            self.workers
                .supervise("replica", move |supervision| follow_replica(store.clone(), supervision.stop));
        }
    }

    /// Starts the queue workers.
    pub fn start_queues(&self) {
        let QueueWorkers {
            scheduler,
            bulk_runs,
            trials,
            unpaid,
            mailer,
            chat,
            courier,
            sweeper,
            listener,
            backstop,
        } = &self.queues;
        courier.handle.mark_sending_here();
        macro_rules! supervise {
            ($name:literal, $worker:ident, $run:ident $(, $stop:ident)?) => {{
                let worker = $worker.clone();
                self.workers.supervise($name, move |supervision| worker.clone().$run(supervision$(.$stop)?));
            }};
        }
        supervise!("mailer", mailer, run);
        supervise!("chat", chat, run);
        supervise!("sweeper", sweeper, run, stop);
        supervise!("listener", listener, run, stop);
        supervise!("backstop", backstop, run, stop);
        supervise!("scheduler", scheduler, run);
        supervise!("unpaid", unpaid, run, stop);
        supervise!("feeder", bulk_runs, run_feeder, stop);
        supervise!("trials", trials, run, stop);
        supervise!("courier", courier, run);
    }

    /// Runs work to its end even if the caller is dropped: events that were taken are recorded, and an analysis that must be
    /// paid for is charged, and its answers are stored. The work can find out that its caller has left.
    pub async fn run_to_end<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
        &self,
        work: impl FnOnce(Waiting) -> F,
    ) -> Result<T> {
        let work = |waiting| work(waiting).instrument(Span::current()).with_current_context();
        let outcome = self.workers.run_to_end(work).await;
        outcome.unwrap_or_else(|| Err(internal("the analysis panicked")))
    }

    /// Returns once every queue worker has finished a poll that began after this call, and so has started every job that is
    /// due by now.
    #[cfg(feature = "test-util")]
    pub async fn workers_have_polled(&self) {
        let QueueWorkers { scheduler, mailer, chat, courier, .. } = &self.queues;
        tokio::join!(
            scheduler.wakeup.has_polled(),
            courier.handle.wakeup.has_polled(),
            mailer.wakeup().has_polled(),
            chat.wakeup().has_polled(),
        );
    }

    /// The jobs that the workers of queues have started and that have not ended.
    #[cfg(feature = "test-util")]
    pub fn running_jobs(&self) -> usize {
        let QueueWorkers { scheduler, mailer, chat, courier, .. } = &self.queues;
        let wakeups = [&scheduler.wakeup, &courier.handle.wakeup, mailer.wakeup(), chat.wakeup()];
        wakeups.iter().map(|wakeup| wakeup.running_jobs()).sum()
    }

    /// Lets the process have a heartbeat now.
    #[cfg(feature = "test-util")]
    pub async fn beat(&self) -> Result<()> {
        self.nodes.beat().await
    }

    /// Returns once the sweeper has finished a sweep that began after this call.
    #[cfg(feature = "test-util")]
    pub async fn sweeper_has_swept(&self) {
        self.queues.sweeper.requests.all_are_swept().await;
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Where traces are sent.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    /// The source of randomness.
    pub fn random(&self) -> &Random {
        &self.random
    }
}
