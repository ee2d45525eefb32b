"""Says what openapi-spec-validator holds against the OpenAPI document on stdin, one line each; nothing if all is well."""

import json
import sys

from openapi_spec_validator import OpenAPIV31SpecValidator

for error in OpenAPIV31SpecValidator(json.load(sys.stdin)).iter_errors():
    print(f"{'/'.join(map(str, error.absolute_path))}: {error.message}")
