// Fits probabilities to what came true, shows before and after, and switches it on or off. Never on by itself: thresholds move with it.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { Schemas } from "../../api/client";
import { rulesQuery } from "../../api/queries";
import { useMay } from "../../api/session";
import { rulesReading } from "../../api/signal-use";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { Form, Problem } from "../../parts/Form";
import { Badge } from "../../parts/Notice";
import { Section } from "../../parts/Screen";
import { toast } from "../../parts/Toast";
import { count, percent, plural } from "../../parts/Values";
import { fitCalibration, switchCalibration } from "./queries";
import styles from "./Quality.module.css";

type Fitted = Schemas["Calibration"];

const ENOUGH = 50;
const ENOUGH_EACH = 10;
const METHODS: Record<Fitted["method"], string> = { platt: "Platt scaling", isotonic: "isotonic regression", temperature: "temperature scaling" };

interface Props {
  signal: Schemas["Signal"];
  versions: readonly Schemas["SignalVersion"][];
  labels: number;
}

export function Calibration({ signal, versions, labels }: Props) {
  const may = useMay();
  const on = versions[0]?.calibration;
  const [fitted, setFitted] = useState<Fitted>();
  const [pending, setPending] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const [switching, setSwitching] = useState<string | null>();
  const fit = async () => {
    setPending(true);
    setProblem(undefined);
    try {
      setFitted(await fitCalibration(signal.key));
    } catch (error) {
      setProblem(error);
    } finally {
      setPending(false);
    }
  };
  return (
    <Section
      title="Calibration"
      about="Corrects the probabilities by your labels, so that of all answers near 70 % about 70 % are right. Objects stay in nearly the same order, but a threshold then means something else."
      actions={on ? <Badge tone="good">on</Badge> : <Badge>off</Badge>}
    >
      <div className={styles.calibration}>
        {fitted && <BeforeAfter fitted={fitted} />}
        {problem !== undefined && <Problem problem={problem} />}
        {may("signals.write") && (
          <div className={styles.buttons}>
            <Button kind={fitted ? "plain" : "primary"} isPending={pending} isDisabled={labels < ENOUGH} onPress={() => void fit()}>
              {fitted ? "Fit again" : "Fit a calibration"}
            </Button>
            {fitted && fitted.id !== on && (
              <Button kind="primary" onPress={() => setSwitching(fitted.id)}>
                Switch it on…
              </Button>
            )}
            {on && <Button onPress={() => setSwitching(null)}>Switch it off…</Button>}
            {!fitted && <span className={styles.means}>{labels < ENOUGH ? `It needs ${ENOUGH} labels of the present wording${signal.type === "noul" ? `, at least ${ENOUGH_EACH} of them yes and ${ENOUGH_EACH} no` : ""}; there ${labels === 1 ? "is" : "are"} ${count(labels)}.` : `${plural(labels, "label")} to fit it to.`}</span>}
          </div>
        )}
        {!may("signals.write") && <p className={styles.means}>An admin or an owner can fit one.</p>}
      </div>
      <SwitchDialog signal={signal.key} id={switching} onClose={() => setSwitching(undefined)} />
    </Section>
  );
}

function BeforeAfter({ fitted }: { fitted: Fitted }) {
  const rows: [string, (value: number) => string, keyof Fitted["before"]][] = [
    ["Brier score (0 is best)", (value) => value.toFixed(3), "brier"],
    ["Calibration error", (value) => percent(value, 1), "calibration_error"],
  ];
  return (
    <div className={styles.scroll} tabIndex={0} role="region" aria-label="Before and after the calibration">
      <table className={styles.matrix}>
        <caption>{`Fitted to ${plural(fitted.labels, "label")} by ${METHODS[fitted.method]}, measured by cross-validation`}</caption>
        <thead>
          <tr>
            <th scope="col">Figure</th>
            <th scope="col">Before</th>
            <th scope="col">After</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, write, key]) => (
            <tr key={key}>
              <th scope="row">{name}</th>
              {[fitted.before[key], fitted.after[key]].map((figure, index) => (
                <td key={index}>
                  {write(figure.value)} <span className={styles.means}>{`${write(figure.low)} to ${write(figure.high)}`}</span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Says which live rules compare with this signal before their thresholds mean something else. */
function SwitchDialog({ signal, id, onClose }: { signal: string; id: string | null | undefined; onClose: () => void }) {
  const isOpen = id !== undefined;
  const rules = useQuery({ ...rulesQuery, enabled: isOpen }).data ?? [];
  const live = rulesReading(signal, rules).filter((rule) => rule.enabled && rule.mode !== "shadow");
  const turnOn = typeof id === "string";
  return (
    <Dialog title={turnOn ? `Switch the calibration of ${signal} on?` : `Switch the calibration of ${signal} off?`} isOpen={isOpen} onClose={onClose}>
      <Form
        submit={turnOn ? "Switch it on" : "Switch it off"}
        beside={<Button onPress={onClose}>Cancel</Button>}
        onSubmit={async () => {
          const switched = await switchCalibration(signal, id ?? null);
          toast(`The calibration is ${turnOn ? "on" : "off"}: version ${switched.version} of ${signal}, read by ${plural(switched.live_rules, "live rule")}.`);
          onClose();
        }}
      >
        <p>
          This makes a new version of the signal. New answers have {turnOn ? "calibrated" : "raw"} probabilities; answers that stand are not changed until the next analysis.
        </p>
        {live.length === 0 ? (
          <p>No live rule reads this signal.</p>
        ) : (
          <div>
            <p>{`${plural(live.length, "live rule")} ${live.length === 1 ? "compares" : "compare"} with it. The thresholds stay as they are written, but mean something else from then on:`}</p>
            <ul className={styles.rules}>
              {live.map((rule) => (
                <li key={rule.id}>
                  {rule.name}: <code>{rule.when}</code>
                </li>
              ))}
            </ul>
          </div>
        )}
      </Form>
    </Dialog>
  );
}
