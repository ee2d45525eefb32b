//! Exports against a server that breaks off: every row comes once, and an end that is none is noticed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use auspex_client::api::{ExportFormat, ExportKind};
use auspex_client::{Client, Error, ExportQuery};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// What the server does with a connection: sends some of a response and hangs up, or sends all of it.
#[derive(Clone, Copy)]
enum Turn {
    BreakOff(&'static str),
    Finish(&'static str),
    HangUp,
}

/// A server with a turn for each connection, and the targets that were asked for.
struct Broken {
    base: String,
    targets: Arc<Mutex<Vec<String>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Broken {
    async fn start(turns: impl IntoIterator<Item = Turn>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let targets: Arc<Mutex<Vec<String>>> = Arc::default();
        let (turns, seen): (Vec<Turn>, _) = (turns.into_iter().collect(), Arc::clone(&targets));
        #[expect(clippy::disallowed_methods, reason = "it ends with the handle")]
        let serving = tokio::spawn(async move {
            for turn in turns {
                let (stream, _) = listener.accept().await.unwrap();
                let target = serve(stream, turn).await;
                seen.lock().unwrap().push(target);
            }
        });
        Self { base, targets, _serving: AbortOnDropHandle::new(serving) }
    }

    fn client(&self) -> Client {
        let builder = Client::builder(&self.base).key("ak_1", "sk_1").max_retries(3);
        builder.backoff(Duration::from_millis(1)).build().unwrap()
    }
}

/// Reads a request's head and answers in chunks; returns its target.
async fn serve(mut stream: TcpStream, turn: Turn) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let target = String::from_utf8(head).unwrap().split(' ').nth(1).unwrap().to_owned();
    let (body, end) = match turn {
        Turn::BreakOff(body) => (body, ""),
        Turn::Finish(body) => (body, "0\r\n\r\n"),
        Turn::HangUp => return target,
    };
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = if body.is_empty() { String::new() } else { format!("{:x}\r\n{body}\r\n", body.len()) };
    stream.write_all(format!("{head}{chunk}{end}").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    target
}

fn query(format: ExportFormat) -> ExportQuery {
    ExportQuery { format, from: Some("2026-01-01".to_owned()), ..ExportQuery::new(ExportKind::Labels) }
}

/// Everything that comes, the number of rows, and how it ended.
async fn export(server: &Broken, format: ExportFormat) -> (String, u64, Result<(), Error>) {
    let (mut text, mut export) = (String::new(), server.client().export(query(format)));
    loop {
        match export.next().await {
            Ok(Some(rows)) => text.push_str(std::str::from_utf8(&rows).unwrap()),
            Ok(None) => return (text, export.rows(), Ok(())),
            Err(error) => return (text, export.rows(), Err(error)),
        }
    }
}

#[tokio::test]
async fn a_broken_export_goes_on_after_the_last_whole_row() {
    let server = Broken::start([
        Turn::BreakOff("{\"n\":1,\"cursor\":\"a\"}\n{\"n\":2,\"cursor\":\"b\"}\n{\"n\":3,\"cur"),
        Turn::HangUp,
        Turn::BreakOff(""),
        Turn::BreakOff("{\"n\":3,\"cursor\":\"c\"}\n"),
        Turn::Finish("{\"n\":4,\"cursor\":\"d\"}\n"),
    ])
    .await;
    let (text, rows, ended) = export(&server, ExportFormat::Ndjson).await;
    ended.unwrap();
    let numbers: Vec<&str> = text.lines().map(|line| &line[5..6]).collect();
    assert_eq!((numbers, rows), (vec!["1", "2", "3", "4"], 4));
    let targets = server.targets.lock().unwrap();
    let asked = "/v1/export?what=labels&format=ndjson&from=2026-01-01";
    assert_eq!(targets[0], asked);
    assert_eq!(targets[1..], ["b", "b", "b", "c"].map(|cursor| format!("{asked}&cursor={cursor}")));
}

#[tokio::test]
async fn csv_has_one_header_however_often_it_is_broken() {
    let server = Broken::start([
        Turn::BreakOff("value,cursor\r\n\"tr"),
        Turn::BreakOff("value,cursor\r\n\"two\nlines\",a\r\n\"x"),
        Turn::Finish("no,b\r\n"),
    ])
    .await;
    let (text, rows, ended) = export(&server, ExportFormat::Csv).await;
    ended.unwrap();
    assert_eq!((text.as_str(), rows), ("value,cursor\r\n\"two\nlines\",a\r\nno,b\r\n", 2));
}

#[tokio::test]
async fn an_export_that_cannot_go_on_is_an_error_and_no_end() {
    let server =
        Broken::start([Turn::BreakOff("{\"cursor\":\"a\"}\n"), Turn::HangUp, Turn::HangUp, Turn::HangUp])
            .await;
    let (text, rows, ended) = export(&server, ExportFormat::Ndjson).await;
    assert_eq!((text.lines().count(), rows), (1, 1));
    assert!(matches!(ended, Err(Error::Transport(_))), "{ended:?}");
    let server = Broken::start([Turn::Finish("{\"cursor\":\"a\"}\n{\"cur")]).await;
    let (_, _, ended) = export(&server, ExportFormat::Ndjson).await;
    assert!(matches!(ended, Err(Error::Unreadable { .. })), "a clean end in the middle of a row: {ended:?}");
}
