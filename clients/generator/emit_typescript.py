"""Writes the records and operations of the TypeScript client."""

from __future__ import annotations

import re

from document import Document, Field, Operation, Parameter, Type, camel
from emit_python import wrap

WIDTH = 110
NOTICE = "// {}\n// Generated from docs/openapi.json by `make clients`. Do not edit.\n"
SCALARS = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "any": "unknown",
    "timestamp": "string",
    "date": "string",
}
ERRORS = {
    "400": "BadRequestError",
    "402": "PaymentRequiredError",
    "404": "NotFoundError",
    "409": "ConflictError",
    "413": "PayloadTooLargeError",
    "422": "UnprocessableError",
    "502": "ServerError",
}


def files(document: Document) -> dict[str, str]:
    """The files of the package, by their names."""
    return {"records.ts": records(document), "operations.ts": operations(document)}


def records(document: Document) -> str:
    lines = [NOTICE.format("The records of requests and responses, with the names that they have on the wire.")]
    for alias in document.aliases.values():
        lines += [*comment(alias.description, ""), f"export type {alias.name} = {ts_type(alias.type)};", ""]
    requests_only = document.in_requests - document.in_responses
    for record in document.records.values():
        is_input = record.name in requests_only
        lines += [*comment(record.description, ""), f"export interface {record.name} {{"]
        for each in record.fields:
            lines += record_field(each, is_input)
        lines += ["}", ""]
    lines += ["/** The record of each webhook event. */", "export interface WebhookEvents {"]
    lines += [f'  "{event}": {name};' for event, name in sorted(document.webhooks.items())]
    listed = ", ".join(f'"{event}"' for event in sorted(document.webhooks))
    lines += ["}", "", "/** The webhook events that this version of the client knows. */"]
    lines += [f"export const WEBHOOK_EVENTS: readonly (keyof WebhookEvents)[] = [{listed}];"]
    return "\n".join(lines) + "\n"


def record_field(each: Field, is_input: bool) -> list[str]:
    kind = ts_type(each.type, is_input)
    mark = "" if each.required else "?"
    if is_input and not each.required:
        kind += " | undefined"
    return [*comment(each.description, "  "), f"  {key(each.name)}{mark}: {kind};"]


def operations(document: Document) -> str:
    body: list[str] = []
    for each in document.operations:
        if each.placed("query"):
            body += query_interface(each)
    body += ["/** All operations. */", "export abstract class Operations extends Caller {"]
    for tag in document.tags:
        for each in document.operations:
            if each.tag == tag:
                body += [*method(document, each), ""]
    body = [*body[:-1], "}"]
    written = "\n".join(body)
    names = [name for name in (*document.aliases, *document.records) if re.search(rf"\b{name}\b", written)]
    head = [
        NOTICE.format("All operations."),
        'import { Caller, type RequestOptions } from "../caller.js";',
        'import type { Pager } from "../paging.js";',
        "import type {",
        *(f"  {name}," for name in sorted(names)),
        '} from "./records.js";',
        "",
    ]
    return "\n".join(head) + "\n" + written + "\n"


def query_interface(each: Operation) -> list[str]:
    lines = [f"/** What {{@link Operations.{each.id}}} takes. */", f"export interface {query_name(each)} {{"]
    for one in each.placed("query"):
        mark = "" if one.required else "?"
        kind = ts_type(one.type, True) + ("" if one.required else " | undefined")
        lines += [*comment(one.description, "  "), f"  {key(one.name)}{mark}: {kind};"]
    return [*lines, "}", ""]


def query_name(each: Operation) -> str:
    return camel(each.id, upper=True) + "Query"


def method(document: Document, each: Operation) -> list[str]:
    described = method_comment(each)
    if each.chosen_by is None:
        return [
            *described,
            *define(each, arguments(document, each), result(each, list(each.responses)), " {"),
            *call(each),
        ]
    deciding, chosen, otherwise = each.chosen_by
    lines = []
    for narrowed, statuses in (
        (f"{{ {deciding}: true }}", [chosen]),
        (f"{{ {deciding}?: false | null }}", [otherwise]),
    ):
        lines += [*described, *define(each, arguments(document, each, narrowed), result(each, statuses), ";")]
    both = result(each, [chosen, otherwise])
    lines += [*described, *define(each, arguments(document, each), both, ";")]
    return [*lines, *define(each, arguments(document, each), both, " {"), *call(each)]


def define(each: Operation, given: list[str], answer: str, end: str) -> list[str]:
    line = f"  {each.id}({', '.join(given)}): {answer}{end}"
    if len(line) <= WIDTH:
        return [line]
    return [f"  {each.id}(", *(f"    {one}," for one in given), f"  ): {answer}{end}"]


def arguments(document: Document, each: Operation, narrowed: str = "") -> list[str]:
    given = [f"{camel(one.name)}: {ts_type(one.type)}" for one in each.placed("path")]
    if each.body is not None:
        kind = ts_type(each.body, True) + (f" & {narrowed}" if narrowed else "")
        is_optional = not each.body_required and not any_required(document, each.body)
        given.append(f"body: {kind}" + (" = {}" if is_optional else ""))
    if each.placed("query"):
        is_optional = not any(one.required for one in each.placed("query"))
        given.append(f"query: {query_name(each)}" + (" = {}" if is_optional else ""))
    return [*given, "options?: RequestOptions"]


def any_required(document: Document, kind: Type) -> bool:
    record = document.records.get(kind.name)
    return record is None or any(each.required for each in record.fields)


def result(each: Operation, statuses: list[str]) -> str:
    if each.items is not None:
        page = ts_type(next(kind for kind in each.responses.values() if kind is not None))
        return f"Pager<{page}, {ts_type(each.items[1])}>"
    kinds = []
    for status in statuses:
        kind = each.responses[status]
        name = "void" if kind is None else ts_type(kind)
        if name not in kinds:
            kinds.append(name)
    if len(kinds) > 1:
        kinds = ["undefined" if kind == "void" else kind for kind in kinds]
    return f"Promise<{' | '.join(kinds)}>"


def call(each: Operation) -> list[str]:
    segments = []
    for segment in each.path.strip("/").split("/"):
        segments.append(variable(each, segment) if segment.startswith("{") else f'"{segment}"')
    given = [f'method: "{each.method}"', f"path: [{', '.join(segments)}]"]
    if each.placed("query"):
        given.append("query")
    if each.body is not None:
        given.append("body")
    if each.takes_idempotency_key:
        given.append("idempotent: true")
    if each.chosen_by is not None:
        given.append(f"repeatable: body.{each.chosen_by[0]} !== true")
    else:
        given.append(f"repeatable: {'true' if each.repeatable else 'false'}")
    if not each.is_json:
        given.append("text: true")
    if each.items is not None:
        given.append(f'items: "{each.items[0]}"')
    start = "return this.pages(" if each.items is not None else "return this.call("
    line = f"    {start}{{ {', '.join(given)} }}, options);"
    if len(line) <= WIDTH:
        return [line, "  }"]
    return [
        f"    {start}",
        "      {",
        *(f"        {one}," for one in given),
        "      },",
        "      options,",
        "    );",
        "  }",
    ]


def variable(each: Operation, segment: str) -> str:
    name = segment.strip("{}")
    one = next(parameter for parameter in each.placed("path") if parameter.name == name)
    return camel(name) if is_text(one) else f"String({camel(name)})"


def is_text(one: Parameter) -> bool:
    return one.type.kind not in ("integer", "number", "boolean")


def method_comment(each: Operation) -> list[str]:
    lines = [each.summary]
    if each.description:
        lines += ["", *wrap(each.description, WIDTH - 5)]
    tagged = [f"@param {camel(one.name)} {one.description}" for one in each.placed("path") if one.description]
    tagged += [f"@throws {{@link {ERRORS[status]}}} {text}" for status, text in each.errors.items()]
    for index, entry in enumerate(tagged):
        lines += ([""] if index == 0 else []) + wrap(entry, WIDTH - 5)
    return block(lines, "  ")


def comment(description: str, indent: str) -> list[str]:
    return block(wrap(description, WIDTH - len(indent) - 3), indent) if description else []


def block(lines: list[str], indent: str) -> list[str]:
    safe = [line.replace("*/", "*\\/") for line in lines]
    if len(safe) == 1:
        return [f"{indent}/** {safe[0]} */"]
    return [f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in safe), f"{indent} */"]


def ts_type(kind: Type, is_input: bool = False) -> str:
    """The annotation of a type; of an input, a time may also be a `Date`."""
    if kind.kind == "named":
        return kind.name
    if kind.kind == "enum":
        return " | ".join(f'"{value}"' for value in kind.values)
    if kind.kind == "list":
        inner = ts_type(kind.of[0], is_input)
        return f"({inner})[]" if " " in inner else f"{inner}[]"
    if kind.kind == "map":
        return f"Record<string, {ts_type(kind.of[0], is_input)}>"
    if kind.kind == "union":
        return " | ".join(ts_type(part, is_input) for part in kind.of)
    if is_input and kind.kind == "timestamp":
        return "string | Date"
    return SCALARS[kind.kind]


def key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_$][\w$]*", name) else f'"{name}"'
