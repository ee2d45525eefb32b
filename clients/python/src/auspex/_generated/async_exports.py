"""Operations: everything of one kind, as a stream of rows.

Generated from docs/openapi.json by `make clients`. Do not edit.
"""

from __future__ import annotations

from typing import Literal

from .._call import Call
from .._caller import AsyncCaller


class AsyncExports(AsyncCaller):
    """Everything of one kind, as a stream of rows."""

    async def export_rows(
        self,
        *,
        what: Literal["objects", "answers", "labels", "events", "ledger", "audit"],
        format: Literal["ndjson", "csv"] | None = None,
        from_: str | None = None,
        to: str | None = None,
        cursor: str | None = None,
    ) -> str:
        """Export everything of one kind.

        A stream of rows: a JSON object on each line, or CSV with a header line, which is left out after a `cursor`.
        Each row has its `cursor`, in CSV in the last column. A connection that ends before the stream does is an export
        that is not complete: send the request again with the cursor of the last row, and append. An export that takes
        longer than an hour (`AUSPEX_EXPORT_MAX_SECONDS`) is broken off in the same way. Every row that was there when
        the export started is in it once.

        Args:
            what: What to export. `ledger` needs a role that sees money, `audit` a signed-in admin or owner.
            format: How rows are written; `ndjson` if left out.
            from_: A date or a time: objects last seen, analyses concluded, labels given, events received, and
                entries and lines written since then.
            to: A date, which is included, or a time, which is not: the same up to then.
            cursor: The cursor of the row after which to go on; the other parameters, except `format`, must stay the
                same.

        Raises:
            BadRequestError: A parameter is invalid, or the cursor belongs to another export.
        """
        return await self._call(
            Call[str](
                "GET",
                ("v1", "export"),
                {200: str},
                query={"what": what, "format": format, "from": from_, "to": to, "cursor": cursor},
            ),
        )
