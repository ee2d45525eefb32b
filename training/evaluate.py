"""Judges answers: accuracy, AUC, Brier and calibration by task with intervals, beside majority and beside untuned cosine.

    python3 training/evaluate.py questions OUT [PUBLIC]   writes the held-out questions: histories, and public sets where given
    python3 training/evaluate.py judge ANSWERS            prints the table of answers that an analyzer gave
    python3 training/evaluate.py calibrate ANSWERS        prints temperature and bias a kind, fitted on these answers
    python3 training/evaluate.py escalation ANSWERS [SHARE]   prints the error that is left when the least certain answers go to a
                                                          second analyzer that is right in this share of cases (0.95)

An answer is a line of JSON: task, kind, shares (what is right), and logits or probabilities. Nothing beyond Python is needed.
"""

import hashlib
import json
import math
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).parent
KINDS = ("noul", "choice", "score")


def softmax(logits):
    weights = [math.exp(logit - max(logits)) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def probabilities(answer, setting=(1.0, 0.0)):
    if "probabilities" in answer:
        return answer["probabilities"]
    logits = [logit / setting[0] for logit in answer["logits"]]
    logits[0] += setting[1]
    return softmax(logits)


def fitted(answers):
    """A temperature a kind, and for yes/no a bias, that make the right answers likeliest."""
    found = {}
    for kind in KINDS:
        own = [answer for answer in answers if answer["kind"] == kind]

        def loss(setting):
            return -sum(s * math.log(p + 1e-9) for one in own for s, p in zip(one["shares"], probabilities(one, setting)))

        best = (1.0, 0.0)
        for width in (0.5, 0.2, 0.07, 0.03):
            steps = [step * width for step in (-2, -1, 0, 1, 2)]
            tries = [(best[0] * math.exp(one), best[1] + (two if kind == "noul" else 0)) for one in steps for two in (steps if kind == "noul" else (0,))]
            best = min(tries, key=loss)
        found[kind] = [round(best[0], 3), round(best[1], 3)]
    return found


def area(scores, truth):
    """The chance that a yes scores above a no."""
    ranked = sorted(zip(scores, truth))
    ranks, at = 0.0, 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        ranks += sum(true for _, true in ranked[at:end]) * ((at + end - 1) / 2 + 1)
        at = end
    positive = sum(truth)
    negative = len(truth) - positive
    return (ranks - positive * (positive + 1) / 2) / (positive * negative) if positive and negative else float("nan")


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


def expected_error(claimed, came):
    """How far what was claimed is from what came true, in ten bins of equal size."""
    order = sorted(range(len(claimed)), key=lambda at: claimed[at])
    count = min(10, max(1, len(order) // 20))
    bins = [order[len(order) * at // count : len(order) * (at + 1) // count] for at in range(count)]
    return sum(len(one) * abs(mean(claimed[at] for at in one) - mean(came[at] for at in one)) for one in bins) / len(order)


def interval(right):
    draw = random.Random(1)
    means = sorted(mean(draw.choices(right, k=len(right))) for _ in range(400))
    return means[10], means[389]


def judged(answers, settings=None):
    """The figures of one kind of question."""
    kind = answers[0]["kind"]
    shares = [answer["shares"] for answer in answers]
    predicted = [probabilities(answer, (settings or {}).get(kind, (1.0, 0.0))) for answer in answers]
    pairs = list(zip(predicted, shares))
    result = {"questions": len(answers), "brier": mean(sum((p - s) ** 2 for p, s in zip(*pair)) / (2 if kind == "noul" else 1) for pair in pairs)}
    top = [max(range(len(p)), key=p.__getitem__) for p in predicted]
    if kind == "noul":
        clear = [pair for pair in pairs if abs(pair[1][0] - 0.5) >= 0.1]
        right = [float((p[0] > 0.5) == (s[0] > 0.5)) for p, s in clear]
        yes = mean(float(s[0] > 0.5) for _, s in clear)
        result |= {"auc": area([p[0] for p, _ in clear], [s[0] > 0.5 for _, s in clear]), "majority": max(yes, 1 - yes),
                   "calibration": expected_error([p[0] for p in predicted], [s[0] for s in shares])}
    else:
        # Halfway between two levels both are right.
        near = 0.02
        right = [float(s[at] >= max(s) - near) for at, s in zip(top, shares)]
        result |= {"calibration": expected_error([max(p) for p in predicted], right), "majority": mean(1 / len(s) for s in shares)}
        if kind == "score":
            result["distance"] = mean(abs(sum((a - b) * level for level, (a, b) in enumerate(zip(p, s)))) / (len(s) - 1) for p, s in pairs)
    result["accuracy"] = mean(right)
    result["low"], result["high"] = interval(right)
    if all("cosine" in answer for answer in answers):
        result["cosine"] = mean(float(answer["shares"][max(range(len(answer["shares"])), key=answer["cosine"].__getitem__)] >= max(answer["shares"]) - 1e-9) for answer in answers)
    return result


COLUMNS = [("questions", "questions"), ("accuracy", "accuracy"), ("interval", "95 % interval"), ("auc", "AUC"), ("brier", "Brier"), ("calibration", "calibration error"), ("distance", "mean distance"), ("majority", "majority or chance"), ("cosine", "untuned cosine")]


def table(answers, settings=None):
    groups = {}
    for answer in answers:
        groups.setdefault((answer["task"], answer["kind"]), []).append(answer)
    lines = ["| task | kind | " + " | ".join(name for _, name in COLUMNS) + " |", "|---|---|" + "---|" * len(COLUMNS)]
    for (task, kind), own in sorted(groups.items()):
        got = judged(own, settings)
        got["interval"] = f"{got['low']:.3f} to {got['high']:.3f}"
        cells = [got.get(key, "") for key, _ in COLUMNS]
        lines.append(f"| {task} | {kind} | " + " | ".join(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |")
    return "\n".join(lines)


def pooled(answers):
    """The same answers by where they come from: histories, default signals, public sets."""
    return [answer | {"task": "all " + answer["task"].rsplit(" ", 1)[0]} for answer in answers]


def read(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def crossed(answers):
    """Every answer calibrated by what was fitted on the histories of other held-out writers."""
    tasks = sorted({answer["task"].rsplit(" ", 1)[-1] for answer in answers})
    moved = []
    for task in tasks:
        settings = fitted([answer for answer in answers if not answer["task"].endswith(task) and not answer["task"].startswith("public")])
        moved += [answer | {"logits": [math.log(p + 1e-12) for p in probabilities(answer, settings[answer["kind"]])]} for answer in answers if answer["task"].endswith(task)]
    return moved


ESCALATED = (0, 5, 10, 20, 30, 50, 100)


def certainty(answer):
    """How sure an answer is, from 0 to 1, as the service compares answers of all types."""
    shares = probabilities(answer)
    if answer["kind"] == "noul":
        return abs(2 * shares[0] - 1)
    return 1 + sum(share * math.log(share) for share in shares if share > 0) / math.log(len(shares))


def is_right(answer):
    """Whether an answer is right; None where nobody can say."""
    shares, predicted = answer["shares"], probabilities(answer)
    if answer["kind"] == "noul":
        return None if abs(shares[0] - 0.5) < 0.1 else (predicted[0] >= 0.5) == (shares[0] > 0.5)
    at = max(range(len(predicted)), key=predicted.__getitem__)
    if answer["kind"] == "score":
        at = int(sum(level * share for level, share in enumerate(predicted)) + 0.5)
    return shares[at] >= max(shares) - 0.02


def escalation(answers, accuracy):
    """The share of wrong answers by the share that is escalated, the least certain first, for each kind."""
    lines = ["| kind | questions | " + " | ".join(f"{share} %" for share in ESCALATED) + " |", "|---|---|" + "---|" * len(ESCALATED)]
    for kind in (*KINDS, "all"):
        own = [answer for answer in answers if kind in (answer["kind"], "all") and is_right(answer) is not None]
        own.sort(key=certainty)
        errors = []
        for share in ESCALATED:
            first = round(len(own) * share / 100)
            wrong = sum(not is_right(answer) for answer in own[first:]) + first * (1 - accuracy)
            errors.append(wrong / len(own) if own else 0)
        lines.append(f"| {kind} | {len(own)} | " + " | ".join(f"{error:.3f}" for error in errors) + " |")
    return "\n".join(lines)


def key(row):
    """A name for a question about a history."""
    told = json.dumps([row["state"], row["kind"], row["ask"], row["criteria"]], ensure_ascii=False)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def held_out():
    """The questions about the histories of writers whose work is never trained on."""
    import histories
    from text_rendering import render

    rows = []
    for writer in (HERE / "held-out.txt").read_text().split():
        for line, _, events, asked in histories.read(HERE / "histories" / writer):
            for question, shares in asked:
                ours = any(question["ask"] == default["ask"] for default in histories.DEFAULTS.values())
                rows.append({"task": f"{'default signals' if ours else 'histories'} {writer}", "lang": line.get("lang", "en"), "state": render(line["object_type"], events)} | asked_as(question, shares))
    return rows


def questions(out, public_folder=None):
    """What is asked in an evaluation, as lines of task, kind, state, ask, criteria and shares, with the cosines that are known."""
    from text_rendering import render

    cosines = {row.pop("key"): row for row in read(HERE / "fixtures/cosines.jsonl")}
    rows = [row | cosines.get(key(row), {}) for row in held_out()]
    if public_folder:
        import public

        draw = random.Random(5)
        for name in public.HELD_OUT:
            known = public.rows(public_folder, name)
            names = public.names_of(name, known)
            for row in draw.sample(known, min(200, len(known))):
                kind = "choice" if name in ("trec", "snips", "tweet_emotion") else "noul"
                text, question, shares = public.question(draw, name, row, names)
                while question["type"] != kind:
                    text, question, shares = public.question(draw, name, row, names)
                rows.append({"task": f"public {name}", "state": render("message", [{"at": "2026-01-05T10:00:00Z", "type": "message", "content": text}])} | asked_as(question, shares))
    pathlib.Path(out).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def asked_as(question, shares):
    return {"kind": question["type"], "ask": question["ask"], "criteria": question.get("criteria"), "shares": shares}


def main():
    what, *rest = sys.argv[1:]
    if what == "questions":
        questions(*rest)
    elif what == "judge":
        answers = read(rest[0])
        print(table(answers) + "\n" + "\n".join(table(pooled(answers)).splitlines()[2:]))
    elif what == "escalation":
        print(escalation(read(rest[0]), float(rest[1]) if len(rest) > 1 else 0.95))
    elif what == "calibrate":
        answers = read(rest[0])
        moved = crossed(answers)
        print(table(moved) + "\n" + "\n".join(table(pooled(moved)).splitlines()[2:]))
        print(json.dumps(fitted([answer for answer in answers if not answer["task"].startswith("public")])))


if __name__ == "__main__":
    main()
