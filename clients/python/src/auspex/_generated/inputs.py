"""The records that requests contain, as plain dictionaries.

Generated from docs/openapi.json by `make clients`. Do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from .records import EventType, LabelValue, SignalType

__all__ = [
    "EventInput",
    "LabelCreate",
    "SystemOneQuestion",
    "TrialQueryInput",
]


class _EventInputRequired(TypedDict):
    type: EventType
    """The type of event."""


class EventInput(_EventInputRequired, total=False):
    """An event, as sent to the service."""

    name: str | None
    """The event's name, or a message's subject; at most 255 characters."""

    content: str | None
    """The text; at most 32 KiB."""

    metadata: Mapping[str, Any] | None
    """Any other data, an object of at most 16 KiB. If `name` is a string, it becomes the object's display name."""

    occurred_at: datetime | str | None


class _LabelCreateRequired(TypedDict):
    object_id: str
    """The object's id."""

    signal: str
    """The key of the signal."""

    value: LabelValue
    """What is true: `noul` true or false; `choice` an option; `score` the index of a level."""


class LabelCreate(_LabelCreateRequired, total=False):
    """A label to be given, and what it is about."""

    note: str | None
    """What else is worth knowing; at most 2,000 characters."""


class _SystemOneQuestionRequired(TypedDict):
    type: SignalType
    """The type of answer."""


class SystemOneQuestion(_SystemOneQuestionRequired, total=False):
    """A question in the wire format of typed decision models."""

    instructions: Any
    """What to judge and how."""

    criteria: Any
    """As for signals."""


class TrialQueryInput(TypedDict):
    """A query for the objects that a trial is put to."""

    q: str
    """As for the list of objects."""
