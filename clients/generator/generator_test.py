"""Tests of the generator on a document with everything that a real one may have."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import document as reading  # noqa: E402
import emit_python  # noqa: E402
import emit_typescript  # noqa: E402

SIGNED: list[dict[str, list[str]]] = [{"signed_request": []}, {"console_token": []}]


def content(schema: Any, kind: str = "application/json") -> dict[str, Any]:
    return {"description": "It.", "content": {kind: {"schema": schema}}}


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def operation(name: str, **more: Any) -> dict[str, Any]:
    return {"operationId": name, "tags": ["things"], "summary": f"{name}.", "security": SIGNED, **more}


def sample() -> dict[str, Any]:
    thing = {
        "type": "object",
        "description": 'A thing with */ and """ in its text.',
        "required": ["id", "from", "owner"],
        "properties": {
            "id": {"type": "string"},
            "from": {"type": "string", "format": "date-time"},
            "owner": {"oneOf": [ref("Thing"), {"type": "null"}]},
            "place": {"type": "object", "required": ["x"], "properties": {"x": {"type": ["number", "null"]}}},
            "mood": ref("Mood"),
            "secret": {"type": "string"},
            "raw_json": {"type": "boolean"},
            "tags": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
        },
    }
    page = {
        "type": "object",
        "required": ["things"],
        "properties": {
            "things": {"type": "array", "items": ref("Thing")},
            "warnings": {"type": "array", "items": {"type": "string"}},
            "next_cursor": {"type": "string"},
        },
    }
    trial = {
        "type": "object",
        "required": ["over"],
        "properties": {
            "over": {
                "oneOf": [
                    {"type": "string", "enum": ["recent"]},
                    {"type": "object", "properties": {"q": {"type": "string"}}},
                ]
            },
            "for": {"type": ["string", "null"]},
            "thing": ref("Thing"),
        },
    }
    return {
        "paths": {
            "/v1/things": {
                "get": operation(
                    "listThings",
                    parameters=[{"name": "cursor", "in": "query", "schema": {"type": "string"}}],
                    responses={"200": content(ref("ThingPage"))},
                ),
                "post": operation(
                    "createThing",
                    requestBody={"required": True, **content(ref("ThingTrial"))},
                    responses={
                        "201": content(ref("Thing")),
                        "202": {"description": "Later."},
                        "400": {"description": "Bad."},
                    },
                ),
            },
            "/v1/things/{thing_id}": {
                "delete": operation(
                    "deleteThing",
                    parameters=[{"name": "thing_id", "in": "path", "required": True, "schema": {"type": "integer"}}],
                    responses={"204": {"description": "Gone."}},
                ),
            },
            "/v1/export": {
                "get": operation("exportThings", responses={"200": content({"type": "string"}, "application/x-ndjson")})
            },
            "/auth/login": {"post": {"operationId": "signIn", "tags": ["console"], "responses": {}}},
            "/v1/old": {"get": operation("getOld", deprecated=True, responses={})},
        },
        "webhooks": {"thing.made": {"post": {"requestBody": content(ref("Thing"))}}},
        "tags": [{"name": "things", "description": "Things."}, {"name": "console", "description": "People."}],
        "components": {
            "schemas": {
                "Thing": thing,
                "ThingPage": page,
                "ThingTrial": {"allOf": [trial, {"type": "object", "properties": {"note": {"type": "string"}}}]},
                "Mood": {"type": "string", "enum": ["good", "bad"], "description": "How it is."},
            }
        },
    }


class GeneratorTest(unittest.TestCase):
    def setUp(self) -> None:
        self.document = reading.read(sample())
        emit_python.prepare(self.document)
        self.python = emit_python.files(self.document)
        self.typescript = emit_typescript.files(self.document)

    def test_only_operations_that_take_a_key_are_generated(self) -> None:
        names = [each.id for each in self.document.operations]
        self.assertEqual(names, ["listThings", "createThing", "deleteThing", "exportThings"])

    def test_python_compiles_and_handles_reserved_words(self) -> None:
        for name, text in self.python.items():
            compile(text, name, "exec")
        self.assertIn('from_: datetime = field(metadata={"wire": "from"})', self.python["records.py"])
        self.assertIn("secret: str | None = field(default=None, repr=False)", self.python["records.py"])
        self.assertIn("owner: Thing | None = None", self.python["records.py"])
        self.assertIn(
            'raw_json_: bool | None = field(default=None, metadata={"wire": "raw_json"})', self.python["records.py"]
        )
        self.assertIn("for_: str | Unset | None = UNSET", self.python["things.py"])
        self.assertIn('body={"over": over, "for": for_, "thing": thing, "note": note}', self.python["things.py"])
        self.assertIn("str(thing_id)", self.python["things.py"])

    def test_a_record_of_requests_and_responses_has_two_names_in_python(self) -> None:
        self.assertIn("class Thing(Record)", self.python["records.py"])
        self.assertIn('TypedDict("ThingInput"', self.python["inputs.py"])
        self.assertIn("thing: ThingInput | Unset = UNSET", self.python["things.py"])

    def test_results_by_status(self) -> None:
        self.assertIn(") -> Thing | None:", self.python["things.py"])
        self.assertIn(
            "createThing(body: ThingTrial, options?: RequestOptions): Promise<Thing | undefined>",
            self.typescript["operations.ts"],
        )
        self.assertIn("def export_things(self) -> str:", self.python["things.py"])
        self.assertIn("text: true", self.typescript["operations.ts"])

    def test_lists_page_over_their_only_list_of_records(self) -> None:
        self.assertIn("-> Pager[ThingPage, Thing]", self.python["things.py"])
        self.assertIn("-> AsyncPager[ThingPage, Thing]", self.python["async_things.py"])
        self.assertIn('items: "things"', self.typescript["operations.ts"])
        broken = sample()
        page = broken["components"]["schemas"]["ThingPage"]
        page["properties"]["others"] = {"type": "array", "items": ref("Thing")}
        # What comes along only when it is asked for is no list of the page.
        reading.read(broken)
        page["required"] = [*page.get("required", []), "others"]
        with self.assertRaises(SystemExit):
            reading.read(broken)

    def test_objects_without_a_name_get_one(self) -> None:
        self.assertIn("class ThingPlace(Record)", self.python["records.py"])
        self.assertIn("export interface ThingPlace {", self.typescript["records.ts"])
        self.assertIn('over: "recent" | ThingTrialOver1', self.typescript["records.ts"])

    def test_texts_cannot_end_a_comment(self) -> None:
        self.assertNotIn("with */", self.typescript["records.ts"])

    def test_stale_files_are_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "openapi.json"
            source.write_text(json.dumps(sample()))
            command = [sys.executable, "-B", str(HERE), "--document", str(source), "--output", folder]
            self.assertEqual(run([*command, "--check"]), 1)
            self.assertEqual(run(command), 0)
            self.assertEqual(run([*command, "--check"]), 0)
            extra = Path(folder) / "typescript/src/generated/extra.ts"
            extra.write_text("")
            self.assertEqual(run([*command, "--check"]), 1)
            self.assertEqual(run(command), 0)
            self.assertFalse(extra.exists())


def run(command: list[str]) -> int:
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    unittest.main()
