import { Unfinished } from "../Unfinished";

export default function Object() {
  return <Unfinished title="Object" />;
}
