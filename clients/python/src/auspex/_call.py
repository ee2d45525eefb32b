"""A call to be made: what the operations hand to the core."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum
from typing import Any, Final, Generic, TypeVar, cast
from urllib.parse import quote, urlencode

from .errors import UsageError

T = TypeVar("T")

_REPEATABLE_METHODS: Final = ("GET", "PUT", "DELETE")


class Unset(Enum):
    """The type of `UNSET`, which marks fields that are left out of a request."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET


def new_idempotency_key() -> str:
    """A key for one request: however often it is sent, its events are recorded once."""
    return str(uuid.uuid4())


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call. `T` is the type of its result."""

    method: str
    segments: tuple[str, ...]
    results: Mapping[int, Any]
    """The type of the response's body, by status; empty if there is none."""
    query: Mapping[str, object] = field(default_factory=dict[str, object])
    body: object = None
    """A mapping, a list, or JSON that is already encoded; fields that are `UNSET` are left out."""
    idempotency_key: str | None = None
    repeatable: bool | None = None
    """Whether sending it twice has the same effect as once; by default, by its method."""

    def __post_init__(self) -> None:
        for segment in self.segments:
            # URL normalization removes such segments, escaped or not.
            if segment in ("", ".", ".."):
                raise UsageError("an id that is empty, `.` or `..` cannot be part of a path")

    @property
    def is_repeatable(self) -> bool:
        return self.method in _REPEATABLE_METHODS if self.repeatable is None else self.repeatable

    @property
    def decoded_path(self) -> str:
        """The path before escaping, which is signed."""
        return "/" + "/".join(self.segments)

    @property
    def target(self) -> str:
        """The escaped path with the query, which is sent."""
        try:
            path = "/" + "/".join(quote(segment, safe="") for segment in self.segments)
            pairs = [(name, _query_value(value)) for name, value in self.query.items() if value is not None]
            return f"{path}?{urlencode(pairs, quote_via=quote)}" if pairs else path
        except UnicodeEncodeError as error:
            raise UsageError(f"a text of the request is not valid Unicode: {error}") from None

    def content(self) -> bytes | None:
        """The body, encoded."""
        body = self.body
        if body is None or isinstance(body, bytes):
            return body
        if not isinstance(body, dict):
            return encode(body)
        given = {name: value for name, value in cast("dict[str, object]", body).items() if value is not UNSET}
        return encode(given) if given or self.method != "POST" else None


def encode(value: object) -> bytes:
    """Encodes JSON; times may be `datetime`, with a time zone."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
        return text.encode()
    except (TypeError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"the request cannot be written as JSON: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, (date, uuid.UUID)):
        return str(value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if isinstance(value, Sequence):
        return list(cast("Sequence[object]", value))
    raise TypeError(f"{type(value).__name__} is no JSON type")


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        raise UsageError("a datetime without a time zone is ambiguous: use datetime.now(timezone.utc)")
    return value.isoformat()


def _query_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, (list, tuple)):
        return ",".join(_query_value(each) for each in cast("list[object]", value))
    return str(value)
