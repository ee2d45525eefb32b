import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { hasPasskeys } from "../../api/passkeys";
import { providersQuery, stateQuery } from "../../api/session";
import { Link } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import { safeNext } from "../../router";
import { ThresholdPage } from "../../shell/ThresholdPage";
import { PasskeySignIn } from "./PasskeySignIn";
import { ProviderButtons } from "./ProviderButtons";
import { SignInForm } from "./SignInForm";

const REASONS: Record<string, string> = {
  reset: "Your password is changed. Sign in with the new one.",
  verified: "Your address is confirmed.",
};

export default function SignIn() {
  const search = useSearch({ strict: false }) as { next?: string; after?: string };
  const navigate = useNavigate();
  const state = useQuery(stateQuery);
  const providers = useQuery(providersQuery);
  const enter = () => void navigate({ href: safeNext(search.next) });
  const reason = REASONS[search.after ?? ""];
  return (
    <ThresholdPage
      title="Sign in"
      foot={
        state.data?.empty ? (
          <p>
            Nobody has an account here yet. <Link to="/console/register">Open the first one</Link>
          </p>
        ) : (
          providers.data?.allow_registration && (
            <p>
              New here? <Link to="/console/register">Open an account</Link>
            </p>
          )
        )
      }
    >
      {reason && <Notice tone="good">{reason}</Notice>}
      <SignInForm onSignedIn={enter} />
      <p>
        <Link to="/console/forgot">Forgot your password?</Link>
      </p>
      <PasskeySignIn suggests onSignedIn={enter} />
      <ProviderButtons follows={hasPasskeys()} onSignedIn={enter} />
    </ThresholdPage>
  );
}
