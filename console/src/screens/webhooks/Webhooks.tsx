import { Unfinished } from "../Unfinished";

export default function Webhooks() {
  return <Unfinished title="Webhooks" />;
}
