// Says that the service cannot be reached, and when it can again. What was typed stays where it is.
import { connection, probeNow } from "../api/connection";
import { useStore } from "../api/store";
import { Button } from "../parts/Button";
import { Notice } from "../parts/Notice";
import styles from "./ConnectionBanner.module.css";

const TEXTS = {
  offline: "The service cannot be reached. What you have typed is kept; send it again once this message is gone.",
  unavailable: "The service cannot work right now: its database does not respond or it is restarting. What you have typed is kept.",
};

export function ConnectionBanner() {
  const state = useStore(connection);
  return (
    <div role="status" className={styles.banner}>
      {state !== "good" && (
        <Notice tone="warn" action={<Button onPress={() => void probeNow()}>Try now</Button>}>
          {TEXTS[state]}
        </Notice>
      )}
    </div>
  );
}
