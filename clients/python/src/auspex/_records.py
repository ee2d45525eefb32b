"""The base of all records, and how they are read from JSON.

Reading is lenient, so that a client works with older and newer services: unknown fields are kept in `raw_json`, and a missing field
is `None`.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from ._response import ResponseInfo

Self = TypeVar("Self", bound="Record")
Decoder = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True, repr=False)
class Record:
    """A record of the service. Its fields are attributes; `raw_json` is the JSON object as it was received."""

    raw_json: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)
    """The JSON object as it was received, with fields that this version of the client does not know."""
    http_response: ResponseInfo | None = field(default=None, repr=False, compare=False)
    """Status and headers of the response, if this record is the whole response."""

    def __repr__(self) -> str:
        """Shows what is set, without secrets."""
        shown = [(each.name, getattr(self, each.name)) for each in dataclasses.fields(self) if each.repr]
        listed = ", ".join(f"{name}={value!r}" for name, value in shown if value is not None)
        return f"{type(self).__name__}({listed})"

    @classmethod
    def from_dict(cls: type[Self], raw: dict[str, Any], response: ResponseInfo | None = None) -> Self:
        """Reads a record from its JSON object."""
        fields = _field_decoders(cast("Any", cls))
        known = {name: None if raw.get(wire) is None else decode(raw[wire]) for name, wire, decode in fields}
        return cls(raw_json=raw, http_response=response, **known)


@cache
def _field_decoders(cls: Any) -> tuple[tuple[str, str, Decoder], ...]:
    """Of each field: its name, its name on the wire, and its decoder."""
    hints = get_type_hints(cls)
    return tuple(
        (each.name, each.metadata.get("wire", each.name), decoder(hints[each.name]))
        for each in dataclasses.fields(cls)
        if each.name not in ("raw_json", "http_response")
    )


@cache
def decoder(form: Any) -> Decoder:
    """The function that turns JSON into a value of this type. What is of another type stays as it is."""
    if isinstance(form, type) and issubclass(form, Record):
        return _checked(dict, form.from_dict)
    if form is datetime:
        return _timestamp
    if form is date:
        return _date
    origin, arguments = get_origin(form), get_args(form)
    if origin is list:
        item = decoder(arguments[0])
        return _checked(list, lambda value: [item(each) for each in value])
    if origin is dict:
        entry = decoder(arguments[1])
        return _checked(dict, lambda value: {key: entry(each) for key, each in value.items()})
    if origin in (Union, types.UnionType):
        return _union([part for part in arguments if part is not type(None)])
    return lambda value: value


def _checked(kind: type, decode: Decoder) -> Decoder:
    return lambda value: decode(value) if isinstance(value, kind) else value


def _union(parts: list[Any]) -> Decoder:
    if len(parts) == 1:
        return decoder(parts[0])
    records = [part for part in parts if isinstance(part, type) and issubclass(part, Record)]
    if not records:
        return lambda value: value

    def choose(value: Any) -> Any:
        # The record that knows most of the fields.
        return max(records, key=lambda record: _known_fields(record, value)).from_dict(value)

    return _checked(dict, choose)


def _known_fields(record: type[Record], value: dict[str, Any]) -> int:
    return sum(wire in value for _, wire, _ in _field_decoders(cast("Any", record)))


def _timestamp(value: Any) -> Any:
    try:
        # Python 3.10 does not know the suffix Z.
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    except (ValueError, AttributeError):
        return value


def _date(value: Any) -> Any:
    try:
        return date.fromisoformat(value)
    except (ValueError, TypeError):
        return value
