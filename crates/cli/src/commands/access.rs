//! `auspex login`, `signup`, `logout`, `whoami`, `status`: credentials of this machine, and what they lead to.

use clap::Args;
use client::api::{APIKeySecret, LoginRequest, MachineLoginRedeem, Me, RegisterRequest};
use client::{Call, Client, Error, Method, Refusal};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::browser::BrowserLogin;
use crate::cells;
use crate::context::{self, Common, Context, get};
use crate::data::Fields;
use crate::failure::Failure;
use crate::messages::remark;
use crate::output::View;
use crate::profiles::{Profile, Profiles};
use crate::prompt;
use crate::table::{Table, left, right};
use crate::waiting::Patience;

/// Signs in through the browser, or with a password.
#[derive(Args)]
#[command(
    after_help = "On a terminal, the browser opens a page of the console, which asks whether this machine gets a key. With --email, a password
is asked for or read instead; without a terminal, that is the only way.
The key is stored in the user's configuration folder, where only the user can read it; a password is not stored.
Only an admin or owner may make a key: others set AUSPEX_KEY and AUSPEX_SECRET of one that was made for them.

Examples:
  echo \"$PASSWORD\" | auspex login --email \"$EMAIL\" --password-stdin"
)]
pub struct Login {
    #[command(flatten)]
    who: Who,
    /// Print the address of the page instead of opening it.
    #[arg(long, conflicts_with = "email")]
    no_browser: bool,
    /// The port of this machine that the browser comes back to; by default any that is free.
    #[arg(
        long,
        value_name = "PORT",
        default_value = "0",
        hide_default_value = true,
        conflicts_with = "email"
    )]
    port: u16,
    /// How long to wait for the browser: 30s, 5m.
    #[arg(long, value_name = "TIME", default_value = "5m", conflicts_with = "email")]
    wait: Patience,
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
        // A script must not wait for somebody who is not there.
        if self.who.email.is_none()
            && !self.who.password_stdin
            && self.code.is_none()
            && prompt::is_interactive()
        {
            return self.by_browser(common, &url, &nobody).await;
        }
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

impl Login {
    /// Lets the browser ask the member, and redeems the code that it brings.
    async fn by_browser(&self, common: &Common, url: &str, nobody: &Client) -> Result<(), Failure> {
        // Before anybody is asked anything: whether there is a service, and a file to store the key in.
        nobody.request(get(&["auth", "console", "state"])?).await?;
        Profiles::read()?;
        let login = BrowserLogin::start(url, &machine_name(), self.port).await?;
        login.open(!self.no_browser);
        let brought = login.wait(self.wait.0).await?;
        let redeem = MachineLoginRedeem { code: brought.code.clone(), verifier: brought.verifier.clone() };
        let outcome = async {
            // Read only now: another command may have changed it meanwhile.
            let mut profiles = Profiles::read()?;
            // Not repeated: a code works once, and a repeat would hide why.
            let once = context::build(Client::builder(url).max_retries(0))?;
            let made = match once.redeem_machine_login(&redeem).await {
                Err(error @ (Error::Transport(_) | Error::Unreadable { .. } | Error::GivenUp(_))) => {
                    let name = machine_name();
                    remark(&format!(
                        "A key named {name} may have been made all the same: revoke it under Keys."
                    ));
                    return Err(error.into());
                }
                made => made?,
            };
            let key = context::build(Client::builder(url).key(&made.key, &made.secret))?;
            put_key(common, url, &mut profiles, &made, &key).await?;
            // The key is stored: that its account cannot be named is no failure.
            Ok::<_, Failure>(key.me().await.ok().map(|me| me.tenant_name))
        };
        let outcome = outcome.await;
        brought.finish(outcome.is_ok()).await;
        let tenant = outcome?.map_or_else(String::new, |tenant| format!(" to {tenant}"));
        let name = common.connection.profile_name();
        common.output().done(&format!("Signed in{tenant} at {url} (profile {name})."))
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
    let made = person.create_key(Some(&machine_name())).await.map_err(|error| name_role(error, &me))?;
    put_key(common, url, &mut profiles, &made, person).await?;
    Ok(me)
}

/// What the key of this machine is called.
fn machine_name() -> String {
    let machine = rustix::system::uname();
    // As long as the service takes, and without what it refuses.
    let name = format!("auspex on {}", machine.nodename().to_string_lossy());
    name.chars().filter(|character| !character.is_control()).take(100).collect()
}

/// Stores a key in place of the profile's previous one, which is revoked. One that cannot be stored is revoked by `maker`.
async fn put_key(
    common: &Common,
    url: &str,
    profiles: &mut Profiles,
    made: &APIKeySecret,
    maker: &Client,
) -> Result<(), Failure> {
    let name = common.connection.profile_name();
    let previous = profiles.get(name).cloned();
    let profile = Profile {
        url: url.to_owned(),
        key: made.key.clone(),
        secret: made.secret.clone(),
        key_id: Some(made.api_key.id.to_string()),
    };
    if let Err(failure) = profiles.put(name, profile) {
        if let Err(error) = maker.revoke_key(made.api_key.id).await {
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
    Ok(())
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
