//! Signing in through the browser: the command opens a page, a member agrees or not, and the browser brings the answer.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::thread::JoinHandle;

use client::{Call, Client, Method};
use serde_json::{Value, json};
use url::Url;

use crate::world::{Person, Ran, World, eventually};

testkit::on_both!(
    a_member_agrees_in_the_browser,
    a_refusal_in_the_browser_makes_no_key,
    nobody_waits_forever_for_a_browser,
);

/// A `login` that runs in a terminal, and the page that it opened.
struct Login {
    person: Arc<Person>,
    page: Url,
    running: JoinHandle<Ran>,
}

/// Starts `auspex login` with an opener that only notes which page it is to open.
async fn start(mut person: Person) -> Login {
    let opener = person.home.path().join("opener");
    let opened = person.home.path().join("opened");
    std::fs::write(&opener, format!("#!/bin/sh\nprintf '%s' \"$1\" > '{}'\n", opened.display())).unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    person.variables.push(("BROWSER".to_owned(), opener.display().to_string()));
    let person = Arc::new(person);
    let running = std::thread::spawn({
        let person = Arc::clone(&person);
        move || person.in_terminal(80, &["login"], "")
    });
    let page = eventually("the page is opened", async || {
        let page = std::fs::read_to_string(&opened).ok()?;
        page.contains("&name=auspex+on").then(|| Url::parse(&page).unwrap())
    });
    Login { page: page.await, person, running }
}

impl Login {
    fn parameter(&self, name: &str) -> String {
        self.page.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned()
    }

    /// What the page does when the member agrees: it gets a code.
    async fn agree(&self, session: &Client) -> String {
        let call = Call::new(Method::POST, &["v1", "me", "machine_login"]).unwrap();
        let body = json!({"name": self.parameter("name"), "challenge": self.parameter("challenge")});
        let made: Value = session.request(call.json(&body).unwrap()).await.unwrap().parse().unwrap();
        made["code"].as_str().unwrap().to_owned()
    }

    /// What the browser does then: it goes to the machine. The status and the text that it sees.
    async fn bring(&self, answer: (&'static str, &str), state: &str) -> (u16, String) {
        let redirect = self.parameter("redirect_uri");
        assert!(redirect.starts_with("http://127.0.0.1:") && redirect.ends_with("/callback"), "{redirect}");
        let browser = Client::builder(redirect.trim_end_matches("/callback")).max_retries(0).build().unwrap();
        let call = Call::new(Method::GET, &["callback"]).unwrap();
        match browser.request(call.query(answer.0, Some(answer.1)).query("state", Some(state))).await {
            Ok(seen) => (seen.status.as_u16(), String::from_utf8(seen.body).unwrap()),
            Err(error) => (error.status().unwrap_or(0), error.to_string()),
        }
    }
}

async fn a_member_agrees_in_the_browser(world: &World) {
    let (person, session) = world.owner().await;
    let login = start(person).await;
    assert!(
        login.page.as_str().starts_with(&format!("{}/console/machine-login?", world.url)),
        "{}",
        login.page
    );
    let code = login.agree(&session).await;
    assert_eq!(session.keys().await.unwrap().len(), 0, "no key before the machine asks for it");
    assert_eq!(login.bring(("code", &code), "another").await.0, 400, "it belongs to another sign-in");
    let (status, seen) = login.bring(("code", &code), &login.parameter("state")).await;
    assert!(status == 200 && seen.contains("This machine is signed in"), "{status} {seen}");
    let Login { person, running, .. } = login;
    let ran = running.join().unwrap();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("Signed in to Acme") && ran.out.contains("check code"), "{ran:?}");
    assert!(!ran.out.contains("sk_"), "{ran:?}");
    let mode = std::fs::metadata(person.credentials()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(person.json(&["whoami"])["tenant_name"], "Acme");
    let keys = session.keys().await.unwrap();
    assert_eq!(keys.len(), 1);
    assert!(keys[0].name.starts_with("auspex on "), "{keys:?}");
    assert!(person.says(&["logout"]).contains("its key is revoked"));
}

async fn a_refusal_in_the_browser_makes_no_key(world: &World) {
    for (error, said) in [("access_denied", "refused in the browser"), ("not_permitted", "admin or owner")] {
        let (person, session) = world.owner().await;
        let login = start(person).await;
        let (status, seen) = login.bring(("error", error), &login.parameter("state")).await;
        assert!(status == 200 && seen.contains("got no key"), "{status} {seen}");
        let ran = login.running.join().unwrap();
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(ran.out.contains(said), "{ran:?}");
        assert_eq!(session.keys().await.unwrap().len(), 0);
        assert!(!login.person.credentials().exists());
    }
    // A code that somebody made up is refused by the service, and the browser says so too.
    let (person, session) = world.owner().await;
    let login = start(person).await;
    let (_, seen) = login.bring(("code", "made-up"), &login.parameter("state")).await;
    assert!(seen.contains("could not be signed in"), "{seen}");
    let ran = login.running.join().unwrap();
    assert_eq!(ran.code, 5, "{ran:?}");
    assert_eq!(session.keys().await.unwrap().len(), 0);
}

async fn nobody_waits_forever_for_a_browser(world: &World) {
    let mut person = world.stranger();
    let opener = person.home.path().join("no-such-program").display().to_string();
    person.variables.push(("BROWSER".to_owned(), opener));
    person.variables.push(("SSH_CONNECTION".to_owned(), "192.0.2.1 1 192.0.2.2 22".to_owned()));
    let ran = person.in_terminal(80, &["login", "--wait", "1s"], "");
    assert_eq!(ran.code, 1, "{ran:?}");
    for part in ["Open in a browser", "/console/machine-login?", "ssh -L ", "nobody agreed", "--email"] {
        assert!(ran.out.contains(part), "{part}: {ran:?}");
    }
    "http://127.0.0.1:9".clone_into(&mut person.url);
    let ran = person.in_terminal(80, &["login"], "");
    assert_eq!(ran.code, 7, "{ran:?}");
    assert!(!ran.out.contains("machine-login"), "no page of a service that is not there: {ran:?}");
}
