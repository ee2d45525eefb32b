"""The world that the stories run in, and both clients behind one face."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import world as testing_world

from auspex import AsyncAuspex, Auspex, Export, Ingester, Pager

KINDS = ("sync", "asyncio", "trio")


@pytest.fixture(scope="session")
def world() -> dict[str, str]:
    """The URLs of the services that clients/testing/world.py has started."""
    described = os.environ.get("AUSPEX_TEST_WORLD")
    if described is None:
        pytest.fail("run the tests with `make test-clients`, which starts the services")
    found: dict[str, str] = json.loads(described)
    return found


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which client a story uses."""
    return str(request.param)


@pytest.fixture
def account(world: dict[str, str]) -> Callable[..., dict[str, str]]:
    """Opens an account on one of the services, which may then be called by another URL."""

    def open_account(service: str = "service", by: str | None = None) -> dict[str, str]:
        made = testing_world.account(world[service])
        return made | {"url": world[by]} if by else made

    return open_account


@pytest.fixture
def connect(kind: str) -> Callable[..., Any]:
    """Makes a client; every method of it is awaited, also of the synchronous one."""

    def make(account: dict[str, str], **options: Any) -> Any:
        if kind == "sync":
            return Awaited(Auspex(account["url"], account["key"], account["secret"], **options))
        return AsyncAuspex(account["url"], account["key"], account["secret"], **options)

    return make


class Awaited:
    """The synchronous client (or a part of it) with awaitable methods."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._wrapped, name)

        def call(*arguments: Any, **options: Any) -> Any:
            at_once = name in ("export", "ingester", "with_options") or "list" in name
            result = method(*arguments, **options) if at_once else None
            if isinstance(result, (Auspex, Ingester)):
                return Awaited(result)
            if isinstance(result, Pager):
                return AwaitedPager(result)
            if isinstance(result, Export):
                return AwaitedExport(result)

            async def later() -> Any:
                return method(*arguments, **options)

            return later()

        return call

    async def __aenter__(self) -> Awaited:
        self._wrapped.__enter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._wrapped.__exit__(*error)


class AwaitedPager:
    """The same for a list."""

    def __init__(self, pager: Pager[Any, Any]) -> None:
        self._pager = pager

    async def __aiter__(self) -> AsyncIterator[Any]:
        for item in self._pager:
            yield item

    async def pages(self) -> AsyncIterator[Any]:
        for page in self._pager.pages():
            yield page

    async def to_list(self) -> list[Any]:
        return self._pager.to_list()

    async def page(self) -> Any:
        return self._pager.page()


class AwaitedExport:
    """The same for an export."""

    def __init__(self, export: Export) -> None:
        self._export = export

    async def __aiter__(self) -> AsyncIterator[Any]:
        for row in self._export:
            yield row

    @property
    def rows(self) -> int:
        return self._export.rows

    @property
    def cursor(self) -> str | None:
        return self._export.cursor
