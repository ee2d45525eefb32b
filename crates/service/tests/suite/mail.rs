//! Mail, from the queue to a real mail server, and back to the queue when the server does not accept it.

mod logging;
mod peer;
mod stage;
mod templates;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use model::api::{ActionType, FiringStatus};
use service::mail::{Firing, Mail, MailTemplates, Mailer, Transport};
use store::actions::firings;
use store::actions::firings::{Firing as Fired, FiringFilter};
use store::actions::recipients;
use store::actions::recipients::Recipient;
use store::outbox::messages;
use store::outbox::messages::{Channel, NewMessage};
use store::{Backend, Conn, Lease};
use testkit::{Proxy, on_both};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use peer::{Headers, Peer};
use stage::{MailStage, START, TENANT, mail_to, start};

on_both!(
    a_mail_arrives_as_it_was_written,
    a_mail_program_finds_where_to_withdraw,
    an_address_is_asked_three_times_a_day_by_all_accounts,
    a_busy_server_is_retried_later,
    a_permanently_refused_mail_is_dropped,
    a_server_that_is_down_gets_its_mail_when_it_is_back,
    a_mail_is_given_up_after_eight_attempts,
    nothing_is_sent_without_a_trusted_certificate,
    nothing_is_sent_to_a_server_without_encryption,
    a_wrong_password_loses_no_mail,
    implicit_tls_is_supported,
    without_a_server_mails_are_written_to_files,
    two_workers_send_each_mail_once,
    stopping_a_worker_loses_no_mail,
    the_mail_of_a_crashed_worker_is_claimed_again,
    a_mail_that_cannot_be_opened_or_sent_is_dropped,
    a_mail_that_crashes_its_senders_is_given_up_and_others_are_not,
    only_the_holder_of_a_lease_finishes_a_message,
    a_mail_is_queued_with_its_transaction_or_not_at_all,
    a_firing_records_the_outcome_of_its_mail,
    a_tenant_with_many_mails_does_not_delay_others,
);

const FIRST_WAIT: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(35);
/// Multiplies a delay to cover its jitter.
const SPREAD: f64 = 1.1;

async fn a_mail_arrives_as_it_was_written(stage: &MailStage) {
    let peer = Peer::start(&[]);
    let mailer = stage.plain_mailer(&peer.plain_url());
    let workers = start(&mailer);
    let mail = mail_to("Ann.O'Neil+shop@example.com");
    stage.queue(&mailer, &mail).await;
    let received = peer.first().await;
    assert_eq!(received.from, "auspex@example.com");
    let id = received.headers.message_id.clone();
    let uuid = id.strip_prefix('<').and_then(|id| id.strip_suffix("@example.com>")).unwrap();
    assert_eq!(uuid.parse::<Uuid>().unwrap().get_version_num(), 7);
    let headers = Headers {
        from: "Auspex <auspex@example.com>".to_owned(),
        to: mail.to.clone(),
        subject: mail.subject.clone(),
        date: "Thu, 01 Jan 2026 00:00:00 +0000".to_owned(),
        message_id: id,
        auto_submitted: "auto-generated".to_owned(),
        list_unsubscribe: None,
        list_unsubscribe_post: None,
    };
    assert_eq!(received.headers, headers);
    assert_eq!(received.content_type, "multipart/alternative");
    assert_eq!(received.text.replace("\r\n", "\n"), mail.text);
    assert_eq!(received.html.replace("\r\n", "\n"), mail.html);
    assert!(received.longest_line <= 998, "{}", received.longest_line);
    assert!(!received.encrypted);
    stage.until_left(0).await;
    workers.drain().await;
}

async fn a_mail_program_finds_where_to_withdraw(stage: &MailStage) {
    let peer = Peer::start(&[]);
    let mailer = stage.plain_mailer(&peer.plain_url());
    let workers = start(&mailer);
    let url = format!("https://auspex.example/auth/console/recipients/withdraw?token={}", "a".repeat(64));
    stage.queue(&mailer, &Mail { withdraw_url: Some(url.clone()), ..mail_to("ann@example.com") }).await;
    let dropped = Mail { is_dropped: true, ..mail_to("bob@example.com") };
    stage.queue(&mailer, &dropped).await;
    let headers = peer.first().await.headers;
    assert_eq!(headers.list_unsubscribe, Some(format!("<{url}>")));
    assert_eq!(headers.list_unsubscribe_post.as_deref(), Some("List-Unsubscribe=One-Click"));
    stage.until_left(0).await;
    workers.drain().await;
    assert_eq!(peer.close().len(), 1, "a mail that is to be dropped reaches nobody");
}

async fn an_address_is_asked_three_times_a_day_by_all_accounts(stage: &MailStage) {
    let peer = Peer::start(&[]);
    let mailer = stage.plain_mailer(&peer.plain_url());
    let workers = start(&mailer);
    let askers: Vec<Uuid> = (0..5).map(Uuid::from_u128).collect();
    let new = |recipient_id: &Uuid| Recipient {
        tenant_id: TENANT,
        recipient_id: *recipient_id,
        secret: Vec::new(),
        asked_at: None,
        confirmed_at: None,
        withdrawn_at: None,
        created_at: stage.now(),
    };
    let new: Vec<Recipient> = askers.iter().map(new).collect();
    let (now, since) = (stage.now(), stage.now() - Duration::from_hours(24));
    let asked = stage.store.write("ask", async |conn: &mut Conn| {
        recipients::insert_missing(conn, &new).await?;
        recipients::claim_confirmations(conn, TENANT, &askers, now, since).await
    });
    assert_eq!(asked.await.unwrap().len(), 5);
    for asker in &askers {
        stage.queue(&mailer, &Mail { asks: Some(*asker), ..mail_to("Ann@example.com") }).await;
    }
    stage.until_left(0).await;
    workers.drain().await;
    assert_eq!(peer.close().len(), 3);
    let asked = stage.store.read("asked", async |conn| recipients::count_asked(conn, TENANT, since).await);
    assert_eq!(asked.await.unwrap(), 3, "the others may ask again");
}

async fn a_busy_server_is_retried_later(stage: &MailStage) {
    let peer = Peer::start(&["--busy", "ann@example.com=2"]);
    let mailer = stage.plain_mailer(&peer.plain_url());
    let workers = start(&mailer);
    stage.queue(&mailer, &mail_to("ann@example.com")).await;
    let due = stage.until_due_in(FIRST_WAIT).await;
    // Just before it is due the worker does not send it, although it polls: it finds another mail and sends that.
    stage.advance(due.since(stage.now()).saturating_sub(Duration::from_micros(1)));
    stage.queue(&mailer, &mail_to("bob@example.com")).await;
    stage.until_left(1).await;
    assert_eq!(stage.next_due().await, Some(due));
    stage.advance(Duration::from_micros(1));
    stage.until_due_in(FIRST_WAIT * 2).await;
    stage.advance((FIRST_WAIT * 2).mul_f64(SPREAD));
    stage.until_left(0).await;
    workers.drain().await;
    let answers = peer.close();
    let answers: Vec<_> = answers.iter().map(|answer| (answer.to.as_str(), answer.code)).collect();
    let (ann, bob) = ("ann@example.com", "bob@example.com");
    assert_eq!(answers, [(ann, 451), (bob, 250), (ann, 451), (ann, 250)]);
}

async fn a_permanently_refused_mail_is_dropped(stage: &MailStage) {
    let peer = Peer::start(&["--refuse"]);
    let mailer = stage.plain_mailer(&peer.plain_url());
    let workers = start(&mailer);
    stage.queue(&mailer, &mail_to("nobody@example.com")).await;
    stage.until_left(0).await;
    workers.drain().await;
    let codes: Vec<_> = peer.close().iter().map(|answer| answer.code).collect();
    assert_eq!(codes, [550]);
}

async fn a_server_that_is_down_gets_its_mail_when_it_is_back(stage: &MailStage) {
    let down = Peer::start(&[]);
    let (url, port) = (down.plain_url(), down.port().to_string());
    drop(down);
    let mailer = stage.plain_mailer(&url);
    let workers = start(&mailer);
    stage.queue(&mailer, &mail_to("ann@example.com")).await;
    stage.until_due_in(FIRST_WAIT).await;
    stage.advance(FIRST_WAIT.mul_f64(SPREAD));
    stage.until_due_in(FIRST_WAIT * 2).await;
    let peer = Peer::start(&["--port", &port]);
    stage.advance((FIRST_WAIT * 2).mul_f64(SPREAD));
    let received = peer.first().await;
    assert_eq!(
        received.headers.date, "Thu, 01 Jan 2026 00:00:00 +0000",
        "when it was queued, not when it was sent"
    );
    stage.until_left(0).await;
    workers.drain().await;
}

/// The database takes no writes when the mail has just been sent.
#[test]
fn an_outage_of_the_database_neither_repeats_a_mail_nor_uses_up_its_attempts_on_postgres() {
    testkit::run_on(Backend::Postgres, async |stage: &MailStage| {
        let peer = Peer::start(&[]);
        let proxy = Proxy::to(([127, 0, 0, 1], peer.port()).into()).await;
        // Whoever connects waits.
        proxy.cut();
        let mailer = stage.plain_mailer(&format!("smtp://127.0.0.1:{}?tls=none", proxy.address().port()));
        let workers = start(&mailer);
        stage.queue(&mailer, &mail_to("ann@example.com")).await;
        stage.until_due_in(LEASE).await;
        stage.database.set_read_only(true).await;
        proxy.mend();
        peer.first().await;
        // Longer than a connection is believed to be alive.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        assert!(stage.next_due().await.is_some(), "nothing is known of it yet");
        stage.database.set_read_only(false).await;
        stage.until_left(0).await;
        workers.drain().await;
        assert_eq!(peer.close().len(), 1);
    });
}

async fn a_mail_is_given_up_after_eight_attempts(stage: &MailStage) {
    let down = Peer::start(&[]);
    let mailer = stage.plain_mailer(&down.plain_url());
    drop(down);
    let workers = start(&mailer);
    stage.queue(&mailer, &mail_to("ann@example.com")).await;
    let mut wait = FIRST_WAIT;
    for _ in 1..8 {
        stage.until_due_in(wait).await;
        stage.advance(wait.mul_f64(SPREAD));
        wait *= 2;
    }
    stage.until_left(0).await;
    workers.drain().await;
}

/// Lets a mailer with a broken transport fail once, then sends the mail with a working one.
async fn fails_then_arrives(stage: &MailStage, peer: &Peer, broken: Transport, working: Transport) {
    let mailer = stage.mailer(broken);
    let workers = start(&mailer);
    stage.queue(&mailer, &mail_to("ann@example.com")).await;
    stage.until_due_in(FIRST_WAIT).await;
    workers.drain().await;
    assert!(peer.answers().is_empty(), "{:?}", peer.answers());
    stage.advance(FIRST_WAIT.mul_f64(SPREAD));
    let workers = start(&stage.mailer(working));
    let received = peer.first().await;
    assert!(received.encrypted);
    stage.until_left(0).await;
    workers.drain().await;
}

async fn nothing_is_sent_without_a_trusted_certificate(stage: &MailStage) {
    let peer = Peer::start(&["--tls", "starttls"]);
    let url = format!("smtp://127.0.0.1:{}", peer.port());
    let stranger = Transport::smtp(&url).unwrap();
    fails_then_arrives(stage, &peer, stranger, Transport::smtp_trusting(&url, peer.authority()).unwrap())
        .await;
}

async fn nothing_is_sent_to_a_server_without_encryption(stage: &MailStage) {
    let plain = Peer::start(&[]);
    let peer = Peer::start(&["--tls", "starttls"]);
    let unencrypted = Transport::smtp(&format!("smtp://127.0.0.1:{}", plain.port())).unwrap();
    let url = format!("smtp://127.0.0.1:{}", peer.port());
    fails_then_arrives(stage, &peer, unencrypted, Transport::smtp_trusting(&url, peer.authority()).unwrap())
        .await;
    assert!(plain.close().is_empty());
}

async fn a_wrong_password_loses_no_mail(stage: &MailStage) {
    let peer = Peer::start(&["--tls", "starttls", "--login", "ann:p@ss+wörd"]);
    let with = |password: &str| {
        let url = format!("smtp://ann:{password}@127.0.0.1:{}", peer.port());
        Transport::smtp_trusting(&url, peer.authority()).unwrap()
    };
    fails_then_arrives(stage, &peer, with("guess"), with("p%40ss+w%C3%B6rd")).await;
    assert_eq!(peer.first().await.login.as_deref(), Some("ann"));
}

async fn implicit_tls_is_supported(stage: &MailStage) {
    let peer = Peer::start(&["--tls", "implicit", "--login", "ann:hush"]);
    let url = format!("smtps://ann:hush@127.0.0.1:{}", peer.port());
    let stranger = Transport::smtp(&url).unwrap();
    fails_then_arrives(stage, &peer, stranger, Transport::smtp_trusting(&url, peer.authority()).unwrap())
        .await;
    assert_eq!(peer.first().await.login.as_deref(), Some("ann"));
}

async fn without_a_server_mails_are_written_to_files(stage: &MailStage) {
    let directory = stage.database.directory().join("data/mail");
    let mailer = stage.mailer(Transport::files(&directory).unwrap());
    let workers = start(&mailer);
    let templates = MailTemplates::new("https://auspex.example");
    for number in 0..3 {
        let to = format!("recipient{number}@example.com");
        stage.queue(&mailer, &templates.password_reset(&to, &format!("token-{number}"))).await;
        stage.advance(Duration::from_secs(1));
    }
    stage.until_left(0).await;
    workers.drain().await;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    let mut files: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 3, "nothing temporary is left: {files:?}");
    for (number, file) in files.iter().enumerate() {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(&format!("2026-01-01T00000{number}.000000Z-")), "{name}");
        assert_eq!(file.extension().unwrap(), "eml");
        assert_eq!(mode(file), 0o600);
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains(&format!("To: recipient{number}@example.com\r\n")), "{text}");
        assert!(text.contains("Subject: Reset your password\r\n"), "{text}");
        assert!(
            text.contains(&format!("\r\nhttps://auspex.example/console/reset?token=token-{number}\r\n")),
            "{text}"
        );
    }
}

/// Queues 100 mails to 100 recipients.
async fn queue_a_hundred(stage: &MailStage, mailer: &Mailer) -> BTreeSet<String> {
    let recipients: BTreeSet<_> =
        (0..100).map(|number| format!("recipient{number:02}@example.com")).collect();
    let mails: Vec<Mail> = recipients.iter().map(|recipient| mail_to(recipient)).collect();
    stage
        .store
        .write("queue", async |conn: &mut Conn| {
            for mail in &mails {
                let firing = Firing { object_id: "shop-1", firing_id: Uuid::from_u128(3) };
                mailer.enqueue(conn, TENANT, mail, Some(firing)).await?;
            }
            Ok::<(), store::Error>(())
        })
        .await
        .unwrap();
    recipients
}

/// Asserts that every recipient got one mail.
fn assert_each_got_one(peer: Peer, recipients: &BTreeSet<String>) {
    let answers = peer.close();
    assert_eq!(answers.len(), recipients.len());
    assert_eq!(&answers.into_iter().map(|answer| answer.to).collect::<BTreeSet<_>>(), recipients);
}

async fn two_workers_send_each_mail_once(stage: &MailStage) {
    let peer = Peer::start(&[]);
    let transport = Transport::smtp(&peer.plain_url()).unwrap();
    let one = stage.mailer(transport.clone());
    // Simulates another process.
    let other = stage.mailer_on(stage.database.open().await, transport, 1);
    let recipients = queue_a_hundred(stage, &one).await;
    let workers = [start(&one), start(&other)];
    stage.until_left(0).await;
    for worker in workers {
        worker.drain().await;
    }
    assert_each_got_one(peer, &recipients);
}

async fn stopping_a_worker_loses_no_mail(stage: &MailStage) {
    let peer = Peer::start(&[]);
    let mailer = stage.plain_mailer(&peer.plain_url());
    let recipients = queue_a_hundred(stage, &mailer).await;
    let workers = start(&mailer);
    peer.until(10).await;
    workers.drain().await;
    let workers = start(&mailer);
    stage.until_left(0).await;
    workers.drain().await;
    assert_each_got_one(peer, &recipients);
}

async fn the_mail_of_a_crashed_worker_is_claimed_again(stage: &MailStage) {
    let peer = Peer::start(&[]);
    let proxy = Proxy::to(([127, 0, 0, 1], peer.port()).into()).await;
    proxy.cut();
    let mailer = stage.plain_mailer(&format!("smtp://{}?tls=none", proxy.address()));
    let mut crashing = JoinSet::new();
    crashing.spawn(mailer.clone().run(CancellationToken::new()));
    stage.queue(&mailer, &mail_to("ann@example.com")).await;
    stage.until_due_in(LEASE).await;
    crashing.shutdown().await;
    proxy.mend();
    let workers = start(&mailer);
    // The lease has not expired: another mail is sent, this one is not.
    stage.queue(&mailer, &mail_to("bob@example.com")).await;
    stage.until_left(1).await;
    assert_eq!(peer.until(1).await[0].to, "bob@example.com");
    assert_eq!(stage.next_due().await, Some(START + LEASE));
    stage.advance(LEASE);
    assert_eq!(peer.until(2).await[1].to, "ann@example.com");
    stage.until_left(0).await;
    workers.drain().await;
}

async fn a_mail_that_crashes_its_senders_is_given_up_and_others_are_not(stage: &MailStage) {
    const DEATHS: u32 = 5;
    let peer = Peer::start(&[]);
    let proxy = Proxy::to(([127, 0, 0, 1], peer.port()).into()).await;
    proxy.cut();
    let mailer = stage.plain_mailer(&format!("smtp://{}?tls=none", proxy.address()));
    stage.queue(&mailer, &mail_to("ann@example.com")).await;
    for death in 0..DEATHS {
        if death == DEATHS - 1 {
            // It shares one crash, and no more.
            stage.queue(&mailer, &mail_to("bob@example.com")).await;
        }
        let mut crashing = JoinSet::new();
        crashing.spawn(mailer.clone().run(CancellationToken::new()));
        stage.until_due_in(LEASE).await;
        crashing.shutdown().await;
        stage.advance(LEASE);
    }
    proxy.mend();
    let workers = start(&mailer);
    stage.until_left(0).await;
    workers.drain().await;
    let reached: Vec<_> = peer.close().into_iter().map(|answer| answer.to).collect();
    assert_eq!(reached, ["bob@example.com"]);
}

async fn a_mail_that_cannot_be_opened_or_sent_is_dropped(stage: &MailStage) {
    let peer = Peer::start(&[]);
    let transport = Transport::smtp(&peer.plain_url()).unwrap();
    let stranger = stage.mailer_on(stage.store.clone(), transport.clone(), 2);
    let mailer = stage.mailer(transport);
    stage.queue(&stranger, &mail_to("ann@example.com")).await;
    stage.queue(&mailer, &mail_to("no address")).await;
    stage
        .queue(&mailer, &Mail { subject: "Hello\r\nBcc: all@example.com".to_owned(), ..mail_to("a@b.c") })
        .await;
    stage.queue(&mailer, &mail_to("bob@example.com")).await;
    let workers = start(&mailer);
    stage.until_left(0).await;
    workers.drain().await;
    let reached: Vec<_> = peer.close().into_iter().map(|answer| answer.to).collect();
    assert_eq!(reached, ["bob@example.com"]);
}

async fn only_the_holder_of_a_lease_finishes_a_message(stage: &MailStage) {
    let (first, second) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let message = |message_id, channel| NewMessage {
        tenant: TENANT,
        message_id,
        channel,
        lane: String::new(),
        message: b"sealed".to_vec(),
        object_id: Some("shop-1".to_owned()),
        firing_id: Some(Uuid::from_u128(3)),
        created_at: START,
    };
    let lease = |number| Lease { token: Uuid::from_u128(number), until: START + LEASE };
    let work = async |conn: &mut Conn| {
        messages::enqueue(conn, &[message(first, Channel::Mail), message(second, Channel::Slack)]).await?;
        assert!(
            messages::claim(conn, Channel::Mail, (TENANT, ""), START - FIRST_WAIT, lease(10), 9)
                .await?
                .is_empty()
        );
        assert!(messages::claim(conn, Channel::Mail, (TENANT, ""), START, lease(10), 0).await?.is_empty());
        let claimed = messages::claim(conn, Channel::Mail, (TENANT, ""), START, lease(10), 9).await?;
        let facts: Vec<_> = claimed.iter().map(|claimed| (claimed.message_id, claimed.attempts)).collect();
        assert_eq!(facts, [(first, 1)]);
        assert_eq!((claimed[0].tenant_id, claimed[0].created_at), (TENANT, START));
        assert_eq!(claimed[0].message, b"sealed");
        assert!(
            messages::claim(conn, Channel::Mail, (TENANT, ""), START, lease(11), 9).await?.is_empty(),
            "it is leased"
        );
        let again = messages::claim(conn, Channel::Mail, (TENANT, ""), START + LEASE, lease(11), 9).await?;
        assert_eq!(
            (again[0].attempts, again[0].unfinished_claims),
            (1, 1),
            "its lease has ended, and no attempt has"
        );
        let (old, new) = (lease(10).token, lease(11).token);
        assert!(!messages::retry(conn, TENANT, first, old, START).await?);
        assert!(!messages::finish(conn, TENANT, first, old).await?);
        assert!(messages::retry(conn, TENANT, first, new, START + FIRST_WAIT).await?);
        assert_eq!(messages::next_due(conn, Channel::Mail).await?, Some(START + FIRST_WAIT));
        assert!(!messages::finish(conn, TENANT, first, new).await?, "putting it back gives up the lease");
        for (channel, id) in [(Channel::Mail, first), (Channel::Slack, second)] {
            let claimed =
                messages::claim(conn, channel, (TENANT, ""), START + FIRST_WAIT, lease(12), 9).await?;
            assert_eq!(claimed.len(), 1);
            assert!(messages::finish(conn, TENANT, id, lease(12).token).await?);
            assert_eq!(messages::next_due(conn, channel).await?, None);
        }
        Ok::<(), store::Error>(())
    };
    stage.store.write("leases", work).await.unwrap();
}

async fn a_mail_is_queued_with_its_transaction_or_not_at_all(stage: &MailStage) {
    let mailer = stage.mailer(Transport::files(stage.database.directory().join("mail")).unwrap());
    let undone: service::Result<()> = stage
        .store
        .write("undone", async |conn: &mut Conn| {
            mailer.enqueue(conn, TENANT, &mail_to("ann@example.com"), None).await?;
            Err(service::Error::bad_request("no"))
        })
        .await;
    assert!(undone.is_err());
    assert_eq!(stage.next_due().await, None);
}

/// Queues a mail that reports a firing, and waits until it is sent or given up; returns the firing's status and detail.
async fn outcome_of(stage: &MailStage, mailer: &Mailer, number: u128) -> (String, Option<String>) {
    let firing_id = Uuid::from_u128(number);
    let fired = Fired {
        tenant_id: TENANT,
        firing_id,
        rule_id: Uuid::from_u128(1),
        object_id: "shop-1".to_owned(),
        matched_when: "risk > 0.9".to_owned(),
        signal_values: "{}".to_owned(),
        action_type: ActionType::Email,
        status: FiringStatus::Dispatched,
        detail: None,
        fired_at: stage.now(),
    };
    let queued = stage.store.write("fire", async |conn: &mut Conn| {
        firings::insert(conn, std::slice::from_ref(&fired)).await?;
        let firing = Firing { object_id: "shop-1", firing_id };
        mailer.enqueue(conn, TENANT, &mail_to("ann@example.com"), Some(firing)).await
    });
    queued.await.unwrap();
    mailer.wake();
    stage.until_left(0).await;
    let all = stage
        .store
        .read("firings", async |conn: &mut Conn| {
            firings::newest(conn, TENANT, FiringFilter::default(), 9).await
        })
        .await
        .unwrap();
    let firing = all.into_iter().find(|firing| firing.firing_id == firing_id).unwrap();
    (firing.status.as_str().to_owned(), firing.detail)
}

async fn a_firing_records_the_outcome_of_its_mail(stage: &MailStage) {
    let (accepting, refusing) = (Peer::start(&[]), Peer::start(&["--refuse"]));
    let mut number = 0;
    for (peer, status, detail) in [
        (accepting, "dispatched", "the mail was sent"),
        (refusing, "error", "given up after 1 try: the server answered 550"),
    ] {
        let mailer = stage.plain_mailer(&peer.plain_url());
        let workers = start(&mailer);
        number += 1;
        let reported = outcome_of(stage, &mailer, number).await;
        assert_eq!(reported, (status.to_owned(), Some(detail.to_owned())));
        workers.drain().await;
    }
}

async fn a_tenant_with_many_mails_does_not_delay_others(stage: &MailStage) {
    let peer = Peer::start(&[]);
    let mailer = stage.plain_mailer(&peer.plain_url());
    queue_a_hundred(stage, &mailer).await;
    let other = model::TenantId(Uuid::from_u128(8));
    let queued = stage.store.write("other", async |conn: &mut Conn| {
        mailer.enqueue(conn, other, &mail_to("bob@example.com"), None).await
    });
    queued.await.unwrap();
    let workers = start(&mailer);
    let answers = peer.until(8).await;
    assert!(answers.iter().any(|answer| answer.to == "bob@example.com"), "{answers:?}");
    stage.until_left(0).await;
    workers.drain().await;
}
