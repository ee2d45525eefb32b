//! Extractors: the parts of a request, size-limited and parsed, with errors in the format of the API.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::Method;
use axum::http::request::Parts;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use serde::de::{DeserializeOwned, IgnoredAny};
use service::{Caller, Error, Kind, Sort};
use tokio::time::Instant;
use url::form_urlencoded;

use super::access;
use super::body_budget::BodyLease;
use super::envelope::Refusal;
use crate::parse_errors;

/// The largest body: 500 events of the usual size, with headroom.
pub(super) const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// The largest body of a request under `/auth/`, which is read before anybody is identified: passwords, codes and tokens.
const MAX_AUTH_BYTES: usize = 64 * 1024;
/// How long a client may take to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may take to begin, before [`MIN_BYTES_PER_SECOND`] counts.
const SLOW_START: Duration = Duration::from_secs(5);
/// What a client must send on average, so that slow bodies do not take up room until [`BODY_TIMEOUT`].
const MIN_BYTES_PER_SECOND: usize = 16 * 1024;

/// A JSON body; `Content-Type` is ignored.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Refusal> {
        Ok(Self(parse(&read(request).await?)?))
    }
}

/// A JSON body in which every field is optional; an empty body is the default.
pub(super) struct OptionalJson<T>(pub(super) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalJson<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Refusal> {
        let body = read(request).await?;
        Ok(Self(if body.is_empty() { T::default() } else { parse(&body)? }))
    }
}

/// The largest raw body: events of the payment provider have a few kilobytes.
const MAX_RAW_BYTES: usize = 256 * 1024;

/// The raw bytes of the body, for verifying a signature.
pub(super) struct Raw(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Refusal;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Refusal> {
        Ok(Self(read_up_to(MAX_RAW_BYTES, request).await?))
    }
}

/// The only path parameter.
pub(super) struct Path<T>(pub(super) T);

impl<T: FromStr, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let parameters = path_parameters(parts, state).await?;
        Ok(Self(path_parameter(&mut parameters.iter())?))
    }
}

/// Both path parameters of a route that has two.
pub(super) struct PathPair<T, U>(pub(super) T, pub(super) U);

impl<T: FromStr, U: FromStr, S: Send + Sync> FromRequestParts<S> for PathPair<T, U> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let parameters = path_parameters(parts, state).await?;
        let mut parameters = parameters.iter();
        Ok(Self(path_parameter(&mut parameters)?, path_parameter(&mut parameters)?))
    }
}

async fn path_parameters<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<RawPathParams, Error> {
    if parts.uri.path().contains("%00") {
        return Err(Error::bad_request("the path contains U+0000"));
    }
    RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| Error::bad_request("the path is not UTF-8 once it is decoded"))
}

fn path_parameter<'a, T: FromStr>(
    parameters: &mut impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<T, Error> {
    let (name, text) = parameters.next().ok_or_else(|| Error::bad_request("the path is too short"))?;
    // Parsing a string cannot fail; the only other path parameters are UUIDs.
    text.parse().map_err(|_| Error::bad_request(format!("{name}: it must be a UUID")))
}

/// The query parameters. Unknown ones are ignored.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Refusal> {
        let query = parts.uri.query().unwrap_or_default();
        if form_urlencoded::parse(query.as_bytes())
            .any(|(name, value)| name.contains('\0') || value.contains('\0'))
        {
            return Err(Error::bad_request("a parameter contains U+0000").into());
        }
        let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
        let value = serde_path_to_error::deserialize(pairs).map_err(|error| {
            let path = error.path().to_string();
            Error::bad_request(parse_errors::message(&path, &error.into_inner().to_string()))
        })?;
        Ok(Self(value))
    }
}

pub(super) async fn read(request: Request) -> Result<Bytes, Error> {
    let limit = if request.uri().path().starts_with("/auth/") { MAX_AUTH_BYTES } else { MAX_BODY_BYTES };
    read_up_to(limit, request).await
}

/// Reads the whole body, at most `limit` bytes, while there is room for it and it arrives in time.
async fn read_up_to(limit: usize, request: Request) -> Result<Bytes, Error> {
    let (parts, body) = request.into_parts();
    let lease = parts.extensions.get::<Arc<BodyLease>>();
    let tenant = parts.extensions.get::<Caller>().map(|caller| caller.tenant);
    let announced = body.size_hint().exact().map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if announced > limit {
        return Err(too_large(limit));
    }
    lease.map_or(Ok(()), |lease| lease.check(tenant, announced))?;
    collect(limit, announced, body, |bytes| lease.map_or(Ok(()), |lease| lease.grow(tenant, bytes))).await
}

/// Collects a body, and counts its bytes with `grow` as they arrive.
async fn collect(
    limit: usize,
    announced: usize,
    mut body: Body,
    grow: impl Fn(usize) -> Result<(), Error>,
) -> Result<Bytes, Error> {
    let begun = Instant::now();
    // Memory that nothing is written to takes no room.
    let mut bytes = Vec::with_capacity(announced);
    loop {
        let frame = tokio::time::timeout_at(begun + time_for(bytes.len()), body.frame()).await;
        let Some(frame) = frame.map_err(|_| too_slow())? else { return Ok(bytes.into()) };
        let frame = frame.map_err(|_| Error::bad_request("the body did not arrive whole"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        grow(data.len())?;
        bytes.extend_from_slice(&data);
    }
}

/// How long a client may take until it sends more than so many bytes.
fn time_for(bytes: usize) -> Duration {
    let at_least = Duration::from_secs(u64::try_from(bytes / MIN_BYTES_PER_SECOND).unwrap_or(u64::MAX));
    at_least.clamp(SLOW_START, BODY_TIMEOUT)
}

fn too_slow() -> Error {
    Error::new(Kind::RequestTimeout, "the body did not arrive in time")
}

fn too_large(limit: usize) -> Error {
    Error::new(Kind::PayloadTooLarge, format!("the body is larger than {limit} bytes"))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    if has_escaped_nul(body) {
        return Err(Error::bad_request("a text contains U+0000, which cannot be stored"));
    }
    if body.is_empty() {
        return Err(Error::bad_request("the body is empty; it must be JSON"));
    }
    // serde would accept an array as a record, with fields by position.
    let is_object = body.trim_ascii_start().starts_with(b"{");
    if is_object && let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    Err(Error::bad_request(match serde_json::from_slice::<IgnoredAny>(body) {
        Err(error) => {
            format!("the body is not JSON: see line {}, column {}", error.line(), error.column())
        }
        Ok(_) if !is_object => "the body must be a JSON object".to_owned(),
        Ok(_) => parse_errors::explain::<T>(body),
    }))
}

/// Whether a string of the document contains U+0000. JSON forbids it unescaped; PostgreSQL cannot store it.
fn has_escaped_nul(body: &[u8]) -> bool {
    let mut rest = body;
    while let Some(at) = rest.windows(6).position(|window| window == b"\\u0000") {
        let backslashes = rest[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        // After an odd number of backslashes, this one is itself escaped.
        if backslashes % 2 == 0 {
            return true;
        }
        rest = &rest[at + 6..];
    }
    false
}

/// Which of these parts a parameter `include` names, separated by commas. Each has a route of its own, whose template stands beside it,
/// and is for whoever may read that.
pub(super) fn included<const N: usize>(
    caller: &Caller,
    include: Option<&str>,
    known: [(&'static str, &'static str); N],
) -> Result<[bool; N], Error> {
    let mut named = [false; N];
    for part in include.unwrap_or_default().split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some(index) = known.iter().position(|(name, _)| *name == part) else {
            let parts = known.map(|(name, _)| name).join(", ");
            return Err(Error::bad_request(format!("include: it may name {parts}, separated by commas")));
        };
        access::authorize(&Method::GET, known[index].1, caller)?;
        named[index] = true;
    }
    Ok(named)
}

/// The order of a list of objects, by its name in requests.
pub(super) fn sort_named(name: Option<&str>) -> Result<Sort, Error> {
    match name {
        None | Some("recent") => Ok(Sort::Recent),
        Some("flagged") => Ok(Sort::Flagged),
        Some("trust") => Ok(Sort::Trust),
        Some(_) => Err(Error::bad_request("sort: it must be recent, flagged or trust")),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream::unfold;

    use super::*;

    /// A body that goes on for ever: so many bytes each second.
    fn endless(bytes_per_second: usize) -> Body {
        Body::from_stream(unfold((), move |()| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, Infallible>(vec![b' '; bytes_per_second]), ()))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_arrives_slowly_is_given_up_early() {
        for (bytes_per_second, seconds) in
            [(0, 5), (MIN_BYTES_PER_SECOND / 2, 5), (2 * MIN_BYTES_PER_SECOND, 30)]
        {
            let begun = Instant::now();
            let refused =
                collect(MAX_BODY_BYTES, 0, endless(bytes_per_second), |_| Ok(())).await.unwrap_err();
            assert_eq!(refused.kind(), Kind::RequestTimeout);
            assert_eq!(begun.elapsed().as_secs(), seconds, "{bytes_per_second} bytes a second");
        }
    }

    #[test]
    fn an_escaped_nul_is_found_and_an_escaped_backslash_is_not_one() {
        assert!(has_escaped_nul(br#"{"a": "x\u0000"}"#));
        assert!(has_escaped_nul(br#"{"a": "\\\u0000"}"#));
        assert!(!has_escaped_nul(br#"{"a": "\\u0000"}"#));
        assert!(!has_escaped_nul(br#"{"a": "\u0001"}"#));
    }

    #[test]
    fn an_invalid_value_is_located() {
        #[derive(Debug, serde::Deserialize)]
        struct Order {
            #[expect(dead_code, reason = "only parsed")]
            items: Vec<u16>,
        }
        let refused = parse::<Order>(br#"{"items": [1, "two"]}"#).unwrap_err();
        assert_eq!(refused.message(), "items[1]: it must be a whole number");
        assert_eq!(parse::<Order>(b"{}").unwrap_err().message(), "items: it is required");
        assert!(parse::<Order>(b"{").unwrap_err().message().starts_with("the body is not JSON"));
        assert!(parse::<Order>(b"").unwrap_err().message().contains("empty"));
    }
}
