//! A request's body, which is taken to its end also where nobody reads it.
//!
//! An endpoint may answer before a body has arrived: it takes none, or it has seen enough to refuse. To hang up on a client
//! that still sends makes its system throw away the answer with the connection. So the rest is taken and thrown away.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::{Request, Version, header};
use tokio::runtime::Handle;

use super::extract::MAX_BODY_BYTES;

/// What is thrown away at most: twice what is read at most. Whoever sends more is hung up on.
const MAX_UNREAD_BYTES: usize = 2 * MAX_BODY_BYTES;
/// How long the rest may take.
const REST_TIMEOUT: Duration = Duration::from_secs(5);

/// A body that is read by a handler, and what is left of it by nobody.
pub(super) struct RequestBody {
    /// Until its end has been seen.
    arriving: Option<Incoming>,
    /// Whether the rest comes unasked.
    comes_by_itself: bool,
}

impl RequestBody {
    /// Wraps the body of a request.
    pub(super) fn of(request: Request<Incoming>) -> Request<Self> {
        // Later versions end one request without ending the others; who expects to be asked sends nothing before.
        let comes_by_itself =
            request.version() <= Version::HTTP_11 && !request.headers().contains_key(header::EXPECT);
        request.map(|body| Self { arriving: Some(body), comes_by_itself })
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.arriving else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.arriving = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.arriving.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.arriving.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let rest = self.arriving.take().filter(|body| self.comes_by_itself && !body.is_end_stream());
        if let (Some(rest), Ok(runtime)) = (rest, Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(REST_TIMEOUT, throw_away(rest)));
        }
    }
}

/// Takes what is left of a body, a piece at a time.
async fn throw_away(body: Incoming) {
    let mut rest = Limited::new(body, MAX_UNREAD_BYTES);
    while let Some(Ok(_)) = rest.frame().await {}
}
