//! The console: the files that its build has made, embedded in the binary.
//!
//! Its pages are addresses under `/console/` that its script knows, so every path there that is no file is answered with its
//! index. Files under `assets/` have a hash in their names and never change.

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use service::{Error, Kind};
use sha2::{Digest as _, Sha256};

use super::App;
use super::envelope::Refusal;

/// One file of the console, as its build script has found it.
struct EmbeddedFile {
    /// Its path in the build, such as `assets/index-4f2a.js`.
    path: &'static str,
    bytes: &'static [u8],
    /// The same, compressed with Brotli.
    brotli: Option<&'static [u8]>,
    /// The same, compressed with gzip.
    gzip: Option<&'static [u8]>,
}

// `FILES`, sorted by path.
include!(concat!(env!("OUT_DIR"), "/console_files.rs"));

const INDEX: &str = "index.html";
/// Files that have a hash in their names.
const ASSETS: &str = "assets/";
const FOREVER: &str = "public, max-age=31536000, immutable";
/// To be asked for again each time; the answer is short if it has not changed.
const REVALIDATE: &str = "no-cache";
/// Pages may only load from and talk to this service, and run nothing inline.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
                      form-action 'self'; frame-ancestors 'none'";

/// Serves the console at `/` and under `/console/`.
pub(super) fn routes() -> Router<App> {
    let index = get(index);
    Router::new()
        .route("/", index.clone())
        .route("/console", index.clone())
        .route("/console/", index)
        .route("/console/{*path}", get(page_or_file))
}

/// The page whose script shows whatever the address names.
pub(super) async fn index(headers: HeaderMap) -> Response {
    serve(&headers, INDEX)
}

async fn page_or_file(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().strip_prefix("/console/").unwrap_or_default();
    // A page of an earlier release asks for files that are gone: an index in their place would only confuse it.
    let is_page = find(path).is_none() && !path.starts_with(ASSETS);
    serve(&headers, if is_page { INDEX } else { path })
}

fn find(path: &str) -> Option<&'static EmbeddedFile> {
    FILES.binary_search_by(|file| file.path.cmp(path)).ok().and_then(|at| FILES.get(at))
}

fn serve(request: &HeaderMap, path: &str) -> Response {
    let Some(file) = find(path) else {
        return Refusal(Error::new(Kind::NotFound, "there is no such file")).into_response();
    };
    let tag = tag_of(file);
    let caching = if file.path.starts_with(ASSETS) { FOREVER } else { REVALIDATE };
    let headers = [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::CACHE_CONTROL, HeaderValue::from_static(caching)),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
        (header::ETAG, HeaderValue::from_str(&tag).unwrap_or_else(|_| HeaderValue::from_static("\"\""))),
    ];
    let known = request.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if known.split(',').any(|candidate| candidate.trim() == tag) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type(file.path)))];
    match encoded(file, request) {
        Some((encoding, bytes)) => {
            let encoding = [(header::CONTENT_ENCODING, HeaderValue::from_static(encoding))];
            (headers, kind, encoding, bytes).into_response()
        }
        None => (headers, kind, file.bytes).into_response(),
    }
}

/// Weak, because the same file is sent in several encodings.
fn tag_of(file: &EmbeddedFile) -> String {
    let hash = Sha256::digest(file.bytes);
    format!("W/\"{}\"", hex::encode(&hash[..16]))
}

/// The smallest form of a file that the client takes, if it is compressed.
fn encoded(file: &EmbeddedFile, request: &HeaderMap) -> Option<(&'static str, &'static [u8])> {
    [("br", file.brotli), ("gzip", file.gzip)]
        .into_iter()
        .find_map(|(name, bytes)| bytes.filter(|_| accepts(request, name)).map(|bytes| (name, bytes)))
}

/// Whether a client takes an encoding: it names it, and not with a weight of zero.
fn accepts(request: &HeaderMap, encoding: &str) -> bool {
    let values = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut choices = values.flat_map(|value| value.split(','));
    choices.any(|choice| {
        let (name, weight) = choice.split_once(';').unwrap_or((choice, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case(encoding) && weight.is_some_and(|weight| weight > 0.0)
    })
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "txt" => "text/plain; charset=utf-8",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(accept_encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accept_encoding))])
    }

    #[test]
    fn the_smallest_form_that_the_client_takes_is_sent() {
        let file =
            EmbeddedFile { path: "a.js", bytes: b"plain", brotli: Some(b"brotli"), gzip: Some(b"gzip") };
        let sent = |accept| encoded(&file, &request(accept)).map(|(name, _)| name);
        assert_eq!(sent("gzip, deflate, br, zstd"), Some("br"));
        assert_eq!(sent("gzip;q=1.0, br;q=0"), Some("gzip"));
        assert_eq!(sent("GZIP"), Some("gzip"));
        assert_eq!(sent("identity"), None);
        assert_eq!(sent(""), None);
        assert_eq!(encoded(&file, &HeaderMap::new()), None);
        assert_eq!(encoded(&EmbeddedFile { brotli: None, gzip: None, ..file }, &request("br, gzip")), None);
    }

    #[test]
    fn files_are_sorted_and_the_index_is_one_of_them() {
        assert!(FILES.is_sorted_by(|one, next| one.path < next.path));
        assert!(find(INDEX).is_some(), "console/dist has an index");
    }
}
