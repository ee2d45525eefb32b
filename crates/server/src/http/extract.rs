//! Extractors: the parts of a request, size-limited and parsed, with errors in the format of the API.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use serde::de::{DeserializeOwned, IgnoredAny};
use service::{Caller, Error, Kind};
use url::form_urlencoded;

use super::body_budget::BodyLease;
use super::envelope::Refusal;
use crate::parse_errors;

/// The largest body: 500 events of the usual size, with headroom.
pub(super) const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// How long a client may take to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

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

async fn read(request: Request) -> Result<Bytes, Error> {
    read_up_to(MAX_BODY_BYTES, request).await
}

/// Reads the whole body, at most `limit` bytes and within [`BODY_TIMEOUT`].
async fn read_up_to(limit: usize, request: Request) -> Result<Bytes, Error> {
    let (parts, body) = request.into_parts();
    let lease = parts.extensions.get::<Arc<BodyLease>>().cloned();
    let tenant = parts.extensions.get::<Caller>().map(|caller| caller.tenant);
    let declared = body.size_hint().exact().map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if declared > limit {
        return Err(too_large(limit));
    }
    let grow = |bytes| lease.as_ref().map_or(Ok(()), |lease| lease.grow(tenant, bytes));
    grow(declared)?;
    let reading = collect(limit, declared, body, grow);
    let read = tokio::time::timeout(BODY_TIMEOUT, reading).await;
    read.unwrap_or_else(|_| Err(Error::new(Kind::RequestTimeout, "the body did not arrive in time")))
}

/// Collects a body. What it has beyond its `declared` length, where it declares one, is counted with `grow` as it arrives.
async fn collect(
    limit: usize,
    declared: usize,
    mut body: Body,
    grow: impl Fn(usize) -> Result<(), Error>,
) -> Result<Bytes, Error> {
    let mut bytes = Vec::with_capacity(declared);
    let mut counted = declared;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Error::bad_request("the body did not arrive whole"))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > limit {
            return Err(too_large(limit));
        }
        if length > counted {
            grow(length - counted)?;
            counted = length;
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.into())
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

#[cfg(test)]
mod tests {
    use super::*;

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
