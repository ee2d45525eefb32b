// One object: the answers about it now and over time, what a person said, and everything that happened, in one list.
import { useQuery, useSuspenseQueries } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { api, take, type Schemas } from "../../api/client";
import { sentenceOf } from "../../api/error";
import { explanationQuery, type Explanation } from "../../api/explanations";
import { objectQuery, wholeObjectQuery } from "../../api/objects";
import { signalsQuery } from "../../api/queries";
import { queries, useMay } from "../../api/session";
import { Button } from "../../parts/Button";
import { CopyButton } from "../../parts/Code";
import { ForeignInline, plainForeign } from "../../parts/Foreign";
import { ActionMenu } from "../../parts/Menu";
import { Screen } from "../../parts/Screen";
import type { Moved } from "../../parts/Timeline";
import { toast } from "../../parts/Toast";
import { plural } from "../../parts/Values";
import { Answers } from "./Answers";
import { AnswersOverTime } from "./AnswersOverTime";
import { DeleteObject } from "./DeleteObject";
import { Explain } from "./Explain";
import { History } from "./History";
import styles from "./Object.module.css";
import { OpenReview } from "./OpenReview";

/** While answers are pending, the object is read again this often. */
const PENDING_MS = 1500;

/** How often at most an object is read again for a new analysis. */
const READS = 40;

const newest = (object: Schemas["ObjectAnalysis"] | undefined): string => object?.analysis.map(({ computed_at }) => computed_at).sort().at(-1) ?? "";

/** Answers that stand are not pending while they are asked for again, so the object is read until its answers are newer. */
async function showNextAnalysis(objectId: string): Promise<void> {
  const query = objectQuery(objectId);
  const before = newest(queries.getQueryData(query.queryKey));
  for (let reads = 0; reads < READS; reads++) {
    const object = await queries.fetchQuery({ ...query, staleTime: 0 }).catch(() => undefined);
    if (newest(object) > before) return queries.invalidateQueries({ queryKey: ["object", objectId] });
    await new Promise((resolve) => setTimeout(resolve, PENDING_MS));
  }
}

type Dialogs = "" | "review" | "delete";

export default function ObjectScreen() {
  const { objectId } = useParams({ strict: false }) as { objectId: string };
  // Another object starts afresh: no dialog, explanation or filter is carried over.
  return <OneObject key={objectId} objectId={objectId} />;
}

function OneObject({ objectId }: { objectId: string }) {
  const [{ data: object }, { data: signals }] = useSuspenseQueries({ queries: [{ ...wholeObjectQuery(objectId), refetchInterval: pendingInterval }, signalsQuery] });
  const [dialog, setDialog] = useState<Dialogs>("");
  const [explained, setExplained] = useState<string>();
  const explanation = useQuery({ ...explanationQuery(objectId, explained ?? ""), enabled: explained !== undefined });
  const moved = useMemo(() => movedOf(explained ? explanation.data : undefined), [explained, explanation.data]);
  const name = object.display_name ?? objectId;
  const close = () => setDialog("");
  return (
    <Screen
      title={plainForeign(name)}
      about={
        <span className={styles.about}>
          <span>
            <ForeignInline text={object.object_type} length={64} />
          </span>
          <span className={styles.id}>
            <code>
              <ForeignInline text={objectId} length={300} />
            </code>
            <CopyButton text={objectId} what="object id" />
          </span>
          <span>{plural(object.event_count, "event")}</span>
        </span>
      }
      actions={<Actions objectId={objectId} open={setDialog} />}
    >
      <div className={styles.columns}>
        <div className={styles.side}>
          <Answers object={object} signals={signals} explained={explained} onExplain={setExplained} />
          {explained && <Explain signal={explained} result={explanation} onClose={() => setExplained(undefined)} />}
          <AnswersOverTime objectId={objectId} signals={signals} answered={object.analysis.map(({ key }) => key)} />
        </div>
        <History objectId={objectId} eventCount={object.event_count} signals={signals} moved={moved} pending={object.pending.length > 0} />
      </div>
      <OpenReview objectId={objectId} signals={signals} isOpen={dialog === "review"} onClose={close} />
      <DeleteObject objectId={objectId} object={object} isOpen={dialog === "delete"} onClose={close} />
    </Screen>
  );
}

const movedOf = (explanation: Explanation | undefined): Moved | undefined => explanation && { type: explanation.answer.type, parts: explanation.parts };

const pendingInterval = (query: { state: { data?: Schemas["ObjectAnalysis"] } }) => (query.state.data?.pending.length ? PENDING_MS : false);

function Actions({ objectId, open }: { objectId: string; open: (dialog: Dialogs) => void }) {
  const may = useMay();
  const [pending, setPending] = useState(false);
  const analyze = async () => {
    setPending(true);
    try {
      await take(api.POST("/v1/objects/{object_id}/analyze", { params: { path: { object_id: objectId } } }));
      toast("A new analysis is scheduled. Its answers appear here by themselves.");
      void showNextAnalysis(objectId);
    } catch (error) {
      toast(sentenceOf(error), { tone: "bad" });
    } finally {
      setPending(false);
    }
  };
  return (
    <>
      {may("reviews.write") && (
        <Button icon="queue" onPress={() => open("review")}>
          Open a review
        </Button>
      )}
      {may("objects.write") && (
        <>
          <Button icon="signals" isPending={pending} onPress={() => void analyze()}>
            Analyze again
          </Button>
          <ActionMenu
            label="More about this object"
            actions={[
              { id: "delete", name: "Delete…", icon: "close", danger: true, run: () => open("delete") },
            ]}
          />
        </>
      )}
    </>
  );
}
