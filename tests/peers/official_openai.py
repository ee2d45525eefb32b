"""Moderates texts with the official client of OpenAI, pointed at our service.

Usage: official_openai.py BASE_URL KEY. Each line on stdin is the JSON of an `input`. Each line on stdout is the JSON of the first
page of results, as the client understood them, or {"error": class, "status": …, "code": …, "message": …}.
"""

import json
import sys

import openai

base_url, key = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0)
for line in sys.stdin:
    try:
        moderation = client.moderations.create(model="omni-moderation-latest", input=json.loads(line))
        results = [
            {
                "flagged": result.flagged,
                "categories": result.categories.model_dump(by_alias=True),
                "scores": result.category_scores.model_dump(by_alias=True),
                "harassment_threatening": result.category_scores.harassment_threatening,
                "types": result.category_applied_input_types.model_dump(by_alias=True),
            }
            for result in moderation.results
        ]
        said = {"id": moderation.id, "model": moderation.model, "results": results}
    except openai.APIStatusError as error:
        said = {"error": type(error).__name__, "status": error.status_code, "code": error.code, "message": error.message}
    print(json.dumps(said), flush=True)
