// Webhooks: the endpoints with their health, all deliveries, and the code that verifies one.
import { useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useRef, useState } from "react";

import { useMay } from "../../api/session";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { Link } from "../../parts/Link";
import { Badge } from "../../parts/Notice";
import { Screen, Section } from "../../parts/Screen";
import { Empty } from "../../parts/States";
import { Table, type ColumnOf } from "../../parts/Table";
import { Tabs } from "../../parts/Tabs";
import { LeaveDialog } from "../../parts/Unsaved";
import { Deliveries } from "./Deliveries";
import { endpointPath } from "./endpoint-path";
import { EndpointForm } from "./EndpointForm";
import { HealthInLine } from "./Health";
import { createEndpoint, doingQuery, type Endpoint, type EndpointSecret } from "./queries";
import { SecretDialog } from "./SecretDialog";
import { Verification } from "./Verification";
import styles from "./Webhooks.module.css";

export default function Webhooks() {
  const { tab = "endpoints" } = useSearch({ strict: false }) as { tab?: string };
  const navigate = useNavigate();
  const canWrite = useMay()("webhooks.write");
  const [creating, setCreating] = useState(false);
  const [made, setMade] = useState<EndpointSecret>();
  const create = canWrite && (
    <Button kind="primary" icon="plus" onPress={() => setCreating(true)}>
      New endpoint
    </Button>
  );
  return (
    <Screen title="Webhooks" about="An endpoint is a URL of yours that is called when something happens. Calls are signed, and repeated until they are taken." actions={create}>
      <Tabs
        label="Parts of webhooks"
        selected={tab}
        onSelect={(next) => void navigate({ to: "/console/webhooks" as string, search: { tab: next === "endpoints" ? "" : next } as never, replace: true })}
        tabs={[
          { id: "endpoints", name: "Endpoints", content: <Endpoints create={create} /> },
          { id: "deliveries", name: "Deliveries", content: <Deliveries /> },
          { id: "verify", name: "Verify", content: <Verification /> },
        ]}
      />
      <NewEndpoint isOpen={creating} onClose={() => setCreating(false)} onMade={setMade} />
      <SecretDialog made={made} onClose={() => setMade(undefined)} />
    </Screen>
  );
}

function NewEndpoint({ isOpen, onClose, onMade }: { isOpen: boolean; onClose: () => void; onMade: (made: EndpointSecret) => void }) {
  const changes = useRef<() => boolean>(null);
  const [asking, setAsking] = useState(false);
  const close = () => {
    setAsking(false);
    onClose();
  };
  return (
    <>
      <Dialog title="New endpoint" isOpen={isOpen} onClose={() => (changes.current?.() ? setAsking(true) : close())}>
        <EndpointForm
          submit="Create the endpoint"
          changes={changes}
          onSave={async (body) => {
            onMade(await createEndpoint(body));
            close();
          }}
        />
      </Dialog>
      <LeaveDialog isOpen={asking} onStay={() => setAsking(false)} onLeave={close} />
    </>
  );
}

function Endpoints({ create }: { create: React.ReactNode }) {
  const { data: endpoints } = useSuspenseQuery(doingQuery);
  const navigate = useNavigate();
  return (
    <Section flush>
      <Table
        label="Endpoints"
        rows={endpoints}
        keyOf={(endpoint) => endpoint.id}
        columns={COLUMNS}
        onOpen={(endpoint) => void navigate({ to: endpointPath(endpoint.id) })}
        empty={
          <Empty icon="webhooks" title="No endpoints yet" action={create}>
            With one, your program is called when an analysis ends or a rule fires, and need not keep asking.
          </Empty>
        }
      />
    </Section>
  );
}

export function EndpointState({ endpoint }: { endpoint: Endpoint }) {
  if (endpoint.enabled) return <Badge tone="good">enabled</Badge>;
  return <Badge tone="warn">{endpoint.disabled_reason ? `disabled: ${endpoint.disabled_reason}` : "disabled"}</Badge>;
}

const COLUMNS: ColumnOf<Endpoint>[] = [
  {
    id: "url",
    name: "Endpoint",
    long: true,
    sort: (endpoint) => endpoint.url,
    cell: (endpoint) => (
      <span className={styles.named}>
        <Link to={endpointPath(endpoint.id)}>{endpoint.url}</Link>
        {endpoint.description && <span className={styles.soft}>{endpoint.description}</span>}
      </span>
    ),
  },
  { id: "state", name: "State", cell: (endpoint) => <EndpointState endpoint={endpoint} /> },
  { id: "events", name: "Events", optional: true, cell: (endpoint) => <code>{endpoint.events.join(", ")}</code> },
  { id: "health", name: "Health", cell: ({ health }) => health && <HealthInLine health={health} /> },
];
