import { Unfinished } from "../Unfinished";

export default function Health() {
  return <Unfinished title="Health" />;
}
