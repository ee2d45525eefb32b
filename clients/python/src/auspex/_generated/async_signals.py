"""Operations: the questions that are asked about every object.

Generated from docs/openapi.json by `make clients`. Do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._call import UNSET, Call, Unset
from .._caller import AsyncCaller
from .._paging import AsyncPager
from .inputs import EventInput, SystemOneQuestion
from .records import (
    BackfillStatus,
    Distribution,
    PlaygroundVerdict,
    Signal,
    SignalBackfill,
    SignalList,
    SignalType,
    SignalVersion,
    SignalVersionList,
    SystemOneResponse,
)


class AsyncSignals(AsyncCaller):
    """The questions that are asked about every object."""

    async def get_distribution(self, key: str, *, q: str | None = None) -> Distribution:
        """Read how the answers to a signal are distributed.

        Over the objects that match a query, or all: the 10,000 that were analyzed most recently among the 50,000 seen
        last.

        Args:
            key: The signal's key.
            q: A part of an object's id or display name, or comparisons of signals, as for the list of objects.

        Raises:
            BadRequestError: The query is too long.
            NotFoundError: There is no such signal.
        """
        return await self._call(
            Call[Distribution](
                "GET",
                ("v1", "signals", key, "distribution"),
                {200: Distribution},
                query={"q": q},
            ),
        )

    def list_signals(self) -> AsyncPager[SignalList, Signal]:
        """List all configured signals, enabled or not.

        In order of their keys.
        """
        return self._pages(Call[SignalList]("GET", ("v1", "signals"), {200: SignalList}), "signals")

    async def put_signal(
        self,
        key: str,
        *,
        type: SignalType,
        instructions: Any,
        criteria: Any | Unset = UNSET,
        enabled: bool | Unset | None = UNSET,
    ) -> Signal:
        """Create a signal, or replace its definition.

        Replaces the whole definition, except that `enabled` is unchanged if left out. Objects get their answer with
        their next analysis, or by a backfill. If the `type` changes, the old answers are deleted.

        Args:
            key: 1 to 64 letters, digits and underscores, at least one of them a letter.
            type: The type of answer.
            instructions: What to judge and how: a string, an object or an array, passed to the analyzer verbatim.
            criteria: `noul`: an object with optional `true` and `false`; `score`: the levels, low to high;
                `choice`: options with descriptions or null.
            enabled: Whether it is asked; if left out, a new signal is enabled and an existing one is unchanged.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            ConflictError: The signal is new, and the account has the maximum number of signals.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return await self._call(
            Call[Signal](
                "PUT",
                ("v1", "signals", key),
                {200: Signal},
                body={"type": type, "instructions": instructions, "criteria": criteria, "enabled": enabled},
            ),
        )

    async def delete_signal(self, key: str) -> None:
        """Delete a signal and its answers.

        Rules that name it are suspended until there is a signal with that key again.

        Args:
            key: The signal's key.

        Raises:
            NotFoundError: There is no such signal.
        """
        await self._call(Call[None]("DELETE", ("v1", "signals", key), {}))

    def list_signal_versions(self, key: str) -> AsyncPager[SignalVersionList, SignalVersion]:
        """List the versions of a signal.

        Newest first. Every change of its type, instructions, criteria or calibration makes one; the newest 100 are
        kept. The numbers go on when a deleted key returns.

        Args:
            key: The signal's key.

        Raises:
            NotFoundError: There is no such signal.
        """
        return self._pages(
            Call[SignalVersionList](
                "GET",
                ("v1", "signals", key, "versions"),
                {200: SignalVersionList},
            ),
            "versions",
        )

    async def restore_signal_version(self, key: str, version: int) -> Signal:
        """Restore a version of a signal.

        Its definition becomes the next version; if the signal has it already, nothing changes.

        Args:
            key: The signal's key.
            version: The number of the version.

        Raises:
            BadRequestError: The version is not a number.
            NotFoundError: There is no such signal, or it has no such version.
        """
        return await self._call(
            Call[Signal](
                "POST",
                ("v1", "signals", key, "versions", str(version), "restore"),
                {200: Signal},
            ),
        )

    async def get_backfill(self, key: str) -> BackfillStatus:
        """Estimate a backfill, and read the progress of the latest one.

        The estimate counts the objects without an answer to this signal, and what it would cost to analyze them at the
        average cost so far.

        Args:
            key: The signal's key.

        Raises:
            NotFoundError: There is no such signal.
        """
        return await self._call(Call[BackfillStatus]("GET", ("v1", "signals", key, "backfill"), {200: BackfillStatus}))

    async def start_backfill(self, key: str) -> SignalBackfill:
        """Ask a signal about every object without an answer to it.

        Runs at bulk priority, behind live traffic; each analysis is billed. If a backfill of the signal is already in
        progress, no second one is started and the response describes the first.

        Args:
            key: The signal's key.

        Raises:
            NotFoundError: There is no such signal.
            ConflictError: The signal is disabled.
        """
        return await self._call(Call[SignalBackfill]("POST", ("v1", "signals", key, "backfill"), {202: SignalBackfill}))

    async def run_playground(
        self,
        *,
        events: Sequence[EventInput],
        object_type: str | Unset | None = UNSET,
        signals: Sequence[str] | Unset | None = UNSET,
    ) -> PlaygroundVerdict:
        """Analyze events without recording them.

        Billed and limited like a verdict.

        Args:
            events: 1 to 50 events.
            object_type: The type of the object.
            signals: Ask only these signals.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            PaymentRequiredError: The prepaid balance is empty.
            PayloadTooLargeError: The body is larger than 4 MiB.
            ServerError: The analyzer failed.
        """
        return await self._call(
            Call[PlaygroundVerdict](
                "POST",
                ("v1", "playground"),
                {200: PlaygroundVerdict},
                body={"events": events, "object_type": object_type, "signals": signals},
            ),
        )

    async def ask_questions(
        self,
        *,
        state: Any,
        questions: Mapping[str, SystemOneQuestion],
        model: str | Unset | None = UNSET,
    ) -> SystemOneResponse:
        """Ask questions about a state.

        Uses the wire format of typed decision models. Nothing is recorded; it is billed and limited like a verdict.

        Args:
            model: Ignored: the configured model answers.
            state: A string, or any JSON.
            questions: Up to 100 questions by the caller's ids.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            PaymentRequiredError: The prepaid balance is empty.
            PayloadTooLargeError: The body is larger than 4 MiB.
            ServerError: The analyzer failed.
        """
        return await self._call(
            Call[SystemOneResponse](
                "POST",
                ("v1", "systemone"),
                {200: SystemOneResponse},
                body={"model": model, "state": state, "questions": questions},
            ),
        )
