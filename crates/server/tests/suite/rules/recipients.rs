//! Rules write to strangers only with their consent, and to nobody who has withdrawn it.

use std::time::Duration;

use model::TenantId;
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use store::Conn;
use store::actions::firings::{self as tallies, MessageCounts};
use testkit::Backend;

use super::{firings, ingest_answered, make};
use crate::app::{App, PASSWORD, Reply, SentMail};
use crate::passwords::mails_once;
use crate::scripted_analyzer::{Scripted, Settings, until};
use crate::signer::Signer;

testkit::on_both!(
    a_stranger_gets_mail_only_after_agreeing,
    a_recipient_withdraws_and_is_not_asked_again,
    an_account_that_proved_no_address_asks_nobody,
    a_proved_member_needs_no_confirmation,
    many_accounts_cannot_ask_a_stranger_often,
    a_question_that_was_not_sent_is_asked_later,
    an_account_asks_few_strangers_a_day,
    an_account_without_mails_left_asks_nobody,
    a_recipient_can_withdraw_where_nobody_is_asked,
    the_pages_behind_the_links_change_nothing_when_read,
    a_link_of_another_kind_is_refused,
    who_never_responds_is_forgotten,
);

const CONFIRM: &str = "/auth/console/recipients/confirm";
pub(super) const STRANGER: &str = "stranger@elsewhere.example";
const QUESTION: &str = "Do you want these alerts?";
const DAY: Duration = Duration::from_hours(24);

/// As in production where anyone may open an account.
pub(super) struct Confirming;

impl Settings for Confirming {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_CONFIRM_RECIPIENTS", "true")];
}

/// A new account whose member has proved their address.
pub(super) async fn proved_account(app: &App, email: &str) -> Signer {
    app.register(email).await;
    let sent = app.mails().await.len();
    let forgot = json!({"email": email});
    assert_eq!(app.post("/auth/console/password/forgot", &forgot).await.status, 202);
    let mails = mails_once(app, sent + 1).await;
    let link =
        mails.iter().rfind(|mail| mail.to == email && mail.text.contains("/console/reset?token=")).unwrap();
    let body = json!({"token": token_after(link, "/console/reset?token="), "password": PASSWORD});
    assert_eq!(app.post("/auth/console/password/reset", &body).await.status, 204);
    let login = app.post("/auth/console/login", &json!({"email": email, "password": PASSWORD})).await.json();
    app.api_key(login["token"].as_str().unwrap()).await
}

#[track_caller]
pub(super) fn token_after(mail: &SentMail, mark: &str) -> String {
    let (_, rest) = mail.text.split_once(mark).unwrap_or_else(|| panic!("no {mark} in {}", mail.text));
    rest.split_whitespace().next().unwrap().to_owned()
}

/// A rule that writes to this address whenever an object is analyzed for the first time.
async fn writes_to(app: &App, key: &Signer, to: &str) {
    let rule = json!({
        "name": "Buy now at http://evil.example",
        "when": "is_scammer > 0.9",
        "action_type": "email",
        "action_config": {"to": to, "subject": "You have won"},
    });
    make(app, key, &rule).await;
}

/// Has the rule fire for an object; the status of the firing.
async fn fire(stage: &Scripted<impl Settings>, key: &Signer, object: &str) -> String {
    ingest_answered(stage, key, object, 0.95).await;
    let firing = firings(stage, key, &format!("?object_id={object}")).await.remove(0);
    firing["status"].as_str().unwrap().to_owned()
}

/// The mails to an address, oldest first.
pub(super) async fn mails_to(app: &App, address: &str) -> Vec<SentMail> {
    app.mails().await.into_iter().filter(|mail| mail.to == address).collect()
}

/// The mail of a rule to an address; there is one.
async fn alert_to(app: &App, address: &str) -> SentMail {
    let mut alerts = mails_to(app, address).await;
    alerts.retain(|mail| mail.subject == "You have won");
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    alerts.remove(0)
}

pub(super) async fn confirm(app: &App, token: &str) -> Reply {
    app.post(CONFIRM, &json!({"token": token})).await
}

/// As a mail program does it, by the header of a mail.
pub(super) async fn withdraw(app: &App, mail: &SentMail) -> Reply {
    let url = mail.withdraw_url.as_deref().expect("it has the headers of RFC 8058");
    let path = url.strip_prefix(&app.url("")).expect("the link leads to this service");
    let request = app.request(Method::POST, path).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    app.send(request.body("List-Unsubscribe=One-Click")).await
}

async fn a_stranger_gets_mail_only_after_agreeing(stage: &Scripted<Confirming>) {
    let key = proved_account(stage, "ann@example.com").await;
    writes_to(stage, &key, STRANGER).await;
    assert_eq!(fire(stage, &key, "user_1").await, "unconfirmed");
    assert_eq!(fire(stage, &key, "user_2").await, "unconfirmed");
    let detail = firings(stage, &key, "?limit=1").await.remove(0)["detail"].clone();
    assert!(detail.as_str().unwrap().contains("not confirmed"), "{detail}");
    let mails = mails_to(stage, STRANGER).await;
    assert_eq!(mails.len(), 1, "one question for two firings: {mails:?}");
    let question = &mails[0];
    assert_eq!(question.subject, QUESTION);
    for word in ["evil.example", "user_1", "You have won", "is_scammer"] {
        assert!(!question.text.contains(word), "an account cannot write to strangers: {}", question.text);
    }
    assert!(
        question.text.contains("ann@example.com") && question.text.contains("\"Acme\""),
        "{}",
        question.text
    );

    stage.advance(DAY);
    assert_eq!(fire(stage, &key, "user_3").await, "unconfirmed");
    let mails = mails_to(stage, STRANGER).await;
    assert_eq!(mails.len(), 2, "one more a day later");
    let token = token_after(&mails[0], "/console/confirm?token=");
    assert_eq!(token, token_after(&mails[1], "/console/confirm?token="), "every question has the same link");
    let reply = confirm(stage, &token).await;
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (204, ""));
    confirm(stage, &token).await.refused(400, "invalid_token");

    assert_eq!(fire(stage, &key, "user_4").await, "dispatched");
    let alert = alert_to(stage, STRANGER).await;
    assert!(alert.text.contains("user_4"), "{}", alert.text);
    let (_, by_header) = alert.withdraw_url.as_deref().unwrap().split_once("?token=").unwrap();
    assert_eq!(token_after(&alert, "/console/withdraw?token="), by_header, "{}", alert.text);
    // Another account has to ask for itself.
    let other = proved_account(stage, "bob@example.com").await;
    writes_to(stage, &other, &STRANGER.to_uppercase()).await;
    assert_eq!(fire(stage, &other, "user_1").await, "unconfirmed");
}

async fn a_recipient_withdraws_and_is_not_asked_again(stage: &Scripted<Confirming>) {
    let key = proved_account(stage, "ann@example.com").await;
    writes_to(stage, &key, STRANGER).await;
    fire(stage, &key, "user_1").await;
    let question = mails_to(stage, STRANGER).await.remove(0);
    let token = token_after(&question, "/console/confirm?token=");
    assert_eq!(confirm(stage, &token).await.status, 204);
    assert_eq!(fire(stage, &key, "user_2").await, "dispatched");
    let alert = alert_to(stage, STRANGER).await;
    for _ in 0..2 {
        let reply = withdraw(stage, &alert).await;
        assert_eq!((reply.status.as_u16(), reply.text.as_str()), (204, ""), "as often as one likes");
    }
    for object in ["user_3", "user_4"] {
        assert_eq!(fire(stage, &key, object).await, "unconfirmed");
        stage.advance(DAY * 2);
    }
    assert_eq!(mails_to(stage, STRANGER).await.len(), 2, "no alert and no question");
    assert_eq!(confirm(stage, &token).await.status, 204, "the recipient may change their mind");
    assert_eq!(fire(stage, &key, "user_5").await, "dispatched");
}

async fn an_account_that_proved_no_address_asks_nobody(stage: &Scripted<Confirming>) {
    let key = stage.account("ann@example.com").await;
    for to in [STRANGER, "ann@example.com"] {
        writes_to(stage, &key, to).await;
    }
    ingest_answered(stage, &key, "user_1", 0.95).await;
    let made = firings(stage, &key, "").await;
    assert_eq!(made.len(), 2);
    for firing in made {
        assert_eq!(firing["status"], "unconfirmed");
        assert!(firing["detail"].as_str().unwrap().contains("has proved"), "{firing}");
    }
    let mails = stage.mails().await;
    assert!(mails.iter().all(|mail| mail.to != STRANGER && mail.subject != "You have won"), "{mails:?}");
}

async fn a_proved_member_needs_no_confirmation(stage: &Scripted<Confirming>) {
    let key = proved_account(stage, "ann@example.com").await;
    writes_to(stage, &key, "Ann@Example.com").await;
    assert_eq!(fire(stage, &key, "user_1").await, "dispatched");
    let alert = alert_to(stage, "Ann@Example.com").await;
    assert_eq!(withdraw(stage, &alert).await.status, 204);
    assert_eq!(fire(stage, &key, "user_2").await, "unconfirmed", "a member may withdraw too");
}

async fn many_accounts_cannot_ask_a_stranger_often(stage: &Scripted<Confirming>) {
    for number in 0..5 {
        let key = proved_account(stage, &format!("ann{number}@example.com")).await;
        writes_to(stage, &key, STRANGER).await;
        assert_eq!(fire(stage, &key, "user_1").await, "unconfirmed");
    }
    assert_eq!(mails_to(stage, STRANGER).await.len(), 3);
}

async fn a_question_that_was_not_sent_is_asked_later(stage: &Scripted<Confirming>) {
    for number in 0..3 {
        let key = proved_account(stage, &format!("eve{number}@example.com")).await;
        writes_to(stage, &key, STRANGER).await;
        fire(stage, &key, "user_1").await;
    }
    assert_eq!(mails_to(stage, STRANGER).await.len(), 3);
    stage.advance(DAY / 2);
    let key = proved_account(stage, "ann@example.com").await;
    writes_to(stage, &key, STRANGER).await;
    assert_eq!(fire(stage, &key, "user_1").await, "unconfirmed");
    assert_eq!(mails_to(stage, STRANGER).await.len(), 3, "others have used up what the address gets");
    stage.advance(DAY / 2);
    assert_eq!(fire(stage, &key, "user_2").await, "unconfirmed");
    let mails = mails_to(stage, STRANGER).await;
    assert_eq!(mails.len(), 4, "nobody was asked in vain");
    assert!(mails[3].text.contains("ann@example.com"), "{}", mails[3].text);
}

async fn an_account_asks_few_strangers_a_day(stage: &Scripted<Confirming>) {
    let key = proved_account(stage, "ann@example.com").await;
    for number in 0..53 {
        writes_to(stage, &key, &format!("stranger{number}@elsewhere.example")).await;
    }
    let asked = async || {
        let mails = stage.mails().await.into_iter().filter(|mail| mail.subject == QUESTION);
        let mut asked: Vec<String> = mails.map(|mail| mail.to).collect();
        let questions = asked.len();
        asked.sort();
        asked.dedup();
        (questions, asked.len())
    };
    fire(stage, &key, "user_1").await;
    assert_eq!(asked().await, (50, 50));
    fire(stage, &key, "user_2").await;
    assert_eq!(asked().await, (50, 50), "not on the same day");
    stage.advance(DAY);
    fire(stage, &key, "user_3").await;
    assert_eq!(asked().await, (100, 53), "whoever was not asked comes first");
}

async fn an_account_without_mails_left_asks_nobody(stage: &Scripted<Confirming>) {
    let key = proved_account(stage, "ann@example.com").await;
    let tenant = key.call(stage, Method::GET, "/v1/me", &Value::Null).await.json()["tenant_id"].clone();
    let tenant = TenantId(tenant.as_str().unwrap().parse().unwrap());
    for to in ["ann@example.com", STRANGER, "another@elsewhere.example"] {
        writes_to(stage, &key, to).await;
    }
    let (today, counts) = (stage.now().date(), MessageCounts { mails: 998, chats: 0 });
    let counted = stage.store.write("count_messages", async |conn: &mut Conn| {
        tallies::count_messages(conn, tenant, today, counts).await
    });
    counted.await.unwrap();
    ingest_answered(stage, &key, "user_1", 0.95).await;
    let mails = stage.mails().await;
    let sent = |subject: &str| mails.iter().filter(|mail| mail.subject == subject).count();
    assert_eq!((sent("You have won"), sent(QUESTION)), (1, 1), "alerts come first");
    stage.advance(DAY);
    ingest_answered(stage, &key, "user_2", 0.95).await;
    let mails = stage.mails().await;
    assert_eq!(mails.iter().filter(|mail| mail.subject == QUESTION).count(), 3);
}

/// Another process counts a question to the same address, and never gets to its end.
#[test]
fn a_count_that_others_hold_delays_no_analysis_on_postgres() {
    testkit::run_on(Backend::Postgres, async |stage: &Scripted<Confirming>| {
        let key = proved_account(stage, "ann@example.com").await;
        writes_to(stage, &key, STRANGER).await;
        let mut connection = PgConnection::connect(stage.database_url()).await.unwrap();
        let counting = "INSERT INTO throttles (scope, subject, attempts, window_start) \
                        VALUES ('confirmations', encode(sha256($1), 'hex'), 1, now())";
        sqlx::query("BEGIN").execute(&mut connection).await.unwrap();
        sqlx::query(counting).bind(STRANGER.as_bytes()).execute(&mut connection).await.unwrap();
        assert_eq!(fire(stage, &key, "user_1").await, "unconfirmed");
        sqlx::query("ROLLBACK").execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        assert_eq!(mails_to(stage, STRANGER).await.len(), 1);
    });
}

async fn a_recipient_can_withdraw_where_nobody_is_asked(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    writes_to(stage, &key, STRANGER).await;
    assert_eq!(fire(stage, &key, "user_1").await, "dispatched");
    let alert = mails_to(stage, STRANGER).await.remove(0);
    assert_eq!(withdraw(stage, &alert).await.status, 204);
    assert_eq!(fire(stage, &key, "user_2").await, "unconfirmed");
    assert_eq!(mails_to(stage, STRANGER).await.len(), 1);
}

async fn the_pages_behind_the_links_change_nothing_when_read(stage: &Scripted<Confirming>) {
    let key = proved_account(stage, "ann@example.com").await;
    writes_to(stage, &key, STRANGER).await;
    fire(stage, &key, "user_1").await;
    let question = mails_to(stage, STRANGER).await.remove(0);
    let confirming = format!("/console/confirm?token={}", token_after(&question, "/console/confirm?token="));
    let withdrawing = question.withdraw_url.clone().unwrap().replace(&stage.url(""), "");
    let by_link = format!("/console/withdraw?token={}", token_after(&question, "/console/withdraw?token="));
    for path in [&confirming, &withdrawing, &by_link] {
        let page = stage.get(path).await;
        assert_eq!((page.status.as_u16(), page.header("content-type")), (200, "text/html; charset=utf-8"));
        assert!(page.header("content-security-policy").contains("form-action 'self'"));
    }
    let page = stage.get(&withdrawing).await;
    assert!(page.text.contains("<form method=\"post\"") && page.text.contains("<h1>"), "{}", page.text);
    assert_eq!(fire(stage, &key, "user_2").await, "unconfirmed", "reading a page is not agreeing");
    let press = async |path: &str| {
        stage.send(stage.request(Method::POST, path).header(ACCEPT, "text/html,*/*;q=0.8")).await
    };
    let done = press(&confirming).await;
    assert!(done.status == 200 && done.text.contains("Thank you"), "{}", done.text);
    assert_eq!(press(&confirming).await.status, 400);
    assert_eq!(fire(stage, &key, "user_3").await, "dispatched");
    let done = press(&withdrawing).await;
    assert!(done.status == 200 && done.text.contains("no more"), "{}", done.text);
    assert_eq!(fire(stage, &key, "user_4").await, "unconfirmed");
    assert_eq!(press(&by_link).await.status, 200, "as often as one likes");
    let nasty = stage.get("/auth/console/recipients/withdraw?token=%22%3E%3Cscript%3E").await;
    assert!(nasty.status == 200 && !nasty.text.contains("script"), "{}", nasty.text);
}

async fn a_link_of_another_kind_is_refused(stage: &Scripted<Confirming>) {
    let key = proved_account(stage, "ann@example.com").await;
    writes_to(stage, &key, STRANGER).await;
    fire(stage, &key, "user_1").await;
    let question = mails_to(stage, STRANGER).await.remove(0);
    let token = token_after(&question, "/console/confirm?token=");
    let other = token_after(&question, "/console/withdraw?token=");
    let path = "/auth/console/recipients/withdraw?token=";
    for wrong in [other.as_str(), "", "x", &token[..63], &format!("{token}A"), &"A".repeat(64)] {
        confirm(stage, wrong).await.refused(400, "invalid_token");
    }
    for wrong in [token.as_str(), "", "x", &other[..63], &"A".repeat(64)] {
        let request = stage.request(Method::POST, &format!("{path}{wrong}"));
        stage.send(request).await.refused(400, "invalid_token");
    }
    for body in [json!({}), json!({"token": 7}), Value::Null] {
        let message = stage.post(CONFIRM, &body).await.refused(400, "bad_request");
        assert!(!message.is_empty());
    }
    let message = stage.send(stage.request(Method::POST, path.trim_end_matches("?token="))).await;
    assert!(message.refused(400, "bad_request").contains("token"));
    assert_eq!(fire(stage, &key, "user_2").await, "unconfirmed");
    assert_eq!(confirm(stage, &token).await.status, 204);
}

async fn who_never_responds_is_forgotten(stage: &Scripted<Confirming>) {
    const RECIPIENTS: &str = "SELECT count(*) FROM mail_recipients";
    const WILLING: &str = "willing@elsewhere.example";
    let key = proved_account(stage, "ann@example.com").await;
    writes_to(stage, &key, STRANGER).await;
    writes_to(stage, &key, WILLING).await;
    assert_eq!(fire(stage, &key, "user_1").await, "unconfirmed");
    let unanswered = token_after(&mails_to(stage, STRANGER).await[0], "/console/confirm?token=");
    let willing = token_after(&mails_to(stage, WILLING).await[0], "/console/confirm?token=");
    assert_eq!(confirm(stage, &willing).await.status, 204);
    stage.advance(29 * DAY);
    stage.sweeper_has_swept().await;
    assert_eq!(stage.number(RECIPIENTS).await, 2);
    stage.advance(DAY + Duration::from_secs(1));
    until("one is forgotten", async || {
        stage.sweeper_has_swept().await;
        stage.number(RECIPIENTS).await == 1
    })
    .await;
    confirm(stage, &unanswered).await.refused(400, "invalid_token");
}
