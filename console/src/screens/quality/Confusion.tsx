// Which answer was given where which one is true.
import type { Schemas } from "../../api/client";
import { labelOptions } from "../../parts/Label";
import { Section } from "../../parts/Screen";
import { count, percent } from "../../parts/Values";
import type { Quality } from "./queries";
import styles from "./Quality.module.css";

export function Confusion({ quality, signal }: { quality: Quality; signal: Schemas["Signal"] }) {
  const matrix = quality.confusion ?? {};
  const options = labelOptions(signal);
  const named = new Map(options.map((option) => [String(option.value), option.name]));
  const seen = [...Object.keys(matrix), ...Object.values(matrix).flatMap((row) => Object.keys(row))];
  const keys = [...new Set([...options.map((option) => String(option.value)), ...seen])];
  const name = (key: string) => named.get(key) ?? key;
  return (
    <Section title="Confusion matrix" about="Rows are what is true, columns what the service answered. The diagonal is right.">
      <div className={styles.scroll} tabIndex={0} role="region" aria-label="Counts by truth and answer">
        <table className={styles.matrix}>
          <thead>
            <tr>
              <th scope="col">True</th>
              {keys.map((key) => (
                <th key={key} scope="col">
                  {name(key)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {keys.map((truth) => {
              const row = matrix[truth] ?? {};
              const total = Object.values(row).reduce((sum, each) => sum + each, 0);
              return (
                <tr key={truth}>
                  <th scope="row">{name(truth)}</th>
                  {keys.map((answered) => {
                    const cell = row[answered] ?? 0;
                    return (
                      <td key={answered} data-right={truth === answered || undefined} data-none={cell === 0 || undefined}>
                        <span className={styles.cell}>
                          {count(cell)}
                          <span className={styles.means}>{total > 0 ? percent(cell / total) : ""}</span>
                        </span>
                      </td>
                    );
                  })}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Section>
  );
}
