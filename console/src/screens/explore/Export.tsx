// Objects as a file: those that match, with a column for each signal, or everything of one kind as the service streams it.
import { useEffect, useRef, useState } from "react";

import type { Schemas } from "../../api/client";
import { sentenceOf } from "../../api/error";
import { Button } from "../../parts/Button";
import buttonStyles from "../../parts/Button.module.css";
import { Dialog } from "../../parts/Dialog";
import { SelectField } from "../../parts/Field";
import { Notice } from "../../parts/Notice";
import { toast } from "../../parts/Toast";
import { count, plural } from "../../parts/Values";
import { csvHead, csvRows, download } from "./csv";
import styles from "./Explore.module.css";
import { countOfMatches, pagesOfMatches, type Sort } from "./objects";

interface Props {
  q: string;
  sort: Sort;
  signals: readonly Schemas["Signal"][];
}

export function Export(props: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button kind="quiet" onPress={() => setOpen(true)}>
        Export…
      </Button>
      <Dialog title="Export" isOpen={isOpen} onClose={() => setOpen(false)}>
        <Matches {...props} />
        <Everything />
      </Dialog>
    </>
  );
}

/** What the file lacks or may lack, in a sentence; none if it has all. Only a search by answers, which has no cursor, ends before it has found all. */
function shortfallOf(rows: number, hasCursor: boolean, matching: Schemas["MatchCount"]): string | undefined {
  const inFile = `the file has ${plural(rows, "object")}`;
  if (rows < matching.count) return `The file does not have all: ${inFile}, and ${matching.capped ? "at least " : ""}${count(matching.count)} match.`;
  if (!matching.capped || hasCursor) return undefined;
  return `The file may not have all: ${inFile}, and the service counts only up to ${count(matching.count)}. A search by answers may end after the first 50,000 objects; a narrower condition finds all.`;
}

/** What matches, read page by page. The page keeps none of it: each piece is handed to the browser, which puts large files on disk. */
function Matches({ q, sort, signals }: Props) {
  const [written, setWritten] = useState<number>();
  const [problem, setProblem] = useState<string>();
  const [shortfall, setShortfall] = useState<string>();
  const running = useRef<AbortController>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  const write = async () => {
    const control = new AbortController();
    running.current = control;
    setProblem(undefined);
    setShortfall(undefined);
    setWritten(0);
    const keys = signals.map(({ key }) => key);
    const pieces = [new Blob([csvHead(keys)])];
    let rows = 0;
    let hasCursor = q === "";
    try {
      for await (const page of pagesOfMatches(q, sort, control.signal)) {
        pieces.push(new Blob([csvRows(page.objects, keys)]));
        rows += page.objects.length;
        hasCursor ||= page.next_cursor !== undefined;
        setWritten(rows);
      }
      const lacking = shortfallOf(rows, hasCursor, await countOfMatches(q, control.signal));
      download("objects.csv", new Blob(pieces, { type: "text/csv" }));
      setShortfall(lacking);
      if (!lacking) toast(`${plural(rows, "object")} ${rows === 1 ? "is" : "are"} in the file.`);
    } catch (error) {
      if (!control.signal.aborted) setProblem(`${sentenceOf(error)} After ${plural(rows, "object")}; no file was made.`);
    } finally {
      setWritten(undefined);
    }
  };
  return (
    <section className={styles.exportKind} aria-labelledby="export-matches">
      <h3 id="export-matches">{q ? "The objects that match" : "All objects, as they are listed"}</h3>
      {q && <code className={styles.exported}>{q}</code>}
      <p>
        CSV, sorted as here: id, type, name, number of events, last seen, and the present answer to each signal in a column of its own. It is read page by page, so an object that
        {q || sort !== "recent" ? " starts or stops to match" : " is seen"} meanwhile may be missing or there twice.
      </p>
      {problem && <Notice tone="bad">{problem}</Notice>}
      {shortfall && (
        <Notice tone="warn" live>
          {shortfall}
        </Notice>
      )}
      {written === undefined ? (
        <div>
          <Button onPress={() => void write()}>Export as a table</Button>
        </div>
      ) : (
        <div className={styles.exporting}>
          <span role="status">{`${count(written)} read`}</span>
          <Button kind="quiet" onPress={() => running.current?.abort()}>
            Stop
          </Button>
        </div>
      )}
    </section>
  );
}

const KINDS = [
  { id: "objects", label: "Objects", hint: "with their present answers, as JSON" },
  { id: "answers", label: "Past answers", hint: "a row for each signal of each analysis" },
  { id: "labels", label: "Labels" },
  { id: "events", label: "Events", hint: "as far as they are kept" },
];
const FORMATS = [
  { id: "csv", label: "CSV" },
  { id: "ndjson", label: "JSON, a record on each line" },
];

/** A plain link: the browser takes the stream as it comes. */
function Everything() {
  const [what, setWhat] = useState("objects");
  const [format, setFormat] = useState("csv");
  return (
    <section className={styles.exportKind} aria-labelledby="export-everything">
      <h3 id="export-everything">Everything of one kind</h3>
      <p>Of the whole account, whatever the condition here says. The service streams it, however much it is. A download that breaks off is not whole.</p>
      <SelectField name="what" label="What" options={KINDS} value={what} onChange={setWhat} />
      <SelectField name="format" label="Format" options={FORMATS} value={format} onChange={setFormat} />
      <div>
        <a className={`${buttonStyles.button} ${buttonStyles.plain}`} href={`/v1/export?${new URLSearchParams({ what, format })}`} download>
          Download everything
        </a>
      </div>
    </section>
  );
}
