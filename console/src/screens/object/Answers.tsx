// The answers about an object as they stand, each with what a person said about it.
import { useQuery } from "@tanstack/react-query";

import type { Schemas } from "../../api/client";
import { sentenceOf } from "../../api/error";
import { objectLabelsQuery, putLabel, removeLabel } from "../../api/objects";
import { useMay } from "../../api/session";
import { AnswerView } from "../../parts/Answer";
import { Button } from "../../parts/Button";
import { ForeignInline } from "../../parts/Foreign";
import { LabelButtons, labelText, levelNames, type LabelValue } from "../../parts/Label";
import { Link } from "../../parts/Link";
import { Badge } from "../../parts/Notice";
import { Section } from "../../parts/Screen";
import { Empty } from "../../parts/States";
import { toast } from "../../parts/Toast";
import { Time } from "../../parts/Values";
import styles from "./Object.module.css";

type Signal = Schemas["Signal"];

interface Props {
  object: Schemas["ObjectAnalysis"];
  signals: readonly Signal[];
  explained: string | undefined;
  onExplain: (signal: string) => void;
}

export function Answers({ object, signals, explained, onExplain }: Props) {
  const mayExplain = useMay()("explain");
  const labels = useQuery(objectLabelsQuery(object.object_id));
  const shown = signals.filter((signal) => signal.enabled || object.analysis.some(({ key }) => key === signal.key));
  return (
    <Section title="Answers now" about="What the service says, and what you know to be true.">
      {shown.length === 0 ? (
        <Empty icon="signals" title="No signals" action={<Link to="/console/signals" kind="plain">Make one</Link>}>
          Signals are the questions that are asked about every object.
        </Empty>
      ) : (
        <>
          <ul className={styles.signals}>
            {shown.map((signal) => (
              <OneAnswer
                key={signal.key}
                object={object}
                signal={signal}
                label={labels.data?.find((candidate) => candidate.signal === signal.key)}
                isExplained={explained === signal.key}
                onExplain={() => onExplain(signal.key)}
              />
            ))}
          </ul>
          {mayExplain && (
            <p id="price-of-explaining" className={styles.price}>
              “What moved it” asks the model again without each part. It is charged by what is read, as a verdict is; 20 events cost less than three verdicts with the embedded model.
            </p>
          )}
        </>
      )}
    </Section>
  );
}

interface OneProps {
  object: Schemas["ObjectAnalysis"];
  signal: Signal;
  label: Schemas["Label"] | undefined;
  isExplained: boolean;
  onExplain: () => void;
}

function OneAnswer({ object, signal, label, isExplained, onExplain }: OneProps) {
  const may = useMay();
  const answer = object.analysis.find(({ key }) => key === signal.key);
  const pending = object.pending.includes(signal.key);
  return (
    <li className={styles.signal}>
      <div className={styles.signalHead}>
        <h3>
          <code>{signal.key}</code> {pending && <Badge tone="info">being asked</Badge>}
        </h3>
        {answer && (
          <span className={styles.soft}>
            {answer.model} <Time at={answer.computed_at} />
          </span>
        )}
      </div>
      {answer ? (
        <AnswerView answer={answer} label={signal.key} levels={levelNames(signal.criteria)} />
      ) : (
        <p className={styles.soft}>{pending ? "The first answer is on its way." : "No answer yet. It comes with the next analysis."}</p>
      )}
      <div className={styles.truth}>
        {may("labels.write") ? <Truth objectId={object.object_id} signal={signal} label={label} /> : label && <span className={styles.soft}>{`Labelled ${labelText(label.value, signal)}`}</span>}
        {answer && may("explain") && (
          <Button aria-expanded={isExplained} aria-label={`What moved ${signal.key}`} aria-describedby="price-of-explaining" onPress={onExplain}>
            What moved it
          </Button>
        )}
      </div>
      {label && (
        <p className={styles.soft}>
          Labelled by <ForeignInline text={label.by.name} />, <Time at={label.created_at} />
        </p>
      )}
    </li>
  );
}

function Truth({ objectId, signal, label }: { objectId: string; signal: Signal; label: Schemas["Label"] | undefined }) {
  const choose = async (value: LabelValue) => {
    try {
      if (label && label.value === value) {
        await removeLabel(label);
        toast("The label is taken back.");
      } else {
        await putLabel(objectId, signal.key, value);
        toast(`Labelled ${signal.key} ${labelText(value, signal)}.`);
      }
    } catch (error) {
      toast(sentenceOf(error), { tone: "bad" });
    }
  };
  return <LabelButtons signal={signal} value={label?.value} onChoose={(value) => void choose(value)} />;
}
