"""Reads an OpenAPI document into what the emitters need: types, records and operations."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from choices import REPEATABLE, RESPONSE_CHOSEN_BY

Schema = dict[str, Any]


@dataclass(frozen=True)
class Type:
    """A type: `kind` is a scalar (`string`, `integer`, `number`, `boolean`, `null`, `timestamp`, `date`, `any`), `named`, `enum`,
    `list`, `map` or `union`."""

    kind: str
    name: str = ""
    values: tuple[str, ...] = ()
    of: tuple[Type, ...] = ()

    @property
    def nullable(self) -> bool:
        return self.kind == "union" and NULL in self.of

    def without_null(self) -> Type:
        if not self.nullable:
            return self
        rest = tuple(part for part in self.of if part != NULL)
        return rest[0] if len(rest) == 1 else Type("union", of=rest)


NULL = Type("null")
ANY = Type("any")


@dataclass
class Field:
    name: str
    type: Type
    required: bool
    description: str


@dataclass
class Record:
    name: str
    description: str
    fields: list[Field]


@dataclass
class Alias:
    """A named type that is no record, such as an enumeration."""

    name: str
    description: str
    type: Type


@dataclass
class Parameter:
    name: str
    place: str
    type: Type
    required: bool
    description: str


@dataclass
class Operation:
    id: str
    tag: str
    method: str
    path: str
    summary: str
    description: str
    parameters: list[Parameter]
    body: Type | None
    body_required: bool
    # By status; None where there is no body.
    responses: dict[str, Type | None]
    is_json: bool
    errors: dict[str, str]
    repeatable: bool
    # The field of the page that has the items, and their type.
    items: tuple[str, Type] | None = None
    chosen_by: tuple[str, str, str] | None = None

    def placed(self, place: str) -> list[Parameter]:
        return [parameter for parameter in self.parameters if parameter.place == place]

    @property
    def takes_idempotency_key(self) -> bool:
        return any(parameter.name.lower() == "idempotency-key" for parameter in self.placed("header"))


@dataclass
class Document:
    tags: dict[str, str]
    operations: list[Operation]
    webhooks: dict[str, str]
    # By name, in alphabetical order; only what operations and webhooks reach.
    records: dict[str, Record] = field(default_factory=dict)
    aliases: dict[str, Alias] = field(default_factory=dict)
    # Names that are reached from requests, and from responses.
    in_requests: set[str] = field(default_factory=set)
    in_responses: set[str] = field(default_factory=set)


class Reader:
    """Turns schemas into types, and remembers the records that it meets."""

    def __init__(self, document: Schema) -> None:
        self.document = document
        self.schemas: dict[str, Schema] = dict(document["components"]["schemas"])
        self.records: dict[str, Record] = {}
        self.aliases: dict[str, Alias] = {}

    def resolve(self, thing: Schema) -> Schema:
        while "$ref" in thing:
            found: Any = self.document
            for part in thing["$ref"].removeprefix("#/").split("/"):
                found = found[part.replace("~1", "/").replace("~0", "~")]
            thing = found
        return thing

    def type(self, schema: Schema, suggested: str) -> Type:
        """The type of a schema; an object that has no name of its own gets the suggested one."""
        if "$ref" in schema:
            return self.named(schema["$ref"].rsplit("/", 1)[1])
        if "const" in schema:
            return Type("enum", values=(schema["const"],))
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return union([self.type(part, f"{suggested}{index or ''}") for index, part in enumerate(schema[word])])
        if len(schema.get("allOf", ())) == 1 and "properties" not in schema:
            return self.type(schema["allOf"][0], suggested)
        if "allOf" in schema or schema.get("properties"):
            self.add_record(suggested, schema)
            return Type("named", suggested)
        kinds = schema.get("type", "any")
        if isinstance(kinds, list):
            return union([self.type({**schema, "type": kind}, suggested) for kind in kinds])
        return self.plain(kinds, schema, suggested)

    def plain(self, kind: str, schema: Schema, suggested: str) -> Type:
        if kind == "string" and "enum" in schema:
            return Type("enum", values=tuple(value for value in schema["enum"] if value is not None))
        if kind == "string":
            return Type({"date-time": "timestamp", "date": "date"}.get(schema.get("format", ""), "string"))
        if kind == "array":
            return Type("list", of=(self.type(schema.get("items", {}), f"{suggested}Item"),))
        if kind == "object":
            values = schema.get("additionalProperties", True)
            return Type("map", of=(ANY if isinstance(values, bool) else self.type(values, f"{suggested}Value"),))
        return Type(kind)

    def named(self, name: str) -> Type:
        schema = self.schemas[name]
        if name in self.records or name in self.aliases:
            return Type("named", name)
        if "allOf" in schema or schema.get("properties"):
            self.add_record(name, schema)
            return Type("named", name)
        found = self.type(schema, name)
        # A name for a plain type, such as a timestamp, says no more than the type.
        if found.kind not in ("enum", "union"):
            return found
        self.aliases[name] = Alias(name, text(schema), found)
        return Type("named", name)

    def add_record(self, name: str, schema: Schema) -> None:
        record = Record(name, text(schema), [])
        self.records[name] = record  # first: a record may contain itself
        record.fields = self.fields(name, schema)

    def fields(self, name: str, schema: Schema) -> list[Field]:
        found: dict[str, Field] = {}
        # What is the record's own comes before what it shares with others.
        for part in sorted(schema.get("allOf", ()), key=lambda part: "$ref" in part):
            for each in self.fields(name, self.resolve(part)):
                found.setdefault(each.name, each)
        required = set(schema.get("required", ()))
        for key, value in schema.get("properties", {}).items():
            kind = self.type(value, name + camel(key, upper=True))
            found[key] = Field(key, kind, key in required, text(value) or text(self.resolve(value)))
        return list(found.values())


def read(document: Schema) -> Document:
    reader = Reader(document)
    operations = [
        operation(reader, method, path, described)
        for path, item in document["paths"].items()
        for method, described in item.items()
        if takes_a_key(described)
    ]
    webhooks = {
        event: reader.type(item["post"]["requestBody"]["content"]["application/json"]["schema"], event).name
        for event, item in document.get("webhooks", {}).items()
    }
    tags = {tag["name"]: tag.get("description", "") for tag in document.get("tags", ())}
    result = Document(tags, operations, webhooks)
    result.records = dict(sorted(reader.records.items()))
    result.aliases = dict(sorted(reader.aliases.items()))
    for each in operations:
        if each.body is not None:
            reach(result, each.body, result.in_requests)
        for parameter in each.parameters:
            reach(result, parameter.type, result.in_requests)
        for response in each.responses.values():
            if response is not None:
                reach(result, response, result.in_responses)
    for name in webhooks.values():
        reach(result, Type("named", name), result.in_responses)
    return result


def takes_a_key(described: Any) -> bool:
    if not isinstance(described, dict) or described.get("deprecated"):
        return False
    return any("signed_request" in way for way in described.get("security", ()))


def operation(reader: Reader, method: str, path: str, described: Schema) -> Operation:
    name: str = described["operationId"]
    upper = camel(snake(name), upper=True)
    parameters = []
    for listed in described.get("parameters", ()):
        one = reader.resolve(listed)
        kind = reader.type(one.get("schema", {}), upper + camel(one["name"], upper=True)).without_null()
        parameters.append(Parameter(one["name"], one["in"], kind, one.get("required", False), text(one)))
    body, body_required = None, False
    if "requestBody" in described:
        request = reader.resolve(described["requestBody"])
        body = reader.type(request["content"]["application/json"].get("schema", {}), f"{upper}Body")
        body_required = request.get("required", False)
    responses, is_json = successes(reader, upper, described["responses"])
    errors = {
        status: text(reader.resolve(response))
        for status, response in sorted(described["responses"].items())
        if status in ("400", "402", "404", "409", "413", "422", "502")
    }
    made = Operation(
        id=name,
        tag=described["tags"][0],
        method=method.upper(),
        path=path,
        summary=described.get("summary", "").strip(),
        description=described.get("description", "").strip(),
        parameters=parameters,
        body=body,
        body_required=body_required,
        responses=responses,
        is_json=is_json,
        errors=errors,
        repeatable=method in ("get", "put", "delete") or name in REPEATABLE,
        chosen_by=RESPONSE_CHOSEN_BY.get(name),
    )
    made.items = paged_items(reader, made)
    return made


def successes(reader: Reader, upper: str, described: Schema) -> tuple[dict[str, Type | None], bool]:
    responses: dict[str, Type | None] = {}
    is_json = True
    for status, listed in sorted(described.items()):
        if not status.startswith("2"):
            continue
        content = reader.resolve(listed).get("content", {})
        if not content:
            responses[status] = None
        elif "application/json" in content:
            responses[status] = reader.type(content["application/json"].get("schema", {}), f"{upper}Response")
        else:
            responses[status], is_json = Type("string"), False
    return responses, is_json


def paged_items(reader: Reader, made: Operation) -> tuple[str, Type] | None:
    """The items of a list: the only field of every page that is a list of records."""
    pages = made.id.startswith("list") or any(parameter.name == "cursor" for parameter in made.placed("query"))
    responses = list(made.responses.values())
    if made.method != "GET" or not pages or not made.is_json or len(responses) != 1 or responses[0] is None:
        return None
    page = reader.records.get(responses[0].name)
    fields = [] if page is None else page.fields
    lists = [each for each in fields if each.required and is_list_of_records(reader, each.type)]
    if len(lists) != 1:
        raise SystemExit(f"{made.id} is a list, but its page has {len(lists)} lists of records instead of one.")
    return lists[0].name, lists[0].type.of[0]


def is_list_of_records(reader: Reader, kind: Type) -> bool:
    return kind.kind == "list" and kind.of[0].kind == "named" and kind.of[0].name in reader.records


def reach(document: Document, kind: Type, reached: set[str]) -> None:
    for part in kind.of:
        reach(document, part, reached)
    if kind.kind != "named" or kind.name in reached:
        return
    reached.add(kind.name)
    if kind.name in document.aliases:
        reach(document, document.aliases[kind.name].type, reached)
    else:
        for each in document.records[kind.name].fields:
            reach(document, each.type, reached)


def union(parts: list[Type]) -> Type:
    flat: list[Type] = []
    for part in parts:
        for each in part.of if part.kind == "union" else (part,):
            if each not in flat:
                flat.append(each)
    return flat[0] if len(flat) == 1 else Type("union", of=tuple(flat))


def text(schema: Schema) -> str:
    return str(schema.get("description", "")).strip()


def snake(name: str) -> str:
    """`listApiKeys` as `list_api_keys`."""
    spaced = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)([A-Z][a-z])", r"\1\3_\2\4", name)
    return re.sub(r"[^A-Za-z0-9]+", "_", spaced).strip("_").lower()


def camel(name: str, upper: bool = False) -> str:
    """`object_id` as `objectId`, or `ObjectId`."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+", name) if word]
    joined = "".join(word[:1].upper() + word[1:] for word in words)
    return joined if upper else joined[:1].lower() + joined[1:]
