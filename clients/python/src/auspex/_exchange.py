"""A call with its attempts, free of input and output.

Everything that takes time is yielded as a step, and whoever runs the generator sends back what came of it. So the same logic
serves the synchronous and the asynchronous client.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from ._call import Call
from ._config import AttemptInfo, Config, user_agent
from ._records import Record, decoder
from ._response import ResponseInfo
from ._retry import Failure
from ._signing import token
from .errors import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AuspexError,
    UnreadableResponseError,
)

T = TypeVar("T")

logger = logging.getLogger("auspex")


@dataclass(frozen=True)
class Attempt:
    """A step: send this request."""

    method: str
    url: str
    headers: dict[str, str]
    content: bytes | None
    timeout: float


@dataclass(frozen=True)
class Pause:
    """A step: wait for this many seconds."""

    seconds: float


@dataclass(frozen=True)
class Reply:
    """What came of an attempt: a response."""

    info: ResponseInfo
    body: bytes


@dataclass(frozen=True)
class Broken:
    """What came of an attempt: no response."""

    reason: str
    connected: bool
    timed_out: bool


Step = Attempt | Pause
Outcome = Reply | Broken | None
Steps = Generator[Step, Outcome, T]


def exchange(config: Config, call: Call[T]) -> Steps[T]:
    """Makes a call, retries it while that may help, and reads the response."""
    reply = yield from _attempts(config, call)
    return read(call, reply)


def _attempts(config: Config, call: Call[Any]) -> Steps[Reply]:
    content, target = call.content(), call.target
    deadline = None if config.total_timeout is None else config.monotonic() + config.total_timeout
    attempts, uncertain = 0, False
    while True:
        attempts += 1
        started = config.monotonic()
        timeout = config.timeout if deadline is None else min(config.timeout, max(deadline - started, 0.001))
        outcome = yield Attempt(
            call.method, config.base_url + target, headers_of(config, call, content), content, timeout
        )
        if isinstance(outcome, Reply) and _is_success(outcome.info.status, call.method, uncertain):
            _report(config, call, (attempts, started), outcome, None)
            return outcome
        failure, error = failed(outcome)
        uncertain = uncertain or (failure.status is None and failure.connected)
        delay = config.retries.delay(attempts, call.is_repeatable, failure, config.fraction())
        if delay is not None and deadline is not None and config.monotonic() + delay >= deadline:
            delay = None
        _report(config, call, (attempts, started), outcome, delay)
        if delay is None:
            raise error
        yield Pause(delay)


def _is_success(status: int, method: str, uncertain: bool) -> bool:
    # 404: an earlier attempt deleted it, but its response was lost.
    return 200 <= status < 300 or (status == 404 and method == "DELETE" and uncertain)


def headers_of(config: Config, call: Call[Any], content: bytes | None) -> dict[str, str]:
    """The headers of a request, with its signature."""
    signed = token(config.key, config.secret, config.clock(), call.method, call.decoded_path)
    headers = {
        "accept": "application/json",
        "user-agent": user_agent(),
        **config.headers,
        "authorization": f"Bearer {signed}",
    }
    if content is not None:
        headers["content-type"] = "application/json"
    if call.idempotency_key is not None:
        headers["idempotency-key"] = call.idempotency_key
    return headers


def failed(outcome: Outcome) -> tuple[Failure, AuspexError]:
    """How an attempt failed: for the retries, and for the program."""
    if isinstance(outcome, Reply):
        info = outcome.info
        failure = Failure(info.status, True, info.retry_after, info.events_recorded)
        return failure, error_of(outcome)
    assert isinstance(outcome, Broken)
    kind = APITimeoutError if outcome.timed_out else APIConnectionError
    return Failure(connected=outcome.connected), kind(outcome.reason)


def error_of(reply: Reply) -> APIStatusError:
    """The error in a response. A body in another format comes from something in between, such as a proxy."""
    info = reply.info
    code, message = None, f"something other than the service answered with status {info.status}"
    try:
        parsed = json.loads(reply.body)["error"]
        code, message = str(parsed["code"]), str(parsed["message"])
    except (ValueError, KeyError, TypeError):
        pass
    return APIStatusError.of(info.status)(
        message,
        status=info.status,
        code=code,
        request_id=info.request_id,
        retry_after=info.retry_after,
        events_recorded=info.events_recorded,
    )


def read(call: Call[T], reply: Reply) -> T:
    """Reads the body of a response."""
    form = call.results.get(reply.info.status)
    if form is None:
        # None is expected; or a deletion that found nothing; or a status of a newer service.
        if not call.results or not reply.body or reply.info.status == 404:
            return None  # type: ignore[return-value]
        form = next(iter(call.results.values()))
    if form is str:
        return reply.body.decode(errors="replace")  # type: ignore[return-value]
    try:
        parsed = json.loads(reply.body)
    except ValueError:
        parsed = None
    if not isinstance(parsed, (dict, list)):
        raise UnreadableResponseError(
            f"the response with status {reply.info.status} is no JSON of the service",
            status=reply.info.status,
            request_id=reply.info.request_id,
        )
    if isinstance(form, type) and issubclass(form, Record) and isinstance(parsed, dict):
        return form.from_dict(parsed, reply.info)  # type: ignore[return-value]
    return decoder(form)(parsed)  # type: ignore[no-any-return]


def _report(
    config: Config, call: Call[Any], attempted: tuple[int, float], outcome: Outcome, delay: float | None
) -> None:
    """Tells the log and the hook about an attempt."""
    attempt, started = attempted
    info = AttemptInfo(
        method=call.method,
        path=call.decoded_path,
        attempt=attempt,
        elapsed=config.monotonic() - started,
        status=outcome.info.status if isinstance(outcome, Reply) else None,
        error=outcome.reason if isinstance(outcome, Broken) else None,
        request_id=outcome.info.request_id if isinstance(outcome, Reply) else None,
        retry_in=delay,
    )
    came = info.status if info.error is None else info.error
    logger.debug("%s %s: %s in %.3f s (request %s)", info.method, info.path, came, info.elapsed, info.request_id)
    if delay is not None:
        logger.info("%s %s: %s; attempt %d in %.2f s", info.method, info.path, came, attempt + 1, delay)
    if config.on_attempt is not None:
        config.on_attempt(info)
