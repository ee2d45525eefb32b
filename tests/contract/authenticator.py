"""An authenticator in software, for passkeys. Its private key and its nonce are 1, so that it signs without any arithmetic of
curves: the public key and the point of each signature are the base point of P-256."""

import base64
import hashlib
import json

BASE_X = 0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296
BASE_Y = 0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

# Its user is there, and was verified.
PRESENT_AND_VERIFIED = 0x05
WITH_CREDENTIAL = 0x40
CREDENTIAL_ID = b"contract"


def encoded(part):
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def client_data(kind, options, origin):
    return json.dumps({"type": kind, "challenge": options["challenge"], "origin": origin}).encode()


def head(domain, flags):
    return hashlib.sha256(domain.encode()).digest() + bytes([flags]) + bytes(4)


def create(options, origin):
    """The answer to `POST /v1/me/passkeys/start`."""
    key = b"\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20" + BASE_X.to_bytes(32) + b"\x22\x58\x20" + BASE_Y.to_bytes(32)
    data = head(options["rp"]["id"], PRESENT_AND_VERIFIED | WITH_CREDENTIAL)
    data += bytes(16) + len(CREDENTIAL_ID).to_bytes(2) + CREDENTIAL_ID + key
    statement = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59" + len(data).to_bytes(2) + data
    response = {
        "clientDataJSON": encoded(client_data("webauthn.create", options, origin)),
        "attestationObject": encoded(statement),
    }
    return {"name": "Contract", "response": response}


def sign(options, origin, user_handle):
    """The answer to `POST /auth/console/passkey/start`."""
    data = head(options["rpId"], PRESENT_AND_VERIFIED)
    browser = client_data("webauthn.get", options, origin)
    digest = hashlib.sha256(data + hashlib.sha256(browser).digest()).digest()
    first = BASE_X % ORDER
    second = (int.from_bytes(digest) + first) % ORDER
    content = b"".join(integer(number) for number in (first, second))
    response = {
        "clientDataJSON": encoded(browser),
        "authenticatorData": encoded(data),
        "signature": encoded(b"\x30" + bytes([len(content)]) + content),
        "userHandle": user_handle,
    }
    return {"id": encoded(CREDENTIAL_ID), "response": response}


def integer(number):
    """A positive integer in DER."""
    content = number.to_bytes(number.bit_length() // 8 + 1)
    return b"\x02" + bytes([len(content)]) + content
