"""Reads the written histories, checks them and counts: python3 training/histories.py [FOLDER…]"""

import copy
import json
import pathlib
import sys
from collections import Counter

HERE = pathlib.Path(__file__).parent
FIELDS = {"at", "type", "name", "content", "metadata"}
DEFAULTS = {
    key: {"type": signal["type"], "ask": signal["instructions"], "criteria": signal["criteria"]}
    for key, signal in json.loads((HERE.parent / "crates/service/src/analysis/default_signals.json").read_text()).items()
}


class Wrong(Exception):
    """A line that does not say what it should."""


def demand(condition, message):
    if not condition:
        raise Wrong(message)


def check_events(events):
    demand(isinstance(events, list) and 1 <= len(events) <= 16, "1 to 16 events")
    last = ""
    for event in events:
        demand(set(event) <= FIELDS, f"unknown field in {event}")
        demand(event.get("type") in ("event", "message"), f"type of {event}")
        demand(isinstance(event.get("at"), str) and len(event["at"]) == 20 and event["at"] >= last, f"at of {event}")
        demand("name" in event or "content" in event, f"nothing said in {event}")
        demand(isinstance(event.get("metadata", {}), dict), f"metadata of {event}")
        last = event["at"]


def whole(question):
    """A question as it is asked: `@key` stands for a default signal."""
    ask = question.get("ask")
    if not (isinstance(ask, str) and ask.startswith("@")):
        return question
    demand(ask[1:] in DEFAULTS, f"no default signal {ask}")
    return DEFAULTS[ask[1:]] | {"answer": question["answer"]}


def check_question(question):
    kind, criteria = question.get("type"), question.get("criteria")
    demand(set(question) <= {"type", "ask", "criteria", "answer"}, f"unknown field in {question}")
    demand(question.get("ask"), "a question without ask")
    if kind == "noul":
        demand(criteria is None or set(criteria) <= {"true", "false"}, f"criteria of {question['ask']}")
    elif kind == "choice":
        demand(isinstance(criteria, dict) and 2 <= len(criteria) <= 26, f"criteria of {question['ask']}")
    elif kind == "score":
        demand(isinstance(criteria, list) and 2 <= len(criteria) <= 26, f"criteria of {question['ask']}")
    else:
        raise Wrong(f"type of {question}")


def check_answer(question, answer):
    """An answer fits its question; returns it as shares over the candidates (yes first, options, levels)."""
    kind, criteria = question["type"], question.get("criteria")
    where = f"answer {answer!r} to {question['ask']!r}"
    if kind == "noul":
        answer = float(answer)
        demand(0 <= answer <= 1, where)
        return [answer, 1 - answer]
    if kind == "choice":
        shares = answer if isinstance(answer, dict) else {answer: 1.0}
        demand(set(shares) <= set(criteria) and abs(sum(shares.values()) - 1) < 1e-6, where)
        return [float(shares.get(option, 0)) for option in criteria]
    demand(isinstance(answer, (int, float)) and 0 <= answer <= len(criteria) - 1, where)
    return [max(0.0, 1 - abs(answer - level)) for level in range(len(criteria))]


def changed(events, variant):
    """The events of a variant."""
    events = copy.deepcopy(events)
    kept = dict(enumerate(events))
    for index, fields in variant.get("set", {}).items():
        demand(int(index) in kept, f"set {index}")
        kept[int(index)].update(fields)
    order = variant.get("order", sorted(kept))
    if "order" in variant:
        demand(sorted(order) == sorted(kept), "order is not a permutation")
        times = [events[index]["at"] for index in sorted(kept)]
        for index, at in zip(order, times):
            kept[index]["at"] = at
    added = {}
    for item in variant.get("add", []):
        demand(set(item) == {"after", "event"} and -1 <= item["after"] < len(events), f"add {item}")
        added.setdefault(item["after"], []).append(item["event"])
    result = list(added.get(-1, []))
    for index in order:
        if index not in variant.get("drop", []):
            result.append(kept[index])
        result.extend(added.get(index, []))
    return result


def histories(line):
    """The base and each variant, as (id, events, [(question, shares)])."""
    check_events(line["events"])
    questions = [whole(question) for question in line["questions"]]
    demand(1 <= len(questions) <= 24, "1 to 24 questions")
    for question in questions:
        check_question(question)
    asked = [(question, check_answer(question, question["answer"])) for question in questions]
    yield line["id"], line["events"], asked
    for variant in line.get("variants", []):
        extra = set(variant) - {"id", "set", "drop", "add", "order", "answers"}
        demand(not extra, f"unknown field {extra} in a variant")
        events = changed(line["events"], variant)
        check_events(events)
        answers = variant["answers"]
        demand(len(answers) == len(questions), f"variant {variant['id']}: {len(answers)} answers to {len(questions)} questions")
        asked = [(q, check_answer(q, a)) for q, a in zip(questions, answers) if a is not None]
        demand(asked, "a variant without answers")
        yield f"{line['id']}-{variant['id']}", events, asked


def extended(line, more):
    """A line with the further questions that somebody wrote for it."""
    own = {variant["id"] for variant in line.get("variants", [])}
    demand(set(more["answers"]) == own, f"answers for {sorted(more['answers'])}, variants {sorted(own)}")
    for variant in line.get("variants", []):
        further = more["answers"][variant["id"]]
        demand(len(further) == len(more["questions"]), f"variant {variant['id']}: {len(further)} further answers to {len(more['questions'])} questions")
        variant["answers"] = variant["answers"] + further
    return line | {"questions": line["questions"] + more["questions"]}


def lines(paths):
    """What the files hold, one JSON object a line."""
    for path in paths:
        for number, text in enumerate(path.read_text().splitlines(), 1):
            try:
                line = json.loads(text)
            except ValueError as error:
                raise SystemExit(f"{path}:{number}: {error}") from None
            yield line


def read(folder):
    """Every history of a writer; complains by its id about what does not fit."""
    folder = pathlib.Path(folder)
    further = {more["id"]: more for more in lines(sorted(folder.glob("more/*.jsonl")))}
    seen = set()
    for line in lines(sorted(folder.glob("*.jsonl"))):
        try:
            if line["id"] in further:
                line = extended(line, further.pop(line["id"]))
            for history in histories(line):
                demand(history[0] not in seen, f"{history[0]} stands twice")
                seen.add(history[0])
                yield line, *history
        except (Wrong, KeyError, TypeError, ValueError, AttributeError) as error:
            raise SystemExit(f"{folder}: {line.get('id')}: {type(error).__name__}: {error}") from None
    if further:
        raise SystemExit(f"{folder}: further questions for lines that do not exist: {sorted(further)}")


def main():
    folders = sys.argv[1:] or sorted(str(path) for path in (HERE / "histories").iterdir() if path.is_dir())
    whole = Counter()
    for folder in folders:
        counts = Counter()
        for line, _, events, asked in read(folder):
            counts["histories"] += 1
            counts["events"] += len(events)
            counts["foreign"] += line.get("lang", "en") != "en"
            for question, shares in asked:
                counts["questions"] += 1
                counts[question["type"]] += 1
                counts["yes"] += question["type"] == "noul" and shares[0] > 0.5
        print(pathlib.Path(folder).name, dict(counts))
        whole.update(counts)
    print("all", dict(whole))


if __name__ == "__main__":
    main()
