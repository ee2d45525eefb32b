// What moved an answer: how much it differs when a part of the history is not read.
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";

import { request, type Schemas } from "../../api/client";
import { answerText } from "../../parts/Answer";
import { Button } from "../../parts/Button";
import { Foreign } from "../../parts/Foreign";
import { isNotOffered, NotOffered } from "../../parts/NotOffered";
import { Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { signed, type Moved } from "../../parts/Timeline";
import { moneyOfMicros } from "../../parts/Values";
import styles from "./Object.module.css";

interface Explanation {
  answer: Schemas["Answer"];
  parts: { seq: number; kind: "event" | "message" | "summary"; excerpt: string; moved: number }[];
  method: "unread" | "left_out";
  cost_micros: number;
}

const METHODS: Record<Explanation["method"], string> = {
  unread: "The model read the question again with each part hidden.",
  left_out: "The question was asked again without each of the newest and longest parts.",
};

interface Props {
  objectId: string;
  signal: string;
  /** So that the timeline can mark the same parts. */
  onMoved: (parts: readonly Moved[]) => void;
  onClose: () => void;
}

export function Explain({ objectId, signal, onMoved, onClose }: Props) {
  const explanation = useQuery({
    queryKey: ["explain", objectId, signal],
    queryFn: () => request<Explanation>("POST", `/v1/objects/${encodeURIComponent(objectId)}/explain`, { signal }),
    // It is charged: asked once, and again only when somebody wants it.
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    retry: false,
  });
  const parts = explanation.data?.parts;
  useEffect(() => {
    if (parts) onMoved(parts);
  }, [parts, onMoved]);
  return (
    <Section
      title={`What moved ${signal}`}
      actions={
        <Button kind="quiet" icon="close" iconOnly onPress={onClose}>
          Close the explanation
        </Button>
      }
    >
      {explanation.isPending ? (
        <Skeleton lines={4} label="Asking again without each part" />
      ) : explanation.error ? (
        isNotOffered(explanation.error) ? (
          <NotOffered what="Saying what moved an answer" />
        ) : (
          <Failed error={explanation.error} retry={() => void explanation.refetch()} />
        )
      ) : (
        <Parts explanation={explanation.data} />
      )}
    </Section>
  );
}

function Parts({ explanation }: { explanation: Explanation }) {
  const largest = Math.max(0.01, ...explanation.parts.map((part) => Math.abs(part.moved)));
  if (explanation.parts.length === 0) return <Empty icon="signals" title="No part moved the answer by itself" />;
  return (
    <div className={styles.parts}>
      <p className={styles.soft}>
        The answer is {answerText(explanation.answer)}. {METHODS[explanation.method]} It cost {moneyOfMicros(explanation.cost_micros)}.
      </p>
      <ol className={styles.parts}>
        {explanation.parts.map((part) => (
          <li key={`${part.kind} ${part.seq}`} className={styles.part}>
            <span className={styles.moved}>
              <svg viewBox="-50 0 100 12" preserveAspectRatio="none" aria-hidden="true">
                <rect className={part.moved > 0 ? styles.up : styles.down} x={Math.min(0, (part.moved / largest) * 50)} y="2" width={Math.abs((part.moved / largest) * 50)} height="8" />
                <line className={styles.axis} x1="0" x2="0" y1="0" y2="12" />
              </svg>
              {signed(part.moved)}
            </span>
            <Foreign text={part.excerpt} />
          </li>
        ))}
      </ol>
    </div>
  );
}
