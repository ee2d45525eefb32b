"""Operations: the authenticated caller, and the settings of the account.

Generated from docs/openapi.json by `make clients`. Do not edit.
"""

from __future__ import annotations

from .._call import UNSET, Call, Unset
from .._caller import Caller
from .records import EventRetention, Me, Settings


class Account(Caller):
    """The authenticated caller, and the settings of the account."""

    def get_me(self, *, include: str | None = None) -> Me:
        """Read the authenticated caller.

        The account; for a console token also the user.

        Args:
            include: Any of `settings`, `identities`, `mfa`, `passkeys`, `sessions` and `notifications`, separated
                by commas: each is what its own route responds with. All but `settings` are about the user, and refused
                to API keys.

        Raises:
            BadRequestError: A parameter is invalid.
        """
        return self._call(Call[Me]("GET", ("v1", "me"), {200: Me}, query={"include": include}))

    def get_settings(self) -> Settings:
        """Read the settings of the account.

        Whether new signals are backfilled automatically, and how long events are kept.
        """
        return self._call(Call[Settings]("GET", ("v1", "settings"), {200: Settings}))

    def update_settings(
        self,
        *,
        auto_backfill_signals: bool | Unset | None = UNSET,
        event_retention: EventRetention | Unset | None = UNSET,
        event_retention_days: int | Unset | None = UNSET,
        audit_rate_pct: float | Unset | None = UNSET,
        audit_queue: str | Unset | None = UNSET,
    ) -> Settings:
        """Change the settings of the account.

        Fields left out keep their values.

        Args:
            auto_backfill_signals: Whether a new signal is asked about existing objects at once.
            event_retention_days: Required with `days`, 1 to 3650; refused otherwise. Null removes it; left out, it
                is unchanged.
            audit_rate_pct: The share of analyzed objects that is drawn at random for a review, in percent, each at
                most once in 30 days.
            audit_queue: The queue of those reviews; 1 to 64 characters.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[Settings](
                "PATCH",
                ("v1", "settings"),
                {200: Settings},
                body={
                    "auto_backfill_signals": auto_backfill_signals,
                    "event_retention": event_retention,
                    "event_retention_days": event_retention_days,
                    "audit_rate_pct": audit_rate_pct,
                    "audit_queue": audit_queue,
                },
            ),
        )
