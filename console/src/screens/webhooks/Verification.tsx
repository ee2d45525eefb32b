// How a receiver knows that a delivery is from here.
import { CodeBlock } from "../../parts/Code";
import { Section } from "../../parts/Screen";
import { Tabs } from "../../parts/Tabs";
import { PROGRAMS } from "./verification";
import styles from "./Webhooks.module.css";

export function Verification() {
  return (
    <Section title="Verify a delivery" about="Anybody can call your URL. The signature says that the call came from this service, and that nobody changed it.">
      <div className={styles.stack}>
        <Tabs label="Language" tabs={PROGRAMS.map(({ id, name, code }) => ({ id, name, content: <CodeBlock code={code} what={`the code in ${name}`} /> }))} />
        <ul className={styles.rules}>
          <li>Read the raw body before anything parses it.</li>
          <li>A delivery may arrive more than once: drop a <code>webhook-id</code> that you have seen.</li>
          <li>Deliveries may arrive out of order: ignore an <code>occurred_at</code> that is older than the latest you have for the object.</li>
          <li>Respond with a 2xx within ten seconds, and do the work afterwards. 429, 5xx and timeouts are tried again; any other status is final.</li>
        </ul>
        <p className={styles.soft}>The headers follow Standard Webhooks, so its libraries verify deliveries too.</p>
      </div>
    </Section>
  );
}
