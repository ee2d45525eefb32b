// Sign-in with a passkey: by a button, or by one that the browser suggests where the email is typed.
import { useCallback, useEffect, useRef, useState } from "react";

import { api, take } from "../../api/client";
import { askForPasskey, hasPasskeys, suggestsPasskeys } from "../../api/passkeys";
import { signedIn } from "../../api/session";
import { Button } from "../../parts/Button";
import { Problem } from "../../parts/Form";
import { Or } from "../../shell/ThresholdPage";

/** A challenge is good for five minutes; a suggestion that is older is asked for again. */
const RENEW_MS = 4 * 60_000;

interface Props {
  /** The browser may suggest passkeys in the field of the email, which is on the same page. */
  suggests?: boolean;
  onSignedIn?: () => void;
}

export function PasskeySignIn({ suggests = false, onSignedIn }: Props) {
  const [pending, setPending] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const suggestion = useRef<AbortController>(undefined);
  // What is done once signed in may be another function with each render; the suggestion must not start again for that.
  const enter = useRef(onSignedIn);
  enter.current = onSignedIn;

  const signIn = useCallback(async (suggest?: AbortController) => {
    const body = await askForPasskey(suggest);
    setPending(true);
    try {
      await take(api.POST("/auth/console/passkey/finish", { body }));
      await signedIn();
      enter.current?.();
    } finally {
      setPending(false);
    }
  }, []);

  const suggest = useCallback(() => {
    const controller = new AbortController();
    suggestion.current = controller;
    // Whoever does not take the suggestion need not hear why it ended; one that was taken and refused is said.
    const isOver = (error: unknown) => controller.signal.aborted || error instanceof DOMException || !(error instanceof Error) || error.cause instanceof DOMException;
    void signIn(controller).catch((error: unknown) => !isOver(error) && setProblem(error));
  }, [signIn]);

  useEffect(() => {
    if (!suggests) return;
    let renewing: ReturnType<typeof setInterval> | undefined;
    let left = false;
    void suggestsPasskeys().then((does) => {
      if (!does || left) return;
      suggest();
      renewing = setInterval(suggest, RENEW_MS);
    });
    return () => {
      left = true;
      clearInterval(renewing);
      suggestion.current?.abort();
    };
  }, [suggests, suggest]);

  if (!hasPasskeys()) return null;
  const byButton = async () => {
    setProblem(undefined);
    setPending(true);
    try {
      await signIn();
    } catch (error) {
      setProblem(error);
    } finally {
      setPending(false);
    }
  };
  return (
    <>
      <Or />
      <Button icon="keys" isPending={pending} onPress={() => void byButton()}>
        Sign in with a passkey
      </Button>
      {problem !== undefined && <Problem problem={problem} />}
    </>
  );
}
