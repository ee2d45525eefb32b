//! A request body that is always read to its end, even if the handler does not read it.
//!
//! A handler may respond before the body has arrived: it needs none, or has already found an error. Closing the connection
//! while the client is still sending would make the client lose the response. So the rest of the body is read and discarded.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::{Request, Version, header};
use tokio::runtime::Handle;

use super::extract::MAX_BODY_BYTES;

/// The most that is discarded, twice the largest body. If the client sends more, the connection is closed.
const MAX_UNREAD_BYTES: usize = 2 * MAX_BODY_BYTES;
/// How long discarding the rest may take.
const REST_TIMEOUT: Duration = Duration::from_secs(5);

/// A request body whose unread rest is discarded when it is dropped.
pub(super) struct RequestBody {
    /// `None` once its end has been read.
    incoming: Option<Incoming>,
    /// Whether the client sends the rest without being asked.
    is_unsolicited: bool,
}

impl RequestBody {
    /// Wraps the body of a request.
    pub(super) fn of(request: Request<Incoming>) -> Request<Self> {
        // HTTP/2 can end one request without closing the connection; a client that sends `Expect` waits for the go-ahead.
        let is_unsolicited =
            request.version() <= Version::HTTP_11 && !request.headers().contains_key(header::EXPECT);
        request.map(|body| Self { incoming: Some(body), is_unsolicited })
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.incoming else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.incoming = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let rest = self.incoming.take().filter(|body| self.is_unsolicited && !body.is_end_stream());
        if let (Some(rest), Ok(runtime)) = (rest, Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(REST_TIMEOUT, discard(rest)));
        }
    }
}

/// Reads the rest of a body, frame by frame.
async fn discard(body: Incoming) {
    let mut rest = Limited::new(body, MAX_UNREAD_BYTES);
    while let Some(Ok(_)) = rest.frame().await {}
}
