// One endpoint: its settings, its secret, a test, and its deliveries.
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { sentenceOf } from "../../api/error";
import { endpointsQuery } from "../../api/queries";
import { useMay } from "../../api/session";
import { Button } from "../../parts/Button";
import { ConfirmDialog } from "../../parts/Dialog";
import { Switch } from "../../parts/Field";
import { Link } from "../../parts/Link";
import { Columns, Facts, Screen, Section } from "../../parts/Screen";
import { Empty } from "../../parts/States";
import { Tabs } from "../../parts/Tabs";
import { toast } from "../../parts/Toast";
import { absoluteTime } from "../../parts/Values";
import { Deliveries } from "./Deliveries";
import { endpointPath } from "./endpoint-path";
import { EndpointForm } from "./EndpointForm";
import { deleteEndpoint, healthQuery, sendTest, updateEndpoint, type Endpoint as EndpointRecord } from "./queries";
import { EndpointHealthFacts } from "./Health";
import { RotateDialog } from "./RotateDialog";
import { Verification } from "./Verification";
import { EndpointState } from "./Webhooks";
import styles from "./Webhooks.module.css";

export default function Endpoint() {
  const { endpointId } = useParams({ strict: false }) as { endpointId: string };
  const { data: endpoints } = useSuspenseQuery(endpointsQuery);
  const endpoint = endpoints.find((candidate) => candidate.id === endpointId);
  if (!endpoint) {
    return (
      <Screen title="Endpoint">
        <Empty icon="webhooks" title="There is no such endpoint" action={<Link to="/console/webhooks" kind="plain">All endpoints</Link>}>
          It may have been deleted.
        </Empty>
      </Screen>
    );
  }
  return <Opened key={endpointId} endpoint={endpoint} />;
}

function Opened({ endpoint }: { endpoint: EndpointRecord }) {
  const { tab = "deliveries" } = useSearch({ strict: false }) as { tab?: string };
  const navigate = useNavigate();
  const canWrite = useMay()("webhooks.write");
  return (
    <Screen title={endpoint.url} about={<EndpointState endpoint={endpoint} />} actions={canWrite && <Actions endpoint={endpoint} />}>
      <Doing endpoint={endpoint} />
      <Tabs
        label="Parts of the endpoint"
        selected={tab}
        onSelect={(next) => void navigate({ to: endpointPath(endpoint.id), search: { tab: next === "deliveries" ? "" : next } as never, replace: true })}
        tabs={[
          { id: "deliveries", name: "Deliveries", content: <Deliveries endpointId={endpoint.id} /> },
          { id: "settings", name: "Settings", content: <Settings endpoint={endpoint} canWrite={canWrite} />, keep: true },
          { id: "verify", name: "Verify", content: <Verification /> },
        ]}
      />
    </Screen>
  );
}

function Doing({ endpoint }: { endpoint: EndpointRecord }) {
  const { data: health } = useQuery(healthQuery(endpoint));
  return health ? <EndpointHealthFacts health={health} /> : null;
}

function Actions({ endpoint }: { endpoint: EndpointRecord }) {
  const [pending, setPending] = useState(false);
  const test = async () => {
    setPending(true);
    await sendTest(endpoint.id).then(
      () => toast("A test is on its way; it appears in the deliveries."),
      (error: unknown) => toast(sentenceOf(error), { tone: "bad" }),
    );
    setPending(false);
  };
  const toggle = (enabled: boolean) =>
    void updateEndpoint(endpoint.id, { enabled }).then(
      () => toast(enabled ? "The endpoint is called again." : "The endpoint is not called any more; what is queued waits."),
      (error: unknown) => toast(sentenceOf(error), { tone: "bad" }),
    );
  return (
    <div className={styles.head}>
      <Switch isSelected={endpoint.enabled} onChange={toggle}>
        Enabled
      </Switch>
      <Button isPending={pending} isDisabled={!endpoint.enabled} onPress={() => void test()}>
        Send a test
      </Button>
    </div>
  );
}

function Settings({ endpoint, canWrite }: { endpoint: EndpointRecord; canWrite: boolean }) {
  const navigate = useNavigate();
  const [open, setOpen] = useState<"rotate" | "delete">();
  if (!canWrite) {
    return (
      <Section title="Settings">
        <Facts
          items={[
            ["URL", endpoint.url],
            ["Description", endpoint.description || "none"],
            ["Events", endpoint.events.join(", ")],
            ["Signals", endpoint.signal_keys.join(", ") || "all"],
          ]}
        />
      </Section>
    );
  }
  return (
    <Columns>
      <Section title="Settings">
        <EndpointForm
          endpoint={endpoint}
          submit="Save"
          onSave={async (body) => {
            await updateEndpoint(endpoint.id, body);
            toast("Saved.");
          }}
        />
      </Section>
      <Section title="Secret and removal">
        <div className={styles.stack}>
          <Facts items={[["Created", absoluteTime(endpoint.created_at)], ["Changed", absoluteTime(endpoint.updated_at)]]} />
          <p>The secret was shown when the endpoint was created, and cannot be shown again. Rotating makes a new one.</p>
          <div className={styles.head}>
            <Button onPress={() => setOpen("rotate")}>Rotate the secret…</Button>
            <Button kind="danger" onPress={() => setOpen("delete")}>
              Delete the endpoint…
            </Button>
          </div>
        </div>
      </Section>
      <RotateDialog endpoint={endpoint} isOpen={open === "rotate"} onClose={() => setOpen(undefined)} />
      <ConfirmDialog
        title="Delete this endpoint?"
        isOpen={open === "delete"}
        onClose={() => setOpen(undefined)}
        act="Delete the endpoint"
        goes={["the endpoint and its secret", "all its deliveries, also those that still wait"]}
        onConfirm={async () => {
          await deleteEndpoint(endpoint.id);
          toast("The endpoint is deleted.");
          await navigate({ to: "/console/webhooks" as string, ignoreBlocker: true });
        }}
      >
        <p>Rules that name it fire without effect. To stop it and keep everything, disable it.</p>
      </ConfirmDialog>
    </Columns>
  );
}
