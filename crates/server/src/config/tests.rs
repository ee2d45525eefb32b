//! The configuration, as read from the environment and the file.

use std::io::Write as _;

use super::*;

fn with(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::from_environment(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

fn with_file(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    with(&[&[("AUSPEX_CONFIG", path)], variables].concat())
}

fn refusal(result: Result<Config, ConfigError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn nothing_set_is_a_working_development_configuration() {
    let config = with(&[]).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.database_address(), "sqlite:./data/auspex.db");
    assert_eq!(config.debounce, Duration::from_secs(3));
    assert_eq!(config.prices.input_per_mtok, Price(100_000));
    assert!(config.allow_private_targets);
    assert_eq!(config.registrations_per_hour, 0);
    assert!(config.effective.iter().all(|setting| setting.origin == Origin::Default));
}

#[test]
fn the_environment_wins_over_the_file() {
    let text = "listen = \"127.0.0.1:1\"\nworkers = 4\nmetering = false\ntrusted_proxies = [\"10.0.0.0/8\", \"::1\"]";
    let config = with_file(text, &[("AUSPEX_LISTEN", "127.0.0.1:2"), ("AUSPEX_METERING", "")]).unwrap();
    assert_eq!(config.listen.port(), 2);
    assert_eq!(config.workers, 4);
    assert!(config.trusted_proxies.contains("::ffff:10.1.2.3".parse().unwrap()));
    assert!(config.billing.metering, "an empty variable unsets what the file says");
}

#[test]
fn prices_by_model_come_from_the_file() {
    let text = "cost_margin = 1.25\n\
                [prices.\"gpt-x\"]\ninput_per_mtok = 0.15\noutput_per_mtok = \"0.6\"\n\
                [prices.\"a model/with: marks\"]\ninput_per_mtok = 3\noutput_per_mtok = 0";
    let config = with_file(text, &[("AUSPEX_PRICE_OUTPUT_PER_MTOK", "0.5")]).unwrap();
    assert_eq!(config.prices.by_model.0["gpt-x"], (Price(150_000), Price(600_000)));
    assert_eq!(config.prices.by_model.0["a model/with: marks"], (Price(3_000_000), Price(0)));
    assert_eq!(config.prices.by_model.0.len(), 2);
    // The defaults still apply, and the margin applies to all of them.
    assert_eq!(
        (config.prices.input_per_mtok, config.prices.output_per_mtok),
        (Price(100_000), Price(500_000))
    );
    assert_eq!(config.prices.margin, Price(1_250_000));
}

#[test]
fn an_invalid_price_is_named() {
    for (text, words) in [
        ("[prices.x]\ninput_per_mtok = -1\noutput_per_mtok = 1", "x.input_per_mtok"),
        ("[prices.x]\ninput_per_mtok = 1\noutput_per_mtok = \"dear\"", "x.output_per_mtok"),
        ("[prices.x]\ninput_per_mtok = 0.0000001\noutput_per_mtok = 1", "x.input_per_mtok"),
        ("[prices.x]\ninput_per_mtok = 1", "x lacks output_per_mtok"),
        ("[prices.x]\ninput_per_mtok = 1\noutput_per_mtok = 1\ncached_per_mtok = 1", "x.cached_per_mtok"),
        ("[prices]\nx = 1", "x"),
        ("prices = 1", "table"),
    ] {
        let refused = refusal(with_file(text, &[]));
        assert!(refused.contains("prices") && refused.contains(words), "{text}: {refused}");
    }
}

#[test]
fn an_invalid_value_is_named() {
    for (name, value) in [
        ("AUSPEX_LISTEN", "here"),
        ("AUSPEX_ENV", "staging"),
        ("AUSPEX_ROLE", "boss"),
        ("AUSPEX_WORKERS", "0"),
        ("AUSPEX_WORKERS", "many"),
        ("AUSPEX_DEBOUNCE_MS", "-1"),
        ("AUSPEX_DEBOUNCE_MAX_MS", "10"),
        ("AUSPEX_METERING", "perhaps"),
        ("AUSPEX_COST_MARGIN", "1e3"),
        ("AUSPEX_PUBLIC_URL", "ftp://example.com"),
        ("AUSPEX_DATABASE_URL", "mysql://x"),
        ("AUSPEX_TRUSTED_PROXIES", "10.0.0.0/99"),
        ("AUSPEX_ANALYZER", "oracle"),
        ("AUSPEX_LOG", "no=such=level"),
        ("AUSPEX_LOG_FORMAT", "xml"),
        ("AUSPEX_TOPUP_MAX_CENTS", "1"),
        ("AUSPEX_TOPUP_MIN_CENTS", "0"),
    ] {
        let refused = refusal(with(&[(name, value)]));
        assert!(refused.contains(name), "{name}={value}: {refused}");
    }
    let refused = refusal(with_file("workers = \"many\"", &[]));
    assert!(refused.contains("workers in the configuration file"), "{refused}");
    let refused = refusal(with(&[("AUSPEX_ANALYZER", "openai")]));
    assert!(refused.contains("AUSPEX_ANALYZER_URL"), "{refused}");
}

#[test]
fn the_second_analyzer_is_checked_like_the_first() {
    assert!(with(&[]).unwrap().escalation.analyzer.is_none());
    let refused = refusal(with(&[("AUSPEX_ESCALATE_ANALYZER", "embedded")]));
    assert!(refused.contains("AUSPEX_ESCALATE_ANALYZER") && refused.contains("first analyzer"), "{refused}");
    let refused = refusal(with(&[("AUSPEX_ESCALATE_ANALYZER", "openai")]));
    assert!(refused.contains("AUSPEX_ESCALATE_URL"), "{refused}");
    let url = ("AUSPEX_ESCALATE_URL", "http://host");
    let refused = refusal(with(&[("AUSPEX_ESCALATE_ANALYZER", "anthropic"), url]));
    assert!(refused.contains("AUSPEX_ESCALATE_MODEL"), "{refused}");
    let config = with(&[
        ("AUSPEX_ANALYZER", "words"),
        ("AUSPEX_ESCALATE_ANALYZER", "systemone"),
        url,
        ("AUSPEX_ESCALATE_API_KEY", "sk-hidden"),
        ("AUSPEX_ESCALATE_TIMEOUT_MS", "1500"),
        ("AUSPEX_ESCALATE_PER_DAY", "7"),
    ])
    .unwrap();
    assert!(config.warnings[0].contains("AUSPEX_ESCALATE_URL has no path"), "{:?}", config.warnings);
    let escalation = &config.escalation;
    assert_eq!((escalation.per_day, escalation.micros_per_day), (7, 0));
    assert_eq!(escalation.analyzer.as_ref().unwrap().timeout, Duration::from_millis(1_500));
    assert!(!format!("{config:?}").contains("sk-hidden"));
    assert!(with(&[("AUSPEX_ANALYZER", "words"), ("AUSPEX_ESCALATE_ANALYZER", "embedded")]).is_ok());
    let config = with(&[url, ("AUSPEX_ESCALATE_MODEL", "m")]).unwrap();
    for name in ["AUSPEX_ESCALATE_URL", "AUSPEX_ESCALATE_MODEL"] {
        let is_warned_of =
            |warning: &String| warning.contains(name) && warning.contains("no second analyzer");
        assert!(config.warnings.iter().any(is_warned_of), "{name}: {:?}", config.warnings);
    }
}

#[test]
fn the_address_and_the_model_of_an_analyzer_are_checked() {
    let analyzer = |kind: &str, url: &str, model: Option<&str>| {
        let model = model.map(|model| ("AUSPEX_ANALYZER_MODEL", model));
        let variables: [(&str, &str); 2] = [("AUSPEX_ANALYZER", kind), ("AUSPEX_ANALYZER_URL", url)];
        with(&variables.into_iter().chain(model).collect::<Vec<_>>())
    };
    for (kind, operation) in
        [("openai", "chat/completions"), ("anthropic", "messages"), ("systemone", "systemone")]
    {
        let refused = refusal(analyzer(kind, &format!("http://host/v1/{operation}"), Some("m")));
        assert!(refused.contains("AUSPEX_ANALYZER_URL") && refused.contains(operation), "{refused}");
        assert_eq!(analyzer(kind, "http://host/v1", Some("m")).unwrap().warnings, Vec::<String>::new());
        let warnings = analyzer(kind, "http://host", Some("m")).unwrap().warnings;
        assert!(warnings[0].contains(&format!("http://host/v1/{operation}")), "{warnings:?}");
    }
    for kind in ["openai", "anthropic"] {
        let refused = refusal(analyzer(kind, "http://host/v1", None));
        assert!(refused.contains("AUSPEX_ANALYZER_MODEL"), "{refused}");
    }
    assert!(analyzer("systemone", "http://host/v1", None).is_ok());
}

#[test]
fn what_commands_read_is_no_unknown_setting() {
    let names = ["AUSPEX_URL", "AUSPEX_KEY", "AUSPEX_SECRET", "AUSPEX_PROFILE"];
    let config = with(&names.map(|name| (name, "x"))).unwrap();
    assert_eq!(config.warnings, Vec::<String>::new());
    let warnings = with(&[("AUSPEX_WORKRES", "3")]).unwrap().warnings;
    assert!(warnings[0].contains("AUSPEX_WORKRES"), "{warnings:?}");
}

#[test]
fn production_and_postgres_require_a_master_key() {
    for variable in [("AUSPEX_ENV", "production"), ("AUSPEX_DATABASE_URL", "postgres://localhost/auspex")] {
        assert!(refusal(with(&[variable])).contains("AUSPEX_MASTER_KEY"));
    }
    let config = with(&[("AUSPEX_ENV", "production"), ("AUSPEX_MASTER_KEY", "x")]).unwrap();
    assert!(!config.allow_private_targets, "production keeps webhooks out of private networks");
    assert_eq!(config.registrations_per_hour, 20, "production keeps strangers from opening accounts at will");
}

#[test]
fn production_refuses_a_public_url_that_is_not_encrypted() {
    let production = |variables: &[(&str, &str)]| {
        with(&[&[("AUSPEX_ENV", "production"), ("AUSPEX_MASTER_KEY", "x")], variables].concat())
    };
    for url in
        ["http://signals.example.com", "http://10.0.0.1:8080", "http://localhost.example.com", "http://[::]"]
    {
        let refused = refusal(production(&[("AUSPEX_PUBLIC_URL", url)]));
        assert!(refused.contains("AUSPEX_PUBLIC_URL") && refused.contains("https"), "{url}: {refused}");
        assert!(with(&[("AUSPEX_PUBLIC_URL", url)]).is_ok(), "{url} in development");
    }
    let refused = refusal(production(&[("AUSPEX_LISTEN", "0.0.0.0:8080")]));
    assert!(
        refused.contains("AUSPEX_PUBLIC_URL"),
        "the default follows from the address it listens on: {refused}"
    );
    for url in
        ["https://signals.example.com", "http://127.0.0.1:8080", "http://[::1]", "http://localhost:8080"]
    {
        production(&[("AUSPEX_PUBLIC_URL", url)]).unwrap();
    }
    assert!(production(&[]).is_ok(), "it listens on loopback");
    let refused = refusal(production(&[("AUSPEX_OIDC_ISSUER", "http://sso.example.com")]));
    assert!(refused.contains("AUSPEX_OIDC_ISSUER"), "{refused}");
    production(&[("AUSPEX_OIDC_ISSUER", "http://127.0.0.1:9000")]).unwrap();
}

#[test]
fn production_warns_without_a_mail_server() {
    let production = [("AUSPEX_ENV", "production"), ("AUSPEX_MASTER_KEY", "x")];
    let warnings = with(&production).unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("AUSPEX_SMTP_URL"), "{warnings:?}");
    let sends = with(&[&production[..], &[("AUSPEX_SMTP_URL", "smtp://mail.example.com")]].concat()).unwrap();
    assert!(sends.warnings.is_empty() && with(&[]).unwrap().warnings.is_empty());
}

#[test]
fn the_image_is_production() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/Dockerfile");
    let text = std::fs::read_to_string(file).unwrap();
    let image = text.rsplit("\nFROM ").next().unwrap().replace("\\\n", "");
    let set: Vec<_> = image
        .lines()
        .filter_map(|line| line.strip_prefix("ENV "))
        .flat_map(str::split_whitespace)
        .filter_map(|pair| pair.split_once('='))
        .collect();
    let required = [("AUSPEX_MASTER_KEY", "x"), ("AUSPEX_PUBLIC_URL", "https://signals.example.com")];
    let config = with(&[&set[..], &required].concat()).unwrap();
    assert_eq!(config.env, Environment::Production);
    assert!(refusal(with(&[&set[..], &required[..1]].concat())).contains("AUSPEX_PUBLIC_URL"));
}

#[test]
fn an_unknown_name_is_an_error_in_the_file_and_a_warning_in_the_environment() {
    assert!(refusal(with_file("lisen = \"127.0.0.1:1\"", &[])).contains("lisen"));
    let config = with(&[("AUSPEX_LISEN", "127.0.0.1:1")]).unwrap();
    assert_eq!(config.warnings.len(), 1);
    assert!(config.warnings[0].contains("AUSPEX_LISEN"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    assert!(refusal(with(&[("AUSPEX_CONFIG", "/does/not/exist.toml")])).contains("/does/not/exist.toml"));
    assert!(refusal(with_file("listen = ", &[])).contains("not TOML"));
}

#[test]
fn secrets_do_not_show() {
    let config = with(&[("AUSPEX_MASTER_KEY", "hush"), ("AUSPEX_SMTP_URL", "smtp://me:hush@mail")]).unwrap();
    assert!(!format!("{config:?}").contains("hush"));
    let shown = config.effective.iter().find(|setting| setting.name == "master_key").unwrap();
    assert_eq!((shown.shown.as_str(), shown.origin), ("********", Origin::Environment));
}

#[test]
fn a_slip_in_the_allowed_domains_admits_nobody_by_accident() {
    let domains = |text| with(&[("AUSPEX_OIDC_ALLOWED_DOMAINS", text)]);
    assert_eq!(
        domains("Example.com, example.org").unwrap().oidc.allowed_domains,
        ["example.com", "example.org"]
    );
    for slip in [",", "@example.com", "example.com,", "https://example.com", "a b"] {
        let refused = refusal(domains(slip));
        assert!(refused.contains("AUSPEX_OIDC_ALLOWED_DOMAINS"), "{slip}: {refused}");
    }
}
