import { Unfinished } from "../Unfinished";

export default function Explore() {
  return <Unfinished title="Explore" />;
}
