import { Unfinished } from "../Unfinished";

export default function Queue() {
  return <Unfinished title="Queue" />;
}
