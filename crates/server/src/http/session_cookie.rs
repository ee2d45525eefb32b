//! Console sessions in a cookie: how a browser holds one without any script being able to read it.
//!
//! Programs get the token in the body and send it as `Authorization: Bearer`, which stays the default.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::config::Environment;

/// How a client asks for a cookie.
pub(super) const SESSION_HEADER: HeaderName = HeaderName::from_static("x-auspex-session");

/// The name and the attributes of the cookie that carries a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionCookie {
    /// Whether browsers may send it over https only. Development has no https.
    is_secure: bool,
}

impl SessionCookie {
    pub(crate) fn new(env: Environment) -> Self {
        Self { is_secure: env == Environment::Production }
    }

    fn name(self) -> &'static str {
        // Browsers take a `__Host-` cookie only from the host itself: a page of a sibling domain cannot plant one.
        if self.is_secure { "__Host-auspex" } else { "auspex" }
    }

    /// The token in the cookie of a request. Of several cookies of the name the first counts.
    pub(super) fn read(self, headers: &HeaderMap) -> Option<&str> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut cookies = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
        cookies.find(|(name, _)| name.trim() == self.name()).map(|(_, value)| value.trim())
    }

    /// The header that stores a token for as long as it is valid.
    pub(super) fn store(self, token: &str, lifetime: Duration) -> HeaderValue {
        self.header(token, lifetime.as_secs())
    }

    /// The header that removes the cookie.
    pub(super) fn clear(self) -> HeaderValue {
        self.header("", 0)
    }

    fn header(self, value: &str, max_age: u64) -> HeaderValue {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let name = self.name();
        let text = format!("{name}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Strict{secure}");
        // Tokens are letters, digits, hyphens and underscores.
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVELOPMENT: SessionCookie = SessionCookie { is_secure: false };
    const PRODUCTION: SessionCookie = SessionCookie { is_secure: true };

    fn read(cookie: SessionCookie, lines: &[&'static str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::COOKIE, HeaderValue::from_static(line));
        }
        cookie.read(&headers).map(str::to_owned)
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        assert_eq!(read(DEVELOPMENT, &["theme=dark; auspex=ct_1; x=y"]).as_deref(), Some("ct_1"));
        assert_eq!(read(DEVELOPMENT, &["theme=dark", "auspex=ct_1"]).as_deref(), Some("ct_1"));
        assert_eq!(read(PRODUCTION, &["auspex=ct_0; __Host-auspex=ct_1"]).as_deref(), Some("ct_1"));
        assert_eq!(read(PRODUCTION, &["auspex=ct_0"]), None, "anybody on the network can plant this one");
        assert_eq!(read(DEVELOPMENT, &["auspex", "; ;=;", "xauspex=ct_1"]), None);
    }

    #[test]
    fn no_script_and_no_other_site_gets_the_cookie() {
        let day = Duration::from_hours(24);
        assert_eq!(
            PRODUCTION.store("ct_1", day),
            "__Host-auspex=ct_1; Path=/; Max-Age=86400; HttpOnly; SameSite=Strict; Secure"
        );
        assert_eq!(
            DEVELOPMENT.store("ct_1", day),
            "auspex=ct_1; Path=/; Max-Age=86400; HttpOnly; SameSite=Strict"
        );
        assert_eq!(
            PRODUCTION.clear(),
            "__Host-auspex=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure"
        );
    }
}
