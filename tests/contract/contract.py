"""Starts the service on a database of its own and lets Schemathesis hold it to its own description.

Usage: contract.py BINARY [OPTION OF SCHEMATHESIS …]
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent


def ask(url, body=None, bearer=None):
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as answer:
        return json.load(answer)


def run(binary, options, directory):
    settings = {
        "AUSPEX_LISTEN": "127.0.0.1:0",
        "AUSPEX_DATA_DIR": directory,
        "AUSPEX_LOG": "error",
        "AUSPEX_RATE_LIMIT_PER_MINUTE": "1000000",
        "AUSPEX_SIGNUP_CREDIT_CENTS": "10000000",
        "AUSPEX_TRUSTED_PROXIES": "127.0.0.1/32",
        "AUSPEX_METRICS_TOKEN": METRICS_TOKEN,
    }
    log = Path(directory, "log")
    with log.open("w") as errors:
        service = subprocess.Popen([binary, "serve"], env=settings, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        url = service.stdout.readline().split(" listens on ")[1].strip()
        account = {"tenant_name": "Contract", "email": "contract@example.com", "password": "correct horse battery staple"}
        console = ask(f"{url}/auth/console/register", account)["token"]
        key = ask(f"{url}/v1/api_keys", {"name": "contract"}, console)
        environment = os.environ | {
            "SCHEMATHESIS_HOOKS": "hooks",
            "PYTHONPATH": str(HERE),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CONTRACT_KEY": key["key"],
            "CONTRACT_SECRET": key["secret"],
            "CONTRACT_CONSOLE_TOKEN": console,
        }
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml"), "run"]
        outcome = subprocess.run([*command, f"{url}/openapi.json", *options], env=environment, cwd=directory).returncode
        # Refusals of a session that has ended, or of a service that has died, would all be as described.
        assert ask(f"{url}/v1/me", bearer=console)["auth_type"] == "console"
    finally:
        service.terminate()
        stopped = service.wait(timeout=60)
    said = log.read_text()
    print(said, end="", file=sys.stderr)
    if stopped != 0 or said:
        print("The service did not stop well, or logged errors.", file=sys.stderr)
        return 1
    return outcome


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        sys.exit(run(sys.argv[1], sys.argv[2:], directory))
