// A new secret for an endpoint, with a time in which both are valid.
import { useState } from "react";

import { Dialog } from "../../parts/Dialog";
import { SelectField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { isNotOffered, NotOffered } from "../../parts/NotOffered";
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
  const [notOffered, setNotOffered] = useState(false);
  const rotate = async (hours: number) => {
    try {
      setMade(await rotateSecret(endpoint.id, hours));
      onClose();
    } catch (error) {
      if (!isNotOffered(error)) throw error;
      setNotOffered(true);
    }
  };
  return (
    <>
      <Dialog title="Rotate the secret" isOpen={isOpen} onClose={onClose}>
        {notOffered ? (
          <NotOffered what="Rotating a secret">
            <p>Until then, create a second endpoint of the same URL, and delete this one once the receiver knows the new secret.</p>
          </NotOffered>
        ) : (
          <Form submit="Make a new secret" onSubmit={({ overlap = "24" }) => rotate(Number(overlap))}>
            <p>Meanwhile deliveries carry both signatures, so that a receiver with either secret takes them.</p>
            <SelectField name="overlap" label="Both are valid for" options={OVERLAPS} defaultValue="24" />
          </Form>
        )}
      </Dialog>
      <SecretDialog made={made} onClose={() => setMade(undefined)} />
    </>
  );
}
