// What can be done to many objects at once: label them or open a review of each. How many it is about stands first.
import { useState } from "react";

import { api, take, type Schemas } from "../../api/client";
import { sentenceOf } from "../../api/error";
import { queries, useMay } from "../../api/session";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { SelectField, TextField } from "../../parts/Field";
import { ForeignInline } from "../../parts/Foreign";
import { Form } from "../../parts/Form";
import { LabelButtons, labelText, type LabelValue } from "../../parts/Label";
import { Notice } from "../../parts/Notice";
import { toast } from "../../parts/Toast";
import { count, plural } from "../../parts/Values";
import styles from "./Explore.module.css";
import { Export } from "./Export";
import { inParts, type Progress, type Refusal } from "./in-parts";
import { idsOfMatches, type Sort } from "./objects";

type Signal = Schemas["Signal"];

/** As many as "select all" takes. */
const MOST_SELECTED = 1000;
const AT_ONCE = 4;

interface Props {
  q: string;
  sort: Sort;
  signals: readonly Signal[];
  selected: ReadonlySet<string>;
  onSelect: (selected: ReadonlySet<string>) => void;
  /** What is listed is still of the query before. */
  isSearching: boolean;
}

export function Bulk({ q, sort, signals, selected, onSelect, isSearching }: Props) {
  const may = useMay();
  const [open, setOpen] = useState<"label" | "review">();
  const [isSelecting, setSelecting] = useState(false);
  const selectAll = async () => {
    setSelecting(true);
    try {
      onSelect(new Set(await idsOfMatches(q, sort, MOST_SELECTED)));
    } catch (error) {
      toast(sentenceOf(error), { tone: "bad" });
    } finally {
      setSelecting(false);
    }
  };
  const canSelect = may("labels.write") || may("reviews.write");
  const close = () => setOpen(undefined);
  return (
    <div className={styles.bulk}>
      {/* What comes and goes with the selection stands last, so that nothing moves under the pointer. */}
      {canSelect && (
        <Button kind="quiet" isPending={isSelecting} isDisabled={isSearching} onPress={() => void selectAll()}>
          {`Select all that match (at most ${count(MOST_SELECTED)})`}
        </Button>
      )}
      <Export q={q} sort={sort} signals={signals} />
      {canSelect && (
        <span role="status" className={styles.selected}>
          {selected.size === 0 ? "None selected" : `${count(selected.size)} selected`}
        </span>
      )}
      {canSelect && selected.size > 0 && (
        <>
          {may("labels.write") && <Button onPress={() => setOpen("label")}>Label…</Button>}
          {may("reviews.write") && <Button onPress={() => setOpen("review")}>Open reviews…</Button>}
          <Button kind="quiet" onPress={() => onSelect(new Set())}>
            Select none
          </Button>
        </>
      )}
      <LabelMany isOpen={open === "label"} onClose={close} signals={signals} ids={[...selected]} onDone={() => onSelect(new Set())} />
      <ReviewMany isOpen={open === "review"} onClose={close} ids={[...selected]} onDone={() => onSelect(new Set())} />
    </div>
  );
}

interface Many {
  isOpen: boolean;
  onClose: () => void;
  ids: string[];
  onDone: () => void;
}

function LabelMany({ isOpen, onClose, signals, ids, onDone }: Many & { signals: readonly Signal[] }) {
  const [key, setKey] = useState<string>();
  const [value, setValue] = useState<LabelValue>();
  const [progress, setProgress] = useState<Progress>();
  const signal = signals.find((candidate) => candidate.key === key) ?? signals.find(({ type }) => type === "noul") ?? signals[0];
  const startOver = () => setProgress(undefined);
  const choose = (next: string) => {
    setKey(next);
    setValue(undefined);
    startOver();
  };
  const close = () => {
    if (progress && progress.done > 0) onDone();
    startOver();
    onClose();
  };
  const send = async () => {
    if (!signal || value === undefined) throw new Error("choose what is true first");
    startOver();
    const labelPart = async (part: string[]) => {
      const labels = part.map((object_id) => ({ object_id, signal: signal.key, value })) as Schemas["LabelCreate"][];
      return (await take(api.POST("/v1/labels", { body: { labels } }))).refused;
    };
    const labelled = await inParts(ids, labelPart, setProgress).finally(() => queries.invalidateQueries({ queryKey: ["object"] }));
    if (labelled.refused.length > 0) return;
    toast(`${plural(ids.length, "object")} labelled: ${signal.key} is ${labelText(value, signal)}.`);
    startOver();
    onDone();
    onClose();
  };
  return (
    <Dialog title={`Label ${plural(ids.length, "object")}`} isOpen={isOpen} onClose={close}>
      <Form submit={`Label ${plural(ids.length, "object")}`} isDisabled={value === undefined} beside={<Button onPress={close}>{progress ? "Close" : "Cancel"}</Button>} onSubmit={send}>
        <p>The same is said of every one of them. A label that you gave before is replaced.</p>
        <SelectField name="signal" label="Signal" options={signals.map((each) => ({ id: each.key, label: each.key }))} value={signal?.key} onChange={choose} />
        {signal && <LabelButtons signal={signal} value={value} onChoose={setValue} />}
        {progress && <p role="status">{`${count(progress.done)} of ${count(ids.length)} labelled`}</p>}
        {progress && <Refused refused={progress.refused} />}
      </Form>
    </Dialog>
  );
}

const MOST_NAMED = 10;

/** Which objects stayed as they were, and why. */
function Refused({ refused }: { refused: readonly Refusal[] }) {
  if (refused.length === 0) return null;
  return (
    <Notice tone="bad" live>
      <p>{plural(refused.length, "object was refused", "objects were refused")}:</p>
      <ul>
        {refused.slice(0, MOST_NAMED).map(({ objectId, message }) => (
          <li key={objectId}>
            <ForeignInline text={objectId} length={40} />: {message}
          </li>
        ))}
      </ul>
      {refused.length > MOST_NAMED && <p>{`and ${count(refused.length - MOST_NAMED)} more`}</p>}
    </Notice>
  );
}

function ReviewMany({ isOpen, onClose, ids, onDone }: Many) {
  const [done, setDone] = useState(0);
  const open = async ({ queue = "" }: Record<string, string>) => {
    setDone(0);
    for (let start = 0; start < ids.length; start += AT_ONCE) {
      await Promise.all(ids.slice(start, start + AT_ONCE).map((object_id) => take(api.POST("/v1/reviews", { body: { object_id, queue } }))));
      setDone(Math.min(ids.length, start + AT_ONCE));
    }
    toast(`${plural(ids.length, "object")} ${ids.length === 1 ? "waits" : "wait"} in the queue ${queue}.`);
    await queries.invalidateQueries({ queryKey: ["reviews"] });
    onDone();
    onClose();
  };
  return (
    <Dialog title={`Open ${plural(ids.length, "review")}`} isOpen={isOpen} onClose={onClose}>
      <Form submit={`Open ${plural(ids.length, "review")}`} fields={["queue"]} beside={<Button onPress={onClose}>Cancel</Button>} onSubmit={open}>
        <p>Objects that wait in the queue already stay as they are.</p>
        <TextField name="queue" label="Queue" defaultValue="manual" maxLength={64} isRequired autoFocus />
        {done > 0 && <p role="status">{`${count(done)} of ${count(ids.length)} opened`}</p>}
      </Form>
    </Dialog>
  );
}
