"""The ingester where the service refuses, is down, or is slow; and a program that just ends."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

from auspex import AsyncAuspex, Auspex, FailedBatch, IngestError, UsageError
from auspex._batches import Batches, Limits
from auspex._retry import Retries

Handler = Callable[[httpx.Request], httpx.Response]
ACCEPTED = {"object_id": "a", "accepted": 1, "analysis_status": "scheduled", "analysis_delay_ms": 1}


def client_of(handler: Handler) -> Auspex:
    http = httpx.Client(transport=httpx.MockTransport(handler))
    client = Auspex("http://service", "ak_1", "sk_1", http_client=http)
    object.__setattr__(client._config, "retries", Retries(0))
    return client


def names(request: httpx.Request) -> list[str]:
    return [event["name"] for event in json.loads(request.content)["events"]]


def test_one_bad_event_does_not_take_the_others_with_it() -> None:
    recorded: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        if "bad" in names(request):
            return httpx.Response(400, json={"error": {"code": "bad_request", "message": "events[2]: bad"}})
        recorded.extend(names(request))
        return httpx.Response(202, json=ACCEPTED)

    failed: list[FailedBatch] = []
    with client_of(handler).ingester(on_error=failed.append) as ingester:
        for name in ["1", "2", "bad", "3", "4", "5"]:
            ingester.send("a", {"type": "event", "name": name}, object_type="user")
    assert recorded == ["1", "2", "3", "4", "5"]
    [failure] = failed
    assert (failure.object_id, failure.object_type, failure.error.status) == ("a", "user", 400)
    assert [json.loads(event)["name"] for event in failure.events] == ["bad"]


def test_without_a_callback_failures_are_raised_at_the_end() -> None:
    refused = {"error": {"code": "payment_required", "message": "the balance is empty"}}
    ingester = client_of(lambda _: httpx.Response(402, json=refused)).ingester()
    for _ in range(3):
        ingester.send("a", {"type": "event"})
    with pytest.raises(IngestError, match="the balance is empty") as caught:
        ingester.close()
    assert caught.value.failed_events == 3
    with pytest.raises(UsageError, match="closed"):
        ingester.send("a", {"type": "event"})


def test_an_outage_is_waited_out_with_the_same_key() -> None:
    keys: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        if len(keys) == 1:
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(202, json=ACCEPTED)

    with client_of(handler).ingester(max_delay=0) as ingester:
        ingester.send("a", {"type": "event"})
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_an_outage_that_lasts_is_reported() -> None:
    failed: list[FailedBatch] = []
    handler = client_of(lambda _: httpx.Response(503, json={}))
    with handler.ingester(retry_for=0, on_error=failed.append) as ingester:
        ingester.send("a", {"type": "event"})
    assert [failure.error.status for failure in failed] == [503]


def test_memory_is_bounded() -> None:
    release, largest = threading.Event(), 0

    def handler(request: httpx.Request) -> httpx.Response:
        release.wait(30)
        return httpx.Response(202, json=ACCEPTED)

    with client_of(handler).ingester(max_pending_events=10, max_batch_events=5) as ingester:
        done = threading.Event()

        def send() -> None:
            for number in range(50):
                ingester.send(f"object/{number % 3}", {"type": "event", "name": str(number)})
            done.set()

        sender = threading.Thread(target=send)
        sender.start()
        # It gets as far as the limit, and no further: then it waits.
        while ingester.pending_events < 10:
            largest = max(largest, ingester.pending_events)
        assert not done.wait(0.2)
        assert ingester.pending_events == 10
        release.set()
        sender.join(30)
        assert done.is_set()
        ingester.flush()
        assert ingester.pending_events == 0
    assert largest <= 10


def test_events_are_grouped_by_object_size_and_type() -> None:
    batches = Batches(Limits(3, 1_000, 10.0, 100, 10_000))
    for number in range(4):
        batches.add("a", None, b"%d" % number, now=0.0)
    batches.add("b", "user", b"5", now=1.0)
    batches.add("b", "seller", b"6", now=2.0)
    batches.add("c", None, b"7" * 999, now=3.0)
    batches.add("c", None, b"8", now=3.0)
    first = batches.take(3.0)
    assert first is not None
    assert (first.object_id, first.events) == ("a", [b"0", b"1", b"2"])
    others = [batches.take(3.0) for _ in range(3)]
    # Full, or of another type than what follows; the rest is not due.
    assert [batch and (batch.object_id, batch.events) for batch in others] == [("b", [b"5"]), ("c", [b"7" * 999]), None]
    # While a batch of an object is on its way, the next one waits.
    assert batches.take(99.0) is None
    batches.done(first)
    following = batches.take(99.0)
    assert following is not None
    assert (following.object_id, following.events) == ("a", [b"3"])
    assert batches.pending_events == 5


def test_bad_limits_are_refused() -> None:
    client = client_of(lambda _: httpx.Response(202, json=ACCEPTED))
    for options in ({"max_batch_events": 501}, {"max_batch_bytes": 0}, {"max_pending_events": 0}, {"max_delay": -1}):
        with pytest.raises(UsageError):
            client.ingester(**options)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        client.ingester().send("", {"type": "event"})


def test_a_client_that_is_closed_too_early_is_reported() -> None:
    with Auspex("http://127.0.0.1:9", "ak_1", "sk_1") as client:
        ingester = client.ingester(max_delay=60)
        ingester.send("a", {"type": "event"})
    with pytest.raises(IngestError, match="closed") as caught:
        ingester.close()
    assert caught.value.failed_events == 1


def test_an_error_of_the_program_does_not_lose_events() -> None:
    recorded: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        recorded.extend(names(request))
        return httpx.Response(202, json=ACCEPTED)

    async def story() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(handler))
        client = AsyncAuspex("http://service", "ak_1", "sk_1", http_client=http)
        async with client.ingester() as ingester:
            await ingester.send("a", {"type": "event", "name": "kept"})
            raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        anyio.run(story)
    assert recorded == ["kept"]


def test_on_error_may_wait_for_a_thread_that_sends() -> None:
    release, sent_in_time = threading.Event(), list[bool]()

    def handler(request: httpx.Request) -> httpx.Response:
        release.wait(30)
        return httpx.Response(202, json=ACCEPTED)

    def send_again() -> None:
        with pytest.raises(UsageError, match="closed"):
            ingester.send("b", {"type": "event"})

    def on_error(failure: FailedBatch) -> None:
        sender = threading.Thread(target=send_again)
        sender.start()
        sender.join(5)
        sent_in_time.append(not sender.is_alive())

    ingester = client_of(handler).ingester(max_delay=0, close_timeout=0.01, on_error=on_error)
    ingester.send("a", {"type": "event"})
    ingester.close()
    release.set()
    assert sent_in_time == [True]


def test_closing_waits_for_what_is_being_reported() -> None:
    reporting, failed = threading.Event(), list[str]()

    def on_error(failure: FailedBatch) -> None:
        reporting.set()
        # Until the time to close is over.
        while ingester.pending_events > 0:
            time.sleep(0.05)
        failed.append(failure.object_id)

    ingester = client_of(lambda _: httpx.Response(402, json={})).ingester(
        max_delay=0, close_timeout=0.01, on_error=on_error
    )
    ingester.send("a", {"type": "event"})
    assert reporting.wait(30)
    ingester.close()
    assert failed == ["a"]


def test_closing_ends_though_on_error_does_not() -> None:
    reporting, release = threading.Event(), threading.Event()

    def on_error(failure: FailedBatch) -> None:
        reporting.set()
        release.wait(60)

    ingester = client_of(lambda _: httpx.Response(402, json={})).ingester(
        max_delay=0, close_timeout=0.01, on_error=on_error
    )
    ingester.send("a", {"type": "event"})
    assert reporting.wait(30)
    started = time.monotonic()
    ingester.close()
    assert time.monotonic() - started < 20
    release.set()


def test_a_duration_may_be_infinite() -> None:
    recorded: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        recorded.extend(names(request))
        return httpx.Response(202, json=ACCEPTED)

    async def story() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(handler))
        client = AsyncAuspex("http://service", "ak_1", "sk_1", http_client=http)
        async with client.ingester(max_delay=math.inf, retry_for=math.inf, close_timeout=math.inf) as ingester:
            await ingester.send("a", {"type": "event", "name": "async"})

    with client_of(handler).ingester(max_delay=math.inf, retry_for=math.inf, close_timeout=math.inf) as ingester:
        ingester.send("a", {"type": "event", "name": "sync"})
    anyio.run(story)
    assert recorded == ["sync", "async"]


def test_what_is_left_at_close_is_returned_however_much_failed_before() -> None:
    refused = client_of(lambda _: httpx.Response(402, json={}))
    ingester = refused.ingester(max_pending_events=2, max_delay=60, close_timeout=0)
    for number in range(3):
        ingester.send(f"refused/{number}", {"type": "event"})
        ingester.flush()
    ingester.send("left", {"type": "event"})
    with pytest.raises(IngestError) as caught:
        ingester.close()
    assert caught.value.failed_events == 4
    assert [batch.object_id for batch in caught.value.batches] == ["refused/0", "refused/1", "left"]


def test_a_program_that_just_ends_loses_nothing(world: dict[str, str], account: Callable[..., dict[str, str]]) -> None:
    made = account()
    program = """
import sys
from auspex import Auspex

ingester = Auspex(*sys.argv[1:]).ingester(max_delay=60)
for number in range(250):
    ingester.send(f"object/{number % 5}", {"type": "event", "name": "sale"})
"""
    command: list[Any] = [sys.executable, "-B", "-W", "error", "-c", program, made["url"], made["key"], made["secret"]]
    subprocess.run(command, check=True, timeout=60)
    with Auspex(made["url"], made["key"], made["secret"]) as client:
        assert [client.get_object(f"object/{number}").event_count for number in range(5)] == [50] * 5
