//! Mail, from the queue to a real mail server and back when the server will not have it.

mod discretion;
mod office;
mod peer;
mod templates;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use model::api::{ActionType, FiringStatus};
use service::mail::{Firing, Mail, MailTemplates, Mailer, Transport};
use store::actions::firings;
use store::actions::firings::Firing as Fired;
use store::outbox::messages;
use store::outbox::messages::{Channel, NewMessage};
use store::{Conn, Lease};
use testkit::{Proxy, on_both};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use office::{Office, START, TENANT, mail_to, start};
use peer::{Headers, Peer};

on_both!(
    a_mail_arrives_as_it_was_written,
    a_busy_server_is_asked_again_later,
    a_mail_that_is_refused_for_good_is_dropped,
    a_server_that_is_down_gets_its_mail_when_it_is_back,
    a_mail_is_given_up_after_eight_attempts,
    nothing_is_sent_before_the_server_has_shown_who_it_is,
    nothing_is_sent_to_a_server_without_encryption,
    a_wrong_password_costs_no_mail,
    encryption_from_the_first_byte,
    without_a_server_mails_are_files,
    two_workers_send_each_mail_once,
    a_worker_that_is_stopped_loses_nothing,
    the_mail_of_a_worker_that_died_is_taken_again,
    a_mail_that_cannot_be_read_or_sent_is_dropped,
    only_the_holder_of_a_lease_settles_a_message,
    a_mail_is_queued_with_its_transaction_or_not_at_all,
    a_firing_learns_what_became_of_its_mail,
    a_tenant_s_pile_of_mail_holds_nobody_up,
);

const FIRST_WAIT: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(35);
/// Times a wait, for the whole of its spread.
const SPREAD: f64 = 1.1;

async fn a_mail_arrives_as_it_was_written(office: &Office) {
    let peer = Peer::start(&[]);
    let mailer = office.plain_mailer(&peer.plain_url());
    let workers = start(&mailer);
    let mail = mail_to("Ann.O'Neil+shop@example.com");
    office.queue(&mailer, &mail).await;
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
    };
    assert_eq!(received.headers, headers);
    assert_eq!(received.content_type, "multipart/alternative");
    assert_eq!(received.text.replace("\r\n", "\n"), mail.text);
    assert_eq!(received.html.replace("\r\n", "\n"), mail.html);
    assert!(received.longest_line <= 998, "{}", received.longest_line);
    assert!(!received.encrypted);
    office.until_left(0).await;
    workers.drain().await;
}

async fn a_busy_server_is_asked_again_later(office: &Office) {
    let peer = Peer::start(&["--busy", "ann@example.com=2"]);
    let mailer = office.plain_mailer(&peer.plain_url());
    let workers = start(&mailer);
    office.queue(&mailer, &mail_to("ann@example.com")).await;
    let due = office.until_due_in(FIRST_WAIT).await;
    // Just before it is due it stays where it is, though the worker looks: it finds another mail and sends that.
    office.advance(due.since(office.now()).saturating_sub(Duration::from_micros(1)));
    office.queue(&mailer, &mail_to("bob@example.com")).await;
    office.until_left(1).await;
    assert_eq!(office.next_due().await, Some(due));
    office.advance(Duration::from_micros(1));
    office.until_due_in(FIRST_WAIT * 2).await;
    office.advance((FIRST_WAIT * 2).mul_f64(SPREAD));
    office.until_left(0).await;
    workers.drain().await;
    let answers = peer.close();
    let answers: Vec<_> = answers.iter().map(|answer| (answer.to.as_str(), answer.code)).collect();
    let (ann, bob) = ("ann@example.com", "bob@example.com");
    assert_eq!(answers, [(ann, 451), (bob, 250), (ann, 451), (ann, 250)]);
}

async fn a_mail_that_is_refused_for_good_is_dropped(office: &Office) {
    let peer = Peer::start(&["--refuse"]);
    let mailer = office.plain_mailer(&peer.plain_url());
    let workers = start(&mailer);
    office.queue(&mailer, &mail_to("nobody@example.com")).await;
    office.until_left(0).await;
    workers.drain().await;
    let codes: Vec<_> = peer.close().iter().map(|answer| answer.code).collect();
    assert_eq!(codes, [550]);
}

async fn a_server_that_is_down_gets_its_mail_when_it_is_back(office: &Office) {
    let gone = Peer::start(&[]);
    let (url, port) = (gone.plain_url(), gone.port().to_string());
    drop(gone);
    let mailer = office.plain_mailer(&url);
    let workers = start(&mailer);
    office.queue(&mailer, &mail_to("ann@example.com")).await;
    office.until_due_in(FIRST_WAIT).await;
    office.advance(FIRST_WAIT.mul_f64(SPREAD));
    office.until_due_in(FIRST_WAIT * 2).await;
    let peer = Peer::start(&["--port", &port]);
    office.advance((FIRST_WAIT * 2).mul_f64(SPREAD));
    let received = peer.first().await;
    assert_eq!(
        received.headers.date, "Thu, 01 Jan 2026 00:00:00 +0000",
        "when it was written, not when it went"
    );
    office.until_left(0).await;
    workers.drain().await;
}

async fn a_mail_is_given_up_after_eight_attempts(office: &Office) {
    let gone = Peer::start(&[]);
    let mailer = office.plain_mailer(&gone.plain_url());
    drop(gone);
    let workers = start(&mailer);
    office.queue(&mailer, &mail_to("ann@example.com")).await;
    let mut wait = FIRST_WAIT;
    for _ in 1..8 {
        office.until_due_in(wait).await;
        office.advance(wait.mul_f64(SPREAD));
        wait *= 2;
    }
    office.until_left(0).await;
    workers.drain().await;
}

/// Lets a mailer that cannot send try once, and puts right what stops it.
async fn mended(office: &Office, peer: &Peer, broken: Transport, right: Transport) {
    let mailer = office.mailer(broken);
    let workers = start(&mailer);
    office.queue(&mailer, &mail_to("ann@example.com")).await;
    office.until_due_in(FIRST_WAIT).await;
    workers.drain().await;
    assert!(peer.answers().is_empty(), "{:?}", peer.answers());
    office.advance(FIRST_WAIT.mul_f64(SPREAD));
    let workers = start(&office.mailer(right));
    let received = peer.first().await;
    assert!(received.encrypted);
    office.until_left(0).await;
    workers.drain().await;
}

async fn nothing_is_sent_before_the_server_has_shown_who_it_is(office: &Office) {
    let peer = Peer::start(&["--tls", "starttls"]);
    let url = format!("smtp://127.0.0.1:{}", peer.port());
    let stranger = Transport::smtp(&url).unwrap();
    mended(office, &peer, stranger, Transport::smtp_trusting(&url, peer.authority()).unwrap()).await;
}

async fn nothing_is_sent_to_a_server_without_encryption(office: &Office) {
    let plain = Peer::start(&[]);
    let peer = Peer::start(&["--tls", "starttls"]);
    let naked = Transport::smtp(&format!("smtp://127.0.0.1:{}", plain.port())).unwrap();
    let url = format!("smtp://127.0.0.1:{}", peer.port());
    mended(office, &peer, naked, Transport::smtp_trusting(&url, peer.authority()).unwrap()).await;
    assert!(plain.close().is_empty());
}

async fn a_wrong_password_costs_no_mail(office: &Office) {
    let peer = Peer::start(&["--tls", "starttls", "--login", "ann:p@ss+wörd"]);
    let with = |password: &str| {
        let url = format!("smtp://ann:{password}@127.0.0.1:{}", peer.port());
        Transport::smtp_trusting(&url, peer.authority()).unwrap()
    };
    mended(office, &peer, with("guess"), with("p%40ss+w%C3%B6rd")).await;
    assert_eq!(peer.first().await.login.as_deref(), Some("ann"));
}

async fn encryption_from_the_first_byte(office: &Office) {
    let peer = Peer::start(&["--tls", "implicit", "--login", "ann:hush"]);
    let url = format!("smtps://ann:hush@127.0.0.1:{}", peer.port());
    let stranger = Transport::smtp(&url).unwrap();
    mended(office, &peer, stranger, Transport::smtp_trusting(&url, peer.authority()).unwrap()).await;
    assert_eq!(peer.first().await.login.as_deref(), Some("ann"));
}

async fn without_a_server_mails_are_files(office: &Office) {
    let directory = office.database.directory().join("data/mail");
    let mailer = office.mailer(Transport::files(&directory).unwrap());
    let workers = start(&mailer);
    let templates = MailTemplates::new("https://auspex.example");
    for number in 0..3 {
        let to = format!("person{number}@example.com");
        office.queue(&mailer, &templates.password_reset(&to, &format!("token-{number}"))).await;
        office.advance(Duration::from_secs(1));
    }
    office.until_left(0).await;
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
        assert!(text.contains(&format!("To: person{number}@example.com\r\n")), "{text}");
        assert!(text.contains("Subject: Reset your password\r\n"), "{text}");
        assert!(
            text.contains(&format!("\r\nhttps://auspex.example/console/reset?token=token-{number}\r\n")),
            "{text}"
        );
    }
}

/// Queues a hundred mails, to a hundred people.
async fn queue_a_hundred(office: &Office, mailer: &Mailer) -> BTreeSet<String> {
    let people: BTreeSet<_> = (0..100).map(|number| format!("person{number:02}@example.com")).collect();
    let mails: Vec<Mail> = people.iter().map(|person| mail_to(person)).collect();
    office
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
    people
}

/// Asserts that everybody got one mail.
fn each_got_one(peer: Peer, people: &BTreeSet<String>) {
    let answers = peer.close();
    assert_eq!(answers.len(), people.len());
    assert_eq!(&answers.into_iter().map(|answer| answer.to).collect::<BTreeSet<_>>(), people);
}

async fn two_workers_send_each_mail_once(office: &Office) {
    let peer = Peer::start(&[]);
    let transport = Transport::smtp(&peer.plain_url()).unwrap();
    let one = office.mailer(transport.clone());
    // As another process would.
    let other = office.mailer_on(office.database.open().await, transport, 1);
    let people = queue_a_hundred(office, &one).await;
    let workers = [start(&one), start(&other)];
    office.until_left(0).await;
    for worker in workers {
        worker.drain().await;
    }
    each_got_one(peer, &people);
}

async fn a_worker_that_is_stopped_loses_nothing(office: &Office) {
    let peer = Peer::start(&[]);
    let mailer = office.plain_mailer(&peer.plain_url());
    let people = queue_a_hundred(office, &mailer).await;
    let workers = start(&mailer);
    peer.until(10).await;
    workers.drain().await;
    let workers = start(&mailer);
    office.until_left(0).await;
    workers.drain().await;
    each_got_one(peer, &people);
}

async fn the_mail_of_a_worker_that_died_is_taken_again(office: &Office) {
    let peer = Peer::start(&[]);
    let road = Proxy::to(([127, 0, 0, 1], peer.port()).into()).await;
    road.cut();
    let mailer = office.plain_mailer(&format!("smtp://{}?tls=none", road.address()));
    let mut doomed = JoinSet::new();
    doomed.spawn(mailer.clone().run(CancellationToken::new()));
    office.queue(&mailer, &mail_to("ann@example.com")).await;
    office.until_due_in(LEASE).await;
    doomed.shutdown().await;
    road.mend();
    let workers = start(&mailer);
    // The lease stands until its end: another mail goes, this one does not.
    office.queue(&mailer, &mail_to("bob@example.com")).await;
    office.until_left(1).await;
    assert_eq!(peer.until(1).await[0].to, "bob@example.com");
    assert_eq!(office.next_due().await, Some(START + LEASE));
    office.advance(LEASE);
    assert_eq!(peer.until(2).await[1].to, "ann@example.com");
    office.until_left(0).await;
    workers.drain().await;
}

async fn a_mail_that_cannot_be_read_or_sent_is_dropped(office: &Office) {
    let peer = Peer::start(&[]);
    let transport = Transport::smtp(&peer.plain_url()).unwrap();
    let stranger = office.mailer_on(office.store.clone(), transport.clone(), 2);
    let mailer = office.mailer(transport);
    office.queue(&stranger, &mail_to("ann@example.com")).await;
    office.queue(&mailer, &mail_to("no address")).await;
    office
        .queue(&mailer, &Mail { subject: "Hello\r\nBcc: all@example.com".to_owned(), ..mail_to("a@b.c") })
        .await;
    office.queue(&mailer, &mail_to("bob@example.com")).await;
    let workers = start(&mailer);
    office.until_left(0).await;
    workers.drain().await;
    let reached: Vec<_> = peer.close().into_iter().map(|answer| answer.to).collect();
    assert_eq!(reached, ["bob@example.com"]);
}

async fn only_the_holder_of_a_lease_settles_a_message(office: &Office) {
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
            "it is taken"
        );
        let again = messages::claim(conn, Channel::Mail, (TENANT, ""), START + LEASE, lease(11), 9).await?;
        assert_eq!(again[0].attempts, 2, "its lease has ended");
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
    office.store.write("leases", work).await.unwrap();
}

async fn a_mail_is_queued_with_its_transaction_or_not_at_all(office: &Office) {
    let mailer = office.mailer(Transport::files(office.database.directory().join("mail")).unwrap());
    let undone: service::Result<()> = office
        .store
        .write("undone", async |conn: &mut Conn| {
            mailer.enqueue(conn, TENANT, &mail_to("ann@example.com"), None).await?;
            Err(service::Error::bad_request("no"))
        })
        .await;
    assert!(undone.is_err());
    assert_eq!(office.next_due().await, None);
}

/// Queues a mail that reports a firing, and waits until it has gone or is given up; what the firing says then.
async fn reported(office: &Office, mailer: &Mailer, number: u128) -> (String, Option<String>) {
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
        fired_at: office.now(),
    };
    let queued = office.store.write("fire", async |conn: &mut Conn| {
        firings::insert(conn, std::slice::from_ref(&fired)).await?;
        let firing = Firing { object_id: "shop-1", firing_id };
        mailer.enqueue(conn, TENANT, &mail_to("ann@example.com"), Some(firing)).await
    });
    queued.await.unwrap();
    mailer.wake();
    office.until_left(0).await;
    let all = office
        .store
        .read("firings", async |conn: &mut Conn| firings::newest(conn, TENANT, None, None, 9).await)
        .await
        .unwrap();
    let firing = all.into_iter().find(|firing| firing.firing_id == firing_id).unwrap();
    (firing.status.as_str().to_owned(), firing.detail)
}

async fn a_firing_learns_what_became_of_its_mail(office: &Office) {
    let (taking, refusing) = (Peer::start(&[]), Peer::start(&["--refuse"]));
    let mut number = 0;
    for (peer, status, detail) in [
        (taking, "dispatched", "the mail was sent"),
        (refusing, "error", "given up after 1 try: the server answered 550"),
    ] {
        let mailer = office.plain_mailer(&peer.plain_url());
        let workers = start(&mailer);
        number += 1;
        let said = reported(office, &mailer, number).await;
        assert_eq!(said, (status.to_owned(), Some(detail.to_owned())));
        workers.drain().await;
    }
}

async fn a_tenant_s_pile_of_mail_holds_nobody_up(office: &Office) {
    let peer = Peer::start(&[]);
    let mailer = office.plain_mailer(&peer.plain_url());
    queue_a_hundred(office, &mailer).await;
    let other = model::TenantId(Uuid::from_u128(8));
    let queued = office.store.write("other", async |conn: &mut Conn| {
        mailer.enqueue(conn, other, &mail_to("bob@example.com"), None).await
    });
    queued.await.unwrap();
    let workers = start(&mailer);
    let answers = peer.until(8).await;
    assert!(answers.iter().any(|answer| answer.to == "bob@example.com"), "{answers:?}");
    office.until_left(0).await;
    workers.drain().await;
}
