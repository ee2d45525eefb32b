import { Unfinished } from "../Unfinished";

export default function Quality() {
  return <Unfinished title="Quality" />;
}
