"""Scores comments with Google's client for Python, pointed at our service by a discovery document that describes the two methods.

Usage: official_perspective.py ROOT_URL KEY. Each line on stdin is JSON: {"method": "analyze" or "suggestscore", "body": {…}}. Each
line on stdout is the answer, or {"error": status, "reason": …}.
"""

import json
import sys

from googleapiclient.discovery import build_from_document
from googleapiclient.errors import HttpError

root_url, key = sys.argv[1:]


def method(name):
    return {
        "id": f"commentanalyzer.comments.{name}",
        "path": f"v1alpha1/comments:{name}",
        "flatPath": f"v1alpha1/comments:{name}",
        "httpMethod": "POST",
        "parameters": {},
        "request": {"$ref": "Anything"},
        "response": {"$ref": "Anything"},
    }


document = {
    "name": "commentanalyzer",
    "version": "v1alpha1",
    "rootUrl": root_url + "/",
    "servicePath": "",
    "batchPath": "batch",
    "parameters": {"key": {"type": "string", "location": "query"}},
    "schemas": {"Anything": {"id": "Anything", "type": "object", "additionalProperties": {"type": "any"}}},
    "resources": {"comments": {"methods": {name: method(name) for name in ("analyze", "suggestscore")}}},
}
comments = build_from_document(document, developerKey=key).comments()
for line in sys.stdin:
    asked = json.loads(line)
    try:
        said = getattr(comments, asked["method"])(body=asked["body"]).execute()
    except HttpError as error:
        said = {"error": error.status_code, "reason": error.reason}
    print(json.dumps(said), flush=True)
