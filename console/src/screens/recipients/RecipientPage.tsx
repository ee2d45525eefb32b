// What both links of a rule's mail have in common: one question, one press.
import { useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { Form } from "../../parts/Form";
import { Notice } from "../../parts/Notice";
import { ThresholdPage } from "../../shell/ThresholdPage";

interface Props {
  title: string;
  about: string;
  act: string;
  done: string;
  send: (token: string) => Promise<void>;
}

export function RecipientPage({ title, about, act, done, send }: Props) {
  const { token } = useSearch({ strict: false }) as { token?: string };
  const [sent, setSent] = useState(false);
  return (
    <ThresholdPage title={title} about={sent ? undefined : about}>
      {!token && <Notice tone="bad">This link is not complete. Open it from the mail again.</Notice>}
      {token && sent && (
        <Notice tone="good" live>
          {done}
        </Notice>
      )}
      {token && !sent && (
        <Form
          submit={act}
          wide
          onSubmit={async () => {
            await send(token);
            setSent(true);
          }}
        />
      )}
    </ThresholdPage>
  );
}
