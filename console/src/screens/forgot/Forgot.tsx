import { useState } from "react";

import { api, take } from "../../api/client";
import { TextField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { Link } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import { ThresholdPage } from "../../shell/ThresholdPage";

export default function Forgot() {
  const [sentTo, setSentTo] = useState<string>();
  return (
    <ThresholdPage
      title="Forgot your password?"
      about={sentTo ? undefined : "We mail you a link to choose a new one."}
      foot={<Link to="/console/sign-in">Back to sign in</Link>}
    >
      {sentTo ? (
        <Notice tone="good" live>
          If {sentTo} belongs to a member, a mail with a link is on its way to it. The link works once. Look into the spam folder if it does not arrive.
        </Notice>
      ) : (
        <Form
          submit="Send the link"
          wide
          fields={["email"]}
          onSubmit={async ({ email = "" }) => {
            await take(api.POST("/auth/console/password/forgot", { body: { email } }));
            setSentTo(email);
          }}
        >
          <TextField name="email" label="Email" type="email" isRequired autoFocus autoComplete="username" />
        </Form>
      )}
    </ThresholdPage>
  );
}
