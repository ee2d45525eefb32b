"""What the stories cannot show: the parts of the core that are pure, and the clients against a scripted transport."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest

from auspex import (
    APIStatusError,
    AsyncAuspex,
    AttemptInfo,
    Auspex,
    AuspexError,
    ConflictError,
    ForbiddenError,
    PaymentRequiredError,
    ServerError,
    UnknownWebhook,
    UnreadableResponseError,
    UsageError,
    WaitTimeoutError,
    WebhookVerificationError,
    errors,
    verify_webhook,
)
from auspex._call import Call
from auspex._response import ResponseInfo
from auspex._retry import Failure, Retries, backoff, is_transient
from auspex._signing import mac, token
from auspex.types import APIKeySecret, ObjectAnalysis, Signal, UsageDay

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "testing" / "vectors.json").read_text())
Handler = Callable[[httpx.Request], httpx.Response]


def scripted(handler: Handler, **options: Any) -> Auspex:
    client = Auspex(
        "http://service", "ak_1", "sk_1", http_client=httpx.Client(transport=httpx.MockTransport(handler)), **options
    )
    # No test waits for a retry.
    object.__setattr__(client._config, "retries", Retries(client._config.retries.limit, 0.0, 60.0))
    return client


def test_a_token_is_bound_to_method_path_and_minute() -> None:
    parts = token("ak_1", "sk_1", 1_700_000_000.9, "GET", "/v1/objects/a ü").split(".")
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in parts[:2])
    assert header == {"alg": "HS256", "typ": "JWT", "kid": "ak_1"}
    assert (claims["iat"], claims["exp"]) == (1_700_000_000, 1_700_000_060)
    assert (claims["htm"], claims["htu"]) == ("GET", "/v1/objects/a ü")
    signature = base64.urlsafe_b64encode(mac(b"sk_1", ".".join(parts[:2]).encode())).rstrip(b"=").decode()
    assert parts[2] == signature


def test_the_vector_of_rfc_7515() -> None:
    vector = VECTORS["hmac"]
    found = mac(base64.urlsafe_b64decode(vector["key"] + "=="), vector["message"].encode())
    assert base64.urlsafe_b64encode(found).rstrip(b"=").decode() == vector["signature"]


@pytest.mark.parametrize("vector", VECTORS["retries"], ids=lambda vector: json.dumps(vector["failure"]))
def test_what_is_retried(vector: dict[str, Any]) -> None:
    assert is_transient(Failure(**vector["failure"]), vector["repeatable"]) == vector["retried"]


def test_delays_double_up_to_a_limit_and_end() -> None:
    retries, failure = Retries(), Failure(503)
    assert [retries.delay(attempt, True, failure, 0.0) for attempt in range(1, 6)] == [0.125, 0.25, 0.5, 1.0, None]
    assert backoff(0.25, 1_000_000, 1.0) == 10.0
    asked = retries.delay(1, False, Failure(429, retry_after=30), 0.5)
    assert asked is not None
    assert 30 < asked < 31
    assert retries.delay(1, False, Failure(429, retry_after=61), 0.5) is None


@pytest.mark.parametrize("vector", VECTORS["retry_after"], ids=lambda vector: str(vector["headers"]))
def test_retry_after_is_seconds_or_a_date(vector: dict[str, Any]) -> None:
    assert ResponseInfo(429, vector["headers"]).retry_after == vector["seconds"]


@pytest.mark.parametrize("vector", VECTORS["webhooks"], ids=lambda vector: vector["name"])
def test_webhooks(vector: dict[str, Any]) -> None:
    def verify() -> Any:
        return verify_webhook(vector["body"], vector["headers"], vector["secrets"], now=vector["now"])

    if vector["error"] is None:
        assert verify().raw_json == json.loads(vector["body"])
    else:
        with pytest.raises(WebhookVerificationError, match=vector["error"]):
            verify()


def test_headers_of_a_webhook_may_be_pairs_of_bytes() -> None:
    vector = VECTORS["webhooks"][0]
    pairs = [(name.encode(), value.encode()) for name, value in vector["headers"].items()]
    found = verify_webhook(vector["body"].encode(), pairs, vector["secrets"][0], now=vector["now"])
    assert isinstance(found, UnknownWebhook)
    with pytest.raises(UsageError):
        verify_webhook(vector["body"], pairs, [])


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequestError),
        (401, errors.AuthenticationError),
        (402, PaymentRequiredError),
        (403, ForbiddenError),
        (404, errors.NotFoundError),
        (409, ConflictError),
        (413, errors.PayloadTooLargeError),
        (418, APIStatusError),
        (422, errors.UnprocessableError),
        (429, errors.RateLimitError),
        (500, ServerError),
        (502, ServerError),
        (302, APIStatusError),
    ],
)
def test_every_status_has_its_error(status: int, kind: type[AuspexError]) -> None:
    body = {"error": {"code": "some_code", "message": "some message"}}
    client = scripted(lambda _: httpx.Response(status, json=body, headers={"X-Request-Id": "r1"}), max_retries=0)
    with pytest.raises(kind) as caught:
        client.get_me()
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.code, error.message, error.request_id) == (status, "some_code", "some message", "r1")
    assert str(error) == f"some message ({status}, some_code, request r1)"


def test_an_error_of_a_proxy_is_no_error_of_the_service() -> None:
    client = scripted(lambda _: httpx.Response(502, text="<html>"), max_retries=0)
    with pytest.raises(ServerError, match="something other than the service") as caught:
        client.get_me()
    assert caught.value.code is None
    with pytest.raises(UnreadableResponseError):
        scripted(lambda _: httpx.Response(200, text="<html>")).get_me()


def test_retries_have_the_same_idempotency_key_and_a_new_token() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(503 if len(seen) < 3 else 202, json={"object_id": "a", "accepted": 1})

    scripted(handler).ingest_events("a", events=[{"type": "event"}])
    assert len(seen) == 3
    assert len({request.headers["idempotency-key"] for request in seen}) == 1
    assert len({request.headers["authorization"] for request in seen}) == 3
    assert seen[0].headers["user-agent"].startswith("auspex-python/")
    assert json.loads(seen[0].content) == {"events": [{"type": "event"}]}


def test_a_verdict_is_not_repeated_when_the_service_may_have_processed_it() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        raise httpx.ReadError("cut", request=request)

    with pytest.raises(errors.APIConnectionError):
        scripted(handler).ingest_events("a", events=[{"type": "event"}], wait=True)
    assert len(seen) == 1


def test_what_is_left_out_is_not_sent_and_none_is_null() -> None:
    bodies: list[Any] = []

    def handler(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content) if request.content else None)
        return httpx.Response(200, json={})

    client = scripted(handler)
    client.update_settings(event_retention_days=None)
    client.create_api_key()
    client.update_rule("r", enabled=False)
    assert bodies == [{"event_retention_days": None}, None, {"enabled": False}]


def test_times_need_a_time_zone() -> None:
    bodies: list[Any] = []

    def handler(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(202, json={})

    client = scripted(handler)
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1)))
    client.ingest_events("a", events=[{"type": "event", "occurred_at": at}])
    assert bodies[0]["events"][0]["occurred_at"] == "2026-01-02T03:04:05+01:00"
    with pytest.raises(UsageError, match="time zone"):
        client.ingest_events("a", events=[{"type": "event", "occurred_at": datetime(2026, 1, 1)}])
    with pytest.raises(UsageError, match="JSON"):
        client.ingest_events("a", events=[{"type": "event", "metadata": {"x": float("nan")}}])
    with pytest.raises(UsageError, match="Unicode"):
        client.get_object("\ud800")


def test_ids_that_would_vanish_from_the_path_are_refused() -> None:
    for name in ("", ".", ".."):
        with pytest.raises(UsageError):
            scripted(lambda _: httpx.Response(200)).get_object(name)


def test_the_query_is_escaped() -> None:
    call = Call[None](
        "GET", ("v1", "objects"), {}, query={"q": "a > 0.5 & b=ü", "limit": 3, "strict": True, "sort": None}
    )
    assert call.target == "/v1/objects?q=a%20%3E%200.5%20%26%20b%3D%C3%BC&limit=3&strict=true"


def test_unknown_fields_are_kept_and_missing_ones_are_none() -> None:
    found = ObjectAnalysis.from_dict(
        {
            "object_id": "a",
            "new_field": 1,
            "analysis": [{"key": "k", "type": "unheard_of", "computed_at": "2026-01-02T03:04:05.000006Z"}],
        }
    )
    assert (found.object_id, found.raw_json["new_field"], found.display_name) == ("a", 1, None)
    kind: str = found.analysis[0].type
    assert kind == "unheard_of"
    assert found.analysis[0].computed_at == datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
    day = UsageDay.from_dict({"date": "2026-01-02", "async": 3})
    assert (day.date, day.async_) == (date(2026, 1, 2), 3)
    # What is not of the expected type stays as it is.
    created: object = Signal.from_dict({"created_at": "whenever", "backfill": 3}).created_at
    assert created == "whenever"


def test_what_is_shown_of_a_record() -> None:
    raw = {"key": "ak_1", "secret": "sk_1", "note": "n", "api_key": {"id": "i", "name": ""}}
    assert repr(APIKeySecret.from_dict(raw)) == "APIKeySecret(api_key=APIKey(id='i', name=''), key='ak_1', note='n')"
    assert repr(scripted(lambda _: httpx.Response(200)).list_events("a")) == "Pager(GET /v1/objects/a/events)"


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AUSPEX_URL", "AUSPEX_KEY", "AUSPEX_SECRET"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="AUSPEX_URL"):
        Auspex()
    monkeypatch.setenv("AUSPEX_URL", "https://auspex.example/")
    monkeypatch.setenv("AUSPEX_KEY", "ak_env")
    monkeypatch.setenv("AUSPEX_SECRET", "sk_env")
    assert repr(Auspex()) == "Auspex(base_url='https://auspex.example', key='ak_env')"
    assert repr(AsyncAuspex(key="ak_mine")) == "AsyncAuspex(base_url='https://auspex.example', key='ak_mine')"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"base_url": "ftp://x"}, "base_url"),
        ({"base_url": "http://user:pass@x"}, "base_url"),
        ({"base_url": "nonsense"}, "base_url"),
        ({"timeout": 0}, "timeout"),
        ({"total_timeout": -1}, "timeout"),
        ({"max_retries": -1}, "max_retries"),
        ({"key": ""}, "key"),
    ],
)
def test_bad_settings_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        Auspex(**({"base_url": "http://x", "key": "k", "secret": "s"} | options))


def test_secrets_are_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    attempts: list[AttemptInfo] = []
    secret = "sk_very_secret"

    def handler(request: httpx.Request) -> httpx.Response:
        assert secret not in str(request.headers.raw)
        raise httpx.ReadError("cut", request=request)

    http = httpx.Client(transport=httpx.MockTransport(handler))
    client = Auspex("http://service", "ak_1", secret, http_client=http, max_retries=0, on_attempt=attempts.append)
    with caplog.at_level(logging.DEBUG, "auspex"), pytest.raises(AuspexError) as caught:
        client.get_me()
    assert "GET /v1/me" in caplog.text
    shown = [caplog.text, repr(client), repr(client._config), repr(caught.value), str(caught.value), repr(attempts)]
    assert not [text for text in shown if secret in text or "Bearer" in text]


def test_options_of_one_call() -> None:
    timeouts: list[Any] = []

    def handler(request: httpx.Request) -> httpx.Response:
        timeouts.append((request.extensions["timeout"]["read"], request.headers.get("x-tag")))
        return httpx.Response(200, json={})

    client = scripted(handler)
    client.with_options(timeout=3, headers={"x-tag": "t"}).get_me()
    client.get_me()
    assert timeouts == [(3, "t"), (45.0, None)]
    with pytest.raises(UsageError):
        client.with_options(timeout=0)


def test_waiting_ends_in_time() -> None:
    body = {"object_id": "a", "analysis": [], "pending": ["x"]}
    client = scripted(lambda _: httpx.Response(200, json=body))
    with pytest.raises(WaitTimeoutError) as caught:
        client.wait_for_answers("a", timeout=0.05)
    assert caught.value.pending == ["x"]
    with pytest.raises(UsageError):
        client.wait_for_answers("a", signals="x")
    with pytest.raises(UsageError, match="time zone"):
        client.wait_for_answers("a", since=datetime(2026, 1, 1))
