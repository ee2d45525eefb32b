// The empty state of queues: what would put something into them.
import { useMay } from "../../api/session";
import { Link } from "../../parts/Link";
import { Empty } from "../../parts/States";
import styles from "./Queue.module.css";

export function HowReviewsComeAbout({ title, action }: { title: string; action?: React.ReactNode }) {
  const may = useMay();
  return (
    <Empty icon="queue" title={title} action={action ?? (may("rules.write") && <Link to="/console/rules" kind="primary">Make a rule</Link>)}>
      <p>Reviews come about in three ways:</p>
      <ul className={styles.ways}>
        <li>
          A <Link to="/console/rules">rule</Link> with the action “review” puts every object that meets its condition into a queue.
        </li>
        <li>A share of all analyzed objects is drawn at random, if the account’s audit rate is above 0 %. Only such labels show what was missed.
          {may("settings.write") && (
            <>
              {" "}
              <Link to="/console/account">Set it under Account</Link>.
            </>
          )}</li>
        <li>
          A person opens one, on the screen of an <Link to="/console/explore">object</Link>.
        </li>
      </ul>
    </Empty>
  );
}
