// Where a provider sends the browser back to, in the window that the console opened. It hands the code over and closes.
import { useEffect } from "react";

import { returnFromProvider } from "../../api/oauth";
import { Link } from "../../parts/Link";
import { ThresholdPage } from "../../shell/ThresholdPage";

export default function ProviderReturn() {
  useEffect(() => returnFromProvider(new URLSearchParams(location.search)), []);
  return (
    <ThresholdPage title="You can close this window" about="The console goes on in the window that you came from.">
      <Link to="/console/sign-in" kind="plain">
        To the sign-in page
      </Link>
    </ThresholdPage>
  );
}
