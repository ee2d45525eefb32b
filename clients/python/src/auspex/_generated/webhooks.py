"""Operations: endpoints, signed deliveries and dead letters.

Generated from docs/openapi.json by `make clients`. Do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._call import UNSET, Call, Unset
from .._caller import Caller
from .._paging import Pager
from .records import (
    DeliveryStatus,
    WebhookDelivery,
    WebhookDeliveryList,
    WebhookEndpoint,
    WebhookEndpointList,
    WebhookEndpointSecret,
    WebhookHealth,
)


class Webhooks(Caller):
    """Endpoints, signed deliveries and dead letters."""

    def list_webhooks(self, *, include: str | None = None) -> Pager[WebhookEndpointList, WebhookEndpoint]:
        """List the endpoints.

        Without their secrets.

        Args:
            include: `health`: each endpoint says how it is doing.

        Raises:
            BadRequestError: A parameter is invalid.
        """
        return self._pages(
            Call[WebhookEndpointList](
                "GET",
                ("v1", "webhooks"),
                {200: WebhookEndpointList},
                query={"include": include},
            ),
            "webhooks",
        )

    def create_webhook(
        self,
        *,
        url: str,
        description: str | Unset | None = UNSET,
        signal_keys: Sequence[str] | Unset | None = UNSET,
        events: Sequence[str] | Unset | None = UNSET,
        enabled: bool | Unset | None = UNSET,
    ) -> WebhookEndpointSecret:
        """Register an endpoint.

        The signing secret is only in this response. Deliveries have the header `X-Webhook-Signature` (`sha256=` and the
        hex HMAC-SHA256 of timestamp, a dot and the raw body, keyed with the whole secret), and the headers of Standard
        Webhooks.

        Args:
            url: The URL that deliveries are posted to, `http` or `https`.
            description: A description of your choice.
            signal_keys: Only analyses that answered one of these signals; if left out or empty, every analysis.
            events: The event types that it gets; `analysis.completed` and `rule.triggered` if left out.
            enabled: Whether it gets deliveries; true if left out.

        Raises:
            BadRequestError: A field is invalid, or the URL points to an address that is not allowed, such as a
                private one.
            ConflictError: The account has the maximum number of endpoints.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[WebhookEndpointSecret](
                "POST",
                ("v1", "webhooks"),
                {201: WebhookEndpointSecret},
                body={
                    "url": url,
                    "description": description,
                    "signal_keys": signal_keys,
                    "events": events,
                    "enabled": enabled,
                },
            ),
        )

    def get_webhook(self, endpoint_id: str) -> WebhookEndpoint:
        """Read an endpoint.

        Without its secret.

        Args:
            endpoint_id: The endpoint's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such endpoint.
        """
        return self._call(Call[WebhookEndpoint]("GET", ("v1", "webhooks", endpoint_id), {200: WebhookEndpoint}))

    def delete_webhook(self, endpoint_id: str) -> None:
        """Remove an endpoint and its deliveries.

        A delivery in flight may still arrive. Rules that name it record their firings as `error`.

        Args:
            endpoint_id: The endpoint's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such endpoint.
        """
        self._call(Call[None]("DELETE", ("v1", "webhooks", endpoint_id), {}))

    def update_webhook(
        self,
        endpoint_id: str,
        *,
        url: str | Unset | None = UNSET,
        description: str | Unset | None = UNSET,
        signal_keys: Sequence[str] | Unset | None = UNSET,
        events: Sequence[str] | Unset | None = UNSET,
        enabled: bool | Unset | None = UNSET,
    ) -> WebhookEndpoint:
        """Edit an endpoint.

        Fields left out keep their values. An endpoint that rests after repeated failures is tried again at once.

        Args:
            endpoint_id: The endpoint's id.
            url: The URL that deliveries are posted to, including those already queued.
            description: A description of your choice.
            signal_keys: Only analyses that answered one of these signals; if empty, every analysis.
            events: The event types that it gets.
            enabled: Whether it gets deliveries.

        Raises:
            BadRequestError: A field is invalid, or the URL points to an address that is not allowed, such as a
                private one.
            NotFoundError: There is no such endpoint.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[WebhookEndpoint](
                "PATCH",
                ("v1", "webhooks", endpoint_id),
                {200: WebhookEndpoint},
                body={
                    "url": url,
                    "description": description,
                    "signal_keys": signal_keys,
                    "events": events,
                    "enabled": enabled,
                },
            ),
        )

    def get_webhook_health(self, endpoint_id: str) -> WebhookHealth:
        """Read how an endpoint is doing.

        Whether it is resting after repeated failures, what waits for it, and how many of its newest deliveries were
        accepted, and how fast.

        Args:
            endpoint_id: The endpoint's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such endpoint.
        """
        return self._call(Call[WebhookHealth]("GET", ("v1", "webhooks", endpoint_id, "health"), {200: WebhookHealth}))

    def test_webhook(self, endpoint_id: str) -> WebhookDelivery:
        """Send a test to an endpoint.

        An event of the type `endpoint.test`, signed, sent and retried like any other, whatever events the endpoint asks
        for. An endpoint that rests after repeated failures is tried at once.

        Args:
            endpoint_id: The endpoint's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such endpoint.
            ConflictError: The endpoint is disabled.
        """
        return self._call(
            Call[WebhookDelivery](
                "POST",
                ("v1", "webhooks", endpoint_id, "test"),
                {202: WebhookDelivery},
            ),
        )

    def rotate_webhook_secret(
        self,
        endpoint_id: str,
        *,
        overlap_hours: int | Unset | None = UNSET,
    ) -> WebhookEndpointSecret:
        """Give an endpoint a new secret.

        For `overlap_hours`, deliveries carry signatures with both secrets: `webhook-signature` has two, and
        `X-Webhook-Signature` is keyed with the previous one. Afterwards only the new one counts. A second rotation
        within that time ends the oldest secret.

        Args:
            endpoint_id: The endpoint's id.
            overlap_hours: For how many hours deliveries are signed with the previous secret too; 24 if left out.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            NotFoundError: There is no such endpoint.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[WebhookEndpointSecret](
                "POST",
                ("v1", "webhooks", endpoint_id, "rotate_secret"),
                {200: WebhookEndpointSecret},
                body={"overlap_hours": overlap_hours},
            ),
        )

    def list_webhook_deliveries(
        self,
        *,
        status: DeliveryStatus | None = None,
        endpoint_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Pager[WebhookDeliveryList, WebhookDelivery]:
        """List deliveries, newest first.

        `status=dead` is the dead-letter queue: each keeps its payload and the start of the last response.

        Args:
            status: Only deliveries with this status; `dead` is the dead-letter queue.
            endpoint_id: Only deliveries to this endpoint.
            limit: The maximum number; 50 if left out.
            cursor: `next_cursor` of the previous page; the other parameters must stay the same.

        Raises:
            BadRequestError: A parameter is invalid.
        """
        return self._pages(
            Call[WebhookDeliveryList](
                "GET",
                ("v1", "webhook_deliveries"),
                {200: WebhookDeliveryList},
                query={"status": status, "endpoint_id": endpoint_id, "limit": limit, "cursor": cursor},
            ),
            "deliveries",
        )

    def replay_webhook_delivery(self, delivery_id: str) -> WebhookDelivery:
        """Send a delivery again.

        A delivered or dead one is queued again with a full number of attempts; a pending one is unchanged.

        Args:
            delivery_id: The delivery's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such delivery.
        """
        return self._call(
            Call[WebhookDelivery](
                "POST",
                ("v1", "webhook_deliveries", delivery_id, "replay"),
                {202: WebhookDelivery},
            ),
        )
