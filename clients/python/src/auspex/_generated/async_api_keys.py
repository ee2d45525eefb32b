"""Operations: keys that sign requests.

Generated from docs/openapi.json by `make clients`. Do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._call import UNSET, Call, Unset
from .._caller import AsyncCaller
from .._paging import AsyncPager
from .records import APIKey, APIKeyActivity, APIKeyList, APIKeySecret, KeyKind, Scope


class AsyncApiKeys(AsyncCaller):
    """Keys that sign requests."""

    def list_api_keys(self) -> AsyncPager[APIKeyList, APIKey]:
        """List the keys that are not revoked.

        Secrets are never shown again.
        """
        return self._pages(Call[APIKeyList]("GET", ("v1", "api_keys"), {200: APIKeyList}), "api_keys")

    async def create_api_key(
        self,
        *,
        name: str | Unset | None = UNSET,
        kind: KeyKind | Unset | None = UNSET,
        scopes: Sequence[Scope] | Unset | None = UNSET,
    ) -> APIKeySecret:
        """Create a key.

        The signing secret is only in this response. Every user of the account gets an email. A session in a cookie
        needs recent proof: see `POST /auth/console/reauthenticate`.

        Args:
            name: A name of your choice; 1 to 100 characters.
            scopes: What it may be used for. A signed key takes `ingest`, `read`, `write` and `label`, and has all
                of them if this is left out. A bearer key needs `moderate` or `mcp`; with `mcp` it also takes `write`
                and `label`.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            ConflictError: The account has the maximum number of keys.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return await self._call(
            Call[APIKeySecret](
                "POST",
                ("v1", "api_keys"),
                {201: APIKeySecret},
                body={"name": name, "kind": kind, "scopes": scopes},
            ),
        )

    async def revoke_api_key(self, key_id: str) -> None:
        """Revoke a key.

        It stops authenticating at once, and its public key ID is never issued again.

        Args:
            key_id: The key's `id`, not its public key ID.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such key, or it is revoked.
        """
        await self._call(Call[None]("DELETE", ("v1", "api_keys", key_id), {}))

    async def update_api_key(
        self,
        key_id: str,
        *,
        name: str | Unset | None = UNSET,
        status: APIKeyActivity | Unset | None = UNSET,
    ) -> APIKey:
        """Rename a key, deactivate it, or activate it again.

        Requests with an inactive key fail with 401. Fields left out keep their values.

        Args:
            key_id: The key's `id`, not its public key ID.
            name: A name of your choice; 1 to 100 characters.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            NotFoundError: There is no such key, or it is revoked.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return await self._call(
            Call[APIKey](
                "PATCH",
                ("v1", "api_keys", key_id),
                {200: APIKey},
                body={"name": name, "status": status},
            ),
        )

    async def rotate_api_key(self, key_id: str) -> APIKeySecret:
        """Give a key a new secret.

        The public key ID stays the same; the old secret stops working at once. A legacy key can sign from then on. A
        session in a cookie needs recent proof: see `POST /auth/console/reauthenticate`.

        Args:
            key_id: The key's `id`, not its public key ID.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such key, or it is revoked.
        """
        return await self._call(Call[APIKeySecret]("POST", ("v1", "api_keys", key_id, "rotate"), {200: APIKeySecret}))
