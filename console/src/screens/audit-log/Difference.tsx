// What differs between two records, field by field.
import { Foreign } from "../../parts/Foreign";
import styles from "./AuditLog.module.css";

const fieldsOf = (record: unknown): Record<string, unknown> => (record && typeof record === "object" ? (record as Record<string, unknown>) : {});
const written = (value: unknown): string => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, undefined, 1));

export function Difference({ before, after }: { before: unknown; after: unknown }) {
  const [old, present] = [fieldsOf(before), fieldsOf(after)];
  const changed = [...new Set([...Object.keys(old), ...Object.keys(present)])].filter((name) => written(old[name]) !== written(present[name]));
  if (changed.length === 0) return <p className={styles.soft}>The entry holds no difference.</p>;
  return (
    <div className={styles.scroll} tabIndex={0} role="region" aria-label="What changed">
      <table className={styles.difference}>
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">Before</th>
            <th scope="col">After</th>
          </tr>
        </thead>
        <tbody>
          {changed.map((name) => (
            <tr key={name}>
              <th scope="row">
                <code>{name}</code>
              </th>
              <td className={styles.removed}>{old[name] !== undefined && <Foreign text={written(old[name])} code />}</td>
              <td className={styles.added}>{present[name] !== undefined && <Foreign text={written(present[name])} code />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
