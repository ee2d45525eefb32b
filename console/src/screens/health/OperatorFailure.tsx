// Why a screen for operators has nothing to show: most often because somebody else has opened it.
import { ApiError } from "../../api/error";
import { Empty, Failed } from "../../parts/States";

export function OperatorFailure({ error, retry }: { error: unknown; retry: () => void }) {
  if (error instanceof ApiError && error.status === 403) {
    return (
      <Empty icon="lock" title="For operators of this install">
        Operators are named in the setting <code>AUSPEX_OPERATORS</code>, and count once their address is confirmed.
      </Empty>
    );
  }
  return <Failed error={error} retry={retry} />;
}
