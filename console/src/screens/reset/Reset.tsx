import { useNavigate, useSearch } from "@tanstack/react-router";

import { api, take } from "../../api/client";
import { PasswordField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { Link } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import { ThresholdPage } from "../../shell/ThresholdPage";
import { asAnswered, FirstProof } from "../verify/FirstProof";

export default function Reset() {
  const { token } = useSearch({ strict: false }) as { token?: string };
  const navigate = useNavigate();
  return (
    <ThresholdPage title="Choose a new password" foot={<Link to="/console/sign-in">Back to sign in</Link>}>
      {token ? (
        <FirstProof token={token} otherwise={<Link to="/console/forgot">Ask for a new one</Link>}>
          {(question) => (
            <Form
              submit="Set the password"
              wide
              fields={["password"]}
              fieldOfCode={{ weak_password: "password" }}
              onSubmit={async ({ password = "", keep }) => {
                const { keep: keeps, ...request } = asAnswered(keep);
                await take(api.POST("/auth/console/password/reset", { body: { token, password, keep: keeps }, ...request }));
                await navigate({ to: "/console/sign-in" as string, search: { after: "reset" } as never });
              }}
            >
              <PasswordField name="password" label="New password" hint="At least 8 characters, and not easy to guess." isRequired minLength={8} maxLength={256} autoFocus autoComplete="new-password" />
              {question}
            </Form>
          )}
        </FirstProof>
      ) : (
        <Notice tone="bad">
          This link is not complete. Open it from the mail again, or <Link to="/console/forgot">ask for a new one</Link>.
        </Notice>
      )}
    </ThresholdPage>
  );
}
