// What moved an answer about the object. Its parts are marked in the timeline, too.
import type { UseQueryResult } from "@tanstack/react-query";
import { useEffect, useRef } from "react";

import type { ExplainedPart, Explanation as Explained } from "../../api/explanations";
import { Button } from "../../parts/Button";
import { Explanation } from "../../parts/Explanation";
import { Section } from "../../parts/Screen";
import { eventElementId } from "../../parts/Timeline";
import { toast } from "../../parts/Toast";

interface Props {
  signal: string;
  result: UseQueryResult<Explained>;
  onClose: () => void;
}

export function Explain({ signal, result, onClose }: Props) {
  const section = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // Chromium answers with a promise, which React would take for what ends the effect.
    void section.current?.scrollIntoView({ block: "start" });
    // Again once the result is there, which is taller than what stood in for it.
  }, [signal, result.isFetching]);
  return (
    <div ref={section}>
      <Section
        title={`What moved ${signal}`}
        actions={
          <Button kind="quiet" icon="close" iconOnly onPress={onClose}>
            Close the explanation
          </Button>
        }
      >
        <Explanation result={result} onShow={showInTimeline} />
      </Section>
    </div>
  );
}

function showInTimeline({ seq }: ExplainedPart): void {
  const element = document.getElementById(eventElementId(seq ?? -1));
  if (!element) return void toast("The timeline does not show this event now: switch events on, or load more of it.");
  element.scrollIntoView({ block: "center" });
  element.focus({ preventScroll: true });
}
