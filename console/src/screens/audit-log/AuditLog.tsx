import { Unfinished } from "../Unfinished";

export default function AuditLog() {
  return <Unfinished title="Audit log" />;
}
