import { useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { api, take } from "../../api/client";
import { queries, meQuery } from "../../api/session";
import { Form } from "../../parts/Form";
import { Link } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import { ThresholdPage } from "../../shell/ThresholdPage";
import { asAnswered, Ended, FirstProof, type Preview } from "./FirstProof";

export default function Verify() {
  const { token } = useSearch({ strict: false }) as { token?: string };
  const [done, setDone] = useState(false);
  const [ended, setEnded] = useState<Preview>();
  if (!token)
    return (
      <ThresholdPage title="Confirm your address">
        <Notice tone="bad">This link is not complete. Open it from the mail again.</Notice>
      </ThresholdPage>
    );
  return (
    <ThresholdPage title={done ? "Your address is confirmed" : "Confirm your address"} about={done ? undefined : "This proves that the address is yours."}>
      {done ? (
        <>
          {ended && <Ended preview={ended} />}
          {ended?.password && <p>The account has no password now. Choose a new one to sign in.</p>}
          <Link to={ended?.password ? "/console/forgot" : "/console"} kind="primary">
            {ended?.password ? "Choose a new password" : "To the console"}
          </Link>
        </>
      ) : (
        <FirstProof token={token} otherwise={<>If you have followed it before, <Link to="/console/sign-in">sign in</Link>.</>}>
          {(question, preview) => (
            <Form
              submit="Confirm the address"
              wide
              onSubmit={async ({ keep }) => {
                const { keep: keeps, ...request } = asAnswered(keep);
                await take(api.POST("/auth/console/verify", { body: { token, keep: keeps }, ...request }));
                queries.removeQueries({ queryKey: meQuery.queryKey });
                setEnded(keep === "false" ? preview : undefined);
                setDone(true);
              }}
            >
              {question}
            </Form>
          )}
        </FirstProof>
      )}
    </ThresholdPage>
  );
}
