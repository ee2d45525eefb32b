//! `auspex keys`: API keys.

use clap::Subcommand;
use client::Method;
use serde_json::{Map, Value, json};

use crate::cells;
use crate::context::{Common, Context, delete, get, post, send};
use crate::failure::Failure;
use crate::output::View;
use crate::prompt;
use crate::table::{Table, left, whole};

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// List the keys that are not revoked.
    #[command(after_help = "Examples:
  auspex keys list")]
    List,
    /// Create a key. Its secret is shown once.
    #[command(after_help = "Examples:
  auspex keys create --name ingest --scopes ingest,read
  auspex keys create --name assistant --kind bearer --scopes mcp --json")]
    Create {
        /// A name of your choice.
        #[arg(long)]
        name: Option<String>,
        /// signed (each request is signed with the secret) or bearer (the secret is sent, to a few routes).
        #[arg(long, value_parser = ["signed", "bearer"])]
        kind: Option<String>,
        /// What it may do: ingest, read, write, label, moderate, mcp; everything if left out.
        #[arg(long, value_delimiter = ',', value_name = "SCOPE,…")]
        scopes: Option<Vec<String>>,
    },
    /// Rename a key.
    #[command(after_help = "Examples:
  auspex keys rename \"$KEY_ID\" 'night shift'")]
    Rename {
        /// The key's id.
        id: String,
        /// The new name.
        name: String,
    },
    /// Accept a key again.
    #[command(after_help = "Examples:
  auspex keys activate \"$KEY_ID\"")]
    Activate {
        /// The key's id.
        id: String,
    },
    /// Refuse a key until it is activated.
    #[command(after_help = "Examples:
  auspex keys deactivate \"$KEY_ID\"")]
    Deactivate {
        /// The key's id.
        id: String,
    },
    /// Give a key a new secret; the old one stops working at once.
    #[command(after_help = "Examples:
  auspex keys rotate \"$KEY_ID\" --yes")]
    Rotate {
        /// The key's id.
        id: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Revoke a key for good.
    #[command(after_help = "Examples:
  auspex keys revoke \"$KEY_ID\" --yes")]
    Revoke {
        /// The key's id.
        id: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
}

impl Command {
    pub(crate) async fn run(&self, common: &Common) -> Result<(), Failure> {
        let context = Context::new(common)?;
        match self {
            Self::List => context.show(get(&["v1", "api_keys"])?, keys_view).await,
            Self::Create { name, kind, scopes } => {
                let given = [("name", json!(name)), ("kind", json!(kind)), ("scopes", json!(scopes))];
                let given = given.into_iter().filter(|(_, value)| !value.is_null());
                let body: Map<String, Value> = given.map(|(name, value)| (name.to_owned(), value)).collect();
                context.show(send(Method::POST, &["v1", "api_keys"], &body)?, secret_view).await
            }
            Self::Rename { id, name } => change(&context, id, json!({"name": name})).await,
            Self::Activate { id } => change(&context, id, json!({"status": "active"})).await,
            Self::Deactivate { id } => change(&context, id, json!({"status": "inactive"})).await,
            Self::Rotate { id, yes } => {
                prompt::confirm("Give the key a new secret? The old one stops working at once.", *yes)?;
                context.show(post(&["v1", "api_keys", id, "rotate"])?, secret_view).await
            }
            Self::Revoke { id, yes } => {
                prompt::confirm("Revoke the key for good?", *yes)?;
                context.done(delete(&["v1", "api_keys", id])?, "The key is revoked.").await
            }
        }
    }
}

async fn change(context: &Context, id: &str, change: Value) -> Result<(), Failure> {
    let show = |key: &Value| {
        View::new().fields([
            ("id", cells::id(&key["id"])),
            ("key", cells::value(&key["key"])),
            ("name", cells::value(&key["name"])),
            ("status", cells::status(&key["status"])),
        ])
    };
    context.show(send(Method::PATCH, &["v1", "api_keys", id], &change)?, show).await
}

fn keys_view(list: &Value) -> View {
    let keys = list["api_keys"].as_array().cloned().unwrap_or_default();
    let columns = [whole("ID"), left("NAME"), left("STATUS"), left("SCOPES"), left("USED"), left("KEY")];
    View::new().table(Table::of(columns, &keys, |key| {
        let scopes = if key["scopes"].is_array() { cells::value(&key["scopes"]) } else { cells::text("all") };
        [
            cells::id(&key["id"]),
            cells::value(&key["name"]),
            cells::status(&key["status"]),
            scopes,
            cells::time(&key["last_used_at"]),
            cells::value(&key["key"]),
        ]
    }))
}

fn secret_view(made: &Value) -> View {
    View::new().fields([
        ("id", cells::id(&made["api_key"]["id"])),
        ("key", cells::value(&made["key"])),
        ("secret", cells::value(&made["secret"])),
        ("note", cells::value(&made["note"])),
    ])
}
