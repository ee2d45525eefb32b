"""Writes the records and operations of the Python client."""

from __future__ import annotations

import keyword
import re
import textwrap

from choices import SECRET_FIELDS
from document import Alias, Document, Field, Operation, Record, Type, snake

WIDTH = 120
NOTICE = '"""{}\n\nGenerated from docs/openapi.json by `make clients`. Do not edit.\n"""\n\nfrom __future__ import annotations\n'
SCALARS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "any": "Any",
    "timestamp": "datetime",
    "date": "date",
}
# Names that every record has already.
TAKEN = {"from_dict", "http_response", "raw_json"}
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
    written = {"records.py": records(document), "inputs.py": inputs(document)}
    modules = []
    for tag, description in document.tags.items():
        chosen = [each for each in document.operations if each.tag == tag]
        if not chosen:
            continue
        name = snake(tag)
        modules.append((name, "".join(word.capitalize() for word in name.split("_"))))
        written[f"{name}.py"] = operations(document, chosen, modules[-1][1], description, is_async=False)
        written[f"async_{name}.py"] = operations(document, chosen, modules[-1][1], description, is_async=True)
    written["__init__.py"] = package(modules)
    return written


def package(modules: list[tuple[str, str]]) -> str:
    lines = [NOTICE.format("All operations, for both clients.")]
    imported = [f"async_{name} import Async{title}" for name, title in modules]
    imported += [f"{name} import {title}" for name, title in modules]
    lines += [f"from .{each}" for each in sorted(imported, key=lambda line: line.split()[0])]
    for prefix, said in (("", "wait for the response"), ("Async", "are awaited")):
        listed = [f"    {prefix}{title}," for _, title in modules]
        lines += ["", "", f"class {prefix}Operations(", *listed, "):", f'    """Operations that {said}."""']
    return "\n".join(lines) + "\n"


def records(document: Document) -> str:
    body = [alias(each) for each in document.aliases.values() if not holds_records(document, each)]
    chosen = [each for each in document.records.values() if each.name in document.in_responses]
    body += [dataclass(document, each) for each in chosen]
    body += ["\n" + alias(each) for each in document.aliases.values() if holds_records(document, each)]
    payloads = " | ".join(sorted(set(document.webhooks.values())))
    listed = [
        "",
        f"WebhookPayload = {payloads}",
        '"""The payload of a webhook delivery."""',
        "",
        "#: The record of each webhook event.",
        "WEBHOOK_EVENTS: dict[str, type[WebhookPayload]] = {",
        *(f'    "{event}": {name},' for event, name in sorted(document.webhooks.items())),
        "}",
    ]
    names = sorted([*document.aliases, *(each.name for each in chosen), "WEBHOOK_EVENTS", "WebhookPayload"])
    head = [
        NOTICE.format("The records that the service answers with."),
        "from dataclasses import dataclass, field",
        "from datetime import date, datetime",
        "from typing import Any, Literal",
        "",
        "from .._records import Record",
        "",
        all_names(names),
    ]
    return imports_used("\n".join([*head, *body, "\n".join(listed)]) + "\n")


def all_names(names: list[str]) -> str:
    return "\n".join(["__all__ = [", *(f'    "{name}",' for name in names), "]", ""])


def holds_records(document: Document, each: Alias) -> bool:
    """Whether records are among what an alias stands for: then it is defined after them, and requests have dictionaries instead."""
    return any(name in document.records for name in contained(each.type))


def alias(each: Alias) -> str:
    line = f"{each.name} = {python_type(each.type)}"
    if len(line) > WIDTH and each.type.kind == "enum":
        line = "\n".join([f"{each.name} = Literal[", *(f'    "{value}",' for value in each.type.values), "]"])
    described = doc(each.description, "")
    return "\n".join([line, *described, ""]) if described else line + "\n"


def dataclass(document: Document, record: Record) -> str:
    lines = ["", "@dataclass(frozen=True, kw_only=True, repr=False)", f"class {record.name}(Record):"]
    lines += doc(record.description or f"{record.name}.", "    ")
    for each in record.fields:
        lines += ["", *dataclass_field(each)]
    return "\n".join(lines) + "\n"


def dataclass_field(each: Field) -> list[str]:
    name, kind = identifier(each.name), python_type(each.type)
    is_optional = not each.required or each.type.nullable
    if is_optional and not each.type.nullable and kind != "Any":
        kind += " | None"
    options = []
    if is_optional:
        options.append("default=None")
    if each.name in SECRET_FIELDS:
        options.append("repr=False")
    if name != each.name:
        options.append(f'metadata={{"wire": "{each.name}"}}')
    default = ""
    if options == ["default=None"]:
        default = " = None"
    elif options:
        default = f" = field({', '.join(options)})"
    return [f"    {name}: {kind}{default}", *doc(each.description, "    ")]


def inputs(document: Document) -> str:
    """The records that requests contain. The fields of a body itself are arguments of its method."""
    bodies = {each.body.name for each in document.operations if each.body is not None}
    nested: set[str] = set()
    for name in document.in_requests & set(document.records):
        for each in document.records[name].fields:
            nested |= contained(each.type)
    for operation in document.operations:
        if operation.body is not None and operation.body.kind != "named":
            nested |= contained(operation.body)
    for name in nested & set(document.aliases):
        nested |= contained(document.aliases[name].type)
    chosen = [each for each in document.records.values() if each.name in nested]
    body = [typed_dict(document, each) for each in chosen]
    assert all(name in document.records or name in document.aliases for name in bodies if name)
    head = [
        NOTICE.format("The records that requests contain, as plain dictionaries."),
        "from collections.abc import Mapping, Sequence",
        "from datetime import date, datetime",
        "from typing import Any, Literal, TypedDict",
        "",
        *records_import(document, body),
        "",
        all_names([input_name(document, each.name) for each in chosen]),
    ]
    return imports_used("\n".join([*head, *body]))


def contained(kind: Type) -> set[str]:
    names = {kind.name} if kind.kind == "named" else set()
    for part in kind.of:
        names |= contained(part)
    return names


def input_name(document: Document, name: str) -> str:
    """A record that is also answered has another name in requests."""
    if name not in document.in_responses or name not in document.records:
        return name
    return f"{name}Param" if f"{name}Input" in document.records else f"{name}Input"


def typed_dict(document: Document, record: Record) -> str:
    name = input_name(document, record.name)
    if any(keyword.iskeyword(each.name) for each in record.fields):
        entries = ", ".join(f'"{each.name}": {python_type(each.type, document)}' for each in record.fields)
        return f'\n{name} = TypedDict("{name}", {{{entries}}}, total=False)\n'
    required = [each for each in record.fields if each.required]
    optional = [each for each in record.fields if not each.required]
    lines = []
    base = "TypedDict"
    if required and optional:
        base = f"_{name}Required"
        lines += ["", f"class {base}(TypedDict):", *typed_fields(document, required), ""]
    total = ", total=False" if optional else ""
    lines += ["", f"class {name}({base}{total}):", *doc(record.description or f"{record.name}.", "    "), ""]
    lines += typed_fields(document, optional or required)
    return "\n".join(lines) + "\n"


def typed_fields(document: Document, fields: list[Field]) -> list[str]:
    lines: list[str] = []
    for each in fields:
        lines += [f"    {each.name}: {python_type(each.type, document)}", *doc(each.description, "    "), ""]
    return lines[:-1]


def operations(document: Document, chosen: list[Operation], title: str, description: str, is_async: bool) -> str:
    prefix = "Async" if is_async else ""
    body = ["", f"class {prefix}{title}({prefix}Caller):", *doc(description, "    ")]
    for each in chosen:
        body += ["", *method(document, each, is_async)]
    written = "\n".join(body)
    core = [*used(["UNSET", "Call", "Unset"], written), f"{prefix}Caller", *used([f"{prefix}Pager"], written)]
    modules = {"Call": ".._call", "UNSET": ".._call", "Unset": ".._call"}
    sources: dict[str, list[str]] = {}
    for name in core:
        sources.setdefault(modules.get(name, ".._caller" if name.endswith("Caller") else ".._paging"), []).append(name)
    head = [
        NOTICE.format(f"Operations: {description[:1].lower()}{description[1:]}".rstrip()),
        "from collections.abc import Mapping, Sequence",
        "from datetime import date, datetime",
        "from typing import Any, Literal, overload",
        "",
        *(f"from {module} import {', '.join(names)}" for module, names in sorted(sources.items())),
    ]
    names = [input_name(document, name) for name in document.records if name in document.in_requests]
    if found := used(names, written):
        head.append(import_of(".inputs", found))
    head += [*records_import(document, body), ""]
    return imports_used("\n".join([*head, *body]) + "\n")


def used(names: list[str], written: str) -> list[str]:
    return [name for name in names if re.search(rf"\b{name}\b", written)]


def records_import(document: Document, body: list[str]) -> list[str]:
    names = [*document.aliases, *(name for name in document.records if name in document.in_responses)]
    found = used(sorted(names), "\n".join(body))
    return [import_of(".records", found)] if found else []


def import_of(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


def method(document: Document, each: Operation, is_async: bool) -> list[str]:
    """A method; of an operation with a chosen response, the overloads too."""
    lines: list[str] = []
    if each.chosen_by is not None:
        deciding, chosen, otherwise = each.chosen_by
        for annotation, statuses in (
            (f"{deciding}: Literal[True]", [chosen]),
            (f"{deciding}: Literal[False] | Unset | None = UNSET", [otherwise]),
            (f"{deciding}: bool | Unset | None = UNSET", [chosen, otherwise]),
        ):
            signature = arguments(document, each, {deciding: annotation})
            lines += ["    @overload", *define(each, signature, result(each, statuses, is_async), is_async, " ..."), ""]
    signature = arguments(document, each, {})
    lines += define(each, signature, result(each, list(each.responses), is_async), is_async, "")
    lines += method_doc(document, each)
    lines += call(each, is_async)
    return lines


def define(each: Operation, signature: list[str], answer: str, is_async: bool, end: str) -> list[str]:
    word = "async def" if is_async and each.items is None else "def"
    name = identifier(snake(each.id))
    line = f"    {word} {name}({', '.join(['self', *signature])}) -> {answer}:{end}"
    if len(line) <= WIDTH:
        return [line]
    listed = [f"        {argument}," for argument in ["self", *signature]]
    return [f"    {word} {name}(", *listed, f"    ) -> {answer}:{end}"]


def result(each: Operation, statuses: list[str], is_async: bool) -> str:
    if each.items is not None:
        page = python_type(next(kind for kind in each.responses.values() if kind is not None))
        return f"{'Async' if is_async else ''}Pager[{page}, {python_type(each.items[1])}]"
    kinds = []
    for status in statuses:
        kind = each.responses[status]
        name = "None" if kind is None else python_type(kind)
        if name not in kinds:
            kinds.append(name)
    return " | ".join(kinds)


def body_fields(document: Document, each: Operation) -> list[Field]:
    if each.body is None or each.body.kind != "named" or each.body.name not in document.records:
        return []
    return document.records[each.body.name].fields


def arguments(document: Document, each: Operation, replaced: dict[str, str]) -> list[str]:
    """Path parameters by position; all others by name, required ones first."""
    positional = [f"{identifier(one.name)}: {python_type(one.type, document)}" for one in each.placed("path")]
    required: list[str] = []
    optional: list[str] = []
    for one in body_fields(document, each):
        kind, name = python_type(one.type, document), identifier(one.name)
        if one.name in replaced:
            (optional if "UNSET" in replaced[one.name] else required).append(replaced[one.name])
        elif one.required:
            required.append(f"{name}: {kind}")
        else:
            optional.append(f"{name}: {or_unset(kind)} = UNSET")
    if each.body is not None and not body_fields(document, each):
        required.append(f"body: {python_type(each.body, document)}")
    for parameter in [*each.placed("query"), *(one for one in each.placed("header") if one.name == "Idempotency-Key")]:
        kind, name = python_type(parameter.type, document), identifier(snake(parameter.name))
        (required if parameter.required else optional).append(
            f"{name}: {kind}" if parameter.required else f"{name}: {kind} | None = None"
        )
    named = required + optional
    return positional + (["*", *named] if named else [])


def or_unset(kind: str) -> str:
    """The type of an argument that may be left out; `None` stays last."""
    return f"{kind.removesuffix(' | None')} | Unset | None" if kind.endswith(" | None") else f"{kind} | Unset"


def method_doc(document: Document, each: Operation) -> list[str]:
    paragraphs = [each.summary]
    if each.description:
        paragraphs += ["", *wrap(each.description, WIDTH - 8)]
    described = [(identifier(one.name), one.description) for one in each.placed("path")]
    described += [(identifier(one.name), one.description) for one in body_fields(document, each)]
    others = [*each.placed("query"), *(one for one in each.placed("header") if one.name == "Idempotency-Key")]
    described += [(identifier(snake(one.name)), one.description) for one in others]
    if any(description for _, description in described):
        paragraphs += ["", "Args:"]
        for name, description in described:
            if description:
                paragraphs += hanging(f"{name}: {description}")
    if each.errors:
        paragraphs += ["", "Raises:"]
        for status, description in each.errors.items():
            paragraphs += hanging(f"{ERRORS[status]}: {description}")
    return docstring(paragraphs, "        ")


def call(each: Operation, is_async: bool) -> list[str]:
    """The body of a method: one call, described."""
    segments = []
    for segment in each.path.strip("/").split("/"):
        name = segment.strip("{}")
        is_text = any(one.name == name and one.type.kind != "integer" for one in each.placed("path"))
        variable = identifier(name) if is_text else f"str({identifier(name)})"
        segments.append(variable if segment.startswith("{") else f'"{segment}"')
    listed = ", ".join(segments) + ("," if len(segments) == 1 else "")
    given = [f'"{each.method}"', f"({listed})"]
    answers = {status: kind for status, kind in each.responses.items() if kind is not None}
    given.append("{" + ", ".join(f"{status}: {python_type(kind)}" for status, kind in answers.items()) + "}")
    if each.placed("query"):
        pairs = ", ".join(f'"{one.name}": {identifier(snake(one.name))}' for one in each.placed("query"))
        given.append(f"query={{{pairs}}}")
    given += call_body(each)
    if each.chosen_by is not None:
        given.append(f"repeatable={each.chosen_by[0]} is not True")
    elif each.repeatable != (each.method in ("GET", "PUT", "DELETE")):
        given.append(f"repeatable={each.repeatable}")
    phantom = result(each, list(each.responses), False)
    if each.items is not None:
        phantom = python_type(next(iter(answers.values())))
        start, end = "return self._pages(", f', "{each.items[0]}")'
    else:
        word = "" if phantom == "None" else "return "
        start, end = f"{word}{'await ' if is_async else ''}self._call(", ")"
    line = f"        {start}Call[{phantom}]({', '.join(given)}){end}"
    if len(line) <= WIDTH:
        return [line]
    lines = [f"        {start}", f"            Call[{phantom}]("]
    for one in given:
        lines += break_mapping(one)
    lines.append("            ),")
    if each.items is not None:
        lines.append(f'            "{each.items[0]}",')
    return [*lines, "        )"]


def call_body(each: Operation) -> list[str]:
    given = []
    if each.body is not None:
        if each.body.kind == "named" and BODY_FIELDS.get(each.body.name):
            pairs = ", ".join(f'"{name}": {identifier(name)}' for name in BODY_FIELDS[each.body.name])
            given.append(f"body={{{pairs}}}")
        else:
            given.append("body=body")
    if each.takes_idempotency_key:
        given.append("idempotency_key=idempotency_key or new_idempotency_key()")
    return given


#: The names of the fields of each body; set by `prepare`.
BODY_FIELDS: dict[str, list[str]] = {}


def prepare(document: Document) -> None:
    BODY_FIELDS.clear()
    BODY_FIELDS.update({name: [one.name for one in record.fields] for name, record in document.records.items()})


def break_mapping(argument: str) -> list[str]:
    line = f"                {argument},"
    if len(line) <= WIDTH or "={" not in argument:
        return [line]
    name, entries = argument[:-1].split("={", 1)
    listed = [f"                    {entry}," for entry in entries.split(", ")]
    return [f"                {name}={{", *listed, "                },"]


def python_type(kind: Type, requests: Document | None = None) -> str:
    """The annotation of a type; with a document, as it is accepted in requests."""
    if kind.kind == "named":
        if requests is None:
            return kind.name
        alias_of = requests.aliases.get(kind.name)
        if alias_of is not None and holds_records(requests, alias_of):
            return python_type(alias_of.type, requests)
        return input_name(requests, kind.name)
    if kind.kind == "enum":
        return f"Literal[{', '.join(quoted(value) for value in kind.values)}]"
    if kind.kind == "list":
        return f"{'list' if requests is None else 'Sequence'}[{python_type(kind.of[0], requests)}]"
    if kind.kind == "map":
        return f"{'dict' if requests is None else 'Mapping'}[str, {python_type(kind.of[0], requests)}]"
    if kind.kind == "union":
        return " | ".join(python_type(part, requests) for part in kind.of)
    if requests is not None and kind.kind in ("timestamp", "date"):
        return f"{SCALARS[kind.kind]} | str"
    return SCALARS[kind.kind]


def quoted(value: str) -> str:
    return f'"{value}"'


def identifier(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) or name in TAKEN else name


def imports_used(written: str) -> str:
    """Drops imported names of the standard library that are not used, and adds the maker of keys where it is."""
    lines = []
    without_prose = re.sub(r'""".*?"""', "", written, flags=re.DOTALL)
    body = re.sub(r"^from .*$", "", without_prose, flags=re.MULTILINE)
    for line in written.split("\n"):
        found = re.fullmatch(r"from (collections\.abc|dataclasses|datetime|typing) import (.*)", line)
        if found:
            names = used(found[2].split(", "), body)
            if names:
                lines.append(f"from {found[1]} import {', '.join(names)}")
        elif line.startswith("from .._call import") and "new_idempotency_key" in body:
            lines.append(f"{line}, new_idempotency_key")
        else:
            lines.append(line)
    return re.sub(r"\n{3,}(from|__all__)", r"\n\n\1", "\n".join(lines))


def wrap(paragraphs: str, width: int) -> list[str]:
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", paragraphs.strip()):
        flat = " ".join(paragraph.split())
        lines += ["", *textwrap.wrap(flat, width, break_long_words=False, break_on_hyphens=False)]
    return lines[1:]


def hanging(entry: str) -> list[str]:
    flat = " ".join(entry.split())
    lines = textwrap.wrap(flat, WIDTH - 16, break_long_words=False, break_on_hyphens=False)
    return [f"    {lines[0]}", *(f"        {line}" for line in lines[1:])]


def doc(description: str, indent: str) -> list[str]:
    return docstring(wrap(description, WIDTH - len(indent) - 8), indent) if description else []


def docstring(lines: list[str], indent: str) -> list[str]:
    safe = [line.replace("\\", "\\\\").replace('"""', "'''") for line in lines]
    if len(safe) == 1:
        return [f'{indent}"""{safe[0]}"""'] if not safe[0].endswith('"') else [f'{indent}"""{safe[0]} """']
    written = [f'{indent}"""{safe[0]}', *(f"{indent}{line}".rstrip() for line in safe[1:])]
    return [*written, f'{indent}"""']
