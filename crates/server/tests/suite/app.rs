//! The stage of every HTTP story: the service in this process, reached over loopback like by any client.

use std::sync::Mutex;
use std::time::Duration;

use auspex_server::Server;
use auspex_server::config::Config;
use model::Timestamp;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::Value;
use service::{Clock, ClockHands, Random};
use store::{Backend, Pending};
use testkit::{Stage, TestDatabase};

/// Every story starts at this instant: 2026-01-01T00:00:00Z.
pub(crate) const START: Timestamp = Timestamp::from_seconds(1_767_225_600);
/// How long the service may take to work off what a story left in its queues.
const QUEUES_LIMIT: Duration = Duration::from_secs(10);

/// A running service with its database, its clock's hands and a client.
pub(crate) struct App {
    database: TestDatabase,
    server: Mutex<Option<Server>>,
    base: String,
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

impl App {
    /// Starts the service on a fresh database with these settings beside the usual ones.
    pub(crate) async fn start(backend: Backend, settings: &[(&str, &str)]) -> Self {
        let database = TestDatabase::create(backend).await;
        let url = database.url().to_owned();
        Self::start_on(database, &url, settings).await
    }

    /// Starts the service on this database, reached by `url`.
    pub(crate) async fn start_on(database: TestDatabase, url: &str, settings: &[(&str, &str)]) -> Self {
        let data_dir = database.directory().join("data").display().to_string();
        let usual = [
            ("AUSPEX_LISTEN", "127.0.0.1:0"),
            ("AUSPEX_DATA_DIR", &data_dir),
            ("AUSPEX_DATABASE_URL", url),
            ("AUSPEX_MASTER_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
        ];
        let variables =
            usual.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let config = Config::from_environment(variables).expect("the settings of a test are valid");
        let (clock, hands) = Clock::manual(START);
        let server =
            Server::start(config, clock, Random::system().unwrap()).await.expect("the service starts");
        let base = format!("http://{}", server.address());
        let client = Client::builder().timeout(Duration::from_secs(30)).no_proxy().build().unwrap();
        Self { database, server: Mutex::new(Some(server)), base, hands, client }
    }

    /// Moves the service's clock.
    pub(crate) fn advance(&self, by: Duration) {
        self.hands.advance(by);
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
        Reply { status, headers, text: response.text().await.expect("the answer is text") }
    }

    /// `GET path`.
    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(self.request(Method::GET, path)).await
    }

    /// Overwrites the SQLite file under the running service.
    pub(crate) fn break_sqlite_file(&self) {
        for name in ["auspex.db", "auspex.db-wal", "auspex.db-shm"] {
            let path = self.database.directory().join(name);
            let length = std::fs::metadata(&path).unwrap().len();
            std::fs::write(&path, vec![0xAA; usize::try_from(length).unwrap()]).unwrap();
        }
    }

    /// Waits until no work is left in any queue.
    async fn settle(&self, store: &store::Store) {
        let idle = Pending::default();
        let settled = tokio::time::timeout(QUEUES_LIMIT, async {
            while store.pending().await.expect("the queues can be counted") != idle {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        if settled.await.is_err() {
            panic!("the story leaves work behind: {:?}", store.pending().await);
        }
    }
}

impl Stage for App {
    async fn set(backend: Backend) -> Self {
        Self::start(backend, &[]).await
    }

    async fn strike(self) {
        let server = self.server.lock().unwrap().take().expect("the service runs until the end");
        self.settle(server.store()).await;
        assert!(server.stop().await, "the service drains in time");
        self.database.strike().await;
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
        assert_eq!(
            body,
            serde_json::json!({"error": {"code": code, "message": message}}),
            "nothing but the envelope"
        );
        message
    }
}
