"""A stand-in for GitHub's sign-in on loopback for tests. It is our own, because GitHub cannot run on a test machine.

It is strict where GitHub is: client, callback address, single-use codes, PKCE (S256), token, scopes, User-Agent, Accept.
The site is at /, the API at /api/v3, as on a GitHub server of one's own. The first line on stdout is JSON with its port.
Make a person with PUT /people/{id} and {"name": …, "emails": [{"email": …, "primary": …, "verified": …}]}, and sign in as
one by posting `id` as a form to the authorization address. It ends when stdin does, so that it outlives no test.
"""

import argparse
import base64
import hashlib
import json
import secrets
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

people = {}
codes = {}
tokens = {}
# One request at a time is enough, and a code is then used once even by racers.
lock = threading.Lock()


class Github(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    application = None

    def do_PUT(self):
        with lock:
            self.read()
            people[int(self.path.removeprefix("/people/"))] = json.loads(self.body)
            self.answer(204)

    def do_POST(self):
        with lock:
            self.read()
            if self.route == "/login/oauth/authorize":
                self.authorize()
            elif self.route == "/login/oauth/access_token":
                self.exchange()
            else:
                self.answer(404, {"message": "Not Found"})

    def do_GET(self):
        with lock:
            self.read()
            self.api()

    def read(self):
        parts = urlsplit(self.path)
        self.route = parts.path
        self.query = first_of_each(parts.query)
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()

    def authorize(self):
        asked = self.query
        person = int(first_of_each(self.body)["id"])
        redirect = self.application.redirect_uri
        if asked.get("client_id") != self.application.client_id or person not in people:
            return self.answer(404, {"message": "Not Found"})
        if asked.get("redirect_uri", redirect) != redirect:
            location = {"error": "redirect_uri_mismatch", "state": asked.get("state", "")}
        else:
            code = secrets.token_hex(10)
            codes[code] = (person, asked)
            location = {"code": code, "state": asked.get("state", "")}
        self.answer(302, headers={"Location": f"{redirect}?{urlencode(location)}"})

    def exchange(self):
        form = first_of_each(self.body)
        # Without this GitHub answers as a form.
        if "application/json" not in self.headers.get("Accept", ""):
            return self.answer(406, {"message": "this stand-in speaks only JSON"})
        if (form.get("client_id"), form.get("client_secret")) != (
            self.application.client_id,
            self.application.client_secret,
        ):
            return self.refuse("incorrect_client_credentials")
        if form.get("redirect_uri", self.application.redirect_uri) != self.application.redirect_uri:
            return self.refuse("redirect_uri_mismatch")
        person, asked = codes.pop(form.get("code"), (None, {}))
        if person is None or not verifies(form.get("code_verifier", ""), asked):
            return self.refuse("bad_verification_code")
        if not any(email["primary"] and email["verified"] for email in people[person]["emails"]):
            if self.application.refuse_unverified:
                return self.refuse("unverified_user_email")
        token = "gho_" + secrets.token_hex(18)
        tokens[token] = (person, asked.get("scope", "").split())
        self.answer(200, {"access_token": token, "token_type": "bearer", "scope": asked.get("scope", "")})

    def refuse(self, error):
        # GitHub says no with a yes.
        self.answer(200, {"error": error, "error_description": "…", "error_uri": "…"})

    def api(self):
        if not self.headers.get("User-Agent"):
            return self.answer(403, {"message": "Request forbidden by administrative rules."})
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in tokens:
            return self.answer(401, {"message": "Bad credentials"})
        person, scopes = tokens[token]
        if self.route == "/api/v3/user":
            self.answer(200, {"id": person, "login": f"user{person}", "name": people[person].get("name"), "email": None})
        elif self.route == "/api/v3/user/emails" and "user:email" in scopes:
            self.answer(200, people[person]["emails"])
        else:
            self.answer(404, {"message": "Not Found"})

    def answer(self, status, content=None, headers=None):
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def first_of_each(query):
    return {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}


def verifies(verifier, asked):
    """Whether the verifier is the one that the code was asked for with; none is needed when none was announced."""
    if "code_challenge" not in asked:
        return verifier == ""
    digest = hashlib.sha256(verifier.encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return asked.get("code_challenge_method") == "S256" and asked["code_challenge"] == challenge


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client-id", required=True)
    parser.add_argument("--client-secret", required=True)
    parser.add_argument("--redirect-uri", required=True)
    parser.add_argument("--refuse-unverified", action="store_true", help="no token without a verified primary address")
    Github.application = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Github)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"port": server.server_port}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
