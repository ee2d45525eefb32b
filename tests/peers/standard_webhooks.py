"""Checks deliveries with the library that receivers of Standard Webhooks use.

Each line on stdin is JSON: {"secret": …, "headers": {…}, "body": …}. Each line on stdout is `verified`, or why not.
"""

import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

for line in sys.stdin:
    delivery = json.loads(line)
    try:
        Webhook(delivery["secret"]).verify(delivery["body"], delivery["headers"])
        print("verified", flush=True)
    except WebhookVerificationError as error:
        print(error, flush=True)
