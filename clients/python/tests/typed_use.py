"""How type checkers see the client. It is checked by mypy, and never run."""

from __future__ import annotations

from typing_extensions import assert_type

from auspex import AsyncAuspex, AsyncPager, Auspex, Pager, UnknownWebhook
from auspex.types import (
    EventInput,
    IngestAccepted,
    ModerationVerdict,
    ObjectList,
    ObjectSummary,
    WebhookPayload,
)


def results_follow_from_arguments(client: Auspex, wait: bool) -> None:
    events: list[EventInput] = [{"type": "message", "content": "hello", "metadata": {"any": ["thing"]}}]
    assert_type(client.ingest_events("a", events=events, wait=True), ModerationVerdict)
    assert_type(client.ingest_events("a", events=events), IngestAccepted)
    assert_type(client.ingest_events("a", events=events, wait=False), IngestAccepted)
    assert_type(client.ingest_events("a", events=events, wait=wait), ModerationVerdict | IngestAccepted)
    assert_type(client.list_objects(sort="flagged"), Pager[ObjectList, ObjectSummary])
    assert_type(client.verify_webhook(b"", {}, "s"), WebhookPayload | UnknownWebhook)


def mistakes_are_found(client: Auspex) -> None:
    client.ingest_events("a", events=[{"type": "shout"}])  # type: ignore[typeddict-item]
    client.list_objects(sort="best")  # type: ignore[arg-type]
    client.put_signal("k")  # type: ignore[call-arg]


async def the_same_is_awaited(client: AsyncAuspex) -> None:
    assert_type(await client.ingest_events("a", events=[{"type": "event"}], wait=True), ModerationVerdict)
    assert_type(client.list_objects(), AsyncPager[ObjectList, ObjectSummary])
    async for each in client.list_objects():
        assert_type(each, ObjectSummary)
