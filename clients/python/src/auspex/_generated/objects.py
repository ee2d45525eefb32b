"""Operations: events about objects, and the answers about them.

Generated from docs/openapi.json by `make clients`. Do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

from .._call import UNSET, Call, Unset, new_idempotency_key
from .._caller import Caller
from .._paging import Pager
from .inputs import EventInput
from .records import (
    AnalysisList,
    AnalysisRecord,
    AnalyzeAllScheduled,
    AnalyzeScheduled,
    Event,
    EventList,
    Explanation,
    IngestAccepted,
    MatchCount,
    ModerationVerdict,
    ObjectAnalysis,
    ObjectList,
    ObjectState,
    ObjectSummary,
    Overview,
    Timeline,
    TimelineItem,
)


class Objects(Caller):
    """Events about objects, and the answers about them."""

    def get_overview(self) -> Overview:
        """Read an overview of the account.

        Counts, averages and shares of each signal, the types of objects, the ten riskiest objects, and what happened on
        the last days. Its cost does not grow with the number of objects.
        """
        return self._call(Call[Overview]("GET", ("v1", "overview"), {200: Overview}))

    def list_objects(
        self,
        *,
        q: str | None = None,
        sort: Literal["recent", "flagged", "trust"] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        strict: bool | None = None,
    ) -> Pager[ObjectList, ObjectSummary]:
        """List objects.

        By a part of their id or name, or by their answers: `q` takes comparisons such as `is_scammer > 0.8` joined by
        `and` or a comma. For the next page, set `cursor` to `next_cursor` of the previous one; a search by answers
        pages by `offset`.

        Args:
            q: A part of an object's id or display name, or comparisons of signals joined by `and` or a comma, such
                as `is_scammer > 0.8 and buyer_intent = ready_to_buy`, which page by `offset` only.
            sort: `recent`: last seen first; `flagged`: highest yes/no probability first; `trust`: highest score
                first.
            limit: The page size.
            offset: The number of objects to skip.
            cursor: `next_cursor` of the previous page; `offset` is then ignored, and `q` and `sort` must stay the
                same.
            strict: Whether comparisons that would be skipped, and listed in `warnings`, are refused instead.

        Raises:
            BadRequestError: A parameter is out of range, or the cursor belongs to another list.
        """
        return self._pages(
            Call[ObjectList](
                "GET",
                ("v1", "objects"),
                {200: ObjectList},
                query={"q": q, "sort": sort, "limit": limit, "offset": offset, "cursor": cursor, "strict": strict},
            ),
            "objects",
        )

    def get_object(self, object_id: str, *, include: str | None = None, kinds: str | None = None) -> ObjectAnalysis:
        """Read an object's answers.

        The latest answer to each enabled signal; `pending` lists the signals without an answer yet. Cached for up to
        three seconds (`X-Cache`), but for what `include` names; writes through the same node are visible at once.

        Args:
            object_id: Your own id for the object.
            include: `labels` and `timeline`, separated by commas: the object's newest labels, and the first page of
                its timeline.
            kinds: Only these kinds of items in the included timeline, separated by commas; all if left out.

        Raises:
            BadRequestError: The id or a parameter is invalid.
            NotFoundError: There is no such object.
        """
        return self._call(
            Call[ObjectAnalysis](
                "GET",
                ("v1", "objects", object_id),
                {200: ObjectAnalysis},
                query={"include": include, "kinds": kinds},
            ),
        )

    def delete_object(self, object_id: str) -> None:
        """Delete an object.

        Removes its events, answers, summary and queued work. Ledger entries are kept.

        Args:
            object_id: Your own id for the object.

        Raises:
            BadRequestError: The id is invalid.
            NotFoundError: There is no such object.
        """
        self._call(Call[None]("DELETE", ("v1", "objects", object_id), {}))

    def get_object_state(self, object_id: str) -> ObjectState:
        """Read the summary of an object.

        Older events are folded into a summary, so that what the analyzer reads stays bounded. Empty for an object that
        does not exist.

        Args:
            object_id: Your own id for the object.

        Raises:
            BadRequestError: The id is invalid.
        """
        return self._call(Call[ObjectState]("GET", ("v1", "objects", object_id, "state"), {200: ObjectState}))

    def count_objects(self, *, q: str | None = None) -> MatchCount:
        """Count objects.

        All of them, or those that match a query: exact up to 10,000.

        Args:
            q: A part of an object's id or display name, or comparisons of signals, as for the list of objects.

        Raises:
            BadRequestError: The query is too long.
        """
        return self._call(Call[MatchCount]("GET", ("v1", "object_count"), {200: MatchCount}, query={"q": q}))

    def list_answers(
        self,
        object_id: str,
        *,
        signal: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Pager[AnalysisList, AnalysisRecord]:
        """List what every analysis of an object said.

        Newest first, for as many days as the deployment keeps it (90, unless it is configured otherwise). Each answer
        has the version of the signal that was asked.

        Args:
            object_id: Your own id for the object.
            signal: Only answers to the signal with this key, and the analyses that have one.
            limit: The page size; 50 if left out.
            cursor: `next_cursor` of the previous page; `signal` must stay the same.

        Raises:
            BadRequestError: A parameter is out of range, or the cursor belongs to another list.
            NotFoundError: There is no such object.
        """
        return self._pages(
            Call[AnalysisList](
                "GET",
                ("v1", "objects", object_id, "answers"),
                {200: AnalysisList},
                query={"signal": signal, "limit": limit, "cursor": cursor},
            ),
            "analyses",
        )

    def get_timeline(
        self,
        object_id: str,
        *,
        kinds: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Pager[Timeline, TimelineItem]:
        """Read an object's timeline.

        One list, newest first, of what happened about it: its events, what analyses said, rules that fired, and webhook
        deliveries. The record of an item is under the name of its kind.

        Args:
            object_id: Your own id for the object.
            kinds: Kinds of items, separated by commas: `event`, `analysis`, `firing`, `review`, `delivery`,
                `label`; all if left out.
            limit: The page size; 50 if left out.
            cursor: `next_cursor` of the previous page; `kinds` must stay the same.

        Raises:
            BadRequestError: A parameter is invalid, or the cursor belongs to another list.
            NotFoundError: There is no such object.
        """
        return self._pages(
            Call[Timeline](
                "GET",
                ("v1", "objects", object_id, "timeline"),
                {200: Timeline},
                query={"kinds": kinds, "limit": limit, "cursor": cursor},
            ),
            "items",
        )

    def explain_answer(self, object_id: str, *, signal: str) -> Explanation:
        """Explain an answer about an object.

        Asks the signal about the object again, and for each event, message and line of the summary how much the answer
        differs when that part is not read. It shows what moved the answer, which is not the same as why. Nothing is
        recorded; it is limited like a verdict, and billed for all that was read.

        Args:
            object_id: Your own id for the object.
            signal: The key of the signal.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            PaymentRequiredError: The prepaid balance is empty.
            NotFoundError: There is no such object or signal.
            PayloadTooLargeError: The body is larger than 4 MiB.
            ServerError: The analyzer failed.
        """
        return self._call(
            Call[Explanation](
                "POST",
                ("v1", "objects", object_id, "explain"),
                {200: Explanation},
                body={"signal": signal},
            ),
        )

    def analyze_object(self, object_id: str) -> AnalyzeScheduled:
        """Analyze an object again.

        Runs at live priority.

        Args:
            object_id: Your own id for the object.

        Raises:
            BadRequestError: The id is invalid.
            NotFoundError: The object has no events.
        """
        return self._call(
            Call[AnalyzeScheduled](
                "POST",
                ("v1", "objects", object_id, "analyze"),
                {202: AnalyzeScheduled},
                repeatable=True,
            ),
        )

    def analyze_all_objects(self) -> AnalyzeAllScheduled:
        """Analyze every object again.

        Runs at bulk priority, behind live traffic; each analysis is billed. If such a run is already in progress, no
        second one is started and the response describes the first.
        """
        return self._call(Call[AnalyzeAllScheduled]("POST", ("v1", "analyze"), {202: AnalyzeAllScheduled}))

    def list_events(self, object_id: str, *, cursor: str | None = None) -> Pager[EventList, Event]:
        """List an object's events.

        Up to 200 a page, newest first; an empty list for an object that does not exist.

        Args:
            object_id: Your own id for the object.
            cursor: `next_cursor` of the previous page.

        Raises:
            BadRequestError: The id is invalid, or the cursor belongs to another list.
        """
        return self._pages(
            Call[EventList](
                "GET",
                ("v1", "objects", object_id, "events"),
                {200: EventList},
                query={"cursor": cursor},
            ),
            "events",
        )

    @overload
    def ingest_events(
        self,
        object_id: str,
        *,
        events: Sequence[EventInput],
        wait: Literal[True],
        object_type: str | Unset | None = UNSET,
        signals: Sequence[str] | Unset | None = UNSET,
        include_history: bool | Unset | None = UNSET,
        idempotency_key: str | None = None,
    ) -> ModerationVerdict: ...

    @overload
    def ingest_events(
        self,
        object_id: str,
        *,
        events: Sequence[EventInput],
        object_type: str | Unset | None = UNSET,
        wait: Literal[False] | Unset | None = UNSET,
        signals: Sequence[str] | Unset | None = UNSET,
        include_history: bool | Unset | None = UNSET,
        idempotency_key: str | None = None,
    ) -> IngestAccepted: ...

    @overload
    def ingest_events(
        self,
        object_id: str,
        *,
        events: Sequence[EventInput],
        object_type: str | Unset | None = UNSET,
        wait: bool | Unset | None = UNSET,
        signals: Sequence[str] | Unset | None = UNSET,
        include_history: bool | Unset | None = UNSET,
        idempotency_key: str | None = None,
    ) -> ModerationVerdict | IngestAccepted: ...

    def ingest_events(
        self,
        object_id: str,
        *,
        events: Sequence[EventInput],
        object_type: str | Unset | None = UNSET,
        wait: bool | Unset | None = UNSET,
        signals: Sequence[str] | Unset | None = UNSET,
        include_history: bool | Unset | None = UNSET,
        idempotency_key: str | None = None,
    ) -> ModerationVerdict | IngestAccepted:
        """Record events about an object.

        Responds with 202 at once and schedules a debounced analysis; with `wait: true` it analyzes the object and
        responds with 200 and a verdict. With the header `Idempotency-Key`, a repeated request records nothing. After an
        error with `Events-Recorded: true` the events have been recorded: do not send them again.

        Args:
            object_id: Your own id for the object, 1 to 255 characters.
            object_type: The object's type, for example user or listing; 1 to 64 characters.
            events: 1 to 500 events.
            wait: Whether to analyze the object now and return a verdict.
            signals: With `wait`, ask only these signals.
            include_history: With `wait`, whether to analyze the object's history (the default) or only the events
                of this request.
            idempotency_key: A repeated request with the same key records nothing; keys are kept for 24 hours.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            PaymentRequiredError: The prepaid balance is empty; nothing was recorded.
            ConflictError: A request that waited for a verdict was repeated.
            PayloadTooLargeError: The body is larger than 4 MiB.
            UnprocessableError: The `Idempotency-Key` was used for another object.
            ServerError: The analyzer failed.
        """
        return self._call(
            Call[ModerationVerdict | IngestAccepted](
                "POST",
                ("v1", "objects", object_id, "events"),
                {200: ModerationVerdict, 202: IngestAccepted},
                body={
                    "object_type": object_type,
                    "events": events,
                    "wait": wait,
                    "signals": signals,
                    "include_history": include_history,
                },
                idempotency_key=idempotency_key or new_idempotency_key(),
                repeatable=wait is not True,
            ),
        )
