// The fields of a definition: type, wording, and the criteria of each type.
import { Button } from "../../parts/Button";
import { ChoiceField, TextField } from "../../parts/Field";
import { MOST, TYPES, type Draft, type SignalType } from "./definition";
import styles from "./Signals.module.css";

interface Props {
  draft: Draft;
  onChange: (draft: Draft) => void;
  isDisabled?: boolean;
}

export function DefinitionFields({ draft, onChange, isDisabled }: Props) {
  const set = (part: Partial<Draft>) => onChange({ ...draft, ...part });
  return (
    <>
      <ChoiceField name="type" label="Type" options={TYPES} value={draft.type} isDisabled={isDisabled} onChange={(type) => set({ type: type as SignalType })} />
      <TextField
        name="instructions"
        label={draft.isJson ? "Question (JSON)" : "Question"}
        hint="What to judge, and what counts most. It is passed to the model word for word."
        rows={draft.isJson ? 8 : 3}
        code={draft.isJson}
        value={draft.instructions}
        onChange={(instructions) => set({ instructions })}
        isRequired
        isDisabled={isDisabled}
      />
      {draft.type === "noul" && <Sides draft={draft} set={set} isDisabled={isDisabled} />}
      {draft.type === "score" && <Levels draft={draft} set={set} isDisabled={isDisabled} />}
      {draft.type === "choice" && <Options draft={draft} set={set} isDisabled={isDisabled} />}
    </>
  );
}

interface PartProps {
  draft: Draft;
  set: (part: Partial<Draft>) => void;
  isDisabled?: boolean;
}

function Sides({ draft, set, isDisabled }: PartProps) {
  return (
    <>
      <TextField name="yes" label="Yes means" hint="Optional. Describe what counts as yes." rows={2} value={draft.yes} onChange={(yes) => set({ yes })} isDisabled={isDisabled} />
      <TextField name="no" label="No means" hint="Optional. Describe what counts as no." rows={2} value={draft.no} onChange={(no) => set({ no })} isDisabled={isDisabled} />
    </>
  );
}

function Levels({ draft: { levels }, set, isDisabled }: PartProps) {
  const change = (at: number, text: string) => set({ levels: levels.map((level, index) => (index === at ? text : level)) });
  return (
    <fieldset className={styles.criteria} disabled={isDisabled}>
      <legend>Levels, from the lowest to the highest</legend>
      {levels.map((level, index) => (
        // Levels have no identity but their position.
        <div key={index} className={styles.criterion}>
          <TextField name={`level-${index}`} label={`Level ${index}`} value={level} onChange={(text) => change(index, text)} isRequired isDisabled={isDisabled} />
          <Button kind="quiet" icon="close" iconOnly isDisabled={isDisabled || levels.length <= 2} onPress={() => set({ levels: levels.filter((_, at) => at !== index) })}>
            {`Remove level ${index}`}
          </Button>
        </div>
      ))}
      <div>
        <Button icon="plus" isDisabled={isDisabled || levels.length >= MOST} onPress={() => set({ levels: [...levels, ""] })}>
          Add a level
        </Button>
      </div>
    </fieldset>
  );
}

function Options({ draft: { options }, set, isDisabled }: PartProps) {
  const change = (at: number, part: { name?: string; meaning?: string }) => set({ options: options.map((option, index) => (index === at ? { ...option, ...part } : option)) });
  return (
    <fieldset className={styles.criteria} disabled={isDisabled}>
      <legend>Options</legend>
      {options.map((option, index) => (
        <div key={index} className={`${styles.criterion} ${styles.option}`}>
          <TextField name={`option-${index}`} label={`Option ${index + 1}`} value={option.name} onChange={(name) => change(index, { name })} isRequired maxLength={64} code isDisabled={isDisabled} />
          <TextField name={`meaning-${index}`} label={`Option ${index + 1} means`} value={option.meaning} onChange={(meaning) => change(index, { meaning })} isDisabled={isDisabled} />
          <Button kind="quiet" icon="close" iconOnly isDisabled={isDisabled || options.length <= 2} onPress={() => set({ options: options.filter((_, at) => at !== index) })}>
            {`Remove option ${index + 1}`}
          </Button>
        </div>
      ))}
      <div>
        <Button icon="plus" isDisabled={isDisabled || options.length >= MOST} onPress={() => set({ options: [...options, { name: "", meaning: "" }] })}>
          Add an option
        </Button>
      </div>
    </fieldset>
  );
}
