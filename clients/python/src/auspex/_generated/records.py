"""The records that the service answers with.

Generated from docs/openapi.json by `make clients`. Do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal

from .._records import Record

__all__ = [
    "APIKey",
    "APIKeyActivity",
    "APIKeyList",
    "APIKeySecret",
    "APIKeyStatus",
    "ActionConfig",
    "ActionType",
    "AnalysisCompleted",
    "AnalysisList",
    "AnalysisRecord",
    "AnalysisSource",
    "AnalysisStatus",
    "AnalyzeAllScheduled",
    "AnalyzeScheduled",
    "Answer",
    "AuthType",
    "Author",
    "AuthorKind",
    "BackfillEstimate",
    "BackfillState",
    "BackfillStatus",
    "Balance",
    "Calibration",
    "CalibrationMethod",
    "CalibrationQuality",
    "CalibrationSwitched",
    "CategoryCount",
    "CheckoutSession",
    "CheckoutState",
    "CheckoutStatus",
    "CompactedState",
    "ConditionCheck",
    "ConditionPlace",
    "ConditionProblem",
    "DeliveryStatus",
    "Distribution",
    "DistributionBin",
    "EndpointState",
    "EndpointTest",
    "Event",
    "EventList",
    "EventRetention",
    "EventType",
    "ExplainMethod",
    "ExplainedPart",
    "Explanation",
    "Figure",
    "FiringStatus",
    "FirstAnswer",
    "Identities",
    "Identity",
    "IngestAccepted",
    "KeyKind",
    "Label",
    "LabelAnswer",
    "LabelList",
    "LabelSource",
    "LabelValue",
    "LabelsAccepted",
    "LedgerBatch",
    "LedgerEntry",
    "LedgerPage",
    "MatchCount",
    "Me",
    "MemberRole",
    "MfaStatus",
    "ModerationVerdict",
    "NotificationPreference",
    "NotificationPreferences",
    "ObjectAnalysis",
    "ObjectList",
    "ObjectState",
    "ObjectSummary",
    "Overview",
    "OverviewDay",
    "PartKind",
    "Passkey",
    "PlaygroundVerdict",
    "Provider",
    "QualityDifference",
    "RawAnswer",
    "RefusedLabel",
    "ReliabilityBin",
    "ReplayDay",
    "ReplayExample",
    "ReplayLabels",
    "ReplayStatus",
    "Review",
    "ReviewEvent",
    "ReviewList",
    "ReviewOrder",
    "ReviewQueue",
    "ReviewQueueList",
    "ReviewReason",
    "ReviewStatus",
    "RiskyObject",
    "Rule",
    "RuleFiring",
    "RuleFiringList",
    "RuleList",
    "RuleMode",
    "RuleOverlap",
    "RuleReplay",
    "RuleReplayRun",
    "RuleTest",
    "RuleTestOutcome",
    "RuleTriggered",
    "Scope",
    "Session",
    "Settings",
    "Signal",
    "SignalBackfill",
    "SignalEscalation",
    "SignalList",
    "SignalQuality",
    "SignalResult",
    "SignalSummary",
    "SignalType",
    "SignalVersion",
    "SignalVersionList",
    "SystemOneAnswer",
    "SystemOneResponse",
    "SystemOneUsage",
    "ThresholdQuality",
    "Timeline",
    "TimelineItem",
    "TimelineKind",
    "Trial",
    "TrialEstimate",
    "TrialFlip",
    "TrialList",
    "TrialObjects",
    "TrialOver",
    "TrialQuery",
    "TrialStarted",
    "TrialStatus",
    "Usage",
    "UsageBreakdown",
    "UsageDay",
    "UsageSignal",
    "UsageTotals",
    "VersionedAnswer",
    "WEBHOOK_EVENTS",
    "WebhookDelivery",
    "WebhookDeliveryList",
    "WebhookEndpoint",
    "WebhookEndpointList",
    "WebhookEndpointSecret",
    "WebhookHealth",
    "WebhookPayload",
    "WeekQuality",
]

APIKeyActivity = Literal["active", "inactive"]
"""The states that a key can be set to; revoking has its own route."""

APIKeyStatus = Literal["active", "inactive", "revoked"]
"""Whether a key authenticates."""

ActionType = Literal["email", "slack", "webhook", "review"]
"""The action of a rule."""

AnalysisSource = Literal["async", "sync", "bulk"]
"""What asked for an analysis."""

AnalysisStatus = Literal["scheduled"]
"""Whether an analysis will follow."""

AuthType = Literal["tenant", "console"]
"""How a request was authenticated."""

AuthorKind = Literal["user", "key"]
"""How somebody acted."""

BackfillState = Literal["running", "done"]
"""Whether a backfill is running."""

CalibrationMethod = Literal["platt", "isotonic", "temperature"]
"""How a calibration maps probabilities."""

CheckoutState = Literal["pending", "credited"]
"""Whether a top-up was paid and credited."""

ConditionPlace = Literal["rule", "query"]
"""Where a condition is to stand."""

DeliveryStatus = Literal["pending", "delivering", "delivered", "dead"]
"""The status of a delivery."""

EndpointState = Literal["good", "failing", "resting", "disabled"]
"""How an endpoint is doing."""

EventRetention = Literal["forever", "days", "after_analysis"]
"""How long raw events are kept. Answers are kept in every mode."""

EventType = Literal["event", "message"]
"""The type of an event."""

ExplainMethod = Literal["unread", "left_out"]
"""How it was found out what moved an answer."""

FiringStatus = Literal["dispatched", "error", "unconfirmed", "shadow"]
"""The outcome of a firing's action."""

KeyKind = Literal["signed", "bearer"]
"""How a key authenticates."""

LabelSource = Literal["person", "api", "review"]
"""How a label was given."""

LabelValue = bool | int | str
"""What is true: `noul` true or false; `score` the index of a level; `choice` an option."""

MemberRole = Literal["viewer", "analyst", "admin", "owner"]
"""What a member may do. Each role may do everything that the ones before it may."""

PartKind = Literal["event", "message", "summary"]
"""What a part of a history is."""

Provider = Literal["google", "github", "oidc"]
"""An identity provider."""

ReplayStatus = Literal["running", "done", "failed"]
"""Where a replay in the background stands."""

ReviewOrder = Literal["value", "oldest"]
"""The order of a list of reviews."""

ReviewReason = Literal["rule", "audit", "person"]
"""Why a review was opened."""

ReviewStatus = Literal["open", "claimed", "resolved"]
"""The status of a review."""

RuleMode = Literal["live", "shadow"]
"""Whether a rule acts, or is only tried."""

RuleTestOutcome = Literal["sent", "refused", "timed_out", "unreachable", "unconfirmed", "waiting"]
"""What came of the test of an action."""

Scope = Literal["ingest", "read", "write", "label", "moderate", "mcp"]
"""A part of the API that a key may use."""

SignalType = Literal["noul", "choice", "score"]
"""The type of a signal's answers."""

TimelineKind = Literal["label", "delivery", "review", "firing", "analysis", "event"]
"""The kind of an item on a timeline."""

TrialObjects = Literal["labelled", "recent"]
"""A kind of objects that a trial is put to."""

TrialStatus = Literal["running", "done", "cancelled"]
"""Whether a trial has ended."""


@dataclass(frozen=True, kw_only=True, repr=False)
class APIKey(Record):
    """An API key, without its secret."""

    id: str
    """The id that the key routes take."""

    key: str
    """The public key ID, sent as `api_key` or as the token's `kid`."""

    name: str
    """A name of your choice."""

    status: APIKeyStatus
    """Whether it authenticates."""

    kind: KeyKind
    """How it authenticates."""

    scopes: list[Scope]
    """What it may be used for."""

    has_secret: bool
    """Whether it can sign; bearer keys cannot, and legacy keys not until they are rotated."""

    legacy: bool | None = None
    """Whether it was created before request signing."""

    legacy_preview: str | None = None
    """The first characters of the old long key."""

    created_at: datetime
    """When it was created."""

    last_used_at: datetime | None = None
    """When it last authenticated, accurate to about a minute."""

    legacy_used_at: datetime | None = None
    """When it last authenticated as a legacy key."""


@dataclass(frozen=True, kw_only=True, repr=False)
class APIKeyList(Record):
    """The keys of an account that are not revoked."""

    api_keys: list[APIKey]
    """The keys, oldest first."""


@dataclass(frozen=True, kw_only=True, repr=False)
class APIKeySecret(Record):
    """A key with its signing secret, which is shown only once."""

    api_key: APIKey
    """The key."""

    key: str
    """The public key ID."""

    secret: str = field(repr=False)
    """The signing secret, which is never sent on requests; of a bearer key (`bk_…`) what requests carry. It is
    never shown again.
    """

    note: str
    """What to do with it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ActionConfig(Record):
    """The settings of an action. Only the fields of its type are set."""

    to: str | None = None
    """`email`: the address; required."""

    subject: str | None = None
    """`email`: the subject, up to 200 characters; if left out, it names the rule and the object."""

    webhook_url: str | None = None
    """`slack`: the URL of an incoming webhook; required."""

    endpoint_id: str | None = None
    """`webhook`: a registered endpoint that receives `rule.triggered`; required."""

    queue: str | None = None
    """`review`: the queue, 1 to 64 characters; required."""

    signals: list[str] | None = None
    """`review`: the keys of the signals to be labelled; if left out, those in the condition."""


@dataclass(frozen=True, kw_only=True, repr=False)
class AnalysisCompleted(Record):
    """The payload of `analysis.completed`."""

    event: str
    """`analysis.completed`."""

    object_id: str
    """The object's id."""

    tenant_id: str
    """The account that owns the object."""

    model: str
    """The model that answered."""

    occurred_at: datetime
    """When the analysis finished. Ignore a delivery that is older than one you already have."""

    answers: list[Answer]
    """The answers of this analysis."""


@dataclass(frozen=True, kw_only=True, repr=False)
class AnalysisList(Record):
    """A page of the past of an object's answers, newest first."""

    analyses: list[AnalysisRecord]
    """The analyses."""

    next_cursor: str | None = None
    """Where the next page starts, if there is one."""


@dataclass(frozen=True, kw_only=True, repr=False)
class AnalysisRecord(Record):
    """What one analysis said."""

    at: datetime
    """When it was concluded."""

    source: AnalysisSource
    """What asked for it."""

    model: str
    """The model that answered."""

    read_seq: int
    """The sequence number of the newest event that was read."""

    answers: list[VersionedAnswer]
    """All its answers, also those to signals that were disabled or deleted since."""


@dataclass(frozen=True, kw_only=True, repr=False)
class AnalyzeAllScheduled(Record):
    """Analyses of all objects are scheduled."""

    scheduled: int
    """The number of objects."""

    analysis_status: AnalysisStatus
    """Always `scheduled`."""


@dataclass(frozen=True, kw_only=True, repr=False)
class AnalyzeScheduled(Record):
    """An analysis of one object is scheduled."""

    object_id: str
    """The object's id."""

    analysis_status: AnalysisStatus
    """Always `scheduled`."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Answer(Record):
    """An answer, as in verdicts and webhook payloads."""

    signal: str
    """The key of the signal."""

    raw: RawAnswer | None = None
    """The analyzer's own answer, where a calibration is on."""

    escalated: bool | None = None
    """Where the first analyzer was unsure: true if the second analyzer answered, false if it was not asked or
    failed, so that the first answer stands.
    """

    model: str | None = None
    """The second analyzer's model, where that answered."""

    type: SignalType
    """The type of answer."""

    noul: float | None = None
    """The probability of yes."""

    choice: str | None = None
    """The most likely option."""

    score: float | None = None
    """The expected level, from 0 to the number of levels minus one."""

    probabilities: dict[str, float] | None = None
    """The probability of each option, or of each level by its index."""

    confidence: float | None = None
    """1 minus the entropy divided by its maximum: 0 if all are equally likely, 1 if one is certain."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Author(Record):
    """Who made something."""

    kind: AuthorKind
    """How they acted."""

    id: str
    """The id of the user or of the API key."""

    name: str
    """The user's email address or the key's name, as it was then."""


@dataclass(frozen=True, kw_only=True, repr=False)
class BackfillEstimate(Record):
    """An estimate of a backfill."""

    objects: int
    """The number of objects without an answer to the signal."""

    estimated_cost_micros: int
    """That number times the account's mean charge per analysis, in micro-dollars; 0 if nothing was charged yet."""


@dataclass(frozen=True, kw_only=True, repr=False)
class BackfillStatus(Record):
    """An estimate of a backfill of a signal, and the progress of the latest one."""

    estimate: BackfillEstimate
    """The estimate for a backfill started now."""

    backfill: SignalBackfill | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Balance(Record):
    """An account's balance, and how it is spent."""

    balance_cents: int
    """The balance, rounded toward zero."""

    currency: str
    """The currency of every amount."""

    metering_enabled: bool
    """Whether analyses are billed."""

    enforcement: str
    """`block` pauses analyses at an empty balance; `grace` lets the balance go negative."""

    self_serve_topup: bool
    """Whether the balance can be topped up by card."""

    low_balance_threshold_cents: int
    """An email warns each time the balance falls below this."""

    topup_min_cents: int | None = None
    """The smallest top-up."""

    topup_max_cents: int | None = None
    """The largest top-up."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Calibration(Record):
    """A calibration that was fitted to labels. It is not switched on by itself."""

    id: str
    """Its id."""

    method: CalibrationMethod
    """How it maps probabilities."""

    labels: int
    """The number of labels that it was fitted to."""

    before: CalibrationQuality
    """The raw answers, compared with the labels."""

    after: CalibrationQuality
    """Answers calibrated by cross-validation, compared with the labels."""


@dataclass(frozen=True, kw_only=True, repr=False)
class CalibrationQuality(Record):
    """How good answers are before or after a calibration."""

    brier: Figure
    """The mean squared distance of the probabilities from the labels."""

    calibration_error: Figure
    """How far probabilities are from the shares that came true."""


@dataclass(frozen=True, kw_only=True, repr=False)
class CalibrationSwitched(Record):
    """The signal after its calibration was switched on or off."""

    version: int
    """The version of the signal from now on."""

    live_rules: int
    """How many enabled rules in mode `live` compare the signal: their thresholds now mean something else."""


@dataclass(frozen=True, kw_only=True, repr=False)
class CategoryCount(Record):
    """The number of objects of a type."""

    name: str
    """The object type."""

    count: int
    """The number of objects."""


@dataclass(frozen=True, kw_only=True, repr=False)
class CheckoutSession(Record):
    """A checkout session at the payment provider."""

    id: str
    """The session's id at the payment provider."""

    url: str
    """The payment page to send the customer to."""


@dataclass(frozen=True, kw_only=True, repr=False)
class CheckoutStatus(Record):
    """The status of a top-up."""

    id: str
    """The session's id at the payment provider."""

    status: CheckoutState
    """Whether it was paid and credited."""

    amount_cents: int | None = None
    """The amount."""

    balance_after_cents: int | None = None
    """The balance right after it was credited."""


@dataclass(frozen=True, kw_only=True, repr=False)
class CompactedState(Record):
    """The rolling summary of an object's older events."""

    total_events: int
    """The number of events folded in."""

    messages: int
    """How many of them are messages."""

    actions: int
    """How many of them are actions."""

    by_action: dict[str, int] | None = None
    """The number of actions by name."""

    sample_messages: list[str] | None = None
    """The newest messages, shortened."""

    first_seen: datetime
    """When the earliest of them happened."""

    updated_at: datetime
    """When the latest of them was received."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ConditionCheck(Record):
    """What a condition says."""

    valid: bool
    """Whether it can be used."""

    error: ConditionProblem | None = None
    """What is wrong with it; of several errors the first."""

    signals: list[str]
    """The keys of the signals that it names."""

    matches: MatchCount | None = None
    """How many objects it is true for now. Left out if it is invalid, has facts, or is a text that is searched
    for.
    """


@dataclass(frozen=True, kw_only=True, repr=False)
class ConditionProblem(Record):
    """What is wrong with a condition."""

    message: str
    """What is wrong."""

    at: int
    """Where: an index into the characters of the condition, from 0 up to their number."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Distribution(Record):
    """How the present answers to a signal are distributed."""

    objects: int
    """The number of objects that are counted: those with an answer to the signal."""

    sampled: bool
    """Whether more objects match than are counted. Those that were analyzed most recently are."""

    bins: list[DistributionBin]
    """The bins: 20 equal ones for `noul`, one for each level of a `score`, one for each option of a `choice`."""


@dataclass(frozen=True, kw_only=True, repr=False)
class DistributionBin(Record):
    """How many answers are in a range, or are an option."""

    from_: float | None = field(default=None, metadata={"wire": "from"})
    """The lower end, which belongs to the bin."""

    to: float | None = None
    """The upper end, which belongs to the next bin, except that the last bin of `noul` includes 1."""

    option: str | None = None
    """The option."""

    count: int
    """The number of answers."""


@dataclass(frozen=True, kw_only=True, repr=False)
class EndpointTest(Record):
    """The payload of `endpoint.test`."""

    event: str
    """`endpoint.test`."""

    tenant_id: str
    """The account that owns the endpoint."""

    endpoint_id: str
    """The endpoint's id."""

    occurred_at: datetime
    """When the test was asked for."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Event(Record):
    """An event, as listed."""

    type: EventType
    """The type of event."""

    name: str | None = None
    """The event's name, or a message's subject."""

    content: str | None = None
    """The text."""

    metadata: dict[str, Any] | None = None
    """Any other data."""

    occurred_at: datetime
    """When it happened."""


@dataclass(frozen=True, kw_only=True, repr=False)
class EventList(Record):
    """The most recent events of an object, newest first."""

    events: list[Event]
    """At most 200 events."""

    next_cursor: str | None = None
    """Where the next page starts, if there is one."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ExplainedPart(Record):
    """A part of an object's history, and how it moved an answer."""

    seq: int | None = None
    """The place of its event in the order of arrival; left out for a line of the summary."""

    kind: PartKind
    """What the part is."""

    excerpt: str
    """What it says, at most 500 characters of it."""

    moved: float
    """How much the answer differs when this part is not read, positive if the part raised it: the probability of
    yes, the score, or the probability of the option chosen.
    """


@dataclass(frozen=True, kw_only=True, repr=False)
class Explanation(Record):
    """What moved an answer about an object."""

    answer: Answer
    """The answer to the signal about all that is read of the object now."""

    parts: list[ExplainedPart]
    """The parts of the history that moved the answer most, largest first: at most 20."""

    method: ExplainMethod
    """How it was found out."""

    cost_micros: int
    """What it cost, in millionths of a dollar."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Figure(Record):
    """A figure with its 95 % interval."""

    value: float
    """The figure."""

    low: float
    """The lower end of its interval."""

    high: float
    """The upper end of its interval."""


@dataclass(frozen=True, kw_only=True, repr=False)
class FirstAnswer(Record):
    """What the first analyzer said where the second one answered."""

    raw: RawAnswer | None = None
    """Its own answer, where a calibration was on."""

    model: str
    """Its model."""

    noul: float | None = None
    """The probability of yes."""

    choice: str | None = None
    """The most likely option."""

    score: float | None = None
    """The expected level."""

    probabilities: dict[str, float] | None = None
    """The probability of each option, or of each level by its index."""

    confidence: float | None = None
    """1 minus the entropy divided by its maximum."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Identities(Record):
    """The ways a user can sign in."""

    has_password: bool
    """Whether the user has a password."""

    identities: list[Identity]
    """The linked accounts."""

    providers: list[Provider]
    """The configured providers."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Identity(Record):
    """A linked account at a provider."""

    provider: Provider
    """The provider."""

    email: str
    """The email address at the provider."""

    created_at: datetime
    """When it was linked."""


@dataclass(frozen=True, kw_only=True, repr=False)
class IngestAccepted(Record):
    """The events were recorded, and an analysis will follow."""

    object_id: str
    """The object's id."""

    accepted: int
    """The number of events recorded."""

    analysis_status: AnalysisStatus
    """Always `scheduled`."""

    analysis_delay_ms: int
    """How long the object must be quiet before it is analyzed."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Label(Record):
    """What a person, or a program, says is true about a signal of an object."""

    id: str
    """Its id."""

    object_id: str
    """The object's id."""

    signal: str
    """The key of the signal."""

    version: int
    """The version of the signal when the label was given."""

    value: LabelValue
    """What is true."""

    note: str | None = None
    """What else the author said."""

    source: LabelSource
    """How it was given."""

    by: Author
    """Who gave it."""

    audit: bool
    """Whether the object was drawn at random."""

    answer: LabelAnswer | None = None
    """What the service said then; left out if it had not answered."""

    created_at: datetime
    """When it was given."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LabelAnswer(Record):
    """What the service said when a label was given."""

    first: FirstAnswer | None = None
    """What the first analyzer had said, where the second one answered."""

    version: int
    """The version of the signal that was asked."""

    model: str
    """The model that answered."""

    read_seq: int
    """The sequence number of the newest event that was read."""

    signal: str
    """The key of the signal."""

    raw: RawAnswer | None = None
    """The analyzer's own answer, where a calibration is on."""

    escalated: bool | None = None
    """Where the first analyzer was unsure: true if the second analyzer answered, false if it was not asked or
    failed, so that the first answer stands.
    """

    type: SignalType
    """The type of answer."""

    noul: float | None = None
    """The probability of yes."""

    choice: str | None = None
    """The most likely option."""

    score: float | None = None
    """The expected level, from 0 to the number of levels minus one."""

    probabilities: dict[str, float] | None = None
    """The probability of each option, or of each level by its index."""

    confidence: float | None = None
    """1 minus the entropy divided by its maximum: 0 if all are equally likely, 1 if one is certain."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LabelList(Record):
    """A page of labels, newest first."""

    labels: list[Label]
    """The labels."""

    next_cursor: str | None = None
    """Where the next page starts, if there is one."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LabelsAccepted(Record):
    """How many labels were taken, and which were not."""

    accepted: int
    """The number of labels that were taken."""

    refused: list[RefusedLabel]
    """Those that were not."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LedgerBatch(Record):
    """The totals of a bulk run's charges. Its entry has the id, time and balance of the newest charge."""

    count: int
    """The number of charges."""

    delta_micros: int
    """Their sum, in micro-dollars."""

    input_tokens: int
    """Tokens read."""

    output_tokens: int
    """Tokens written."""

    models: int
    """How many different models answered."""

    model: str | None = None
    """The model that answered first; the only one if `models` is 1."""

    first_at: datetime
    """When the first charge was recorded."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LedgerEntry(Record):
    """An entry of the ledger. The sum of all entries is the balance."""

    id: str
    """The entry's id."""

    delta_cents: int
    """Negative for a charge, positive for a credit; charges below a cent round to 0."""

    balance_after_cents: int
    """The balance after it, rounded toward zero."""

    delta_micros: int
    """The exact amount, in micro-dollars."""

    balance_after_micros: int
    """The exact balance after it, in micro-dollars."""

    reason: str
    """`signup_credit`, `topup`, `analysis` or `adjustment`."""

    model: str | None = None
    """The model that answered."""

    object_id: str | None = None
    """The object that was analyzed."""

    cost_usd: float | None = None
    """The cost of the analysis, in dollars."""

    cost_margin: float | None = None
    """The margin that the cost was multiplied by."""

    input_tokens: int | None = None
    """Tokens read."""

    output_tokens: int | None = None
    """Tokens written."""

    payment_ref: str | None = None
    """The checkout session that paid a top-up."""

    note: str | None = None
    """Why the operator adjusted the balance."""

    batch_id: str | None = None
    """The bulk run that the charge is part of."""

    batch: LedgerBatch | None = None
    """With `group=batch`, on an entry that stands for a whole bulk run: its totals."""

    created_at: datetime
    """When it was recorded."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LedgerPage(Record):
    """A page of the ledger."""

    entries: list[LedgerEntry]
    """The entries, newest first."""

    next_cursor: str
    """The cursor of the next page; empty on the last page."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MatchCount(Record):
    """A number of objects."""

    count: int
    """The number, exact up to 10,000."""

    capped: bool
    """Whether there are more."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Me(Record):
    """The authenticated caller."""

    auth_type: AuthType
    """How the request was authenticated."""

    tenant_id: str
    """The account's id."""

    tenant_name: str
    """The account's name."""

    user_id: str | None = None
    """The signed-in user; the user fields appear for console tokens."""

    email: str | None = None
    """The user's email address."""

    role: str | None = None
    """The user's role, where an owner is an `admin` too: see `member_role`."""

    member_role: MemberRole | None = None
    """What the user may do."""

    onboarded: bool | None = None
    """Whether the user has finished the console's onboarding."""

    email_verified: bool | None = None
    """Whether the user has proved that the email address is theirs."""

    operator: bool | None = None
    """Whether the user is an operator of the install (`AUSPEX_OPERATORS`) who has proved the address."""

    deletes_at: datetime | None = None
    """When everything of the account will be deleted, once an owner has asked for that: see `POST
    /v1/account/deletion`.
    """

    settings: Settings | None = None
    """The settings of the account; if `include` names them."""

    identities: Identities | None = None
    """The ways in which the user can sign in; if `include` names them."""

    mfa: MfaStatus | None = None
    """The user's two-factor sign-in; if `include` names it."""

    passkeys: list[Passkey] | None = None
    """The user's passkeys, oldest first; if `include` names them."""

    sessions: list[Session] | None = None
    """The user's newest 200 sessions, newest first; if `include` names them."""

    notifications: NotificationPreferences | None = None
    """Which emails the user gets; if `include` names them."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MfaStatus(Record):
    """The state of two-factor sign-in."""

    enabled: bool
    """Whether it is on."""

    recovery_codes_remaining: int
    """Recovery codes not used yet; 0 while off."""

    passkey: bool | None = None
    """True where the second factor is a passkey, without an authenticator app."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ModerationVerdict(Record):
    """The answers about an object, for a caller who waits."""

    object_id: str
    """The object's id."""

    accepted: int
    """The number of events recorded."""

    analyzed: bool
    """Whether an analysis was made; false if no configured signal matched."""

    history_included: bool
    """Whether the object's history was analyzed too."""

    model: str
    """The model that answered."""

    latency_ms: int
    """How long the analysis took."""

    answers: list[Answer]
    """The answers."""

    reason: str | None = None
    """Why nothing was analyzed."""


@dataclass(frozen=True, kw_only=True, repr=False)
class NotificationPreference(Record):
    """Whether a user gets emails about an event."""

    event: str
    """The event."""

    label: str
    """The event's display name."""

    description: str
    """What the email is about."""

    enabled: bool
    """Whether it is sent."""

    critical: bool
    """Always sent; cannot be turned off."""


@dataclass(frozen=True, kw_only=True, repr=False)
class NotificationPreferences(Record):
    """The emails that a user can get."""

    preferences: list[NotificationPreference]
    """One for each event."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ObjectAnalysis(Record):
    """An object with its answers."""

    object_id: str
    """The object's id."""

    object_type: str
    """The object's type."""

    display_name: str | None = None
    """The object's display name."""

    event_count: int
    """The number of events ever recorded."""

    analysis: list[SignalResult]
    """The latest answers to the enabled signals."""

    pending: list[str]
    """Enabled signals without an answer yet."""

    labels: list[Label] | None = None
    """Its newest labels, up to 200, newest first; if `include` names them."""

    timeline: Timeline | None = None
    """The first page of its timeline; if `include` names it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ObjectList(Record):
    """A page of objects."""

    objects: list[ObjectSummary]
    """The objects."""

    limit: int
    """The page size."""

    offset: int
    """The number of objects skipped."""

    next_cursor: str | None = None
    """The cursor of the next page; absent on the last page and for signal queries."""

    warnings: list[str]
    """Each comparison of `q` that was skipped, and why; and whether the search ended before all objects were
    looked at.
    """


@dataclass(frozen=True, kw_only=True, repr=False)
class ObjectState(Record):
    """The summary of an object."""

    object_id: str
    """The object's id."""

    compacted_events: int
    """The number of events folded into the summary."""

    compacted_through: datetime | None = None

    compacted_state: CompactedState | None = None

    last_analyzed_at: datetime | None = None

    analysis_scheduled: bool
    """Whether an analysis of it waits or runs. Once this is false, the answers to all events before are there."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ObjectSummary(Record):
    """An object in a list."""

    object_id: str
    """The object's id."""

    object_type: str
    """The object's type."""

    display_name: str | None = None
    """The object's display name."""

    event_count: int
    """The number of events ever recorded."""

    last_seen: datetime
    """When its last event was received."""

    analysis: list[SignalResult]
    """The latest answers to the enabled signals."""

    pending: list[str]
    """Enabled signals without an answer yet."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Overview(Record):
    """The account at a glance."""

    objects: int
    """The number of objects."""

    signals: int
    """The number of configured signals."""

    analyzed_pct: float
    """The share of objects with at least one answer, 0 to 1."""

    events_today: int
    """The number of events received in the last 24 hours."""

    events_yesterday: int
    """The number of events received in the 24 hours before those."""

    flagged: int
    """The number of objects with a yes/no probability of 0.8 or more."""

    signal_summary: list[SignalSummary]
    """A summary of each enabled signal."""

    categories: list[CategoryCount]
    """The number of objects by type, largest first."""

    top_risk: list[RiskyObject]
    """The ten objects with the highest yes/no probabilities."""

    days: list[OverviewDay]
    """What happened on the last 14 days in UTC, today included, oldest first: from the first of them on which
    something did.
    """


@dataclass(frozen=True, kw_only=True, repr=False)
class OverviewDay(Record):
    """What happened on a day."""

    date: date
    """The day, in UTC."""

    objects: int
    """Objects that were first seen."""

    flagged: int
    """How often an analysis flagged an object: a yes/no probability of 0.8 or more, after less or none. One that
    goes back and forth counts each time.
    """

    firings: int
    """How often rules fired, in shadow too."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Passkey(Record):
    """A passkey of a user."""

    id: str
    """Its id."""

    name: str
    """What the user calls it."""

    created_at: datetime
    """When it was added."""

    last_used_at: datetime | None = None
    """When it was last used."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PlaygroundVerdict(Record):
    """The answers about the events. Nothing was recorded."""

    analyzed: bool
    """Whether an analysis was made."""

    model: str
    """The model that answered."""

    latency_ms: int
    """How long the analysis took."""

    answers: list[Answer]
    """The answers."""

    cost_micros: int
    """The charge, in micro-dollars."""

    events_count: int
    """The number of events analyzed."""

    reason: str | None = None
    """Why nothing was analyzed."""


@dataclass(frozen=True, kw_only=True, repr=False)
class QualityDifference(Record):
    """How much better proposed answers are than the present ones: each figure is proposed minus present."""

    accuracy: Figure
    """The difference of the share of right answers."""

    auc: Figure | None = None
    """`noul`: the difference of the AUC; left out if all labels are the same."""

    brier: Figure
    """The difference of the Brier score: below 0 is better."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RawAnswer(Record):
    """What the analyzer said before calibration. Only the fields of its type are set."""

    noul: float | None = None
    """The probability of yes."""

    choice: str | None = None
    """The most likely option."""

    score: float | None = None
    """The expected level."""

    probabilities: dict[str, float] | None = None
    """The probability of each option, or of each level by its index."""

    confidence: float | None = None
    """1 minus the entropy divided by its maximum."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RefusedLabel(Record):
    """A label that was not taken."""

    index: int
    """Its place in the request, from 0."""

    message: str
    """What is wrong with it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ReliabilityBin(Record):
    """The answers of one of ten equal ranges of probability."""

    from_: float = field(metadata={"wire": "from"})
    """Where the range begins."""

    to: float
    """Where it ends; only the last range includes its end."""

    mean_answer: float | None = None
    """The mean answer; left out if there is none."""

    share_yes: Figure | None = None
    """The share of labels that say yes; left out if there are none."""

    count: int
    """The number of answers."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ReplayDay(Record):
    """The firings of a day."""

    day: date
    """The day, in UTC."""

    firings: int
    """The firings."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ReplayExample(Record):
    """A firing that would have been."""

    object_id: str
    """The object."""

    at: datetime
    """When."""

    signal_values: dict[str, Any]
    """The values that satisfied the condition, by signal, and by fact where it has facts."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ReplayLabels(Record):
    """How the objects that a rule would have fired for compare with the labels of a signal."""

    precision: float | None = None
    """Of the labelled objects that it would have fired for, the share whose label satisfies the condition's
    comparisons with the signal. Left out if there is none.
    """

    recall: float | None = None
    """Of the objects whose label satisfies them, the share that it would have fired for. Left out if there is
    none.
    """


@dataclass(frozen=True, kw_only=True, repr=False)
class Review(Record):
    """An object that a person is to look at."""

    id: str
    """Its id."""

    object_id: str
    """The object's id."""

    queue: str
    """The queue that it is in."""

    rule_id: str | None = None
    """The rule that opened it."""

    reason: ReviewReason
    """Why it was opened."""

    status: ReviewStatus
    """Its status."""

    signals: list[str]
    """The keys of the signals to be labelled."""

    priority: float
    """What a label is worth, from 0 to 1, and one more for each time that a rule fired again while it was open."""

    claimed_by: Author | None = None
    """Who works on it."""

    claimed_until: datetime | None = None
    """Until when, unless the claim is renewed."""

    decision: str | None = None
    """What was decided."""

    note: str | None = None
    """What else was said with the decision."""

    resolved_by: Author | None = None
    """Who decided."""

    created_at: datetime
    """When it was opened."""

    resolved_at: datetime | None = None
    """When it was decided."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ReviewEvent(Record):
    """The payload of `review.opened` and `review.resolved`."""

    event: str
    """`review.opened` or `review.resolved`."""

    tenant_id: str
    """The account."""

    occurred_at: datetime
    """When it happened."""

    review: Review
    """The review."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ReviewList(Record):
    """A page of reviews."""

    reviews: list[Review]
    """The reviews."""

    next_cursor: str | None = None
    """Where the next page starts, if there is one."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ReviewQueue(Record):
    """How a queue of reviews stands."""

    queue: str
    """Its name."""

    open: int
    """Reviews that nobody works on."""

    claimed: int
    """Reviews that somebody works on."""

    oldest_at: datetime | None = None
    """When the oldest that is not resolved was opened."""

    resolved_a_day: float
    """How many were resolved a day, over the last seven days."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ReviewQueueList(Record):
    """The queues of an account."""

    queues: list[ReviewQueue]
    """The queues by name: those with reviews that are not resolved, or that were resolved within seven days."""

    signals: list[Signal] | None = None
    """The account's signals, which its reviews are about; if `include` names them."""

    rules: list[Rule] | None = None
    """The account's rules, which open reviews; if `include` names them."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RiskyObject(Record):
    """An object with a high yes/no probability."""

    object_id: str
    """The object's id."""

    display_name: str | None = None
    """The object's display name."""

    risk: float
    """Its highest yes/no probability."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Rule(Record):
    """A condition over the answers about an object, and the action to take when it becomes true."""

    id: str
    """Its id."""

    name: str
    """A name of your choice."""

    when: str
    """The condition, as sent."""

    action_type: ActionType
    """The action."""

    action_config: ActionConfig
    """The settings of the action."""

    enabled: bool
    """Whether it is evaluated."""

    mode: RuleMode
    """Whether its action is carried out; `live` in answers of earlier versions, which do not say it."""

    disabled_reason: str | None = None
    """Why the service disabled it: `address proved` if somebody proved the maker's email address first."""

    cooldown_seconds: int
    """0: it fires when the condition becomes true. Otherwise it fires at most once in this many seconds for an
    object, and again after that while the condition stays true.
    """

    created_at: datetime
    """When it was created."""

    updated_at: datetime
    """When it was last changed."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RuleFiring(Record):
    """The record that a rule fired for an object, with the outcome of its action."""

    id: str
    """Its id."""

    rule_id: str
    """The rule's id."""

    object_id: str
    """The object's id."""

    matched_when: str
    """The condition at that time."""

    signal_values: dict[str, Any]
    """The values that satisfied it, by signal, and by fact where the condition has facts."""

    action_type: ActionType
    """The action."""

    status: FiringStatus
    """The outcome of the action."""

    detail: str | None = None
    """The error, or a short note of success."""

    fired_at: datetime
    """When the rule fired."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RuleFiringList(Record):
    """Firings, newest first."""

    firings: list[RuleFiring]
    """The firings."""

    next_cursor: str | None = None
    """Where the next page starts, if there is one."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RuleList(Record):
    """The rules of an account."""

    rules: list[Rule]
    """The rules, oldest first."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RuleOverlap(Record):
    """How many objects two rules would have fired for."""

    rule_id: str
    """The other rule."""

    name: str
    """Its name."""

    both: int
    """Objects that both would have fired for."""

    only_this: int
    """Objects that only the replayed rule would have fired for."""

    only_that: int
    """Objects that only the other rule would have fired for."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RuleReplay(Record):
    """What a rule would have done."""

    firings: int
    """How often it would have fired."""

    objects: int
    """For how many objects."""

    by_day: list[ReplayDay]
    """Its firings by day, for days that have some, oldest first."""

    examples: list[ReplayExample]
    """The newest firings, at most 50."""

    labelled: dict[str, ReplayLabels]
    """By signal of the condition: how the objects that it would have fired for compare with what people said.
    Signals without labels are left out.
    """

    overlap: list[RuleOverlap]
    """The enabled rules, replayed likewise, the most similar first."""

    from_: datetime = field(metadata={"wire": "from"})
    """From when firings were counted."""

    to: datetime
    """Until when."""

    complete: bool
    """Whether all analyses of that time are still kept."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RuleReplayRun(Record):
    """A replay in the background. Once it is done, it has the fields of [`RuleReplay`]."""

    id: str
    """Its id."""

    status: ReplayStatus
    """Where it stands."""

    analyses: int
    """The analyses that it has read."""

    error: str | None = None
    """Why it failed."""

    firings: int | None = None
    """How often it would have fired."""

    objects: int | None = None
    """For how many objects."""

    by_day: list[ReplayDay] | None = None
    """Its firings by day."""

    examples: list[ReplayExample] | None = None
    """The newest firings, at most 50."""

    labelled: dict[str, ReplayLabels] | None = None
    """How it compares with labels, by signal."""

    overlap: list[RuleOverlap] | None = None
    """The enabled rules, the most similar first."""

    from_: datetime | None = field(default=None, metadata={"wire": "from"})
    """From when firings were counted."""

    to: datetime | None = None
    """Until when."""

    complete: bool | None = None
    """Whether all analyses of that time are still kept."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RuleTest(Record):
    """The test of an action."""

    outcome: RuleTestOutcome
    """What came of it."""

    status_code: int | None = None
    """The status with which the receiver answered: of HTTP, or of SMTP where it was refused."""

    detail: str | None = None
    """The error, or a short note of success."""

    delivery_id: str | None = None
    """The delivery of a webhook."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RuleTriggered(Record):
    """The payload of `rule.triggered`."""

    event: str
    """`rule.triggered`."""

    rule_id: str
    """The rule's id."""

    rule_name: str | None = None
    """The rule's name."""

    tenant_id: str
    """The account that owns the rule."""

    object_id: str
    """The id of the object that it fired for."""

    matched_when: str
    """The condition."""

    model: str | None = None
    """The model that answered."""

    occurred_at: datetime
    """When the rule fired."""

    values: list[Answer]
    """The answers to the signals in the condition."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Session(Record):
    """A sign-in that has not ended."""

    id: str
    """Its id."""

    created_at: datetime
    """When it was opened."""

    last_seen_at: datetime
    """When it was last used, accurate to about a minute."""

    address: str | None = None
    """The IP address that it was last used from."""

    agent: str | None = None
    """The `User-Agent` that it was last used with."""

    current: bool
    """Whether it is the session of this request."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Settings(Record):
    """The settings of an account."""

    auto_backfill_signals: bool
    """Whether a new signal is asked about existing objects at once."""

    event_retention: EventRetention
    """How long raw events are kept."""

    event_retention_days: int | None = None
    """How many days, with `days`; null otherwise."""

    audit_rate_pct: float
    """The share of analyzed objects that is drawn at random for a review, in percent; 0 draws none."""

    audit_queue: str
    """The queue of those reviews."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Signal(Record):
    """A signal of the account."""

    key: str
    """The signal's key."""

    type: SignalType
    """The type of answer."""

    instructions: Any
    """The instructions, as sent."""

    criteria: Any = None
    """The criteria, as sent."""

    enabled: bool
    """Whether it is asked."""

    created_at: datetime
    """When it was created."""

    updated_at: datetime
    """When it was last changed."""

    backfill: SignalBackfill | None = None
    """The backfill that creating it started."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SignalBackfill(Record):
    """Asking one signal about every object without an answer to it. `completed` and `pending` add up to `total`."""

    signal_key: str
    """The signal's key."""

    status: BackfillState
    """Whether it is running."""

    total: int
    """The number of objects without an answer when it started."""

    completed: int
    """How many of them have an answer now."""

    pending: int
    """How many of them have none."""

    started_at: datetime
    """When it started."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SignalEscalation(Record):
    """Which answers of a signal go to the second analyzer, and what they have cost today. Without `band` and
    `below`, none do.
    """

    band: list[float] | None = None
    """`noul`: the lowest and the highest probability that is unsure."""

    below: float | None = None
    """`choice` and `score`: the confidence below which an answer is unsure."""

    model: str | None = None
    """The model of the second analyzer; left out if there is none."""

    escalated_today: int
    """Answers of this signal that the second analyzer gave, or is giving, today (UTC)."""

    cost_micros_today: int
    """What they cost, in micro-dollars: of an analysis with several signals, their part."""

    labels: int | None = None
    """After a fit: the number of labels."""

    share: Figure | None = None
    """After a fit: the share of their answers that is escalated."""

    error: Figure | None = None
    """After a fit: the share of wrong answers among the others; left out if there are none."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SignalList(Record):
    """All configured signals, by key."""

    signals: list[Signal]
    """The signals."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SignalQuality(Record):
    """How good the answers to a signal are: its labels, compared with the answers that stood when they were given."""

    signal: str
    """The signal's key."""

    type: SignalType
    """Its type."""

    version: int | None = None
    """The version whose answers are compared; left out for all versions."""

    labels: int
    """The number of labels compared: the latest of each object that had an answer."""

    needs: int | None = None
    """How many more labels the figures need; left out once there are enough."""

    selected: bool
    """Whether fewer than 30 of the labels are about objects drawn at random."""

    selected_note: str | None = None
    """What that means for the figures."""

    reliability: list[ReliabilityBin] | None = None
    """`noul`: how often answers of about this probability were right."""

    thresholds: list[ThresholdQuality] | None = None
    """`noul`: what would be flagged at each threshold from 0.05 to 0.95."""

    best_threshold: float | None = None
    """`noul`: the threshold at which wrong answers cost least."""

    confusion: dict[str, dict[str, int]] | None = None
    """`choice` and `score`: the number of labels by what is true and what was answered."""

    by_week: list[WeekQuality]
    """The same by the week in which the labels were given, oldest first."""

    versions: list[SignalVersion] | None = None
    """The signal's newest 100 versions, newest first; if `include` names them."""

    escalation: SignalEscalation | None = None
    """Which answers to it are escalated; if `include` names it."""

    yes: int | None = None
    """`noul`: how many labels say yes."""

    accuracy: Figure | None = None
    """The share of right answers; for `noul`, yes from 0.5 on."""

    auc: Figure | None = None
    """`noul`: how often an object labelled yes has a higher answer than one labelled no. Left out if all labels
    are the same.
    """

    brier: Figure | None = None
    """`noul`: the mean squared difference between the answer and the label, 1 or 0."""

    calibration_error: Figure | None = None
    """How far probabilities are from the shares that came true, over ten equal bins."""

    macro_f1: Figure | None = None
    """`choice` and `score`: the mean of the F1 of each option or level."""

    mean_distance: Figure | None = None
    """`score`: the mean number of levels between the level answered and the true one."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SignalResult(Record):
    """The latest answer to a signal about an object."""

    key: str
    """The signal's key."""

    raw: RawAnswer | None = None
    """The analyzer's own answer, where a calibration is on."""

    escalated: bool | None = None
    """Where the first analyzer was unsure: whether the second one answered."""

    model: str | None = None
    """The model that answered."""

    computed_at: datetime
    """When it was computed."""

    type: SignalType
    """The type of answer."""

    noul: float | None = None
    """The probability of yes."""

    choice: str | None = None
    """The most likely option."""

    score: float | None = None
    """The expected level, from 0 to the number of levels minus one."""

    probabilities: dict[str, float] | None = None
    """The probability of each option, or of each level by its index."""

    confidence: float | None = None
    """1 minus the entropy divided by its maximum: 0 if all are equally likely, 1 if one is certain."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SignalSummary(Record):
    """A signal at a glance."""

    key: str
    """The signal's key."""

    type: SignalType
    """The type of answer."""

    total: int
    """The number of objects with an answer."""

    avg: float | None = None
    """The mean probability or position."""

    high: int | None = None
    """The number of objects at 0.8 or more, for yes/no signals."""

    high_pct: float | None = None
    """The share of objects at 0.8 or more, for yes/no signals."""

    choices: dict[str, float] | None = None
    """The share of each option, for choice signals."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SignalVersion(Record):
    """A definition that a signal has or had."""

    version: int
    """Its number, from 1."""

    type: SignalType
    """The type of answer."""

    instructions: Any
    """The instructions, as sent."""

    criteria: Any = None
    """The criteria, as sent."""

    calibration: str | None = None
    """The id of the calibration that was switched on."""

    created_at: datetime
    """When it was made."""

    by: Author | None = None
    """Who made it; left out where the account has no users and nobody is known."""

    objects: int
    """The number of objects whose present answer is of this version."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SignalVersionList(Record):
    """The versions of a signal, newest first."""

    versions: list[SignalVersion]
    """The newest 100 versions."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SystemOneAnswer(Record):
    """An answer in the wire format of typed decision models."""

    legend: dict[str, str] | None = None
    """The descriptions of the levels, by index."""

    type: SignalType
    """The type of answer."""

    noul: float | None = None
    """The probability of yes."""

    choice: str | None = None
    """The most likely option."""

    score: float | None = None
    """The expected level, from 0 to the number of levels minus one."""

    probabilities: dict[str, float] | None = None
    """The probability of each option, or of each level by its index."""

    confidence: float | None = None
    """1 minus the entropy divided by its maximum: 0 if all are equally likely, 1 if one is certain."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SystemOneResponse(Record):
    """Answers in the wire format of typed decision models."""

    model: str
    """The model that answered."""

    answers: dict[str, SystemOneAnswer]
    """One for each question."""

    usage: SystemOneUsage
    """Tokens read and written."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SystemOneUsage(Record):
    """Tokens read and written."""

    input_tokens: int
    """Tokens read."""

    output_tokens: int
    """Tokens written."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ThresholdQuality(Record):
    """What a rule with this threshold would flag."""

    threshold: float
    """Answers of this probability or more are flagged."""

    precision: Figure | None = None
    """The share of flagged objects that are labelled yes; left out if none is flagged."""

    recall: Figure | None = None
    """The share of objects labelled yes that are flagged; left out if none is labelled yes."""

    flagged: Figure
    """The share of all objects that is flagged."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Timeline(Record):
    """A page of what happened about an object, newest first."""

    items: list[TimelineItem]
    """The items."""

    next_cursor: str | None = None
    """Where the next page starts, if there is one."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TimelineItem(Record):
    """Something that happened about an object. The record is under the name of its kind."""

    kind: TimelineKind
    """What it is."""

    at: datetime
    """When it happened."""

    id: str | None = None
    """The record's id; events have none."""

    event: Event | None = None
    """The event."""

    analysis: AnalysisRecord | None = None
    """What the analysis said."""

    firing: RuleFiring | None = None
    """The firing."""

    delivery: WebhookDelivery | None = None
    """The delivery."""

    label: Label | None = None
    """The label."""

    review: Review | None = None
    """The review, as it is now."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Trial(Record):
    """A trial of another wording. Its figures are over the objects that have both answers."""

    id: str
    """Its id."""

    signal: str
    """The key of the signal."""

    version: int
    """The version that the proposed wording is compared with."""

    instructions: Any
    """The proposed instructions."""

    criteria: Any = None
    """The proposed criteria."""

    over: TrialOver
    """Which objects it is put to."""

    status: TrialStatus
    """Whether it has ended."""

    total: int
    """The number of objects."""

    left_out: int
    """Labelled objects that are left out, because what stood when they were labelled cannot be read any more."""

    completed: int
    """How many of the objects are done."""

    cost_micros: int
    """What it has cost so far, in micro-dollars."""

    agreement: Figure | None = None
    """The share of objects whose answers are on the same side."""

    present: SignalQuality | None = None
    """How good the present wording is on the labelled objects; only of a single trial."""

    proposed: SignalQuality | None = None
    """How good the proposed wording is on the labelled objects; only of a single trial."""

    difference: QualityDifference | None = None
    """The figures of the proposed wording minus those of the present one; only of a single trial."""

    flips: list[TrialFlip] | None = None
    """The objects whose answers change side, the largest change first, at most 100; only of a single trial."""

    created_at: datetime
    """When it was started."""

    ended_at: datetime | None = None
    """When it ended."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TrialEstimate(Record):
    """What a trial would cost."""

    objects: int
    """The number of objects."""

    estimated_cost_micros: int
    """The estimated cost in micro-dollars."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TrialFlip(Record):
    """An object whose answer changes side."""

    object_id: str
    """The object's id."""

    present: Answer
    """The answer to the present wording."""

    proposed: Answer
    """The answer to the proposed wording."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TrialList(Record):
    """A page of trials, newest first."""

    trials: list[Trial]
    """The trials."""

    next_cursor: str | None = None
    """Where the next page starts, if there is one."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TrialQuery(Record):
    """A query for the objects that a trial is put to."""

    q: str
    """As for the list of objects."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TrialStarted(Record):
    """A trial that was started."""

    trial: Trial
    """The trial."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Usage(Record):
    """An account's usage over a range of days."""

    from_: date = field(metadata={"wire": "from"})
    """The first day, in UTC."""

    to: date
    """The last day."""

    currency: str
    """The currency of every amount."""

    metering_enabled: bool
    """Whether analyses are billed."""

    balance_cents: int
    """The current balance, rounded toward zero."""

    burn_rate_micros_per_day: int
    """Average spend per day of the range, without days in the future, in micro-dollars."""

    runway_days: float | None = None
    """How many days the balance lasts at that rate; absent without spend or balance."""

    storage_bytes: int
    """Bytes of contents and metadata of the events that are kept now."""

    totals: UsageTotals
    """The totals of the range."""

    series: list[UsageDay]
    """Every day of the range, oldest first, including those without usage."""

    by_model: list[UsageBreakdown]
    """By model; highest spend first."""

    by_source: list[UsageBreakdown]
    """By whether a caller waited, `async` or `sync`; highest spend first."""

    by_signal: list[UsageSignal]
    """By signal; most answered first."""


@dataclass(frozen=True, kw_only=True, repr=False)
class UsageBreakdown(Record):
    """A part of the usage."""

    key: str
    """The model or source."""

    analyses: int
    """The number of analyses."""

    spend_micros: int
    """What they were charged, in micro-dollars."""

    input_tokens: int
    """Tokens read."""

    output_tokens: int
    """Tokens written."""


@dataclass(frozen=True, kw_only=True, repr=False)
class UsageDay(Record):
    """The usage of a day."""

    date: date
    """The day, in UTC."""

    analyses: int
    """The number of analyses."""

    async_: int = field(metadata={"wire": "async"})
    """Those that no caller waited for."""

    sync: int
    """Those that a caller waited for."""

    spend_micros: int
    """What they were charged, in micro-dollars."""


@dataclass(frozen=True, kw_only=True, repr=False)
class UsageSignal(Record):
    """How often a signal was answered."""

    signal: str
    """The signal's key."""

    analyses: int
    """The number of analyses that answered it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class UsageTotals(Record):
    """The totals of a range."""

    analyses: int
    """The number of analyses."""

    spend_micros: int
    """What they were charged, in micro-dollars."""

    input_tokens: int
    """Tokens read."""

    output_tokens: int
    """Tokens written."""


@dataclass(frozen=True, kw_only=True, repr=False)
class VersionedAnswer(Record):
    """An answer with the version of the signal that was asked."""

    version: int
    """The version of the signal that was asked."""

    signal: str
    """The key of the signal."""

    raw: RawAnswer | None = None
    """The analyzer's own answer, where a calibration is on."""

    escalated: bool | None = None
    """Where the first analyzer was unsure: true if the second analyzer answered, false if it was not asked or
    failed, so that the first answer stands.
    """

    model: str | None = None
    """The second analyzer's model, where that answered."""

    type: SignalType
    """The type of answer."""

    noul: float | None = None
    """The probability of yes."""

    choice: str | None = None
    """The most likely option."""

    score: float | None = None
    """The expected level, from 0 to the number of levels minus one."""

    probabilities: dict[str, float] | None = None
    """The probability of each option, or of each level by its index."""

    confidence: float | None = None
    """1 minus the entropy divided by its maximum: 0 if all are equally likely, 1 if one is certain."""


@dataclass(frozen=True, kw_only=True, repr=False)
class WebhookDelivery(Record):
    """One payload for one endpoint."""

    id: str
    """Its id, sent as `X-Webhook-Delivery` with every attempt."""

    endpoint_id: str
    """The endpoint's id."""

    event_type: Literal["analysis.completed", "rule.triggered", "review.opened", "review.resolved", "endpoint.test"]
    """The type of the webhook event."""

    status: DeliveryStatus
    """Its status."""

    object_id: str | None = None
    """The id of the object that it is about."""

    attempts: int
    """The number of attempts made since it was queued or replayed."""

    max_attempts: int
    """The number of attempts after which it is dead."""

    last_status_code: int | None = None
    """The HTTP status of the receiver's last response."""

    last_error: str | None = None
    """Why the last attempt failed."""

    run_after: datetime
    """The earliest time of the next attempt; for a dead delivery, when it died."""

    created_at: datetime
    """When it was queued."""

    delivered_at: datetime | None = None
    """When the receiver accepted it."""

    payload: dict[str, Any] | None = None
    """The exact payload."""

    last_response: str | None = None
    """The first 1 KiB of the receiver's last response."""


@dataclass(frozen=True, kw_only=True, repr=False)
class WebhookDeliveryList(Record):
    """Deliveries of an account."""

    deliveries: list[WebhookDelivery]
    """The deliveries, newest first."""

    next_cursor: str | None = None
    """Where the next page starts, if there is one."""


@dataclass(frozen=True, kw_only=True, repr=False)
class WebhookEndpoint(Record):
    """A registered URL that gets deliveries, without its secret."""

    id: str
    """Its id."""

    url: str
    """The URL that deliveries are posted to."""

    description: str
    """A description of your choice; may be empty."""

    enabled: bool
    """Whether it gets deliveries. Those already queued wait while it is disabled."""

    disabled_reason: str | None = None
    """Why the service disabled it: `address proved` if somebody proved the maker's email address first."""

    signal_keys: list[str]
    """It gets only analyses that answered one of these signals; if empty, every analysis."""

    events: list[str]
    """The event types that it gets."""

    created_at: datetime
    """When it was registered."""

    updated_at: datetime
    """When it was last edited."""

    health: WebhookHealth | None = None
    """How it is doing; in a list whose `include` names it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class WebhookEndpointList(Record):
    """The endpoints of an account."""

    webhooks: list[WebhookEndpoint]
    """The endpoints, oldest first."""


@dataclass(frozen=True, kw_only=True, repr=False)
class WebhookEndpointSecret(Record):
    """An endpoint with its signing secret, which is shown only once."""

    endpoint: WebhookEndpoint
    """The endpoint."""

    secret: str = field(repr=False)
    """The secret that signs its deliveries. It is never shown again."""

    note: str
    """What to do with it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class WebhookHealth(Record):
    """How an endpoint is doing: now, and over the newest 500 deliveries that have ended."""

    state: EndpointState
    """How it is doing now."""

    resting_until: datetime | None = None
    """When its receiver is tried again, while it is resting."""

    consecutive_failures: int
    """Attempts in a row that failed and are made again; after ten, the endpoint rests. A refusal for good is none."""

    waiting: int
    """Deliveries that wait or are being sent, counted up to 10,000."""

    delivered: int
    """Deliveries that the receiver accepted."""

    dead: int
    """Deliveries that were given up."""

    success_share: float | None = None
    """The share of `delivered`; left out if none has ended."""

    p50_ms: int | None = None
    """Half of the accepted deliveries took at most so many milliseconds from being queued to being accepted,
    retries and replays included.
    """

    p95_ms: int | None = None
    """95 % of them took at most so many milliseconds."""

    since: datetime | None = None
    """When the oldest of them was queued."""


@dataclass(frozen=True, kw_only=True, repr=False)
class WeekQuality(Record):
    """The labels of a week, compared with answers."""

    week: date
    """The Monday on which the week begins, in UTC."""

    labels: int
    """The number of labels compared."""

    yes: int | None = None
    """`noul`: how many labels say yes."""

    accuracy: Figure | None = None
    """The share of right answers; for `noul`, yes from 0.5 on."""

    auc: Figure | None = None
    """`noul`: how often an object labelled yes has a higher answer than one labelled no. Left out if all labels
    are the same.
    """

    brier: Figure | None = None
    """`noul`: the mean squared difference between the answer and the label, 1 or 0."""

    calibration_error: Figure | None = None
    """How far probabilities are from the shares that came true, over ten equal bins."""

    macro_f1: Figure | None = None
    """`choice` and `score`: the mean of the F1 of each option or level."""

    mean_distance: Figure | None = None
    """`score`: the mean number of levels between the level answered and the true one."""


TrialOver = TrialObjects | TrialQuery
"""Which objects a trial is put to."""


WebhookPayload = AnalysisCompleted | EndpointTest | ReviewEvent | RuleTriggered
"""The payload of a webhook delivery."""

#: The record of each webhook event.
WEBHOOK_EVENTS: dict[str, type[WebhookPayload]] = {
    "analysis.completed": AnalysisCompleted,
    "endpoint.test": EndpointTest,
    "review.opened": ReviewEvent,
    "review.resolved": ReviewEvent,
    "rule.triggered": RuleTriggered,
}
