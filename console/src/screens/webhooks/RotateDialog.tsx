// A new secret for an endpoint, with a time in which both are valid.
import { useState } from "react";

import { Dialog } from "../../parts/Dialog";
import { SelectField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { rotateSecret, type Endpoint, type EndpointSecret } from "./queries";
import { SecretDialog } from "./SecretDialog";

const OVERLAPS = [
  { id: "0", label: "None: the old one ends at once" },
  { id: "1", label: "1 hour" },
  { id: "24", label: "24 hours" },
  { id: "168", label: "7 days" },
];

export function RotateDialog({ endpoint, isOpen, onClose }: { endpoint: Endpoint; isOpen: boolean; onClose: () => void }) {
  const [made, setMade] = useState<EndpointSecret>();
  return (
    <>
      <Dialog title="Rotate the secret" isOpen={isOpen} onClose={onClose}>
        <Form
          submit="Make a new secret"
          onSubmit={async ({ overlap = "24" }) => {
            setMade(await rotateSecret(endpoint.id, Number(overlap)));
            onClose();
          }}
        >
          <p>Meanwhile deliveries carry both signatures, so that a receiver with either secret takes them.</p>
          <SelectField name="overlap" label="Both are valid for" options={OVERLAPS} defaultValue="24" />
        </Form>
      </Dialog>
      <SecretDialog made={made} onClose={() => setMade(undefined)} />
    </>
  );
}
