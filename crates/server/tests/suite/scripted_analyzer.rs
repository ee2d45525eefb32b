//! An analyzer whose answers and timing a test decides.
//!
//! It stands in for a decision-model server, so that an analysis can be stopped in the middle, refused or lost at will.
//! The analyzer crate is tested against a real server; here only the service's side is tested.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use reqwest::Method;
use serde_json::{Map, Value, json};
use store::analysis::jobs;
use store::{Backend, Conn, Store};
use testkit::{PATIENCE, Stage};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::{App, Reply};
use crate::signer::Signer;

/// What the analyzer says that it read and wrote each time: 104 micro-dollars at the default prices.
pub(crate) const TOKENS: (u64, u64) = (1_000, 10);
/// The price of one analysis.
pub(crate) const PRICE_MICROS: i64 = 104;

/// What the analyzer does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Turn {
    /// Answers every question: this is the probability of yes, of the first option and of the first level.
    Answer(f64),
    /// The same, once the gate is opened.
    AnswerWhenOpened(f64, Gate),
    /// Answers only the questions of one type.
    Only(&'static str),
    /// Refuses with a status, and says how long to wait.
    Refuse(u16, Option<&'static str>),
    /// Says this, whatever was asked.
    Say(&'static str),
    /// Takes the question and never answers.
    Silence,
}

/// Holds a request back.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    /// Lets the request go.
    pub(crate) fn open(&self) {
        self.0.add_permits(1);
    }
}

/// The server, what it will do and what it saw.
pub(crate) struct ScriptedAnalyzer {
    address: SocketAddr,
    script: Arc<Script>,
    tasks: TaskTracker,
    running: Mutex<CancellationToken>,
}

struct Script {
    /// The name of its model.
    model: &'static str,
    /// What is done with the next requests, one each.
    next: Mutex<VecDeque<Turn>>,
    /// What is done with all others.
    usual: Mutex<Turn>,
    /// The types of the questions of each request.
    kinds: Mutex<Vec<Vec<String>>>,
    /// The states that were asked about, in order of arrival.
    seen: watch::Sender<Vec<String>>,
    /// Requests that wait for a gate or are never answered.
    waiting: AtomicUsize,
}

impl ScriptedAnalyzer {
    /// Listens on a port of its own and answers everything.
    pub(crate) async fn start() -> Self {
        Self::start_as("scripted").await
    }

    /// The same, with a model of this name.
    pub(crate) async fn start_as(model: &'static str) -> Self {
        let script = Script {
            model,
            kinds: Mutex::default(),
            next: Mutex::new(VecDeque::new()),
            usual: Mutex::new(Turn::Answer(0.5)),
            seen: watch::channel(Vec::new()).0,
            waiting: AtomicUsize::new(0),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let analyzer = Self {
            address: listener.local_addr().unwrap(),
            script: Arc::new(script),
            tasks: TaskTracker::new(),
            running: Mutex::default(),
        };
        analyzer.serve(listener);
        analyzer
    }

    fn serve(&self, listener: TcpListener) {
        let routes = Router::new().route("/v1/systemone", post(answer)).with_state(Arc::clone(&self.script));
        let stop = CancellationToken::new();
        *self.running.lock().unwrap() = stop.clone();
        let server = axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned());
        self.tasks.spawn(async move { server.await.unwrap() });
    }

    /// Refuses connections from now on.
    pub(crate) async fn stop(&self) {
        self.running.lock().unwrap().cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Listens again where it did before.
    pub(crate) async fn resume(&self) {
        self.tasks.reopen();
        self.serve(TcpListener::bind(self.address).await.unwrap());
    }

    /// What `AUSPEX_ANALYZER_URL` must be.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Decides about one more request.
    pub(crate) fn then(&self, turn: Turn) {
        self.script.next.lock().unwrap().push_back(turn);
    }

    /// Holds one more request back: it is answered with this probability once the gate opens.
    pub(crate) fn hold(&self, probability: f64) -> Gate {
        let gate = Gate(Arc::new(Semaphore::new(0)));
        self.then(Turn::AnswerWhenOpened(probability, gate.clone()));
        gate
    }

    /// Decides about all requests that nothing else was decided about.
    pub(crate) fn always(&self, turn: Turn) {
        *self.script.usual.lock().unwrap() = turn;
    }

    /// The states that were asked about, in order of arrival.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.script.seen.borrow().clone()
    }

    /// The types of the questions of each request, in order of arrival.
    pub(crate) fn kinds(&self) -> Vec<Vec<String>> {
        self.script.kinds.lock().unwrap().clone()
    }

    /// Requests that it holds back or never answers.
    pub(crate) fn waiting(&self) -> usize {
        self.script.waiting.load(Ordering::SeqCst)
    }

    /// How often it was asked.
    pub(crate) fn count(&self) -> usize {
        self.script.seen.borrow().len()
    }

    /// Waits until it was asked this often, and not more often.
    #[track_caller]
    pub(crate) fn asked(&self, times: usize) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        let mut seen = self.script.seen.subscribe();
        async move {
            let waited = tokio::time::timeout(PATIENCE, seen.wait_for(|seen| seen.len() >= times));
            let reached = waited.await.is_ok();
            let count = seen.borrow().len();
            assert!(reached && count == times, "{caller}: the analyzer was asked {count} times, not {times}");
        }
    }
}

async fn answer(State(script): State<Arc<Script>>, Json(request): Json<Value>) -> Response {
    let turn = script.next.lock().unwrap().pop_front();
    let turn = turn.unwrap_or_else(|| script.usual.lock().unwrap().clone());
    let state = request["state"].as_str().expect("the state is a text").to_owned();
    // Counted first: whoever has seen the request arrive also finds it waiting.
    let waiting =
        matches!(turn, Turn::AnswerWhenOpened(..) | Turn::Silence).then(|| WaitingRequest::count(&script));
    let questions = request["questions"].as_object().unwrap().values();
    let kinds = questions.map(|question| question["type"].as_str().unwrap().to_owned());
    script.kinds.lock().unwrap().push(kinds.collect());
    script.seen.send_modify(|seen| seen.push(state));
    let reply = match turn {
        Turn::Answer(probability) => findings(script.model, &request, probability, None),
        Turn::AnswerWhenOpened(probability, gate) => {
            gate.0.acquire().await.unwrap().forget();
            drop(waiting);
            findings(script.model, &request, probability, None)
        }
        Turn::Only(kind) => findings(script.model, &request, 0.5, Some(kind)),
        Turn::Refuse(status, retry_after) => {
            let headers = retry_after.map(|wait| [(header::RETRY_AFTER, wait)]);
            let status = StatusCode::from_u16(status).unwrap();
            headers.map_or_else(|| status.into_response(), |headers| (status, headers).into_response())
        }
        Turn::Say(text) => text.into_response(),
        Turn::Silence => std::future::pending().await,
    };
    // No connection outlives its request: a server that has stopped is down for everybody at once.
    ([(HeaderName::from_static("connection"), "close")], reply).into_response()
}

/// Counts a request that waits for its gate, until it is answered or its caller goes away.
struct WaitingRequest(Arc<Script>);

impl WaitingRequest {
    fn count(script: &Arc<Script>) -> Self {
        script.waiting.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(script))
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

fn findings(model: &str, request: &Value, probability: f64, only: Option<&str>) -> Response {
    let asked = request["questions"].as_object().unwrap();
    let asked = asked.iter().filter(|(_, question)| only.is_none_or(|kind| question["type"] == kind));
    let answers: Map<String, Value> =
        asked.map(|(id, question)| (id.clone(), finding(question, probability))).collect();
    let usage = json!({"input_tokens": TOKENS.0, "output_tokens": TOKENS.1});
    Json(json!({"model": model, "answers": answers, "usage": usage})).into_response()
}

fn finding(question: &Value, probability: f64) -> Value {
    let names: Vec<String> = match (question["type"].as_str().unwrap(), &question["criteria"]) {
        ("noul", _) => return json!({"type": "noul", "noul": probability}),
        (_, Value::Array(levels)) => (0..levels.len()).map(|level| level.to_string()).collect(),
        (_, options) => options.as_object().unwrap().keys().cloned().collect(),
    };
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let rest = (1.0 - probability) / (names.len() - 1) as f64;
    let share = |index: usize| if index == 0 { probability } else { rest };
    let shares: Map<String, Value> =
        names.into_iter().enumerate().map(|(index, name)| (name, json!(share(index)))).collect();
    json!({"type": question["type"], "probabilities": shares})
}

/// What a service is started with beside its scripted analyzer.
pub(crate) trait Settings {
    const SETTINGS: &'static [(&'static str, &'static str)];
}

/// As it comes.
pub(crate) struct Usual;
/// One analysis at a time, so that their order is certain.
pub(crate) struct OneWorker;

impl Settings for Usual {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[];
}

impl Settings for OneWorker {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_WORKERS", "1")];
}

/// The service beside a scripted analyzer.
pub(crate) struct Scripted<S = Usual> {
    pub(crate) app: App,
    pub(crate) analyzer: ScriptedAnalyzer,
    /// A second way into the service's database, to look at what no endpoint shows.
    pub(crate) store: Store,
    settings: PhantomData<S>,
}

impl<S> Deref for Scripted<S> {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

impl<S: Settings> Scripted<S> {
    /// The service with these settings too.
    pub(crate) async fn start(backend: Backend, more: &[(&str, &str)]) -> Self {
        let analyzer = ScriptedAnalyzer::start().await;
        let url = analyzer.url();
        let settings = [S::SETTINGS, &with_analyzer(&url), more].concat();
        let app = App::start(backend, &settings).await;
        let store = Store::open(app.database_url()).await.unwrap();
        Self { app, analyzer, store, settings: PhantomData }
    }
}

impl<S: Settings> Stage for Scripted<S> {
    async fn set_up(backend: Backend) -> Self {
        Self::start(backend, &[]).await
    }

    async fn tear_down(self) {
        self.store.close().await;
        self.app.tear_down().await;
    }
}

/// The settings that lead to a scripted analyzer.
pub(crate) fn with_analyzer(url: &str) -> [(&str, &str); 3] {
    [("AUSPEX_ANALYZER", "systemone"), ("AUSPEX_ANALYZER_URL", url), ("AUSPEX_ANALYZER_MODEL", "scripted")]
}

impl<S> Scripted<S> {
    /// A new account's key.
    pub(crate) async fn account(&self, email: &str) -> Signer {
        let token = self.register(email).await;
        self.api_key(&token).await
    }

    /// Counts rows, or sums numbers.
    pub(crate) async fn number(&self, query: &'static str) -> i64 {
        number(&self.store, query).await
    }

    /// Changes rows behind the service's back.
    pub(crate) async fn execute(&self, statement: &'static str) {
        execute(&self.store, statement).await;
    }

    /// Analyses charged so far.
    pub(crate) async fn charges(&self) -> i64 {
        self.number("SELECT count(*) FROM ledger_entries WHERE reason = 'analysis'").await
    }

    /// Waits until no analysis runs and none is due.
    pub(crate) async fn at_rest(&self) {
        until("the queue comes to rest", async || {
            let due = self.store.read("next_due", async |conn: &mut Conn| jobs::next_due(conn).await).await;
            let running = self.number("SELECT count(*) FROM jobs WHERE lease_token IS NOT NULL").await;
            running == 0 && due.unwrap().is_none_or(|due| due > self.now())
        })
        .await;
    }

    /// Waits until the workers have polled their queues, and have ended all that they started except for the analyses
    /// that the analyzer holds back: what they should not do at this time, they would have done.
    pub(crate) async fn workers_have_polled(&self) {
        self.app.workers_have_polled_with(|| self.analyzer.waiting()).await;
    }
}

/// Changes rows behind the service's back.
pub(crate) async fn execute(store: &Store, statement: &'static str) {
    let written = store.write("test", async |conn: &mut Conn| {
        match conn {
            Conn::Sqlite(lent) => sqlx::query(statement).execute(lent.native()).await.map(drop)?,
            Conn::Postgres(lent) => sqlx::query(statement).execute(lent.native()).await.map(drop)?,
        }
        Ok::<_, store::Error>(())
    });
    written.await.unwrap();
}

/// Asks a database for one number.
pub(crate) async fn number(store: &Store, query: &'static str) -> i64 {
    let read = store.read("number", async |conn: &mut Conn| {
        Ok::<i64, store::Error>(match conn {
            Conn::Sqlite(held) => sqlx::query_scalar(query).fetch_one(held.native()).await?,
            Conn::Postgres(held) => sqlx::query_scalar(query).fetch_one(held.native()).await?,
        })
    });
    read.await.unwrap()
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "in vain: {what}");
}

/// An event by its name.
pub(crate) fn event(name: &str) -> Value {
    json!({"type": "event", "name": name})
}

/// Sends events about an object.
pub(crate) async fn ingest(app: &App, key: &Signer, object: &str, body: &Value) -> Reply {
    key.call(app, Method::POST, &format!("/v1/objects/{object}/events"), body).await
}

/// Sends one event that an analysis is scheduled for.
pub(crate) async fn send_event(app: &App, key: &Signer, object: &str, name: &str) {
    let reply = ingest(app, key, object, &json!({"events": [event(name)]})).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
}

/// Sends one event and waits for the verdict.
pub(crate) async fn ingest_and_wait(app: &App, key: &Signer, object: &str, name: &str) -> Reply {
    ingest(app, key, object, &json!({"events": [event(name)], "wait": true})).await
}

/// Reads.
pub(crate) async fn get(app: &App, key: &Signer, path: &str) -> Reply {
    key.call(app, Method::GET, path, &Value::Null).await
}

/// The probability that an object is a scammer's, as it is shown; none without an answer.
pub(crate) async fn risk(app: &App, key: &Signer, object: &str) -> Option<f64> {
    let shown = get(app, key, &format!("/v1/objects/{object}")).await.json();
    let answers = shown["analysis"].as_array().unwrap().clone();
    answers.iter().find(|answer| answer["key"] == "is_scammer")?["noul"].as_f64()
}
