// The member's own account: how they sign in, where they are signed in, what they are mailed; and what the account keeps.
import { useSuspenseQuery } from "@tanstack/react-query";

import { useMay, useMe, roleOf } from "../../api/session";
import { Badge } from "../../parts/Notice";
import { Facts, Screen, Section } from "../../parts/Screen";
import { timeZone } from "../../parts/Values";
import { Audits } from "./Audits";
import { Deletion } from "./Deletion";
import { Identities } from "./Identities";
import { Notifications } from "./Notifications";
import { Passkeys } from "./Passkeys";
import { Password } from "./Password";
import { accountQuery } from "./queries";
import { Retention } from "./Retention";
import { Sessions } from "./Sessions";
import { TwoFactor } from "./TwoFactor";

export default function Account() {
  const me = useMe();
  const may = useMay();
  useSuspenseQuery(accountQuery);
  return (
    <Screen title="Account" narrow>
      <Section title="You">
        <Facts
          items={[
            ["Email", <>{me.email} {me.email_verified ? <Badge tone="good">confirmed</Badge> : <Badge tone="warn">not confirmed</Badge>}</>],
            ["Account", me.tenant_name],
            ["Role", roleOf(me)],
            ["Times are shown in", timeZone],
          ]}
        />
      </Section>
      <Password />
      <TwoFactor />
      <Passkeys />
      <Identities />
      <Sessions />
      <Notifications />
      {may("settings.write") && <Retention />}
      {may("settings.write") && <Audits />}
      {may("account.delete") && <Deletion />}
    </Screen>
  );
}
