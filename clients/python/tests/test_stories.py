"""The stories of clients/stories.md, told by the synchronous client and by the asynchronous one on asyncio and trio."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from receiver import Receiver

from auspex import (
    APIConnectionError,
    APITimeoutError,
    AttemptInfo,
    AuthenticationError,
    BadRequestError,
    IngestError,
    NotFoundError,
    RateLimitError,
    ServerError,
    UnprocessableError,
    WebhookVerificationError,
    verify_webhook,
)
from auspex.types import ModerationVerdict, RuleTriggered

Connect = Callable[..., Any]
Account = Callable[..., dict[str, str]]

#: An id in which everything needs escaping.
OBJECT = "käufer/1 %2F?#&+ü😀"
SALE: dict[str, Any] = {"type": "event", "name": "sale"}


def tell(kind: str, story: Callable[[], Awaitable[None]]) -> None:
    anyio.run(story, backend="trio" if kind == "trio" else "asyncio")


def test_signs_any_object_id(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        async with connect(account()) as client:
            accepted = await client.ingest_events(OBJECT, events=[SALE], object_type="buyer")
            assert (accepted.object_id, accepted.accepted) == (OBJECT, 1)
            found = await client.get_object(OBJECT)
            assert (found.object_id, found.object_type, found.event_count) == (OBJECT, "buyer", 1)
            assert [each.object_id async for each in client.list_objects(q="käufer/1 %2F?#&+")] == [OBJECT]
            await client.delete_object(OBJECT)
            with pytest.raises(NotFoundError) as caught:
                await client.get_object(OBJECT)
            assert (caught.value.status, caught.value.code) == (404, "not_found")

    tell(kind, story)


def test_refuses_a_wrong_secret(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        made = account() | {"secret": "sk_wrong_and_secret"}
        async with connect(made) as client:
            with pytest.raises(AuthenticationError) as caught:
                await client.get_me()
        error = caught.value
        assert (error.status, error.code) == (401, "unauthorized")
        assert error.request_id
        for shown in (str(error), repr(error), repr(client), repr(vars(error))):
            assert "sk_wrong_and_secret" not in shown

    tell(kind, story)


def test_names_what_is_wrong(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        async with connect(account()) as client:
            with pytest.raises(BadRequestError, match=r"events\[1\]\.type") as caught:
                await client.ingest_events("a", events=[SALE, {"type": "shout"}])
            assert (caught.value.status, caught.value.code) == (400, "bad_request")
            with pytest.raises(NotFoundError):
                await client.get_rule("01a1e419-80df-765e-be81-84bb0285362b")
            await client.ingest_events("a", events=[SALE], idempotency_key="used")
            with pytest.raises(UnprocessableError) as reused:
                await client.ingest_events("b", events=[SALE], idempotency_key="used")
            assert reused.value.code == "idempotency_key_reused"

    tell(kind, story)


def test_records_events_once(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        async with connect(account()) as client:
            first = await client.ingest_events("a", events=[SALE], idempotency_key="order-17")
            again = await client.ingest_events("a", events=[SALE], idempotency_key="order-17")
            assert (first.http_response.replayed, again.http_response.replayed) == (False, True)
            assert (await client.get_object("a")).event_count == 1

    tell(kind, story)


def test_survives_a_lost_response(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        attempts: list[AttemptInfo] = []
        name = f"lost/{uuid.uuid4()}"
        async with connect(account(by="lossy"), on_attempt=attempts.append) as client:
            accepted = await client.ingest_events(name, events=[SALE, SALE])
            assert accepted.http_response.replayed
            assert [each.status for each in attempts] == [None, 202]
            assert attempts[0].error is not None
            assert attempts[0].retry_in is not None
            assert (await client.get_object(name)).event_count == 2
            # The first attempt deleted it; the second finds nothing, which is what was asked for.
            await client.delete_object(name)
            assert [each.status for each in attempts[-2:]] == [None, 404]

    tell(kind, story)


def test_never_resends_recorded_events(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        attempts: list[AttemptInfo] = []
        async with connect(account("without_analyzer"), on_attempt=attempts.append) as client:
            with pytest.raises(ServerError) as caught:
                await client.ingest_events("a", events=[SALE], wait=True)
            assert caught.value.events_recorded
            assert len(attempts) == 1
            assert (await client.get_object("a")).event_count == 1

    tell(kind, story)


def test_reports_a_rate_limit(kind: str, connect: Connect, account: Account) -> None:
    async def insist(client: Any) -> None:
        for _ in range(20):
            await client.get_me()

    async def story() -> None:
        async with connect(account("rate_limited"), max_retries=0) as client:
            with pytest.raises(RateLimitError) as caught:
                await insist(client)
            assert caught.value.retry_after is not None
            assert 0 <= caught.value.retry_after <= 60
            assert not caught.value.events_recorded
        # The wait would exceed what the call may take: there is no point in waiting.
        async with connect(account("rate_limited"), total_timeout=0.5) as client:
            started = time.monotonic()
            with pytest.raises(RateLimitError):
                await insist(client)
            assert time.monotonic() - started < 10

    tell(kind, story)


def test_gives_up_at_the_deadline(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        async with connect(account(by="silent"), timeout=30, total_timeout=0.4) as client:
            started = time.monotonic()
            with pytest.raises(APITimeoutError):
                await client.get_me()
            assert 0.3 < time.monotonic() - started < 10
        attempts: list[AttemptInfo] = []
        options: dict[str, Any] = {"timeout": 0.1, "max_retries": 2, "on_attempt": attempts.append}
        async with connect(account(by="silent"), **options) as client:
            with pytest.raises(APITimeoutError, match=r"within 0\.1 s"):
                await client.get_me()
        assert len(attempts) == 3

    tell(kind, story)


def test_fails_to_connect(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        attempts: list[AttemptInfo] = []
        # Nothing listens on this port.
        made = account() | {"url": "http://127.0.0.1:9"}
        async with connect(made, max_retries=1, on_attempt=attempts.append) as client:
            with pytest.raises(APIConnectionError) as caught:
                # Not repeatable, but it has not reached the service.
                await client.run_playground(events=[SALE])
        assert not isinstance(caught.value, APITimeoutError)
        assert (len(attempts), caught.value.status) == (2, None)

    tell(kind, story)


def test_waits_for_answers(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        async with connect(account()) as client:
            accepted = await client.ingest_events("a", events=[{"type": "message", "content": "gift cards only"}])
            found = await client.wait_for_answers("a", since=accepted, timeout=30)
            assert found.pending == []
            assert {answer.key for answer in found.analysis} == {"is_scammer", "trust_score", "buyer_intent"}
            one = await client.wait_for_answers("a", signals=["is_scammer"])
            [answer] = [each for each in one.analysis if each.key == "is_scammer"]
            assert answer.noul is not None
            assert answer.computed_at.tzinfo is not None
            analyses = await client.list_answers("a", signal="is_scammer").to_list()
            assert [len(each.answers) for each in analyses] == [1]

    tell(kind, story)


def test_returns_a_verdict(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        async with connect(account()) as client:
            verdict = await client.ingest_events("a", events=[SALE], wait=True, signals=["trust_score"])
            assert isinstance(verdict, ModerationVerdict)
            assert verdict.analyzed
            [answer] = verdict.answers
            assert (answer.signal, answer.type) == ("trust_score", "score")
            assert answer.probabilities is not None
            assert sum(answer.probabilities.values()) == pytest.approx(1)
            tried = await client.run_playground(events=[SALE], signals=["is_scammer"])
            assert tried.events_count == 1

    tell(kind, story)


def test_pages_through_everything(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        async with connect(account()) as client:
            names = [f"seller/{number}" for number in range(7)]
            for name in names:
                await client.ingest_events(name, events=[SALE], wait=True)
            by_cursor = client.list_objects(limit=2)
            assert sorted([each.object_id async for each in by_cursor]) == names
            assert [len(page.objects) async for page in by_cursor.pages()] == [2, 2, 2, 1]
            assert len((await by_cursor.page()).objects) == 2
            by_offset = client.list_objects(q="is_scammer >= 0", limit=2)
            assert sorted([each.object_id async for each in by_offset]) == names
            entries = await client.list_ledger_entries(type="charge", limit=2).to_list()
            assert len({entry.id for entry in entries}) == 7

    tell(kind, story)


def test_asks_a_new_question(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        async with connect(account()) as client:
            made = await client.put_signal("kind", type="score", instructions="How kind?", criteria=["not", "very"])
            assert (made.key, made.type, made.enabled) == ("kind", "score", True)
            changed = await client.put_signal("kind", type="score", instructions="How?", criteria=["not", "very"])
            assert changed.instructions == "How?"
            restored = await client.restore_signal_version("kind", 1)
            assert restored.instructions == "How kind?"
            versions = [each.version async for each in client.list_signal_versions("kind")]
            assert versions == [3, 2, 1]
            assert "kind" in [signal.key async for signal in client.list_signals()]
            assert (await client.get_backfill("kind")).estimate.objects == 0
            checked = await client.check_condition(when="kind >", for_="query")
            assert not checked.valid
            assert checked.error is not None
            await client.delete_signal("kind")
            with pytest.raises(NotFoundError):
                await client.delete_signal("kind")

    tell(kind, story)


def test_verifies_a_webhook(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        async with connect(account()) as client:
            with Receiver() as receiver:
                made = await client.create_webhook(url=receiver.url, events=["rule.triggered"])
                assert made.secret not in repr(made)
                config = {"endpoint_id": made.endpoint.id}
                rule = await client.create_rule(when="is_scammer >= 0", action_type="webhook", action_config=config)
                await client.ingest_events("a", events=[SALE], wait=True)
                headers, body = receiver.next()
            payload = verify_webhook(body, headers, made.secret)
            assert isinstance(payload, RuleTriggered)
            assert (payload.rule_id, payload.object_id) == (rule.id, "a")
            other = "whsec_" + "A" * 43 + "="
            assert verify_webhook(body, headers, [other, made.secret]) == payload
            for changed, secret, now in (
                (body + b" ", made.secret, None),
                (body, other, None),
                (body, made.secret, time.time() + 600),
                (body, made.secret, time.time() - 600),
            ):
                with pytest.raises(WebhookVerificationError):
                    verify_webhook(changed, headers, secret, now=now)

    tell(kind, story)


def test_looks_after_keys(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        mine = account()
        async with connect(mine) as client:
            made = await client.create_api_key(name="second")
            assert made.secret not in repr(made)
            async with connect({"url": mine["url"], "key": made.key, "secret": made.secret}) as second:
                assert (await second.get_me()).tenant_name == "Stories"
                await client.revoke_api_key(made.api_key.id)
                with pytest.raises(AuthenticationError):
                    await second.get_me()
            assert [each.name async for each in client.list_api_keys()] == ["stories"]

    tell(kind, story)


def test_reads_money_and_settings(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        async with connect(account()) as client:
            await client.ingest_events("a", events=[SALE], wait=True)
            assert (await client.get_billing()).currency == "usd"
            entries = await client.list_ledger_entries().to_list()
            assert {entry.reason for entry in entries} == {"signup_credit", "analysis"}
            usage = await client.get_usage()
            assert (usage.totals.analyses, usage.series[-1].sync) == (1, 1)
            changed = await client.update_settings(event_retention="days", event_retention_days=30)
            assert changed.event_retention_days == 30
            assert (await client.get_settings()).event_retention == "days"

    tell(kind, story)


def test_exports_everything(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        async with connect(account(by="lossy")) as client:
            for part in range(3):
                events = [{"type": "message", "content": f"{part} {number}\u2028\n"} for number in range(100)]
                await client.ingest_events(f"seller/{part}", events=events)
            export = client.export("events")
            rows = [row async for row in export]
            assert {row["content"] for row in rows} == {
                f"{part} {number}\u2028\n" for part in range(3) for number in range(100)
            }
            assert (len(rows), export.rows, export.cursor) == (300, 300, rows[-1]["cursor"])
            rest = [row async for row in client.export("events", cursor=rows[199]["cursor"])]
            assert rest == rows[200:]
            with pytest.raises(BadRequestError):
                [row async for row in client.export("events", cursor="nonsense")]

    tell(kind, story)


def test_closes_in_time(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        # Nothing listens on this port.
        async with connect(account() | {"url": "http://127.0.0.1:9"}) as client:

            async def send_all() -> None:
                async with client.ingester(max_delay=0.01, close_timeout=0.5) as ingester:
                    for number in range(20):
                        event = {"type": "event", "name": "sale", "metadata": {"number": number}}
                        await ingester.send(f"seller/{number % 10}", event, object_type="seller")

            started = time.monotonic()
            with pytest.raises(IngestError) as caught:
                await send_all()
            assert time.monotonic() - started < 10
        assert caught.value.failed_events == 20
        unsent = [json.loads(event)["metadata"]["number"] for batch in caught.value.batches for event in batch.events]
        assert sorted(unsent) == list(range(20))
        assert {batch.object_type for batch in caught.value.batches} == {"seller"}

    tell(kind, story)


def test_sends_many_events(kind: str, connect: Connect, account: Account) -> None:
    async def story() -> None:
        attempts: list[AttemptInfo] = []
        async with connect(account(), on_attempt=attempts.append) as client:
            async with client.ingester(max_delay=0.05, max_pending_events=200) as ingester:
                for number in range(1_000):
                    event = {"type": "event", "name": "sale", "metadata": {"number": number}}
                    await ingester.send(f"seller/{number % 20}", event, object_type="seller")
            assert len(attempts) < 300
            for name in range(20):
                events = await client.list_events(f"seller/{name}").to_list()
                numbers = [event.metadata["number"] for event in events]
                assert numbers == list(range(980 + name, -1, -20))

    tell(kind, story)
