// Whoever registered an address may not have been its owner. The first proof of an address ends what was set up before, unless the
// owner says that it was them. The page shows what there is, and asks only where anything would end.
import { useQuery } from "@tanstack/react-query";

import { api, type Schemas, take } from "../../api/client";
import { Checkbox } from "../../parts/Field";
import { Notice } from "../../parts/Notice";

type Preview = Schemas["FirstProofPreview"];

function listed(what: string, names: string[]): string[] {
  return names.length === 0 ? [] : [`${what}: ${names.join(", ")}`];
}

/** What would end, a line each. */
function lines(preview: Preview): string[] {
  return [
    ...(preview.password ? ["A password"] : []),
    ...(preview.two_factor ? ["Two-factor"] : []),
    ...(preview.sessions > 0 ? [preview.sessions === 1 ? "1 open session" : `${preview.sessions} open sessions`] : []),
    ...listed("API keys", preview.keys),
    ...listed("Webhook endpoints", preview.endpoints),
    ...listed("Rules", preview.rules),
    ...listed(
      "Linked providers",
      preview.identities.map(({ provider, email }) => `${provider} (${email})`),
    ),
    ...listed("Passkeys", preview.passkeys),
    ...listed("Open invitations", preview.invitations),
  ];
}

export function KeepQuestion({ token }: { token: string }) {
  const { data } = useQuery({
    queryKey: ["first_proof", token],
    queryFn: () => take(api.POST("/auth/console/first_proof", { body: { token } })),
    retry: false,
    staleTime: Infinity,
  });
  if (data && !data.first_proof) return null;
  const found = data ? lines(data) : [];
  return (
    <>
      {found.length > 0 && (
        <Notice>
          This was set up for the address before anybody proved that it is theirs:
          <ul>
            {found.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </Notice>
      )}
      <Checkbox name="keep" value="true" hint="If you are not sure, leave it off: keys, sessions, linked providers and two-factor that were set up for this address are then removed, and its webhooks and rules turned off.">
        I set this account up myself; keep everything in it
      </Checkbox>
    </>
  );
}
