// Invites somebody by mail.
import { api, take } from "../../api/client";
import type { Role } from "../../api/may";
import { queries, roleOf, useMe } from "../../api/session";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { ChoiceField, TextField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { toast } from "../../parts/Toast";
import { ROLES } from "./queries";

export function Invite({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const mine = roleOf(useMe());
  return (
    <Dialog title="Invite somebody" isOpen={isOpen} onClose={onClose}>
      <Form
        submit="Send the invitation"
        fields={["email", "role"]}
        beside={<Button onPress={onClose}>Cancel</Button>}
        onSubmit={async ({ email = "", role }) => {
          await take(api.POST("/v1/invitations", { body: { email, role: role as Role } }));
          toast(`A link was mailed to ${email}. It works once, for 7 days.`);
          await queries.invalidateQueries({ queryKey: ["members"] });
          onClose();
        }}
      >
        <TextField name="email" label="Email" type="email" isRequired autoFocus autoComplete="off" />
        <ChoiceField name="role" label="Role" defaultValue="analyst" options={ROLES.filter(({ id }) => mine === "owner" || id !== "owner")} />
      </Form>
    </Dialog>
  );
}
