"""The settings of a client."""

from __future__ import annotations

import os
import platform
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

from ._retry import Retries
from ._version import __version__
from .errors import UsageError

#: Longer than a verdict may take by default, which is 30 seconds.
DEFAULT_TIMEOUT_S = 45.0
DEFAULT_TOTAL_TIMEOUT_S = 180.0


@dataclass(frozen=True)
class AttemptInfo:
    """One attempt of a call, as `on_attempt` gets it. It contains no credential and no content."""

    method: str
    path: str
    attempt: int
    """1 for the first."""
    elapsed: float
    """How many seconds it took."""
    status: int | None
    """The HTTP status, if there was a response."""
    error: str | None
    """What went wrong, if there was none."""
    request_id: str | None
    retry_in: float | None
    """After how many seconds it is retried; `None` if it is not."""


@dataclass(frozen=True)
class Config:
    """The settings of a client. Its representation contains no secret."""

    base_url: str
    key: str
    secret: str = field(repr=False)
    timeout: float = DEFAULT_TIMEOUT_S
    total_timeout: float | None = DEFAULT_TOTAL_TIMEOUT_S
    retries: Retries = field(default_factory=Retries)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    on_attempt: Callable[[AttemptInfo], None] | None = field(default=None, repr=False)
    clock: Callable[[], float] = field(default=time.time, repr=False)
    monotonic: Callable[[], float] = field(default=time.monotonic, repr=False)
    fraction: Callable[[], float] = field(default=random.random, repr=False)

    @property
    def is_local(self) -> bool:
        """Whether the service runs on this machine, where a proxy would connect to its own machine instead."""
        host = urlsplit(self.base_url).hostname or ""
        return host in ("localhost", "::1") or host.startswith("127.")


def configure(
    base_url: str | None,
    key: str | None,
    secret: str | None,
    *,
    timeout: float,
    total_timeout: float | None,
    max_retries: int,
    max_retry_after: float,
    headers: Mapping[str, str] | None,
    on_attempt: Callable[[AttemptInfo], None] | None,
) -> Config:
    """Checks the settings, and takes those that are missing from the environment."""
    address = _setting("base_url", base_url, "AUSPEX_URL").rstrip("/")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(f"base_url: {address!r} is no http or https URL of a service")
    if parts.username or parts.password:
        raise UsageError("base_url: it must not contain a password")
    if timeout <= 0 or (total_timeout is not None and total_timeout <= 0):
        raise UsageError("timeout: it must be more than 0 seconds")
    if max_retries < 0:
        raise UsageError("max_retries: it must not be negative")
    return Config(
        base_url=address,
        key=_setting("key", key, "AUSPEX_KEY"),
        secret=_setting("secret", secret, "AUSPEX_SECRET"),
        timeout=timeout,
        total_timeout=total_timeout,
        retries=Retries(limit=max_retries, max_retry_after=max_retry_after),
        headers=dict(headers or {}),
        on_attempt=on_attempt,
    )


def _setting(name: str, given: str | None, variable: str) -> str:
    value = given if given is not None else os.environ.get(variable)
    if not value:
        raise UsageError(f"{name}: pass it to the client, or set {variable}")
    return value


def user_agent() -> str:
    """What the client says it is."""
    return f"auspex-python/{__version__} python/{platform.python_version()} httpx/{httpx.__version__}"
