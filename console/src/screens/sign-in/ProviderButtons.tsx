// One button for each provider that this install knows.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, take } from "../../api/client";
import { askProvider, type Provider, useProviderNames } from "../../api/oauth";
import { providersQuery, signedIn } from "../../api/session";
import { Button } from "../../parts/Button";
import { Problem } from "../../parts/Form";
import { Or } from "../../shell/ThresholdPage";

interface Props {
  onSignedIn: (isNew: boolean) => void;
  /** The token of an invitation to accept with it. */
  invitation?: string;
  /** Another way stands above it already, below an "or". */
  follows?: boolean;
}

export function ProviderButtons({ onSignedIn, invitation, follows = false }: Props) {
  const { data } = useQuery(providersQuery);
  const nameOf = useProviderNames();
  const [pending, setPending] = useState<Provider>();
  const [problem, setProblem] = useState<unknown>();
  if (!data || data.providers.length === 0) return null;

  const signIn = async (provider: Provider) => {
    setPending(provider);
    setProblem(undefined);
    try {
      const proof = { ...(await askProvider(provider)), ...(invitation && { invitation }) };
      const token = await take(api.POST("/auth/console/oauth/{provider}", { params: { path: { provider } }, body: proof }));
      await signedIn();
      onSignedIn(token.new_user ?? false);
    } catch (error) {
      setProblem(error);
    } finally {
      setPending(undefined);
    }
  };
  return (
    <>
      {!follows && <Or />}
      {data.providers.map((provider) => (
        <Button key={provider} isPending={pending === provider} onPress={() => void signIn(provider)}>
          {`Continue with ${nameOf(provider)}`}
        </Button>
      ))}
      {problem !== undefined && <Problem problem={problem} />}
    </>
  );
}
