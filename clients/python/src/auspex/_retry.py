"""Decides whether a call is retried, and after what delay. Pure."""

from __future__ import annotations

from dataclasses import dataclass

#: The longest delay without a `Retry-After`, in seconds.
MAX_DELAY_S = 10.0


@dataclass(frozen=True)
class Failure:
    """How an attempt failed."""

    status: int | None = None
    """The status of an error response; `None` if there was none."""
    connected: bool = True
    """Whether the request may have reached the service."""
    retry_after: float | None = None
    events_recorded: bool = False


@dataclass(frozen=True)
class Retries:
    """The retry settings of a client."""

    limit: int = 4
    first_delay: float = 0.25
    max_retry_after: float = 60.0

    def delay(self, attempts: int, repeatable: bool, failure: Failure, fraction: float) -> float | None:
        """The delay in seconds after this many attempts; `None` to give up. `fraction` is random, from 0 to 1."""
        if attempts > self.limit or not is_transient(failure, repeatable):
            return None
        delay = backoff(self.first_delay, attempts, fraction)
        if failure.retry_after is None:
            return delay
        if failure.retry_after > self.max_retry_after:
            return None
        # Not earlier than asked, and not all clients at the same instant.
        return failure.retry_after + delay


def is_transient(failure: Failure, repeatable: bool) -> bool:
    """Whether another attempt may help, and does no harm."""
    if failure.events_recorded:
        # Sending them again would result in a conflict at best.
        return False
    if failure.status is None:
        return repeatable or not failure.connected
    if failure.status == 429 or (failure.status == 503 and failure.retry_after is not None):
        # The request was not processed.
        return True
    return repeatable and failure.status in (408, 500, 502, 503, 504)


def backoff(first: float, attempts: int, fraction: float) -> float:
    """Doubles with each attempt up to a limit; up to half of it is random."""
    whole = min(first * 2.0 ** min(attempts - 1, 30), MAX_DELAY_S)
    return whole * (0.5 + fraction / 2)
