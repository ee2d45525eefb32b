import { api, take } from "../../api/client";
import { RecipientPage } from "./RecipientPage";

export default function Confirm() {
  return (
    <RecipientPage
      title="Do you want these alerts?"
      about="If you agree, the account that the mail names may send you its alerts."
      act="Yes, send me these alerts"
      done="Thank you. You will get the alerts. Every one of them has a link to end them."
      send={async (token) => void (await take(api.POST("/auth/console/recipients/confirm", { body: { token } })))}
    />
  );
}
