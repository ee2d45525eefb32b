import { api, take } from "../../api/client";
import { RecipientPage } from "./RecipientPage";

export default function Withdraw() {
  return (
    <RecipientPage
      title="Do you want no more mails?"
      about="The account that the mail is from will not be able to send you alerts, nor ask you about them."
      act="Send me no more mails"
      done="You will get no more of these mails."
      send={async (token) => void (await take(api.POST("/auth/console/recipients/withdraw", { params: { query: { token } } })))}
    />
  );
}
