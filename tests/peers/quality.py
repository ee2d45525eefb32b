"""Computes figures of quality with scikit-learn.

Each line on stdin is JSON: {"answers": […], "labels": […], "isotonic"?: true} for yes/no answers, or
{"kind": "choice" or "score", "probabilities": [[…], …], "truth": […]} for classes. Each line on stdout is JSON with the same figures as the service's.
"""

import json
import sys

import numpy
from sklearn import calibration, metrics
from sklearn.isotonic import IsotonicRegression


def at_thresholds(answers, labels):
    """Precision and recall at each threshold; None where one is undefined."""
    precision, recall, thresholds = metrics.precision_recall_curve(labels, answers)
    places = [numpy.searchsorted(thresholds, step / 20) for step in range(1, 20)]
    precision = [float(precision[place]) if place < len(thresholds) else None for place in places]
    recall = [float(recall[place]) for place in places] if labels.any() else [None] * len(places)
    return precision, recall


def fitted_curve(answers, labels):
    curve = IsotonicRegression(out_of_bounds="clip").fit(answers, labels)
    margin = 1 / (len(labels) + 2)
    return curve.predict(numpy.linspace(0.01, 0.99, 25)).clip(margin, 1 - margin).tolist()


def yes_no(answers, labels, isotonic=False):
    answers, labels = numpy.array(answers), numpy.array(labels)
    precision, recall = at_thresholds(answers, labels)
    share_yes, mean_answer = calibration.calibration_curve(labels, answers, n_bins=10)
    counts, _ = numpy.histogram(answers, bins=numpy.linspace(0, 1, 11))
    counts = counts[counts > 0]
    return {
        "accuracy": metrics.accuracy_score(labels, answers >= 0.5),
        "auc": metrics.roc_auc_score(labels, answers) if 0 < labels.sum() < len(labels) else None,
        "brier": metrics.brier_score_loss(labels, answers, pos_label=1),
        "calibration_error": float(numpy.abs(share_yes - mean_answer) @ counts / len(labels)),
        "share_yes": share_yes.tolist(),
        "mean_answer": mean_answer.tolist(),
        "precision": precision,
        "recall": recall,
        "flagged": [float((answers >= step / 20).mean()) for step in range(1, 20)],
        "isotonic": fitted_curve(answers, labels) if isotonic else None,
    }


def classes(kind, probabilities, truth):
    probabilities, truth = numpy.array(probabilities), numpy.array(truth)
    likeliest = probabilities.argmax(axis=1)
    if kind == "score":
        answered = numpy.floor(probabilities @ numpy.arange(probabilities.shape[1]) + 0.5).astype(int)
    else:
        answered = likeliest
    names = sorted(set(answered.tolist()) | set(truth.tolist()))
    top = probabilities.max(axis=1)
    share_right, mean_top = calibration.calibration_curve(likeliest == truth, top, n_bins=10)
    counts, _ = numpy.histogram(top, bins=numpy.linspace(0, 1, 11))
    return {
        "accuracy": metrics.accuracy_score(truth, answered),
        "macro_f1": metrics.f1_score(truth, answered, average="macro"),
        "mean_distance": metrics.mean_absolute_error(truth, answered),
        "calibration_error": float(numpy.abs(share_right - mean_top) @ counts[counts > 0] / len(truth)),
        "confusion": metrics.confusion_matrix(truth, answered, labels=names).tolist(),
        "names": names,
    }


for line in sys.stdin:
    sets = json.loads(line)
    figures = yes_no(**sets) if "answers" in sets else classes(**sets)
    print(json.dumps(figures), flush=True)
