"""An OpenID Connect provider on loopback for tests: PyPI's oidc-provider-mock, whose clients must register first.

The first line on stdout is JSON with its port. Make a person with PUT /users/{sub}, and sign in as one by posting `sub`
as a form to the authorization address. It ends when stdin does, so that it outlives no test.
"""

import json
import os
import sys
import threading
import warnings

# Loopback has no TLS. The library reads this when it is loaded.
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
# The library warns of modules that it will leave behind in time.
warnings.showwarning = lambda *warning: None

import oidc_provider_mock
import werkzeug.serving


class Quiet(werkzeug.serving.WSGIRequestHandler):
    """Writes no line for each request."""

    def log_request(self, code="-", size="-"):
        pass


def main():
    app = oidc_provider_mock.app(require_client_registration=True, require_nonce=True)
    server = werkzeug.serving.make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"port": server.server_port}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
