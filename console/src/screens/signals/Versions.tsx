// Every wording that the signal had, newest first, each as what changed in it.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { useMay } from "../../api/session";
import { Button } from "../../parts/Button";
import { ConfirmDialog } from "../../parts/Dialog";
import { Badge } from "../../parts/Notice";
import { Section } from "../../parts/Screen";
import { Failed, Skeleton } from "../../parts/States";
import { toast } from "../../parts/Toast";
import { plural, Time } from "../../parts/Values";
import { linesOf } from "./definition";
import { differenceOf } from "./difference";
import { restoreVersion, versionsQuery, type Signal, type Version } from "./queries";
import styles from "./Signals.module.css";

export function Versions({ signal }: { signal: Signal }) {
  const versions = useQuery(versionsQuery(signal.key));
  const canWrite = useMay()("signals.write");
  const [restoring, setRestoring] = useState<Version>();
  if (versions.isPending) return <Skeleton lines={6} />;
  if (versions.error) return <Failed error={versions.error} retry={() => void versions.refetch()} />;
  const newestFirst = versions.data.toSorted((one, other) => other.version - one.version);
  return (
    <Section title="Versions" about="Every change of the type, the wording, the criteria or the calibration makes one. Answers keep the version that was asked.">
      <ol>
        {newestFirst.map((version, index) => (
          <li key={version.version} className={styles.version}>
            <div className={styles.versionHead}>
              <span className={styles.row}>
                <strong>Version {version.version}</strong>
                {index === 0 && <Badge tone="good">present</Badge>}
                {version.calibration && <Badge>calibrated</Badge>}
                <span className={styles.soft}>
                  <Time at={version.created_at} />
                  {version.by && ` by ${version.by.name}`}, the present answer of {plural(version.objects, "object")}
                </span>
              </span>
              {canWrite && index > 0 && (
                <Button aria-label={`Restore version ${version.version}`} onPress={() => setRestoring(version)}>
                  Restore…
                </Button>
              )}
            </div>
            <Change version={version} before={newestFirst[index + 1]} />
          </li>
        ))}
      </ol>
      <ConfirmDialog
        title={`Restore version ${restoring?.version}?`}
        isOpen={restoring !== undefined}
        onClose={() => setRestoring(undefined)}
        act="Restore"
        onConfirm={async () => {
          if (!restoring) return;
          await restoreVersion(signal.key, restoring.version);
          toast(`Version ${restoring.version} is the present wording again, as the next version.`);
        }}
      >
        <p>Its wording becomes the next version. Versions in between stay, and objects keep their answers until their next analysis.</p>
        {restoring && restoring.type !== signal.type && <p>It has another type: all present answers to this signal go.</p>}
      </ConfirmDialog>
    </Section>
  );
}

function Change({ version, before }: { version: Version; before: Version | undefined }) {
  const after = linesOf(version).join("\n");
  if (!before) return <div className={styles.difference}>{after}</div>;
  const pieces = differenceOf(linesOf(before).join("\n"), after);
  const switched = (version.calibration ?? "") !== (before.calibration ?? "");
  if (pieces.every((piece) => piece.change === "same")) {
    return <p className={styles.soft}>{switched ? `The same wording; calibration ${version.calibration ? "switched on" : "switched off"}.` : "The same wording."}</p>;
  }
  return (
    <div className={styles.difference}>
      {pieces.map((piece, index) => {
        if (piece.change === "same") return <span key={index}>{piece.text}</span>;
        return piece.change === "added" ? <ins key={index}>{piece.text}</ins> : <del key={index}>{piece.text}</del>;
      })}
    </div>
  );
}
