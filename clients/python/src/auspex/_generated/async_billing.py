"""Operations: the prepaid balance, its ledger, top-ups by card, and usage.

Generated from docs/openapi.json by `make clients`. Do not edit.
"""

from __future__ import annotations

from datetime import date
from typing import Literal

from .._call import Call
from .._caller import AsyncCaller
from .._paging import AsyncPager
from .records import Balance, CheckoutSession, CheckoutStatus, LedgerEntry, LedgerPage, Usage


class AsyncBilling(AsyncCaller):
    """The prepaid balance, its ledger, top-ups by card, and usage."""

    async def get_billing(self) -> Balance:
        """Read the balance.

        Also whether analyses are billed, what happens when the balance is empty, and the limits of a top-up.
        """
        return await self._call(Call[Balance]("GET", ("v1", "billing"), {200: Balance}))

    def list_ledger_entries(
        self,
        *,
        type: Literal["credit", "charge"] | None = None,
        group: Literal["batch"] | None = None,
        batch_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AsyncPager[LedgerPage, LedgerEntry]:
        """List the ledger, newest first.

        Entries never change, and their sum is the balance.

        Args:
            type: `credit` or `charge`: only entries of that type.
            group: `batch`: one entry for each bulk run, instead of one for each of its analyses.
            batch_id: Only the charges of this bulk run.
            limit: The page size; 50 if left out.
            cursor: `next_cursor` of the previous page; the other parameters must stay the same.

        Raises:
            BadRequestError: A parameter is invalid, or the cursor belongs to another list.
        """
        return self._pages(
            Call[LedgerPage](
                "GET",
                ("v1", "billing", "ledger"),
                {200: LedgerPage},
                query={"type": type, "group": group, "batch_id": batch_id, "limit": limit, "cursor": cursor},
            ),
            "entries",
        )

    async def create_checkout(self, *, amount_cents: int) -> CheckoutSession:
        """Open a checkout to top up the balance by card.

        Send the customer to the `url`. Once the payment is confirmed the balance is credited, exactly once.

        Args:
            amount_cents: The amount, between `topup_min_cents` and `topup_max_cents`.

        Raises:
            BadRequestError: The amount is not between `topup_min_cents` and `topup_max_cents`.
            PayloadTooLargeError: The body is larger than 4 MiB.
            ServerError: `payment_provider_error`: the payment provider failed.
        """
        return await self._call(
            Call[CheckoutSession](
                "POST",
                ("v1", "billing", "checkout"),
                {201: CheckoutSession},
                body={"amount_cents": amount_cents},
            ),
        )

    async def get_checkout(self, session_id: str) -> CheckoutStatus:
        """Read the status of a checkout.

        `pending` until the payment provider has confirmed the payment, then `credited`, exactly once.

        Args:
            session_id: The `id` of the checkout session.

        Raises:
            NotFoundError: There is no such checkout.
        """
        return await self._call(
            Call[CheckoutStatus](
                "GET",
                ("v1", "billing", "checkout", session_id),
                {200: CheckoutStatus},
            ),
        )

    async def get_usage(self, *, from_: date | str | None = None, to: date | str | None = None) -> Usage:
        """Read analyses and spend over a range of days.

        UTC days, both ends included, at most 366; the last 30 if left out. Days without analyses are included, with
        zeros.

        Args:
            from_: The first day; 29 days before `to` if left out.
            to: The last day; today if left out. A range has at most 366 days.

        Raises:
            BadRequestError: A date is invalid, or the range is empty or too long.
        """
        return await self._call(Call[Usage]("GET", ("v1", "usage"), {200: Usage}, query={"from": from_, "to": to}))
