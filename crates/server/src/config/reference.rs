//! What every setting means: the text of docs/settings.md, whose names and defaults come from the settings themselves.

use std::fmt::Write as _;

use super::{Config, ConfigError, PREFIX};

/// A group of settings: its title, and for each setting its name, its meaning and an example. Where the default depends on other
/// settings, the meaning says so.
type Group = (&'static str, &'static [(&'static str, &'static str, &'static str)]);

const GROUPS: &[Group] = &[
    (
        "The process",
        &[
            (
                "env",
                "`development` or `production`. Production needs a master key and a public URL by https, and has stricter defaults",
                "production",
            ),
            ("listen", "the address that the service listens on", "0.0.0.0:8080"),
            (
                "public_url",
                "the URL under which people and providers reach the service: for links in emails, callbacks and the console's origin; passkeys belong to its domain. By default, the address it listens on",
                "https://signals.example.com",
            ),
            (
                "role",
                "what this process does: `api` serves requests, `worker` runs the workers, `all` does both",
                "worker",
            ),
            ("workers", "the number of concurrent analyses in this process", "64"),
            (
                "trusted_proxies",
                "the address ranges of proxies whose `X-Forwarded-For` is trusted, separated by commas",
                "10.0.0.0/8,127.0.0.1",
            ),
            (
                "connections_per_address",
                "the number of connections of one client address in this process; trusted proxies are exempt",
                "200",
            ),
        ],
    ),
    (
        "Database and secrets",
        &[
            (
                "data_dir",
                "holds the SQLite file, the generated master key, and emails if there is no SMTP server",
                "/var/lib/auspex",
            ),
            (
                "database_url",
                "the database: `sqlite:PATH` or `postgres://…`. By default, `auspex.db` in the data directory",
                "postgres://auspex@db/auspex",
            ),
            (
                "database_read_url",
                "a streaming replica of it, PostgreSQL only. Lists of objects and events, counts, history, timelines, the overview, the ledger and exports come from it, but never without what their caller has just written. See [operations.md](operations.md#reads-from-a-replica)",
                "postgres://auspex@replica/auspex",
            ),
            (
                "master_key",
                "32 bytes in base64 that seal secrets at rest. Needed in production and with PostgreSQL; otherwise one is generated. Make one with `openssl rand -base64 32`",
                "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            ),
            (
                "master_key_previous",
                "the key before it, for `auspex admin rekey`",
                "//79/Pv6+fj39vX08/Lx8O/u7ezr6uno5+bl5OPi4eA=",
            ),
        ],
    ),
    (
        "Analyzer",
        &[
            (
                "analyzer",
                "what answers questions: `embedded`, `systemone`, `openai`, `anthropic`, or `words` (no model: counts words, for benchmarks). See [analyzers.md](analyzers.md)",
                "openai",
            ),
            ("analyzer_url", "the base URL of its server", "http://127.0.0.1:11434/v1"),
            ("analyzer_api_key", "the key that its server wants", "sk-local"),
            ("analyzer_model", "the model that its server is asked for", "qwen2.5:7b"),
            ("analyzer_timeout_ms", "how long an answer may take", "60000"),
            ("debounce_ms", "how long an object must be quiet before it is analyzed", "1000"),
            ("debounce_max_ms", "the longest that an object waits which is never quiet", "10000"),
        ],
    ),
    (
        "Second analyzer",
        &[
            (
                "escalate_analyzer",
                "what answers those that the first analyzer is unsure of, any kind as for `AUSPEX_ANALYZER`; the embedded model only behind another one. See [analyzers.md](analyzers.md#a-second-analyzer)",
                "openai",
            ),
            ("escalate_url", "the base URL of its server", "https://llm.example.com/v1"),
            ("escalate_model", "the model that its server is asked for", "qwen2.5:72b"),
            ("escalate_api_key", "the key that its server wants", "sk-second"),
            ("escalate_timeout_ms", "how long its answer may take", "60000"),
            (
                "escalate_per_day",
                "answers that an account may escalate on a day (UTC); 0 is no limit",
                "1000",
            ),
            (
                "escalate_micros_per_day",
                "what they may cost an account on a day (UTC), in millionths of a US dollar; 0 is no limit",
                "5000000",
            ),
        ],
    ),
    (
        "Prices and billing",
        &[
            ("price_input_per_mtok", "the price of a million tokens read, in US dollars", "0.15"),
            ("price_output_per_mtok", "the price of a million tokens written, in US dollars", "0.60"),
            ("cost_margin", "what prices are multiplied by", "1.2"),
            (
                "prices",
                "prices by model, in the file only: `[prices.\"MODEL\"]` with `input_per_mtok` and `output_per_mtok`",
                "",
            ),
            ("metering", "whether analyses are charged", "false"),
            (
                "enforcement",
                "what happens when a balance is empty: `block` pauses analyses, `grace` lets it go below zero",
                "grace",
            ),
            ("signup_credit_cents", "what a new account starts with", "1000"),
            ("low_balance_cents", "the balance below which owners are mailed", "500"),
            ("topup_min_cents", "the smallest top-up by card", "1000"),
            ("topup_max_cents", "the largest top-up by card", "50000"),
            ("stripe_secret_key", "Stripe's secret key; without it nobody tops up by card", "sk_live_…"),
            ("stripe_webhook_secret", "the secret that Stripe signs its webhooks with", "whsec_…"),
            ("stripe_api_url", "Stripe's API, or a stand-in for tests", "http://127.0.0.1:12111"),
        ],
    ),
    (
        "Limits of an account",
        &[
            ("rate_limit_per_minute", "requests per minute, over all nodes", "600"),
            ("ingest_mib_per_minute", "MiB of events per minute, over all nodes; 0 is no limit", "16"),
            ("storage_quota_mib", "MiB of contents and metadata that are kept; 0 is no limit", "10240"),
            ("sync_limit", "verdicts in flight, over all nodes", "32"),
            (
                "replay_inline",
                "the number of analyses up to which a caller waits for the replay of a rule",
                "50000",
            ),
            (
                "export_max_seconds",
                "the longest that one export takes; it is then broken off, and its client goes on after the last row",
                "600",
            ),
            ("claim_seconds", "how long a claimed review waits for its claimer", "1800"),
        ],
    ),
    (
        "What is kept",
        &[
            (
                "answer_history_days",
                "for how many days the answers of every analysis are kept; 0 keeps none",
                "365",
            ),
            ("audit_days", "for how many days the audit log is kept", "730"),
        ],
    ),
    (
        "Accounts and sign-in",
        &[
            ("allow_registration", "whether anyone may open an account", "false"),
            (
                "registrations_per_hour",
                "accounts that may be opened from one network in an hour; 0 is no limit. 20 in production",
                "5",
            ),
            (
                "confirm_recipients",
                "whether rules write only to recipients who have agreed. By default, where anyone may open an account in production",
                "true",
            ),
            (
                "recent_proof_seconds",
                "how long a session may change how its user signs in, after it showed a password, a code, a passkey or a provider",
                "300",
            ),
            ("google_client_id", "the client id for sign-in with Google", "1234.apps.googleusercontent.com"),
            ("google_client_secret", "the client secret that belongs to it", "GOCSPX-…"),
            (
                "google_issuer",
                "the OpenID Connect issuer to use in place of Google's",
                "https://login.example.com",
            ),
            (
                "oidc_issuer",
                "the issuer of your own for sign-in with OpenID Connect, as the provider `oidc`; its redirect is `{public_url}/console/oauth/oidc`. It must say `email_verified`. Accounts are known by this URL: after a change, members sign in by a reset of their password and link the new one",
                "https://login.example.com",
            ),
            ("oidc_client_id", "the client id that it gave you", "auspex"),
            ("oidc_client_secret", "the client secret that belongs to it", "0123456789abcdef"),
            ("oidc_name", "what the console calls it", "Example login"),
            (
                "oidc_allowed_domains",
                "the domains, separated by commas, whose verified addresses may sign in with it; all if left out",
                "example.com,example.org",
            ),
            (
                "operators",
                "the email addresses, separated by commas, of those who see the health and the accounts of the install, once they have proved that address",
                "ops@example.com",
            ),
            ("github_client_id", "the client id for sign-in with GitHub", "Iv1.0123456789abcdef"),
            ("github_client_secret", "the client secret that belongs to it", "0123456789abcdef"),
            ("github_url", "GitHub, or a GitHub Enterprise server", "https://github.example.com"),
            ("github_api_url", "the API that belongs to it", "https://github.example.com/api/v3"),
        ],
    ),
    (
        "Mail and webhooks",
        &[
            (
                "smtp_url",
                "the SMTP server; without one, emails are written to files",
                "smtps://user:password@mail.example.com",
            ),
            ("mail_from", "the sender of emails", "Auspex <auspex@example.com>"),
            (
                "webhook_retry_base_ms",
                "the delay before the first retry of a delivery, which grows with each",
                "10000",
            ),
            ("webhook_max_attempts", "how often a delivery is tried", "10"),
            ("webhook_timeout_ms", "how long a receiver may take", "5000"),
            ("webhook_max_age_hours", "how long a delivery may be pending", "24"),
            (
                "allow_private_targets",
                "whether webhooks may go to private addresses. False in production",
                "true",
            ),
        ],
    ),
    (
        "Monitoring",
        &[
            ("log", "which log lines are written: a level, or levels by module", "warn,auspex_server=info"),
            ("log_format", "`text` for people or `json` for machines", "json"),
            ("metrics", "whether `/metrics` is served. In production only with a token", "false"),
            ("metrics_token", "the token that a scraper must present", "0123456789abcdef"),
            ("otlp_endpoint", "the collector that traces are sent to", "http://127.0.0.1:4318"),
        ],
    ),
];

const INTRODUCTION: &str = "# Settings

<!-- Written by `auspex config --reference`; a test compares. Change crates/server/src/config/reference.rs. -->

Every setting is an environment variable. All of them can also stand in a TOML file that `AUSPEX_CONFIG` names, in lower case and
without the prefix; a variable wins over the file, and an empty variable counts as not set. An unknown name in the file prevents the
start; an unknown variable `AUSPEX_…` is warned of. `auspex config` prints the effective values and where each comes from.

```toml
# AUSPEX_CONFIG=/etc/auspex/auspex.toml
env = \"production\"
public_url = \"https://signals.example.com\"
workers = 32
allow_registration = false
trusted_proxies = [\"10.0.0.0/8\", \"127.0.0.1\"]

[prices.\"gpt-4o-mini\"]
input_per_mtok = 0.15
output_per_mtok = 0.60
```

Numbers and booleans may be written as such or as text; a list is the same as a text with commas. Tables such as `[prices.\"MODEL\"]`
exist in the file only, and come last in it. Keep the file readable by its owner alone if it holds secrets.

The commands of an account read `AUSPEX_URL`, `AUSPEX_KEY`, `AUSPEX_SECRET` and `AUSPEX_PROFILE`
([command-line.md](command-line.md)), which are no settings of the service.
";

/// The reference of all settings in Markdown.
pub fn reference() -> Result<String, ConfigError> {
    let defaults = Config::from_environment(std::iter::empty())?.effective;
    let mut text = INTRODUCTION.to_owned();
    for (title, settings) in GROUPS {
        let _ = write!(
            text,
            "\n## {title}\n\n| setting | meaning | default | example |\n| --- | --- | --- | --- |\n"
        );
        for (name, meaning, example) in *settings {
            let default =
                defaults.iter().find(|setting| setting.name == *name).map_or("", |setting| &setting.shown);
            let code = |value: &str| if value.is_empty() { "–".to_owned() } else { format!("`{value}`") };
            let variable = format!("{PREFIX}{}", name.to_ascii_uppercase());
            let _ = writeln!(text, "| `{variable}` | {meaning} | {} | {} |", code(default), code(example));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_setting_is_explained_once() {
        let names: Vec<&str> =
            GROUPS.iter().flat_map(|(_, settings)| *settings).map(|(name, ..)| *name).collect();
        let explained: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), explained.len(), "a setting is explained twice");
        let effective = Config::from_environment(std::iter::empty()).unwrap().effective;
        let existing: BTreeSet<&str> = effective.iter().map(|setting| setting.name).collect();
        assert_eq!(explained, existing);
    }

    #[test]
    fn every_example_is_valid() {
        let examples =
            GROUPS.iter().flat_map(|(_, settings)| *settings).filter(|(.., example)| !example.is_empty());
        let variables = examples.map(|(name, _, example)| {
            (format!("{PREFIX}{}", name.to_ascii_uppercase()), (*example).to_owned())
        });
        let config = Config::from_environment(variables).unwrap();
        assert_eq!(config.warnings, Vec::<String>::new());
    }

    #[test]
    fn the_toml_of_the_introduction_is_valid() {
        let (_, rest) = INTRODUCTION.split_once("```toml\n").unwrap();
        let (example, _) = rest.split_once("```").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("auspex.toml");
        std::fs::write(&file, example).unwrap();
        let variables = [
            ("AUSPEX_CONFIG".to_owned(), file.display().to_string()),
            ("AUSPEX_MASTER_KEY".to_owned(), "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".to_owned()),
        ];
        let config = Config::from_environment(variables.into_iter()).unwrap();
        assert_eq!(
            (config.workers, config.trusted_proxies.0.len(), config.prices.by_model.0.len()),
            (32, 2, 1)
        );
    }

    #[test]
    fn the_page_is_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            page == reference().unwrap(),
            "docs/settings.md is not what the code says; write it with: auspex config --reference > docs/settings.md"
        );
    }
}
