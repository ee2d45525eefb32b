"""Sends events in the background, many to a request: one ingester with threads, one with tasks."""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

import anyio
import anyio.abc

from ._batches import MAX_BYTES, MAX_EVENTS, Batch, Batches, FailedBatch, Limits, deliver, failed_batch
from ._call import encode
from ._caller import AsyncCaller, Caller
from ._exchange import Outcome, Steps
from ._generated.inputs import EventInput
from .errors import AuspexError, IngestError, UsageError

OnError = Callable[[FailedBatch], None]
Self = TypeVar("Self", bound="Ingester")
AsyncSelf = TypeVar("AsyncSelf", bound="AsyncIngester")
T = TypeVar("T")

logger = logging.getLogger("auspex")

#: How many seconds `close` waits for the calls of `on_error` that have begun when its time is over.
REPORT_SECONDS = 1.0


@dataclass(frozen=True)
class IngesterOptions:
    """The options of an ingester; `Auspex.ingester` has the defaults."""

    max_batch_events: int
    max_batch_bytes: int
    max_delay: float
    max_pending_events: int
    max_pending_bytes: int
    max_in_flight: int
    retry_for: float
    close_timeout: float
    on_error: OnError | None

    def __post_init__(self) -> None:
        if not 1 <= self.max_batch_events <= MAX_EVENTS:
            raise UsageError(f"max_batch_events: it must be from 1 to {MAX_EVENTS}")
        if not 1 <= self.max_batch_bytes <= MAX_BYTES:
            raise UsageError(f"max_batch_bytes: it must be from 1 to {MAX_BYTES}")
        if min(self.max_pending_events, self.max_pending_bytes, self.max_in_flight) < 1:
            raise UsageError("max_pending_events, max_pending_bytes and max_in_flight must be 1 or more")
        if min(self.max_delay, self.retry_for, self.close_timeout) < 0:
            raise UsageError("max_delay, retry_for and close_timeout must not be negative")


class _Ingest:
    """What both ingesters share: the batches, and what failed."""

    def __init__(self, options: IngesterOptions) -> None:
        self._options = options
        self._batches = Batches(
            Limits(
                options.max_batch_events,
                options.max_batch_bytes,
                options.max_delay,
                options.max_pending_events,
                options.max_pending_bytes,
            )
        )
        self._failed_events = 0
        self._failures: list[FailedBatch] = []
        self._last_failure: FailedBatch | None = None
        # The keys of batches whose outcome is known and just being reported.
        self._settled: set[str] = set()
        self._closing = False
        # How many callers wait for a flush: open batches are then sent at once.
        self._flushing = 0
        # How many callers wait for room: what makes most room is then sent before it is due.
        self._waiting = 0

    @property
    def pending_events(self) -> int:
        """How many events wait or are being sent."""
        return self._batches.pending_events

    def _take(self) -> Batch | None:
        at_once = self._closing or self._flushing > 0
        return self._batches.take(time.monotonic(), at_once, make_room=self._waiting > 0)

    def _time_left(self) -> float | None:
        due = self._batches.next_due()
        # Clamped, because a lock cannot wait for longer.
        return None if due is None else min(max(due - time.monotonic(), 0.0), threading.TIMEOUT_MAX)

    def _report(self, failures: list[FailedBatch]) -> None:
        for failure in failures:
            if self._options.on_error is None:
                self._failed_events += len(failure.events)
                self._last_failure = failure
                # Bounded like what waits: a program that ignores failures must not run out of memory by them. What is left
                # when it is closed is bounded already.
                if self._closing or self._failed_events <= self._options.max_pending_events:
                    self._failures.append(failure)
                logger.error(
                    "%d events of %s were not delivered: %s", len(failure.events), failure.object_id, failure.error
                )
                continue
            try:
                self._options.on_error(failure)
            except Exception:
                logger.exception("on_error of the ingester failed")

    def _raise_failures(self) -> None:
        if self._last_failure is not None:
            count, last, failures = self._failed_events, self._last_failure, self._failures
            self._failed_events, self._last_failure, self._failures = 0, None, []
            message = f"{count} events were not delivered; the last error: {last.error}"
            raise IngestError(message, count, failures) from last.error

    def _give_up(self) -> list[FailedBatch]:
        """Takes everything that is left, to be reported."""
        error = AuspexError(f"not delivered within {self._options.close_timeout:g} s after close")
        left = [batch for batch in self._batches.drain() if batch.key not in self._settled]
        return [failed_batch(batch, error) for batch in left]

    def _check_open(self) -> None:
        if self._closing:
            raise UsageError("the ingester is closed")


class Ingester(_Ingest):
    """Sends events in the background. Use it as a context manager: leaving it delivers everything.

    Events are grouped by object, and sent when there are `max_batch_events` or `max_batch_bytes` of them, or after
    `max_delay` seconds. Of one object they arrive in the order in which they were given. `send` blocks while `max_pending_events`
    or `max_pending_bytes` wait. Temporary failures are retried for `retry_for` seconds, and closing takes at most `close_timeout`
    seconds. What cannot be delivered is given to `on_error`, or raised as `IngestError`, with the events, when the ingester is
    closed. What was being sent when the time was over may have been recorded all the same. Safe to use from several threads.
    """

    def __init__(self, caller: Caller, options: IngesterOptions) -> None:
        super().__init__(options)
        self._caller = caller
        self._changed = threading.Condition()
        self._workers: list[threading.Thread] = []
        self._given_up = False
        # A program that forgets to close it loses nothing either.
        self._at_exit = _close_at_exit(self)

    def send(self, object_id: str, event: EventInput, *, object_type: str | None = None) -> None:
        """Hands over an event; blocks while too much waits."""
        encoded = _checked(object_id, event)
        with self._changed:
            self._check_open()
            self._waiting += 1
            try:
                while not self._batches.has_room_for(len(encoded)):
                    self._changed.notify_all()
                    self._changed.wait()
                    self._check_open()
            finally:
                self._waiting -= 1
            if self._batches.add(object_id, object_type, encoded, time.monotonic()):
                if len(self._workers) < self._options.max_in_flight:
                    self._start_worker()
                self._changed.notify_all()

    def flush(self) -> None:
        """Waits until everything that was handed over so far is delivered or given up."""
        with self._changed:
            waiting = self._batches.outstanding()
            self._flushing += 1
            try:
                self._changed.notify_all()
                while waiting & self._batches.outstanding():
                    self._changed.wait()
            finally:
                self._flushing -= 1

    def close(self) -> None:
        """Delivers everything and ends, within `close_timeout`. Raises `IngestError` if something failed and there is no `on_error`.

        What is left when the time is over is given to `on_error` from the thread that closes. Calls of `on_error` that have begun
        by then are waited for, for up to a second more.
        """
        left: list[FailedBatch] = []
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            if not self._wait_for(lambda: self._batches.pending_events == 0, self._options.close_timeout):
                # Workers that wait for a response or to try again end once they see this; nobody waits for them.
                self._given_up = True
                self._changed.notify_all()
                left = self._give_up()
                # Only for those that know the outcome and are reporting it; not forever, because `on_error` may not return.
                self._wait_for(lambda: not self._settled, REPORT_SECONDS)
        # Without the lock: `on_error` may need a lock of the program, held by a thread that calls `send`.
        self._report(left)
        if not self._given_up:
            for worker in self._workers:
                worker.join()
        atexit.unregister(self._at_exit)
        self._raise_failures()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for(self, holds: Callable[[], bool], timeout: float) -> bool:
        """Waits, with the lock, until a condition holds; returns whether it does."""
        return self._changed.wait_for(holds, min(timeout, threading.TIMEOUT_MAX))

    def _start_worker(self) -> None:
        # Not before there is work for it. A daemon, so that the interpreter reaches its exit handlers.
        worker = threading.Thread(target=self._work, name="auspex-ingester", daemon=True)
        self._workers.append(worker)
        worker.start()

    def _work(self) -> None:
        while True:
            with self._changed:
                batch = self._take()
                while batch is None:
                    if self._closing and self._batches.pending_events == 0:
                        return
                    self._changed.wait(self._time_left())
                    batch = self._take()
            steps = deliver(self._caller._config, batch, self._options.retry_for)
            try:
                failures = self._caller._run(self._until_given_up(steps))
            except Exception as error:
                failures = [_crashed(batch, error)]
            with self._changed:
                if self._given_up:
                    # It is reported already.
                    return
                self._settled.add(batch.key)
            self._report(failures)
            with self._changed:
                self._settled.discard(batch.key)
                if not self._given_up:
                    self._batches.done(batch)
                self._changed.notify_all()

    def _until_given_up(self, steps: Steps[T]) -> Steps[T]:
        """The same steps, but none once the ingester has given up: what it has reported must not be sent."""
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if self._given_up:
                raise AuspexError("the ingester has given up")
            outcome = yield step


class AsyncIngester(_Ingest):
    """Sends events in the background of a task. Use it with `async with`: leaving it delivers everything.

    See `Ingester`, which has the same options; here `send` is awaited while too much waits.
    """

    def __init__(self, caller: AsyncCaller, options: IngesterOptions) -> None:
        super().__init__(options)
        self._caller = caller
        self._changed = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None

    async def send(self, object_id: str, event: EventInput, *, object_type: str | None = None) -> None:
        """Hands over an event; waits while too much waits."""
        encoded = _checked(object_id, event)
        if self._tasks is None:
            raise UsageError("use the ingester with `async with`")
        self._check_open()
        self._waiting += 1
        try:
            while not self._batches.has_room_for(len(encoded)):
                self._notify()
                await self._changed.wait()
                self._check_open()
        finally:
            self._waiting -= 1
        if self._batches.add(object_id, object_type, encoded, time.monotonic()):
            self._notify()

    async def flush(self) -> None:
        """Waits until everything that was handed over so far is delivered or given up."""
        waiting = self._batches.outstanding()
        self._flushing += 1
        try:
            self._notify()
            while waiting & self._batches.outstanding():
                await self._changed.wait()
        finally:
            self._flushing -= 1

    async def __aenter__(self: AsyncSelf) -> AsyncSelf:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        for _ in range(self._options.max_in_flight):
            self._tasks.start_soon(self._work)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        self._closing = True
        self._notify()
        self._tasks.cancel_scope.deadline = anyio.current_time() + self._options.close_timeout
        # Not the error itself: it would cancel the workers, which still have events to deliver.
        await self._tasks.__aexit__(None, None, None)
        if self._batches.pending_events > 0:
            self._report(self._give_up())
            self._notify()
        if error is None:
            self._raise_failures()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _work(self) -> None:
        while True:
            batch = self._take()
            if batch is None:
                if self._closing and self._batches.pending_events == 0:
                    return
                with anyio.move_on_after(self._time_left()):
                    await self._changed.wait()
                continue
            try:
                failures = await self._caller._run(deliver(self._caller._config, batch, self._options.retry_for))
            except Exception as error:
                failures = [_crashed(batch, error)]
            # Not where it was cancelled: then the batch is still to be delivered or reported.
            self._report(failures)
            self._batches.done(batch)
            self._notify()


def _checked(object_id: str, event: EventInput) -> bytes:
    if object_id in ("", ".", ".."):
        raise UsageError("object_id: it must not be empty, `.` or `..`")
    return encode(event)


def _crashed(batch: Batch, error: Exception) -> FailedBatch:
    """What failed in a way that is no error of a call, such as a client that was closed before its ingester."""
    reason = AuspexError(f"the events could not be sent: {error}")
    reason.__cause__ = error
    return FailedBatch(batch.object_id, batch.object_type, tuple(batch.events), reason)


def _close_at_exit(ingester: Ingester) -> Callable[[], None]:
    reference = weakref.ref(ingester)

    def close() -> None:
        found = reference()
        if found is not None:
            found.close()

    atexit.register(close)
    return close
