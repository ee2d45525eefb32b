// Every action that the log can hold, in the order of the API's document. A record, so that a new one that is missing here does not compile.
import type { Schemas } from "../../api/client";

type Action = Schemas["AuditAction"];

const KNOWN: Record<Action, true> = {
  "session.opened": true,
  "session.failed": true,
  "session.ended": true,
  "password.changed": true,
  "password.reset": true,
  "address.proved": true,
  "mfa.enabled": true,
  "mfa.disabled": true,
  "passkey.added": true,
  "passkey.renamed": true,
  "passkey.removed": true,
  "identity.linked": true,
  "identity.unlinked": true,
  "member.joined": true,
  "member.updated": true,
  "member.removed": true,
  "invitation.created": true,
  "invitation.withdrawn": true,
  "api_key.created": true,
  "api_key.updated": true,
  "api_key.rotated": true,
  "api_key.revoked": true,
  "signal.updated": true,
  "signal.deleted": true,
  "calibration.fitted": true,
  "calibration.switched": true,
  "escalation.updated": true,
  "rule.created": true,
  "rule.updated": true,
  "rule.deleted": true,
  "webhook.created": true,
  "webhook.updated": true,
  "webhook.rotated": true,
  "webhook.deleted": true,
  "settings.updated": true,
  "account.deletion_requested": true,
  "account.deletion_cancelled": true,
  "object.deleted": true,
  "export.started": true,
};

export const ACTIONS = Object.keys(KNOWN) as Action[];

export const isAction = (text: string | undefined): text is Action => text !== undefined && text in KNOWN;
