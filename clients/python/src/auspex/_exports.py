"""Exports: everything of one kind, row by row and in bounded memory, over as many connections as that takes."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing
from typing import Any, Literal, cast

import anyio
import httpx

from ._call import Call
from ._caller import AsyncCaller, Caller, broken, info_of, request_of
from ._config import Config
from ._exchange import Attempt, Broken, Reply, failed, headers_of
from .errors import UnreadableResponseError

ExportKind = Literal["objects", "answers", "labels", "events", "ledger", "audit"]
Row = dict[str, Any]


class _Exporting:
    """What both kinds of export share: where it stands, and what is sent next. Free of input and output."""

    def __init__(self, config: Config, what: ExportKind, from_: str | None, to: str | None, cursor: str | None) -> None:
        self._config = config
        self._query = {"what": what, "format": "ndjson", "from": from_, "to": to}
        # What has arrived of the next row.
        self._rest = b""
        # Attempts without any progress.
        self._attempts = 0
        self.cursor = cursor
        """The cursor of the last row that was returned, after which another export can go on."""
        self.rows = 0
        """How many rows were returned."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._query['what']}, rows={self.rows})"

    def _attempt(self) -> Attempt:
        """The request for what comes after the last row."""
        self._rest = b""
        call = Call[str]("GET", ("v1", "export"), {200: str}, query={**self._query, "cursor": self.cursor})
        config = self._config
        return Attempt(call.method, config.base_url + call.target, headers_of(config, call, None), None, config.timeout)

    def _take(self, part: bytes) -> Iterator[Row]:
        """The rows that are whole with this part."""
        # Not by `splitlines`: the text of an event may have other separators of lines.
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            row = _parse(line)
            self.cursor = row["cursor"]
            self.rows += 1
            self._attempts = 0
            yield row

    def _end(self) -> None:
        if self._rest:
            raise UnreadableResponseError("the export ends in the middle of a row", status=200)

    def _recover(self, outcome: Reply | Broken) -> float:
        """How many seconds to wait before the next attempt; raises the error if there is none."""
        self._attempts += 1
        failure, error = failed(outcome)
        delay = self._config.retries.delay(self._attempts, True, failure, self._config.fraction())
        if delay is None:
            raise error
        return delay


class Export(_Exporting):
    """An export under way: iterating over it yields rows, each a dictionary.

    A connection that breaks is opened again, and the export goes on after the last row. `total_timeout` of the client does not
    count; `timeout` is for the wait for each piece. After an error, `cursor` says where another export can go on.
    """

    def __init__(self, caller: Caller, what: ExportKind, from_: str | None, to: str | None, cursor: str | None) -> None:
        super().__init__(caller._config, what, from_, to, cursor)
        self._http = caller._http

    def __iter__(self) -> Iterator[Row]:
        while True:
            outcome = yield from self._read()
            if outcome is None:
                return
            time.sleep(self._recover(outcome))

    def _read(self) -> Generator[Row, None, Reply | Broken | None]:
        """Yields the rows of one response; returns how it broke off."""
        attempt = self._attempt()
        try:
            response = self._http.send(request_of(self._http, attempt), stream=True, follow_redirects=False)
            try:
                if response.status_code != 200:
                    return Reply(info_of(response), response.read())
                for part in response.iter_bytes():
                    yield from self._take(part)
            finally:
                response.close()
        except httpx.HTTPError as error:
            return broken(error, attempt)
        self._end()
        return None


class AsyncExport(_Exporting):
    """An export under way: `async for` yields rows, each a dictionary. See `Export`."""

    def __init__(
        self, caller: AsyncCaller, what: ExportKind, from_: str | None, to: str | None, cursor: str | None
    ) -> None:
        super().__init__(caller._config, what, from_, to, cursor)
        self._http = caller._http
        self._outcome: Reply | Broken | None = None

    async def __aiter__(self) -> AsyncIterator[Row]:
        while True:
            self._outcome = None
            async with aclosing(self._read()) as rows:
                async for row in rows:
                    yield row
            if self._outcome is None:
                return
            await anyio.sleep(self._recover(self._outcome))

    async def _read(self) -> AsyncGenerator[Row, None]:
        """Yields the rows of one response; `_outcome` says how it broke off."""
        attempt = self._attempt()
        try:
            response = await self._http.send(request_of(self._http, attempt), stream=True, follow_redirects=False)
            try:
                if response.status_code != 200:
                    self._outcome = Reply(info_of(response), await response.aread())
                    return
                async for part in response.aiter_bytes():
                    for row in self._take(part):
                        yield row
            finally:
                with anyio.CancelScope(shield=True):
                    await response.aclose()
        except httpx.HTTPError as error:
            self._outcome = broken(error, attempt)
            return
        self._end()


def _parse(line: bytes) -> Row:
    try:
        parsed = json.loads(line)
        if isinstance(parsed, dict):
            row = cast("Row", parsed)
            if isinstance(row.get("cursor"), str):
                return row
    except ValueError:
        pass
    raise UnreadableResponseError("a line of the export is no row of the service", status=200)
