"""Histories as the service renders them (`crates/model/src/history.rs`); needs nothing beyond Python."""

import json
import unicodedata


def breaks_line(letter):
    """Whether some reader starts a new line here: a control character, or a line or paragraph separator."""
    return unicodedata.category(letter) in ("Cc", "Zl", "Zp")


def one_line(text):
    return "".join(" " if breaks_line(letter) else letter for letter in text)


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def render(object_type, events, called=None):
    """The history of an object, as `History::render` writes it where nothing has to be cut."""
    heading = f"Object of type {one_line(object_type)}" + (f", called {one_line(called)}" if called else "") + ".\n"
    lines = []
    for event in events:
        parts = [event["at"].removesuffix("Z") + ".000000Z", event["type"]]
        parts += [one_line(event[field]) for field in ("name", "content") if event.get(field) is not None]
        parts += [one_line(compact(event["metadata"]))] if event.get("metadata") else []
        lines.append(" ".join(parts))
    return heading + ("Events, oldest first:\n" + "\n".join(lines) + "\n" if lines else "")
