import { useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { api, take } from "../../api/client";
import { queries, meQuery } from "../../api/session";
import { Form } from "../../parts/Form";
import { Link } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import { ThresholdPage } from "../../shell/ThresholdPage";
import { FirstProof } from "./FirstProof";

export default function Verify() {
  const { token } = useSearch({ strict: false }) as { token?: string };
  const [done, setDone] = useState(false);
  if (!token)
    return (
      <ThresholdPage title="Confirm your address">
        <Notice tone="bad">This link is not complete. Open it from the mail again.</Notice>
      </ThresholdPage>
    );
  return (
    <ThresholdPage title={done ? "Your address is confirmed" : "Confirm your address"} about={done ? undefined : "One press, and the address is proved to be yours."}>
      {done ? (
        <Link to="/console" kind="primary">
          To the console
        </Link>
      ) : (
        <FirstProof token={token} otherwise={<>If you have followed it before, <Link to="/console/sign-in">sign in</Link>.</>}>
          {(question) => (
            <Form
              submit="Confirm the address"
              wide
              onSubmit={async ({ keep }) => {
                await take(api.POST("/auth/console/verify", { body: { token, keep: keep === "true" } }));
                queries.removeQueries({ queryKey: meQuery.queryKey });
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
