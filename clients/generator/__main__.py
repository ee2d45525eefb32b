"""Writes the records and operations of the Python and TypeScript clients from the OpenAPI document.

Usage: python3 clients/generator [--check] [--document FILE] [--output FOLDER]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import document
import emit_python
import emit_typescript

CLIENTS = Path(__file__).resolve().parent.parent


def generated(source: Path) -> dict[str, str]:
    """All generated files, by their paths below `clients`."""
    read = document.read(json.loads(source.read_text()))
    emit_python.prepare(read)
    folders = {
        "python/src/auspex/_generated": emit_python.files(read),
        "typescript/src/generated": emit_typescript.files(read),
    }
    return {f"{folder}/{name}": text for folder, files in folders.items() for name, text in files.items()}


def is_generated(path: Path) -> bool:
    return path.is_file() and path.suffix in (".py", ".ts")


def stale(files: dict[str, str], output: Path) -> list[str]:
    """What differs, is missing, or is no longer generated."""
    found = [
        name for name, text in files.items() if not (output / name).is_file() or (output / name).read_text() != text
    ]
    for folder in sorted({Path(name).parent for name in files}):
        present = sorted(path for path in (output / folder).glob("*") if is_generated(path))
        found += [str(path.relative_to(output)) for path in present if str(path.relative_to(output)) not in files]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a file is not up to date")
    parser.add_argument("--document", type=Path, default=CLIENTS.parent / "docs" / "openapi.json")
    parser.add_argument("--output", type=Path, default=CLIENTS, help="the folder that holds `python` and `typescript`")
    options = parser.parse_args()
    files = generated(options.document)
    outdated = stale(files, options.output)
    if options.check:
        for name in outdated:
            print(f"clients/{name} is not what the document says. Run `make clients`.", file=sys.stderr)
        return 1 if outdated else 0
    for name in outdated:
        path = options.output / name
        if name in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[name])
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
