"""Runs the steps of calls with httpx: once blocking, once awaiting."""

from __future__ import annotations

import time
from typing import Any, TypeVar

import anyio
import httpx

from ._call import Call
from ._config import Config
from ._exchange import Attempt, Broken, Outcome, Pause, Reply, Steps, exchange
from ._paging import AsyncPager, Pager
from ._records import Record
from ._response import ResponseInfo

T = TypeVar("T")
PageT = TypeVar("PageT", bound=Record)

#: A request that failed with one of these has not reached the service.
_UNCONNECTED = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)


class Caller:
    """Makes calls and waits for them."""

    _config: Config
    _http: httpx.Client

    def _call(self, call: Call[T]) -> T:
        return self._run(exchange(self._config, call))

    def _pages(self, call: Call[PageT], items: str) -> Pager[PageT, Any]:
        return Pager(self._call, call, items)

    def _run(self, steps: Steps[T]) -> T:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                outcome = None
            else:
                outcome = self._send(step)

    def _send(self, attempt: Attempt) -> Outcome:
        deadline = time.monotonic() + attempt.timeout
        try:
            request = request_of(self._http, attempt)
            response = self._http.send(request, stream=True, follow_redirects=False)
            try:
                body = bytearray()
                for part in response.iter_bytes():
                    body += part
                    # The timeout of httpx is for each part: a slow body could last forever.
                    if time.monotonic() > deadline:
                        return _late(attempt)
            finally:
                response.close()
        except httpx.HTTPError as error:
            return broken(error, attempt)
        return Reply(info_of(response), bytes(body))


class AsyncCaller:
    """Makes calls that are awaited, on asyncio or trio."""

    _config: Config
    _http: httpx.AsyncClient

    async def _call(self, call: Call[T]) -> T:
        return await self._run(exchange(self._config, call))

    def _pages(self, call: Call[PageT], items: str) -> AsyncPager[PageT, Any]:
        return AsyncPager(self._call, call, items)

    async def _run(self, steps: Steps[T]) -> T:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                await anyio.sleep(step.seconds)
                outcome = None
            else:
                outcome = await self._send(step)

    async def _send(self, attempt: Attempt) -> Outcome:
        try:
            with anyio.fail_after(attempt.timeout):
                request = request_of(self._http, attempt)
                response = await self._http.send(request, follow_redirects=False)
        except httpx.HTTPError as error:
            return broken(error, attempt)
        except TimeoutError:
            return _late(attempt)
        return Reply(info_of(response), response.content)


def request_of(http: httpx.Client | httpx.AsyncClient, attempt: Attempt) -> httpx.Request:
    return http.build_request(
        attempt.method, _exact(attempt.url), headers=attempt.headers, content=attempt.content, timeout=attempt.timeout
    )


def _exact(url: str) -> httpx.URL:
    """The URL with the path exactly as it was escaped."""
    base, slash, rest = url.partition("://")[2].partition("/")
    return httpx.URL(f"{url.partition('://')[0]}://{base}").copy_with(raw_path=f"{slash}{rest}".encode())


def info_of(response: httpx.Response) -> ResponseInfo:
    return ResponseInfo(response.status_code, {name.lower(): value for name, value in response.headers.items()})


def _late(attempt: Attempt) -> Broken:
    return Broken(f"the service did not respond within {attempt.timeout:g} s", connected=True, timed_out=True)


def broken(error: httpx.HTTPError, attempt: Attempt) -> Broken:
    connected = not isinstance(error, _UNCONNECTED)
    if isinstance(error, httpx.TimeoutException) and connected:
        return _late(attempt)
    said = str(error) or type(error).__name__
    reason = f"the connection ended before the response: {said}" if connected else f"cannot connect: {said}"
    return Broken(reason, connected, isinstance(error, httpx.TimeoutException))
