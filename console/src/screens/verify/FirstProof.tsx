// Whoever registered an address may not have been its owner. The first proof of an address ends what was set up before, unless the
// owner says that it was them. The form to follow a link comes with a list of what there is, and asks only where anything would end.
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { api, ApiError, type Schemas, take } from "../../api/client";
import { sentenceOf } from "../../api/error";
import { Checkbox } from "../../parts/Field";
import { ForeignInline } from "../../parts/Foreign";
import { Notice } from "../../parts/Notice";
import { Failed, Skeleton } from "../../parts/States";
import { count, plural } from "../../parts/Values";
import styles from "./FirstProof.module.css";

type Preview = Schemas["FirstProofPreview"];

interface Props {
  token: string;
  /** What to do instead where the link works no more. */
  otherwise: ReactNode;
  /** The form, which is given what it has to ask. It is not there before that is known. */
  children: (question: ReactNode) => ReactNode;
}

export function FirstProof({ token, otherwise, children }: Props) {
  const preview = useQuery({
    queryKey: ["first_proof", token],
    queryFn: () => take(api.POST("/auth/console/first_proof", { body: { token } })),
    retry: false,
    staleTime: Infinity,
  });
  // What is there stays, with what was typed, also where it is asked for again in vain.
  if (preview.data) return children(preview.data.first_proof ? <KeepQuestion preview={preview.data} /> : null);
  if (preview.isPending) return <Skeleton lines={4} />;
  if (preview.error instanceof ApiError && preview.error.code === "invalid_token")
    return (
      <Notice tone="bad" live>
        {sentenceOf(preview.error)} {otherwise}
      </Notice>
    );
  return <Failed error={preview.error} retry={() => void preview.refetch()} />;
}

/** Of one kind, so many are named. Whoever set them up chose how many there are, and how they are called. */
const MOST_NAMED = 8;
const MOST_CHARACTERS = 80;

function Named({ what, names }: { what: [one: string, many: string]; names: readonly string[] }) {
  if (names.length === 0) return null;
  const more = names.length - MOST_NAMED;
  return (
    <li>
      {plural(names.length, ...what)}:
      <ul className={styles.names}>
        {names.slice(0, MOST_NAMED).map((name, index) => (
          <li key={index}>
            <ForeignInline text={name} length={MOST_CHARACTERS} />
          </li>
        ))}
        {more > 0 && <li className={styles.more}>{`and ${count(more)} more`}</li>}
      </ul>
    </li>
  );
}

function KeepQuestion({ preview }: { preview: Preview }) {
  const lists: [what: [string, string], names: readonly string[]][] = [
    [["API key", "API keys"], preview.keys],
    [["webhook endpoint", "webhook endpoints"], preview.endpoints],
    [["rule", "rules"], preview.rules],
    [["linked provider", "linked providers"], preview.identities.map(({ provider, email }) => `${provider}, ${email}`)],
    [["passkey", "passkeys"], preview.passkeys],
    [["open invitation", "open invitations"], preview.invitations],
  ];
  const isEmpty = !preview.password && !preview.two_factor && preview.sessions === 0 && lists.every(([, names]) => names.length === 0);
  return (
    <>
      {!isEmpty && (
        <Notice>
          This was set up for the address before anybody proved that it is theirs:
          <ul className={styles.found}>
            {preview.password && <li>a password</li>}
            {preview.two_factor && <li>two-factor</li>}
            {preview.sessions > 0 && <li>{plural(preview.sessions, "open session")}</li>}
            {lists.map(([what, names]) => (
              <Named key={what[0]} what={what} names={names} />
            ))}
          </ul>
        </Notice>
      )}
      <Checkbox name="keep" value="true" hint="If you are not sure, leave it off: keys, sessions, linked providers and two-factor that were set up for this address are then removed, and its webhooks and rules turned off.">
        I set this account up myself; keep everything in it
      </Checkbox>
    </>
  );
}
