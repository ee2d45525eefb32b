//! The fixture of the mail tests: a queue on either database, a manual clock, and workers to start and stop.

use std::time::Duration;

use model::{TenantId, Timestamp};
use service::mail::{Body, Link, Mail, Mailer, Transport};
use service::{Clock, ClockHands, MasterKey, Random, Sealer, Workers};
use store::outbox::messages;
use store::outbox::messages::Channel;
use store::{Backend, Conn, Store};
use testkit::{PATIENCE, Stage, TestDatabase};
use uuid::Uuid;

/// Every test starts at this instant: 2026-01-01T00:00:00Z.
pub(super) const START: Timestamp = Timestamp::from_seconds(1_767_225_600);
pub(super) const TENANT: TenantId = TenantId(Uuid::from_u128(7));

/// A queue of mails, which must be empty at the end of a test.
pub(super) struct MailStage {
    pub(super) database: TestDatabase,
    pub(super) store: Store,
    clock: Clock,
    hands: ClockHands,
}

impl MailStage {
    /// A mailer on the test's database.
    pub(super) fn mailer(&self, transport: Transport) -> Mailer {
        self.mailer_on(self.store.clone(), transport, 1)
    }

    /// A mailer on this store, with a master key generated from this seed.
    pub(super) fn mailer_on(&self, store: Store, transport: Transport, key: u64) -> Mailer {
        let sealer = Sealer::new(MasterKey::generate(&Random::seeded(key)), None);
        let random = Random::system().unwrap();
        Mailer::new(store, self.clock.clone(), random, sealer, transport, "Auspex <auspex@example.com>")
            .unwrap()
    }

    /// A mailer that connects to a server without encryption.
    pub(super) fn plain_mailer(&self, url: &str) -> Mailer {
        self.mailer(Transport::smtp(url).unwrap())
    }

    /// Queues a mail and wakes the worker.
    pub(super) async fn queue(&self, mailer: &Mailer, mail: &Mail) {
        self.store
            .write("queue", async |conn: &mut Conn| mailer.enqueue(conn, TENANT, mail, None).await)
            .await
            .unwrap();
        mailer.wake();
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn advance(&self, by: Duration) {
        self.hands.advance(by);
    }

    /// When the next mail is due, or its lease ends.
    pub(super) async fn next_due(&self) -> Option<Timestamp> {
        self.store
            .read("next", async |conn: &mut Conn| messages::next_due(conn, Channel::Mail).await)
            .await
            .unwrap()
    }

    /// Waits until the next mail is due this long from now, give or take a tenth.
    pub(super) async fn until_due_in(&self, wait: Duration) -> Timestamp {
        let now = self.now();
        let range = now + wait.mul_f64(0.9)..=now + wait.mul_f64(1.1);
        self.until(async || self.next_due().await.filter(|due| range.contains(due))).await
    }

    /// Waits until this many mails are left in the queue.
    pub(super) async fn until_left(&self, count: i64) {
        self.until(async || (self.store.pending().await.unwrap().messages == count).then_some(())).await;
    }

    async fn until<T>(&self, mut check: impl AsyncFnMut() -> Option<T>) -> T {
        let checking = async {
            loop {
                if let Some(answer) = check().await {
                    break answer;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if let Ok(answer) = tokio::time::timeout(PATIENCE, checking).await {
            return answer;
        }
        panic!("timed out waiting for the queue; the next mail is due at {:?}", self.next_due().await);
    }
}

impl Stage for MailStage {
    async fn set_up(backend: Backend) -> Self {
        let database = TestDatabase::create_migrated(backend).await;
        let store = database.open().await;
        let (clock, hands) = Clock::manual(START);
        Self { database, store, clock, hands }
    }

    async fn tear_down(self) {
        assert_eq!(self.store.pending().await.unwrap().messages, 0, "mails are left at the end of the test");
        self.store.close().await;
        self.database.tear_down().await;
    }
}

/// Starts a worker for a mailer.
pub(super) fn start(mailer: &Mailer) -> Workers {
    let workers = Workers::default();
    workers.start(|stop| mailer.clone().run(stop));
    workers
}

/// A mail to this address.
pub(super) fn mail_to(to: &str) -> Mail {
    let body = Body {
        heading: "Grüße aus Köln".to_owned(),
        paragraphs: vec![
            "Ein Satz mit Umlauten: äöü.".to_owned(),
            ".".to_owned(),
            "From here on.".to_owned(),
        ],
        link: Some(Link {
            label: "Weiter".to_owned(),
            url: "https://auspex.example/console?a=1&b=2".to_owned(),
        }),
        footer: None,
    };
    Mail::new(
        "test",
        to,
        "Grüße, ein Betreff mit Umlauten und mehr Wörtern, als auf eine Zeile passen: äöü",
        &body,
    )
}
