"""Starts the service on a database of its own and lets Schemathesis hold it to its own description.

Usage: contract.py BINARY [OPTION OF SCHEMATHESIS …]
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import story

HERE = Path(__file__).parent
PAYMENT_KEY = "sk_test_contract"
METRICS_TOKEN = "contract-metrics-token"
EMAIL = "contract@example.com"

# Every operation must have succeeded at least once, or its refusals would be all that was looked at. These cannot:
NEVER_SUCCEED = {
    # what they need is a secret that is sent by mail or by somebody else, or shown once.
    "POST /auth/console/login",
    "POST /auth/console/password/reset",
    "POST /auth/console/first_proof",
    "POST /auth/token",
    "POST /v1/me/password",
    "POST /v1/me/mfa/enable",
    "POST /v1/me/mfa/disable",
    "POST /webhooks/stripe",
    "POST /auth/console/reauthenticate",
    "POST /auth/console/invitations/accept",
    "POST /auth/console/recipients/confirm",
    "POST /auth/console/recipients/withdraw",
    # it would end this run's session, or its account.
    "POST /auth/console/logout",
    "POST /v1/account/deletion",
    "DELETE /v1/account/deletion",
    "DELETE /v1/members/{user_id}",
    # the only member is the last owner.
    "PATCH /v1/members/{user_id}",
    # a replay runs in the background only over a long history, and a checkout is found by an id of the payment provider.
    "GET /v1/rules/replays/{replay_id}",
    "GET /v1/billing/checkout/{session_id}",
    # no provider is configured; crates/server/tests plays these with providers.
    "POST /auth/console/oauth/{provider}",
    "POST /auth/console/oauth/{provider}/authorize",
    "POST /v1/me/identities/{provider}",
    "DELETE /v1/me/identities/{provider}",
}


def ask(url, body=None, bearer=None):
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as answer:
        text = answer.read().decode()
    return json.loads(text) if answer.headers["Content-Type"] == "application/json" else text


def start_payments():
    """The stand-in for the payment provider, so that top-ups can be opened."""
    command = [sys.executable, "-B", str(HERE.parent / "peers" / "card_payments.py"), "--key", PAYMENT_KEY]
    peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return peer, json.loads(peer.stdout.readline())["port"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_service(binary, directory, log, payments_port):
    port = free_port()
    settings = {
        "AUSPEX_LISTEN": f"127.0.0.1:{port}",
        # Passkeys need a domain, and localhost is one.
        "AUSPEX_PUBLIC_URL": f"http://localhost:{port}",
        "AUSPEX_DATA_DIR": directory,
        "AUSPEX_LOG": "error",
        # The shapes of answers are looked at here, not the answers: the model would take most of the time.
        "AUSPEX_ANALYZER": "words",
        "AUSPEX_ESCALATE_ANALYZER": "words",
        # Nothing is to be refused for coming too often or for want of money: such a refusal proves nothing.
        "AUSPEX_RATE_LIMIT_PER_MINUTE": "1000000",
        "AUSPEX_SIGNUP_CREDIT_CENTS": "10000000",
        "AUSPEX_TRUSTED_PROXIES": "127.0.0.1/32",
        "AUSPEX_METRICS_TOKEN": METRICS_TOKEN,
        "AUSPEX_OPERATORS": EMAIL,
        "AUSPEX_STRIPE_API_URL": f"http://127.0.0.1:{payments_port}",
        "AUSPEX_STRIPE_SECRET_KEY": PAYMENT_KEY,
        "AUSPEX_STRIPE_WEBHOOK_SECRET": "whsec_contract",
    }
    with log.open("w") as errors:
        service = subprocess.Popen([binary, "serve"], env=settings, stdout=subprocess.PIPE, stderr=errors, text=True)
    greeting = service.stdout.readline()
    if " listens on " not in greeting:
        sys.exit(f"The service did not start: {greeting}{log.read_text()}")
    return service, greeting.split(" listens on ")[1].strip()


def hold_to_its_word(url, options, directory):
    # Not the password of the document's examples: one of them would change it, and end the session of this run.
    account = {"tenant_name": "Contract", "email": EMAIL, "password": "seven lamps along the quay"}
    console = ask(f"{url}/auth/console/register", account)["token"]
    prove_address(url, console, directory)
    key = ask(f"{url}/v1/api_keys", {"name": "contract"}, console)
    environment = os.environ | {
        "SCHEMATHESIS_HOOKS": "hooks",
        "PYTHONPATH": str(HERE),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CONTRACT_KEY": key["key"],
        "CONTRACT_KEY_ID": key["api_key"]["id"],
        "CONTRACT_SPARE_KEY_ID": ask(f"{url}/v1/api_keys", {"name": "spare"}, console)["api_key"]["id"],
        "CONTRACT_SECRET": key["secret"],
        "CONTRACT_CONSOLE_TOKEN": console,
        "CONTRACT_METRICS_TOKEN": METRICS_TOKEN,
        "CONTRACT_BEARER_KEY": bearer_key(url, console),
    }
    if not options:
        story.tell(url, console)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml"), "run"]
    outcome = subprocess.run([*command, f"{url}/openapi.json", *options], env=environment, cwd=directory).returncode
    # Only of a whole run: its options may leave operations or phases out.
    missing = set() if options else described(url) - succeeded(url) - NEVER_SUCCEED
    for operation in sorted(missing):
        print(f"{operation} never succeeded: nothing but refusals was looked at.", file=sys.stderr)
    return 1 if missing else outcome


def bearer_key(url, console):
    """A key for the routes in the shapes of other services."""
    return ask(f"{url}/v1/api_keys", {"kind": "bearer", "scopes": ["moderate"]}, console)["secret"]


def prove_address(url, console, directory):
    """Operators count once they have proved their address, by the link in a mail."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        mails = "".join(mail.read_text() for mail in Path(directory, "mail").glob("*.eml")).replace("=\n", "")
        link = re.search(r"/console/verify\?token=(?:3D)?([\w-]+)", mails.replace("=3D", "="))
        if link:
            ask(f"{url}/auth/console/verify", {"token": link[1], "keep": True}, console)
            return
        time.sleep(0.1)
    sys.exit("No mail came with a link that proves the address.")


def described(url):
    paths = ask(f"{url}/openapi.json")["paths"]
    return {f"{method.upper()} {path}" for path, item in paths.items() for method in item}


def succeeded(url):
    """What the service itself has counted."""
    page = ask(f"{url}/metrics", bearer=METRICS_TOKEN)
    counted = re.findall(r'auspex_http_requests_total{method="(\w+)",route="(.+?)",status="2\d\d"}', page)
    return {f"{method} {route}" for method, route in counted}


def main(binary, options, directory):
    log = Path(directory, "log")
    payments, port = start_payments()
    service, url = start_service(binary, directory, log, port)
    try:
        outcome = hold_to_its_word(url, options, directory)
    finally:
        payments.terminate()
        service.terminate()
        stopped = service.wait(timeout=60)
    said = log.read_text()
    if stopped != 0 or said:
        print(f"{said}The service logged errors, or did not stop well.", file=sys.stderr)
        return 1
    return outcome


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        sys.exit(main(sys.argv[1], sys.argv[2:], directory))
