"""Waits until an object has answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from ._call import Call
from ._config import Config
from ._exchange import Pause, Steps, exchange
from ._generated.records import ObjectAnalysis
from ._records import Record
from .errors import UsageError, WaitTimeoutError

_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 2.0
#: What the last read may take, when the time is up.
_LAST_READ_S: Final = 2.0


def wait_for_answers(
    config: Config,
    object_id: str,
    signals: Sequence[str] | None,
    since: datetime | Record | None,
    timeout: float,
) -> Steps[ObjectAnalysis]:
    """Reads the object until every signal has an answer that is recent enough."""
    if isinstance(signals, str):
        raise UsageError("signals: it must be a list of keys")
    oldest = _moment(since)
    deadline = config.monotonic() + timeout
    call = Call[ObjectAnalysis]("GET", ("v1", "objects", object_id), {200: ObjectAnalysis})
    pause = _FIRST_PAUSE_S
    while True:
        left = max(deadline - config.monotonic(), _LAST_READ_S)
        bounded = left if config.total_timeout is None else min(left, config.total_timeout)
        found = yield from exchange(dataclasses.replace(config, total_timeout=bounded), call)
        pending = _pending(found, signals, oldest)
        if not pending:
            return found
        left = deadline - config.monotonic()
        if left <= 0:
            listed = ", ".join(pending)
            raise WaitTimeoutError(f"no answer of {object_id!r} to {listed} within {timeout:g} s", pending)
        # Not all programs at the same instant.
        yield Pause(min(pause * (0.75 + config.fraction() / 2), left))
        pause = min(pause * 1.5, _LONGEST_PAUSE_S)


def _moment(since: datetime | Record | None) -> datetime | None:
    if isinstance(since, Record):
        since = None if since.http_response is None else since.http_response.date
    if since is not None and since.tzinfo is None:
        raise UsageError("since: a datetime without a time zone is ambiguous: use datetime.now(timezone.utc)")
    return since


def _pending(found: ObjectAnalysis, signals: Sequence[str] | None, oldest: datetime | None) -> list[str]:
    """The signals without an answer that is recent enough."""
    recent = {answer.key for answer in found.analysis if oldest is None or answer.computed_at >= oldest}
    wanted = signals or [*found.pending, *(answer.key for answer in found.analysis)]
    return [key for key in wanted if key not in recent]
