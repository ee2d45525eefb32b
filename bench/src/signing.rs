//! The cost of verifying a signed request whose key is cached.

use std::error::Error;
use std::net::Ipv4Addr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use model::TenantId;
use model::api::APIKeySecret;
use server::config::Config;
use service::{Clock, Presented, Random, RequestLine, Service};
use sha2::Sha256;

use crate::Figure;

/// Verifications in one round, which is shorter than the 800 ms that a key is cached.
const ROUND: u32 = 5_000;
const ROUNDS: usize = 9;

pub(crate) fn measure() -> Result<Figure, Box<dyn Error>> {
    // One thread, so that its CPU time covers all the work.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(measure_here())?;
    Ok(Figure::at_most("CPU to verify a signed request, key in the cache (median)", measured, "µs", 20.0))
}

async fn measure_here() -> Result<f64, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let variables = [
        ("AUSPEX_DATA_DIR".to_owned(), directory.path().display().to_string()),
        ("AUSPEX_ANALYZER".to_owned(), "words".to_owned()),
    ];
    let config = Config::from_environment(variables.into_iter())?;
    let clock = Clock::system();
    let service = server::assemble(&config, clock.clone(), Random::system()?).await?;
    let tenant = service.accounts.operators.create_tenant("Bench").await?.tenant_id;
    let token = signed_token(&service, tenant, &clock).await?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        authenticate(&service, &token).await?;
        let before = cpu_time()?;
        for _ in 0..ROUND {
            authenticate(&service, &token).await?;
        }
        rounds.push(cpu_time()?.saturating_sub(before).as_secs_f64() * 1e6 / f64::from(ROUND));
    }
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[ROUNDS / 2])
}

async fn authenticate(service: &Service, token: &str) -> Result<(), service::Error> {
    let request = RequestLine { method: "POST", decoded_path: Some("/v1/objects/user_1/events") };
    let presented = Presented {
        bearer: Some(token),
        x_api_key: None,
        api_key: None,
        token_in_query: false,
        request,
        address: Ipv4Addr::LOCALHOST.into(),
        agent: None,
        cookie: None,
        request_id: None,
    };
    service.accounts.authentication.authenticate(presented).await.map(drop)
}

async fn signed_token(service: &Service, tenant: TenantId, clock: &Clock) -> Result<String, Box<dyn Error>> {
    let made = service.accounts.operators.create_key_for(tenant, None).await?;
    token(&made, clock, r#","jti":"0123456789abcdef","htm":"POST","htu":"/v1/objects/user_1/events""#)
}

/// A token for any method and path.
pub(crate) fn unbound_token(made: &APIKeySecret, clock: &Clock) -> Result<String, Box<dyn Error>> {
    token(made, clock, "")
}

fn token(made: &APIKeySecret, clock: &Clock, more: &str) -> Result<String, Box<dyn Error>> {
    let now = clock.now().seconds();
    let header = format!(r#"{{"alg":"HS256","typ":"JWT","kid":"{}"}}"#, made.key);
    let claims = format!(r#"{{"iat":{now},"exp":{}{more}}}"#, now + 300);
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let mut mac = Hmac::<Sha256>::new_from_slice(made.secret.as_bytes())?;
    mac.update(message.as_bytes());
    Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())))
}

/// CPU time of this thread: what other processes do does not count.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos: u64 = stat.split_whitespace().next().ok_or("no schedstat")?.parse()?;
    Ok(Duration::from_nanos(nanos))
}
