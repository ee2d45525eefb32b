// The secret of an endpoint, which is shown once.
import { Button } from "../../parts/Button";
import { SecretOnce } from "../../parts/Code";
import { Dialog } from "../../parts/Dialog";
import type { EndpointSecret } from "./queries";

export function SecretDialog({ made, onClose }: { made: EndpointSecret | undefined; onClose: () => void }) {
  return (
    <Dialog title="The signing secret" isOpen={made !== undefined} onClose={onClose}>
      {made && <SecretOnce note={made.note} items={[{ name: "Secret", value: made.secret }]} />}
      <Button kind="primary" onPress={onClose}>
        I have stored it
      </Button>
    </Dialog>
  );
}
