//! What the processes of a deployment take from each other: sessions, cookies, keys and cursors that one gives out hold at every
//! other, and end at every other, whatever binary each runs.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::Result;
use crate::http::Response;
use crate::system::System;
use crate::tenant::Tenant;

const PASSWORD: &str = "exchange-violet-Kestrel-41-harbour";
/// How long a credential may go on at another process after it has ended: what is promised is a second.
const ENDED: Duration = Duration::from_secs(5);

/// Lets every process give out one of each, and every other take it.
pub(crate) async fn check(system: &System, number: usize) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let count = system.nodes.len();
    // An account that one of them opens, all know.
    let email = format!("exchange-{number}@example.com");
    let opener = number % count;
    let account = json!({"tenant_name": "Exchange", "email": email, "password": PASSWORD});
    let opened = ask(system, opener, "POST", "/auth/console/register", &[], &account).await?;
    if opened.status >= 300 {
        return Ok(vec![format!("node {opener} opens no account: {} {}", opened.status, opened.body)]);
    }
    for giver in 0..count {
        if let Err(error) = sessions(system, giver, &email, &mut wrong).await {
            wrong.push(format!("what node {giver} gives out: {error}"));
        }
        if let Err(error) = cursors(system, giver, &mut wrong).await {
            wrong.push(format!("the cursors of node {giver}: {error}"));
        }
    }
    Ok(wrong)
}

/// A token, a cookie and a key that a process gives out.
async fn sessions(system: &System, giver: usize, email: &str, wrong: &mut Vec<String>) -> Result<()> {
    let count = system.nodes.len();
    let credentials = json!({"email": email, "password": PASSWORD});
    let signed_in = ask(system, giver, "POST", "/auth/console/login", &[], &credentials).await?;
    let token = signed_in.body["token"].as_str().ok_or_else(|| format!("no token: {}", signed_in.body))?;
    let token = format!("Bearer {token}");
    let as_person = [("authorization", token.as_str())];
    let asks = [("x-auspex-session", "cookie")];
    let with_cookie = ask(system, giver, "POST", "/auth/console/login", &asks, &credentials).await?;
    let cookie = with_cookie.cookie.ok_or_else(|| format!("no cookie: {}", with_cookie.body))?;
    let made = ask(system, giver, "POST", "/v1/api_keys", &as_person, &json!({"name": "Exchange"})).await?;
    let text =
        |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| format!("no key: {}", made.body));
    let key = Tenant {
        id: Uuid::nil(),
        key: text(&made.body["key"])?,
        secret: text(&made.body["secret"])?,
        is_poor: false,
        rules: [Uuid::nil(); 2],
        endpoints: Vec::new(),
    };
    for taker in 0..count {
        let by_token = ask(system, taker, "GET", "/v1/me", &as_person, &Value::Null).await?;
        let by_cookie = ask(system, taker, "GET", "/v1/me", &[("cookie", &cookie)], &Value::Null).await?;
        let by_key =
            system.http.call(&system.nodes[taker].url, &key, "GET", "/v1/me", None, &Value::Null).await?;
        for (kind, response) in [("token", by_token), ("cookie", by_cookie), ("key", by_key)] {
            if response.status != 200 {
                let Response { status, body, .. } = response;
                wrong.push(format!("node {taker} does not take the {kind} of node {giver}: {status} {body}"));
            }
        }
    }
    // They end at a process that did not give them out.
    let ender = (giver + 1) % count;
    let path = format!("/v1/api_keys/{}", text(&made.body["api_key"]["id"])?);
    let revoked = ask(system, ender, "DELETE", &path, &as_person, &Value::Null).await?;
    let signed_out = ask(system, ender, "POST", "/auth/console/logout", &as_person, &Value::Null).await?;
    for (what, status) in [("the key", revoked.status), ("the session", signed_out.status)] {
        if status >= 300 {
            wrong.push(format!("node {ender} does not end {what} of node {giver}: {status}"));
        }
    }
    let ended = Instant::now();
    for taker in 0..count {
        loop {
            let by_token = ask(system, taker, "GET", "/v1/me", &as_person, &Value::Null).await?.status;
            let url = &system.nodes[taker].url;
            let by_key = system.http.call(url, &key, "GET", "/v1/me", None, &Value::Null).await?.status;
            if (by_token, by_key) == (401, 401) {
                break;
            }
            if ended.elapsed() > ENDED {
                wrong.push(format!(
                    "node {taker} still answers {by_token} and {by_key} to a token and a key that node {ender} has ended"
                ));
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// The second page of a list, by the cursor that a process gave out: it is the same everywhere, since nothing is sent.
async fn cursors(system: &System, giver: usize, wrong: &mut Vec<String>) -> Result<()> {
    let tenant = &system.tenants[0];
    let list = async |node: usize, query: &str| {
        let path = format!("/v1/objects?limit=5{query}");
        system.http.call(&system.nodes[node].url, tenant, "GET", &path, None, &Value::Null).await
    };
    let first = list(giver, "").await?;
    let cursor = first.body["next_cursor"].as_str().ok_or_else(|| format!("no cursor: {}", first.body))?;
    let query = format!("&cursor={cursor}");
    let ids = |page: &Response| -> Vec<Value> {
        let objects = page.body["objects"].as_array().map(Vec::as_slice).unwrap_or_default();
        objects.iter().map(|object| object["id"].clone()).collect()
    };
    let expected = ids(&list(giver, &query).await?);
    for taker in 0..system.nodes.len() {
        let page = list(taker, &query).await?;
        if expected.is_empty() || ids(&page) != expected {
            wrong
                .push(format!("node {taker} goes on otherwise from a cursor of node {giver}: {}", page.body));
        }
    }
    Ok(())
}

async fn ask(
    system: &System,
    node: usize,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Result<Response> {
    system.http.send(method, &format!("{}{path}", system.nodes[node].url), headers, body).await
}
