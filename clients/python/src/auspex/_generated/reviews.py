"""Operations: objects that people are to look at, in queues.

Generated from docs/openapi.json by `make clients`. Do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._call import UNSET, Call, Unset
from .._caller import Caller
from .._paging import Pager
from .records import Review, ReviewList, ReviewOrder, ReviewQueue, ReviewQueueList, ReviewStatus


class Reviews(Caller):
    """Objects that people are to look at, in queues."""

    def list_reviews(
        self,
        *,
        queue: str | None = None,
        status: ReviewStatus | None = None,
        order: ReviewOrder | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Pager[ReviewList, Review]:
        """List reviews.

        By priority, or oldest first.

        Args:
            queue: Only reviews in this queue.
            status: Only reviews with this status.
            order: `value`, by priority, if left out.
            limit: The maximum number; 50 if left out.
            cursor: `next_cursor` of the previous page; the other parameters must stay the same.

        Raises:
            BadRequestError: A parameter is out of range, or the cursor is of another list.
        """
        return self._pages(
            Call[ReviewList](
                "GET",
                ("v1", "reviews"),
                {200: ReviewList},
                query={"queue": queue, "status": status, "order": order, "limit": limit, "cursor": cursor},
            ),
            "reviews",
        )

    def open_review(self, *, object_id: str, queue: str, signals: Sequence[str] | Unset | None = UNSET) -> Review:
        """Open a review of an object.

        An object has at most one open review in a queue; if there is one, it is returned.

        Args:
            object_id: The object's id.
            queue: The queue; 1 to 64 characters.
            signals: The keys of the signals to be labelled; all enabled ones if left out.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            NotFoundError: There is no such object.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[Review](
                "POST",
                ("v1", "reviews"),
                {200: Review, 201: Review},
                body={"object_id": object_id, "queue": queue, "signals": signals},
            ),
        )

    def list_review_queues(self, *, include: str | None = None) -> Pager[ReviewQueueList, ReviewQueue]:
        """Read how the queues of reviews stand.

        Those with reviews that are not resolved, or that were resolved within seven days.

        Args:
            include: `signals` and `rules`, separated by commas: all of the account's, to show reviews with their
                names.

        Raises:
            BadRequestError: A parameter is invalid.
        """
        return self._pages(
            Call[ReviewQueueList](
                "GET",
                ("v1", "reviews", "queues"),
                {200: ReviewQueueList},
                query={"include": include},
            ),
            "queues",
        )

    def claim_next_review(self, *, queue: str) -> Review | None:
        """Claim the next review of a queue.

        The one whose label is worth most; but whatever has waited for longer than a day comes first, the oldest of it.
        Of many callers each gets another one.

        Args:
            queue: The queue.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(Call[Review | None]("POST", ("v1", "reviews", "next"), {200: Review}, body={"queue": queue}))

    def get_review(self, review_id: str) -> Review:
        """Read a review.

        If the caller has claimed it, the claim is renewed.

        Args:
            review_id: The review's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such review.
        """
        return self._call(Call[Review]("GET", ("v1", "reviews", review_id), {200: Review}))

    def claim_review(self, review_id: str) -> Review:
        """Claim a review.

        A claim lasts 10 minutes (`AUSPEX_CLAIM_SECONDS`) unless it is renewed, by claiming or reading the review again.

        Args:
            review_id: The review's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such review.
            ConflictError: Somebody else has claimed it, or it is resolved.
        """
        return self._call(Call[Review]("POST", ("v1", "reviews", review_id, "claim"), {200: Review}))

    def release_review(self, review_id: str) -> Review:
        """Give a claimed review back.

        Nothing happens if nobody has claimed it.

        Args:
            review_id: The review's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such review.
            ConflictError: Somebody else has claimed it, or it is resolved.
        """
        return self._call(Call[Review]("POST", ("v1", "reviews", review_id, "release"), {200: Review}))

    def resolve_review(
        self,
        review_id: str,
        *,
        decision: str,
        note: str | Unset | None = UNSET,
        labels: Mapping[str, Any] | Unset | None = UNSET,
    ) -> Review:
        """Decide about a review.

        The decision and its labels are stored together or not at all. The labels have the source `review`.

        Args:
            review_id: The review's id.
            decision: What was decided, in a word of your choice; 1 to 64 characters.
            note: What else is worth knowing; at most 2,000 characters.
            labels: What is true, by signal: `noul` true or false; `choice` an option; `score` the index of a level.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            NotFoundError: There is no such review.
            ConflictError: Somebody else has claimed it, or it is resolved.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[Review](
                "POST",
                ("v1", "reviews", review_id, "resolve"),
                {200: Review},
                body={"decision": decision, "note": note, "labels": labels},
            ),
        )

    def reopen_review(self, review_id: str) -> Review:
        """Take a decision back.

        Within 24 hours. The labels that the review gave are withdrawn, and what they replaced stands again.

        Args:
            review_id: The review's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such review.
            ConflictError: It is not resolved, or was resolved more than 24 hours ago, or the object has another
                open review in this queue.
        """
        return self._call(Call[Review]("POST", ("v1", "reviews", review_id, "reopen"), {200: Review}))
