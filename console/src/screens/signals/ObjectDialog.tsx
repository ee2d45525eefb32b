// Chooses an object by a part of its id or name, or by a condition.
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";

import { api, take } from "../../api/client";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { TextField } from "../../parts/Field";
import { ForeignInline, plainForeign } from "../../parts/Foreign";
import { Problem } from "../../parts/Form";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { plural } from "../../parts/Values";
import styles from "./Signals.module.css";

export interface Chosen {
  id: string;
  name: string;
  type: string;
}

interface Props {
  isOpen: boolean;
  onClose: () => void;
  onChoose: (object: Chosen) => Promise<void>;
}

const SHOWN = 8;

export function ObjectDialog({ isOpen, onClose, onChoose }: Props) {
  return (
    <Dialog title="Take an object’s events" isOpen={isOpen} onClose={onClose}>
      <Search onChoose={onChoose} />
    </Dialog>
  );
}

function Search({ onChoose }: Pick<Props, "onChoose">) {
  const [text, setText] = useState("");
  const q = useDeferredValue(text.trim());
  const [problem, setProblem] = useState<unknown>();
  const found = useQuery({
    queryKey: ["objects", "choose", q],
    queryFn: ({ signal }) => take(api.GET("/v1/objects", { params: { query: { q: q || undefined, limit: SHOWN } }, signal })),
    placeholderData: (previous) => previous,
  });
  return (
    <div className={styles.stack}>
      <TextField name="object" label="Object" hint="A part of its id or name. Its newest 50 events are taken." value={text} onChange={setText} autoFocus autoComplete="off" />
      {found.error && <Failed error={found.error} retry={() => void found.refetch()} />}
      {problem !== undefined && <Problem problem={problem} />}
      {found.isPending && <Skeleton lines={4} />}
      {found.data?.objects.length === 0 && <Empty icon="explore" title="No object matches" />}
      {found.data && found.data.objects.length > 0 && (
        <ul className={styles.events} aria-label="Objects">
          {found.data.objects.map((object) => (
            <li key={object.object_id} className={styles.event}>
              <p>
                <ForeignInline text={object.display_name ?? object.object_id} />{" "}
                <span className={styles.soft}>
                  <ForeignInline text={object.object_type} length={64} />, {plural(object.event_count, "event")}
                </span>
              </p>
              <Button kind="quiet" aria-label={`Take the events of ${plainForeign(object.display_name ?? object.object_id)}`} onPress={() => void onChoose({ id: object.object_id, name: object.display_name ?? object.object_id, type: object.object_type }).catch(setProblem)}>
                Take
              </Button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
