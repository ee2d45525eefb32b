"""What takes several steps: labels, a calibration, a trial, reviews, an invitation, a test of an endpoint, a passkey.

Schemathesis makes up single requests, and would never come that far. Each response must have the status that is expected
here, and fit its schema.
"""

import base64
import hashlib
import json
import time
import urllib.error
import urllib.request

import authenticator
import jsonschema_rs

OBJECTS = 60
PATIENCE = 60


class Teller:
    """Sends requests, and holds each response to the document."""

    def __init__(self, url, token):
        self.url, self.token = url, token
        with urllib.request.urlopen(f"{url}/openapi.json", timeout=30) as answer:
            self.document = json.load(answer)

    def ask(self, status, method, template, body=None, **parts):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if "?key=" not in template:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.url + template.format(**parts), data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                found, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            found, text = refusal.code, refusal.read().decode()
        if found != status:
            raise SystemExit(f"{method} {template} answered {found} instead of {status}: {text}")
        operation = self.document["paths"][template.split("?")[0]][method.lower()]
        content = operation["responses"][str(status)].get("content")
        if content is None:
            return None
        answered = json.loads(text)
        schema = content["application/json"]["schema"] | {"components": self.document["components"]}
        error = next(jsonschema_rs.Draft202012Validator(schema).iter_errors(answered), None)
        if error is not None:
            raise SystemExit(f"{method} {template} answered what does not fit its schema: {error}")
        return answered


def tell(url, token):
    teller = Teller(url, token)
    ask = teller.ask
    for number in range(OBJECTS):
        content = "I am a scammer, pay me in gift cards" if number % 2 else "Thank you, it arrived"
        events = {"wait": True, "events": [{"type": "message", "content": content}]}
        ask(200, "POST", "/v1/objects/{object_id}/events", events, object_id=f"story_{number}")
    tell_of_labels(ask)
    tell_of_escalation(ask)
    tell_of_calibrations(ask)
    tell_of_trials(ask)
    tell_of_reviews(ask)
    tell_of_endpoints(ask)
    tell_of_keys(ask)
    tell_of_passkeys(ask, url)
    tell_of_a_machine(ask)
    invited = ask(201, "POST", "/v1/invitations", {"email": "story@example.com", "role": "viewer"})
    ask(204, "DELETE", "/v1/invitations/{invitation_id}", invitation_id=invited["id"])


def tell_of_keys(ask):
    key = ask(201, "POST", "/v1/api_keys", {"name": "story"})["api_key"]["id"]
    ask(200, "POST", "/v1/api_keys/{key_id}/rotate", key_id=key)
    ask(204, "DELETE", "/v1/api_keys/{key_id}", key_id=key)
    secret = ask(201, "POST", "/v1/api_keys", {"kind": "bearer", "scopes": ["moderate"]})["secret"]
    comment = {"comment": {"text": "You are a fool. Go away."}}
    scored = comment | {"requestedAttributes": {"TOXICITY": {}}, "spanAnnotations": True}
    ask(200, "POST", f"/v1alpha1/comments:analyze?key={secret}", scored)
    suggested = comment | {"attributeScores": {"TOXICITY": {"summaryScore": {"value": 1.0}}}}
    ask(200, "POST", f"/v1alpha1/comments:suggestscore?key={secret}", suggested)


def tell_of_labels(ask):
    label = {"value": True, "note": "seen it"}
    path = "/v1/objects/{object_id}/labels/{signal}"
    given = ask(200, "PUT", path, label, object_id="story_1", signal="is_scammer")
    ask(204, "DELETE", "/v1/labels/{label_id}", label_id=given["id"])
    labels = [
        {"object_id": f"story_{number}", "signal": "is_scammer", "value": number % 2 == 1} for number in range(OBJECTS)
    ]
    told = ask(200, "POST", "/v1/labels", {"labels": labels})
    if told["accepted"] != OBJECTS:
        raise SystemExit(f"labels were refused: {told['refused'][:3]}")
    ask(200, "GET", "/v1/signals/{key}/quality", key="is_scammer")
    explained = ask(200, "POST", "/v1/objects/{object_id}/explain", {"signal": "is_scammer"}, object_id="story_1")
    if not explained["parts"]:
        raise SystemExit("an explanation has no parts")


def tell_of_calibrations(ask):
    fitted = ask(201, "POST", "/v1/signals/{key}/calibrations", {}, key="is_scammer")
    for identifier in (fitted["id"], None):
        ask(200, "PUT", "/v1/signals/{key}/calibration", {"id": identifier}, key="is_scammer")


def tell_of_escalation(ask):
    path = "/v1/signals/{key}/escalation"
    for escalation in ({"band": [0.4, 0.6]}, {"target_error": 0.2}, {"band": None}):
        ask(200, "PUT", path, escalation, key="is_scammer")
    ask(200, "GET", path, key="is_scammer")


def tell_of_trials(ask):
    path = "/v1/signals/{key}/trials"
    wording = {"instructions": "Is this a scammer who wants gift cards?", "over": "labelled", "limit": 20}
    ask(200, "POST", path, wording | {"dry_run": True}, key="is_scammer")
    trial = ask(202, "POST", path, wording, key="is_scammer")["trial"]
    deadline = time.monotonic() + PATIENCE
    while trial["status"] != "done":
        if time.monotonic() > deadline:
            raise SystemExit(f"a trial does not end: {trial}")
        time.sleep(0.1)
        trial = ask(200, "GET", path + "/{trial_id}", key="is_scammer", trial_id=trial["id"])
    ask(200, "POST", path + "/{trial_id}/adopt", key="is_scammer", trial_id=trial["id"])
    another = ask(202, "POST", path, wording | {"instructions": "Is it fraud?"}, key="is_scammer")["trial"]
    ask(204, "DELETE", path + "/{trial_id}", key="is_scammer", trial_id=another["id"])


def tell_of_reviews(ask):
    path = "/v1/reviews/{review_id}"
    opened = ask(201, "POST", "/v1/reviews", {"object_id": "story_1", "queue": "story", "signals": ["is_scammer"]})
    review = opened["id"]
    ask(200, "POST", path + "/claim", review_id=review)
    ask(200, "GET", path, review_id=review)
    ask(200, "POST", path + "/release", review_id=review)
    ask(200, "POST", "/v1/reviews/next", {"queue": "story"})
    decision = {"decision": "blocked", "labels": {"is_scammer": True}}
    ask(200, "POST", path + "/resolve", decision, review_id=review)
    ask(200, "POST", path + "/reopen", review_id=review)


def tell_of_endpoints(ask):
    made = ask(201, "POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/nobody"})
    endpoint = made["endpoint"]["id"]
    sent = ask(202, "POST", "/v1/webhooks/{endpoint_id}/test", endpoint_id=endpoint)
    ask(202, "POST", "/v1/webhook_deliveries/{delivery_id}/replay", delivery_id=sent["id"])
    ask(200, "GET", "/v1/webhooks/{endpoint_id}/health", endpoint_id=endpoint)
    ask(204, "DELETE", "/v1/webhooks/{endpoint_id}", endpoint_id=endpoint)
    action = {"action_type": "slack", "action_config": {"webhook_url": "http://127.0.0.1:9/nobody"}}
    ask(200, "POST", "/v1/rules/test", action)


def tell_of_a_machine(ask):
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    code = ask(201, "POST", "/v1/me/machine_login", {"name": "story", "challenge": challenge})["code"]
    made = ask(201, "POST", "/auth/console/machine_login", {"code": code, "verifier": verifier})
    ask(400, "POST", "/auth/console/machine_login", {"code": code, "verifier": verifier})
    ask(204, "DELETE", "/v1/api_keys/{key_id}", key_id=made["api_key"]["id"])


def tell_of_passkeys(ask, url):
    options = ask(200, "POST", "/v1/me/passkeys/start")
    added = ask(201, "POST", "/v1/me/passkeys/finish", authenticator.create(options, url))
    path = "/v1/me/passkeys/{passkey_id}"
    ask(200, "PATCH", path, {"name": "Story"}, passkey_id=added["id"])
    challenge = ask(200, "POST", "/auth/console/passkey/start")
    signed = authenticator.sign(challenge, url, options["user"]["id"])
    ask(200, "POST", "/auth/console/passkey/finish", signed)
    if "last_used_at" not in ask(200, "GET", "/v1/me/passkeys")["passkeys"][0]:
        raise SystemExit("a passkey does not say when it was last used")
    ask(204, "DELETE", path, passkey_id=added["id"])
