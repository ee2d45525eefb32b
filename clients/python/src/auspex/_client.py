"""The two clients."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TypeVar

import httpx

from ._config import DEFAULT_TIMEOUT_S, DEFAULT_TOTAL_TIMEOUT_S, AttemptInfo, Config, configure
from ._exports import AsyncExport, Export, ExportKind
from ._generated import AsyncOperations, Operations
from ._generated.records import ObjectAnalysis
from ._ingester import AsyncIngester, Ingester, IngesterOptions, OnError
from ._records import Record
from ._waiting import wait_for_answers
from .errors import UsageError
from .webhooks import verify_webhook

Self = TypeVar("Self", bound="Auspex")
AsyncSelf = TypeVar("AsyncSelf", bound="AsyncAuspex")


class Auspex(Operations):
    """Calls a service as one account. Safe to use from several threads, which share its connections.

    Args:
        base_url: The URL of the service; by default `AUSPEX_URL`.
        key: The public id of an API key (`ak_…`); by default `AUSPEX_KEY`.
        secret: Its secret (`sk_…`), which signs requests and is never sent; by default `AUSPEX_SECRET`.
        timeout: How many seconds one attempt may take.
        total_timeout: How many seconds a call may take with all its attempts and pauses; `None` for no limit.
        max_retries: How often a call is retried, where that is safe.
        max_retry_after: The longest `Retry-After` to wait for, in seconds; with a longer one, the error is raised at once.
        headers: Further headers for every request.
        on_attempt: Called after each attempt, for metrics and logs. Attempts are also logged by the logger `auspex`.
        http_client: An `httpx.Client` of your own, for proxies, certificates or transports; it is not closed.
    """

    def __init__(
        self,
        base_url: str | None = None,
        key: str | None = None,
        secret: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
        total_timeout: float | None = DEFAULT_TOTAL_TIMEOUT_S,
        max_retries: int = 4,
        max_retry_after: float = 60.0,
        headers: Mapping[str, str] | None = None,
        on_attempt: Callable[[AttemptInfo], None] | None = None,
        http_client: httpx.Client | None = None,
    ) -> None:
        self._config = configure(
            base_url,
            key,
            secret,
            timeout=timeout,
            total_timeout=total_timeout,
            max_retries=max_retries,
            max_retry_after=max_retry_after,
            headers=headers,
            on_attempt=on_attempt,
        )
        self._owns_http = http_client is None
        self._http = http_client or httpx.Client(trust_env=not self._config.is_local)
        if self._owns_http:
            # A client that is not closed closes its connections when nobody uses it any more.
            weakref.finalize(self, self._http.close).atexit = False

    verify_webhook = staticmethod(verify_webhook)
    _owner: Auspex | None = None

    def with_options(
        self: Self,
        *,
        timeout: float | None = None,
        total_timeout: float | None = None,
        max_retries: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """A client with other options that shares the connections of this one: `client.with_options(timeout=5).get_me()`."""
        other = object.__new__(type(self))
        other._config = _changed(self._config, timeout, total_timeout, max_retries, headers)
        other._http, other._owns_http = self._http, False
        # Whoever owns the connections lives as long as this one.
        other._owner = self
        return other

    def wait_for_answers(
        self,
        object_id: str,
        *,
        signals: Sequence[str] | None = None,
        since: datetime | Record | None = None,
        timeout: float = 60.0,
    ) -> ObjectAnalysis:
        """Waits until an object has answers, and returns them.

        Args:
            object_id: Your own id for the object.
            signals: The keys to wait for; by default all enabled signals.
            since: Only answers count that were computed since then: a time, or what `ingest_events` returned (by the
                service's clock, to the second).
            timeout: How many seconds to wait.

        Raises:
            WaitTimeoutError: They did not arrive in time; `pending` lists the keys.
            NotFoundError: There is no such object.
        """
        return self._run(wait_for_answers(self._config, object_id, signals, since, timeout))

    def export(
        self, what: ExportKind, *, from_: str | None = None, to: str | None = None, cursor: str | None = None
    ) -> Export:
        """Exports everything of one kind: `for row in client.export("events")`, in bounded memory. See `Export`.

        Args:
            what: What to export; `audit` is for people who are signed in, and refused to keys.
            from_: A date or a time: nothing earlier.
            to: A date, which is included, or a time, which is not: nothing later.
            cursor: The cursor of the row after which to go on; the other arguments must stay the same.
        """
        return Export(self, what, from_, to, cursor)

    def ingester(
        self,
        *,
        max_batch_events: int = 100,
        max_batch_bytes: int = 1024 * 1024,
        max_delay: float = 1.0,
        max_pending_events: int = 10_000,
        max_pending_bytes: int = 32 * 1024 * 1024,
        max_in_flight: int = 4,
        retry_for: float = 300.0,
        close_timeout: float = 30.0,
        on_error: OnError | None = None,
    ) -> Ingester:
        """Sends events in the background, many to a request: `with client.ingester() as ingester`. See `Ingester`.

        Args:
            max_batch_events: How many events one request has at most; 500 at most.
            max_batch_bytes: How many bytes one request has at most.
            max_delay: How many seconds an event waits for others.
            max_pending_events: How many events may wait until `send` blocks.
            max_pending_bytes: How many bytes may wait until `send` blocks.
            max_in_flight: How many requests may be on the way at once.
            retry_for: For how many seconds temporary failures are retried.
            close_timeout: How many seconds `close` tries to deliver what is left. What is not delivered by then is given up and
                reported.
            on_error: Called with what cannot be delivered, from a thread of the ingester or from the one that closes it; it must
                not call `send`.
        """
        options = IngesterOptions(
            max_batch_events=max_batch_events,
            max_batch_bytes=max_batch_bytes,
            max_delay=max_delay,
            max_pending_events=max_pending_events,
            max_pending_bytes=max_pending_bytes,
            max_in_flight=max_in_flight,
            retry_for=retry_for,
            close_timeout=close_timeout,
            on_error=on_error,
        )
        return Ingester(self, options)

    def close(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            self._http.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Auspex(base_url={self._config.base_url!r}, key={self._config.key!r})"


class AsyncAuspex(AsyncOperations):
    """Calls a service as one account, awaiting the responses, on asyncio or trio. See `Auspex` for the arguments."""

    def __init__(
        self,
        base_url: str | None = None,
        key: str | None = None,
        secret: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
        total_timeout: float | None = DEFAULT_TOTAL_TIMEOUT_S,
        max_retries: int = 4,
        max_retry_after: float = 60.0,
        headers: Mapping[str, str] | None = None,
        on_attempt: Callable[[AttemptInfo], None] | None = None,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        self._config = configure(
            base_url,
            key,
            secret,
            timeout=timeout,
            total_timeout=total_timeout,
            max_retries=max_retries,
            max_retry_after=max_retry_after,
            headers=headers,
            on_attempt=on_attempt,
        )
        self._owns_http = http_client is None
        self._http = http_client or httpx.AsyncClient(trust_env=not self._config.is_local)

    verify_webhook = staticmethod(verify_webhook)

    def with_options(
        self: AsyncSelf,
        *,
        timeout: float | None = None,
        total_timeout: float | None = None,
        max_retries: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncSelf:
        """A client with other options that shares the connections of this one."""
        other = object.__new__(type(self))
        other._config = _changed(self._config, timeout, total_timeout, max_retries, headers)
        other._http, other._owns_http = self._http, False
        return other

    async def wait_for_answers(
        self,
        object_id: str,
        *,
        signals: Sequence[str] | None = None,
        since: datetime | Record | None = None,
        timeout: float = 60.0,
    ) -> ObjectAnalysis:
        """Waits until an object has answers, and returns them. See `Auspex.wait_for_answers`."""
        return await self._run(wait_for_answers(self._config, object_id, signals, since, timeout))

    def export(
        self, what: ExportKind, *, from_: str | None = None, to: str | None = None, cursor: str | None = None
    ) -> AsyncExport:
        """Exports everything of one kind: `async for row in client.export("events")`. See `Auspex.export`."""
        return AsyncExport(self, what, from_, to, cursor)

    def ingester(
        self,
        *,
        max_batch_events: int = 100,
        max_batch_bytes: int = 1024 * 1024,
        max_delay: float = 1.0,
        max_pending_events: int = 10_000,
        max_pending_bytes: int = 32 * 1024 * 1024,
        max_in_flight: int = 4,
        retry_for: float = 300.0,
        close_timeout: float = 30.0,
        on_error: OnError | None = None,
    ) -> AsyncIngester:
        """Sends events in the background, many to a request: `async with client.ingester() as ingester`."""
        options = IngesterOptions(
            max_batch_events=max_batch_events,
            max_batch_bytes=max_batch_bytes,
            max_delay=max_delay,
            max_pending_events=max_pending_events,
            max_pending_bytes=max_pending_bytes,
            max_in_flight=max_in_flight,
            retry_for=retry_for,
            close_timeout=close_timeout,
            on_error=on_error,
        )
        return AsyncIngester(self, options)

    async def close(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self: AsyncSelf) -> AsyncSelf:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncAuspex(base_url={self._config.base_url!r}, key={self._config.key!r})"


def _changed(
    config: Config,
    timeout: float | None,
    total_timeout: float | None,
    max_retries: int | None,
    headers: Mapping[str, str] | None,
) -> Config:
    for given in (timeout, total_timeout):
        if given is not None and given <= 0:
            raise UsageError("timeout: it must be more than 0 seconds")
    if max_retries is not None and max_retries < 0:
        raise UsageError("max_retries: it must not be negative")
    retries = config.retries if max_retries is None else dataclasses.replace(config.retries, limit=max_retries)
    return dataclasses.replace(
        config,
        timeout=config.timeout if timeout is None else timeout,
        total_timeout=config.total_timeout if total_timeout is None else total_timeout,
        retries=retries,
        headers={**config.headers, **(headers or {})},
    )
