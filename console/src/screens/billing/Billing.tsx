import { Unfinished } from "../Unfinished";

export default function Billing() {
  return <Unfinished title="Billing" />;
}
