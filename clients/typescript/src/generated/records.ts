// The records of requests and responses, with the names that they have on the wire.
// Generated from docs/openapi.json by `make clients`. Do not edit.

/** The states that a key can be set to; revoking has its own route. */
export type APIKeyActivity = "active" | "inactive";

/** Whether a key authenticates. */
export type APIKeyStatus = "active" | "inactive" | "revoked";

/** The action of a rule. */
export type ActionType = "email" | "slack" | "webhook" | "review";

/** What asked for an analysis. */
export type AnalysisSource = "async" | "sync" | "bulk";

/** Whether an analysis will follow. */
export type AnalysisStatus = "scheduled";

/** How a request was authenticated. */
export type AuthType = "tenant" | "console";

/** How somebody acted. */
export type AuthorKind = "user" | "key";

/** Whether a backfill is running. */
export type BackfillState = "running" | "done";

/** How a calibration maps probabilities. */
export type CalibrationMethod = "platt" | "isotonic" | "temperature";

/** Whether a top-up was paid and credited. */
export type CheckoutState = "pending" | "credited";

/** Where a condition is to stand. */
export type ConditionPlace = "rule" | "query";

/** The status of a delivery. */
export type DeliveryStatus = "pending" | "delivering" | "delivered" | "dead";

/** How an endpoint is doing. */
export type EndpointState = "good" | "failing" | "resting" | "disabled";

/** How long raw events are kept. Answers are kept in every mode. */
export type EventRetention = "forever" | "days" | "after_analysis";

/** The type of an event. */
export type EventType = "event" | "message";

/** How it was found out what moved an answer. */
export type ExplainMethod = "unread" | "left_out";

/** The outcome of a firing's action. */
export type FiringStatus = "dispatched" | "error" | "unconfirmed" | "shadow";

/** How a key authenticates. */
export type KeyKind = "signed" | "bearer";

/** How a label was given. */
export type LabelSource = "person" | "api" | "review";

/** What is true: `noul` true or false; `score` the index of a level; `choice` an option. */
export type LabelValue = boolean | number | string;

/** What a member may do. Each role may do everything that the ones before it may. */
export type MemberRole = "viewer" | "analyst" | "admin" | "owner";

/** What a part of a history is. */
export type PartKind = "event" | "message" | "summary";

/** An identity provider. */
export type Provider = "google" | "github" | "oidc";

/** Where a replay in the background stands. */
export type ReplayStatus = "running" | "done" | "failed";

/** The order of a list of reviews. */
export type ReviewOrder = "value" | "oldest";

/** Why a review was opened. */
export type ReviewReason = "rule" | "audit" | "person";

/** The status of a review. */
export type ReviewStatus = "open" | "claimed" | "resolved";

/** Whether a rule acts, or is only tried. */
export type RuleMode = "live" | "shadow";

/** What came of the test of an action. */
export type RuleTestOutcome = "sent" | "refused" | "timed_out" | "unreachable" | "unconfirmed" | "waiting";

/** A part of the API that a key may use. */
export type Scope = "ingest" | "read" | "write" | "label" | "moderate" | "mcp";

/** The type of a signal's answers. */
export type SignalType = "noul" | "choice" | "score";

/** The kind of an item on a timeline. */
export type TimelineKind = "label" | "delivery" | "review" | "firing" | "analysis" | "event";

/** A kind of objects that a trial is put to. */
export type TrialObjects = "labelled" | "recent";

/** Which objects a trial is put to. */
export type TrialOver = TrialObjects | TrialQuery;

/** Whether a trial has ended. */
export type TrialStatus = "running" | "done" | "cancelled";

/** An API key, without its secret. */
export interface APIKey {
  /** The id that the key routes take. */
  id: string;
  /** The public key ID, sent as `api_key` or as the token's `kid`. */
  key: string;
  /** A name of your choice. */
  name: string;
  /** Whether it authenticates. */
  status: APIKeyStatus;
  /** How it authenticates. */
  kind: KeyKind;
  /** What it may be used for. */
  scopes: Scope[];
  /** Whether it can sign; bearer keys cannot, and legacy keys not until they are rotated. */
  has_secret: boolean;
  /** Whether it was created before request signing. */
  legacy?: boolean;
  /** The first characters of the old long key. */
  legacy_preview?: string;
  /** When it was created. */
  created_at: string;
  /** When it last authenticated, accurate to about a minute. */
  last_used_at?: string;
  /** When it last authenticated as a legacy key. */
  legacy_used_at?: string;
}

/** A new key. */
export interface APIKeyCreate {
  /** A name of your choice; 1 to 100 characters. */
  name?: string | null | undefined;
  kind?: KeyKind | null | undefined;
  /**
   * What it may be used for. A signed key takes `ingest`, `read`, `write` and `label`, and has all of them if
   * this is left out. A bearer key needs `moderate` or `mcp`; with `mcp` it also takes `write` and `label`.
   */
  scopes?: Scope[] | null | undefined;
}

/** The keys of an account that are not revoked. */
export interface APIKeyList {
  /** The keys, oldest first. */
  api_keys: APIKey[];
}

/** A key with its signing secret, which is shown only once. */
export interface APIKeySecret {
  /** The key. */
  api_key: APIKey;
  /** The public key ID. */
  key: string;
  /**
   * The signing secret, which is never sent on requests; of a bearer key (`bk_…`) what requests carry. It is
   * never shown again.
   */
  secret: string;
  /** What to do with it. */
  note: string;
}

/** A change of a key; fields left out keep their values. */
export interface APIKeyUpdate {
  /** A name of your choice; 1 to 100 characters. */
  name?: string | null | undefined;
  status?: APIKeyActivity | null | undefined;
}

/** The settings of an action. Only the fields of its type are set. */
export interface ActionConfig {
  /** `email`: the address; required. */
  to?: string;
  /** `email`: the subject, up to 200 characters; if left out, it names the rule and the object. */
  subject?: string;
  /** `slack`: the URL of an incoming webhook; required. */
  webhook_url?: string;
  /** `webhook`: a registered endpoint that receives `rule.triggered`; required. */
  endpoint_id?: string;
  /** `review`: the queue, 1 to 64 characters; required. */
  queue?: string;
  /** `review`: the keys of the signals to be labelled; if left out, those in the condition. */
  signals?: string[];
}

/** The payload of `analysis.completed`. */
export interface AnalysisCompleted {
  /** `analysis.completed`. */
  event: string;
  /** The object's id. */
  object_id: string;
  /** The account that owns the object. */
  tenant_id: string;
  /** The model that answered. */
  model: string;
  /** When the analysis finished. Ignore a delivery that is older than one you already have. */
  occurred_at: string;
  /** The answers of this analysis. */
  answers: Answer[];
}

/** A page of the past of an object's answers, newest first. */
export interface AnalysisList {
  /** The analyses. */
  analyses: AnalysisRecord[];
  /** Where the next page starts, if there is one. */
  next_cursor?: string;
}

/** What one analysis said. */
export interface AnalysisRecord {
  /** When it was concluded. */
  at: string;
  /** What asked for it. */
  source: AnalysisSource;
  /** The model that answered. */
  model: string;
  /** The sequence number of the newest event that was read. */
  read_seq: number;
  /** All its answers, also those to signals that were disabled or deleted since. */
  answers: VersionedAnswer[];
}

/** Analyses of all objects are scheduled. */
export interface AnalyzeAllScheduled {
  /** The number of objects. */
  scheduled: number;
  /** Always `scheduled`. */
  analysis_status: AnalysisStatus;
}

/** An analysis of one object is scheduled. */
export interface AnalyzeScheduled {
  /** The object's id. */
  object_id: string;
  /** Always `scheduled`. */
  analysis_status: AnalysisStatus;
}

/** An answer, as in verdicts and webhook payloads. */
export interface Answer {
  /** The key of the signal. */
  signal: string;
  /** The analyzer's own answer, where a calibration is on. */
  raw?: RawAnswer;
  /**
   * Where the first analyzer was unsure: true if the second analyzer answered, false if it was not asked or
   * failed, so that the first answer stands.
   */
  escalated?: boolean;
  /** The second analyzer's model, where that answered. */
  model?: string;
  /** The type of answer. */
  type: SignalType;
  /** The probability of yes. */
  noul?: number;
  /** The most likely option. */
  choice?: string;
  /** The expected level, from 0 to the number of levels minus one. */
  score?: number;
  /** The probability of each option, or of each level by its index. */
  probabilities?: Record<string, number>;
  /** 1 minus the entropy divided by its maximum: 0 if all are equally likely, 1 if one is certain. */
  confidence?: number;
}

/** Who made something. */
export interface Author {
  /** How they acted. */
  kind: AuthorKind;
  /** The id of the user or of the API key. */
  id: string;
  /** The user's email address or the key's name, as it was then. */
  name: string;
}

/** An estimate of a backfill. */
export interface BackfillEstimate {
  /** The number of objects without an answer to the signal. */
  objects: number;
  /** That number times the account's mean charge per analysis, in micro-dollars; 0 if nothing was charged yet. */
  estimated_cost_micros: number;
}

/** An estimate of a backfill of a signal, and the progress of the latest one. */
export interface BackfillStatus {
  /** The estimate for a backfill started now. */
  estimate: BackfillEstimate;
  backfill: SignalBackfill | null;
}

/** An account's balance, and how it is spent. */
export interface Balance {
  /** The balance, rounded toward zero. */
  balance_cents: number;
  /** The currency of every amount. */
  currency: string;
  /** Whether analyses are billed. */
  metering_enabled: boolean;
  /** `block` pauses analyses at an empty balance; `grace` lets the balance go negative. */
  enforcement: string;
  /** Whether the balance can be topped up by card. */
  self_serve_topup: boolean;
  /** An email warns each time the balance falls below this. */
  low_balance_threshold_cents: number;
  /** The smallest top-up. */
  topup_min_cents?: number;
  /** The largest top-up. */
  topup_max_cents?: number;
}

/** A calibration that was fitted to labels. It is not switched on by itself. */
export interface Calibration {
  /** Its id. */
  id: string;
  /** How it maps probabilities. */
  method: CalibrationMethod;
  /** The number of labels that it was fitted to. */
  labels: number;
  /** The raw answers, compared with the labels. */
  before: CalibrationQuality;
  /** Answers calibrated by cross-validation, compared with the labels. */
  after: CalibrationQuality;
}

/** Which calibration of a signal is on. */
export interface CalibrationInput {
  /** The id of a calibration, or null for none. Required. */
  id: string | null;
}

/** How good answers are before or after a calibration. */
export interface CalibrationQuality {
  /** The mean squared distance of the probabilities from the labels. */
  brier: Figure;
  /** How far probabilities are from the shares that came true. */
  calibration_error: Figure;
}

/** The signal after its calibration was switched on or off. */
export interface CalibrationSwitched {
  /** The version of the signal from now on. */
  version: number;
  /** How many enabled rules in mode `live` compare the signal: their thresholds now mean something else. */
  live_rules: number;
}

/** The number of objects of a type. */
export interface CategoryCount {
  /** The object type. */
  name: string;
  /** The number of objects. */
  count: number;
}

/** A top-up to be paid by card. */
export interface CheckoutCreate {
  /** The amount, between `topup_min_cents` and `topup_max_cents`. */
  amount_cents: number;
}

/** A checkout session at the payment provider. */
export interface CheckoutSession {
  /** The session's id at the payment provider. */
  id: string;
  /** The payment page to send the customer to. */
  url: string;
}

/** The status of a top-up. */
export interface CheckoutStatus {
  /** The session's id at the payment provider. */
  id: string;
  /** Whether it was paid and credited. */
  status: CheckoutState;
  /** The amount. */
  amount_cents?: number;
  /** The balance right after it was credited. */
  balance_after_cents?: number;
}

/** The rolling summary of an object's older events. */
export interface CompactedState {
  /** The number of events folded in. */
  total_events: number;
  /** How many of them are messages. */
  messages: number;
  /** How many of them are actions. */
  actions: number;
  /** The number of actions by name. */
  by_action?: Record<string, number>;
  /** The newest messages, shortened. */
  sample_messages?: string[];
  /** When the earliest of them happened. */
  first_seen: string;
  /** When the latest of them was received. */
  updated_at: string;
}

/** What a condition says. */
export interface ConditionCheck {
  /** Whether it can be used. */
  valid: boolean;
  /** What is wrong with it; of several errors the first. */
  error?: ConditionProblem;
  /** The keys of the signals that it names. */
  signals: string[];
  /**
   * How many objects it is true for now. Left out if it is invalid, has facts, or is a text that is searched
   * for.
   */
  matches?: MatchCount;
}

/** A condition to check. */
export interface ConditionCheckRequest {
  /** The condition. */
  when: string;
  for?: ConditionPlace | null | undefined;
}

/** What is wrong with a condition. */
export interface ConditionProblem {
  /** What is wrong. */
  message: string;
  /** Where: an index into the characters of the condition, from 0 up to their number. */
  at: number;
}

/** How the present answers to a signal are distributed. */
export interface Distribution {
  /** The number of objects that are counted: those with an answer to the signal. */
  objects: number;
  /** Whether more objects match than are counted. Those that were analyzed most recently are. */
  sampled: boolean;
  /** The bins: 20 equal ones for `noul`, one for each level of a `score`, one for each option of a `choice`. */
  bins: DistributionBin[];
}

/** How many answers are in a range, or are an option. */
export interface DistributionBin {
  /** The lower end, which belongs to the bin. */
  from?: number;
  /** The upper end, which belongs to the next bin, except that the last bin of `noul` includes 1. */
  to?: number;
  /** The option. */
  option?: string;
  /** The number of answers. */
  count: number;
}

/** The payload of `endpoint.test`. */
export interface EndpointTest {
  /** `endpoint.test`. */
  event: string;
  /** The account that owns the endpoint. */
  tenant_id: string;
  /** The endpoint's id. */
  endpoint_id: string;
  /** When the test was asked for. */
  occurred_at: string;
}

/** Which answers of a signal go to the second analyzer: exactly one of the fields. */
export interface EscalationInput {
  /**
   * `noul`: the lowest and the highest probability that is unsure. Null ends the escalation of a signal of
   * any type.
   */
  band?: number[] | null | undefined;
  /** `choice` and `score`: the confidence below which an answer is unsure. */
  below?: number | null | undefined;
  /**
   * The share of wrong answers that the first analyzer may give where it is not unsure: fitted to the labels,
   * so that the fewest are escalated.
   */
  target_error?: number | null | undefined;
}

/** An event, as listed. */
export interface Event {
  /** The type of event. */
  type: EventType;
  /** The event's name, or a message's subject. */
  name?: string;
  /** The text. */
  content?: string;
  /** Any other data. */
  metadata?: Record<string, unknown>;
  /** When it happened. */
  occurred_at: string;
}

/** An event, as sent to the service. */
export interface EventInput {
  /** The type of event. */
  type: EventType;
  /** The event's name, or a message's subject; at most 255 characters. */
  name?: string | null | undefined;
  /** The text; at most 32 KiB. */
  content?: string | null | undefined;
  /** Any other data, an object of at most 16 KiB. If `name` is a string, it becomes the object's display name. */
  metadata?: Record<string, unknown> | null | undefined;
  occurred_at?: string | Date | null | undefined;
}

/** The most recent events of an object, newest first. */
export interface EventList {
  /** At most 200 events. */
  events: Event[];
  /** Where the next page starts, if there is one. */
  next_cursor?: string;
}

/** A request for what moved an answer. */
export interface ExplainRequest {
  /** The key of the signal. */
  signal: string;
}

/** A part of an object's history, and how it moved an answer. */
export interface ExplainedPart {
  /** The place of its event in the order of arrival; left out for a line of the summary. */
  seq?: number;
  /** What the part is. */
  kind: PartKind;
  /** What it says, at most 500 characters of it. */
  excerpt: string;
  /**
   * How much the answer differs when this part is not read, positive if the part raised it: the probability
   * of yes, the score, or the probability of the option chosen.
   */
  moved: number;
}

/** What moved an answer about an object. */
export interface Explanation {
  /** The answer to the signal about all that is read of the object now. */
  answer: Answer;
  /** The parts of the history that moved the answer most, largest first: at most 20. */
  parts: ExplainedPart[];
  /** How it was found out. */
  method: ExplainMethod;
  /** What it cost, in millionths of a dollar. */
  cost_micros: number;
}

/** A figure with its 95 % interval. */
export interface Figure {
  /** The figure. */
  value: number;
  /** The lower end of its interval. */
  low: number;
  /** The upper end of its interval. */
  high: number;
}

/** What the first analyzer said where the second one answered. */
export interface FirstAnswer {
  /** Its own answer, where a calibration was on. */
  raw?: RawAnswer;
  /** Its model. */
  model: string;
  /** The probability of yes. */
  noul?: number;
  /** The most likely option. */
  choice?: string;
  /** The expected level. */
  score?: number;
  /** The probability of each option, or of each level by its index. */
  probabilities?: Record<string, number>;
  /** 1 minus the entropy divided by its maximum. */
  confidence?: number;
}

/** The ways a user can sign in. */
export interface Identities {
  /** Whether the user has a password. */
  has_password: boolean;
  /** The linked accounts. */
  identities: Identity[];
  /** The configured providers. */
  providers: Provider[];
}

/** A linked account at a provider. */
export interface Identity {
  /** The provider. */
  provider: Provider;
  /** The email address at the provider. */
  email: string;
  /** When it was linked. */
  created_at: string;
}

/** The events were recorded, and an analysis will follow. */
export interface IngestAccepted {
  /** The object's id. */
  object_id: string;
  /** The number of events recorded. */
  accepted: number;
  /** Always `scheduled`. */
  analysis_status: AnalysisStatus;
  /** How long the object must be quiet before it is analyzed. */
  analysis_delay_ms: number;
}

/** Events to be recorded, and whether to wait for a verdict. */
export interface IngestRequest {
  /** The object's type, for example user or listing; 1 to 64 characters. */
  object_type?: string | null | undefined;
  /** 1 to 500 events. */
  events: EventInput[];
  /** Whether to analyze the object now and return a verdict. */
  wait?: boolean | null | undefined;
  /** With `wait`, ask only these signals. */
  signals?: string[] | null | undefined;
  /** With `wait`, whether to analyze the object's history (the default) or only the events of this request. */
  include_history?: boolean | null | undefined;
}

/** What a person, or a program, says is true about a signal of an object. */
export interface Label {
  /** Its id. */
  id: string;
  /** The object's id. */
  object_id: string;
  /** The key of the signal. */
  signal: string;
  /** The version of the signal when the label was given. */
  version: number;
  /** What is true. */
  value: LabelValue;
  /** What else the author said. */
  note?: string;
  /** How it was given. */
  source: LabelSource;
  /** Who gave it. */
  by: Author;
  /** Whether the object was drawn at random. */
  audit: boolean;
  /** What the service said then; left out if it had not answered. */
  answer?: LabelAnswer;
  /** When it was given. */
  created_at: string;
}

/** What the service said when a label was given. */
export interface LabelAnswer {
  /** What the first analyzer had said, where the second one answered. */
  first?: FirstAnswer;
  /** The version of the signal that was asked. */
  version: number;
  /** The model that answered. */
  model: string;
  /** The sequence number of the newest event that was read. */
  read_seq: number;
  /** The key of the signal. */
  signal: string;
  /** The analyzer's own answer, where a calibration is on. */
  raw?: RawAnswer;
  /**
   * Where the first analyzer was unsure: true if the second analyzer answered, false if it was not asked or
   * failed, so that the first answer stands.
   */
  escalated?: boolean;
  /** The type of answer. */
  type: SignalType;
  /** The probability of yes. */
  noul?: number;
  /** The most likely option. */
  choice?: string;
  /** The expected level, from 0 to the number of levels minus one. */
  score?: number;
  /** The probability of each option, or of each level by its index. */
  probabilities?: Record<string, number>;
  /** 1 minus the entropy divided by its maximum: 0 if all are equally likely, 1 if one is certain. */
  confidence?: number;
}

/** A label to be given, and what it is about. */
export interface LabelCreate {
  /** The object's id. */
  object_id: string;
  /** The key of the signal. */
  signal: string;
  /** What is true: `noul` true or false; `choice` an option; `score` the index of a level. */
  value: LabelValue;
  /** What else is worth knowing; at most 2,000 characters. */
  note?: string | null | undefined;
}

/** A label to be given. */
export interface LabelInput {
  /** What is true: `noul` true or false; `choice` an option; `score` the index of a level. */
  value: LabelValue;
  /** What else is worth knowing; at most 2,000 characters. */
  note?: string | null | undefined;
}

/** A page of labels, newest first. */
export interface LabelList {
  /** The labels. */
  labels: Label[];
  /** Where the next page starts, if there is one. */
  next_cursor?: string;
}

/** How many labels were taken, and which were not. */
export interface LabelsAccepted {
  /** The number of labels that were taken. */
  accepted: number;
  /** Those that were not. */
  refused: RefusedLabel[];
}

/** Labels to be given. */
export interface LabelsCreate {
  /** 1 to 1,000 labels. */
  labels: LabelCreate[];
}

/** The totals of a bulk run's charges. Its entry has the id, time and balance of the newest charge. */
export interface LedgerBatch {
  /** The number of charges. */
  count: number;
  /** Their sum, in micro-dollars. */
  delta_micros: number;
  /** Tokens read. */
  input_tokens: number;
  /** Tokens written. */
  output_tokens: number;
  /** How many different models answered. */
  models: number;
  /** The model that answered first; the only one if `models` is 1. */
  model?: string;
  /** When the first charge was recorded. */
  first_at: string;
}

/** An entry of the ledger. The sum of all entries is the balance. */
export interface LedgerEntry {
  /** The entry's id. */
  id: string;
  /** Negative for a charge, positive for a credit; charges below a cent round to 0. */
  delta_cents: number;
  /** The balance after it, rounded toward zero. */
  balance_after_cents: number;
  /** The exact amount, in micro-dollars. */
  delta_micros: number;
  /** The exact balance after it, in micro-dollars. */
  balance_after_micros: number;
  /** `signup_credit`, `topup`, `analysis` or `adjustment`. */
  reason: string;
  /** The model that answered. */
  model?: string;
  /** The object that was analyzed. */
  object_id?: string;
  /** The cost of the analysis, in dollars. */
  cost_usd?: number;
  /** The margin that the cost was multiplied by. */
  cost_margin?: number;
  /** Tokens read. */
  input_tokens?: number;
  /** Tokens written. */
  output_tokens?: number;
  /** The checkout session that paid a top-up. */
  payment_ref?: string;
  /** Why the operator adjusted the balance. */
  note?: string;
  /** The bulk run that the charge is part of. */
  batch_id?: string;
  /** With `group=batch`, on an entry that stands for a whole bulk run: its totals. */
  batch?: LedgerBatch;
  /** When it was recorded. */
  created_at: string;
}

/** A page of the ledger. */
export interface LedgerPage {
  /** The entries, newest first. */
  entries: LedgerEntry[];
  /** The cursor of the next page; empty on the last page. */
  next_cursor: string;
}

/** A number of objects. */
export interface MatchCount {
  /** The number, exact up to 10,000. */
  count: number;
  /** Whether there are more. */
  capped: boolean;
}

/** The authenticated caller. */
export interface Me {
  /** How the request was authenticated. */
  auth_type: AuthType;
  /** The account's id. */
  tenant_id: string;
  /** The account's name. */
  tenant_name: string;
  /** The signed-in user; the user fields appear for console tokens. */
  user_id?: string;
  /** The user's email address. */
  email?: string;
  /** The user's role, where an owner is an `admin` too: see `member_role`. */
  role?: string;
  /** What the user may do. */
  member_role?: MemberRole;
  /** Whether the user has finished the console's onboarding. */
  onboarded?: boolean;
  /** Whether the user has proved that the email address is theirs. */
  email_verified?: boolean;
  /** Whether the user is an operator of the install (`AUSPEX_OPERATORS`) who has proved the address. */
  operator?: boolean;
  /**
   * When everything of the account will be deleted, once an owner has asked for that: see `POST
   * /v1/account/deletion`.
   */
  deletes_at?: string;
  /** The settings of the account; if `include` names them. */
  settings?: Settings;
  /** The ways in which the user can sign in; if `include` names them. */
  identities?: Identities;
  /** The user's two-factor sign-in; if `include` names it. */
  mfa?: MfaStatus;
  /** The user's passkeys, oldest first; if `include` names them. */
  passkeys?: Passkey[];
  /** The user's newest 200 sessions, newest first; if `include` names them. */
  sessions?: Session[];
  /** Which emails the user gets; if `include` names them. */
  notifications?: NotificationPreferences;
}

/** The state of two-factor sign-in. */
export interface MfaStatus {
  /** Whether it is on. */
  enabled: boolean;
  /** Recovery codes not used yet; 0 while off. */
  recovery_codes_remaining: number;
  /** True where the second factor is a passkey, without an authenticator app. */
  passkey?: boolean | null;
}

/** The answers about an object, for a caller who waits. */
export interface ModerationVerdict {
  /** The object's id. */
  object_id: string;
  /** The number of events recorded. */
  accepted: number;
  /** Whether an analysis was made; false if no configured signal matched. */
  analyzed: boolean;
  /** Whether the object's history was analyzed too. */
  history_included: boolean;
  /** The model that answered. */
  model: string;
  /** How long the analysis took. */
  latency_ms: number;
  /** The answers. */
  answers: Answer[];
  /** Why nothing was analyzed. */
  reason?: string;
}

/** Whether a user gets emails about an event. */
export interface NotificationPreference {
  /** The event. */
  event: string;
  /** The event's display name. */
  label: string;
  /** What the email is about. */
  description: string;
  /** Whether it is sent. */
  enabled: boolean;
  /** Always sent; cannot be turned off. */
  critical: boolean;
}

/** The emails that a user can get. */
export interface NotificationPreferences {
  /** One for each event. */
  preferences: NotificationPreference[];
}

/** An object with its answers. */
export interface ObjectAnalysis {
  /** The object's id. */
  object_id: string;
  /** The object's type. */
  object_type: string;
  /** The object's display name. */
  display_name?: string;
  /** The number of events ever recorded. */
  event_count: number;
  /** The latest answers to the enabled signals. */
  analysis: SignalResult[];
  /** Enabled signals without an answer yet. */
  pending: string[];
  /** Its newest labels, up to 200, newest first; if `include` names them. */
  labels?: Label[];
  /** The first page of its timeline; if `include` names it. */
  timeline?: Timeline;
}

/** A page of objects. */
export interface ObjectList {
  /** The objects. */
  objects: ObjectSummary[];
  /** The page size. */
  limit: number;
  /** The number of objects skipped. */
  offset: number;
  /** The cursor of the next page; absent on the last page and for signal queries. */
  next_cursor?: string;
  /**
   * Each comparison of `q` that was skipped, and why; and whether the search ended before all objects were
   * looked at.
   */
  warnings: string[];
}

/** The summary of an object. */
export interface ObjectState {
  /** The object's id. */
  object_id: string;
  /** The number of events folded into the summary. */
  compacted_events: number;
  compacted_through: string | null;
  compacted_state: CompactedState | null;
  last_analyzed_at: string | null;
  /** Whether an analysis of it waits or runs. Once this is false, the answers to all events before are there. */
  analysis_scheduled: boolean;
}

/** An object in a list. */
export interface ObjectSummary {
  /** The object's id. */
  object_id: string;
  /** The object's type. */
  object_type: string;
  /** The object's display name. */
  display_name?: string;
  /** The number of events ever recorded. */
  event_count: number;
  /** When its last event was received. */
  last_seen: string;
  /** The latest answers to the enabled signals. */
  analysis: SignalResult[];
  /** Enabled signals without an answer yet. */
  pending: string[];
}

/** The account at a glance. */
export interface Overview {
  /** The number of objects. */
  objects: number;
  /** The number of configured signals. */
  signals: number;
  /** The share of objects with at least one answer, 0 to 1. */
  analyzed_pct: number;
  /** The number of events received in the last 24 hours. */
  events_today: number;
  /** The number of events received in the 24 hours before those. */
  events_yesterday: number;
  /** The number of objects with a yes/no probability of 0.8 or more. */
  flagged: number;
  /** A summary of each enabled signal. */
  signal_summary: SignalSummary[];
  /** The number of objects by type, largest first. */
  categories: CategoryCount[];
  /** The ten objects with the highest yes/no probabilities. */
  top_risk: RiskyObject[];
  /**
   * What happened on the last 14 days in UTC, today included, oldest first: from the first of them on which
   * something did.
   */
  days: OverviewDay[];
}

/** What happened on a day. */
export interface OverviewDay {
  /** The day, in UTC. */
  date: string;
  /** Objects that were first seen. */
  objects: number;
  /**
   * How often an analysis flagged an object: a yes/no probability of 0.8 or more, after less or none. One
   * that goes back and forth counts each time.
   */
  flagged: number;
  /** How often rules fired, in shadow too. */
  firings: number;
}

/** A passkey of a user. */
export interface Passkey {
  /** Its id. */
  id: string;
  /** What the user calls it. */
  name: string;
  /** When it was added. */
  created_at: string;
  /** When it was last used. */
  last_used_at?: string;
}

/** Events to be analyzed on their own. */
export interface PlaygroundRequest {
  /** 1 to 50 events. */
  events: EventInput[];
  /** The type of the object. */
  object_type?: string | null | undefined;
  /** Ask only these signals. */
  signals?: string[] | null | undefined;
}

/** The answers about the events. Nothing was recorded. */
export interface PlaygroundVerdict {
  /** Whether an analysis was made. */
  analyzed: boolean;
  /** The model that answered. */
  model: string;
  /** How long the analysis took. */
  latency_ms: number;
  /** The answers. */
  answers: Answer[];
  /** The charge, in micro-dollars. */
  cost_micros: number;
  /** The number of events analyzed. */
  events_count: number;
  /** Why nothing was analyzed. */
  reason?: string;
}

/** How much better proposed answers are than the present ones: each figure is proposed minus present. */
export interface QualityDifference {
  /** The difference of the share of right answers. */
  accuracy: Figure;
  /** `noul`: the difference of the AUC; left out if all labels are the same. */
  auc?: Figure;
  /** The difference of the Brier score: below 0 is better. */
  brier: Figure;
}

/** What the analyzer said before calibration. Only the fields of its type are set. */
export interface RawAnswer {
  /** The probability of yes. */
  noul?: number;
  /** The most likely option. */
  choice?: string;
  /** The expected level. */
  score?: number;
  /** The probability of each option, or of each level by its index. */
  probabilities?: Record<string, number>;
  /** 1 minus the entropy divided by its maximum. */
  confidence?: number;
}

/** A label that was not taken. */
export interface RefusedLabel {
  /** Its place in the request, from 0. */
  index: number;
  /** What is wrong with it. */
  message: string;
}

/** The answers of one of ten equal ranges of probability. */
export interface ReliabilityBin {
  /** Where the range begins. */
  from: number;
  /** Where it ends; only the last range includes its end. */
  to: number;
  /** The mean answer; left out if there is none. */
  mean_answer?: number;
  /** The share of labels that say yes; left out if there are none. */
  share_yes?: Figure;
  /** The number of answers. */
  count: number;
}

/** The firings of a day. */
export interface ReplayDay {
  /** The day, in UTC. */
  day: string;
  /** The firings. */
  firings: number;
}

/** A firing that would have been. */
export interface ReplayExample {
  /** The object. */
  object_id: string;
  /** When. */
  at: string;
  /** The values that satisfied the condition, by signal, and by fact where it has facts. */
  signal_values: Record<string, unknown>;
}

/** How the objects that a rule would have fired for compare with the labels of a signal. */
export interface ReplayLabels {
  /**
   * Of the labelled objects that it would have fired for, the share whose label satisfies the condition's
   * comparisons with the signal. Left out if there is none.
   */
  precision?: number;
  /**
   * Of the objects whose label satisfies them, the share that it would have fired for. Left out if there is
   * none.
   */
  recall?: number;
}

/** An object that a person is to look at. */
export interface Review {
  /** Its id. */
  id: string;
  /** The object's id. */
  object_id: string;
  /** The queue that it is in. */
  queue: string;
  /** The rule that opened it. */
  rule_id?: string;
  /** Why it was opened. */
  reason: ReviewReason;
  /** Its status. */
  status: ReviewStatus;
  /** The keys of the signals to be labelled. */
  signals: string[];
  /** What a label is worth, from 0 to 1, and one more for each time that a rule fired again while it was open. */
  priority: number;
  /** Who works on it. */
  claimed_by?: Author;
  /** Until when, unless the claim is renewed. */
  claimed_until?: string;
  /** What was decided. */
  decision?: string;
  /** What else was said with the decision. */
  note?: string;
  /** Who decided. */
  resolved_by?: Author;
  /** When it was opened. */
  created_at: string;
  /** When it was decided. */
  resolved_at?: string;
}

/** A review to be opened. */
export interface ReviewCreate {
  /** The object's id. */
  object_id: string;
  /** The queue; 1 to 64 characters. */
  queue: string;
  /** The keys of the signals to be labelled; all enabled ones if left out. */
  signals?: string[] | null | undefined;
}

/** The payload of `review.opened` and `review.resolved`. */
export interface ReviewEvent {
  /** `review.opened` or `review.resolved`. */
  event: string;
  /** The account. */
  tenant_id: string;
  /** When it happened. */
  occurred_at: string;
  /** The review. */
  review: Review;
}

/** A page of reviews. */
export interface ReviewList {
  /** The reviews. */
  reviews: Review[];
  /** Where the next page starts, if there is one. */
  next_cursor?: string;
}

/** The queue to take the next review from. */
export interface ReviewNext {
  /** The queue. */
  queue: string;
}

/** How a queue of reviews stands. */
export interface ReviewQueue {
  /** Its name. */
  queue: string;
  /** Reviews that nobody works on. */
  open: number;
  /** Reviews that somebody works on. */
  claimed: number;
  /** When the oldest that is not resolved was opened. */
  oldest_at?: string;
  /** How many were resolved a day, over the last seven days. */
  resolved_a_day: number;
}

/** The queues of an account. */
export interface ReviewQueueList {
  /** The queues by name: those with reviews that are not resolved, or that were resolved within seven days. */
  queues: ReviewQueue[];
  /** The account's signals, which its reviews are about; if `include` names them. */
  signals?: Signal[];
  /** The account's rules, which open reviews; if `include` names them. */
  rules?: Rule[];
}

/** A decision about a review. */
export interface ReviewResolve {
  /** What was decided, in a word of your choice; 1 to 64 characters. */
  decision: string;
  /** What else is worth knowing; at most 2,000 characters. */
  note?: string | null | undefined;
  /** What is true, by signal: `noul` true or false; `choice` an option; `score` the index of a level. */
  labels?: Record<string, unknown> | null | undefined;
}

/** An object with a high yes/no probability. */
export interface RiskyObject {
  /** The object's id. */
  object_id: string;
  /** The object's display name. */
  display_name?: string;
  /** Its highest yes/no probability. */
  risk: number;
}

/** A condition over the answers about an object, and the action to take when it becomes true. */
export interface Rule {
  /** Its id. */
  id: string;
  /** A name of your choice. */
  name: string;
  /** The condition, as sent. */
  when: string;
  /** The action. */
  action_type: ActionType;
  /** The settings of the action. */
  action_config: ActionConfig;
  /** Whether it is evaluated. */
  enabled: boolean;
  /** Whether its action is carried out; `live` in answers of earlier versions, which do not say it. */
  mode: RuleMode;
  /** Why the service disabled it: `address proved` if somebody proved the maker's email address first. */
  disabled_reason?: string;
  /**
   * 0: it fires when the condition becomes true. Otherwise it fires at most once in this many seconds for an
   * object, and again after that while the condition stays true.
   */
  cooldown_seconds: number;
  /** When it was created. */
  created_at: string;
  /** When it was last changed. */
  updated_at: string;
}

/** A new rule. */
export interface RuleCreate {
  /** A name of your choice, up to 200 characters; if left out, the condition. */
  name?: string | null | undefined;
  /**
   * Comparisons of signals and facts, joined by `and`, `or` and commas, negated by `not`, grouped by
   * parentheses.
   */
  when: string;
  /** The action. */
  action_type: ActionType;
  /**
   * The settings of the action. `email`: `to` (an address; required) and `subject`. `slack`: `webhook_url`
   * (of an incoming webhook; required). `webhook`: `endpoint_id` (of a registered endpoint that receives
   * `rule.triggered`; required). `review`: `queue` (required) and `signals`. Fields of other action types are
   * ignored.
   */
  action_config: Record<string, unknown>;
  /** Whether it is evaluated; true if left out. */
  enabled?: boolean | null | undefined;
  mode?: RuleMode | null | undefined;
  /** The cooldown in seconds; 0 if left out. */
  cooldown_seconds?: number | null | undefined;
}

/** The record that a rule fired for an object, with the outcome of its action. */
export interface RuleFiring {
  /** Its id. */
  id: string;
  /** The rule's id. */
  rule_id: string;
  /** The object's id. */
  object_id: string;
  /** The condition at that time. */
  matched_when: string;
  /** The values that satisfied it, by signal, and by fact where the condition has facts. */
  signal_values: Record<string, unknown>;
  /** The action. */
  action_type: ActionType;
  /** The outcome of the action. */
  status: FiringStatus;
  /** The error, or a short note of success. */
  detail?: string;
  /** When the rule fired. */
  fired_at: string;
}

/** Firings, newest first. */
export interface RuleFiringList {
  /** The firings. */
  firings: RuleFiring[];
  /** Where the next page starts, if there is one. */
  next_cursor?: string;
}

/** The rules of an account. */
export interface RuleList {
  /** The rules, oldest first. */
  rules: Rule[];
}

/** How many objects two rules would have fired for. */
export interface RuleOverlap {
  /** The other rule. */
  rule_id: string;
  /** Its name. */
  name: string;
  /** Objects that both would have fired for. */
  both: number;
  /** Objects that only the replayed rule would have fired for. */
  only_this: number;
  /** Objects that only the other rule would have fired for. */
  only_that: number;
}

/** What a rule would have done. */
export interface RuleReplay {
  /** How often it would have fired. */
  firings: number;
  /** For how many objects. */
  objects: number;
  /** Its firings by day, for days that have some, oldest first. */
  by_day: ReplayDay[];
  /** The newest firings, at most 50. */
  examples: ReplayExample[];
  /**
   * By signal of the condition: how the objects that it would have fired for compare with what people said.
   * Signals without labels are left out.
   */
  labelled: Record<string, ReplayLabels>;
  /** The enabled rules, replayed likewise, the most similar first. */
  overlap: RuleOverlap[];
  /** From when firings were counted. */
  from: string;
  /** Until when. */
  to: string;
  /** Whether all analyses of that time are still kept. */
  complete: boolean;
}

/** A rule to replay over the past of answers. */
export interface RuleReplayRequest {
  /** The condition, as of a rule. */
  when: string;
  /** The cooldown in seconds; 0 if left out. */
  cooldown_seconds?: number | null | undefined;
  from?: string | Date | null | undefined;
  to?: string | Date | null | undefined;
}

/** A replay in the background. Once it is done, it has the fields of [`RuleReplay`]. */
export interface RuleReplayRun {
  /** Its id. */
  id: string;
  /** Where it stands. */
  status: ReplayStatus;
  /** The analyses that it has read. */
  analyses: number;
  /** Why it failed. */
  error?: string;
  /** How often it would have fired. */
  firings?: number;
  /** For how many objects. */
  objects?: number;
  /** Its firings by day. */
  by_day?: ReplayDay[];
  /** The newest firings, at most 50. */
  examples?: ReplayExample[];
  /** How it compares with labels, by signal. */
  labelled?: Record<string, ReplayLabels>;
  /** The enabled rules, the most similar first. */
  overlap?: RuleOverlap[];
  /** From when firings were counted. */
  from?: string;
  /** Until when. */
  to?: string;
  /** Whether all analyses of that time are still kept. */
  complete?: boolean;
}

/** The test of an action. */
export interface RuleTest {
  /** What came of it. */
  outcome: RuleTestOutcome;
  /** The status with which the receiver answered: of HTTP, or of SMTP where it was refused. */
  status_code?: number;
  /** The error, or a short note of success. */
  detail?: string;
  /** The delivery of a webhook. */
  delivery_id?: string;
}

/** An action to be tested. */
export interface RuleTestRequest {
  /** What the message calls the rule, up to 200 characters. */
  name?: string | null | undefined;
  /** The action. A `review` sends nothing, so it cannot be tested. */
  action_type: ActionType;
  /** The settings of the action, as for a new rule. */
  action_config: Record<string, unknown>;
}

/** The payload of `rule.triggered`. */
export interface RuleTriggered {
  /** `rule.triggered`. */
  event: string;
  /** The rule's id. */
  rule_id: string;
  /** The rule's name. */
  rule_name?: string;
  /** The account that owns the rule. */
  tenant_id: string;
  /** The id of the object that it fired for. */
  object_id: string;
  /** The condition. */
  matched_when: string;
  /** The model that answered. */
  model?: string;
  /** When the rule fired. */
  occurred_at: string;
  /** The answers to the signals in the condition. */
  values: Answer[];
}

/** A change of a rule; fields left out keep their values. The resulting rule is validated as a whole. */
export interface RuleUpdate {
  /** A name of your choice, up to 200 characters. If it is the condition so far, it follows the condition. */
  name?: string | null | undefined;
  /** The condition. A new one resets the rule's state for every object. */
  when?: string | null | undefined;
  action_type?: ActionType | null | undefined;
  /** The settings of the action, as for a new rule; they replace all earlier ones. */
  action_config?: Record<string, unknown> | null | undefined;
  /** Whether it is evaluated. */
  enabled?: boolean | null | undefined;
  mode?: RuleMode | null | undefined;
  /** The cooldown in seconds. */
  cooldown_seconds?: number | null | undefined;
}

/** A sign-in that has not ended. */
export interface Session {
  /** Its id. */
  id: string;
  /** When it was opened. */
  created_at: string;
  /** When it was last used, accurate to about a minute. */
  last_seen_at: string;
  /** The IP address that it was last used from. */
  address?: string;
  /** The `User-Agent` that it was last used with. */
  agent?: string;
  /** Whether it is the session of this request. */
  current: boolean;
}

/** The settings of an account. */
export interface Settings {
  /** Whether a new signal is asked about existing objects at once. */
  auto_backfill_signals: boolean;
  /** How long raw events are kept. */
  event_retention: EventRetention;
  /** How many days, with `days`; null otherwise. */
  event_retention_days: number | null;
  /** The share of analyzed objects that is drawn at random for a review, in percent; 0 draws none. */
  audit_rate_pct: number;
  /** The queue of those reviews. */
  audit_queue: string;
}

/** A change of settings; fields left out keep their values. */
export interface SettingsUpdate {
  /** Whether a new signal is asked about existing objects at once. */
  auto_backfill_signals?: boolean | null | undefined;
  event_retention?: EventRetention | null | undefined;
  /** Required with `days`, 1 to 3650; refused otherwise. Null removes it; left out, it is unchanged. */
  event_retention_days?: number | null | undefined;
  /**
   * The share of analyzed objects that is drawn at random for a review, in percent, each at most once in 30
   * days.
   */
  audit_rate_pct?: number | null | undefined;
  /** The queue of those reviews; 1 to 64 characters. */
  audit_queue?: string | null | undefined;
}

/** A signal of the account. */
export interface Signal {
  /** The signal's key. */
  key: string;
  /** The type of answer. */
  type: SignalType;
  /** The instructions, as sent. */
  instructions: unknown;
  /** The criteria, as sent. */
  criteria?: unknown;
  /** Whether it is asked. */
  enabled: boolean;
  /** When it was created. */
  created_at: string;
  /** When it was last changed. */
  updated_at: string;
  /** The backfill that creating it started. */
  backfill?: SignalBackfill;
}

/** Asking one signal about every object without an answer to it. `completed` and `pending` add up to `total`. */
export interface SignalBackfill {
  /** The signal's key. */
  signal_key: string;
  /** Whether it is running. */
  status: BackfillState;
  /** The number of objects without an answer when it started. */
  total: number;
  /** How many of them have an answer now. */
  completed: number;
  /** How many of them have none. */
  pending: number;
  /** When it started. */
  started_at: string;
}

/**
 * Which answers of a signal go to the second analyzer, and what they have cost today. Without `band` and
 * `below`, none do.
 */
export interface SignalEscalation {
  /** `noul`: the lowest and the highest probability that is unsure. */
  band?: number[];
  /** `choice` and `score`: the confidence below which an answer is unsure. */
  below?: number;
  /** The model of the second analyzer; left out if there is none. */
  model?: string;
  /** Answers of this signal that the second analyzer gave, or is giving, today (UTC). */
  escalated_today: number;
  /** What they cost, in micro-dollars: of an analysis with several signals, their part. */
  cost_micros_today: number;
  /** After a fit: the number of labels. */
  labels?: number;
  /** After a fit: the share of their answers that is escalated. */
  share?: Figure;
  /** After a fit: the share of wrong answers among the others; left out if there are none. */
  error?: Figure;
}

/** A signal's definition, as sent to the service. */
export interface SignalInput {
  /** The type of answer. */
  type: SignalType;
  /** What to judge and how: a string, an object or an array, passed to the analyzer verbatim. */
  instructions: unknown;
  /**
   * `noul`: an object with optional `true` and `false`; `score`: the levels, low to high; `choice`: options
   * with descriptions or null.
   */
  criteria?: unknown | undefined;
  /** Whether it is asked; if left out, a new signal is enabled and an existing one is unchanged. */
  enabled?: boolean | null | undefined;
}

/** All configured signals, by key. */
export interface SignalList {
  /** The signals. */
  signals: Signal[];
}

/**
 * How good the answers to a signal are: its labels, compared with the answers that stood when they were
 * given.
 */
export interface SignalQuality {
  /** The signal's key. */
  signal: string;
  /** Its type. */
  type: SignalType;
  /** The version whose answers are compared; left out for all versions. */
  version?: number;
  /** The number of labels compared: the latest of each object that had an answer. */
  labels: number;
  /** How many more labels the figures need; left out once there are enough. */
  needs?: number;
  /** Whether fewer than 30 of the labels are about objects drawn at random. */
  selected: boolean;
  /** What that means for the figures. */
  selected_note?: string;
  /** `noul`: how often answers of about this probability were right. */
  reliability?: ReliabilityBin[];
  /** `noul`: what would be flagged at each threshold from 0.05 to 0.95. */
  thresholds?: ThresholdQuality[];
  /** `noul`: the threshold at which wrong answers cost least. */
  best_threshold?: number;
  /** `choice` and `score`: the number of labels by what is true and what was answered. */
  confusion?: Record<string, Record<string, number>>;
  /** The same by the week in which the labels were given, oldest first. */
  by_week: WeekQuality[];
  /** The signal's newest 100 versions, newest first; if `include` names them. */
  versions?: SignalVersion[];
  /** Which answers to it are escalated; if `include` names it. */
  escalation?: SignalEscalation;
  /** `noul`: how many labels say yes. */
  yes?: number;
  /** The share of right answers; for `noul`, yes from 0.5 on. */
  accuracy?: Figure;
  /**
   * `noul`: how often an object labelled yes has a higher answer than one labelled no. Left out if all labels
   * are the same.
   */
  auc?: Figure;
  /** `noul`: the mean squared difference between the answer and the label, 1 or 0. */
  brier?: Figure;
  /** How far probabilities are from the shares that came true, over ten equal bins. */
  calibration_error?: Figure;
  /** `choice` and `score`: the mean of the F1 of each option or level. */
  macro_f1?: Figure;
  /** `score`: the mean number of levels between the level answered and the true one. */
  mean_distance?: Figure;
}

/** The latest answer to a signal about an object. */
export interface SignalResult {
  /** The signal's key. */
  key: string;
  /** The analyzer's own answer, where a calibration is on. */
  raw?: RawAnswer;
  /** Where the first analyzer was unsure: whether the second one answered. */
  escalated?: boolean;
  /** The model that answered. */
  model?: string;
  /** When it was computed. */
  computed_at: string;
  /** The type of answer. */
  type: SignalType;
  /** The probability of yes. */
  noul?: number;
  /** The most likely option. */
  choice?: string;
  /** The expected level, from 0 to the number of levels minus one. */
  score?: number;
  /** The probability of each option, or of each level by its index. */
  probabilities?: Record<string, number>;
  /** 1 minus the entropy divided by its maximum: 0 if all are equally likely, 1 if one is certain. */
  confidence?: number;
}

/** A signal at a glance. */
export interface SignalSummary {
  /** The signal's key. */
  key: string;
  /** The type of answer. */
  type: SignalType;
  /** The number of objects with an answer. */
  total: number;
  /** The mean probability or position. */
  avg?: number;
  /** The number of objects at 0.8 or more, for yes/no signals. */
  high?: number;
  /** The share of objects at 0.8 or more, for yes/no signals. */
  high_pct?: number;
  /** The share of each option, for choice signals. */
  choices?: Record<string, number>;
}

/** A definition that a signal has or had. */
export interface SignalVersion {
  /** Its number, from 1. */
  version: number;
  /** The type of answer. */
  type: SignalType;
  /** The instructions, as sent. */
  instructions: unknown;
  /** The criteria, as sent. */
  criteria?: unknown;
  /** The id of the calibration that was switched on. */
  calibration?: string;
  /** When it was made. */
  created_at: string;
  /** Who made it; left out where the account has no users and nobody is known. */
  by?: Author;
  /** The number of objects whose present answer is of this version. */
  objects: number;
}

/** The versions of a signal, newest first. */
export interface SignalVersionList {
  /** The newest 100 versions. */
  versions: SignalVersion[];
}

/** An answer in the wire format of typed decision models. */
export interface SystemOneAnswer {
  /** The descriptions of the levels, by index. */
  legend?: Record<string, string>;
  /** The type of answer. */
  type: SignalType;
  /** The probability of yes. */
  noul?: number;
  /** The most likely option. */
  choice?: string;
  /** The expected level, from 0 to the number of levels minus one. */
  score?: number;
  /** The probability of each option, or of each level by its index. */
  probabilities?: Record<string, number>;
  /** 1 minus the entropy divided by its maximum: 0 if all are equally likely, 1 if one is certain. */
  confidence?: number;
}

/** A question in the wire format of typed decision models. */
export interface SystemOneQuestion {
  /** The type of answer. */
  type: SignalType;
  /** What to judge and how. */
  instructions?: unknown | undefined;
  /** As for signals. */
  criteria?: unknown | undefined;
}

/** Questions about a state, in the wire format of typed decision models. */
export interface SystemOneRequest {
  /** Ignored: the configured model answers. */
  model?: string | null | undefined;
  /** A string, or any JSON. */
  state: unknown;
  /** Up to 100 questions by the caller's ids. */
  questions: Record<string, SystemOneQuestion>;
}

/** Answers in the wire format of typed decision models. */
export interface SystemOneResponse {
  /** The model that answered. */
  model: string;
  /** One for each question. */
  answers: Record<string, SystemOneAnswer>;
  /** Tokens read and written. */
  usage: SystemOneUsage;
}

/** Tokens read and written. */
export interface SystemOneUsage {
  /** Tokens read. */
  input_tokens: number;
  /** Tokens written. */
  output_tokens: number;
}

/** What a rule with this threshold would flag. */
export interface ThresholdQuality {
  /** Answers of this probability or more are flagged. */
  threshold: number;
  /** The share of flagged objects that are labelled yes; left out if none is flagged. */
  precision?: Figure;
  /** The share of objects labelled yes that are flagged; left out if none is labelled yes. */
  recall?: Figure;
  /** The share of all objects that is flagged. */
  flagged: Figure;
}

/** A page of what happened about an object, newest first. */
export interface Timeline {
  /** The items. */
  items: TimelineItem[];
  /** Where the next page starts, if there is one. */
  next_cursor?: string;
}

/** Something that happened about an object. The record is under the name of its kind. */
export interface TimelineItem {
  /** What it is. */
  kind: TimelineKind;
  /** When it happened. */
  at: string;
  /** The record's id; events have none. */
  id?: string;
  /** The event. */
  event?: Event;
  /** What the analysis said. */
  analysis?: AnalysisRecord;
  /** The firing. */
  firing?: RuleFiring;
  /** The delivery. */
  delivery?: WebhookDelivery;
  /** The label. */
  label?: Label;
  /** The review, as it is now. */
  review?: Review;
}

/** A trial of another wording. Its figures are over the objects that have both answers. */
export interface Trial {
  /** Its id. */
  id: string;
  /** The key of the signal. */
  signal: string;
  /** The version that the proposed wording is compared with. */
  version: number;
  /** The proposed instructions. */
  instructions: unknown;
  /** The proposed criteria. */
  criteria?: unknown;
  /** Which objects it is put to. */
  over: TrialOver;
  /** Whether it has ended. */
  status: TrialStatus;
  /** The number of objects. */
  total: number;
  /** Labelled objects that are left out, because what stood when they were labelled cannot be read any more. */
  left_out: number;
  /** How many of the objects are done. */
  completed: number;
  /** What it has cost so far, in micro-dollars. */
  cost_micros: number;
  /** The share of objects whose answers are on the same side. */
  agreement?: Figure;
  /** How good the present wording is on the labelled objects; only of a single trial. */
  present?: SignalQuality;
  /** How good the proposed wording is on the labelled objects; only of a single trial. */
  proposed?: SignalQuality;
  /** The figures of the proposed wording minus those of the present one; only of a single trial. */
  difference?: QualityDifference;
  /** The objects whose answers change side, the largest change first, at most 100; only of a single trial. */
  flips?: TrialFlip[];
  /** When it was started. */
  created_at: string;
  /** When it ended. */
  ended_at?: string;
}

/** A trial to be started. */
export interface TrialCreate {
  /** The proposed instructions, as of a signal; the present ones if left out. */
  instructions?: unknown | undefined;
  /** The proposed criteria, as of a signal; the present ones if left out. */
  criteria?: unknown | undefined;
  /** Which objects it is put to. */
  over: TrialOver;
  /** At most so many objects; 100 if left out. */
  limit?: number | null | undefined;
  /** Whether to say only how many objects there are and what it would cost. */
  dry_run?: boolean | null | undefined;
}

/** What a trial would cost. */
export interface TrialEstimate {
  /** The number of objects. */
  objects: number;
  /** The estimated cost in micro-dollars. */
  estimated_cost_micros: number;
}

/** An object whose answer changes side. */
export interface TrialFlip {
  /** The object's id. */
  object_id: string;
  /** The answer to the present wording. */
  present: Answer;
  /** The answer to the proposed wording. */
  proposed: Answer;
}

/** A page of trials, newest first. */
export interface TrialList {
  /** The trials. */
  trials: Trial[];
  /** Where the next page starts, if there is one. */
  next_cursor?: string;
}

/** A query for the objects that a trial is put to. */
export interface TrialQuery {
  /** As for the list of objects. */
  q: string;
}

/** A trial that was started. */
export interface TrialStarted {
  /** The trial. */
  trial: Trial;
}

/** An account's usage over a range of days. */
export interface Usage {
  /** The first day, in UTC. */
  from: string;
  /** The last day. */
  to: string;
  /** The currency of every amount. */
  currency: string;
  /** Whether analyses are billed. */
  metering_enabled: boolean;
  /** The current balance, rounded toward zero. */
  balance_cents: number;
  /** Average spend per day of the range, without days in the future, in micro-dollars. */
  burn_rate_micros_per_day: number;
  /** How many days the balance lasts at that rate; absent without spend or balance. */
  runway_days?: number;
  /** Bytes of contents and metadata of the events that are kept now. */
  storage_bytes: number;
  /** The totals of the range. */
  totals: UsageTotals;
  /** Every day of the range, oldest first, including those without usage. */
  series: UsageDay[];
  /** By model; highest spend first. */
  by_model: UsageBreakdown[];
  /** By whether a caller waited, `async` or `sync`; highest spend first. */
  by_source: UsageBreakdown[];
  /** By signal; most answered first. */
  by_signal: UsageSignal[];
}

/** A part of the usage. */
export interface UsageBreakdown {
  /** The model or source. */
  key: string;
  /** The number of analyses. */
  analyses: number;
  /** What they were charged, in micro-dollars. */
  spend_micros: number;
  /** Tokens read. */
  input_tokens: number;
  /** Tokens written. */
  output_tokens: number;
}

/** The usage of a day. */
export interface UsageDay {
  /** The day, in UTC. */
  date: string;
  /** The number of analyses. */
  analyses: number;
  /** Those that no caller waited for. */
  async: number;
  /** Those that a caller waited for. */
  sync: number;
  /** What they were charged, in micro-dollars. */
  spend_micros: number;
}

/** How often a signal was answered. */
export interface UsageSignal {
  /** The signal's key. */
  signal: string;
  /** The number of analyses that answered it. */
  analyses: number;
}

/** The totals of a range. */
export interface UsageTotals {
  /** The number of analyses. */
  analyses: number;
  /** What they were charged, in micro-dollars. */
  spend_micros: number;
  /** Tokens read. */
  input_tokens: number;
  /** Tokens written. */
  output_tokens: number;
}

/** An answer with the version of the signal that was asked. */
export interface VersionedAnswer {
  /** The version of the signal that was asked. */
  version: number;
  /** The key of the signal. */
  signal: string;
  /** The analyzer's own answer, where a calibration is on. */
  raw?: RawAnswer;
  /**
   * Where the first analyzer was unsure: true if the second analyzer answered, false if it was not asked or
   * failed, so that the first answer stands.
   */
  escalated?: boolean;
  /** The second analyzer's model, where that answered. */
  model?: string;
  /** The type of answer. */
  type: SignalType;
  /** The probability of yes. */
  noul?: number;
  /** The most likely option. */
  choice?: string;
  /** The expected level, from 0 to the number of levels minus one. */
  score?: number;
  /** The probability of each option, or of each level by its index. */
  probabilities?: Record<string, number>;
  /** 1 minus the entropy divided by its maximum: 0 if all are equally likely, 1 if one is certain. */
  confidence?: number;
}

/** One payload for one endpoint. */
export interface WebhookDelivery {
  /** Its id, sent as `X-Webhook-Delivery` with every attempt. */
  id: string;
  /** The endpoint's id. */
  endpoint_id: string;
  /** The type of the webhook event. */
  event_type: "analysis.completed" | "rule.triggered" | "review.opened" | "review.resolved" | "endpoint.test";
  /** Its status. */
  status: DeliveryStatus;
  /** The id of the object that it is about. */
  object_id?: string;
  /** The number of attempts made since it was queued or replayed. */
  attempts: number;
  /** The number of attempts after which it is dead. */
  max_attempts: number;
  /** The HTTP status of the receiver's last response. */
  last_status_code?: number;
  /** Why the last attempt failed. */
  last_error?: string;
  /** The earliest time of the next attempt; for a dead delivery, when it died. */
  run_after: string;
  /** When it was queued. */
  created_at: string;
  /** When the receiver accepted it. */
  delivered_at?: string;
  /** The exact payload. */
  payload?: Record<string, unknown>;
  /** The first 1 KiB of the receiver's last response. */
  last_response?: string;
}

/** Deliveries of an account. */
export interface WebhookDeliveryList {
  /** The deliveries, newest first. */
  deliveries: WebhookDelivery[];
  /** Where the next page starts, if there is one. */
  next_cursor?: string;
}

/** A registered URL that gets deliveries, without its secret. */
export interface WebhookEndpoint {
  /** Its id. */
  id: string;
  /** The URL that deliveries are posted to. */
  url: string;
  /** A description of your choice; may be empty. */
  description: string;
  /** Whether it gets deliveries. Those already queued wait while it is disabled. */
  enabled: boolean;
  /** Why the service disabled it: `address proved` if somebody proved the maker's email address first. */
  disabled_reason?: string;
  /** It gets only analyses that answered one of these signals; if empty, every analysis. */
  signal_keys: string[];
  /** The event types that it gets. */
  events: string[];
  /** When it was registered. */
  created_at: string;
  /** When it was last edited. */
  updated_at: string;
  /** How it is doing; in a list whose `include` names it. */
  health?: WebhookHealth;
}

/** A new endpoint. */
export interface WebhookEndpointCreate {
  /** The URL that deliveries are posted to, `http` or `https`. */
  url: string;
  /** A description of your choice. */
  description?: string | null | undefined;
  /** Only analyses that answered one of these signals; if left out or empty, every analysis. */
  signal_keys?: string[] | null | undefined;
  /** The event types that it gets; `analysis.completed` and `rule.triggered` if left out. */
  events?: string[] | null | undefined;
  /** Whether it gets deliveries; true if left out. */
  enabled?: boolean | null | undefined;
}

/** The endpoints of an account. */
export interface WebhookEndpointList {
  /** The endpoints, oldest first. */
  webhooks: WebhookEndpoint[];
}

/** An endpoint with its signing secret, which is shown only once. */
export interface WebhookEndpointSecret {
  /** The endpoint. */
  endpoint: WebhookEndpoint;
  /** The secret that signs its deliveries. It is never shown again. */
  secret: string;
  /** What to do with it. */
  note: string;
}

/** A change of an endpoint; fields left out keep their values. */
export interface WebhookEndpointUpdate {
  /** The URL that deliveries are posted to, including those already queued. */
  url?: string | null | undefined;
  /** A description of your choice. */
  description?: string | null | undefined;
  /** Only analyses that answered one of these signals; if empty, every analysis. */
  signal_keys?: string[] | null | undefined;
  /** The event types that it gets. */
  events?: string[] | null | undefined;
  /** Whether it gets deliveries. */
  enabled?: boolean | null | undefined;
}

/** How an endpoint is doing: now, and over the newest 500 deliveries that have ended. */
export interface WebhookHealth {
  /** How it is doing now. */
  state: EndpointState;
  /** When its receiver is tried again, while it is resting. */
  resting_until?: string;
  /**
   * Attempts in a row that failed and are made again; after ten, the endpoint rests. A refusal for good is
   * none.
   */
  consecutive_failures: number;
  /** Deliveries that wait or are being sent, counted up to 10,000. */
  waiting: number;
  /** Deliveries that the receiver accepted. */
  delivered: number;
  /** Deliveries that were given up. */
  dead: number;
  /** The share of `delivered`; left out if none has ended. */
  success_share?: number;
  /**
   * Half of the accepted deliveries took at most so many milliseconds from being queued to being accepted,
   * retries and replays included.
   */
  p50_ms?: number;
  /** 95 % of them took at most so many milliseconds. */
  p95_ms?: number;
  /** When the oldest of them was queued. */
  since?: string;
}

/** Giving an endpoint a new secret. */
export interface WebhookSecretRotation {
  /** For how many hours deliveries are signed with the previous secret too; 24 if left out. */
  overlap_hours?: number | null | undefined;
}

/** The labels of a week, compared with answers. */
export interface WeekQuality {
  /** The Monday on which the week begins, in UTC. */
  week: string;
  /** The number of labels compared. */
  labels: number;
  /** `noul`: how many labels say yes. */
  yes?: number;
  /** The share of right answers; for `noul`, yes from 0.5 on. */
  accuracy?: Figure;
  /**
   * `noul`: how often an object labelled yes has a higher answer than one labelled no. Left out if all labels
   * are the same.
   */
  auc?: Figure;
  /** `noul`: the mean squared difference between the answer and the label, 1 or 0. */
  brier?: Figure;
  /** How far probabilities are from the shares that came true, over ten equal bins. */
  calibration_error?: Figure;
  /** `choice` and `score`: the mean of the F1 of each option or level. */
  macro_f1?: Figure;
  /** `score`: the mean number of levels between the level answered and the true one. */
  mean_distance?: Figure;
}

/** The record of each webhook event. */
export interface WebhookEvents {
  "analysis.completed": AnalysisCompleted;
  "endpoint.test": EndpointTest;
  "review.opened": ReviewEvent;
  "review.resolved": ReviewEvent;
  "rule.triggered": RuleTriggered;
}

/** The webhook events that this version of the client knows. */
export const WEBHOOK_EVENTS: readonly (keyof WebhookEvents)[] = ["analysis.completed", "endpoint.test", "review.opened", "review.resolved", "rule.triggered"];
