import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { api, take } from "../../api/client";
import { providersQuery, signedIn, stateQuery } from "../../api/session";
import { PasswordField, TextField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { Link } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import { ThresholdPage } from "../../shell/ThresholdPage";
import { ProviderButtons } from "../sign-in/ProviderButtons";

export default function Register() {
  const navigate = useNavigate();
  const first = useQuery(stateQuery).data?.empty ?? false;
  const closed = useQuery(providersQuery).data?.allow_registration === false;
  const enter = () => void navigate({ to: "/console/first-steps" as string });
  const about = first ? "Nobody has an account on this install yet. Yours will be the first, and you its owner." : "It comes with three signals that work at once.";
  return (
    <ThresholdPage
      title={first ? "Open the first account" : "Open an account"}
      about={about}
      foot={
        // On an empty install nobody is a member yet.
        !first && (
          <p>
            Already a member? <Link to="/console/sign-in">Sign in</Link>
          </p>
        )
      }
    >
      {closed ? (
        <Notice tone="warn">This install does not take registrations. Ask its operator, or a member of your account, for an invitation.</Notice>
      ) : (
        <>
          <Form
            submit="Open the account"
            wide
            fields={["tenant_name", "email", "password"]}
            fieldOfCode={{ weak_password: "password", conflict: "email" }}
            onSubmit={async (values) => {
              await take(api.POST("/auth/console/register", { body: values as { tenant_name: string; email: string; password: string } }));
              await signedIn();
              enter();
            }}
          >
            <TextField name="tenant_name" label="Name of the account" hint="Your company or project." isRequired autoFocus autoComplete="organization" />
            <TextField name="email" label="Email" type="email" isRequired autoComplete="username" />
            <PasswordField name="password" label="Password" hint="At least 8 characters, and not easy to guess." isRequired minLength={8} maxLength={256} autoComplete="new-password" />
          </Form>
          <ProviderButtons onSignedIn={enter} />
        </>
      )}
    </ThresholdPage>
  );
}
