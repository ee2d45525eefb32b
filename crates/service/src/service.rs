//! Builds the rooms and starts their workers.

use std::sync::Arc;

use analyzer::Analyzer;
use opentelemetry::trace::FutureExt as _;
use store::Store;
use store::objects::recorder::Enforcement;
use tracing::{Instrument as _, Span};

use crate::accounts::{AccountParts, Accounts, Providers};
use crate::actions::{
    Actions, Announcements, Courier, CourierHandle, CourierOptions, Deliveries, Endpoints, Firings, Rules,
};
use crate::analysis::{
    Analysis, Asker, BulkRuns, CachedQuestions, Concluder, ConclusionWriter, Jobs, Playground, Running,
    Scheduler, Signals, VerdictSlots, Verdicts,
};
use crate::billing::{
    Auditor, BalanceRules, Balances, Billing, Checkouts, Ledger, Prices, Stripe, Unpaid, UsageReports,
};
use crate::objects::{Ingest, ObjectCache, ObjectReads, Objects, Overviews, Recorder};
use crate::options::Options;
use crate::outbox::mail::{MailTemplates, Mailer};
use crate::outbox::{ChatOutbox, Notifications};
use crate::runtime::{
    AddressBudget, Clock, Nodes, Outbound, Random, RateBudget, Result, Sealer, Throttle, Traces, Wakeup,
    Workers, internal,
};
use crate::upkeep::{Gauges, Listener, Sweeper};

/// The rooms of one process.
pub struct Service {
    /// Objects and their events.
    pub objects: Objects,
    /// Signals, verdicts and analyses.
    pub analysis: Analysis,
    /// Rules and webhooks.
    pub actions: Actions,
    /// Tenants, members and keys.
    pub accounts: Accounts,
    /// Balances and payments.
    pub billing: Billing,
    /// Queue lengths.
    pub gauges: Gauges,
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
    /// Where traces are sent.
    pub traces: Traces,
}

/// The queue workers of this process; they run once [`Service::start_queues`] is called.
struct QueueWorkers {
    scheduler: Scheduler,
    bulk_runs: BulkRuns,
    unpaid: Unpaid,
    mailer: Mailer,
    chat: ChatOutbox,
    courier: Courier,
    sweeper: Sweeper,
    listener: Listener,
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
            traces,
        } = dependencies;
        let (scheduler, feeder, sweeper) = (Wakeup::default(), Wakeup::default(), Wakeup::default());
        let courier = CourierHandle::default();
        let outbound = Outbound::new(options.allow_private_targets)?;
        let throttle = Throttle::new(store.clone(), clock.clone());
        let nodes = Nodes::new(store.clone(), clock.clone(), &random);
        let chat =
            ChatOutbox::new(store.clone(), clock.clone(), random.clone(), sealer.clone(), outbound.clone());
        let notifications =
            Notifications { store: store.clone(), mailer: mailer.clone(), templates: templates.clone() };

        // Billing.
        let prices =
            Prices { metering: options.metering, tariff: options.tariff, tariffs: options.tariffs.clone() };
        let rules = BalanceRules {
            metering: options.metering,
            block: options.block,
            low_cents: options.low_balance_cents,
            topup_min_cents: options.topup_min_cents,
            topup_max_cents: options.topup_max_cents,
            takes_cards: payments.is_some(),
        };
        let unpaid = Unpaid {
            store: store.clone(),
            clock: clock.clone(),
            blocks: rules.blocks(),
            scheduler: scheduler.clone(),
        };
        let balances = Balances {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            rules,
            unpaid: unpaid.clone(),
            notifications: notifications.clone(),
        };
        let billing = Billing {
            ledger: Ledger { store: store.clone() },
            checkouts: Checkouts {
                store: store.clone(),
                clock: clock.clone(),
                random: random.clone(),
                balances: balances.clone(),
                notifications: notifications.clone(),
                stripe: payments,
            },
            usage: UsageReports { store: store.clone(), clock: clock.clone(), metering: options.metering },
            audit: Auditor { store: store.clone() },
            balances: balances.clone(),
        };

        // Objects.
        let cache = Arc::new(ObjectCache::new(store.is_shared()));
        let recorder = Recorder {
            store: store.clone(),
            random: random.clone(),
            enforcement: if rules.blocks() { Enforcement::Block } else { Enforcement::Grace },
            scheduler: scheduler.clone(),
            cache: Arc::clone(&cache),
        };
        let ingest = Ingest {
            clock: clock.clone(),
            traces: traces.clone(),
            recorder: Arc::new(recorder.start(&workers)),
            debounce: options.debounce,
            debounce_max: options.debounce_max,
        };
        let objects = Objects {
            ingest: ingest.clone(),
            reads: ObjectReads { store: store.clone(), random: random.clone(), cache: Arc::clone(&cache) },
            overview: Overviews { store: store.clone(), clock: clock.clone() },
        };

        // Rules and webhooks.
        let deliveries = Deliveries {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            max_attempts: i64::from(options.webhook_max_attempts),
            courier: courier.clone(),
        };
        let rules = Rules {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            sealer: sealer.clone(),
            outbound: outbound.clone(),
        };
        let firings = Firings {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            rules: rules.clone(),
            templates,
            mailer: mailer.clone(),
            chat: chat.clone(),
            deliveries: deliveries.clone(),
        };
        let actions = Actions {
            endpoints: Endpoints {
                store: store.clone(),
                clock: clock.clone(),
                random: random.clone(),
                sealer: sealer.clone(),
                outbound: outbound.clone(),
                workers: workers.clone(),
                courier: courier.clone(),
            },
            rules,
            firings: firings.clone(),
            deliveries: deliveries.clone(),
        };

        // Analyses.
        let running = Running::default();
        let questions = CachedQuestions::new(store.clone());
        let asker = Asker::new(analyzer, clock.clone(), traces.clone(), usize::from(options.workers));
        let announcements = Announcements {
            firings,
            deliveries,
            mailer: mailer.clone(),
            chat: chat.clone(),
            courier: courier.clone(),
        };
        let writer = ConclusionWriter {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            objects: Arc::clone(&cache),
            announcements,
            balances: balances.clone(),
            prices: prices.clone(),
        };
        let concluder = Arc::new(Concluder::start(&writer, traces.clone(), &workers));
        let slots = VerdictSlots {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            running: running.clone(),
            analyzer_timeout: options.analyzer_timeout,
            limit: options.sync_limit,
        };
        let bulk_runs = BulkRuns {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            feeder: feeder.clone(),
            scheduler: scheduler.clone(),
        };
        let analysis = Analysis {
            signals: Signals {
                store: store.clone(),
                clock: clock.clone(),
                random: random.clone(),
                bulk_runs: bulk_runs.clone(),
                questions: questions.clone(),
                objects: Arc::clone(&cache),
            },
            jobs: Jobs { store: store.clone(), clock: clock.clone(), scheduler: scheduler.clone() },
            bulk_runs: bulk_runs.clone(),
            verdicts: Verdicts {
                store: store.clone(),
                clock: clock.clone(),
                ingest,
                questions: questions.clone(),
                asker: asker.clone(),
                slots: slots.clone(),
                concluder: Arc::clone(&concluder),
            },
            playground: Playground {
                store: store.clone(),
                clock: clock.clone(),
                questions,
                asker: asker.clone(),
                slots,
                concluder: Arc::clone(&concluder),
                balances,
                prices,
            },
        };
        let accounts = Accounts::new(AccountParts {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            sealer: sealer.clone(),
            workers: workers.clone(),
            throttle: throttle.clone(),
            providers,
            notifications: notifications.clone(),
            allow_registration: options.allow_registration,
            signup_credit_cents: options.signup_credit_cents,
            sweeper: sweeper.clone(),
        })?;
        let queues = QueueWorkers {
            scheduler: Scheduler {
                store: store.clone(),
                clock: clock.clone(),
                random: random.clone(),
                traces: traces.clone(),
                asker,
                concluder,
                unpaid: unpaid.clone(),
                running: running.clone(),
                wakeup: scheduler.clone(),
                feeder,
                workers: usize::from(options.workers),
                analyzer_timeout: options.analyzer_timeout,
            },
            bulk_runs,
            unpaid,
            mailer,
            chat,
            listener: Listener {
                store: store.clone(),
                clock: clock.clone(),
                scheduler,
                courier: courier.wakeup.clone(),
            },
            courier: Courier {
                store: store.clone(),
                clock: clock.clone(),
                random: random.clone(),
                sealer,
                outbound,
                traces: traces.clone(),
                notifications,
                options: CourierOptions {
                    timeout: options.webhook_timeout,
                    retry_base: options.webhook_retry_base,
                },
                handle: courier,
            },
            sweeper: Sweeper { store: store.clone(), clock: clock.clone(), throttle, wakeup: sweeper },
        };
        let rate =
            RateBudget::new(store.clone(), clock.clone(), nodes.clone(), options.rate_limit_per_minute);
        Ok(Arc::new(Self {
            objects,
            analysis,
            actions,
            accounts,
            billing,
            gauges: Gauges { store: store.clone(), clock: clock.clone(), running },
            rate,
            addresses: AddressBudget::new(clock.clone()),
            store,
            clock,
            random,
            traces,
            workers,
            nodes,
            queues,
        }))
    }

    /// Starts the background work of every process: its heartbeat.
    pub fn start_node(&self) {
        let nodes = self.nodes.clone();
        self.workers.supervise("heartbeat", move |stop| nodes.clone().run(stop));
    }

    /// Starts the queue workers.
    pub fn start_queues(&self) {
        let QueueWorkers { scheduler, bulk_runs, unpaid, mailer, chat, courier, sweeper, listener } =
            &self.queues;
        courier.handle.mark_sending_here();
        macro_rules! supervise {
            ($name:literal, $worker:ident, $run:ident) => {{
                let worker = $worker.clone();
                self.workers.supervise($name, move |stop| worker.clone().$run(stop));
            }};
        }
        supervise!("mailer", mailer, run);
        supervise!("chat", chat, run);
        supervise!("sweeper", sweeper, run);
        supervise!("listener", listener, run);
        supervise!("scheduler", scheduler, run);
        supervise!("unpaid", unpaid, run);
        supervise!("feeder", bulk_runs, run_feeder);
        supervise!("courier", courier, run);
    }

    /// Runs work to its end even if the caller is dropped: an analysis that has started is charged, and its answers are
    /// stored.
    pub async fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let work = work.instrument(Span::current()).with_current_context();
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

    /// Returns once the sweeper has finished a sweep that began after this call.
    #[cfg(feature = "test-util")]
    pub async fn sweeper_has_swept(&self) {
        self.queues.sweeper.wakeup.has_polled().await;
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
