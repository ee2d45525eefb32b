// Form fields. Each has a label, may have a hint, and shows its own error: the browser's, or the server's by the field's name.
import { useState, type ReactNode } from "react";
import { Button as AriaButton } from "react-aria-components/Button";
import { Checkbox as AriaCheckbox } from "react-aria-components/Checkbox";
import { FieldError } from "react-aria-components/FieldError";
import { Input } from "react-aria-components/Input";
import { Label } from "react-aria-components/Label";
import { ListBox, ListBoxItem } from "react-aria-components/ListBox";
import { Popover } from "react-aria-components/Popover";
import { Radio, RadioGroup } from "react-aria-components/RadioGroup";
import { Select, SelectValue } from "react-aria-components/Select";
import { Switch as AriaSwitch } from "react-aria-components/Switch";
import { Text } from "react-aria-components/Text";
import { TextArea } from "react-aria-components/TextArea";
import { TextField as AriaTextField } from "react-aria-components/TextField";

import { Button } from "./Button";
import styles from "./Field.module.css";
import { Icon } from "./Icon";

interface Common {
  name: string;
  label: string;
  hint?: ReactNode;
  isRequired?: boolean;
  isDisabled?: boolean;
  autoFocus?: boolean;
}

interface TextProps extends Common {
  value?: string;
  defaultValue?: string;
  onChange?: (value: string) => void;
  type?: "text" | "email" | "url" | "password" | "search" | "number";
  inputMode?: "text" | "numeric" | "email" | "url" | "decimal";
  autoComplete?: string;
  placeholder?: string;
  minLength?: number;
  maxLength?: number;
  /** More than one line. */
  rows?: number;
  /** Text that is code: fixed width, no spell checking. */
  code?: boolean;
  /** What is wrong with the value, in a sentence. */
  validate?: (value: string) => string | undefined;
}

const Hint = ({ children }: { children?: ReactNode }) =>
  children ? (
    <Text slot="description" className={styles.hint}>
      {children}
    </Text>
  ) : null;

const Problem = () => (
  <FieldError className={styles.problem}>
    {({ validationErrors }) => (
      <>
        <Icon name="bad" size={14} />
        <span>{validationErrors.join(" ")}</span>
      </>
    )}
  </FieldError>
);

export function TextField({ label, hint, rows, code, placeholder, inputMode, ...rest }: TextProps) {
  const className = `${styles.input} ${code ? styles.code : ""}`;
  return (
    <AriaTextField {...rest} className={styles.field} spellCheck={code ? "false" : undefined}>
      <Label className={styles.label}>{label}</Label>
      {rows ? (
        <TextArea className={className} rows={rows} placeholder={placeholder} />
      ) : (
        <Input className={className} placeholder={placeholder} inputMode={inputMode} />
      )}
      <Hint>{hint}</Hint>
      <Problem />
    </AriaTextField>
  );
}

/** A password, which can be shown while it is typed. */
export function PasswordField({ label, hint, ...rest }: Omit<TextProps, "type" | "rows">) {
  const [shown, setShown] = useState(false);
  return (
    <AriaTextField {...rest} type={shown ? "text" : "password"} className={styles.field} spellCheck="false">
      <Label className={styles.label}>{label}</Label>
      <div className={styles.joined}>
        <Input className={styles.input} />
        <Button kind="quiet" icon="eye" iconOnly aria-pressed={shown} onPress={() => setShown(!shown)}>
          {shown ? "Hide password" : "Show password"}
        </Button>
      </div>
      <Hint>{hint}</Hint>
      <Problem />
    </AriaTextField>
  );
}

/** A code of an authenticator, or a recovery code. */
export function CodeField({ label = "Authenticator code", hint, ...rest }: Partial<Common>) {
  return (
    <TextField {...rest} name={rest.name ?? "code"} label={label} hint={hint} isRequired code autoComplete="one-time-code" inputMode="text" maxLength={64} />
  );
}

interface SelectProps extends Common {
  options: { id: string; label: string; hint?: string }[];
  value?: string;
  defaultValue?: string;
  onChange?: (value: string) => void;
  /** The label is read out only: for fields in tables, whose column names them. */
  hideLabel?: boolean;
}

export function SelectField({ label, hint, options, value, defaultValue, onChange, hideLabel = false, ...rest }: SelectProps) {
  return (
    <Select {...rest} className={styles.field} value={value} defaultValue={defaultValue} onChange={(key) => onChange?.(String(key))}>
      <Label className={hideLabel ? "unseen" : styles.label}>{label}</Label>
      <AriaButton className={`${styles.input} ${styles.select}`}>
        <SelectValue />
        <Icon name="down" />
      </AriaButton>
      <Hint>{hint}</Hint>
      <Problem />
      <Popover className={styles.popover}>
        <ListBox items={options} className={styles.list}>
          {(option) => (
            <ListBoxItem id={option.id} textValue={option.label} className={styles.option}>
              <Text slot="label">{option.label}</Text>
              {option.hint && (
                <Text slot="description" className={styles.hint}>
                  {option.hint}
                </Text>
              )}
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </Select>
  );
}

/** One of a few, each with what it means. */
export function ChoiceField({ label, hint, options, value, defaultValue, onChange, ...rest }: SelectProps) {
  return (
    <RadioGroup {...rest} className={styles.field} value={value} defaultValue={defaultValue} onChange={onChange}>
      <Label className={styles.label}>{label}</Label>
      <Hint>{hint}</Hint>
      <div className={styles.choices}>
        {options.map((option) => (
          <Radio key={option.id} value={option.id} className={styles.choice}>
            <span className={styles.dot} aria-hidden="true" />
            <span>
              {option.label}
              {option.hint && <span className={styles.hint}>{option.hint}</span>}
            </span>
          </Radio>
        ))}
      </div>
      <Problem />
    </RadioGroup>
  );
}

interface ToggleProps {
  name?: string;
  children: ReactNode;
  hint?: ReactNode;
  isSelected?: boolean;
  defaultSelected?: boolean;
  isDisabled?: boolean;
  onChange?: (selected: boolean) => void;
}

/** Something that is on or off at once, without a button to save it. */
export function Switch({ children, hint, ...rest }: ToggleProps) {
  return (
    <AriaSwitch {...rest} className={styles.toggle}>
      <span className={styles.track} aria-hidden="true">
        <span className={styles.knob} />
      </span>
      <span>
        {children}
        {hint && <span className={styles.hint}>{hint}</span>}
      </span>
    </AriaSwitch>
  );
}

/** Something that is said with a form. */
export function Checkbox({ children, hint, ...rest }: ToggleProps & { value?: string; isRequired?: boolean }) {
  return (
    <AriaCheckbox {...rest} className={styles.toggle}>
      <span className={styles.box} aria-hidden="true">
        <Icon name="check" size={12} />
      </span>
      <span>
        {children}
        {hint && <span className={styles.hint}>{hint}</span>}
      </span>
    </AriaCheckbox>
  );
}
