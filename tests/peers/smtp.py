"""An SMTP server on loopback for tests.

The first line on stdout is JSON with its port and, with TLS, the certificate authority to trust. Each line after that
is JSON about one mail: what it was answered and, when it was taken, what a mail program makes of it. It ends when
stdin does, so that it outlives no test.
"""

import argparse
import asyncio
import collections
import email
import email.policy
import json
import ssl
import sys

import trustme
from aiosmtpd.smtp import SMTP, AuthResult

ADDRESS = "127.0.0.1"


def say(fact):
    print(json.dumps(fact), flush=True)


class Mailbox:
    """Takes every mail, unless it is told to refuse."""

    def __init__(self, busy, refuse):
        self.busy = collections.Counter(busy)
        self.refuse = refuse

    async def handle_RCPT(self, server, session, envelope, address, options):
        if self.refuse:
            say({"to": address, "answer": 550})
            # Servers like to repeat what they were sent.
            return f"550 5.1.1 <{address}> is not known here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        to = envelope.rcpt_tos[0]
        if self.busy[to] > 0:
            self.busy[to] -= 1
            say({"to": to, "answer": 451})
            return "451 4.3.0 Come back later"
        mail = email.message_from_bytes(envelope.original_content, policy=email.policy.default)
        parts = {part.get_content_type(): part.get_content() for part in mail.walk() if not part.is_multipart()}
        headers = {name: mail[name] for name in ("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "List-Unsubscribe", "List-Unsubscribe-Post")}
        received = {
            "from": envelope.mail_from,
            "login": session.login_data.decode() if session.login_data else None,
            "encrypted": server.transport.get_extra_info("sslcontext") is not None,
            "headers": headers,
            "content_type": mail.get_content_type(),
            "text": parts["text/plain"],
            "html": parts["text/html"],
            "longest_line": max(len(line) for line in envelope.original_content.split(b"\r\n")),
        }
        say({"to": to, "answer": 250, "mail": received})
        return "250 OK"


def busy(argument):
    address, count = argument.split("=")
    return {address: int(count)}


def authenticator(login):
    user, password = login.encode().split(b":", 1)

    def check(server, session, envelope, mechanism, data):
        known = (data.login, data.password) == (user, password)
        # Not handled: the library answers the client.
        return AuthResult(success=known, handled=False, auth_data=data)

    return check


async def serve(options):
    greeting = {}
    context = None
    if options.tls != "none":
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(ADDRESS, "localhost").configure_cert(context)
        greeting["authority"] = authority.cert_pem.bytes().decode()
    mailbox = Mailbox(options.busy, options.refuse)
    starttls = context if options.tls == "starttls" else None

    def session():
        return SMTP(
            mailbox,
            hostname="peer.test",
            tls_context=starttls,
            require_starttls=starttls is not None,
            auth_required=options.login is not None,
            # With TLS from the first byte there is nothing left to start.
            auth_require_tls=starttls is not None,
            authenticator=authenticator(options.login) if options.login else None,
        )

    loop = asyncio.get_running_loop()
    implicit = context if options.tls == "implicit" else None
    server = await loop.create_server(session, ADDRESS, options.port, ssl=implicit)
    greeting["port"] = server.sockets[0].getsockname()[1]
    say(greeting)
    await loop.run_in_executor(None, sys.stdin.read)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tls", choices=["none", "starttls", "implicit"], default="none")
    parser.add_argument("--login", help="USER:PASSWORD without which no mail is taken")
    parser.add_argument("--busy", metavar="ADDRESS=COUNT", type=busy, default={}, help="answer 451 to its first mails")
    parser.add_argument("--refuse", action="store_true", help="answer 550 to every recipient")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
