// Two gates that a request may have to pass: a session that ended, and proof of who is there. A gate opens a dialog, and whoever
// waits at it goes on once the dialog succeeds.
import { ApiError } from "./error";
import { Store } from "./store";

/** True once `GET /v1/me` has answered: from then on a 401 means that the session has ended, not that there is none. */
export const sessionKnown = new Store(false);

class Gate {
  /** Whether the dialog is open. */
  readonly open = new Store(false);
  #waiting: { pass: () => void; refuse: (error: ApiError) => void }[] = [];

  wait(): Promise<void> {
    return new Promise((pass, refuse) => {
      this.#waiting.push({ pass, refuse });
      this.open.set(true);
    });
  }

  pass(): void {
    this.#end((waiter) => waiter.pass());
  }

  refuse(error: ApiError): void {
    this.#end((waiter) => waiter.refuse(error));
  }

  #end(tell: (waiter: { pass: () => void; refuse: (error: ApiError) => void }) => void): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.open.set(false);
    waiting.forEach(tell);
  }
}

export const signInGate = new Gate();
export const proofGate = new Gate();

export const askToSignInAgain = (): Promise<void> => signInGate.wait();
export const askForProof = (): Promise<void> => proofGate.wait();

export const proofRefused = (): ApiError =>
  new ApiError(403, "reauthentication_required", "this needs proof that it is you; nothing was changed");
