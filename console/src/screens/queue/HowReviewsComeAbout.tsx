// The empty state of queues: what would put something into them.
import { useMay } from "../../api/session";
import { Link } from "../../parts/Link";
import { Empty } from "../../parts/States";
import { ACTIONS } from "../rules/action";
import styles from "./Queue.module.css";

const REVIEW_ACTION = ACTIONS.find(({ id }) => id === "review")?.label;

export function HowReviewsComeAbout({ title, action }: { title: string; action?: React.ReactNode }) {
  const may = useMay();
  return (
    <Empty icon="queue" title={title} action={action ?? (may("rules.write") && <Link to="/console/rules" kind="primary">Make a rule</Link>)}>
      <p>Reviews come about in these ways:</p>
      <ul className={styles.ways}>
        <li>
          A <Link to="/console/rules">rule</Link> with the action “{REVIEW_ACTION}” puts every object that meets its condition into a queue.
        </li>
        <li>A share of all analyzed objects is drawn at random, if the account’s audit rate is above 0 %. Only these labels can show what the rules missed.
          {may("settings.write") && (
            <>
              {" "}
              <Link to="/console/account">Set it under Account</Link>.
            </>
          )}</li>
        <li>
          A person opens one on the screen of an object, or of many objects at once in <Link to="/console/explore">Explore</Link>.
        </li>
        <li>
          Your program opens one with <code>POST /v1/reviews</code>.
        </li>
      </ul>
    </Empty>
  );
}
