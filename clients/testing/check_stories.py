"""Checks that every client tells the stories of stories.md, all of them and no others."""

from __future__ import annotations

import re
import sys
from pathlib import Path

CLIENTS = Path(__file__).resolve().parent.parent

# Of each client: where its stories are, and how a test says which one it tells.
TOLD = {
    "Python": ("python/tests/test_stories.py", r"^def test_(\w+)\("),
    "TypeScript": ("typescript/tests/stories.ts", r"^  async (\w+)\(\) \{"),
    "Rust": ("../crates/client/tests/stories/main.rs", r"^async fn (\w+)\(\) \{"),
}


def problems(clients: Path) -> list[str]:
    """What is wrong, a sentence each."""
    listed = re.findall(r"^\| `(\w+)` \|", (clients / "stories.md").read_text(), re.MULTILINE)
    found = []
    if not listed or len(set(listed)) != len(listed):
        found.append("stories.md lists no story, or one twice.")
    for client, (path, pattern) in TOLD.items():
        told = re.findall(pattern, (clients / path).read_text(), re.MULTILINE)
        found += [f"The {client} client does not tell {story}." for story in listed if story not in told]
        found += [
            f"The {client} client tells {story}, which stories.md does not list."
            for story in told
            if story not in listed
        ]
    return found


if __name__ == "__main__":
    wrong = problems(CLIENTS)
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    sys.exit(1 if wrong else 0)
