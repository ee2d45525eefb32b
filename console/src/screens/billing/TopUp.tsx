// Adds money by card. The card is entered at the payment provider; the browser comes back to this screen.
import { useState } from "react";

import { api, take, type Schemas } from "../../api/client";
import { useMay } from "../../api/session";
import { Button } from "../../parts/Button";
import { TextField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { typedNumber } from "../../parts/number";
import { Section } from "../../parts/Screen";
import { moneyOfCents } from "../../parts/Values";
import styles from "./Billing.module.css";

const USUAL = [20, 50, 200];

export function TopUp({ balance }: { balance: Schemas["Balance"] }) {
  const may = useMay();
  if (!balance.metering_enabled) return null;
  if (!balance.self_serve_topup) {
    return (
      <Section title="Top up">
        <p className={styles.soft}>This server takes no card payments. Whoever operates it can credit the account.</p>
      </Section>
    );
  }
  return (
    <Section title="Top up" about="You pay at the payment provider and come back here.">
      {may("money.pay") ? <Amount balance={balance} /> : <p className={styles.soft}>Only an owner of this account can pay.</p>}
    </Section>
  );
}

function Amount({ balance }: { balance: Schemas["Balance"] }) {
  const least = balance.topup_min_cents ?? 0;
  const most = balance.topup_max_cents ?? Number.POSITIVE_INFINITY;
  const [text, setText] = useState("20");
  const cents = Math.round(typedNumber(text) * 100);
  const valid = Number.isFinite(cents) && cents >= least && cents <= most;
  const bounds = `From ${moneyOfCents(least, balance.currency)} to ${moneyOfCents(most, balance.currency)}.`;
  return (
    <Form
      submit={valid ? `Pay ${moneyOfCents(cents, balance.currency)}` : "Pay"}
      fields={["amount_cents"]}
      onSubmit={async () => {
        if (!valid) throw new Error(bounds);
        const session = await take(api.POST("/v1/billing/checkout", { body: { amount_cents: cents } }));
        location.assign(session.url);
      }}
    >
      <div className={styles.amount}>
        <TextField name="amount_cents" label={`Amount in ${balance.currency.toUpperCase()}`} hint={bounds} inputMode="decimal" value={text} onChange={setText} isRequired autoComplete="off" />
        <div className={styles.usual} role="group" aria-label="Usual amounts">
          {USUAL.filter((amount) => amount * 100 >= least && amount * 100 <= most).map((amount) => (
            <Button key={amount} onPress={() => setText(String(amount))}>
              {moneyOfCents(amount * 100, balance.currency)}
            </Button>
          ))}
        </div>
      </div>
    </Form>
  );
}
