//! Signing in through the browser: a page of the console asks the member, and brings a code to this machine.
//!
//! The code arrives at a listener on loopback that is open for a few minutes. It is worth nothing without the verifier, which never
//! leaves this process; `state` shows that it belongs to this sign-in.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use url::Url;
use uuid::Uuid;

use crate::environment;
use crate::failure::Failure;
use crate::messages::remark;

/// How long the browser may take to send its request. A connection that sends none keeps no other waiting for longer.
const REQUEST_PATIENCE: Duration = Duration::from_secs(2);
/// The longest first line of a request that is read.
const MAX_LINE: u64 = 8 * 1024;
/// The only path that is answered.
const PATH: &str = "/callback";

/// A sign-in that waits for the browser.
pub(crate) struct BrowserLogin {
    listener: TcpListener,
    address: SocketAddr,
    state: String,
    verifier: String,
    page: Url,
}

/// What the browser brought, and the page that it shows, which still waits for the outcome.
pub(crate) struct Brought {
    pub(crate) code: String,
    pub(crate) verifier: String,
    stream: TcpStream,
}

/// The challenge that a verifier meets.
fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

/// What a request on the listener says.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Code(String),
    Refused(String),
    /// It is no answer to this sign-in.
    None,
}

impl BrowserLogin {
    /// Listens on loopback, on this port or any that is free, for the answer of a page of the service at this URL.
    pub(crate) async fn start(url: &str, machine: &str, port: u16) -> Result<Self, Failure> {
        let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => listener,
            // Some machines have no address of version 4.
            Err(reason) if reason.kind() == std::io::ErrorKind::AddrNotAvailable => {
                let bound = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await;
                bound.map_err(|reason| cannot_listen(port, &reason))?
            }
            Err(reason) => return Err(cannot_listen(port, &reason)),
        };
        let address = listener.local_addr().map_err(Failure::other)?;
        let (state, verifier) = (random(), random());
        let base = format!("{}/console/machine-login", url.trim_end_matches('/'));
        let query = [
            ("redirect_uri", format!("http://{address}{PATH}")),
            ("state", state.clone()),
            ("challenge", challenge(&verifier)),
            ("name", machine.to_owned()),
        ];
        let page = Url::parse_with_params(&base, &query)
            .map_err(|reason| Failure::Usage(format!("--url: {reason}")))?;
        Ok(Self { listener, address, state, verifier, page })
    }

    /// Opens the page, or says where it is.
    pub(crate) fn open(&self, may_open: bool) {
        let page = self.page.as_str();
        let opened = may_open && opener().is_some_and(|program| spawn(&program, page));
        let verb = if opened { "Your browser opens" } else { "Open in a browser on this machine" };
        remark(&format!("{verb} this page, which asks whether this machine gets a key:\n\n  {page}\n"));
        remark(&format!("The page shows the check code {}.", self.check_code()));
        if !opened && environment::is_remote() {
            let port = self.address.port();
            remark(&format!(
                "You are signed in here through SSH. To use the browser of the machine that you sit at, forward the port \
                 to here first: ssh -L {port}:{} HOST. Or sign in with --email.",
                self.address
            ));
        }
    }

    /// What the page shows too, so that the member can tell that the key is for this command: it is the start of the challenge,
    /// which only this process can meet.
    fn check_code(&self) -> String {
        let challenge = challenge(&self.verifier);
        format!("{}-{}", &challenge[..4], &challenge[4..8])
    }

    /// Waits for the member's answer.
    pub(crate) async fn wait(self, patience: Duration) -> Result<Brought, Failure> {
        let Ok(answered) = timeout(patience, self.accept_answer()).await else {
            let limit = patience.as_secs();
            return Err(Failure::other(format!(
                "nobody agreed in the browser within {limit} s, and no key was made: run auspex login again, or sign in with \
                 --email"
            )));
        };
        match answered? {
            (stream, Answer::Code(code)) => Ok(Brought { code, verifier: self.verifier, stream }),
            (mut stream, answer) => {
                respond(&mut stream, "200 OK", REFUSED).await;
                Err(Failure::NotSignedIn(match answer {
                    Answer::Refused(reason) if reason == "not_permitted" => {
                        "only an admin or owner may make the API key that this command stores; have one of them make a \
                         key for you, and set AUSPEX_KEY and AUSPEX_SECRET"
                            .to_owned()
                    }
                    _ => "the sign-in was refused in the browser, and no key was made".to_owned(),
                }))
            }
        }
    }

    /// The first answer to this sign-in. Anything else on this machine may connect too, and is turned away.
    async fn accept_answer(&self) -> Result<(TcpStream, Answer), Failure> {
        loop {
            let (mut stream, _) = self.listener.accept().await.map_err(Failure::other)?;
            let Ok(Some(line)) = timeout(REQUEST_PATIENCE, read_line(&mut stream)).await else { continue };
            match self.parse(&line) {
                Answer::None => respond(&mut stream, "400 Bad Request", STRANGE).await,
                answer => return Ok((stream, answer)),
            }
        }
    }

    fn parse(&self, line: &str) -> Answer {
        let parsed = || {
            let target = line.strip_prefix("GET ")?.split(' ').next()?;
            let url = Url::parse("http://127.0.0.1/").ok()?.join(target).ok()?;
            let find = |name: &str| {
                url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
            };
            if !target.starts_with('/') || url.path() != PATH || find("state")? != self.state {
                return None;
            }
            match (find("code"), find("error")) {
                (Some(code), None) => Some(Answer::Code(code)),
                (None, Some(reason)) => Some(Answer::Refused(reason)),
                _ => None,
            }
        };
        parsed().unwrap_or(Answer::None)
    }
}

impl Brought {
    /// Tells the member in the browser how it ended.
    pub(crate) async fn finish(mut self, has_worked: bool) {
        let text = if has_worked { SIGNED_IN } else { FAILED };
        respond(&mut self.stream, "200 OK", text).await;
    }
}

const SIGNED_IN: &str = "This machine is signed in. You can close this page and go back to the terminal.";
const FAILED: &str = "This machine could not be signed in; the terminal says why. You can close this page.";
const REFUSED: &str = "This machine got no key. You can close this page.";
const STRANGE: &str = "This is not the page that auspex login waits for.";

async fn read_line(stream: &mut TcpStream) -> Option<String> {
    let mut line = String::new();
    let read = BufReader::new(stream).take(MAX_LINE).read_line(&mut line).await;
    read.is_ok_and(|bytes| bytes > 0).then_some(line)
}

/// Answers the browser. If it has gone already, nobody misses it.
async fn respond(stream: &mut TcpStream, status: &str, text: &str) {
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>auspex login</title><p>{text}</p></html>\n"
    );
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\n\
         content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn cannot_listen(port: u16, reason: &std::io::Error) -> Failure {
    let port = if port == 0 { String::new() } else { format!(" on port {port}") };
    Failure::other(format!("cannot listen for the browser{port}: {reason}; sign in with --email instead"))
}

/// 244 random bits as 64 characters.
fn random() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Starts the program that opens a page, without anything of this terminal.
fn spawn(program: &str, page: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
}

/// The program that opens a page, if there is a screen to open it on.
fn opener() -> Option<String> {
    environment::browser().or_else(|| {
        if cfg!(target_os = "macos") {
            Some("open".to_owned())
        } else {
            environment::has_screen().then(|| "xdg-open".to_owned())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_answer_to_this_sign_in_counts() {
        let login = BrowserLogin::start("http://127.0.0.1:1/", "a machine & more", 0).await.unwrap();
        let page = login.page.as_str();
        assert!(
            page.starts_with(
                "http://127.0.0.1:1/console/machine-login?redirect_uri=http%3A%2F%2F127.0.0.1%3A"
            )
        );
        assert!(page.contains("%2Fcallback&") && page.ends_with("&name=a+machine+%26+more"), "{page}");
        assert!(!page.contains(&login.verifier), "the verifier stays here");
        let state = login.state.clone();
        let code = |line: String| login.parse(&line);
        assert_eq!(
            code(format!("GET /callback?code=c&state={state} HTTP/1.1\r\n")),
            Answer::Code("c".to_owned())
        );
        assert_eq!(
            code(format!("GET /callback?error=access_denied&state={state} HTTP/1.1\r\n")),
            Answer::Refused("access_denied".to_owned())
        );
        for strange in [
            format!("POST /callback?code=c&state={state} HTTP/1.1\r\n"),
            format!("GET /?code=c&state={state} HTTP/1.1\r\n"),
            format!("GET /callback/x?code=c&state={state} HTTP/1.1\r\n"),
            format!("GET http://elsewhere.example/callback?code=c&state={state} HTTP/1.1\r\n"),
            format!("GET /callback?code=c&error=e&state={state} HTTP/1.1\r\n"),
            "GET /callback?code=c&state=0 HTTP/1.1\r\n".to_owned(),
            "GET /callback?code=c HTTP/1.1\r\n".to_owned(),
            "nonsense".to_owned(),
        ] {
            assert_eq!(code(strange.clone()), Answer::None, "{strange}");
        }
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let failure = BrowserLogin::start("http://127.0.0.1:1", "x", port).await.err().unwrap();
        assert!(failure.to_string().contains(&format!("on port {port}")), "{failure}");
    }
}
