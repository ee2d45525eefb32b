"""The errors of the client. All of them are an `AuspexError`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ._batches import FailedBatch

__all__ = [
    "APIConnectionError",
    "APIStatusError",
    "APITimeoutError",
    "AuspexError",
    "AuthenticationError",
    "BadRequestError",
    "ConflictError",
    "ForbiddenError",
    "IngestError",
    "NotFoundError",
    "PayloadTooLargeError",
    "PaymentRequiredError",
    "RateLimitError",
    "ServerError",
    "UnprocessableError",
    "UnreadableResponseError",
    "UsageError",
    "WaitTimeoutError",
    "WebhookVerificationError",
]


class AuspexError(Exception):
    """Why a call failed. What is not known about a failure is `None`."""

    message: str
    """What is wrong, for people; the text may change."""
    status: int | None
    """The HTTP status, if there was a response."""
    code: str | None
    """A stable code for programs, such as `bad_request` or `payment_required`."""
    request_id: str | None
    """The id of the request in the service's log."""
    retry_after: float | None
    """How many seconds the service asks to wait before the next attempt."""
    events_recorded: bool
    """Whether the events of the request were recorded despite the error. If so, do not send them again."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        events_recorded: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after
        self.events_recorded = events_recorded

    def __str__(self) -> str:
        details = [str(detail) for detail in (self.status, self.code) if detail is not None]
        if self.request_id is not None:
            details.append(f"request {self.request_id}")
        return f"{self.message} ({', '.join(details)})" if details else self.message


class UsageError(AuspexError, ValueError):
    """The client or the call is invalid; nothing was sent."""


class APIConnectionError(AuspexError):
    """The service could not be reached, or the connection ended before the response. It may have processed the request."""


class APITimeoutError(APIConnectionError, TimeoutError):
    """The service did not respond in time. It may have processed the request."""


class UnreadableResponseError(AuspexError):
    """The response could not be parsed: it is from something else, or from another version of the service."""


class APIStatusError(AuspexError):
    """The service responded with an error. Each common status has a class of its own."""

    _by_status: ClassVar[dict[int, type[APIStatusError]]] = {}

    def __init_subclass__(cls, *, of: int | None = None) -> None:
        if of is not None:
            APIStatusError._by_status[of] = cls

    @classmethod
    def of(cls, status: int) -> type[APIStatusError]:
        """The class of errors with this status."""
        return cls._by_status.get(status, ServerError if status >= 500 else APIStatusError)


class BadRequestError(APIStatusError, of=400):
    """400: the request is invalid; the message names the field."""


class AuthenticationError(APIStatusError, of=401):
    """401: key, secret or clock are wrong, or the key is revoked; the service does not say which."""


class PaymentRequiredError(APIStatusError, of=402):
    """402: the balance is empty; nothing was recorded."""


class ForbiddenError(APIStatusError, of=403):
    """403: the credential may not do this, or the account is suspended or out of storage."""


class NotFoundError(APIStatusError, of=404):
    """404: it does not exist, or belongs to another account."""


class ConflictError(APIStatusError, of=409):
    """409: it conflicts with the current state. Of a repeated verdict: its events were recorded by the first request."""


class PayloadTooLargeError(APIStatusError, of=413):
    """413: the body exceeds 4 MiB; send fewer events at once."""


class UnprocessableError(APIStatusError, of=422):
    """422: the idempotency key was used for another object."""


class RateLimitError(APIStatusError, of=429):
    """429: too many requests; `retry_after` says how long to wait."""


class ServerError(APIStatusError):
    """5xx: the service, its analyzer or its database failed."""


class WaitTimeoutError(AuspexError, TimeoutError):
    """The answers did not arrive in time."""

    def __init__(self, message: str, pending: list[str]) -> None:
        super().__init__(message)
        self.pending = pending


class IngestError(AuspexError):
    """Events that an ingester could not deliver. It is raised when the ingester is closed, unless it has `on_error`."""

    def __init__(self, message: str, failed_events: int, batches: Sequence[FailedBatch] = ()) -> None:
        super().__init__(message)
        self.failed_events = failed_events
        """How many events were not delivered."""
        self.batches = tuple(batches)
        """The events themselves: up to `max_pending_events` that failed before the ingester was closed, and all that were left then."""


class WebhookVerificationError(AuspexError, ValueError):
    """A delivery must not be trusted; the message says why."""
