"""Verifies that a webhook delivery is from the service, unchanged and recent."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ._generated.records import WEBHOOK_EVENTS, WebhookPayload
from ._records import Record
from ._signing import mac
from .errors import UsageError, WebhookVerificationError

__all__ = ["TOLERANCE_S", "UnknownWebhook", "verify_webhook"]

#: The usual tolerance between a delivery's timestamp and the receiver's clock, in seconds.
TOLERANCE_S = 300.0

_PREFIX = "whsec_"
#: As web frameworks have them: a mapping, or pairs of texts or bytes.
Headers = Mapping[str, str] | Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True, kw_only=True, repr=False)
class UnknownWebhook(Record):
    """A delivery of an event that this version of the client does not know; its payload is in `raw_json`."""

    event: str
    """The event type."""


def verify_webhook(
    body: bytes | str,
    headers: Headers,
    secret: str | Iterable[str],
    *,
    tolerance: float = TOLERANCE_S,
    now: float | None = None,
) -> WebhookPayload | UnknownWebhook:
    """Verifies the signature of a delivery over its raw body, and returns the payload as a record.

    The service signs each delivery twice: with the headers of Standard Webhooks (`webhook-id`, `webhook-timestamp`,
    `webhook-signature`) and with its own (`X-Webhook-Timestamp`, `X-Webhook-Signature`). One valid signature is enough. While a
    secret is being rotated, pass both.

    Args:
        body: The body exactly as it was received, before anything parses it.
        headers: The headers of the request, in any case.
        secret: The secret of the endpoint (`whsec_…`), or several.
        tolerance: How many seconds its timestamp may be off.
        now: The time in Unix seconds; by default, this machine's.

    Raises:
        WebhookVerificationError: It must not be trusted: it is unsigned, forged, changed or too old.
    """
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets or not all(secrets):
        raise UsageError("secret: it must be the secret of the endpoint, which begins with whsec_")
    raw = body.encode() if isinstance(body, str) else bytes(body)
    given = _lower_case(headers)
    moment = time.time() if now is None else now
    reasons: list[str] = []
    for check in (_check_standard, _check_own):
        reason = check(raw, given, secrets, tolerance, moment)
        if reason is None:
            return _payload(raw)
        reasons.append(reason)
    # What is wrong with a signature says more than that the other one is missing.
    raise WebhookVerificationError(next((reason for reason in reasons if reason != _UNSIGNED), _UNSIGNED))


_UNSIGNED = "the delivery is not signed"
_FORGED = "the signature of the delivery does not match: its secret is another one, or its body was changed"


def _check_standard(
    body: bytes, headers: dict[str, str], secrets: list[str], tolerance: float, now: float
) -> str | None:
    """Why the headers of Standard Webhooks prove nothing; `None` if they are valid."""
    delivery, at = headers.get("webhook-id"), headers.get("webhook-timestamp")
    signatures = headers.get("webhook-signature")
    if delivery is None or at is None or signatures is None:
        return _UNSIGNED
    if reason := _check_time(at, tolerance, now):
        return reason
    message = f"{delivery}.{at}.".encode() + body
    expected = [mac(key, message) for key in map(_decoded, secrets) if key is not None]
    # There are several while a secret is being replaced.
    for signature in signatures.split():
        version, _, encoded = signature.partition(",")
        found = _base64(encoded) if version == "v1" else None
        if found is not None and any(hmac.compare_digest(found, each) for each in expected):
            return None
    return _FORGED


def _check_own(body: bytes, headers: dict[str, str], secrets: list[str], tolerance: float, now: float) -> str | None:
    """Why the service's own headers prove nothing; `None` if they are valid."""
    at, signature = headers.get("x-webhook-timestamp"), headers.get("x-webhook-signature")
    if at is None or signature is None:
        return _UNSIGNED
    if reason := _check_time(at, tolerance, now):
        return reason
    message = f"{at}.".encode() + body
    for secret in secrets:
        expected = f"sha256={mac(secret.encode(), message).hex()}"
        if hmac.compare_digest(expected.encode(), signature.encode()):
            return None
    return _FORGED


def _check_time(at: str, tolerance: float, now: float) -> str | None:
    if not at.isascii() or not at.isdecimal():
        return "the timestamp of the delivery is malformed"
    if abs(now - int(at)) > tolerance:
        return "the timestamp of the delivery is too old or in the future"
    return None


def _decoded(secret: str) -> bytes | None:
    return _base64(secret.removeprefix(_PREFIX))


def _base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _lower_case(headers: Headers) -> dict[str, str]:
    pairs: Any = cast("Mapping[str, str]", headers).items() if isinstance(headers, Mapping) else headers
    return {_text(name).lower(): _text(value) for name, value in pairs}


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _payload(body: bytes) -> WebhookPayload | UnknownWebhook:
    try:
        parsed = json.loads(body)
        event = str(parsed["event"])
    except (ValueError, KeyError, TypeError):
        raise WebhookVerificationError("the body of the delivery is no payload of the service") from None
    known = WEBHOOK_EVENTS.get(event)
    return UnknownWebhook.from_dict(parsed) if known is None else known.from_dict(parsed)
