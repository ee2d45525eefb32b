"""The Python client of Auspex: typed calls that are signed, retried where that is safe, and fail with a reason."""

from ._batches import FailedBatch
from ._call import UNSET, Unset
from ._client import AsyncAuspex, Auspex
from ._config import AttemptInfo
from ._exports import AsyncExport, Export
from ._ingester import AsyncIngester, Ingester
from ._paging import AsyncPager, Pager
from ._records import Record
from ._response import ResponseInfo
from ._version import __version__
from .errors import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AuspexError,
    AuthenticationError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    IngestError,
    NotFoundError,
    PayloadTooLargeError,
    PaymentRequiredError,
    RateLimitError,
    ServerError,
    UnprocessableError,
    UnreadableResponseError,
    UsageError,
    WaitTimeoutError,
    WebhookVerificationError,
)
from .webhooks import UnknownWebhook, verify_webhook

__all__ = [
    "UNSET",
    "APIConnectionError",
    "APIStatusError",
    "APITimeoutError",
    "AsyncAuspex",
    "AsyncExport",
    "AsyncIngester",
    "AsyncPager",
    "AttemptInfo",
    "Auspex",
    "AuspexError",
    "AuthenticationError",
    "BadRequestError",
    "ConflictError",
    "Export",
    "FailedBatch",
    "ForbiddenError",
    "IngestError",
    "Ingester",
    "NotFoundError",
    "Pager",
    "PayloadTooLargeError",
    "PaymentRequiredError",
    "RateLimitError",
    "Record",
    "ResponseInfo",
    "ServerError",
    "UnknownWebhook",
    "UnprocessableError",
    "UnreadableResponseError",
    "Unset",
    "UsageError",
    "WaitTimeoutError",
    "WebhookVerificationError",
    "__version__",
    "verify_webhook",
]
