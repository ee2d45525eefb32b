// Which answers go to the second analyzer, and what they have cost today: for those who may see money.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { Schemas } from "../../api/client";
import { useMay } from "../../api/session";
import { Button } from "../../parts/Button";
import { TextField } from "../../parts/Field";
import { Form, Problem } from "../../parts/Form";
import { Badge } from "../../parts/Notice";
import { typedNumberIn } from "../../parts/number";
import { Section } from "../../parts/Screen";
import { Failed, Skeleton } from "../../parts/States";
import { toast } from "../../parts/Toast";
import { moneyOfMicros, percent, plural } from "../../parts/Values";
import { escalationQuery, setEscalation } from "./queries";
import styles from "./Quality.module.css";

type Escalated = Schemas["SignalEscalation"];

/** What is escalated, in words. */
function spoken({ band, below }: Escalated): string | undefined {
  if (band) return `Answers from ${percent(band[0] ?? 0)} to ${percent(band[1] ?? 1)} are escalated.`;
  if (below !== undefined) return `Answers with a confidence below ${percent(below)} are escalated.`;
  return undefined;
}

export function Escalation({ signal }: { signal: Schemas["Signal"] }) {
  const may = useMay();
  return may("money.read") ? <Shown key={signal.key} signal={signal} /> : null;
}

function Shown({ signal }: { signal: Schemas["Signal"] }) {
  const escalation = useQuery(escalationQuery(signal.key));
  const isOn = escalation.data !== undefined && spoken(escalation.data) !== undefined;
  return (
    <Section
      title="Escalation"
      about="Answers that the first analyzer is unsure of go to a second one, within the caps that the operator has set."
      actions={isOn ? <Badge tone="good">on</Badge> : <Badge>off</Badge>}
    >
      {escalation.isPending ? (
        <Skeleton lines={2} />
      ) : escalation.error ? (
        <Failed error={escalation.error} retry={() => void escalation.refetch()} />
      ) : (
        <Known signal={signal} escalation={escalation.data} isOn={isOn} />
      )}
    </Section>
  );
}

function Known({ signal, escalation, isOn }: { signal: Schemas["Signal"]; escalation: Escalated; isOn: boolean }) {
  const may = useMay();
  const [problem, setProblem] = useState<unknown>();
  if (!escalation.model && !isOn) return <p className={styles.means}>There is no second analyzer. The operator of this service can configure one.</p>;
  const end = async () => {
    setProblem(undefined);
    try {
      await setEscalation(signal.key, { band: null });
      toast(`Answers of ${signal.key} are no longer escalated.`);
    } catch (error) {
      setProblem(error);
    }
  };
  return (
    <div className={styles.calibration}>
      <p>
        {spoken(escalation) ?? "No answer is escalated."} {escalation.model && `The second model is ${escalation.model}.`}
      </p>
      <p className={styles.means}>{`${plural(escalation.escalated_today, "answer")} today (UTC), for ${moneyOfMicros(escalation.cost_micros_today)}.`}</p>
      {problem !== undefined && <Problem problem={problem} />}
      {may("signals.write") && escalation.model && <Change signal={signal} escalation={escalation} />}
      {may("signals.write") && isOn && (
        <div className={styles.buttons}>
          <Button onPress={() => void end()}>Escalate nothing</Button>
        </div>
      )}
    </div>
  );
}

/** By hand, or fitted to the labels. */
function Change({ signal, escalation }: { signal: Schemas["Signal"]; escalation: Escalated }) {
  const isYesNo = signal.type === "noul";
  return (
    <>
      <Form
        key={`${escalation.band?.join() ?? ""}${escalation.below ?? ""}`}
        submit={isYesNo ? "Escalate this band" : "Escalate below this confidence"}
        fields={["band", "below"]}
        onSubmit={async ({ band = "", high = "", below = "" }) => {
          const unsure = isYesNo
            ? { band: [typedNumberIn(band, "the lower end", 0, 1), typedNumberIn(high, "the upper end", 0, 1)] }
            : { below: typedNumberIn(below, "the confidence", 0, 1) };
          await setEscalation(signal.key, unsure);
          toast(`What is escalated of ${signal.key} counts from the next analysis on.`);
        }}
      >
        {isYesNo ? (
          <>
            <TextField name="band" label="Unsure from (0 to 1)" inputMode="decimal" defaultValue={String(escalation.band?.[0] ?? 0.3)} isRequired />
            <TextField name="high" label="Unsure to (0 to 1)" inputMode="decimal" defaultValue={String(escalation.band?.[1] ?? 0.7)} isRequired />
          </>
        ) : (
          <TextField name="below" label="Unsure below a confidence of (0 to 1)" inputMode="decimal" defaultValue={String(escalation.below ?? 0.3)} isRequired />
        )}
      </Form>
      <Form
        submit="Fit it to the labels"
        fields={["target_error"]}
        onSubmit={async ({ target_error = "" }) => {
          const fitted = await setEscalation(signal.key, { target_error: typedNumberIn(target_error, "the share of wrong answers", 0, 1) });
          const share = fitted.share ? percent(fitted.share.value) : "none";
          const error = fitted.error ? `, and ${percent(fitted.error.value, 1)} of the others are wrong` : "";
          toast(`Fitted to ${plural(fitted.labels ?? 0, "label")}: ${share} of their answers are escalated${error}.`);
        }}
      >
        <TextField
          name="target_error"
          label="Wrong answers allowed among the others (0 to 1)"
          hint="As few as possible are escalated for that. It needs 50 labels of the present version."
          inputMode="decimal"
          defaultValue="0.05"
          isRequired
        />
      </Form>
    </>
  );
}
