//! The signed token that says who signed in, and when it is accepted (OpenID Connect Core, section 3.1.3.7).

use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use model::Timestamp;
use serde::Deserialize;

use super::http::Failure;
use crate::runtime::Result;

pub(super) const STEP: &str = "checking the ID token";
/// How far the issuer's clock may be from ours.
const LEEWAY: Duration = Duration::from_mins(1);
/// The longest subject that OpenID Connect allows.
const MAX_SUBJECT: usize = 255;

/// What the token must say.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) now: Timestamp,
}

/// A member's profile, from a token or from the userinfo endpoint.
#[derive(Deserialize)]
pub(super) struct Profile {
    pub(super) sub: String,
    email: Option<String>,
    email_verified: Option<Truth>,
    pub(super) name: Option<String>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: Audience,
    azp: Option<String>,
    exp: i64,
    iat: i64,
    nonce: Option<String>,
    #[serde(flatten)]
    profile: Profile,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// Some issuers write booleans as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Truth {
    Boolean(bool),
    Text(String),
}

impl Profile {
    pub(super) fn email(&self) -> Option<&str> {
        self.email.as_deref().filter(|email| !email.is_empty())
    }

    pub(super) fn email_verified(&self) -> bool {
        match &self.email_verified {
            Some(Truth::Boolean(verified)) => *verified,
            Some(Truth::Text(text)) => text == "true",
            None => false,
        }
    }
}

/// The token's header, which says what key it is signed with. Nothing in it is verified yet.
pub(super) fn header(token: &str) -> Result<Header, Failure> {
    let header = jsonwebtoken::decode_header(token)
        .map_err(|_| Failure::at(STEP, "its header is malformed or its algorithm unknown"))?;
    // With HS256, the issuer's public key could be passed off as a shared secret.
    if !matches!(header.alg, Algorithm::RS256 | Algorithm::ES256) {
        return Err(Failure::at(STEP, "its algorithm is neither RS256 nor ES256"));
    }
    if header.crit.is_some() {
        return Err(Failure::at(STEP, "it demands an extension that is not known here"));
    }
    Ok(header)
}

/// The issuer's key that fits the header.
pub(super) fn key_for(header: &Header, keys: &JwkSet) -> Option<Jwk> {
    let named = |key: &&Jwk| header.kid.is_none() || key.common.key_id == header.kid;
    let mut fitting = keys.keys.iter().filter(named).filter(|key| can_verify(key, header.alg));
    let key = fitting.next()?;
    // A token may leave out the key's id only if a single key fits.
    (header.kid.is_some() || fitting.next().is_none()).then(|| key.clone())
}

fn can_verify(key: &Jwk, algorithm: Algorithm) -> bool {
    let (is_of_kind, name) = match (&key.algorithm, algorithm) {
        (AlgorithmParameters::RSA(_), Algorithm::RS256) => (true, KeyAlgorithm::RS256),
        (AlgorithmParameters::EllipticCurve(curve), Algorithm::ES256) => {
            (curve.curve == EllipticCurve::P256, KeyAlgorithm::ES256)
        }
        _ => return false,
    };
    let is_for_signatures = matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature));
    is_of_kind && is_for_signatures && key.common.key_algorithm.is_none_or(|named| named == name)
}

/// Checks the signature, then everything that the token must say.
pub(super) fn verify(
    token: &str,
    header: &Header,
    key: &Jwk,
    expected: &Expected<'_>,
) -> Result<Profile, Failure> {
    let mut signature_only = Validation::new(header.alg);
    // The library checks times by the system clock; all claims are checked below.
    signature_only.required_spec_claims.clear();
    signature_only.validate_exp = false;
    signature_only.validate_aud = false;
    let key = DecodingKey::from_jwk(key).map_err(|_| Failure::at(STEP, "the issuer's key is malformed"))?;
    let decoded = jsonwebtoken::decode::<Claims>(token, &key, &signature_only);
    let claims = decoded.map_err(|error| match error.kind() {
        ErrorKind::InvalidSignature => Failure::at(STEP, "its signature is not the issuer's"),
        // The library's own messages may quote the claims.
        _ => Failure::at(STEP, "it is malformed"),
    })?;
    let claims = claims.claims;
    claims.check(expected).map_err(|cause| Failure::at(STEP, cause))?;
    match claims.nonce.as_deref() {
        Some(nonce) if nonce == expected.nonce => Ok(claims.profile),
        // The token is the issuer's, so the caller combined the code and the verifier of two sign-ins.
        Some(_) => Err(Failure::GrantRefused),
        None => Err(Failure::at(STEP, "it does not say for which sign-in")),
    }
}

impl Claims {
    fn check(&self, expected: &Expected<'_>) -> Result<(), &'static str> {
        if self.iss != expected.issuer {
            return Err("it is another issuer's");
        }
        let is_ours = |text: &String| text == expected.client_id;
        let is_for_us = match &self.aud {
            Audience::One(audience) => is_ours(audience),
            // With several audiences, `azp` must say that we asked for the token.
            Audience::Many(audiences) => {
                audiences.iter().any(is_ours) && (audiences.len() == 1 || self.azp.is_some())
            }
        };
        if !is_for_us || !self.azp.as_ref().is_none_or(is_ours) {
            return Err("it is meant for another client");
        }
        if Timestamp::from_seconds(self.exp) + LEEWAY <= expected.now {
            return Err("it has expired");
        }
        if Timestamp::from_seconds(self.iat) > expected.now + LEEWAY {
            return Err("it was issued in the future");
        }
        if !(1..=MAX_SUBJECT).contains(&self.profile.sub.len()) {
            return Err("it names nobody");
        }
        Ok(())
    }
}
