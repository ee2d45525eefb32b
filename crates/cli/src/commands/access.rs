//! `auspex login`, `signup`, `logout`, `whoami`, `status`: credentials of this machine, and what they lead to.

use clap::Args;
use client::api::{LoginRequest, Me, RegisterRequest};
use client::{Call, Client, Error, Method, Refusal};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cells;
use crate::context::{self, Common, Context, get};
use crate::data::Fields;
use crate::failure::Failure;
use crate::output::{View, remark};
use crate::profiles::{Profile, Profiles};
use crate::prompt;
use crate::table::{Table, left, right};

/// Signs in with a password.
#[derive(Args)]
#[command(
    after_help = "A key for this machine is made and stored in the user's configuration folder; the password is not.
Only an admin or owner may make a key: others set AUSPEX_KEY and AUSPEX_SECRET of one that was made for them.
On a terminal, email and password are asked for.

Examples:
  echo \"$PASSWORD\" | auspex login --email \"$EMAIL\" --password-stdin"
)]
pub struct Login {
    #[command(flatten)]
    who: Who,
    /// The code of two-factor sign-in.
    #[arg(long)]
    code: Option<String>,
}

/// Opens an account.
#[derive(Args)]
#[command(after_help = "Examples:
  echo \"$PASSWORD\" | auspex signup --name Acme --email \"new-$EMAIL\" --password-stdin")]
pub struct Signup {
    /// The name of the account.
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    who: Who,
}

/// Who signs in.
#[derive(Args)]
struct Who {
    /// The email address; asked for on a terminal.
    #[arg(long)]
    email: Option<String>,
    /// Read the password from standard input instead of asking for it.
    #[arg(long)]
    password_stdin: bool,
}

/// Revokes and forgets the key.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex logout")]
pub struct Logout {}

/// Shows whose credentials are used.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex whoami
  auspex whoami --json")]
pub struct Whoami {}

/// Shows how things are.
#[derive(Args)]
#[command(after_help = "Examples:
  auspex status")]
pub struct Status {}

impl Who {
    /// The email and the password, asked for where they are missing.
    fn ask(&self) -> Result<(String, String), Failure> {
        let needed = |what: &str| Failure::Usage(format!("{what} is needed: there is no terminal to ask at"));
        let email = match &self.email {
            Some(email) => email.clone(),
            None if prompt::is_interactive() && !self.password_stdin => prompt::ask("Email:")?,
            None => return Err(needed("--email")),
        };
        let password = if self.password_stdin {
            prompt::read_secret()?
        } else if prompt::is_interactive() {
            prompt::ask_secret("Password:")?
        } else {
            return Err(needed("--password-stdin"));
        };
        Ok((email, password))
    }
}

impl Login {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let url = common.connection.url_or_default(&Profiles::read()?);
        let nobody = context::build(Client::builder(&url))?;
        let (email, password) = self.who.ask()?;
        let mut request = LoginRequest { email, password, code: self.code.clone(), passkey: None };
        let token = match nobody.log_in(&request).await {
            Err(error) if error.code() == Some("mfa_required") && prompt::is_interactive() => {
                request.code = Some(prompt::ask("Two-factor code:")?);
                nobody.log_in(&request).await?
            }
            // Who is asked to sign in while signing in learns nothing.
            Err(Error::Refused(refusal)) if refusal.status == 401 => {
                return Err(Failure::NotSignedIn(refusal.to_string()));
            }
            outcome => outcome?,
        };
        store_key(common, &url, &token.token).await
    }
}

impl Signup {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let url = common.connection.url_or_default(&Profiles::read()?);
        let nobody = context::build(Client::builder(&url))?;
        let tenant_name = match &self.name {
            Some(name) => name.clone(),
            None if prompt::is_interactive() => prompt::ask("Name of the account:")?,
            None => {
                return Err(Failure::Usage("--name is needed: there is no terminal to ask at".to_owned()));
            }
        };
        let (email, password) = self.who.ask()?;
        let token = nobody.register(&RegisterRequest { tenant_name, email, password }).await?;
        store_key(common, &url, &token.token).await
    }
}

/// Makes a key for this machine, stores it in place of the profile's previous one, and ends the session that made it, also
/// where no key was made or stored.
async fn store_key(common: &Common, url: &str, token: &str) -> Result<(), Failure> {
    let person = context::build(Client::builder(url).token(token))?;
    let outcome = replace_key(common, url, &person).await;
    if let Err(error) = person.log_out().await {
        remark(&format!("the session of this sign-in goes on until it expires: {error}"));
    }
    let me = outcome?;
    let (tenant, email) = (&me.tenant_name, me.email.unwrap_or_default());
    let name = common.connection.profile_name();
    common.output().done(&format!("Signed in to {tenant} at {url} as {email} (profile {name})."))
}

/// Makes a key and stores it in place of the profile's previous one, which is revoked; returns who made it.
async fn replace_key(common: &Common, url: &str, person: &Client) -> Result<Me, Failure> {
    let mut profiles = Profiles::read()?;
    let me = person.me().await?;
    let machine = rustix::system::uname();
    let name = format!("auspex on {}", machine.nodename().to_string_lossy());
    let made = person.create_key(Some(&name)).await.map_err(|error| name_role(error, &me))?;
    let name = common.connection.profile_name();
    let previous = profiles.get(name).cloned();
    let profile = Profile {
        url: url.to_owned(),
        key: made.key.clone(),
        secret: made.secret.clone(),
        key_id: Some(made.api_key.id.to_string()),
    };
    if let Err(failure) = profiles.put(name, profile) {
        if let Err(error) = person.revoke_key(made.api_key.id).await {
            remark(&format!(
                "the key {} was made and not stored; revoke it in the console: {error}",
                made.key
            ));
        }
        return Err(failure);
    }
    if let Some(previous) = previous
        && let Err(failure) = revoke(&previous).await
    {
        remark(&format!("the previous key {} of this profile could not be revoked: {failure}", previous.key));
    }
    Ok(me)
}

/// Says who may make keys, and what others do, where the service refused one because of the person's role.
fn name_role(error: Error, me: &Me) -> Failure {
    let Some(role) = me.member_role else { return error.into() };
    let role = match role.as_str() {
        "viewer" => "a viewer",
        "analyst" => "an analyst",
        _ => return error.into(),
    };
    match error {
        Error::Refused(refusal) if refusal.status == 403 => {
            let message = format!(
                "only an admin or owner may make the API key that this command stores, and you are {role} of {}; \
                 have one of them make a key for you, and set AUSPEX_KEY and AUSPEX_SECRET",
                me.tenant_name
            );
            Error::Refused(Refusal { message, ..refusal }).into()
        }
        other => other.into(),
    }
}

/// Revokes the key of a profile; one that is refused is revoked already.
async fn revoke(profile: &Profile) -> Result<(), Failure> {
    let client = context::build(Client::builder(&profile.url).key(&profile.key, &profile.secret))?;
    let id = match &profile.key_id {
        Some(id) => id.clone(),
        None => return Ok(()),
    };
    match client.request(Call::new(Method::DELETE, &["v1", "api_keys", &id])?).await {
        Err(error) if matches!(error.status(), Some(401 | 404)) => Ok(()),
        outcome => outcome.map(|_| ()).map_err(Into::into),
    }
}

impl Logout {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let mut profiles = Profiles::read()?;
        let name = common.connection.profile_name();
        let Some(profile) = profiles.get(name).cloned() else {
            return Err(Failure::NotSignedIn(format!("there is no profile {name:?}")));
        };
        profiles.remove(name)?;
        let revoked = revoke(&profile).await;
        if revoked.is_err() {
            remark(&format!(
                "the profile is gone, but its key {} still works: revoke it in the console",
                profile.key
            ));
        }
        revoked?;
        common.output().done(&format!("Signed out of {} (profile {name}); its key is revoked.", profile.url))
    }
}

impl Whoami {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let context = Context::new(common)?;
        let url = context.client.base_url().to_owned();
        let show = |me: &Value| {
            View::new().fields([
                ("account", cells::value(&me["tenant_name"])),
                ("account id", cells::id(&me["tenant_id"])),
                ("service", cells::text(&url)),
                ("key", cells::text(context.client.key_id().unwrap_or("none"))),
            ])
        };
        context.show(get(&["v1", "me"])?, show).await
    }
}

impl Status {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let context = Context::new(common)?;
        let (_, ready) = context.fetch(get(&["readyz"])?).await?;
        let (me, account) = context.fetch(get(&["v1", "me"])?).await?;
        let (overview, counts) = context.fetch(get(&["v1", "overview"])?).await?;
        let (balance, money) = context.fetch(get(&["v1", "billing"])?).await?;
        if context.output.json {
            let mut document = Fields::default();
            document.set("url", context.client.base_url())?;
            document.set("ready", &ready["status"])?;
            for (name, response) in [("me", me), ("overview", overview), ("billing", balance)] {
                document.set(name, &response.parse::<Box<RawValue>>()?)?;
            }
            return context.output.document(&serde_json::to_vec(&document).map_err(Failure::other)?);
        }
        let view = View::new().fields([
            (
                "service",
                cells::text(format!(
                    "{} is {}",
                    context.client.base_url(),
                    ready["status"].as_str().unwrap_or("up")
                )),
            ),
            ("account", cells::value(&account["tenant_name"])),
            ("balance", cells::cents(&money["balance_cents"])),
            ("objects", cells::value(&counts["objects"])),
            (
                "analyzed",
                cells::text(format!("{:.0} %", counts["analyzed_pct"].as_f64().unwrap_or(0.0) * 100.0)),
            ),
            ("events today", cells::value(&counts["events_today"])),
            ("flagged", cells::value(&counts["flagged"])),
        ]);
        let summaries = counts["signal_summary"].as_array().cloned().unwrap_or_default();
        let table = Table::of(
            [left("SIGNAL"), left("TYPE"), right("ANSWERS"), right("MEAN"), right("HIGH")],
            &summaries,
            |signal| {
                [
                    cells::value(&signal["key"]),
                    cells::value(&signal["type"]),
                    cells::value(&signal["total"]),
                    cells::decimal(&signal["avg"], 2),
                    cells::value(&signal["high"]),
                ]
            },
        );
        context.output.view(if summaries.is_empty() { view } else { view.title("Signals").table(table) })
    }
}
