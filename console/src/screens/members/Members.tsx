import { Unfinished } from "../Unfinished";

export default function Members() {
  return <Unfinished title="Members" />;
}
