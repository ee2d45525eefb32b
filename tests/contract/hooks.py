"""What Schemathesis needs to know to talk to the service: how requests are signed, and where they come from."""

import base64
import hashlib
import hmac
import json
import os
import random
import time
from urllib.parse import unquote, urlsplit

import requests
import schemathesis

KEY = os.environ["CONTRACT_KEY"]
SECRET = os.environ["CONTRACT_SECRET"]
CONSOLE_TOKEN = os.environ["CONTRACT_CONSOLE_TOKEN"]
METRICS_TOKEN = os.environ["CONTRACT_METRICS_TOKEN"]
BEARER_KEY = os.environ["CONTRACT_BEARER_KEY"]

# The key that signs must outlive the run: whatever would change or revoke it gets a key that nobody signs with.
KEY_ID = os.environ["CONTRACT_KEY_ID"]
SPARE_KEY_ID = os.environ["CONTRACT_SPARE_KEY_ID"]

# What only people may ask for.
FOR_PEOPLE = ("/v1/me/", "/v1/members", "/v1/invitations", "/v1/audit_log", "/v1/key_refusals", "/v1/account/", "/v1/operator/")

addresses = random.Random(1)


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def token(method: str, url: str) -> str:
    now = int(time.time())
    header = {"alg": "HS256", "typ": "JWT", "kid": KEY}
    claims = {"iat": now, "exp": now + 60, "htm": method, "htu": unquote(urlsplit(url).path)}
    signed = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
    signature = hmac.new(SECRET.encode(), signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{encoded(signature)}"


class Signed(requests.auth.AuthBase):
    """Signs each request as it is sent; what only people may ask carries a console token instead."""

    def __call__(self, request):
        path = urlsplit(request.url).path
        if path.startswith(FOR_PEOPLE):
            request.headers["Authorization"] = f"Bearer {CONSOLE_TOKEN}"
        elif path == "/v1/moderations":
            request.headers["Authorization"] = f"Bearer {BEARER_KEY}"
        elif path.startswith("/v1alpha1/"):
            request.prepare_url(request.url, {"key": BEARER_KEY})
        elif path == "/metrics":
            request.headers["Authorization"] = f"Bearer {METRICS_TOKEN}"
        elif path.startswith("/v1/"):
            request.headers["Authorization"] = f"Bearer {token(request.method, request.url)}"
        return request


schemathesis.auth.set_from_requests(Signed())


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.path_parameters and case.path_parameters.get("key_id") == KEY_ID:
        case.path_parameters["key_id"] = SPARE_KEY_ID
    # Each from an address of its own: failed sign-ins are limited by address, and a refusal for that proves nothing.
    address = ".".join(str(addresses.randint(1, 254)) for _ in range(3))
    case.headers["X-Forwarded-For"] = f"10.{address}"
