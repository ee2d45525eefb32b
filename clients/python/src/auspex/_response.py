"""What is known about a response beside its body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime


@dataclass(frozen=True)
class ResponseInfo:
    """Status and headers of a response."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""

    @property
    def request_id(self) -> str | None:
        """The id of the request in the service's log."""
        return self.headers.get("x-request-id")

    @property
    def date(self) -> datetime | None:
        """When the service sent the response, by its own clock and to the second."""
        return http_date(self.headers.get("date"))

    @property
    def replayed(self) -> bool:
        """Whether an earlier request with the same idempotency key had recorded the events."""
        return self.headers.get("idempotent-replayed") == "true"

    @property
    def events_recorded(self) -> bool:
        """Whether events were recorded despite an error."""
        return self.headers.get("events-recorded") == "true"

    @property
    def retry_after(self) -> float | None:
        """How many seconds the service asks to wait."""
        value = self.headers.get("retry-after", "").strip()
        if value.isdecimal():
            return float(value)
        until = http_date(value)
        if until is None:
            return None
        # By the service's clock: this machine's may differ.
        now = self.date or datetime.now(until.tzinfo)
        return max(0.0, (until - now).total_seconds())


def http_date(value: str | None) -> datetime | None:
    """Parses a date of HTTP."""
    try:
        return parsedate_to_datetime(value) if value else None
    except (ValueError, TypeError):
        return None
