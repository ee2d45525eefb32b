"""Everything about the operations that the OpenAPI document does not say. Nothing else in the generator names an operation.

Which operations the clients have is no choice: those that take a signed request (`signed_request` in their `security`) and are
not deprecated. Which ones page is none either: lists, and whatever takes a `cursor`.
"""

# POST operations that have the same effect when they are sent twice, and are retried like a GET.
REPEATABLE = {"analyzeObject", "checkCondition"}

# A field of the body that decides which of several responses comes: its status where the field is true, and otherwise.
# Such a request is safe to repeat (by its idempotency key) only where the field is not true.
RESPONSE_CHOSEN_BY = {"ingestEvents": ("wait", "200", "202")}

# Fields of responses that are left out of what a record shows of itself.
SECRET_FIELDS = {"secret", "token", "legacy_key", "password", "recovery_codes"}
