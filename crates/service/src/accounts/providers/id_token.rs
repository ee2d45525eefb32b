//! Validation of ID tokens (OpenID Connect Core, section 3.1.3.7).

use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use model::Timestamp;
use serde::Deserialize;

use super::http::Failure;
use crate::runtime::Result;

pub(super) const STEP: &str = "checking the ID token";
/// The maximum clock skew between the issuer and this service.
const LEEWAY: Duration = Duration::from_mins(1);
/// The longest subject that OpenID Connect allows.
const MAX_SUBJECT: usize = 255;

/// The expected claims of a token.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) now: Timestamp,
}

/// The user's profile, in a token or from the userinfo endpoint.
#[derive(Deserialize)]
pub(super) struct Profile {
    pub(super) sub: String,
    email: Option<String>,
    email_verified: Option<BooleanOrText>,
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

/// Some issuers send booleans as strings.
#[derive(Deserialize)]
#[serde(untagged)]
enum BooleanOrText {
    Boolean(bool),
    Text(String),
}

impl Profile {
    pub(super) fn email(&self) -> Option<&str> {
        self.email.as_deref().filter(|email| !email.is_empty())
    }

    pub(super) fn email_verified(&self) -> bool {
        match &self.email_verified {
            Some(BooleanOrText::Boolean(verified)) => *verified,
            Some(BooleanOrText::Text(text)) => text == "true",
            None => false,
        }
    }
}

/// The token's header, which names its key. Nothing in it is verified yet.
pub(super) fn header(token: &str) -> Result<Header, Failure> {
    let header = jsonwebtoken::decode_header(token)
        .map_err(|_| Failure::at(STEP, "its header is malformed or its algorithm unknown"))?;
    // An HMAC could be made with the client's secret, or with the issuer's public key misused as a secret.
    if kind_of_key(header.alg).is_none() {
        return Err(Failure::at(STEP, "its algorithm is not one of public keys"));
    }
    if header.crit.is_some() {
        return Err(Failure::at(STEP, "it requires an unknown extension"));
    }
    Ok(header)
}

/// The issuer's key that matches the header.
pub(super) fn key_for(header: &Header, keys: &JwkSet) -> Option<Jwk> {
    let named = |key: &&Jwk| header.kid.is_none() || key.common.key_id == header.kid;
    let mut matching = keys.keys.iter().filter(named).filter(|key| can_verify(key, header.alg));
    let key = matching.next()?;
    // A token without a key id is allowed only if there is exactly one matching key.
    (header.kid.is_some() || matching.next().is_none()).then(|| key.clone())
}

/// The key that an algorithm of signatures needs.
#[derive(PartialEq)]
enum KeyKind {
    Rsa,
    Curve(EllipticCurve),
}

/// The kind of key that verifies signatures by an algorithm, and the algorithm's name in a key; none for secret keys.
fn kind_of_key(algorithm: Algorithm) -> Option<(KeyKind, KeyAlgorithm)> {
    Some(match algorithm {
        Algorithm::RS256 => (KeyKind::Rsa, KeyAlgorithm::RS256),
        Algorithm::RS384 => (KeyKind::Rsa, KeyAlgorithm::RS384),
        Algorithm::RS512 => (KeyKind::Rsa, KeyAlgorithm::RS512),
        Algorithm::PS256 => (KeyKind::Rsa, KeyAlgorithm::PS256),
        Algorithm::PS384 => (KeyKind::Rsa, KeyAlgorithm::PS384),
        Algorithm::PS512 => (KeyKind::Rsa, KeyAlgorithm::PS512),
        Algorithm::ES256 => (KeyKind::Curve(EllipticCurve::P256), KeyAlgorithm::ES256),
        Algorithm::ES384 => (KeyKind::Curve(EllipticCurve::P384), KeyAlgorithm::ES384),
        Algorithm::EdDSA => (KeyKind::Curve(EllipticCurve::Ed25519), KeyAlgorithm::EdDSA),
        _ => return None,
    })
}

fn can_verify(key: &Jwk, algorithm: Algorithm) -> bool {
    let Some((needed, name)) = kind_of_key(algorithm) else { return false };
    let kind = match &key.algorithm {
        AlgorithmParameters::RSA(_) => KeyKind::Rsa,
        AlgorithmParameters::EllipticCurve(key) => KeyKind::Curve(key.curve.clone()),
        AlgorithmParameters::OctetKeyPair(key) => KeyKind::Curve(key.curve.clone()),
        _ => return false,
    };
    let is_for_signatures = matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature));
    kind == needed && is_for_signatures && key.common.key_algorithm.is_none_or(|named| named == name)
}

/// Verifies the signature, then the claims.
pub(super) fn verify(
    token: &str,
    header: &Header,
    key: &Jwk,
    expected: &Expected<'_>,
) -> Result<Profile, Failure> {
    let mut signature_only = Validation::new(header.alg);
    // The library's own time checks use the system clock; all claims are checked below.
    signature_only.required_spec_claims.clear();
    signature_only.validate_exp = false;
    signature_only.validate_aud = false;
    let key = DecodingKey::from_jwk(key).map_err(|_| Failure::at(STEP, "the issuer's key is malformed"))?;
    let decoded = jsonwebtoken::decode::<Claims>(token, &key, &signature_only);
    let claims = decoded.map_err(|error| match error.kind() {
        ErrorKind::InvalidSignature => Failure::at(STEP, "its signature is not the issuer's"),
        // The library's own message may quote the claims.
        _ => Failure::at(STEP, "it is malformed"),
    })?;
    let claims = claims.claims;
    claims.check(expected).map_err(|cause| Failure::at(STEP, cause))?;
    match claims.nonce.as_deref() {
        Some(nonce) if nonce == expected.nonce => Ok(claims.profile),
        // The token is valid, so code and verifier belong to different sign-ins.
        Some(_) => Err(Failure::GrantRefused),
        None => Err(Failure::at(STEP, "it has no nonce")),
    }
}

impl Claims {
    fn check(&self, expected: &Expected<'_>) -> Result<(), &'static str> {
        if self.iss != expected.issuer {
            return Err("it is another issuer's");
        }
        let is_this_client = |text: &String| text == expected.client_id;
        let is_for_this_client = match &self.aud {
            Audience::One(audience) => is_this_client(audience),
            // With several audiences, the token must name this client as the authorized party.
            Audience::Many(audiences) => {
                audiences.iter().any(is_this_client) && (audiences.len() == 1 || self.azp.is_some())
            }
        };
        if !is_for_this_client || !self.azp.as_ref().is_none_or(is_this_client) {
            return Err("it is meant for another client");
        }
        if Timestamp::from_seconds(self.exp) + LEEWAY <= expected.now {
            return Err("it has expired");
        }
        if Timestamp::from_seconds(self.iat) > expected.now + LEEWAY {
            return Err("it was issued in the future");
        }
        if !(1..=MAX_SUBJECT).contains(&self.profile.sub.len()) {
            return Err("its subject is empty or too long");
        }
        Ok(())
    }
}
