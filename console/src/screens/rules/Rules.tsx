import { Unfinished } from "../Unfinished";

export default function Rules() {
  return <Unfinished title="Rules" />;
}
