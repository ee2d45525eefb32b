// What became of a payment, after the browser has come back from the payment provider.
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";

import { ApiError, sentenceOf } from "../../api/error";
import { queries } from "../../api/session";
import { Link } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import { moneyOfCents } from "../../parts/Values";
import { checkoutQuery } from "./queries";

const AGAIN_MS = 2000;

export function CheckoutReturn({ id }: { id: string }) {
  const cancelled = id === "cancelled";
  const checkout = useQuery({ ...checkoutQuery(id), enabled: !cancelled, refetchInterval: (query) => (query.state.data?.status === "pending" ? AGAIN_MS : false) });
  const credited = checkout.data?.status === "credited";
  useEffect(() => {
    if (!credited) return;
    for (const key of ["billing", "ledger", "usage"]) void queries.invalidateQueries({ queryKey: [key] });
  }, [credited]);
  const dismiss = <Link to="/console/billing">Dismiss</Link>;
  if (cancelled) return <Notice action={dismiss}>The payment was cancelled. Nothing was charged.</Notice>;
  if (checkout.error) {
    const unknown = checkout.error instanceof ApiError && checkout.error.status === 404;
    return (
      <Notice tone="bad" live action={dismiss}>
        {unknown ? "There is no such payment in this account." : `What became of the payment could not be read: ${sentenceOf(checkout.error)}`}
      </Notice>
    );
  }
  if (!credited || !checkout.data) return <Notice tone="info">Waiting for the payment provider to confirm the payment. This turns by itself; you can also leave and come back.</Notice>;
  const amount = checkout.data.amount_cents;
  return (
    <Notice tone="good" live action={dismiss}>
      {amount === undefined ? "The payment is credited." : `${moneyOfCents(amount)} are credited.`}
    </Notice>
  );
}
