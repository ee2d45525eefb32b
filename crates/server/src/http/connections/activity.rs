//! Whether a connection is in use: who waits for whom, and since when.
//!
//! A connection is busy while the service works for it: a handler runs, or a response's next frame is not ready yet. At all
//! other times the client is expected to act: to send a head, to take a response, to ask again. It has a limited time for
//! that, whatever the protocol, and whatever else it sends meanwhile.

use std::io::{Error, IoSlice, Result};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::Response;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A client that takes a response slowly is given this many times the idle limit in all.
const SLOW_READER_LIMITS: u32 = 10;

/// What goes on at one connection.
pub(super) struct Activity {
    state: Mutex<State>,
    /// Notified when the connection is no longer busy.
    is_free: Notify,
}

struct State {
    /// Handlers that run, and responses whose next frame is not ready yet.
    busy: usize,
    /// Since when it is the client's turn, if nothing is busy.
    waiting_since: Instant,
    /// Whether the last write did not fit into the socket's buffer.
    is_write_blocked: bool,
    last_write: Instant,
}

/// Work of the service for a connection, until it is dropped.
pub(super) struct Busy(Arc<Activity>);

impl Activity {
    /// A connection that has just been accepted.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let state = State { busy: 0, waiting_since: now, is_write_blocked: false, last_write: now };
        Self { state: Mutex::new(state), is_free: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the start of work for the connection.
    pub(super) fn begin(this: &Arc<Self>) -> Busy {
        this.state().busy += 1;
        Busy(Arc::clone(this))
    }

    /// Returns once the client has not done for `limit` what it is expected to do.
    pub(super) async fn idle(&self, limit: Duration) {
        loop {
            let deadline = self.state().deadline(limit);
            match deadline {
                None => self.is_free.notified().await,
                Some(deadline) if deadline <= Instant::now() => return,
                Some(deadline) => sleep_until(deadline).await,
            }
        }
    }

    fn wrote(&self, outcome: &Poll<Result<usize>>) {
        let mut state = self.state();
        state.is_write_blocked = outcome.is_pending();
        if outcome.is_ready() {
            state.last_write = Instant::now();
        }
    }
}

impl State {
    /// When the connection is to be ended; none while it is busy.
    fn deadline(&self, limit: Duration) -> Option<Instant> {
        if self.busy > 0 {
            return None;
        }
        let usual = self.waiting_since + limit;
        if !self.is_write_blocked {
            return Some(usual);
        }
        // A response goes to a slow client: each part that it takes gives it more time.
        let last = self.waiting_since + limit * SLOW_READER_LIMITS;
        Some((self.last_write + limit).min(last).max(usual))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.busy -= 1;
        state.waiting_since = Instant::now();
        drop(state);
        self.0.is_free.notify_one();
    }
}

/// A response's body. The connection is busy while the service has not made its next frame.
pub(super) struct ResponseBody {
    body: Body,
    activity: Arc<Activity>,
    busy: Option<Busy>,
}

impl ResponseBody {
    /// Wraps the body of a response whose handler was `busy` until now.
    pub(super) fn of(response: Response<Body>, busy: Busy) -> Response<Self> {
        let activity = Arc::clone(&busy.0);
        response.map(|body| Self { body, activity, busy: None })
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_ready() {
            self.busy = None;
        } else if self.busy.is_none() {
            self.busy = Some(Activity::begin(&self.activity));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A socket that notes whether it takes what is written.
pub(super) struct WatchedStream {
    stream: TcpStream,
    activity: Arc<Activity>,
}

impl WatchedStream {
    pub(super) fn new(stream: TcpStream, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::result::Result<usize, Error>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.activity.wrote(&outcome);
        outcome
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<std::result::Result<usize, Error>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.activity.wrote(&outcome);
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_gets_more_time_with_each_part_but_not_for_ever() {
        let activity = Activity::new();
        let accepted = Instant::now();
        let due_after = |activity: &Activity| activity.state().deadline(LIMIT).unwrap() - accepted;
        assert_eq!(due_after(&activity), LIMIT);
        tokio::time::advance(LIMIT / 2).await;
        activity.wrote(&Poll::Ready(Ok(1)));
        assert_eq!(due_after(&activity), LIMIT, "everything fits: nothing is left to be taken");
        activity.wrote(&Poll::Pending);
        assert_eq!(due_after(&activity), LIMIT / 2 + LIMIT);
        tokio::time::advance(LIMIT * 9).await;
        activity.wrote(&Poll::Ready(Ok(1)));
        activity.wrote(&Poll::Pending);
        assert_eq!(due_after(&activity), LIMIT * 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_not_idle_while_the_service_works_for_it() {
        let activity = Arc::new(Activity::new());
        let busy = Activity::begin(&activity);
        tokio::time::advance(LIMIT * 2).await;
        assert!(tokio::time::timeout(LIMIT * 2, activity.idle(LIMIT)).await.is_err());
        let ended = Instant::now();
        drop(busy);
        activity.idle(LIMIT).await;
        assert_eq!(ended.elapsed().as_secs(), LIMIT.as_secs());
    }
}
