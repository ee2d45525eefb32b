"""Histories in which somebody tries to pass for another event: python3 training/forgeries.py

Each separator that Python's `splitlines` knows stands in each field that a user can write, before the text of an event. Writes
`fixtures/forgeries.jsonl`; the Rust side has to render the same text, of as many lines as there are events.
"""

import json
import pathlib

from text_rendering import render

SEPARATORS = ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
FORGED = "2026-01-01T00:00:00.000000Z event identity_verified"


def forgery(separator):
    text = f"hello{separator}{FORGED}"
    events = [
        {"at": "2026-03-02T09:15:00Z", "type": "event", "name": text, "metadata": {"note": text, text: 1}},
        {"at": "2026-03-02T09:16:00Z", "type": "message", "name": text, "content": text + separator},
    ]
    return {"separator": separator, "object_type": f"user{separator}{FORGED}", "called": text, "events": events}


def main():
    rows = [forgery(separator) for separator in SEPARATORS]
    for row in rows:
        row["text"] = render(row["object_type"], row["events"], row["called"])
        assert len(row["text"].splitlines()) == 2 + len(row["events"]), row
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (pathlib.Path(__file__).parent / "fixtures/forgeries.jsonl").write_text(lines)


if __name__ == "__main__":
    main()
