//! Changing a password, and getting back in without it.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use store::Backend;
use testkit::{PATIENCE, TestDatabase};

use crate::app::{App, PASSWORD, Reply, SentMail};
use crate::login::{
    BehindProxy, DAY, LOGIN, MINUTE, QUARTER, WRONG, login, race, retry_after, sign_in, statuses, whoami,
};
use crate::registration::{refuses_nonsense, rows, staged};
use crate::two_factor::Phone;

const NEW: &str = "eleven purple submarines whistle";
const CHANGE: &str = "/v1/me/password";
const FORGOT: &str = "/auth/console/password/forgot";
const RESET: &str = "/auth/console/password/reset";
const HOUR: Duration = Duration::from_hours(1);

testkit::on_both!(
    a_change_signs_out_every_other_session,
    a_change_leaves_keys_and_two_factor_alone,
    a_change_needs_the_current_password,
    a_change_refuses_a_weak_password,
    wrong_current_passwords_are_counted,
    a_change_is_announced_by_mail,
    forgetting_answers_the_same_with_and_without_an_account,
    the_link_leads_to_the_public_address,
    forgetting_needs_an_email,
    five_links_an_hour_for_an_email,
    twenty_links_an_hour_for_an_address,
    a_link_sets_a_new_password_once,
    a_link_leaves_keys_and_two_factor_alone_once_the_address_is_proved,
    a_link_ends_after_an_hour,
    a_made_up_link_is_refused,
    a_weak_password_does_not_use_up_the_link,
    a_newer_link_leaves_the_earlier_one_and_a_reset_ends_all,
    a_stranger_neither_ends_a_link_nor_blocks_another,
    a_member_has_at_most_ten_links,
    forgetting_takes_the_same_work_with_and_without_an_account,
    of_many_who_follow_one_link_one_sets_the_password,
    a_login_under_way_does_not_outlive_the_reset,
    of_many_who_change_it_at_once_one_does,
    nonsense_changes_no_password,
);

async fn a_change_signs_out_every_other_session(app: &App) {
    let (token, other) = (app.register("ann@example.com").await, sign_in(app, "ann@example.com").await);
    let bob = app.register("bob@example.com").await;
    app.advance(MINUTE);
    let reply = change(app, &token, PASSWORD, NEW).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let made = reply.json();
    let fresh = made["token"].as_str().unwrap();
    let expires = (app.now() + DAY).to_string();
    assert_eq!(made, json!({"token": fresh, "expires_at": expires, "token_type": "console"}));
    assert_eq!(whoami(app, fresh).await.json()["email"], "ann@example.com");
    for ended in [&token, &other] {
        whoami(app, ended).await.refused(401, "unauthorized");
    }
    assert_eq!(whoami(app, &bob).await.status, 200, "another person's session goes on");
    login(app, "ann@example.com", PASSWORD).await.refused(401, "unauthorized");
    assert_eq!(login(app, "ann@example.com", NEW).await.status, 200);
}

async fn a_change_leaves_keys_and_two_factor_alone(app: &App) {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    Phone::switched_on(app, &token).await;
    assert_eq!(change(app, &token, PASSWORD, NEW).await.status, 200);
    assert_eq!(key.call(app, Method::GET, "/v1/me", &Value::Null).await.status, 200);
    login(app, "ann@example.com", NEW).await.refused(401, "mfa_required");
}

async fn a_change_needs_the_current_password(app: &App) {
    let token = app.register("ann@example.com").await;
    for wrong in [WRONG, "", NEW] {
        change(app, &token, wrong, NEW).await.refused(400, "invalid_password");
    }
    for field in ["current_password", "new_password"] {
        let mut body = json!({"current_password": PASSWORD, "new_password": NEW});
        body.as_object_mut().unwrap().remove(field);
        let message = app.call(&token, Method::POST, CHANGE, &body).await.refused(400, "bad_request");
        assert!(message.contains(field), "{message}");
    }
    assert_eq!(whoami(app, &token).await.status, 200);
    sign_in(app, "ann@example.com").await;
    assert!(app.mails().await.is_empty());
}

async fn a_change_refuses_a_weak_password(app: &App) {
    let token = app.register("ann@example.com").await;
    for weak in ["", "kX9#vQ2", "password1", &"x".repeat(300)] {
        change(app, &token, PASSWORD, weak).await.refused(400, "weak_password");
    }
    assert_eq!(whoami(app, &token).await.status, 200);
    sign_in(app, "ann@example.com").await;
    assert_eq!(change(app, &token, PASSWORD, NEW).await.status, 200, "a weak wish is no wrong guess");
}

async fn wrong_current_passwords_are_counted(app: &App) {
    let token = app.register("ann@example.com").await;
    for _ in 0..5 {
        change(app, &token, WRONG, NEW).await.refused(400, "invalid_password");
    }
    let reply = change(app, &token, PASSWORD, NEW).await;
    reply.refused(429, "rate_limited");
    assert!((1..=900).contains(&retry_after(&reply)), "{:?}", reply.headers);
    assert_eq!(whoami(app, &token).await.status, 200);
    let bob = app.register("bob@example.com").await;
    assert_eq!(change(app, &bob, PASSWORD, NEW).await.status, 200, "the count is one person's");
    app.advance(QUARTER);
    assert_eq!(change(app, &token, PASSWORD, NEW).await.status, 200);
}

async fn a_change_is_announced_by_mail(app: &App) {
    let token = app.register("ann@example.com").await;
    assert_eq!(change(app, &token, PASSWORD, NEW).await.status, 200);
    let mails = app.mails().await;
    assert_eq!(mails.len(), 1);
    assert_eq!(mails[0].to, "ann@example.com");
    assert!(mails[0].subject.to_lowercase().contains("password"), "{}", mails[0].subject);
    assert!(!mails[0].text.contains(NEW), "no mail carries a password");
}

async fn forgetting_answers_the_same_with_and_without_an_account(app: &App) {
    app.register("Ann@example.com").await;
    let unknown = forgot(app, "bob@example.com").await;
    assert_eq!(unknown.status, 202, "{}", unknown.text);
    let message = unknown.json()["message"].as_str().unwrap().to_owned();
    assert_eq!(unknown.json(), json!({"message": message}));
    let known = forgot(app, "ann@EXAMPLE.com").await;
    assert_eq!((known.status, &known.text), (unknown.status, &unknown.text));
    let mails = mails_once(app, 1).await;
    assert_eq!(mails.len(), 1, "{mails:?}");
    assert_eq!(mails[0].to, "Ann@example.com", "as it was registered");
    assert!(mails[0].subject.to_lowercase().contains("reset"), "{}", mails[0].subject);
    assert_eq!(login(app, "ann@example.com", PASSWORD).await.status, 200, "asking changes nothing");
}

async fn the_link_leads_to_the_public_address(app: &Named) {
    app.register("ann@example.com").await;
    assert_eq!(forgot(app, "ann@example.com").await.status, 202);
    let mails = mails_once(app, 1).await;
    let token = token_in(&mails[0], "https://signals.example");
    assert!(token.len() >= 22, "128 bits at least: {token}");
    assert_eq!(reset(app, &token, NEW).await.status, 204);
}

async fn forgetting_needs_an_email(app: &App) {
    for body in [json!({}), json!({"email": "ann"}), json!({"email": ""}), json!({"email": 7})] {
        let message = app.post(FORGOT, &body).await.refused(400, "bad_request");
        assert!(message.contains("email"), "{message}");
    }
}

async fn five_links_an_hour_for_an_email(app: &App) {
    app.register("ann@example.com").await;
    for wait in [0, 10, 10, 10, 10] {
        app.advance(MINUTE * wait);
        assert_eq!(forgot(app, "ann@example.com").await.status, 202);
        assert_eq!(forgot(app, "bob@example.com").await.status, 202);
    }
    assert_eq!(mails_once(app, 5).await.len(), 5);
    let mut refusals = Vec::new();
    for email in ["ANN@example.com", "bob@example.com"] {
        let reply = forgot(app, email).await;
        reply.refused(429, "rate_limited");
        assert!((1..=3600).contains(&retry_after(&reply)), "{:?}", reply.headers);
        refusals.push((reply.header("retry-after").to_owned(), reply.text));
    }
    assert_eq!(refusals[0], refusals[1], "the limit does not tell who has an account");
    assert_eq!(app.mails().await.len(), 5);
    assert_eq!(forgot(app, "cid@example.com").await.status, 202);
    app.advance(HOUR);
    assert_eq!(forgot(app, "ann@example.com").await.status, 202);
    assert_eq!(mails_once(app, 6).await.len(), 6);
}

async fn twenty_links_an_hour_for_an_address(app: &BehindProxy) {
    app.register("ann@example.com").await;
    for number in 0..20 {
        let reply = forgot_from(app, "203.0.113.7", &format!("{number}@example.com")).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
    }
    let reply = forgot_from(app, "203.0.113.7", "ann@example.com").await;
    reply.refused(429, "rate_limited");
    assert!((1..=3600).contains(&retry_after(&reply)), "{:?}", reply.headers);
    assert!(app.mails().await.is_empty());
    assert_eq!(forgot_from(app, "203.0.113.8", "ann@example.com").await.status, 202);
    app.advance(HOUR);
    assert_eq!(forgot_from(app, "203.0.113.7", "ann@example.com").await.status, 202);
    assert_eq!(mails_once(app, 2).await.len(), 2);
}

async fn a_link_sets_a_new_password_once(app: &App) {
    let (token, other) = (app.register("ann@example.com").await, sign_in(app, "ann@example.com").await);
    let bob = app.register("bob@example.com").await;
    let verified = "SELECT email FROM users WHERE email_verified_at IS NOT NULL";
    assert!(rows(app, verified).await.is_empty());
    let link = ask_for_link(app, "ann@example.com").await;
    let reply = reset(app, &link, NEW).await;
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (204, ""));
    for ended in [&token, &other] {
        whoami(app, ended).await.refused(401, "unauthorized");
    }
    assert_eq!(whoami(app, &bob).await.status, 200, "another person's session goes on");
    login(app, "ann@example.com", PASSWORD).await.refused(401, "unauthorized");
    assert_eq!(login(app, "ann@example.com", NEW).await.status, 200);
    assert_eq!(rows(app, verified).await, ["ann@example.com"], "the link has shown whose address it is");

    reset(app, &link, PASSWORD).await.refused(400, "invalid_token");
    assert_eq!(login(app, "ann@example.com", NEW).await.status, 200);
    let subjects = app.subjects_to("ann@example.com").await;
    assert_eq!(subjects.len(), 3, "the link, what the first proof ended, and the change: {subjects:?}");
}

async fn a_link_leaves_keys_and_two_factor_alone_once_the_address_is_proved(app: &App) {
    let token = app.register("ann@example.com").await;
    app.verify(&token, "ann@example.com").await;
    let key = app.api_key(&token).await;
    let phone = Phone::switched_on(app, &token).await;
    let link = ask_for_link(app, "ann@example.com").await;
    assert_eq!(reset(app, &link, NEW).await.status, 204);
    assert_eq!(key.call(app, Method::GET, "/v1/me", &Value::Null).await.status, 200);
    login(app, "ann@example.com", NEW).await.refused(401, "mfa_required");
    let body = json!({"email": "ann@example.com", "password": NEW, "code": phone.code(app)});
    assert_eq!(app.post(LOGIN, &body).await.status, 200);
}

async fn a_link_ends_after_an_hour(app: &App) {
    app.register("ann@example.com").await;
    app.register("bob@example.com").await;
    let (late, last) =
        (ask_for_link(app, "ann@example.com").await, ask_for_link(app, "bob@example.com").await);
    app.advance(Duration::from_secs(60 * 60 - 1));
    assert_eq!(reset(app, &last, NEW).await.status, 204);
    app.advance(Duration::from_secs(1));
    reset(app, &late, NEW).await.refused(400, "invalid_token");
    sign_in(app, "ann@example.com").await;
}

async fn a_made_up_link_is_refused(app: &App) {
    app.register("ann@example.com").await;
    let link = ask_for_link(app, "ann@example.com").await;
    let (longer, shorter) = (format!("{link}A"), &link[..link.len() - 1]);
    let swapped: String = link
        .chars()
        .map(|c| if c.is_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
        .collect();
    for made_up in [&longer, shorter, &swapped, "made-up", "00000000-0000-0000-0000-000000000000"] {
        reset(app, made_up, NEW).await.refused(400, "invalid_token");
    }
    for field in ["token", "password"] {
        let mut body = json!({"token": link, "password": NEW});
        body.as_object_mut().unwrap().remove(field);
        let message = app.post(RESET, &body).await.refused(400, "bad_request");
        assert!(message.contains(field), "{message}");
    }
    assert_eq!(reset(app, &link, NEW).await.status, 204);
}

async fn a_weak_password_does_not_use_up_the_link(app: &App) {
    let token = app.register("ann@example.com").await;
    let link = ask_for_link(app, "ann@example.com").await;
    for weak in ["", "password", &"x".repeat(300)] {
        reset(app, &link, weak).await.refused(400, "weak_password");
    }
    assert_eq!(whoami(app, &token).await.status, 200);
    assert_eq!(reset(app, &link, NEW).await.status, 204);
}

async fn a_newer_link_leaves_the_earlier_one_and_a_reset_ends_all(app: &App) {
    app.register("ann@example.com").await;
    let earlier = ask_for_link(app, "ann@example.com").await;
    app.advance(MINUTE);
    let newer = ask_for_link(app, "ann@example.com").await;
    assert_ne!(earlier, newer);
    assert_eq!(reset(app, &earlier, NEW).await.status, 204);
    reset(app, &newer, PASSWORD).await.refused(400, "invalid_token");
    assert_eq!(login(app, "ann@example.com", NEW).await.status, 200);
}

async fn a_stranger_neither_ends_a_link_nor_blocks_another(app: &BehindProxy) {
    app.register("ann@example.com").await;
    let own = "198.51.100.1";
    assert_eq!(forgot_from(app, own, "ann@example.com").await.status, 202);
    let first = links_once(app, 1).await.remove(0);
    for _ in 0..5 {
        assert_eq!(forgot_from(app, "203.0.113.7", "ann@example.com").await.status, 202);
    }
    forgot_from(app, "203.0.113.7", "ann@example.com").await.refused(429, "rate_limited");
    assert_eq!(forgot_from(app, own, "ann@example.com").await.status, 202, "her own network is not counted");
    links_once(app, 7).await;
    assert_eq!(reset(app, &first, NEW).await.status, 204, "the first link still works");
}

async fn a_member_has_at_most_ten_links(app: &BehindProxy) {
    app.register("ann@example.com").await;
    for number in 0..12 {
        let reply = forgot_from(app, &format!("203.0.113.{number}"), "ann@example.com").await;
        assert_eq!(reply.status, 202, "{}", reply.text);
    }
    background_ended(app, 12).await;
    let links = links_once(app, 10).await;
    assert_eq!(links.len(), 10, "more mails than that help nobody");
    assert_eq!(reset(app, &links[0], NEW).await.status, 204);
}

/// Somebody works on the account of the first member, for as long as it takes.
#[test]
fn a_request_for_an_unknown_address_waits_for_no_member_on_postgres() {
    testkit::run_on(Backend::Postgres, async |app: &App| {
        app.register("ann@example.com").await;
        let mut connection = PgConnection::connect(app.database_url()).await.unwrap();
        for statement in ["BEGIN", "SELECT user_id FROM users FOR UPDATE"] {
            sqlx::query(statement).execute(&mut connection).await.unwrap();
        }
        assert_eq!(forgot(app, "bob@example.com").await.status, 202);
        background_ended(app, 1).await;
        connection.close().await.unwrap();
    });
}

/// Waits until so many reset links are out; their tokens, oldest first.
async fn links_once(app: &App, count: usize) -> Vec<String> {
    let arrival = async {
        loop {
            let mails = app.mails().await;
            let links = mails.iter().filter(|mail| mail.text.contains("/console/reset?token="));
            // Whichever port the service had then.
            let token = |mail: &SentMail| mail.text.split_once("/console/reset?token=").unwrap().1.to_owned();
            let links: Vec<String> =
                links.map(|mail| token(mail).split_whitespace().next().unwrap().to_owned()).collect();
            if links.len() >= count {
                return links;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, arrival).await.expect("the links come")
}

/// Waits until so many requests for a link have been worked off.
async fn background_ended(app: &App, count: i64) {
    let ended = async {
        while rows(app, "SELECT 'x' FROM password_resets").await.len() < usize::try_from(count).unwrap() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("every request is worked off");
}

async fn forgetting_takes_the_same_work_with_and_without_an_account(database: &TestDatabase) {
    // Nobody works off the queues here, so that what is queued can be counted.
    let app = App::start_on(database.share(), database.url(), &[("AUSPEX_ROLE", "api")]).await;
    app.register("ann@example.com").await;
    let mut sizes = Vec::new();
    for (number, email) in (1..).zip(["ann@example.com", "bob@example.com"]) {
        app.advance(MINUTE);
        let queued = rows(&app, "SELECT 'x' FROM outbox").await.len();
        assert_eq!(forgot(&app, email).await.status, 202);
        background_ended(&app, number).await;
        let newest = "SELECT CAST(length(message) AS text) FROM outbox ORDER BY created_at DESC LIMIT 1";
        sizes.push(rows(&app, newest).await[0].parse::<i64>().unwrap());
        assert_eq!(
            rows(&app, "SELECT 'x' FROM outbox").await.len(),
            queued + 1,
            "a mail is queued either way"
        );
    }
    assert!((sizes[0] - sizes[1]).abs() <= 1, "of the same size but for true and false: {sizes:?}");
    app.stop().await;
    let app = App::start_on(database.share(), database.url(), &[]).await;
    app.advance(MINUTE * 2);
    assert_eq!(links_once(&app, 1).await.len(), 1, "only the one of the account is sent");
    let mails = app.mails().await;
    assert!(mails.iter().all(|mail| mail.to == "ann@example.com"), "{mails:?}");
    app.stop().await;
}

async fn of_many_who_follow_one_link_one_sets_the_password(app: &App) {
    app.register("ann@example.com").await;
    let body = json!({"token": ask_for_link(app, "ann@example.com").await, "password": NEW});
    let replies = race(100, |_| app.request(Method::POST, RESET).json(&body)).await;
    assert_eq!(statuses(&replies), [(204, 1), (400, 99)].into());
    for late in replies.iter().filter(|reply| reply.status == 400) {
        late.refused(400, "invalid_token");
    }
    assert_eq!(login(app, "ann@example.com", NEW).await.status, 200);
}

async fn a_login_under_way_does_not_outlive_the_reset(app: &App) {
    app.register("ann@example.com").await;
    let passwords = [PASSWORD, NEW, "seventeen lazy comets orbit"];
    for pair in passwords.windows(2) {
        let (old, new) = (pair[0], pair[1]);
        let link = ask_for_link(app, "ann@example.com").await;
        let replies = race(5, |number| match number {
            2 => app.request(Method::POST, RESET).json(&json!({"token": link, "password": new})),
            _ => app.request(Method::POST, LOGIN).json(&json!({"email": "ann@example.com", "password": old})),
        });
        for (number, reply) in replies.await.iter().enumerate() {
            match number {
                2 => assert_eq!(reply.status, 204, "{}", reply.text),
                _ if reply.status == 200 => {
                    whoami(app, reply.json()["token"].as_str().unwrap()).await.refused(401, "unauthorized");
                }
                _ => drop(reply.refused(401, "unauthorized")),
            }
        }
        app.advance(QUARTER);
    }
}

async fn of_many_who_change_it_at_once_one_does(app: &App) {
    let token = app.register("ann@example.com").await;
    let new = |number: usize| format!("{number} purple submarines whistle");
    let replies = race(4, |number| {
        let body = json!({"current_password": PASSWORD, "new_password": new(number)});
        app.request(Method::POST, CHANGE).bearer_auth(&token).json(&body)
    });
    let replies = replies.await;
    let counts = statuses(&replies);
    assert_eq!(counts[&200], 1, "the password that the others gave was current no more: {counts:?}");
    assert!(counts.keys().all(|status| [200, 400, 401].contains(status)), "{counts:?}");
    let winner = replies.iter().position(|reply| reply.status == 200).unwrap();
    assert_eq!(whoami(app, replies[winner].json()["token"].as_str().unwrap()).await.status, 200);
    assert_eq!(login(app, "ann@example.com", &new(winner)).await.status, 200);
}

async fn nonsense_changes_no_password(app: &App) {
    let token = app.register("ann@example.com").await;
    let change = json!({"current_password": WRONG, "new_password": NEW});
    refuses_nonsense(app, Some(&token), Method::POST, CHANGE, &change).await;
    refuses_nonsense(app, None, Method::POST, FORGOT, &json!({"email": "bob@example.com"})).await;
    refuses_nonsense(app, None, Method::POST, RESET, &json!({"token": "made-up", "password": NEW})).await;
    sign_in(app, "ann@example.com").await;
    assert!(app.mails().await.is_empty());
}

async fn change(app: &App, token: &str, current: &str, new: &str) -> Reply {
    let body = json!({"current_password": current, "new_password": new});
    app.call(token, Method::POST, CHANGE, &body).await
}

async fn forgot(app: &App, email: &str) -> Reply {
    app.post(FORGOT, &json!({"email": email})).await
}

async fn forgot_from(app: &App, address: &str, email: &str) -> Reply {
    let request = app.request(Method::POST, FORGOT).header("x-forwarded-for", address);
    app.send(request.json(&json!({"email": email}))).await
}

async fn reset(app: &App, token: &str, password: &str) -> Reply {
    app.post(RESET, &json!({"token": token, "password": password})).await
}

/// Asks for a reset link and reads its token in the newest mail.
async fn ask_for_link(app: &App, email: &str) -> String {
    let sent = app.mails().await.len();
    assert_eq!(forgot(app, email).await.status, 202);
    let mails = mails_once(app, sent + 1).await;
    assert_eq!(mails.len(), sent + 1);
    let newest = mails.iter().rfind(|mail| mail.to == email).unwrap();
    token_in(newest, &app.url(""))
}

/// Waits until so many mails are out, and reads them. A link is queued after the answer, so that its time tells nothing.
pub(crate) async fn mails_once(app: &App, count: usize) -> Vec<SentMail> {
    let arrival = async {
        loop {
            let mails = app.mails().await;
            if mails.len() >= count {
                return mails;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, arrival).await.expect("the mails come")
}

/// The token of the link in a mail, which leads to the console at this address.
#[track_caller]
fn token_in(mail: &SentMail, address: &str) -> String {
    let start = format!("{address}/console/reset?token=");
    let (_, rest) = mail.text.split_once(&start).unwrap_or_else(|| panic!("no {start} in {}", mail.text));
    rest.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_change_on_one_node_is_known_on_every_node_within_a_second() {
    testkit::run_on(Backend::Postgres, async |app: &App| {
        let (token, other) = (app.register("ann@example.com").await, sign_in(app, "ann@example.com").await);
        let node = app.second_node(&[]).await;
        assert_eq!(whoami(&node, &other).await.status, 200);
        assert_eq!(change(app, &token, PASSWORD, NEW).await.status, 200);
        whoami(app, &other).await.refused(401, "unauthorized");
        let known = async {
            while whoami(&node, &other).await.status != 401 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(1), known).await.expect("the session ends everywhere");
        login(&node, "ann@example.com", PASSWORD).await.refused(401, "unauthorized");
        node.stop().await;
    });
}

/// A service that people know by a name.
struct Named(App);

staged! {
    Named: &[("AUSPEX_PUBLIC_URL", "https://signals.example")];
}
