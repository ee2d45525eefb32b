//! How the rooms are built from what they share.

use std::sync::Arc;

use analyzer::Analyzer;
use store::Store;
use store::analysis::jobs::LeasedJob;
use store::objects::recorder::{Admission, Enforcement};

use crate::actions::{
    ActionTests, Actions, Announcements, Audits, Courier, CourierHandle, CourierOptions, Deliveries,
    Endpoints, Expiry, Firings, Recipients, Replays, ReviewEvents, ReviewOpener, Reviews, Rules,
};
use crate::analysis::{
    Analysis, Asker, BulkRuns, CachedQuestions, Caps, Concluder, ConclusionWriter, Escalations, Escalator,
    Explanations, Jobs, LEASE_MARGIN, Moderation, Playground, Running, Scheduler, Signals, Stage, Timeline,
    TrialRunner, Trials, VerdictSlots, Verdicts,
};
use crate::billing::{
    Auditor, BalanceRules, Balances, Billing, Checkouts, Ledger, Prices, Stripe, Unpaid, UsageReports,
};
use crate::objects::{
    AnswerHistory, ConditionChecks, Counts, Ingest, ObjectCache, ObjectReads, Objects, Overviews, Recorder,
};
use crate::options::Options;
use crate::outbox::mail::Mailer;
use crate::outbox::{ChatOutbox, Notifications};
use crate::quality::{Calibrations, Computing, EscalationFits, Labels, Quality, QualityReports};
use crate::runtime::intake::Intake;
use crate::runtime::{Clock, Nodes, Outbound, Random, RateBudget, Sealer, Throttle, Traces, Wakeup, Workers};

/// What answers questions.
pub(crate) struct Analyzers {
    pub(crate) first: Arc<dyn Analyzer>,
    /// Asked where the first is unsure.
    pub(crate) second: Option<Arc<dyn Analyzer>>,
}

/// What several rooms share.
pub(crate) struct Wiring {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) sealer: Sealer,
    pub(crate) workers: Workers,
    pub(crate) traces: Traces,
    pub(crate) outbound: Outbound,
    pub(crate) mailer: Mailer,
    pub(crate) chat: ChatOutbox,
    pub(crate) notifications: Notifications,
    pub(crate) prices: Prices,
    pub(crate) unpaid: Unpaid,
    pub(crate) objects: Arc<ObjectCache>,
    pub(crate) courier: CourierHandle,
    pub(crate) scheduler: Wakeup,
    /// Where the recorder hands jobs to the scheduler.
    pub(crate) jobs: Intake<LeasedJob>,
    pub(crate) trials: Wakeup,
    pub(crate) computing: Computing,
    pub(crate) options: Options,
}

impl Wiring {
    pub(crate) fn billing(&self, payments: Option<Stripe>) -> Billing {
        let options = &self.options;
        let balances = Balances {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            rules: BalanceRules {
                metering: options.metering,
                block: options.block,
                low_cents: options.low_balance_cents,
                topup_min_cents: options.topup_min_cents,
                topup_max_cents: options.topup_max_cents,
                takes_cards: payments.is_some(),
            },
            unpaid: self.unpaid.clone(),
            notifications: self.notifications.clone(),
        };
        Billing {
            ledger: Ledger { store: self.store.for_lists() },
            checkouts: Checkouts {
                store: self.store.clone(),
                clock: self.clock.clone(),
                random: self.random.clone(),
                balances: balances.clone(),
                notifications: self.notifications.clone(),
                stripe: payments,
            },
            usage: UsageReports {
                store: self.store.clone(),
                clock: self.clock.clone(),
                metering: options.metering,
            },
            audit: Auditor::new(self.store.clone()),
            balances,
        }
    }

    pub(crate) fn objects(&self, nodes: &Nodes) -> Objects {
        let recorder = Recorder {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            admission: Admission {
                enforcement: if self.unpaid.blocks { Enforcement::Block } else { Enforcement::Grace },
                storage_quota: self.options.storage_quota_bytes,
            },
            intake: self.jobs.clone(),
            lease: self.options.asking_timeout() + LEASE_MARGIN,
            scheduler: self.scheduler.clone(),
            cache: Arc::clone(&self.objects),
        };
        Objects {
            ingest: Ingest {
                clock: self.clock.clone(),
                traces: self.traces.clone(),
                recorder: Arc::new(recorder.start(&self.workers)),
                budget: self.options.ingest_bytes_per_minute.map(|limit| {
                    RateBudget::of_bytes(self.store.clone(), self.clock.clone(), nodes.clone(), limit)
                }),
                debounce: self.options.debounce,
                debounce_max: self.options.debounce_max,
            },
            reads: ObjectReads {
                store: self.store.clone(),
                lists: self.store.for_lists(),
                random: self.random.clone(),
                cache: Arc::clone(&self.objects),
            },
            counts: Counts { store: self.store.for_lists() },
            answers: AnswerHistory { store: self.store.for_lists() },
            conditions: ConditionChecks { store: self.store.clone() },
            overview: Overviews { store: self.store.for_lists(), clock: self.clock.clone() },
        }
    }

    pub(crate) fn actions(&self) -> Actions {
        let deliveries = Deliveries {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            max_attempts: i64::from(self.options.webhook_max_attempts),
            courier: self.courier.clone(),
        };
        let rules = Rules {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            sealer: self.sealer.clone(),
            outbound: self.outbound.clone(),
        };
        let recipients = Recipients {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            sealer: self.sealer.clone(),
            templates: self.notifications.templates.clone(),
            must_confirm: self.options.confirm_recipients,
        };
        let events = ReviewEvents { random: self.random.clone(), deliveries: deliveries.clone() };
        let opener = ReviewOpener { random: self.random.clone(), events: events.clone() };
        let firings = Firings {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            rules: rules.clone(),
            templates: self.notifications.templates.clone(),
            mailer: self.mailer.clone(),
            chat: self.chat.clone(),
            deliveries: deliveries.clone(),
            recipients: recipients.clone(),
            opener: opener.clone(),
        };
        Actions {
            reviews: Reviews {
                store: self.store.clone(),
                clock: self.clock.clone(),
                labels: self.labels(),
                opener: opener.clone(),
                events,
                courier: self.courier.clone(),
                claim: self.options.claim,
            },
            audits: Audits { hash: self.sealer.keyed_hash("audits"), opener },
            replays: Replays::new(
                self.store.clone(),
                self.clock.clone(),
                self.random.clone(),
                self.workers.clone(),
                (self.options.replay_inline, u32::from(self.options.answer_history_days)),
            ),
            tests: ActionTests::new(firings.clone(), Throttle::new(self.store.clone(), self.clock.clone())),
            firings,
            recipients,
            endpoints: Endpoints {
                store: self.store.clone(),
                clock: self.clock.clone(),
                random: self.random.clone(),
                sealer: self.sealer.clone(),
                outbound: self.outbound.clone(),
                workers: self.workers.clone(),
                courier: self.courier.clone(),
            },
            rules,
            deliveries,
        }
    }

    fn labels(&self) -> Labels {
        Labels { store: self.store.clone(), clock: self.clock.clone(), random: self.random.clone() }
    }

    pub(crate) fn quality(&self) -> Quality {
        let computing = self.computing.clone();
        Quality {
            labels: self.labels(),
            reports: QualityReports { store: self.store.clone(), computing: computing.clone() },
            calibrations: Calibrations {
                store: self.store.clone(),
                clock: self.clock.clone(),
                random: self.random.clone(),
                computing,
            },
        }
    }

    /// Starts the writers of finished analyses.
    pub(crate) fn concluder(&self, actions: &Actions, billing: &Billing) -> Concluder {
        let writer = ConclusionWriter {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            objects: Arc::clone(&self.objects),
            announcements: Announcements {
                firings: actions.firings.clone(),
                audits: actions.audits.clone(),
                deliveries: actions.deliveries.clone(),
                mailer: self.mailer.clone(),
                chat: self.chat.clone(),
                courier: self.courier.clone(),
            },
            balances: billing.balances.clone(),
            prices: self.prices.clone(),
            keeps_history: self.options.answer_history_days > 0,
        };
        Concluder::start(&writer, self.traces.clone(), &self.workers)
    }

    /// Who asks the analyzers.
    fn asker(&self, analyzers: Analyzers) -> Asker {
        let stage = |analyzer: Arc<dyn Analyzer>| {
            let workers = usize::from(self.options.workers);
            Stage::new(analyzer, self.clock.clone(), self.traces.clone(), workers)
        };
        let second = analyzers.second.map(|second| Escalator {
            stage: stage(second),
            store: self.store.clone(),
            clock: self.clock.clone(),
            prices: self.prices.clone(),
            caps: self.options.escalation.map_or_else(Caps::default, |escalation| Caps {
                answers: escalation.per_day,
                micros: escalation.micros_per_day,
            }),
        });
        Asker::new(stage(analyzers.first), second)
    }

    pub(crate) fn scheduler(&self, analyzers: Analyzers, concluder: Concluder) -> Scheduler {
        let workers = usize::from(self.options.workers);
        Scheduler {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            traces: self.traces.clone(),
            asker: self.asker(analyzers),
            concluder: Arc::new(concluder),
            unpaid: self.unpaid.clone(),
            running: Running::default(),
            wakeup: self.scheduler.clone(),
            intake: self.jobs.clone(),
            feeder: Wakeup::default(),
            workers,
            asking_timeout: self.options.asking_timeout(),
            unreleased: Arc::default(),
        }
    }

    pub(crate) fn analysis(&self, objects: &Objects, billing: &Billing, scheduler: &Scheduler) -> Analysis {
        let questions = CachedQuestions::new(self.store.clone());
        let slots = VerdictSlots {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            running: scheduler.running.clone(),
            analyzer_timeout: self.options.analyzer_timeout,
            escalation_timeout: self.options.escalation_timeout(),
            limit: self.options.sync_limit,
        };
        let bulk_runs = BulkRuns {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            feeder: scheduler.feeder.clone(),
            scheduler: self.scheduler.clone(),
        };
        let jobs =
            Jobs { store: self.store.clone(), clock: self.clock.clone(), scheduler: self.scheduler.clone() };
        Analysis {
            signals: Signals {
                store: self.store.clone(),
                clock: self.clock.clone(),
                random: self.random.clone(),
                bulk_runs: bulk_runs.clone(),
                questions: questions.clone(),
                objects: Arc::clone(&self.objects),
            },
            escalations: Escalations {
                store: self.store.clone(),
                clock: self.clock.clone(),
                questions: questions.clone(),
                fits: EscalationFits { store: self.store.clone(), computing: self.computing.clone() },
                model: scheduler.asker.second().map(|second| second.model().to_owned()),
            },
            trials: Trials {
                store: self.store.clone(),
                clock: self.clock.clone(),
                random: self.random.clone(),
                asker: scheduler.asker.clone(),
                prices: self.prices.clone(),
                computing: self.computing.clone(),
                runner: self.trials.clone(),
            },
            timeline: Timeline { store: self.store.for_lists(), clock: self.clock.clone() },
            jobs: jobs.clone(),
            bulk_runs,
            verdicts: Verdicts {
                store: self.store.clone(),
                clock: self.clock.clone(),
                ingest: objects.ingest.clone(),
                questions: questions.clone(),
                asker: scheduler.asker.clone(),
                slots: slots.clone(),
                concluder: Arc::clone(&scheduler.concluder),
                jobs,
            },
            explanations: Explanations {
                store: self.store.clone(),
                asker: scheduler.asker.clone(),
                slots: slots.clone(),
                concluder: Arc::clone(&scheduler.concluder),
                balances: billing.balances.clone(),
                prices: self.prices.clone(),
                analyzer_timeout: self.options.analyzer_timeout,
            },
            moderation: Moderation {
                store: self.store.clone(),
                clock: self.clock.clone(),
                random: self.random.clone(),
                questions: questions.clone(),
                asker: scheduler.asker.clone(),
                slots: slots.clone(),
                concluder: Arc::clone(&scheduler.concluder),
                balances: billing.balances.clone(),
                labels: self.labels(),
            },
            playground: Playground {
                store: self.store.clone(),
                clock: self.clock.clone(),
                questions,
                asker: scheduler.asker.clone(),
                slots,
                concluder: Arc::clone(&scheduler.concluder),
                balances: billing.balances.clone(),
                prices: self.prices.clone(),
            },
        }
    }

    pub(crate) fn trial_runner(&self, billing: &Billing, scheduler: &Scheduler) -> TrialRunner {
        TrialRunner {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            asker: scheduler.asker.clone(),
            prices: self.prices.clone(),
            balances: billing.balances.clone(),
            unpaid: self.unpaid.clone(),
            wakeup: self.trials.clone(),
            analyzer_timeout: self.options.analyzer_timeout,
        }
    }

    pub(crate) fn expiry(&self) -> Expiry {
        Expiry {
            store: self.store.clone(),
            random: self.random.clone(),
            sealer: self.sealer.clone(),
            notifications: self.notifications.clone(),
            max_age: self.options.webhook_max_age,
        }
    }

    pub(crate) fn courier(&self) -> Courier {
        Courier {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            sealer: self.sealer.clone(),
            outbound: self.outbound.clone(),
            traces: self.traces.clone(),
            notifications: self.notifications.clone(),
            options: CourierOptions {
                timeout: self.options.webhook_timeout,
                retry_base: self.options.webhook_retry_base,
            },
            handle: self.courier.clone(),
        }
    }
}
