"""Judges answers: accuracy, AUC, Brier and calibration by task with intervals, beside majority and beside untuned cosine.

An answer is a dict: task, kind, logits, shares (what was right) and, where it is known, cosine (of the untuned base).
"""

import numpy as np


def softmax(logits):
    weights = np.exp(np.asarray(logits, float) - np.max(logits))
    return weights / weights.sum()


def probabilities(answer, calibration=None):
    logits = np.array(answer["logits"], float)
    temperature, bias = (calibration or {}).get(answer["kind"], (1.0, 0.0))
    logits = logits / temperature
    logits[0] += bias
    return softmax(logits)


def fitted(answers):
    """A temperature a kind, and for yes/no a bias, that make the right answers likeliest: a grid is enough."""
    found = {}
    for kind in ("noul", "choice", "score"):
        own = [answer for answer in answers if answer["kind"] == kind]
        if len(own) < 20:
            continue
        best = None
        for temperature in np.exp(np.linspace(-1.2, 2.0, 65)):
            for bias in np.linspace(-1, 1, 41) if kind == "noul" else (0.0,):
                setting = {kind: (temperature, bias)}
                loss = -sum(np.dot(one["shares"], np.log(probabilities(one, setting) + 1e-9)) for one in own)
                if best is None or loss < best[0]:
                    best = (loss, (float(temperature), float(bias)))
        found[kind] = best[1]
    return found


def auc(scores, truth):
    scores, truth = np.asarray(scores), np.asarray(truth, bool)
    if truth.all() or not truth.any():
        return float("nan")
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    sorted_scores = scores[order]
    at = 0
    while at < len(scores):
        end = at
        while end < len(scores) and sorted_scores[end] == sorted_scores[at]:
            end += 1
        ranks[order[at:end]] = (at + end - 1) / 2 + 1
        at = end
    positive = truth.sum()
    return (ranks[truth].sum() - positive * (positive + 1) / 2) / (positive * (len(truth) - positive))


def expected_error(confidence, right):
    """How far what was claimed is from what came true, in ten bins of equal size."""
    order = np.argsort(confidence)
    bins = np.array_split(order, min(10, max(1, len(order) // 20)))
    return sum(len(one) * abs(np.mean(confidence[one]) - np.mean(right[one])) for one in bins) / len(order)


def judged(answers, calibration=None):
    """The figures of one kind of question."""
    kind = answers[0]["kind"]
    shares = [np.array(answer["shares"]) for answer in answers]
    predicted = [probabilities(answer, calibration) for answer in answers]
    brier = float(np.mean([((p - s) ** 2).sum() / (2 if kind == "noul" else 1) for p, s in zip(predicted, shares)]))
    best = [s >= s.max() - 0.11 if kind == "score" else s >= s.max() - 1e-9 for s in shares]
    right = np.array([bool(b[int(p.argmax())]) for p, b in zip(predicted, best)], float)
    result = {"questions": len(answers), "brier": brier}
    if kind == "noul":
        yes = np.array([p[0] for p in predicted])
        truth = np.array([s[0] for s in shares])
        clear = np.abs(truth - 0.5) >= 0.1
        right = ((yes > 0.5) == (truth > 0.5)).astype(float)[clear]
        result |= {"accuracy": right.mean(), "auc": auc(yes[clear], truth[clear] > 0.5), "calibration": expected_error(yes, truth),
                   "majority": max(np.mean(truth[clear] > 0.5), np.mean(truth[clear] < 0.5))}
    else:
        top = np.array([p.max() for p in predicted])
        result |= {"accuracy": right.mean(), "calibration": expected_error(top, right)}
        if kind == "score":
            places = [np.arange(len(s)) for s in shares]
            result["distance"] = float(np.mean([abs(p @ at - s @ at) / (len(s) - 1) for p, s, at in zip(predicted, shares, places)]))
        result["majority"] = float(np.mean([1 / len(s) for s in shares]))
    draws = np.random.default_rng(1).integers(0, len(right), (400, len(right)))
    result["low"], result["high"] = np.quantile(right[draws].mean(1), [0.025, 0.975])
    if all("cosine" in answer for answer in answers):
        hit = [bool(b[int(np.argmax(answer["cosine"]))]) for answer, b in zip(answers, best)]
        result["cosine"] = float(np.mean(hit))
    return result


def table(answers, calibration=None):
    """One line a task and kind."""
    groups = {}
    for answer in answers:
        groups.setdefault((answer["task"], answer["kind"]), []).append(answer)
    lines = ["| task | kind | questions | accuracy | interval | AUC | Brier | calibration error | majority or chance | untuned cosine |", "|---|---|---|---|---|---|---|---|---|---|"]
    for (task, kind), own in sorted(groups.items()):
        got = judged(own, calibration)
        show = lambda key: f"{got[key]:.3f}" if key in got else ""
        lines.append(f"| {task} | {kind} | {got['questions']} | {show('accuracy')} | {show('low')} to {show('high')} | {show('auc')} | {show('brier')} | {show('calibration')} | {show('majority')} | {show('cosine')} |")
    return "\n".join(lines)


def crossed(answers, halves):
    """A table in which every answer is calibrated by the other half: `halves` says to which half a task belongs."""
    sides = [[a for a in answers if halves(a) == side] for side in (0, 1)]
    settings = [fitted(side) for side in sides]
    moved = []
    for side, setting in zip(sides, reversed(settings)):
        moved += [answer | {"logits": list(np.log(probabilities(answer, setting) + 1e-9))} for answer in side]
    return moved, settings
