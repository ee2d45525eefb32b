// Stands in for a screen that is not built yet. Delete it with its last use.
import { Screen } from "../parts/Screen";
import { Empty } from "../parts/States";

export function Unfinished({ title }: { title: string }) {
  return (
    <Screen title={title}>
      <Empty icon="wait" title="This screen is not built yet">
        Everything that it will show is in the API already.
      </Empty>
    </Screen>
  );
}
