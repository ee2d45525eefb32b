//! Reads over HTTP among a million objects, compared with the same reads among ten thousand and a read by primary key.
//!
//! Both databases are filled first and both servers run at the same time; requests of all kinds and of both sizes take
//! turns over one connection each, so that other load of the machine affects all of them. Requests differ from each other
//! where possible.

use std::error::Error;
use std::time::{Duration, Instant};

use model::Timestamp;
use model::api::APIKeySecret;
use server::Server;
use service::{Clock, Random};
use tokio::net::TcpStream;

use crate::ingest::config;
use crate::load::read_response;
use crate::seed::{Seeded, seed as fill, seed_long_history};
use crate::signing::unbound_token;
use crate::{Figure, median, new_database};

/// Objects of the small database.
const FEW: u64 = 10_000;
/// Analyses in the history of one object.
const LONG_HISTORY: u32 = 1_000;
/// Requests of each kind and size; kinds without a limit are measured only in every tenth round.
const ROUNDS: u64 = 250;
const INFORMATIONAL_EVERY: u64 = 10;
/// The number of objects that match a selective condition, in either database.
const SELECTED: f64 = 50.0;
/// How many times as long a read may take as the same one among few objects, and as a read by primary key.
const GROWTH: f64 = 2.0;
const OF_PRIMARY_KEY: f64 = 10.0;

/// A kind of read.
struct Kind {
    name: &'static str,
    /// The path of the n-th request to a database of this size.
    path: fn(n: u64, size: &Size) -> String,
    role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The read that the others are compared with.
    Baseline,
    /// It has limits.
    Limited,
    /// It is only reported.
    Informational,
}

/// A database of one size.
struct Size {
    objects: u64,
    now: Timestamp,
}

impl Size {
    /// The id of a pseudorandom object.
    fn id(&self, n: u64) -> String {
        Seeded::new(n.wrapping_mul(7_919) % self.objects, self.now).object_id
    }

    /// A probability that about this many objects exceed.
    fn threshold(&self, above: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let share = above / self.objects as f64;
        1.0 - share
    }
}

/// The first is the baseline.
const KINDS: &[Kind] = &[
    Kind {
        name: "object by id",
        path: |n, size| format!("/v1/objects/{}", size.id(n)),
        role: Role::Baseline,
    },
    Kind { name: "recent, 1", path: |_, _| "/v1/objects?limit=1".to_owned(), role: Role::Limited },
    Kind {
        name: "flagged, 1",
        path: |_, _| "/v1/objects?sort=flagged&limit=1".to_owned(),
        role: Role::Limited,
    },
    Kind { name: "trust, 1", path: |_, _| "/v1/objects?sort=trust&limit=1".to_owned(), role: Role::Limited },
    Kind { name: "selective condition, 1", path: |n, size| condition(n, size, 1), role: Role::Limited },
    Kind { name: "selective substring, 1", path: |n, size| substring(n, size, 1), role: Role::Limited },
    Kind {
        name: "past of answers",
        path: |n, size| format!("/v1/objects/{}/answers", size.id(n)),
        role: Role::Limited,
    },
    Kind {
        name: "past of answers, 50 of 1,000",
        path: |n, size| {
            let object_id = Seeded::new(0, size.now).object_id;
            format!("/v1/objects/{object_id}/answers?limit={}", 46 + n % 5)
        },
        role: Role::Limited,
    },
    Kind {
        name: "timeline",
        path: |n, size| format!("/v1/objects/{}/timeline", size.id(n)),
        role: Role::Limited,
    },
    Kind { name: "overview", path: |_, _| "/v1/overview".to_owned(), role: Role::Limited },
    Kind { name: "recent, 100", path: |_, _| "/v1/objects".to_owned(), role: Role::Limited },
    Kind { name: "flagged, 100", path: |_, _| "/v1/objects?sort=flagged".to_owned(), role: Role::Limited },
    Kind { name: "trust, 100", path: |_, _| "/v1/objects?sort=trust".to_owned(), role: Role::Limited },
    Kind { name: "selective condition, 100", path: |n, size| condition(n, size, 100), role: Role::Limited },
    Kind { name: "selective substring, 100", path: |n, size| substring(n, size, 100), role: Role::Limited },
    Kind {
        name: "common substring, 100",
        path: |_, _| "/v1/objects?q=user_".to_owned(),
        role: Role::Informational,
    },
    Kind {
        name: "substring of 1 in 300, 100",
        path: |n, _| format!("/v1/objects?q={:03x}", n % 4_096),
        role: Role::Informational,
    },
    Kind {
        name: "two letters nowhere, 100",
        path: |_, _| "/v1/objects?q=qq".to_owned(),
        role: Role::Informational,
    },
    Kind {
        name: "common and common, 100",
        path: |_, _| "/v1/objects?q=trust_score%3E1,is_scammer%3C0.5".to_owned(),
        role: Role::Informational,
    },
    Kind {
        name: "common and common, hardly both",
        path: |_, _| "/v1/objects?q=buyer_intent=comparing,trust_score%3E1.5".to_owned(),
        role: Role::Informational,
    },
    Kind {
        name: "common and common, never both",
        path: |_, _| "/v1/objects?q=buyer_intent=comparing,buyer_intent=ready_to_buy".to_owned(),
        role: Role::Informational,
    },
];

/// A condition that about fifty objects match, a different number each time.
fn condition(n: u64, size: &Size, limit: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "at most ten")]
    let threshold = size.threshold(SELECTED + (n % 10) as f64);
    format!("/v1/objects?q=is_scammer%3E{threshold:.6}&limit={limit}")
}

/// A search for eight characters from the middle of an id.
fn substring(n: u64, size: &Size, limit: u64) -> String {
    format!("/v1/objects?q={}&limit={limit}", &size.id(n)[6..14])
}

/// A server with this many objects, and a connection to it.
struct Running {
    server: Server,
    stream: TcpStream,
    buffer: Vec<u8>,
    key: APIKeySecret,
    clock: Clock,
    size: Size,
    /// Keeps its files for as long as it runs.
    _directory: tempfile::TempDir,
}

impl Running {
    async fn start(url: Option<&str>, objects: u64) -> Result<Self, Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let url = match url {
            Some(cluster) => new_database(cluster, &format!("reads_{objects}")).await?,
            None => format!("sqlite:{}", directory.path().join("reads.db").display()),
        };
        let config = config(&url, directory.path(), &[("AUSPEX_ROLE", "api")])?;
        let (clock, random) = (Clock::system(), Random::system()?);
        let now = clock.now();
        let service = server::assemble(&config, clock.clone(), random.clone()).await?;
        let begun = Instant::now();
        let tenant = fill(&service, objects, now).await?;
        seed_long_history(&service, tenant, LONG_HISTORY, now).await?;
        println!("seeded {objects} objects in {:.0} s", begun.elapsed().as_secs_f64());
        let key = service.accounts.operators.create_key_for(tenant, None).await?;
        service.store().close().await;
        let server = Server::start(config, clock.clone(), random).await?;
        let stream = TcpStream::connect(server.address()).await?;
        stream.set_nodelay(true)?;
        let (buffer, size) = (vec![0; 64 * 1024], Size { objects, now });
        Ok(Self { server, stream, buffer, key, clock, size, _directory: directory })
    }

    /// Measures how long one request takes.
    async fn time(&mut self, kind: &Kind, n: u64) -> Result<Duration, Box<dyn Error>> {
        use tokio::io::AsyncWriteExt as _;
        let path = (kind.path)(n, &self.size);
        let token = unbound_token(&self.key, &self.clock)?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n\r\n");
        let begun = Instant::now();
        self.stream.write_all(request.as_bytes()).await?;
        let response = read_response(&mut self.stream, &mut self.buffer).await?;
        let took = begun.elapsed();
        if !response.starts_with("HTTP/1.1 200") || response.contains("x-cache: HIT") {
            return Err(format!("{path}: {response}").into());
        }
        Ok(took)
    }
}

/// Fills a database and keeps it.
pub(crate) async fn seed(url: &str, objects: u64) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let config = config(url, directory.path(), &[])?;
    let clock = Clock::system();
    let service = server::assemble(&config, clock.clone(), Random::system()?).await?;
    let tenant = fill(&service, objects, clock.now()).await?;
    let made = service.accounts.operators.create_key_for(tenant, None).await?;
    println!("tenant {}, key {}, secret {}", tenant.0, made.key, made.secret);
    Ok(())
}

/// Measures reads on PostgreSQL if a cluster is given, otherwise on SQLite.
pub(crate) async fn measure(cluster: Option<&str>, many: u64) -> Result<Vec<Figure>, Box<dyn Error>> {
    let name = if cluster.is_some() { "PostgreSQL" } else { "SQLite" };
    // The large one first: the service closes connections that are idle for as long as filling it takes.
    let mut many = Running::start(cluster, many).await?;
    let mut few = Running::start(cluster, FEW).await?;
    let mut times: Vec<(Vec<f64>, Vec<f64>)> = KINDS.iter().map(|_| (Vec::new(), Vec::new())).collect();
    for n in 0..ROUNDS {
        let is_due = |kind: &Kind| kind.role != Role::Informational || n.is_multiple_of(INFORMATIONAL_EVERY);
        for (kind, (of_few, of_many)) in KINDS.iter().zip(&mut times).filter(|(kind, _)| is_due(kind)) {
            of_few.push(few.time(kind, n).await?.as_secs_f64() * 1e3);
            of_many.push(many.time(kind, n).await?.as_secs_f64() * 1e3);
        }
    }
    println!(
        "{name:<34} {:>10} {:>10} {:>8} {:>12}",
        few.size.objects, many.size.objects, "growth", "of an object"
    );
    let mut figures = Vec::new();
    let mut by_id = None;
    for (kind, (of_few, of_many)) in KINDS.iter().zip(times) {
        let (of_few, of_many) = (median(of_few), median(of_many));
        let by_id = *by_id.get_or_insert(of_many);
        let (growth, of_object) = (of_many / of_few, of_many / by_id);
        println!("{:<34} {of_few:>7.3} ms {of_many:>7.3} ms {growth:>8.2} {of_object:>12.2}", kind.name);
        if kind.role == Role::Limited {
            let figure = |what: &str, measured, limit| {
                Figure::at_most(format!("{name}: {}, {what}", kind.name), measured, "×", limit)
            };
            figures.push(figure("many to few objects", growth, GROWTH));
            figures.push(figure("to an object by id", of_object, OF_PRIMARY_KEY));
        }
    }
    few.server.stop().await;
    many.server.stop().await;
    Ok(figures)
}
