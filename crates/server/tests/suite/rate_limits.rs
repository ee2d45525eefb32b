//! Budgets: one for an account over all its keys, sessions and nodes; one for an address that fails to authenticate.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::{Backend, Stage as _};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::app::{App, Reply};
use crate::signer::Signer;

const MINUTE: Duration = Duration::from_mins(1);
/// What an address may do in a minute without proving who it is.
const ADDRESS_LIMIT: u32 = 300;

/// A limit that a story can reach.
const SMALL: &[(&str, &str)] = &[("AUSPEX_RATE_LIMIT_PER_MINUTE", "20")];
/// Every connection of the suite comes from a proxy.
const PROXIED: &[(&str, &str)] = &[("AUSPEX_TRUSTED_PROXIES", "127.0.0.1/32,10.0.0.0/8")];

/// Plays a story on both databases with these settings.
macro_rules! on_both_with {
    ($($story:ident: $settings:expr),* $(,)?) => {$(
        mod $story {
            #[test]
            fn sqlite() {
                super::run_with(testkit::Backend::Sqlite, $settings, super::$story);
            }

            #[test]
            fn postgres() {
                super::run_with(testkit::Backend::Postgres, $settings, super::$story);
            }
        }
    )*};
}

on_both_with!(
    keys_and_sessions_of_an_account_share_one_budget: super::SMALL,
    what_is_refused_has_no_effect: super::SMALL,
    every_answer_of_the_interface_says_what_is_left: super::SMALL,
    another_account_is_untouched: super::SMALL,
    requests_at_once_do_not_overdraw: super::SMALL,
    an_address_that_fails_is_stopped: &[],
    sign_in_is_limited_for_an_address: &[],
    who_authenticates_spends_nothing_of_the_address: &[],
    a_header_from_anyone_names_no_address: &[],
    a_proxy_names_the_address: super::PROXIED,
    addresses_that_a_proxy_was_sent_are_not_trusted: super::PROXIED,
);

fn run_with(backend: Backend, settings: &[(&str, &str)], story: impl AsyncFnOnce(&App)) {
    testkit::in_runtime(async {
        let app = App::start(backend, settings).await;
        story(&app).await;
        app.tear_down().await;
    });
}

async fn me(app: &App, token: &str) -> Reply {
    app.call(token, Method::GET, "/v1/me", &Value::Null).await
}

/// The refusal of a request over the limit; returns the seconds to wait.
#[track_caller]
fn over(reply: &Reply) -> u64 {
    reply.refused(429, "rate_limited");
    let wait = reply.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    wait
}

#[track_caller]
fn number(reply: &Reply, header: &str) -> u64 {
    reply
        .header(header)
        .parse()
        .unwrap_or_else(|_| panic!("{header} of {} {:?}", reply.status, reply.headers))
}

async fn keys_and_sessions_of_an_account_share_one_budget(app: &App) {
    let console = app.register("ada@acme.example").await;
    let keys = [app.api_key(&console).await, app.api_key(&console).await];
    let ask = async |turn: usize| match turn % 3 {
        2 => me(app, &console).await,
        key => keys[key].call(app, Method::GET, "/v1/me", &Value::Null).await,
    };
    for minute in 0..2 {
        app.advance(MINUTE);
        for turn in 0..20 {
            let reply = ask(turn).await;
            assert_eq!(reply.status, 200, "minute {minute}, request {turn}: {}", reply.text);
            assert_eq!(number(&reply, "ratelimit-remaining"), 19 - turn as u64);
        }
        for turn in 0..3 {
            let reply = ask(turn).await;
            let wait = over(&reply);
            assert_eq!(number(&reply, "ratelimit-remaining"), 0);
            assert_eq!(number(&reply, "ratelimit-reset"), wait);
        }
    }
    // Waiting as long as it says is enough.
    let wait = over(&ask(0).await);
    app.advance(Duration::from_secs(wait));
    assert_eq!(ask(0).await.status, 200);
}

async fn what_is_refused_has_no_effect(app: &App) {
    let console = app.register("ada@acme.example").await;
    for _ in 0..20 {
        me(app, &console).await;
    }
    over(&app.call(&console, Method::POST, "/v1/api_keys", &json!({})).await);
    // Also what would be wrong in itself.
    over(&app.call(&console, Method::DELETE, "/v1/api_keys/x", &Value::Null).await);
    app.advance(MINUTE);
    let keys = app.call(&console, Method::GET, "/v1/api_keys", &Value::Null).await.json();
    assert_eq!(keys, json!({"api_keys": []}));
}

async fn every_answer_of_the_interface_says_what_is_left(app: &App) {
    let console = app.register("ada@acme.example").await;
    let key = app.api_key(&console).await;
    let unknown = format!("/v1/api_keys/{}", Uuid::from_u128(7));
    let wrong = json!({"name": 7});
    let mut left = 19;
    for (token, method, path, body, status) in [
        (&console, Method::GET, "/v1/me", Value::Null, 200),
        (&console, Method::POST, "/v1/api_keys", json!({}), 201),
        (&console, Method::POST, "/v1/api_keys", wrong, 400),
        (&console, Method::DELETE, &unknown, Value::Null, 404),
        (&console, Method::DELETE, "/v1/api_keys/x", Value::Null, 400),
        (&key.sign(app.now(), &Method::GET, "/v1/me/mfa"), Method::GET, "/v1/me/mfa", Value::Null, 403),
    ] {
        let reply = app.call(token, method, path, &body).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text);
        left -= 1;
        assert_eq!(number(&reply, "ratelimit-limit"), 20, "{path}");
        assert_eq!(number(&reply, "ratelimit-remaining"), left, "{path}");
        assert!((1..=60).contains(&number(&reply, "ratelimit-reset")), "{path}");
    }
    // Who is not known has the budget of an address.
    for path in ["/v1/me", "/v1/api_keys", "/v1/settings"] {
        let reply = app.call("garbage", Method::GET, path, &Value::Null).await;
        assert_eq!(reply.status, 401, "{path}: {}", reply.text);
        assert_eq!(number(&reply, "ratelimit-limit"), u64::from(ADDRESS_LIMIT), "{path}");
        assert!(number(&reply, "ratelimit-remaining") < u64::from(ADDRESS_LIMIT), "{path}");
        assert!((1..=60).contains(&number(&reply, "ratelimit-reset")), "{path}");
    }
}

async fn another_account_is_untouched(app: &App) {
    let ada = app.register("ada@acme.example").await;
    let eve = app.register("eve@zenith.example").await;
    for _ in 0..20 {
        assert_eq!(me(app, &ada).await.status, 200);
    }
    over(&me(app, &ada).await);
    let reply = me(app, &eve).await;
    assert_eq!(reply.status, 200);
    assert_eq!(number(&reply, "ratelimit-remaining"), 19);
}

/// Sends all requests at once and counts those that got through.
async fn burst(requests: impl Iterator<Item = RequestBuilder>) -> usize {
    let mut under_way = JoinSet::new();
    for request in requests {
        under_way.spawn(async move { request.send().await.expect("the service answers").status() });
    }
    let statuses = under_way.join_all().await;
    assert!(statuses.iter().all(|status| *status == 200 || *status == 429), "{statuses:?}");
    statuses.iter().filter(|status| **status == 200).count()
}

async fn requests_at_once_do_not_overdraw(app: &App) {
    let console = app.register("ada@acme.example").await;
    let through = burst((0..60).map(|_| app.request(Method::GET, "/v1/me").bearer_auth(&console))).await;
    assert_eq!(through, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_share_the_budget_of_an_account() {
    const LIMIT: usize = 300;
    let settings = [("AUSPEX_RATE_LIMIT_PER_MINUTE", "300")];
    let app = App::start(Backend::Postgres, &settings).await;
    let other = app.second_node(&settings).await;
    let console = app.register("ada@acme.example").await;
    let key = app.api_key(&console).await;
    // Evenly, mostly on one, and all on one: nowhere more than the limit, and nowhere much less.
    for share in [2, 10, 1_000] {
        app.advance(MINUTE);
        let token = key.sign(app.now(), &Method::GET, "/v1/me");
        let node = |turn: usize| if turn % share == share - 1 { &other } else { &app };
        let mut through = 0;
        // In small bursts, as traffic comes: so that each node speaks with the database in between.
        for turns in (0..LIMIT + 100).collect::<Vec<_>>().chunks(10) {
            let requests =
                turns.iter().map(|turn| node(*turn).request(Method::GET, "/v1/me").bearer_auth(&token));
            through += burst(requests).await;
        }
        assert!(through >= LIMIT * 9 / 10, "one in {share}: {through} of {LIMIT}");
        // What a node still holds of its share is spent too, and then the whole is no more than the limit.
        for node in [&app, &other] {
            let rest = (0..LIMIT / 4).map(|_| node.request(Method::GET, "/v1/me").bearer_auth(&token));
            through += burst(rest).await;
            over(&me(node, &token).await);
        }
        assert!(through <= LIMIT, "one in {share}: {through} of {LIMIT}");
    }
    other.stop().await;
    app.tear_down().await;
}

/// A client at another address of this machine.
fn client_at(address: [u8; 4]) -> Client {
    Client::builder().local_address(std::net::IpAddr::from(address)).no_proxy().build().unwrap()
}

/// Uses up what an address may do without a credential.
async fn exhaust(app: &App, request: impl Fn() -> RequestBuilder, expected: u16) {
    for turn in 0..ADDRESS_LIMIT {
        let reply = app.send(request()).await;
        assert_eq!(reply.status, expected, "request {turn}: {}", reply.text);
    }
    over(&app.send(request()).await);
}

async fn an_address_that_fails_is_stopped(app: &App) {
    let console = app.register("ada@acme.example").await;
    let key = app.api_key(&console).await;
    app.advance(MINUTE);
    let forged = Signer::new(&key.key, "sk_wrong");
    exhaust(
        app,
        || app.request(Method::GET, "/v1/me").bearer_auth(forged.sign(app.now(), &Method::GET, "/v1/me")),
        401,
    )
    .await;
    over(&app.get("/v1/api_keys").await);
    over(&app.send(app.request(Method::GET, "/v1/me").header("x-api-key", "wrong")).await);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(app.get(path).await.status, 200, "health checks are exempt");
    }
    // One office, one address: a colleague's mistake does not stop those who have a credential.
    assert_eq!(key.call(app, Method::GET, "/v1/me", &Value::Null).await.status, 200);
    assert_eq!(me(app, &console).await.status, 200);
    let elsewhere = client_at([127, 0, 0, 2]).get(app.url("/v1/me"));
    assert_eq!(app.send(elsewhere).await.status, 401, "another address has its own");
    app.advance(MINUTE);
    assert_eq!(app.get("/v1/me").await.status, 401);
}

async fn sign_in_is_limited_for_an_address(app: &App) {
    let console = app.register("ada@acme.example").await;
    app.advance(MINUTE);
    exhaust(app, || app.request(Method::GET, "/auth/console/oauth/providers"), 200).await;
    for path in
        ["/auth/console/login", "/auth/token", "/auth/console/password/forgot", "/auth/console/register"]
    {
        over(&app.post(path, &json!({})).await);
    }
    assert_eq!(app.get("/healthz").await.status, 200);
    assert_eq!(me(app, &console).await.status, 200);
    let elsewhere = client_at([127, 0, 0, 2]).get(app.url("/auth/console/oauth/providers"));
    assert_eq!(app.send(elsewhere).await.status, 200);
    app.advance(MINUTE);
    assert_eq!(app.get("/auth/console/oauth/providers").await.status, 200);
}

async fn who_authenticates_spends_nothing_of_the_address(app: &App) {
    let console = app.register("ada@acme.example").await;
    for _ in 0..ADDRESS_LIMIT + 10 {
        assert_eq!(me(app, &console).await.status, 200);
    }
    assert_eq!(app.get("/v1/me").await.status, 401);
    assert_eq!(app.get("/auth/console/oauth/providers").await.status, 200);
}

fn forwarded(app: &App, addresses: &str) -> RequestBuilder {
    app.request(Method::GET, "/v1/me").header("x-forwarded-for", addresses)
}

async fn a_header_from_anyone_names_no_address(app: &App) {
    let counter = std::cell::Cell::new(0_u8);
    exhaust(
        app,
        || {
            counter.set(counter.get().wrapping_add(1));
            forwarded(app, &format!("203.0.113.{}", counter.get()))
        },
        401,
    )
    .await;
    over(&app.get("/v1/me").await);
}

async fn a_proxy_names_the_address(app: &App) {
    exhaust(app, || forwarded(app, "203.0.113.7"), 401).await;
    assert_eq!(app.send(forwarded(app, "203.0.113.8")).await.status, 401);
    assert_eq!(app.send(forwarded(app, "2001:db8:7::1")).await.status, 401);
    // What passed through two of our proxies is still the same client's.
    for path in
        ["203.0.113.7, 10.1.2.3", "203.0.113.7,10.1.2.3,127.0.0.1", " 203.0.113.7 ", "::ffff:203.0.113.7"]
    {
        over(&app.send(forwarded(app, path)).await);
    }
    let lines = forwarded(app, "203.0.113.7").header("x-forwarded-for", "10.1.2.3");
    over(&app.send(lines).await);
}

async fn addresses_that_a_proxy_was_sent_are_not_trusted(app: &App) {
    exhaust(app, || forwarded(app, "198.51.100.9, 203.0.113.7"), 401).await;
    // The last address before our proxies is the client's; what it claims of others is its own invention.
    for spoofed in ["1.2.3.4, 203.0.113.7", "10.9.9.9, 203.0.113.7", "garbage, 203.0.113.7"] {
        over(&app.send(forwarded(app, spoofed)).await);
    }
    let lines = forwarded(app, "1.2.3.4").header("x-forwarded-for", "203.0.113.7");
    over(&app.send(lines).await);
    assert_eq!(app.send(forwarded(app, "203.0.113.7, 198.51.100.9")).await.status, 401);
    // Who connects from elsewhere is no proxy.
    let client = client_at([127, 0, 0, 2]);
    let direct = |forged: &str| client.get(app.url("/v1/me")).header("x-forwarded-for", forged);
    for turn in 0..ADDRESS_LIMIT {
        assert_eq!(app.send(direct(&format!("192.0.2.{}", turn % 250))).await.status, 401);
    }
    over(&app.send(direct("192.0.2.251")).await);
    for garbage in ["", ",", "garbage", "999.1.1.1", "203.0.113.7:99999", "[::1", &"1.2.3.4,".repeat(900)] {
        let reply = app.send(forwarded(app, garbage)).await;
        assert!(reply.status == 401 || reply.status == 429, "{garbage}: {}", reply.text);
    }
}
