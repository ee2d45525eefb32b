"""Signed requests: each attempt gets a new HS256 token for one method and one path."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import uuid
from collections.abc import Mapping

#: How long a token is valid, in seconds.
LIFETIME_S = 60


def token(key: str, secret: str, now: float, method: str, decoded_path: str) -> str:
    """Signs a token for a request, given its decoded path."""
    issued = int(now)
    header = {"alg": "HS256", "typ": "JWT", "kid": key}
    claims = {
        "iat": issued,
        "exp": issued + LIFETIME_S,
        "jti": str(uuid.uuid4()),
        "htm": method,
        "htu": decoded_path,
    }
    message = f"{_encoded(header)}.{_encoded(claims)}"
    return f"{message}.{_base64url(mac(secret.encode(), message.encode()))}"


def mac(key: bytes, message: bytes) -> bytes:
    """The HMAC-SHA256 of a message."""
    return hmac.new(key, message, hashlib.sha256).digest()


def _encoded(value: Mapping[str, object]) -> str:
    return _base64url(json.dumps(value, separators=(",", ":")).encode())


def _base64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
