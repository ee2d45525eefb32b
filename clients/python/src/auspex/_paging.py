"""Lists: iterators that fetch page after page."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

from ._call import Call
from ._records import Record

PageT = TypeVar("PageT", bound=Record)
ItemT = TypeVar("ItemT")


class _Paging(Generic[PageT, ItemT]):
    """Which page comes after which. Knows nothing about how pages are fetched."""

    def __init__(self, call: Call[PageT], items: str) -> None:
        self._first = call
        self._items = items

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._first.method} {self._first.decoded_path})"

    def _items_of(self, page: PageT) -> list[ItemT]:
        items: list[ItemT] | None = getattr(page, self._items)
        return items or []

    def _after(self, call: Call[PageT], page: PageT) -> Call[PageT] | None:
        """The call for the next page; `None` after the last one."""
        cursor = getattr(page, "next_cursor", None)
        if cursor:
            return self._with(call, cursor=cursor)
        # A search by answers pages by offset. A list that pages by cursor ends with the page that has none.
        count, limit, offset = len(self._items_of(page)), getattr(page, "limit", None), getattr(page, "offset", None)
        if call.query.get("cursor") is None and limit is not None and offset is not None and count >= limit > 0:
            return self._with(call, offset=offset + count)
        return None

    def _with(self, call: Call[PageT], **query: Any) -> Call[PageT]:
        return dataclasses.replace(call, query={**call.query, **query})


class Pager(_Paging[PageT, ItemT]):
    """A list. Iterating over it yields items and fetches pages as they are needed; each iteration starts anew."""

    def __init__(self, fetch: Callable[[Call[PageT]], PageT], call: Call[PageT], items: str) -> None:
        super().__init__(call, items)
        self._fetch = fetch

    def __iter__(self) -> Iterator[ItemT]:
        for page in self.pages():
            yield from self._items_of(page)

    def pages(self) -> Iterator[PageT]:
        """Iterates over the pages."""
        call: Call[PageT] | None = self._first
        while call is not None:
            page = self._fetch(call)
            yield page
            call = self._after(call, page)

    def page(self) -> PageT:
        """Fetches the first page only."""
        return self._fetch(self._first)

    def to_list(self) -> list[ItemT]:
        """Fetches everything."""
        return list(self)


class AsyncPager(_Paging[PageT, ItemT]):
    """A list. `async for` yields items and fetches pages as they are needed; each iteration starts anew."""

    def __init__(self, fetch: Callable[[Call[PageT]], Awaitable[PageT]], call: Call[PageT], items: str) -> None:
        super().__init__(call, items)
        self._fetch = fetch

    async def __aiter__(self) -> AsyncIterator[ItemT]:
        async for page in self.pages():
            for item in self._items_of(page):
                yield item

    async def pages(self) -> AsyncIterator[PageT]:
        """Iterates over the pages."""
        call: Call[PageT] | None = self._first
        while call is not None:
            page = await self._fetch(call)
            yield page
            call = self._after(call, page)

    async def page(self) -> PageT:
        """Fetches the first page only."""
        return await self._fetch(self._first)

    async def to_list(self) -> list[ItemT]:
        """Fetches everything."""
        return [item async for item in self]
