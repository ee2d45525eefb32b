"""A stand-in for Stripe's Checkout Sessions on loopback for tests. It is our own, because no peer with them can run on a
test machine. Events are signed, and requests are held against, the official `stripe` library (official_stripe.py).

It is strict where Stripe is: key, content type, version, parameters it does not know or misses, idempotency keys. The
first line on stdout is JSON with its port. It ends when stdin does, so that it outlives no test. What a test plays:

    POST /control/behaviour {"next": [NAME, …]}   what happens to the next API requests, one each: `ok`, `drop` (the
                                                  connection ends unheard), `lose` (it is heard and ends unanswered),
                                                  `fail` (500), `refuse` (402), `garbage`, `silence` (no answer at all)
    POST /control/sessions/ID {FIELD: VALUE}      changes a session, such as {"payment_status": "paid"}
    POST /control/events {"type", "session", "timestamp", "secret", "with"?: {FIELD: VALUE}}
                                                  an event about a session: {"body", "signature"}
    GET  /control/requests                        what was asked of the API so far
"""

import argparse
import json
import re
import secrets
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

import stripe

sessions = {}
answers = {}
requests = []
behaviour = []
# One request at a time is enough; `silence` waits outside of it.
lock = threading.Lock()

KNOWN = {
    "mode",
    "client_reference_id",
    "metadata",
    "payment_intent_data",
    "line_items",
    "success_url",
    "cancel_url",
}


class CardPayments(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    key = None

    def do_GET(self):
        self.handle_request()

    def do_POST(self):
        self.handle_request()

    def handle_request(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.route = urlsplit(self.path).path
        with lock:
            if self.route.startswith("/control/"):
                return self.control()
            step = behaviour.pop(0) if behaviour else "ok"
            requests.append(self.told())
            if step == "drop":
                self.close_connection = True
                return None
            if step == "fail":
                return self.refuse(500, "api_error", None)
            if step == "refuse":
                return self.refuse(402, "card_error", "card_declined")
            if step == "garbage":
                return self.answer(200, ["not", "a", "session"])
            if step == "lose":
                self.answer = lambda *_: None
                self.api()
                self.close_connection = True
                return None
            if step == "ok":
                return self.api()
        # `silence`: longer than anybody's patience.
        time.sleep(60)

    def told(self):
        names = ["Authorization", "Content-Type", "Stripe-Version", "Idempotency-Key", "User-Agent"]
        headers = {name: self.headers.get(name) for name in names}
        form = parse_qsl(self.body, keep_blank_values=True)
        return {"method": self.command, "path": self.route, "headers": headers, "form": form}

    def control(self):
        content = json.loads(self.body) if self.body else {}
        if self.route == "/control/behaviour":
            behaviour.extend(content["next"])
            self.answer(200, {})
        elif self.route == "/control/requests":
            self.answer(200, requests)
        elif self.route == "/control/events":
            session = {**sessions[content["session"]], **content.get("with", {})}
            event = {
                "id": "evt_" + secrets.token_hex(12),
                "object": "event",
                "api_version": stripe.api_version,
                "created": content["timestamp"],
                "data": {"object": session},
                "livemode": False,
                "pending_webhooks": 1,
                "request": {"id": None, "idempotency_key": None},
                "type": content["type"],
            }
            # As Stripe writes it: over several lines. Who parses before verifying would lose them.
            body = json.dumps(event, indent=2, ensure_ascii=False)
            sign = stripe.WebhookSignature.generate_signature_header
            self.answer(200, {"body": body, "signature": sign(body, content["secret"], content["timestamp"])})
        else:
            session = self.route.removeprefix("/control/sessions/")
            sessions[session].update(content)
            self.answer(200, sessions[session])

    def api(self):
        if self.headers.get("Authorization") != f"Bearer {self.key}":
            return self.refuse(401, "invalid_request_error", None)
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}(\.[a-z]+)?", self.headers.get("Stripe-Version", "")):
            return self.refuse(400, "invalid_request_error", None)
        if self.command == "POST" and self.route == "/v1/checkout/sessions":
            return self.open_session()
        session = unquote(self.route.removeprefix("/v1/checkout/sessions/"))
        if self.command == "GET" and session in sessions:
            return self.answer(200, sessions[session])
        self.refuse(404, "invalid_request_error", "resource_missing")

    def open_session(self):
        if self.headers.get("Content-Type") != "application/x-www-form-urlencoded":
            return self.refuse(400, "invalid_request_error", None)
        form = parse_qsl(self.body, keep_blank_values=True)
        key = self.headers.get("Idempotency-Key")
        if key in answers:
            known, session = answers[key]
            if known != form:
                return self.refuse(400, "idempotency_error", None)
            return self.answer(200, session)
        asked = nested(form)
        strangers = set(asked) - KNOWN
        if strangers:
            return self.refuse(400, "invalid_request_error", "parameter_unknown")
        try:
            session = opened(asked)
        except (KeyError, ValueError, TypeError):
            return self.refuse(400, "invalid_request_error", "parameter_missing")
        sessions[session["id"]] = session
        if key:
            answers[key] = (form, dict(session))
        self.answer(200, session)

    def refuse(self, status, kind, code):
        self.answer(status, {"error": {"type": kind, "code": code, "message": "this is a stand-in"}})

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Request-Id", "req_" + secrets.token_hex(7))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def nested(form):
    """`a[b][0][c]=d` as nested dictionaries."""
    tree = {}
    for name, value in form:
        first, *rest = name.replace("]", "").split("[")
        place = tree
        for part in [first, *rest][:-1]:
            place = place.setdefault(part, {})
        place[[first, *rest][-1]] = value
    return tree


def opened(asked):
    """The session that Stripe would answer with; the fields are those of the API's reference."""
    if asked["mode"] != "payment":
        raise ValueError("only payments")
    total = 0
    currencies = set()
    for item in asked["line_items"].values():
        price = item["price_data"]
        price["product_data"]["name"]
        currencies.add(price["currency"])
        total += int(item["quantity"]) * int(price["unit_amount"])
    (currency,) = currencies
    if total < 50:
        raise ValueError("below the smallest payment")
    identifier = "cs_test_" + secrets.token_hex(29)
    now = int(time.time())
    return {
        "id": identifier,
        "object": "checkout.session",
        "adaptive_pricing": {"enabled": False},
        "after_expiration": None,
        "allow_promotion_codes": None,
        "amount_subtotal": total,
        "amount_total": total,
        "automatic_tax": {"enabled": False, "liability": None, "provider": None, "status": None},
        "billing_address_collection": None,
        "cancel_url": asked.get("cancel_url"),
        "client_reference_id": asked.get("client_reference_id"),
        "client_secret": None,
        "consent": None,
        "consent_collection": None,
        "created": now,
        "currency": currency,
        "currency_conversion": None,
        "custom_fields": [],
        "custom_text": {
            "after_submit": None,
            "shipping_address": None,
            "submit": None,
            "terms_of_service_acceptance": None,
        },
        "customer": None,
        "customer_creation": "if_required",
        "customer_details": None,
        "customer_email": None,
        "discounts": [],
        "expires_at": now + 86400,
        "invoice": None,
        "invoice_creation": {"enabled": False},
        "livemode": False,
        "locale": None,
        "metadata": asked.get("metadata", {}),
        "mode": "payment",
        "payment_intent": None,
        "payment_link": None,
        "payment_method_collection": "if_required",
        "payment_method_options": {},
        "payment_method_types": ["card"],
        "payment_status": "unpaid",
        "phone_number_collection": {"enabled": False},
        "recovered_from": None,
        "saved_payment_method_options": None,
        "setup_intent": None,
        "shipping_address_collection": None,
        "shipping_cost": None,
        "shipping_options": [],
        "status": "open",
        "submit_type": None,
        "subscription": None,
        "success_url": asked["success_url"],
        "total_details": {"amount_discount": 0, "amount_shipping": 0, "amount_tax": 0},
        "ui_mode": "hosted",
        "url": f"https://checkout.stripe.com/c/pay/{identifier}",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--key", required=True)
    CardPayments.key = parser.parse_args().key
    server = ThreadingHTTPServer(("127.0.0.1", 0), CardPayments)
    server.request_queue_size = 128
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"port": server.server_port}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
