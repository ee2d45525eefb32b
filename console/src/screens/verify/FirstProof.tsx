// Whoever registered an address may not have been its owner. The first proof of an address ends what was set up before, unless the
// owner says that it was them. The form to follow a link comes with a list of what there is, and asks only where anything would end.
// Neither answer is chosen beforehand: the page cannot know whose link it is.
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { api, ApiError, type Schemas, take } from "../../api/client";
import { sentenceOf } from "../../api/error";
import { ChoiceField } from "../../parts/Field";
import { ForeignInline } from "../../parts/Foreign";
import { Notice } from "../../parts/Notice";
import { Failed, Skeleton } from "../../parts/States";
import { count, plural } from "../../parts/Values";
import styles from "./FirstProof.module.css";

export type Preview = Schemas["FirstProofPreview"];

interface Props {
  token: string;
  /** What to do instead where the link works no more. */
  otherwise: ReactNode;
  /** The form, which is given what it has to ask, and what would end. It is not there before that is known. */
  children: (question: ReactNode, preview: Preview) => ReactNode;
}

export function FirstProof({ token, otherwise, children }: Props) {
  const preview = useQuery({
    queryKey: ["first_proof", token],
    queryFn: () => take(api.POST("/auth/console/first_proof", { body: { token } })),
    retry: false,
    staleTime: Infinity,
  });
  // What is there stays, with what was typed, also where it is asked for again in vain.
  if (preview.data) return children(preview.data.first_proof && !isEmpty(preview.data) ? <KeepQuestion preview={preview.data} /> : null, preview.data);
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

const ENDS: [what: [string, string], names: (preview: Preview) => readonly string[]][] = [
  [["API key", "API keys"], ({ keys }) => keys],
  [["linked provider", "linked providers"], ({ identities }) => identities.map(({ provider, email }) => `${provider}, ${email}`)],
  [["passkey", "passkeys"], ({ passkeys }) => passkeys],
  [["open invitation", "open invitations"], ({ invitations }) => invitations],
];
const TURNED_OFF: typeof ENDS = [
  [["webhook endpoint", "webhook endpoints"], ({ endpoints }) => endpoints],
  [["rule", "rules"], ({ rules }) => rules],
];

const isEmpty = (preview: Preview) => !preview.password && !preview.two_factor && preview.sessions === 0 && [...ENDS, ...TURNED_OFF].every(([, names]) => names(preview).length === 0);

const counted = (preview: Preview, lists: typeof ENDS) => lists.flatMap(([what, names]) => (names(preview).length > 0 ? [plural(names(preview).length, ...what)] : []));

const LIST = new Intl.ListFormat("en-GB");

/** What ends, and what is turned off, without names. */
function endsOf(preview: Preview): { ended: string; turnedOff: string } {
  const ended = [preview.password && "the password", preview.two_factor && "two-factor", preview.sessions > 0 && plural(preview.sessions, "open session"), ...counted(preview, ENDS)];
  return { ended: LIST.format(ended.filter((what) => what !== false)), turnedOff: LIST.format(counted(preview, TURNED_OFF)) };
}

/** "It was not me" is sent without the session of this browser: the service would take it for the owner's, and keep everything. */
export const asAnswered = (keep: string | undefined) => ({ keep: keep === "true", ...(keep === "false" && { credentials: "omit" as const }) });

/** What has become of an account whose owner said that they did not set it up. */
export function Ended({ preview }: { preview: Preview }) {
  const { ended, turnedOff } = endsOf(preview);
  return (
    <Notice live>
      {ended && <p>{`Ended, as you asked: ${ended}.`}</p>}
      {turnedOff && <p>{`Turned off: ${turnedOff}.`}</p>}
    </Notice>
  );
}

function KeepQuestion({ preview }: { preview: Preview }) {
  const { ended, turnedOff } = endsOf(preview);
  const goes = [ended && `Ends ${ended}.`, turnedOff && `Turns off ${turnedOff}.`].filter(Boolean).join(" ");
  return (
    <>
      <Notice>
        This was set up for the address before anybody proved that it is theirs:
        <ul className={styles.found}>
          {preview.password && <li>a password</li>}
          {preview.two_factor && <li>two-factor</li>}
          {preview.sessions > 0 && <li>{plural(preview.sessions, "open session")}</li>}
          {[...ENDS, ...TURNED_OFF].map(([what, names]) => (
            <Named key={what[0]} what={what} names={names(preview)} />
          ))}
        </ul>
      </Notice>
      <ChoiceField
        name="keep"
        label="Who set this up?"
        isRequired
        options={[
          { id: "true", label: "It was me: keep what is set up", hint: "Everything stays as it is." },
          { id: "false", label: "It was not me, or I am not sure: end what is set up", hint: goes },
        ]}
      />
    </>
  );
}
