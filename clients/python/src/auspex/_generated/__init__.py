"""All operations, for both clients.

Generated from docs/openapi.json by `make clients`. Do not edit.
"""

from __future__ import annotations

from .account import Account
from .api_keys import ApiKeys
from .async_account import AsyncAccount
from .async_api_keys import AsyncApiKeys
from .async_billing import AsyncBilling
from .async_exports import AsyncExports
from .async_objects import AsyncObjects
from .async_quality import AsyncQuality
from .async_reviews import AsyncReviews
from .async_rules import AsyncRules
from .async_signals import AsyncSignals
from .async_webhooks import AsyncWebhooks
from .billing import Billing
from .exports import Exports
from .objects import Objects
from .quality import Quality
from .reviews import Reviews
from .rules import Rules
from .signals import Signals
from .webhooks import Webhooks


class Operations(
    Account,
    ApiKeys,
    Objects,
    Signals,
    Quality,
    Reviews,
    Webhooks,
    Rules,
    Billing,
    Exports,
):
    """Operations that wait for the response."""


class AsyncOperations(
    AsyncAccount,
    AsyncApiKeys,
    AsyncObjects,
    AsyncSignals,
    AsyncQuality,
    AsyncReviews,
    AsyncWebhooks,
    AsyncRules,
    AsyncBilling,
    AsyncExports,
):
    """Operations that are awaited."""
