//! What every test of the HTTP API runs on: the service in this process, reached over loopback like by any client.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use analyzer::Analyzer;
use auspex_server::Server;
use auspex_server::config::Config;
use mailparse::MailHeaderMap as _;
use model::Timestamp;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use service::{Clock, ClockHands, Random, Service};
use store::{Backend, Pending};
use testkit::{PATIENCE, Stage, TestDatabase};

use crate::log_watch;
use crate::signer::Signer;

/// Every story starts at this instant: 2026-01-01T00:00:00Z.
pub(crate) const START: Timestamp = Timestamp::from_seconds(1_767_225_600);
/// A password that nobody guesses.
pub(crate) const PASSWORD: &str = "correct horse battery staple";

/// The subject of the mail with the link that proves an address.
pub(crate) const CONFIRM: &str = "Confirm your email address";

/// A running service with its database, its clock's hands and a client.
pub(crate) struct App {
    database: TestDatabase,
    server: Mutex<Option<Server>>,
    base: String,
    clock: Clock,
    hands: ClockHands,
    client: Client,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

/// A mail that the service has sent, as it lies in the data directory.
#[derive(Debug)]
pub(crate) struct SentMail {
    pub(crate) to: String,
    pub(crate) subject: String,
    pub(crate) text: String,
    /// Where a mail program withdraws from it, if it can be withdrawn from with one click.
    pub(crate) withdraw_url: Option<String>,
}

impl App {
    /// Starts the service on a fresh database with these settings beside the usual ones.
    pub(crate) async fn start(backend: Backend, settings: &[(&str, &str)]) -> Self {
        let database = TestDatabase::create_migrated(backend).await;
        let url = database.url().to_owned();
        Self::start_on(database, &url, settings).await
    }

    /// Starts the service as [`App::start`] does, at another time, for stories with a peer that goes by the real one.
    pub(crate) async fn start_at(backend: Backend, settings: &[(&str, &str)], start: Timestamp) -> Self {
        let database = TestDatabase::create_migrated(backend).await;
        let url = database.url().to_owned();
        Self::start_with(database, &url, settings, start).await
    }

    /// Starts the service on this database, reached by `url`.
    pub(crate) async fn start_on(database: TestDatabase, url: &str, settings: &[(&str, &str)]) -> Self {
        Self::start_with(database, url, settings, START).await
    }

    /// Starts the service by a clock that the test does not advance.
    pub(crate) async fn start_by(backend: Backend, settings: &[(&str, &str)], clock: Clock) -> Self {
        let database = TestDatabase::create_migrated(backend).await;
        let url = database.url().to_owned();
        let server = start_server(&database, &url, settings, &clock).await;
        // Hands of another clock.
        let (_, hands) = Clock::manual(START);
        Self::around(server, database, clock, hands)
    }

    /// Starts the service with an analyzer of the test.
    pub(crate) async fn start_with_analyzer(backend: Backend, analyzer: Arc<dyn Analyzer>) -> Self {
        log_watch::start();
        let database = TestDatabase::create_migrated(backend).await;
        let config = config(&database, database.url(), &[]);
        let (clock, hands) = Clock::manual(START);
        let random = Random::system().unwrap();
        let server = Server::start_with(config, clock.clone(), random, analyzer).await;
        Self::around(server.expect("the service starts"), database, clock, hands)
    }

    async fn start_with(
        database: TestDatabase,
        url: &str,
        settings: &[(&str, &str)],
        start: Timestamp,
    ) -> Self {
        let (clock, hands) = Clock::manual(start);
        let server = start_server(&database, url, settings, &clock).await;
        Self::around(server, database, clock, hands)
    }

    fn around(server: Server, database: TestDatabase, clock: Clock, hands: ClockHands) -> Self {
        let base = format!("http://{}", server.address());
        let client = Client::builder().timeout(PATIENCE).no_proxy().build().unwrap();
        Self { database, server: Mutex::new(Some(server)), base, clock, hands, client }
    }

    /// Starts another node on the same database, with the same clock.
    pub(crate) async fn second_node(&self, settings: &[(&str, &str)]) -> Self {
        let server = start_server(&self.database, self.database.url(), settings, &self.clock).await;
        let base = format!("http://{}", server.address());
        Self {
            database: self.database.share(),
            server: Mutex::new(Some(server)),
            base,
            clock: self.clock.clone(),
            hands: self.hands.clone(),
            client: self.client.clone(),
        }
    }

    /// Starts another node on the same database, with a clock of its own that shows another time.
    pub(crate) async fn second_node_at(&self, settings: &[(&str, &str)], start: Timestamp) -> Self {
        let (clock, hands) = Clock::manual(start);
        let server = start_server(&self.database, self.database.url(), settings, &clock).await;
        Self::around(server, self.database.share(), clock, hands)
    }

    /// Stops the service and starts it again on the same database.
    pub(crate) async fn restart(&mut self, settings: &[(&str, &str)]) {
        let server = self.server.lock().unwrap().take().expect("the service runs");
        assert!(server.stop().await, "the service drains in time");
        let server = start_server(&self.database, self.database.url(), settings, &self.clock).await;
        self.base = format!("http://{}", server.address());
        self.server = Mutex::new(Some(server));
    }

    /// Stops this node.
    pub(crate) async fn stop(self) {
        let server = self.server.lock().unwrap().take().expect("the service runs");
        assert!(server.stop().await, "the service drains in time");
    }

    /// Moves the service's clock.
    pub(crate) fn advance(&self, by: Duration) {
        self.hands.advance(by);
    }

    /// Sets the host's clock ahead while no time passes.
    pub(crate) fn set_clock_ahead(&self, by: Duration) {
        self.hands.set_ahead(by);
    }

    /// Sets the host's clock back while no time passes.
    pub(crate) fn set_clock_back(&self, by: Duration) {
        self.hands.set_back(by);
    }

    /// The process has a heartbeat, besides those that come by themselves.
    pub(crate) async fn heart_has_beaten(&self) {
        self.service().beat().await.unwrap();
    }

    /// The time on the service's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The service's clock, for clients that sign by it.
    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// The directory that the service keeps its files in.
    pub(crate) fn data_directory(&self) -> std::path::PathBuf {
        self.database.directory().join("data")
    }

    /// The database.
    pub(crate) fn database(&self) -> TestDatabase {
        self.database.share()
    }

    /// The database's address, for commands beside the service.
    pub(crate) fn database_url(&self) -> &str {
        self.database.url()
    }

    /// The address of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// A request to be finished with [`App::send`].
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path))
    }

    /// Sends a request.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Reply {
        let response = request.send().await.expect("the service answers");
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.expect("the answer is text");
        if let Ok(answer) = serde_json::from_str(&text) {
            log_watch::remember_answer(&answer);
        }
        Reply { status, headers, text }
    }

    /// `GET path`.
    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(self.request(Method::GET, path)).await
    }

    /// `POST path` with a JSON body.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// A request with a bearer token, and with a JSON body unless that is null.
    pub(crate) async fn call(&self, token: &str, method: Method, path: &str, body: &Value) -> Reply {
        let request = self.request(method, path).bearer_auth(token);
        self.send(if body.is_null() { request } else { request.json(body) }).await
    }

    /// Opens an account and returns its admin's console token.
    pub(crate) async fn register(&self, email: &str) -> String {
        let body = json!({"tenant_name": "Acme", "email": email, "password": PASSWORD});
        let reply = self.post("/auth/console/register", &body).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["token"].as_str().unwrap().to_owned()
    }

    /// Makes an API key and returns what signs with it.
    pub(crate) async fn api_key(&self, token: &str) -> Signer {
        let reply = self.call(token, Method::POST, "/v1/api_keys", &json!({})).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        let made = reply.json();
        Signer::new(made["key"].as_str().unwrap(), made["secret"].as_str().unwrap())
    }

    /// Makes a bearer key with these scopes, and returns what requests carry.
    pub(crate) async fn bearer_key(&self, token: &str, scopes: &[&str]) -> String {
        let request = json!({"kind": "bearer", "scopes": scopes});
        let reply = self.call(token, Method::POST, "/v1/api_keys", &request).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["secret"].as_str().unwrap().to_owned()
    }

    /// Waits for the queues to empty, then reads every mail sent so far, oldest first, but those that every account begins
    /// with: the links that prove addresses.
    pub(crate) async fn mails(&self) -> Vec<SentMail> {
        let mails = self.all_mails().await;
        mails.into_iter().filter(|mail| mail.subject != CONFIRM).collect()
    }

    /// The token of the link that was mailed to an address at registration.
    pub(crate) async fn verification(&self, email: &str) -> String {
        let mails = self.all_mails().await;
        let mail = mails.iter().rfind(|mail| mail.to == email && mail.subject == CONFIRM);
        let text = &mail.unwrap_or_else(|| panic!("no link for {email} in {mails:?}")).text;
        let (_, token) = text.split_once("/console/verify?token=").expect("the mail has a link");
        token.split_whitespace().next().unwrap().to_owned()
    }

    /// The person who holds this session follows the link that was mailed to them at registration.
    pub(crate) async fn verify(&self, session: &str, email: &str) {
        let body = json!({"token": self.verification(email).await});
        let reply = self.call(session, Method::POST, "/auth/console/verify", &body).await;
        assert_eq!(reply.status, 204, "{}", reply.text);
    }

    /// The person who holds this session shows their password again.
    pub(crate) async fn reauthenticate(&self, session: &str) {
        let body = json!({"password": PASSWORD});
        let reply = self.call(session, Method::POST, "/auth/console/reauthenticate", &body).await;
        assert_eq!(reply.status, 204, "{}", reply.text);
    }

    /// Waits for the queues to empty, then reads every mail sent so far, oldest first.
    pub(crate) async fn all_mails(&self) -> Vec<SentMail> {
        self.settle().await;
        let directory = self.data_directory().join("mail");
        let mut paths: Vec<_> =
            std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "eml"));
        paths.sort();
        paths.iter().map(|path| SentMail::parse(&std::fs::read(path).unwrap())).collect()
    }

    /// The subjects of the mails sent to an address so far, oldest first.
    pub(crate) async fn subjects_to(&self, address: &str) -> Vec<String> {
        let mails = self.mails().await;
        mails.into_iter().filter(|mail| mail.to.contains(address)).map(|mail| mail.subject).collect()
    }

    /// Overwrites the SQLite file under the running service.
    pub(crate) fn break_sqlite_file(&self) {
        for name in ["auspex.db", "auspex.db-wal", "auspex.db-shm"] {
            let path = self.database.directory().join(name);
            let length = std::fs::metadata(&path).unwrap().len();
            std::fs::write(&path, vec![0xAA; usize::try_from(length).unwrap()]).unwrap();
        }
    }

    /// Takes all money away from everybody, by a line of the ledger like any other.
    pub(crate) async fn empty_balances(&self) {
        let store = self.server.lock().unwrap().as_ref().expect("the service runs").store().clone();
        let now = self.now();
        store
            .write("empty_balances", async |conn: &mut store::Conn| {
                for tenant in store::accounts::tenants::all(conn).await? {
                    let balance = store::billing::balance::balance(conn, tenant.tenant_id).await?;
                    let taken = store::billing::balance::Credit {
                        entry_id: Random::seeded(7).id(now),
                        micros: -balance,
                        reason: store::billing::ledger::LedgerReason::Adjustment,
                        payment_ref: None,
                        note: None,
                    };
                    store::billing::balance::credit(conn, tenant.tenant_id, &taken, now).await?;
                }
                Ok::<_, store::Error>(())
            })
            .await
            .unwrap();
    }

    /// Gives everybody money, as an operator does.
    pub(crate) async fn credit_everybody(&self, cents: i64) {
        let service = self.service();
        for tenant in service.accounts.operators.tenants().await.unwrap() {
            service.billing.balances.adjust(tenant.tenant_id, cents, None).await.unwrap();
        }
    }

    /// The use cases, for what no endpoint does.
    pub(crate) fn service(&self) -> Arc<Service> {
        Arc::clone(self.server.lock().unwrap().as_ref().expect("the service runs").service())
    }

    /// Asserts that balances, usage and everything else that is kept follows from the ledger.
    pub(crate) async fn audit(&self) {
        let audit = self.service().billing.audit.run().await.expect("the books can be read");
        assert!(audit.drifts.is_empty(), "the books do not agree: {:#?}", audit.drifts);
    }

    /// Waits until the workers have polled their queues from now on, and have ended all that they started: what they
    /// should not do at this time, they would have done.
    pub(crate) async fn workers_have_polled(&self) {
        self.workers_have_polled_with(|| 0).await;
    }

    /// The same, with so many jobs that need not end.
    pub(crate) async fn workers_have_polled_with(&self, held: impl Fn() -> usize) {
        let service = self.service();
        let polled = tokio::time::timeout(PATIENCE, async {
            service.workers_have_polled().await;
            while service.running_jobs() > held() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        assert!(polled.await.is_ok(), "{} jobs are running, {} of them held", service.running_jobs(), held());
    }

    /// Waits until the sweeper has removed what has expired by now.
    pub(crate) async fn sweeper_has_swept(&self) {
        let swept = tokio::time::timeout(PATIENCE, self.service().sweeper_has_swept()).await;
        assert!(swept.is_ok(), "no sweep has ended");
    }

    /// Waits until no work is left in any queue.
    pub(crate) async fn settle(&self) {
        let store = self.server.lock().unwrap().as_ref().expect("the service runs").store().clone();
        let settled = tokio::time::timeout(PATIENCE, async {
            while store.pending().await.expect("the queues can be counted") != Pending::default() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let settled = settled.await.is_ok();
        assert!(settled, "the story leaves work behind: {:?}", store.pending().await);
    }
}

async fn start_server(
    database: &TestDatabase,
    url: &str,
    settings: &[(&str, &str)],
    clock: &Clock,
) -> Server {
    log_watch::start();
    let config = config(database, url, settings);
    Server::start(config, clock.clone(), Random::system().unwrap()).await.expect("the service starts")
}

/// The usual settings of a service on this database, reached by `url`, and these beside them.
pub(crate) fn config(database: &TestDatabase, url: &str, settings: &[(&str, &str)]) -> Config {
    let data_dir = database.directory().join("data").display().to_string();
    let usual = [
        ("AUSPEX_LISTEN", "127.0.0.1:0"),
        ("AUSPEX_DATA_DIR", &data_dir),
        ("AUSPEX_DATABASE_URL", url),
        // Tests are about the service; the model has its own.
        ("AUSPEX_ANALYZER", "words"),
        ("AUSPEX_MASTER_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
    ];
    let variables =
        usual.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::from_environment(variables).expect("the settings of a test are valid")
}

impl Stage for App {
    async fn set_up(backend: Backend) -> Self {
        Self::start(backend, &[]).await
    }

    async fn tear_down(self) {
        self.settle().await;
        self.audit().await;
        let server = self.server.lock().unwrap().take().expect("the service runs until the end");
        assert!(server.stop().await, "the service drains in time");
        self.database.tear_down().await;
        log_watch::search();
    }
}

impl Reply {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {:?}", self.text))
    }

    /// A header's text, empty when it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Asserts a refusal in the envelope and returns its message.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/json");
        let body = self.json();
        assert_eq!(body["error"]["code"], code, "{}", self.text);
        let message = body["error"]["message"].as_str().unwrap().to_owned();
        assert!(!message.is_empty());
        assert_eq!(body, json!({"error": {"code": code, "message": message}}), "nothing but the envelope");
        message
    }
}

impl SentMail {
    fn parse(bytes: &[u8]) -> Self {
        let mail = mailparse::parse_mail(bytes).unwrap();
        let header = |name: &str| mail.get_headers().get_first_value(name).unwrap_or_default();
        let text = mail.parts().find(|part| part.ctype.mimetype == "text/plain").unwrap().get_body().unwrap();
        for (_, rest) in text.match_indices("?token=").map(|(at, mark)| text.split_at(at + mark.len())) {
            log_watch::remember(rest.split_whitespace().next().unwrap_or_default());
        }
        let withdraw_url = header("List-Unsubscribe");
        let one_click = header("List-Unsubscribe-Post") == "List-Unsubscribe=One-Click";
        let withdraw_url = withdraw_url.trim_start_matches('<').trim_end_matches('>').to_owned();
        let withdraw_url = (one_click && !withdraw_url.is_empty()).then_some(withdraw_url);
        Self { to: header("To"), subject: header("Subject"), text, withdraw_url }
    }
}
