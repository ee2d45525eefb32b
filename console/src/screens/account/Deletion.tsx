// The end of the account: an owner asks for its deletion, and every owner can take that back until the day comes.
import { useState } from "react";

import { api, take } from "../../api/client";
import { meQuery, queries, useMe } from "../../api/session";
import { Button } from "../../parts/Button";
import { ConfirmDialog } from "../../parts/Dialog";
import { Problem } from "../../parts/Form";
import { Notice } from "../../parts/Notice";
import { Section } from "../../parts/Screen";
import { toast } from "../../parts/Toast";
import { absoluteTime } from "../../parts/Values";

const GOES = [
  "all objects with their events, answers, labels and reviews",
  "all signals, rules, webhook endpoints and API keys",
  "all members, and that you can sign in",
  "the balance that is left, and the ledger except for its sums",
];

const changed = () => queries.invalidateQueries({ queryKey: meQuery.queryKey });

export function Deletion() {
  const me = useMe();
  const [asking, setAsking] = useState(false);
  return (
    <Section title="Delete the account" about="For everybody in this account.">
      {me.deletes_at ? (
        <Pending at={me.deletes_at} />
      ) : (
        <div>
          <p>It is deleted seven days after you ask for it. Until then it works as before, and every owner is mailed and can take it back.</p>
          <p>
            <Button kind="danger" onPress={() => setAsking(true)}>
              Delete the account…
            </Button>
          </p>
        </div>
      )}
      <ConfirmDialog
        title={`Delete the account ${me.tenant_name}?`}
        isOpen={asking}
        onClose={() => setAsking(false)}
        act="Delete it in seven days"
        goes={GOES}
        typed={me.tenant_name.trim()}
        onConfirm={async () => {
          const { deletes_at } = await take(api.POST("/v1/account/deletion", { body: { tenant_name: me.tenant_name } }));
          await changed();
          toast(`The account will be deleted on ${absoluteTime(deletes_at)}.`);
        }}
      >
        <p>After seven days this cannot be undone. Export first what you want to keep, under Explore.</p>
      </ConfirmDialog>
    </Section>
  );
}

function Pending({ at }: { at: string }) {
  const [pending, setPending] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const takeBack = async () => {
    setPending(true);
    setProblem(undefined);
    try {
      await take(api.DELETE("/v1/account/deletion"));
      await changed();
      toast("The account stays.");
    } catch (error) {
      setProblem(error);
    } finally {
      setPending(false);
    }
  };
  return (
    <>
      <Notice
        tone="bad"
        action={
          <Button isPending={pending} onPress={() => void takeBack()}>
            Take it back
          </Button>
        }
      >
        An owner has asked to delete this account. Everything in it is deleted on {absoluteTime(at)}.
      </Notice>
      {problem !== undefined && <Problem problem={problem} />}
    </>
  );
}
