// The session ended while somebody worked. They sign in again on top of the screen, which keeps what was typed; the requests that
// were refused are then repeated.
import { ApiError } from "../api/error";
import { signInGate } from "../api/gates";
import { leave, meQuery, queries } from "../api/session";
import { useStore } from "../api/store";
import { Button } from "../parts/Button";
import { Dialog } from "../parts/Dialog";
import { PasskeySignIn } from "../screens/sign-in/PasskeySignIn";
import { SignInForm } from "../screens/sign-in/SignInForm";

export function SignInDialog() {
  const open = useStore(signInGate.open);
  const email = queries.getQueryData(meQuery.queryKey)?.email;
  const elsewhere = () => {
    signInGate.refuse(new ApiError(401, "unauthorized", "your session has ended"));
    leave(location.pathname + location.search);
  };
  return (
    <Dialog title="Your session has ended" isOpen={open} onClose={() => {}} mustAnswer>
      <p>Sign in again to go on where you are. Nothing that you typed is lost.</p>
      <SignInForm email={email} />
      <PasskeySignIn />
      <Button kind="quiet" onPress={elsewhere}>
        Sign in as somebody else
      </Button>
    </Dialog>
  );
}
