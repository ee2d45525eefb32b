// All operations.
// Generated from docs/openapi.json by `make clients`. Do not edit.

import { Caller, type RequestOptions } from "../caller.js";
import type { Pager } from "../paging.js";
import type {
  APIKey,
  APIKeyCreate,
  APIKeyList,
  APIKeySecret,
  APIKeyUpdate,
  AnalysisList,
  AnalysisRecord,
  AnalyzeAllScheduled,
  AnalyzeScheduled,
  BackfillStatus,
  Balance,
  Calibration,
  CalibrationInput,
  CalibrationSwitched,
  CheckoutCreate,
  CheckoutSession,
  CheckoutStatus,
  ConditionCheck,
  ConditionCheckRequest,
  DeliveryStatus,
  Distribution,
  EscalationInput,
  Event,
  EventList,
  ExplainRequest,
  Explanation,
  IngestAccepted,
  IngestRequest,
  Label,
  LabelInput,
  LabelList,
  LabelSource,
  LabelsAccepted,
  LabelsCreate,
  LedgerEntry,
  LedgerPage,
  MatchCount,
  Me,
  ModerationVerdict,
  ObjectAnalysis,
  ObjectList,
  ObjectState,
  ObjectSummary,
  Overview,
  PlaygroundRequest,
  PlaygroundVerdict,
  Review,
  ReviewCreate,
  ReviewList,
  ReviewNext,
  ReviewOrder,
  ReviewQueue,
  ReviewQueueList,
  ReviewResolve,
  ReviewStatus,
  Rule,
  RuleCreate,
  RuleFiring,
  RuleFiringList,
  RuleList,
  RuleReplay,
  RuleReplayRequest,
  RuleReplayRun,
  RuleTest,
  RuleTestRequest,
  RuleUpdate,
  Settings,
  SettingsUpdate,
  Signal,
  SignalBackfill,
  SignalEscalation,
  SignalInput,
  SignalList,
  SignalQuality,
  SignalVersion,
  SignalVersionList,
  SystemOneRequest,
  SystemOneResponse,
  Timeline,
  TimelineItem,
  Trial,
  TrialCreate,
  TrialEstimate,
  TrialList,
  TrialStarted,
  Usage,
  WebhookDelivery,
  WebhookDeliveryList,
  WebhookEndpoint,
  WebhookEndpointCreate,
  WebhookEndpointList,
  WebhookEndpointSecret,
  WebhookEndpointUpdate,
  WebhookHealth,
  WebhookSecretRotation,
} from "./records.js";

/** What {@link Operations.getMe} takes. */
export interface GetMeQuery {
  /**
   * Any of `settings`, `identities`, `mfa`, `passkeys`, `sessions` and `notifications`, separated by commas:
   * each is what its own route responds with. All but `settings` are about the user, and refused to API keys.
   */
  include?: string | undefined;
}

/** What {@link Operations.exportRows} takes. */
export interface ExportRowsQuery {
  /** What to export. `ledger` needs a role that sees money, `audit` a signed-in admin or owner. */
  what: "objects" | "answers" | "labels" | "events" | "ledger" | "audit";
  /** How rows are written; `ndjson` if left out. */
  format?: "ndjson" | "csv" | undefined;
  /**
   * A date or a time: objects last seen, analyses concluded, labels given, events received, and entries and
   * lines written since then.
   */
  from?: string | undefined;
  /** A date, which is included, or a time, which is not: the same up to then. */
  to?: string | undefined;
  /** The cursor of the row after which to go on; the other parameters, except `format`, must stay the same. */
  cursor?: string | undefined;
}

/** What {@link Operations.listObjects} takes. */
export interface ListObjectsQuery {
  /**
   * A part of an object's id or display name, or comparisons of signals joined by `and` or a comma, such as
   * `is_scammer > 0.8 and buyer_intent = ready_to_buy`, which page by `offset` only.
   */
  q?: string | undefined;
  /** `recent`: last seen first; `flagged`: highest yes/no probability first; `trust`: highest score first. */
  sort?: "recent" | "flagged" | "trust" | undefined;
  /** The page size. */
  limit?: number | undefined;
  /** The number of objects to skip. */
  offset?: number | undefined;
  /** `next_cursor` of the previous page; `offset` is then ignored, and `q` and `sort` must stay the same. */
  cursor?: string | undefined;
  /** Whether comparisons that would be skipped, and listed in `warnings`, are refused instead. */
  strict?: boolean | undefined;
}

/** What {@link Operations.getObject} takes. */
export interface GetObjectQuery {
  /**
   * `labels` and `timeline`, separated by commas: the object's newest labels, and the first page of its
   * timeline.
   */
  include?: string | undefined;
  /** Only these kinds of items in the included timeline, separated by commas; all if left out. */
  kinds?: string | undefined;
}

/** What {@link Operations.countObjects} takes. */
export interface CountObjectsQuery {
  /** A part of an object's id or display name, or comparisons of signals, as for the list of objects. */
  q?: string | undefined;
}

/** What {@link Operations.getDistribution} takes. */
export interface GetDistributionQuery {
  /** A part of an object's id or display name, or comparisons of signals, as for the list of objects. */
  q?: string | undefined;
}

/** What {@link Operations.listAnswers} takes. */
export interface ListAnswersQuery {
  /** Only answers to the signal with this key, and the analyses that have one. */
  signal?: string | undefined;
  /** The page size; 50 if left out. */
  limit?: number | undefined;
  /** `next_cursor` of the previous page; `signal` must stay the same. */
  cursor?: string | undefined;
}

/** What {@link Operations.getTimeline} takes. */
export interface GetTimelineQuery {
  /**
   * Kinds of items, separated by commas: `event`, `analysis`, `firing`, `review`, `delivery`, `label`; all if
   * left out.
   */
  kinds?: string | undefined;
  /** The page size; 50 if left out. */
  limit?: number | undefined;
  /** `next_cursor` of the previous page; `kinds` must stay the same. */
  cursor?: string | undefined;
}

/** What {@link Operations.listEvents} takes. */
export interface ListEventsQuery {
  /** `next_cursor` of the previous page. */
  cursor?: string | undefined;
}

/** What {@link Operations.listLabels} takes. */
export interface ListLabelsQuery {
  /** Only labels about this signal. */
  signal?: string | undefined;
  /** Only labels about this object. */
  object_id?: string | undefined;
  /** Only labels that were given like this. */
  source?: LabelSource | undefined;
  /** The maximum number; 50 if left out. */
  limit?: number | undefined;
  /** `next_cursor` of the previous page; the filters must stay the same. */
  cursor?: string | undefined;
}

/** What {@link Operations.listTrials} takes. */
export interface ListTrialsQuery {
  /** The maximum number; 20 if left out. */
  limit?: number | undefined;
  /** `next_cursor` of the previous page. */
  cursor?: string | undefined;
}

/** What {@link Operations.getQuality} takes. */
export interface GetQualityQuery {
  /** Only answers of this version of the signal; all if left out. */
  version?: number | undefined;
  /** Only labels given at this time or later, in RFC 3339. */
  from?: string | Date | undefined;
  /** Only labels given before this time, in RFC 3339. */
  to?: string | Date | undefined;
  /** `noul`: the cost of flagging an object that is labelled no; 1 if left out. */
  cost_false_yes?: number | undefined;
  /** `noul`: the cost of not flagging an object that is labelled yes; 1 if left out. */
  cost_false_no?: number | undefined;
  /**
   * `versions` and `escalation`, separated by commas: what their own routes respond with. Escalation needs an
   * admin, an owner or an API key.
   */
  include?: string | undefined;
}

/** What {@link Operations.listReviews} takes. */
export interface ListReviewsQuery {
  /** Only reviews in this queue. */
  queue?: string | undefined;
  /** Only reviews with this status. */
  status?: ReviewStatus | undefined;
  /** `value`, by priority, if left out. */
  order?: ReviewOrder | undefined;
  /** The maximum number; 50 if left out. */
  limit?: number | undefined;
  /** `next_cursor` of the previous page; the other parameters must stay the same. */
  cursor?: string | undefined;
}

/** What {@link Operations.listReviewQueues} takes. */
export interface ListReviewQueuesQuery {
  /** `signals` and `rules`, separated by commas: all of the account's, to show reviews with their names. */
  include?: string | undefined;
}

/** What {@link Operations.listRuleFirings} takes. */
export interface ListRuleFiringsQuery {
  /** Only firings of this rule. */
  rule_id?: string | undefined;
  /** Only firings about this object. */
  object_id?: string | undefined;
  /** The maximum number; 50 if left out. */
  limit?: number | undefined;
  /** `next_cursor` of the previous page; the other parameters must stay the same. */
  cursor?: string | undefined;
}

/** What {@link Operations.listWebhooks} takes. */
export interface ListWebhooksQuery {
  /** `health`: each endpoint says how it is doing. */
  include?: string | undefined;
}

/** What {@link Operations.listWebhookDeliveries} takes. */
export interface ListWebhookDeliveriesQuery {
  /** Only deliveries with this status; `dead` is the dead-letter queue. */
  status?: DeliveryStatus | undefined;
  /** Only deliveries to this endpoint. */
  endpoint_id?: string | undefined;
  /** The maximum number; 50 if left out. */
  limit?: number | undefined;
  /** `next_cursor` of the previous page; the other parameters must stay the same. */
  cursor?: string | undefined;
}

/** What {@link Operations.listLedgerEntries} takes. */
export interface ListLedgerEntriesQuery {
  /** `credit` or `charge`: only entries of that type. */
  type?: "credit" | "charge" | undefined;
  /** `batch`: one entry for each bulk run, instead of one for each of its analyses. */
  group?: "batch" | undefined;
  /** Only the charges of this bulk run. */
  batch_id?: string | undefined;
  /** The page size; 50 if left out. */
  limit?: number | undefined;
  /** `next_cursor` of the previous page; the other parameters must stay the same. */
  cursor?: string | undefined;
}

/** What {@link Operations.getUsage} takes. */
export interface GetUsageQuery {
  /** The first day; 29 days before `to` if left out. */
  from?: string | undefined;
  /** The last day; today if left out. A range has at most 366 days. */
  to?: string | undefined;
}

/** All operations. */
export abstract class Operations extends Caller {
  /**
   * Read the authenticated caller.
   *
   * The account; for a console token also the user.
   *
   * @throws {@link BadRequestError} A parameter is invalid.
   */
  getMe(query: GetMeQuery = {}, options?: RequestOptions): Promise<Me> {
    return this.call({ method: "GET", path: ["v1", "me"], query, repeatable: true }, options);
  }

  /**
   * Read the settings of the account.
   *
   * Whether new signals are backfilled automatically, and how long events are kept.
   */
  getSettings(options?: RequestOptions): Promise<Settings> {
    return this.call({ method: "GET", path: ["v1", "settings"], repeatable: true }, options);
  }

  /**
   * Change the settings of the account.
   *
   * Fields left out keep their values.
   *
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  updateSettings(body: SettingsUpdate, options?: RequestOptions): Promise<Settings> {
    return this.call({ method: "PATCH", path: ["v1", "settings"], body, repeatable: false }, options);
  }

  /**
   * List the keys that are not revoked.
   *
   * Secrets are never shown again.
   */
  listApiKeys(options?: RequestOptions): Pager<APIKeyList, APIKey> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "api_keys"],
        repeatable: true,
        items: "api_keys",
      },
      options,
    );
  }

  /**
   * Create a key.
   *
   * The signing secret is only in this response. Every user of the account gets an email. A session in a
   * cookie needs recent proof: see `POST /auth/console/reauthenticate`.
   *
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link ConflictError} The account has the maximum number of keys.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  createApiKey(body: APIKeyCreate = {}, options?: RequestOptions): Promise<APIKeySecret> {
    return this.call({ method: "POST", path: ["v1", "api_keys"], body, repeatable: false }, options);
  }

  /**
   * Revoke a key.
   *
   * It stops authenticating at once, and its public key ID is never issued again.
   *
   * @param keyId The key's `id`, not its public key ID.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such key, or it is revoked.
   */
  revokeApiKey(keyId: string, options?: RequestOptions): Promise<void> {
    return this.call({ method: "DELETE", path: ["v1", "api_keys", keyId], repeatable: true }, options);
  }

  /**
   * Rename a key, deactivate it, or activate it again.
   *
   * Requests with an inactive key fail with 401. Fields left out keep their values.
   *
   * @param keyId The key's `id`, not its public key ID.
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link NotFoundError} There is no such key, or it is revoked.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  updateApiKey(keyId: string, body: APIKeyUpdate, options?: RequestOptions): Promise<APIKey> {
    return this.call({ method: "PATCH", path: ["v1", "api_keys", keyId], body, repeatable: false }, options);
  }

  /**
   * Give a key a new secret.
   *
   * The public key ID stays the same; the old secret stops working at once. A legacy key can sign from then
   * on. A session in a cookie needs recent proof: see `POST /auth/console/reauthenticate`.
   *
   * @param keyId The key's `id`, not its public key ID.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such key, or it is revoked.
   */
  rotateApiKey(keyId: string, options?: RequestOptions): Promise<APIKeySecret> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "api_keys", keyId, "rotate"],
        repeatable: false,
      },
      options,
    );
  }

  /**
   * Read an overview of the account.
   *
   * Counts, averages and shares of each signal, the types of objects, the ten riskiest objects, and what
   * happened on the last days. Its cost does not grow with the number of objects.
   */
  getOverview(options?: RequestOptions): Promise<Overview> {
    return this.call({ method: "GET", path: ["v1", "overview"], repeatable: true }, options);
  }

  /**
   * List objects.
   *
   * By a part of their id or name, or by their answers: `q` takes comparisons such as `is_scammer > 0.8`
   * joined by `and` or a comma. For the next page, set `cursor` to `next_cursor` of the previous one; a
   * search by answers pages by `offset`.
   *
   * @throws {@link BadRequestError} A parameter is out of range, or the cursor belongs to another list.
   */
  listObjects(query: ListObjectsQuery = {}, options?: RequestOptions): Pager<ObjectList, ObjectSummary> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "objects"],
        query,
        repeatable: true,
        items: "objects",
      },
      options,
    );
  }

  /**
   * Read an object's answers.
   *
   * The latest answer to each enabled signal; `pending` lists the signals without an answer yet. Cached for
   * up to three seconds (`X-Cache`), but for what `include` names; writes through the same node are visible
   * at once.
   *
   * @param objectId Your own id for the object.
   * @throws {@link BadRequestError} The id or a parameter is invalid.
   * @throws {@link NotFoundError} There is no such object.
   */
  getObject(objectId: string, query: GetObjectQuery = {}, options?: RequestOptions): Promise<ObjectAnalysis> {
    return this.call({ method: "GET", path: ["v1", "objects", objectId], query, repeatable: true }, options);
  }

  /**
   * Delete an object.
   *
   * Removes its events, answers, summary and queued work. Ledger entries are kept.
   *
   * @param objectId Your own id for the object.
   * @throws {@link BadRequestError} The id is invalid.
   * @throws {@link NotFoundError} There is no such object.
   */
  deleteObject(objectId: string, options?: RequestOptions): Promise<void> {
    return this.call({ method: "DELETE", path: ["v1", "objects", objectId], repeatable: true }, options);
  }

  /**
   * Read the summary of an object.
   *
   * Older events are folded into a summary, so that what the analyzer reads stays bounded. Empty for an
   * object that does not exist.
   *
   * @param objectId Your own id for the object.
   * @throws {@link BadRequestError} The id is invalid.
   */
  getObjectState(objectId: string, options?: RequestOptions): Promise<ObjectState> {
    return this.call(
      {
        method: "GET",
        path: ["v1", "objects", objectId, "state"],
        repeatable: true,
      },
      options,
    );
  }

  /**
   * Count objects.
   *
   * All of them, or those that match a query: exact up to 10,000.
   *
   * @throws {@link BadRequestError} The query is too long.
   */
  countObjects(query: CountObjectsQuery = {}, options?: RequestOptions): Promise<MatchCount> {
    return this.call({ method: "GET", path: ["v1", "object_count"], query, repeatable: true }, options);
  }

  /**
   * List what every analysis of an object said.
   *
   * Newest first, for as many days as the deployment keeps it (90, unless it is configured otherwise). Each
   * answer has the version of the signal that was asked.
   *
   * @param objectId Your own id for the object.
   * @throws {@link BadRequestError} A parameter is out of range, or the cursor belongs to another list.
   * @throws {@link NotFoundError} There is no such object.
   */
  listAnswers(
    objectId: string,
    query: ListAnswersQuery = {},
    options?: RequestOptions,
  ): Pager<AnalysisList, AnalysisRecord> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "objects", objectId, "answers"],
        query,
        repeatable: true,
        items: "analyses",
      },
      options,
    );
  }

  /**
   * Read an object's timeline.
   *
   * One list, newest first, of what happened about it: its events, what analyses said, rules that fired, and
   * webhook deliveries. The record of an item is under the name of its kind.
   *
   * @param objectId Your own id for the object.
   * @throws {@link BadRequestError} A parameter is invalid, or the cursor belongs to another list.
   * @throws {@link NotFoundError} There is no such object.
   */
  getTimeline(
    objectId: string,
    query: GetTimelineQuery = {},
    options?: RequestOptions,
  ): Pager<Timeline, TimelineItem> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "objects", objectId, "timeline"],
        query,
        repeatable: true,
        items: "items",
      },
      options,
    );
  }

  /**
   * Explain an answer about an object.
   *
   * Asks the signal about the object again, and for each event, message and line of the summary how much the
   * answer differs when that part is not read. It shows what moved the answer, which is not the same as why.
   * Nothing is recorded; it is limited like a verdict, and billed for all that was read.
   *
   * @param objectId Your own id for the object.
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link PaymentRequiredError} The prepaid balance is empty.
   * @throws {@link NotFoundError} There is no such object or signal.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   * @throws {@link ServerError} The analyzer failed.
   */
  explainAnswer(objectId: string, body: ExplainRequest, options?: RequestOptions): Promise<Explanation> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "objects", objectId, "explain"],
        body,
        repeatable: false,
      },
      options,
    );
  }

  /**
   * Analyze an object again.
   *
   * Runs at live priority.
   *
   * @param objectId Your own id for the object.
   * @throws {@link BadRequestError} The id is invalid.
   * @throws {@link NotFoundError} The object has no events.
   */
  analyzeObject(objectId: string, options?: RequestOptions): Promise<AnalyzeScheduled> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "objects", objectId, "analyze"],
        repeatable: true,
      },
      options,
    );
  }

  /**
   * Analyze every object again.
   *
   * Runs at bulk priority, behind live traffic; each analysis is billed. If such a run is already in
   * progress, no second one is started and the response describes the first.
   */
  analyzeAllObjects(options?: RequestOptions): Promise<AnalyzeAllScheduled> {
    return this.call({ method: "POST", path: ["v1", "analyze"], repeatable: false }, options);
  }

  /**
   * List an object's events.
   *
   * Up to 200 a page, newest first; an empty list for an object that does not exist.
   *
   * @param objectId Your own id for the object.
   * @throws {@link BadRequestError} The id is invalid, or the cursor belongs to another list.
   */
  listEvents(
    objectId: string,
    query: ListEventsQuery = {},
    options?: RequestOptions,
  ): Pager<EventList, Event> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "objects", objectId, "events"],
        query,
        repeatable: true,
        items: "events",
      },
      options,
    );
  }

  /**
   * Record events about an object.
   *
   * Responds with 202 at once and schedules a debounced analysis; with `wait: true` it analyzes the object
   * and responds with 200 and a verdict. With the header `Idempotency-Key`, a repeated request records
   * nothing. After an error with `Events-Recorded: true` the events have been recorded: do not send them
   * again.
   *
   * @param objectId Your own id for the object, 1 to 255 characters.
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link PaymentRequiredError} The prepaid balance is empty; nothing was recorded.
   * @throws {@link ConflictError} A request that waited for a verdict was repeated.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   * @throws {@link UnprocessableError} The `Idempotency-Key` was used for another object.
   * @throws {@link ServerError} The analyzer failed.
   */
  ingestEvents(
    objectId: string,
    body: IngestRequest & { wait: true },
    options?: RequestOptions,
  ): Promise<ModerationVerdict>;
  /**
   * Record events about an object.
   *
   * Responds with 202 at once and schedules a debounced analysis; with `wait: true` it analyzes the object
   * and responds with 200 and a verdict. With the header `Idempotency-Key`, a repeated request records
   * nothing. After an error with `Events-Recorded: true` the events have been recorded: do not send them
   * again.
   *
   * @param objectId Your own id for the object, 1 to 255 characters.
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link PaymentRequiredError} The prepaid balance is empty; nothing was recorded.
   * @throws {@link ConflictError} A request that waited for a verdict was repeated.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   * @throws {@link UnprocessableError} The `Idempotency-Key` was used for another object.
   * @throws {@link ServerError} The analyzer failed.
   */
  ingestEvents(
    objectId: string,
    body: IngestRequest & { wait?: false | null },
    options?: RequestOptions,
  ): Promise<IngestAccepted>;
  /**
   * Record events about an object.
   *
   * Responds with 202 at once and schedules a debounced analysis; with `wait: true` it analyzes the object
   * and responds with 200 and a verdict. With the header `Idempotency-Key`, a repeated request records
   * nothing. After an error with `Events-Recorded: true` the events have been recorded: do not send them
   * again.
   *
   * @param objectId Your own id for the object, 1 to 255 characters.
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link PaymentRequiredError} The prepaid balance is empty; nothing was recorded.
   * @throws {@link ConflictError} A request that waited for a verdict was repeated.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   * @throws {@link UnprocessableError} The `Idempotency-Key` was used for another object.
   * @throws {@link ServerError} The analyzer failed.
   */
  ingestEvents(
    objectId: string,
    body: IngestRequest,
    options?: RequestOptions,
  ): Promise<ModerationVerdict | IngestAccepted>;
  ingestEvents(
    objectId: string,
    body: IngestRequest,
    options?: RequestOptions,
  ): Promise<ModerationVerdict | IngestAccepted> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "objects", objectId, "events"],
        body,
        idempotent: true,
        repeatable: body.wait !== true,
      },
      options,
    );
  }

  /**
   * Read how the answers to a signal are distributed.
   *
   * Over the objects that match a query, or all: the 10,000 that were analyzed most recently among the 50,000
   * seen last.
   *
   * @param key The signal's key.
   * @throws {@link BadRequestError} The query is too long.
   * @throws {@link NotFoundError} There is no such signal.
   */
  getDistribution(
    key: string,
    query: GetDistributionQuery = {},
    options?: RequestOptions,
  ): Promise<Distribution> {
    return this.call(
      {
        method: "GET",
        path: ["v1", "signals", key, "distribution"],
        query,
        repeatable: true,
      },
      options,
    );
  }

  /**
   * List all configured signals, enabled or not.
   *
   * In order of their keys.
   */
  listSignals(options?: RequestOptions): Pager<SignalList, Signal> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "signals"],
        repeatable: true,
        items: "signals",
      },
      options,
    );
  }

  /**
   * Create a signal, or replace its definition.
   *
   * Replaces the whole definition, except that `enabled` is unchanged if left out. Objects get their answer
   * with their next analysis, or by a backfill. If the `type` changes, the old answers are deleted.
   *
   * @param key 1 to 64 letters, digits and underscores, at least one of them a letter.
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link ConflictError} The signal is new, and the account has the maximum number of signals.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  putSignal(key: string, body: SignalInput, options?: RequestOptions): Promise<Signal> {
    return this.call({ method: "PUT", path: ["v1", "signals", key], body, repeatable: true }, options);
  }

  /**
   * Delete a signal and its answers.
   *
   * Rules that name it are suspended until there is a signal with that key again.
   *
   * @param key The signal's key.
   * @throws {@link NotFoundError} There is no such signal.
   */
  deleteSignal(key: string, options?: RequestOptions): Promise<void> {
    return this.call({ method: "DELETE", path: ["v1", "signals", key], repeatable: true }, options);
  }

  /**
   * List the versions of a signal.
   *
   * Newest first. Every change of its type, instructions, criteria or calibration makes one; the newest 100
   * are kept. The numbers go on when a deleted key returns.
   *
   * @param key The signal's key.
   * @throws {@link NotFoundError} There is no such signal.
   */
  listSignalVersions(key: string, options?: RequestOptions): Pager<SignalVersionList, SignalVersion> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "signals", key, "versions"],
        repeatable: true,
        items: "versions",
      },
      options,
    );
  }

  /**
   * Restore a version of a signal.
   *
   * Its definition becomes the next version; if the signal has it already, nothing changes.
   *
   * @param key The signal's key.
   * @param version The number of the version.
   * @throws {@link BadRequestError} The version is not a number.
   * @throws {@link NotFoundError} There is no such signal, or it has no such version.
   */
  restoreSignalVersion(key: string, version: number, options?: RequestOptions): Promise<Signal> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "signals", key, "versions", String(version), "restore"],
        repeatable: false,
      },
      options,
    );
  }

  /**
   * Estimate a backfill, and read the progress of the latest one.
   *
   * The estimate counts the objects without an answer to this signal, and what it would cost to analyze them
   * at the average cost so far.
   *
   * @param key The signal's key.
   * @throws {@link NotFoundError} There is no such signal.
   */
  getBackfill(key: string, options?: RequestOptions): Promise<BackfillStatus> {
    return this.call({ method: "GET", path: ["v1", "signals", key, "backfill"], repeatable: true }, options);
  }

  /**
   * Ask a signal about every object without an answer to it.
   *
   * Runs at bulk priority, behind live traffic; each analysis is billed. If a backfill of the signal is
   * already in progress, no second one is started and the response describes the first.
   *
   * @param key The signal's key.
   * @throws {@link NotFoundError} There is no such signal.
   * @throws {@link ConflictError} The signal is disabled.
   */
  startBackfill(key: string, options?: RequestOptions): Promise<SignalBackfill> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "signals", key, "backfill"],
        repeatable: false,
      },
      options,
    );
  }

  /**
   * Analyze events without recording them.
   *
   * Billed and limited like a verdict.
   *
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link PaymentRequiredError} The prepaid balance is empty.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   * @throws {@link ServerError} The analyzer failed.
   */
  runPlayground(body: PlaygroundRequest, options?: RequestOptions): Promise<PlaygroundVerdict> {
    return this.call({ method: "POST", path: ["v1", "playground"], body, repeatable: false }, options);
  }

  /**
   * Ask questions about a state.
   *
   * Uses the wire format of typed decision models. Nothing is recorded; it is billed and limited like a
   * verdict.
   *
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link PaymentRequiredError} The prepaid balance is empty.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   * @throws {@link ServerError} The analyzer failed.
   */
  askQuestions(body: SystemOneRequest, options?: RequestOptions): Promise<SystemOneResponse> {
    return this.call({ method: "POST", path: ["v1", "systemone"], body, repeatable: false }, options);
  }

  /**
   * Say what is true about a signal of an object.
   *
   * An author has one label about a signal of an object: a later one replaces it. Of several authors the
   * latest counts. The label keeps what the service said at that time, so that the two can be compared.
   *
   * @param objectId The object's id.
   * @param signal The key of the signal.
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link NotFoundError} There is no such object, or no such signal.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  putLabel(objectId: string, signal: string, body: LabelInput, options?: RequestOptions): Promise<Label> {
    return this.call(
      {
        method: "PUT",
        path: ["v1", "objects", objectId, "labels", signal],
        body,
        repeatable: true,
      },
      options,
    );
  }

  /**
   * List labels, newest first.
   *
   * Labels outlive the events of their object; they are deleted with the object or with the signal.
   *
   * @throws {@link BadRequestError} A parameter is out of range, or the cursor is of another list.
   */
  listLabels(query: ListLabelsQuery = {}, options?: RequestOptions): Pager<LabelList, Label> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "labels"],
        query,
        repeatable: true,
        items: "labels",
      },
      options,
    );
  }

  /**
   * Say what is true about many objects.
   *
   * At most 1,000 labels. Those that are wrong are refused one by one, and the others are taken. Of several
   * about the same signal of the same object the last is kept.
   *
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  createLabels(body: LabelsCreate, options?: RequestOptions): Promise<LabelsAccepted> {
    return this.call({ method: "POST", path: ["v1", "labels"], body, repeatable: false }, options);
  }

  /**
   * Withdraw a label.
   *
   * The latest label that is left about the same signal of the object counts.
   *
   * @param labelId The label's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such label.
   */
  deleteLabel(labelId: string, options?: RequestOptions): Promise<void> {
    return this.call({ method: "DELETE", path: ["v1", "labels", labelId], repeatable: true }, options);
  }

  /**
   * List the trials of a signal, newest first.
   *
   * Without their figures, which each trial has by itself.
   *
   * @param key The signal's key.
   * @throws {@link BadRequestError} A parameter is out of range, or the cursor is of another list.
   * @throws {@link NotFoundError} There is no such signal.
   */
  listTrials(key: string, query: ListTrialsQuery = {}, options?: RequestOptions): Pager<TrialList, Trial> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "signals", key, "trials"],
        query,
        repeatable: true,
        items: "trials",
      },
      options,
    );
  }

  /**
   * Try another wording of a signal.
   *
   * Both wordings are put to objects that are there, in one call of the model each, and nothing else changes:
   * no answer, no rule and no webhook. The trial is charged like any analysis and runs after live work. With
   * `dry_run` nothing is started.
   *
   * @param key The signal's key.
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link NotFoundError} There is no such signal.
   * @throws {@link ConflictError} There are no such objects, or five trials are running.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  startTrial(
    key: string,
    body: TrialCreate,
    options?: RequestOptions,
  ): Promise<TrialEstimate | TrialStarted> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "signals", key, "trials"],
        body,
        repeatable: false,
      },
      options,
    );
  }

  /**
   * Read a trial, with its figures so far.
   *
   * Over labelled objects, `difference` says by how much the proposed wording is better, with a 95 %
   * interval.
   *
   * @param key The signal's key.
   * @param trialId The trial's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such trial.
   */
  getTrial(key: string, trialId: string, options?: RequestOptions): Promise<Trial> {
    return this.call(
      {
        method: "GET",
        path: ["v1", "signals", key, "trials", trialId],
        repeatable: true,
      },
      options,
    );
  }

  /**
   * Stop a trial.
   *
   * What it has found so far stays; one that has ended is left as it is.
   *
   * @param key The signal's key.
   * @param trialId The trial's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such trial.
   */
  cancelTrial(key: string, trialId: string, options?: RequestOptions): Promise<void> {
    return this.call(
      {
        method: "DELETE",
        path: ["v1", "signals", key, "trials", trialId],
        repeatable: true,
      },
      options,
    );
  }

  /**
   * Adopt the wording of a trial.
   *
   * It becomes the signal's next version.
   *
   * @param key The signal's key.
   * @param trialId The trial's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such trial.
   * @throws {@link ConflictError} The trial is not done.
   */
  adoptTrial(key: string, trialId: string, options?: RequestOptions): Promise<Signal> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "signals", key, "trials", trialId, "adopt"],
        repeatable: false,
      },
      options,
    );
  }

  /**
   * Compare a signal's labels with its answers.
   *
   * Each label that counts is compared with the answer that stood when it was given; at most the newest
   * 50,000. A figure has a 95 % interval. Below 10 labels there are none, and `needs` says how many more
   * labels they need.
   *
   * @param key The signal's key.
   * @throws {@link BadRequestError} A parameter is invalid.
   * @throws {@link NotFoundError} There is no such signal.
   */
  getQuality(key: string, query: GetQualityQuery = {}, options?: RequestOptions): Promise<SignalQuality> {
    return this.call(
      {
        method: "GET",
        path: ["v1", "signals", key, "quality"],
        query,
        repeatable: true,
      },
      options,
    );
  }

  /**
   * Fit a calibration to a signal's labels.
   *
   * Fitted to the analyzer's own answers to the present wording, and judged by cross-validation. It is
   * stored, but not switched on.
   *
   * @param key The signal's key.
   * @throws {@link NotFoundError} There is no such signal.
   * @throws {@link ConflictError} There are fewer than 50 labels, or fewer than 10 of a side.
   */
  createCalibration(key: string, options?: RequestOptions): Promise<Calibration> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "signals", key, "calibrations"],
        repeatable: false,
      },
      options,
    );
  }

  /**
   * Switch a signal's calibration on or off.
   *
   * This makes a new version of the signal: answers from now on are calibrated, or the analyzer's own.
   * Thresholds of rules then mean something else; no rule is changed.
   *
   * @param key The signal's key.
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link NotFoundError} There is no such signal, or it has no such calibration.
   * @throws {@link ConflictError} The calibration was fitted to another wording of the signal.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  putCalibration(
    key: string,
    body: CalibrationInput,
    options?: RequestOptions,
  ): Promise<CalibrationSwitched> {
    return this.call(
      {
        method: "PUT",
        path: ["v1", "signals", key, "calibration"],
        body,
        repeatable: true,
      },
      options,
    );
  }

  /**
   * Read which answers of a signal go to the second analyzer.
   *
   * With what that has cost today. For those who see money.
   *
   * @param key The signal's key.
   * @throws {@link NotFoundError} There is no such signal.
   */
  getEscalation(key: string, options?: RequestOptions): Promise<SignalEscalation> {
    return this.call(
      {
        method: "GET",
        path: ["v1", "signals", key, "escalation"],
        repeatable: true,
      },
      options,
    );
  }

  /**
   * Set which answers of a signal go to the second analyzer.
   *
   * A `band` of probabilities for `noul`, a confidence to be `below` for the other types, or a
   * `target_error`, from which either is fitted to the labels. `{"band": null}` ends it. It counts from the
   * next analysis on, and is no new version of the signal.
   *
   * @param key The signal's key.
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link NotFoundError} There is no such signal.
   * @throws {@link ConflictError} There is no second analyzer, or there are fewer than 50 labels of answers
   * of the present version.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  putEscalation(key: string, body: EscalationInput, options?: RequestOptions): Promise<SignalEscalation> {
    return this.call(
      {
        method: "PUT",
        path: ["v1", "signals", key, "escalation"],
        body,
        repeatable: true,
      },
      options,
    );
  }

  /**
   * List reviews.
   *
   * By priority, or oldest first.
   *
   * @throws {@link BadRequestError} A parameter is out of range, or the cursor is of another list.
   */
  listReviews(query: ListReviewsQuery = {}, options?: RequestOptions): Pager<ReviewList, Review> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "reviews"],
        query,
        repeatable: true,
        items: "reviews",
      },
      options,
    );
  }

  /**
   * Open a review of an object.
   *
   * An object has at most one open review in a queue; if there is one, it is returned.
   *
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link NotFoundError} There is no such object.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  openReview(body: ReviewCreate, options?: RequestOptions): Promise<Review> {
    return this.call({ method: "POST", path: ["v1", "reviews"], body, repeatable: false }, options);
  }

  /**
   * Read how the queues of reviews stand.
   *
   * Those with reviews that are not resolved, or that were resolved within seven days.
   *
   * @throws {@link BadRequestError} A parameter is invalid.
   */
  listReviewQueues(
    query: ListReviewQueuesQuery = {},
    options?: RequestOptions,
  ): Pager<ReviewQueueList, ReviewQueue> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "reviews", "queues"],
        query,
        repeatable: true,
        items: "queues",
      },
      options,
    );
  }

  /**
   * Claim the next review of a queue.
   *
   * The one whose label is worth most; but whatever has waited for longer than a day comes first, the oldest
   * of it. Of many callers each gets another one.
   *
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  claimNextReview(body: ReviewNext, options?: RequestOptions): Promise<Review | undefined> {
    return this.call({ method: "POST", path: ["v1", "reviews", "next"], body, repeatable: false }, options);
  }

  /**
   * Read a review.
   *
   * If the caller has claimed it, the claim is renewed.
   *
   * @param reviewId The review's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such review.
   */
  getReview(reviewId: string, options?: RequestOptions): Promise<Review> {
    return this.call({ method: "GET", path: ["v1", "reviews", reviewId], repeatable: true }, options);
  }

  /**
   * Claim a review.
   *
   * A claim lasts 10 minutes (`AUSPEX_CLAIM_SECONDS`) unless it is renewed, by claiming or reading the review
   * again.
   *
   * @param reviewId The review's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such review.
   * @throws {@link ConflictError} Somebody else has claimed it, or it is resolved.
   */
  claimReview(reviewId: string, options?: RequestOptions): Promise<Review> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "reviews", reviewId, "claim"],
        repeatable: false,
      },
      options,
    );
  }

  /**
   * Give a claimed review back.
   *
   * Nothing happens if nobody has claimed it.
   *
   * @param reviewId The review's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such review.
   * @throws {@link ConflictError} Somebody else has claimed it, or it is resolved.
   */
  releaseReview(reviewId: string, options?: RequestOptions): Promise<Review> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "reviews", reviewId, "release"],
        repeatable: false,
      },
      options,
    );
  }

  /**
   * Decide about a review.
   *
   * The decision and its labels are stored together or not at all. The labels have the source `review`.
   *
   * @param reviewId The review's id.
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link NotFoundError} There is no such review.
   * @throws {@link ConflictError} Somebody else has claimed it, or it is resolved.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  resolveReview(reviewId: string, body: ReviewResolve, options?: RequestOptions): Promise<Review> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "reviews", reviewId, "resolve"],
        body,
        repeatable: false,
      },
      options,
    );
  }

  /**
   * Take a decision back.
   *
   * Within 24 hours. The labels that the review gave are withdrawn, and what they replaced stands again.
   *
   * @param reviewId The review's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such review.
   * @throws {@link ConflictError} It is not resolved, or was resolved more than 24 hours ago, or the object
   * has another open review in this queue.
   */
  reopenReview(reviewId: string, options?: RequestOptions): Promise<Review> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "reviews", reviewId, "reopen"],
        repeatable: false,
      },
      options,
    );
  }

  /**
   * List the endpoints.
   *
   * Without their secrets.
   *
   * @throws {@link BadRequestError} A parameter is invalid.
   */
  listWebhooks(
    query: ListWebhooksQuery = {},
    options?: RequestOptions,
  ): Pager<WebhookEndpointList, WebhookEndpoint> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "webhooks"],
        query,
        repeatable: true,
        items: "webhooks",
      },
      options,
    );
  }

  /**
   * Register an endpoint.
   *
   * The signing secret is only in this response. Deliveries have the header `X-Webhook-Signature` (`sha256=`
   * and the hex HMAC-SHA256 of timestamp, a dot and the raw body, keyed with the whole secret), and the
   * headers of Standard Webhooks.
   *
   * @throws {@link BadRequestError} A field is invalid, or the URL points to an address that is not allowed,
   * such as a private one.
   * @throws {@link ConflictError} The account has the maximum number of endpoints.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  createWebhook(body: WebhookEndpointCreate, options?: RequestOptions): Promise<WebhookEndpointSecret> {
    return this.call({ method: "POST", path: ["v1", "webhooks"], body, repeatable: false }, options);
  }

  /**
   * Read an endpoint.
   *
   * Without its secret.
   *
   * @param endpointId The endpoint's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such endpoint.
   */
  getWebhook(endpointId: string, options?: RequestOptions): Promise<WebhookEndpoint> {
    return this.call({ method: "GET", path: ["v1", "webhooks", endpointId], repeatable: true }, options);
  }

  /**
   * Remove an endpoint and its deliveries.
   *
   * A delivery in flight may still arrive. Rules that name it record their firings as `error`.
   *
   * @param endpointId The endpoint's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such endpoint.
   */
  deleteWebhook(endpointId: string, options?: RequestOptions): Promise<void> {
    return this.call({ method: "DELETE", path: ["v1", "webhooks", endpointId], repeatable: true }, options);
  }

  /**
   * Edit an endpoint.
   *
   * Fields left out keep their values. An endpoint that rests after repeated failures is tried again at once.
   *
   * @param endpointId The endpoint's id.
   * @throws {@link BadRequestError} A field is invalid, or the URL points to an address that is not allowed,
   * such as a private one.
   * @throws {@link NotFoundError} There is no such endpoint.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  updateWebhook(
    endpointId: string,
    body: WebhookEndpointUpdate,
    options?: RequestOptions,
  ): Promise<WebhookEndpoint> {
    return this.call(
      {
        method: "PATCH",
        path: ["v1", "webhooks", endpointId],
        body,
        repeatable: false,
      },
      options,
    );
  }

  /**
   * Read how an endpoint is doing.
   *
   * Whether it is resting after repeated failures, what waits for it, and how many of its newest deliveries
   * were accepted, and how fast.
   *
   * @param endpointId The endpoint's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such endpoint.
   */
  getWebhookHealth(endpointId: string, options?: RequestOptions): Promise<WebhookHealth> {
    return this.call(
      {
        method: "GET",
        path: ["v1", "webhooks", endpointId, "health"],
        repeatable: true,
      },
      options,
    );
  }

  /**
   * Send a test to an endpoint.
   *
   * An event of the type `endpoint.test`, signed, sent and retried like any other, whatever events the
   * endpoint asks for. An endpoint that rests after repeated failures is tried at once.
   *
   * @param endpointId The endpoint's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such endpoint.
   * @throws {@link ConflictError} The endpoint is disabled.
   */
  testWebhook(endpointId: string, options?: RequestOptions): Promise<WebhookDelivery> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "webhooks", endpointId, "test"],
        repeatable: false,
      },
      options,
    );
  }

  /**
   * Give an endpoint a new secret.
   *
   * For `overlap_hours`, deliveries carry signatures with both secrets: `webhook-signature` has two, and
   * `X-Webhook-Signature` is keyed with the previous one. Afterwards only the new one counts. A second
   * rotation within that time ends the oldest secret.
   *
   * @param endpointId The endpoint's id.
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link NotFoundError} There is no such endpoint.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  rotateWebhookSecret(
    endpointId: string,
    body: WebhookSecretRotation = {},
    options?: RequestOptions,
  ): Promise<WebhookEndpointSecret> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "webhooks", endpointId, "rotate_secret"],
        body,
        repeatable: false,
      },
      options,
    );
  }

  /**
   * List deliveries, newest first.
   *
   * `status=dead` is the dead-letter queue: each keeps its payload and the start of the last response.
   *
   * @throws {@link BadRequestError} A parameter is invalid.
   */
  listWebhookDeliveries(
    query: ListWebhookDeliveriesQuery = {},
    options?: RequestOptions,
  ): Pager<WebhookDeliveryList, WebhookDelivery> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "webhook_deliveries"],
        query,
        repeatable: true,
        items: "deliveries",
      },
      options,
    );
  }

  /**
   * Send a delivery again.
   *
   * A delivered or dead one is queued again with a full number of attempts; a pending one is unchanged.
   *
   * @param deliveryId The delivery's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such delivery.
   */
  replayWebhookDelivery(deliveryId: string, options?: RequestOptions): Promise<WebhookDelivery> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "webhook_deliveries", deliveryId, "replay"],
        repeatable: false,
      },
      options,
    );
  }

  /**
   * List the rules.
   *
   * In order of creation.
   */
  listRules(options?: RequestOptions): Pager<RuleList, Rule> {
    return this.pages({ method: "GET", path: ["v1", "rules"], repeatable: true, items: "rules" }, options);
  }

  /**
   * Create a rule.
   *
   * The condition is checked against the account's signals; an error names the column. The rule is evaluated
   * after every analysis and every verdict. Without a cooldown it fires when the condition becomes true for
   * an object; with one it fires at most once in that time, and again after it while the condition stays
   * true.
   *
   * A rule that names a disabled signal is suspended and keeps its state until the signal is enabled again.
   * If a signal is deleted or its type changes, the state of the rules that name it is reset.
   *
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link ConflictError} The account has 200 rules.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  createRule(body: RuleCreate, options?: RequestOptions): Promise<Rule> {
    return this.call({ method: "POST", path: ["v1", "rules"], body, repeatable: false }, options);
  }

  /**
   * Read a rule.
   *
   * Its condition, its action and whether it is enabled.
   *
   * @param ruleId The rule's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such rule.
   */
  getRule(ruleId: string, options?: RequestOptions): Promise<Rule> {
    return this.call({ method: "GET", path: ["v1", "rules", ruleId], repeatable: true }, options);
  }

  /**
   * Delete a rule. Its firings stay listed.
   *
   * Actions that are already queued are still carried out.
   *
   * @param ruleId The rule's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such rule.
   */
  deleteRule(ruleId: string, options?: RequestOptions): Promise<void> {
    return this.call({ method: "DELETE", path: ["v1", "rules", ruleId], repeatable: true }, options);
  }

  /**
   * Change a rule.
   *
   * Fields left out keep their values; the resulting rule is validated as a whole. A new condition resets the
   * rule's state for every object; any other change keeps it.
   *
   * @param ruleId The rule's id.
   * @throws {@link BadRequestError} The body is malformed or fails validation.
   * @throws {@link NotFoundError} There is no such rule.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  updateRule(ruleId: string, body: RuleUpdate, options?: RequestOptions): Promise<Rule> {
    return this.call({ method: "PATCH", path: ["v1", "rules", ruleId], body, repeatable: false }, options);
  }

  /**
   * Test the action of a rule.
   *
   * Sends a mail, a chat message or a delivery that says that it is a test, at once, and answers what the
   * receiver said. Whether a rule is saved does not matter. A mail goes to nobody to whom a rule could not
   * write, and a recipient who has to agree first is asked as when a rule fires. A webhook gets
   * `endpoint.test`, which is retried like any delivery; the answer is about its first attempt. At most 20 an
   * hour for an account, which count like the messages of rules.
   *
   * @throws {@link BadRequestError} The action is invalid, or it is a review, which sends nothing.
   * @throws {@link ConflictError} The webhook endpoint is disabled.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  testRule(body: RuleTestRequest, options?: RequestOptions): Promise<RuleTest> {
    return this.call({ method: "POST", path: ["v1", "rules", "test"], body, repeatable: false }, options);
  }

  /**
   * Replay a rule over the past of answers.
   *
   * Says how often a rule would have fired, for which objects and on which days, and which of the enabled
   * rules would have fired for the same ones. No model runs and nothing is charged. Above 200,000 analyses
   * (`AUSPEX_REPLAY_INLINE`) it runs in the background.
   *
   * @throws {@link BadRequestError} The condition is invalid, or the time range is.
   * @throws {@link ConflictError} A replay of the account is running in the background.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  replayRule(body: RuleReplayRequest, options?: RequestOptions): Promise<RuleReplay | RuleReplayRun> {
    return this.call({ method: "POST", path: ["v1", "rules", "replay"], body, repeatable: false }, options);
  }

  /**
   * Read a replay that runs in the background.
   *
   * Once its status is `done`, it has the fields of a replay. It is kept for a week.
   *
   * @param replayId The replay's id.
   * @throws {@link BadRequestError} The id is not a UUID.
   * @throws {@link NotFoundError} There is no such replay.
   */
  getRuleReplay(replayId: string, options?: RequestOptions): Promise<RuleReplayRun> {
    return this.call(
      {
        method: "GET",
        path: ["v1", "rules", "replays", replayId],
        repeatable: true,
      },
      options,
    );
  }

  /**
   * List firings, newest first. They are kept for 90 days.
   *
   * Each lists the values that satisfied the condition and the outcome of the action.
   *
   * @throws {@link BadRequestError} A parameter is out of range or not a UUID, or the cursor belongs to
   * another list.
   */
  listRuleFirings(
    query: ListRuleFiringsQuery = {},
    options?: RequestOptions,
  ): Pager<RuleFiringList, RuleFiring> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "rule_firings"],
        query,
        repeatable: true,
        items: "firings",
      },
      options,
    );
  }

  /**
   * Check a condition.
   *
   * For editors: says what is wrong with a condition and where, which signals it names, and how many objects
   * it is true for now. An invalid condition is no error of the request. For a query, whatever the list of
   * objects would skip is an error.
   *
   * @throws {@link BadRequestError} The body is malformed.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   */
  checkCondition(body: ConditionCheckRequest, options?: RequestOptions): Promise<ConditionCheck> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "conditions", "check"],
        body,
        repeatable: true,
      },
      options,
    );
  }

  /**
   * Read the balance.
   *
   * Also whether analyses are billed, what happens when the balance is empty, and the limits of a top-up.
   */
  getBilling(options?: RequestOptions): Promise<Balance> {
    return this.call({ method: "GET", path: ["v1", "billing"], repeatable: true }, options);
  }

  /**
   * List the ledger, newest first.
   *
   * Entries never change, and their sum is the balance.
   *
   * @throws {@link BadRequestError} A parameter is invalid, or the cursor belongs to another list.
   */
  listLedgerEntries(
    query: ListLedgerEntriesQuery = {},
    options?: RequestOptions,
  ): Pager<LedgerPage, LedgerEntry> {
    return this.pages(
      {
        method: "GET",
        path: ["v1", "billing", "ledger"],
        query,
        repeatable: true,
        items: "entries",
      },
      options,
    );
  }

  /**
   * Open a checkout to top up the balance by card.
   *
   * Send the customer to the `url`. Once the payment is confirmed the balance is credited, exactly once.
   *
   * @throws {@link BadRequestError} The amount is not between `topup_min_cents` and `topup_max_cents`.
   * @throws {@link PayloadTooLargeError} The body is larger than 4 MiB.
   * @throws {@link ServerError} `payment_provider_error`: the payment provider failed.
   */
  createCheckout(body: CheckoutCreate, options?: RequestOptions): Promise<CheckoutSession> {
    return this.call(
      {
        method: "POST",
        path: ["v1", "billing", "checkout"],
        body,
        repeatable: false,
      },
      options,
    );
  }

  /**
   * Read the status of a checkout.
   *
   * `pending` until the payment provider has confirmed the payment, then `credited`, exactly once.
   *
   * @param sessionId The `id` of the checkout session.
   * @throws {@link NotFoundError} There is no such checkout.
   */
  getCheckout(sessionId: string, options?: RequestOptions): Promise<CheckoutStatus> {
    return this.call(
      {
        method: "GET",
        path: ["v1", "billing", "checkout", sessionId],
        repeatable: true,
      },
      options,
    );
  }

  /**
   * Read analyses and spend over a range of days.
   *
   * UTC days, both ends included, at most 366; the last 30 if left out. Days without analyses are included,
   * with zeros.
   *
   * @throws {@link BadRequestError} A date is invalid, or the range is empty or too long.
   */
  getUsage(query: GetUsageQuery = {}, options?: RequestOptions): Promise<Usage> {
    return this.call({ method: "GET", path: ["v1", "usage"], query, repeatable: true }, options);
  }

  /**
   * Export everything of one kind.
   *
   * A stream of rows: a JSON object on each line, or CSV with a header line, which is left out after a
   * `cursor`. Each row has its `cursor`, in CSV in the last column. A connection that ends before the stream
   * does is an export that is not complete: send the request again with the cursor of the last row, and
   * append. An export that takes longer than an hour (`AUSPEX_EXPORT_MAX_SECONDS`) is broken off in the same
   * way. Every row that was there when the export started is in it once.
   *
   * @throws {@link BadRequestError} A parameter is invalid, or the cursor belongs to another export.
   */
  exportRows(query: ExportRowsQuery, options?: RequestOptions): Promise<string> {
    return this.call({ method: "GET", path: ["v1", "export"], query, repeatable: true, text: true }, options);
  }
}
