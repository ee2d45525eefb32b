"""Says what is wrong with the OpenAPI document on stdin, one line each; nothing if all is well: what
openapi-spec-validator holds against it, and which examples do not fit the records that they are examples of."""

import json
import sys

from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

document = json.load(sys.stdin)
for error in OpenAPIV31SpecValidator(document).iter_errors():
    print(f"{'/'.join(map(str, error.absolute_path))}: {error.message}")
for name, schema in document["components"]["schemas"].items():
    record = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    for example in schema.get("examples", []):
        for error in Draft202012Validator(record).iter_errors(example):
            print(f"example of {name}: {error.json_path}: {error.message}")
