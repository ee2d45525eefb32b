//! The types of settings, and how they are parsed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use model::EmailAddress;

macro_rules! one_of {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(format!("it must be one of: {}", [$($text),*].join(", "))),
                }
            }
        }
    };
}

one_of! {
    /// Selects stricter or looser defaults.
    Environment {
        /// On a developer's machine.
        Development = "development",
        /// In production.
        Production = "production",
    }
}

one_of! {
    /// What a process does.
    Role {
        /// Serves requests.
        Api = "api",
        /// Runs the workers.
        Worker = "worker",
        /// Both.
        All = "all",
    }
}

one_of! {
    /// The analyzer.
    AnalyzerKind {
        /// The model embedded in the binary.
        Embedded = "embedded",
        /// A decision-model server.
        Systemone = "systemone",
        /// Any OpenAI-compatible chat endpoint.
        Openai = "openai",
        /// Anthropic's Messages API.
        Anthropic = "anthropic",
        /// Not a model: answers by counting words, at no cost. For benchmarks of the service itself.
        Words = "words",
    }
}

impl AnalyzerKind {
    /// The operation of its server, relative to the base URL; none if it is part of this process.
    pub(crate) fn operation(self) -> Option<&'static str> {
        match self {
            Self::Embedded | Self::Words => None,
            Self::Systemone => Some("systemone"),
            Self::Openai => Some("chat/completions"),
            Self::Anthropic => Some("messages"),
        }
    }
}

one_of! {
    /// What happens when the balance is empty.
    Enforcement {
        /// Analyses pause.
        Block = "block",
        /// The balance may go negative.
        Grace = "grace",
    }
}

one_of! {
    /// The format of log lines.
    LogFormat {
        /// For people.
        Text = "text",
        /// For machines.
        Json = "json",
    }
}

/// A boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag(pub bool);

impl FromStr for Flag {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "true" | "1" => Ok(Self(true)),
            "false" | "0" => Ok(Self(false)),
            _ => Err("it must be true or false"),
        }
    }
}

/// A duration in whole milliseconds, at least one and at most a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Millis(pub Duration);

impl FromStr for Millis {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(millis @ 1..=86_400_000) => Ok(Self(Duration::from_millis(millis))),
            _ => Err("it must be a whole number of milliseconds from 1 to 86400000"),
        }
    }
}

/// A duration in hours, from one hour to a year.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours(pub Duration);

impl FromStr for Hours {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(hours @ 1..=8_760) => Ok(Self(Duration::from_hours(hours))),
            _ => Err("it must be a whole number of hours from 1 to 8760"),
        }
    }
}

/// A duration in whole seconds, at least one and at most a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub Duration);

impl FromStr for Seconds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(seconds @ 1..=86_400) => Ok(Self(Duration::from_secs(seconds))),
            _ => Err("it must be a whole number of seconds from 1 to 86400"),
        }
    }
}

/// A number of mebibytes; zero is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mebibytes(pub u32);

impl Mebibytes {
    /// The limit in bytes, if there is one.
    pub(crate) fn bytes(self) -> Option<i64> {
        (self.0 > 0).then(|| i64::from(self.0) * 1024 * 1024)
    }
}

impl FromStr for Mebibytes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| "it must be a whole number of mebibytes, or 0 for no limit")
    }
}

/// An exact, non-negative decimal in millionths: US dollars become micro-dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price(pub u64);

impl FromStr for Price {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const INVALID: &str = "it must be a decimal number such as 0.10, with at most six decimals";
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 9 || fraction.len() > 6 || !digits(whole) || !digits(fraction) {
            return Err(INVALID);
        }
        format!("{whole}{fraction:0<6}").parse().map(Self).map_err(|_| INVALID)
    }
}

/// Token prices by model: `[prices."a-model"]` with `input_per_mtok` and `output_per_mtok`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceTable(pub BTreeMap<String, (Price, Price)>);

impl PriceTable {
    pub(super) fn read(table: &toml::Table) -> Result<Self, String> {
        let mut prices = BTreeMap::new();
        for (model, entry) in table {
            let price = |name: &str| {
                let value = entry.get(name).ok_or_else(|| format!("{model} lacks {name}"))?;
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                text.parse::<Price>().map_err(|reason| format!("{model}.{name}: `{text}`: {reason}"))
            };
            let known = ["input_per_mtok", "output_per_mtok"];
            let fields = entry.as_table().ok_or_else(|| format!("{model} must be a table"))?;
            if let Some(unknown) = fields.keys().find(|name| !known.contains(&name.as_str())) {
                return Err(format!("{model}.{unknown} is no price"));
            }
            prices.insert(model.clone(), (price("input_per_mtok")?, price("output_per_mtok")?));
        }
        Ok(Self(prices))
    }
}

/// Address ranges, separated by commas; a bare address is a range of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkList(pub Vec<IpNet>);

impl NetworkList {
    /// Whether one of the ranges contains the address, even if it is an IPv4 address mapped to IPv6.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address.to_canonical()))
    }
}

/// Email addresses, separated by commas.
#[derive(Clone, Debug, Default)]
pub struct EmailList(pub Vec<EmailAddress>);

impl FromStr for EmailList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let addresses = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let parsed =
            addresses.map(|part| part.parse().map_err(|_| format!("`{part}` is not an email address")));
        parsed.collect::<Result<_, _>>().map(Self)
    }
}

/// Domains of email addresses in lower case, separated by commas; empty if left out.
#[derive(Clone, Debug, Default)]
pub struct DomainList(pub Vec<String>);

impl FromStr for DomainList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        // A slip must not admit everybody, or nobody.
        let domain = |part: &str| {
            let is_domain = !part.is_empty()
                && part.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '.' | '-'));
            is_domain
                .then(|| part.to_lowercase())
                .ok_or_else(|| format!("`{part}` is not a domain such as example.com"))
        };
        text.split(',').map(|part| domain(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for NetworkList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let networks = text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(|part| {
            let network = part.parse::<IpNet>().ok();
            network
                .or_else(|| part.parse::<IpAddr>().ok().map(IpNet::from))
                .ok_or_else(|| format!("`{part}` is not an address range such as 10.0.0.0/8"))
        });
        networks.collect::<Result<_, _>>().map(Self)
    }
}
