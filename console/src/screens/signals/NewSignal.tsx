// A signal that does not exist yet: the wording is tried in the playground before anything is saved.
import { useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { ApiError } from "../../api/error";
import { signalsQuery } from "../../api/queries";
import { TextField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { Columns, GuardedScreen, Section } from "../../parts/Screen";
import { toast } from "../../parts/Toast";
import { DefinitionFields } from "./DefinitionFields";
import { definitionOf, emptyDraft, problemOf } from "./definition";
import { handOver, Playground, usePlayground } from "./Playground";
import { putSignal } from "./queries";
import styles from "./Signals.module.css";
import { signalPath } from "./Signals";

export default function NewSignal() {
  const [draft, setDraft] = useState(emptyDraft);
  const playground = usePlayground();
  const navigate = useNavigate();
  const { data: signals } = useSuspenseQuery(signalsQuery);
  const save = async (key: string) => {
    // The service would take it as a new wording of that signal.
    if (signals.some((signal) => signal.key === key)) throw new ApiError(409, "conflict", "key: there is a signal of this key already");
    const problem = problemOf(draft);
    if (problem) throw new Error(problem);
    const signal = await putSignal(key, definitionOf(draft));
    toast(signal.backfill ? `${key} is saved, and is being asked about the objects that are there.` : `${key} is saved. New analyses ask it.`);
    handOver(playground);
    await navigate({ to: signalPath(key) });
  };
  return (
    <GuardedScreen needs="signals.write" title="New signal" about="Write the question, try it beside the form, and save it when the answers are what you would say.">
      <Columns>
        <Section title="Wording">
          <Form submit="Save the signal" fields={["key", "instructions"]} guard={{ isChanged: JSON.stringify(draft) !== JSON.stringify(emptyDraft) }} onSubmit={({ key = "" }) => save(key.trim())}>
            <div className={styles.form}>
              <TextField name="key" label="Key" placeholder="off_platform" hint="By this name rules, searches and your programs know it. Letters, digits and underscores; it cannot change." isRequired maxLength={64} code autoComplete="off" />
              <DefinitionFields draft={draft} onChange={setDraft} />
            </div>
          </Form>
        </Section>
        <Playground draft={draft} state={playground} />
      </Columns>
    </GuardedScreen>
  );
}
