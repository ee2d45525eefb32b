"""Stripe's official library against the stand-in, so that neither our requests nor the stand-in's answers are only our
own idea of Stripe. Prints JSON.

    official_stripe.py open   --api URL --key KEY   opens a session; standard input is its parameters as JSON, and
                                                    `idempotency_key`
    official_stripe.py read   --api URL --key KEY --session ID
    official_stripe.py verify --secret SECRET       standard input is {"body", "signature"}; says whether it is an event
    official_stripe.py version
"""

import argparse
import json
import sys

import stripe


def shown(session):
    assert isinstance(session, stripe.checkout.Session), type(session)
    fields = ["id", "url", "client_reference_id", "payment_status", "status", "amount_total", "currency", "mode"]
    return {**{field: getattr(session, field) for field in fields}, "metadata": session.metadata.to_dict()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["open", "read", "verify", "version"])
    for option in ["--api", "--key", "--session", "--secret"]:
        parser.add_argument(option)
    asked = parser.parse_args()
    if asked.command == "version":
        return {"api_version": stripe.api_version}
    if asked.command == "verify":
        told = json.load(sys.stdin)
        try:
            # By the test's clock, not by this machine's: the age is looked at elsewhere.
            stripe.WebhookSignature.verify_header(told["body"], told["signature"], asked.secret, tolerance=None)
            event = stripe.Webhook.construct_event(told["body"], told["signature"], asked.secret, tolerance=10**10)
        except stripe.SignatureVerificationError:
            return {"verified": False}
        return {"verified": True, "type": event.type, "session": event.data.object.id}
    client = stripe.StripeClient(asked.key, base_addresses={"api": asked.api}, max_network_retries=0)
    if asked.command == "read":
        return shown(client.v1.checkout.sessions.retrieve(asked.session))
    parameters = json.load(sys.stdin)
    options = {"idempotency_key": parameters.pop("idempotency_key")}
    return shown(client.v1.checkout.sessions.create(params=parameters, options=options))


if __name__ == "__main__":
    print(json.dumps(main()))
