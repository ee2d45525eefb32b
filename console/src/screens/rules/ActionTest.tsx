// Tests the action of a rule as it is filled in, and says beside the button what came of it.
import { useEffect, useRef, useState } from "react";

import { queries } from "../../api/session";
import { Button } from "../../parts/Button";
import { Problem, valuesOf } from "../../parts/Form";
import { Link } from "../../parts/Link";
import { Notice, type Tone } from "../../parts/Notice";
import { endpointPath } from "../webhooks/endpoint-path";
import { DELIVERIES } from "../webhooks/queries";
import { configOf, withoutPrefix } from "./action";
import { testAction, type ActionType, type RuleTest } from "./queries";
import styles from "./Rules.module.css";

/** An action that sends something. */
type Sending = Exclude<ActionType, "review">;

const HINTS: Record<Sending, string> = {
  email: "Sends a mail that says that it is a test, and does not save the rule.",
  slack: "Posts a message that says that it is a test, and does not save the rule.",
  webhook: "Sends an event of the type endpoint.test, signed like any other, and does not save the rule.",
};

interface Tested {
  type: Sending;
  result?: RuleTest;
  problem?: unknown;
  endpointId?: string;
}

export function ActionTest({ type }: { type: Sending }) {
  const [last, setLast] = useState<Tested>();
  const [isPending, setPending] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  // The fields of another action start empty.
  useEffect(() => setLast(undefined), [type]);
  const send = async () => {
    const form = root.current?.closest("form");
    if (!form) return;
    const values = valuesOf(form);
    const config = configOf(type, values, []);
    setPending(true);
    setLast(undefined);
    await testAction(values.name?.trim() || undefined, type, config).then(
      (result) => {
        setLast({ type, result, endpointId: config.endpoint_id });
        if (result.delivery_id) void queries.invalidateQueries({ queryKey: DELIVERIES });
      },
      (error: unknown) => setLast({ type, problem: withoutPrefix(error) }),
    );
    setPending(false);
  };
  const tested = last?.type === type ? last : undefined;
  return (
    <div ref={root} className={styles.test}>
      <div className={styles.head}>
        <Button isPending={isPending} onPress={() => void send()}>
          Send a test
        </Button>
        <span className={styles.soft}>{HINTS[type]}</span>
      </div>
      <div aria-live="polite">
        {tested?.problem !== undefined && <Problem problem={tested.problem} />}
        {tested?.result && <Outcome type={type} result={tested.result} endpointId={tested.endpointId} />}
      </div>
    </div>
  );
}

const RECEIVERS: Record<Sending, string> = { email: "The mail server", slack: "Slack", webhook: "The endpoint" };

const OUTCOMES: Record<RuleTest["outcome"], { tone: Tone; says: (receiver: string) => string }> = {
  sent: { tone: "good", says: () => "The test was sent" },
  refused: { tone: "bad", says: (receiver) => `${receiver} did not take the test` },
  timed_out: { tone: "bad", says: (receiver) => `${receiver} did not answer in time` },
  unreachable: { tone: "bad", says: () => "The test could not be sent" },
  unconfirmed: { tone: "warn", says: () => "Nothing was sent" },
  waiting: { tone: "warn", says: () => "The test is on its way" },
};

function Outcome({ type, result, endpointId }: { type: Sending; result: RuleTest; endpointId: string | undefined }) {
  const { tone, says } = OUTCOMES[result.outcome];
  const { status_code: code, detail } = result;
  // The detail of a refusal names the status.
  const status = code === undefined || detail?.includes(String(code)) ? "" : ` (HTTP ${code})`;
  return (
    <Notice tone={tone}>
      {`${says(RECEIVERS[type])}${status}${detail ? `: ${detail}` : ""}.`} {endpointId && <Link to={endpointPath(endpointId)}>Its deliveries</Link>}
    </Notice>
  );
}
