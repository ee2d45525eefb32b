"""Groups events by object into requests. Free of input and output, threads and clocks."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ._call import Call, encode, new_idempotency_key
from ._config import Config
from ._exchange import Pause, Steps, exchange
from ._generated.records import IngestAccepted
from ._retry import Failure, backoff, is_transient
from .errors import APIConnectionError, AuspexError, BadRequestError, PayloadTooLargeError

#: What the service takes in one request.
MAX_EVENTS = 500
MAX_BYTES = 4 * 1024 * 1024 - 64 * 1024


@dataclass(frozen=True)
class Limits:
    """When a batch is sent, and how much may wait."""

    max_batch_events: int
    max_batch_bytes: int
    max_delay: float
    max_pending_events: int
    max_pending_bytes: int


@dataclass
class Batch:
    """Events of one object that are sent in one request."""

    object_id: str
    object_type: str | None
    opened_at: float
    events: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    key: str = field(default_factory=new_idempotency_key)

    def call(self) -> Call[IngestAccepted]:
        head = b"" if self.object_type is None else b'"object_type":' + encode(self.object_type) + b","
        body = b"{" + head + b'"events":[' + b",".join(self.events) + b"]}"
        path = ("v1", "objects", self.object_id, "events")
        return Call[IngestAccepted](
            "POST", path, {202: IngestAccepted}, body=body, idempotency_key=self.key, repeatable=True
        )

    def halves(self) -> list[Batch]:
        """The batch in two, each with a key of its own."""
        middle = len(self.events) // 2
        parts = (self.events[:middle], self.events[middle:])
        return [
            dataclasses.replace(self, events=part, size=sum(map(len, part)), key=new_idempotency_key())
            for part in parts
        ]


class Batches:
    """All events that wait or are being sent."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # The batch of each object that takes events, oldest first.
        self._open: OrderedDict[str, Batch] = OrderedDict()
        self._full: deque[Batch] = deque()
        self._sending: dict[str, Batch] = {}
        self.pending_events = 0
        self.pending_bytes = 0

    def has_room_for(self, size: int) -> bool:
        """Whether another event may wait. A single one always may."""
        if self.pending_events == 0:
            return True
        limits = self._limits
        return self.pending_events < limits.max_pending_events and self.pending_bytes + size <= limits.max_pending_bytes

    def add(self, object_id: str, object_type: str | None, event: bytes, now: float) -> bool:
        """Adds an event to the batch of its object; returns whether a batch was opened or filled by it."""
        before = len(self._open), len(self._full)
        batch = self._open.get(object_id)
        if batch is not None and not self._takes(batch, object_type, len(event)):
            self._fill(batch)
            batch = None
        if batch is None:
            batch = self._open[object_id] = Batch(object_id, object_type, now)
        batch.object_type = batch.object_type or object_type
        batch.events.append(event)
        batch.size += len(event) + 1
        self.pending_events += 1
        self.pending_bytes += len(event) + 1
        if len(batch.events) >= self._limits.max_batch_events or batch.size >= self._limits.max_batch_bytes:
            self._fill(batch)
        return before != (len(self._open), len(self._full))

    def _takes(self, batch: Batch, object_type: str | None, size: int) -> bool:
        same_type = object_type is None or batch.object_type is None or object_type == batch.object_type
        return same_type and batch.size + size < self._limits.max_batch_bytes

    def _fill(self, batch: Batch) -> None:
        del self._open[batch.object_id]
        self._full.append(batch)

    def next_due(self) -> float | None:
        """When the next batch that can be sent has waited long enough."""
        return next((batch.opened_at + self._limits.max_delay for batch in self._free_and_open()), None)

    def take(self, now: float, at_once: bool = False, make_room: bool = False) -> Batch | None:
        """Takes a batch to send. Of one object, one at a time: its events arrive in order.

        A batch takes events until it is full or taken. Full ones go first, then those that have waited long enough, or all of
        them (`at_once`), or the largest (`make_room`).
        """
        chosen = next((batch for batch in self._full if batch.object_id not in self._sending), None)
        if chosen is not None:
            self._full.remove(chosen)
        else:
            chosen = self._choose_open(now, at_once, make_room)
            if chosen is None:
                return None
            del self._open[chosen.object_id]
        self._sending[chosen.object_id] = chosen
        return chosen

    def _choose_open(self, now: float, at_once: bool, make_room: bool) -> Batch | None:
        oldest = next(self._free_and_open(), None)
        if oldest is None or at_once or now >= oldest.opened_at + self._limits.max_delay:
            return oldest
        return max(self._free_and_open(), key=lambda batch: batch.size) if make_room else None

    def _free_and_open(self) -> Iterator[Batch]:
        """Open batches whose object has nothing else on the way, oldest first."""
        waiting = {batch.object_id for batch in self._full}
        for batch in self._open.values():
            if batch.object_id not in self._sending and batch.object_id not in waiting:
                yield batch

    def done(self, batch: Batch) -> None:
        """The batch was delivered or given up."""
        del self._sending[batch.object_id]
        self.pending_events -= len(batch.events)
        self.pending_bytes -= batch.size

    def drain(self) -> list[Batch]:
        """Takes everything that is not done."""
        left = [*self._sending.values(), *self._full, *self._open.values()]
        self._sending.clear()
        self._full.clear()
        self._open.clear()
        self.pending_events = self.pending_bytes = 0
        return left

    def outstanding(self) -> set[str]:
        """The keys of all batches that are not done."""
        return {batch.key for batch in (*self._open.values(), *self._full, *self._sending.values())}


@dataclass(frozen=True)
class FailedBatch:
    """Events of one object that could not be delivered."""

    object_id: str
    object_type: str | None
    events: Sequence[bytes]
    """Each event as JSON."""
    error: AuspexError
    """Why."""


def deliver(config: Config, batch: Batch, retry_for: float) -> Steps[list[FailedBatch]]:
    """Sends a batch, for as long as it may help; returns what could not be delivered."""
    give_up_at, rounds = config.monotonic() + retry_for, 0
    while True:
        try:
            yield from exchange(config, batch.call())
            return []
        except (BadRequestError, PayloadTooLargeError) as error:
            if len(batch.events) == 1:
                return [failed_batch(batch, error)]
            break
        except AuspexError as error:
            rounds += 1
            delay = max(backoff(1.0, rounds, config.fraction()), error.retry_after or 0.0)
            if error.events_recorded:
                return []
            if not _is_temporary(error) or config.monotonic() + delay > give_up_at:
                return [failed_batch(batch, error)]
            yield Pause(delay)
    # One event is invalid, and must not take the others with it.
    failed: list[FailedBatch] = []
    for half in batch.halves():
        failed += yield from deliver(config, half, retry_for)
    return failed


def _is_temporary(error: AuspexError) -> bool:
    if isinstance(error, APIConnectionError):
        return True
    return error.status is not None and is_transient(Failure(error.status), repeatable=True)


def failed_batch(batch: Batch, error: AuspexError) -> FailedBatch:
    """A batch that could not be delivered."""
    return FailedBatch(batch.object_id, batch.object_type, tuple(batch.events), error)
