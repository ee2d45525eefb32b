import { Unfinished } from "../Unfinished";

export default function Signals() {
  return <Unfinished title="Signals" />;
}
