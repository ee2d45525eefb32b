"""What untuned cosine says to the held-out questions: python3 training/cosine.py MODEL_FOLDER OUT

The option whose text is nearest to the state, by the base model as it was downloaded. `evaluate.py` puts it beside the answers.
"""

import json
import pathlib
import sys

import data
import evaluate
import torch
from base import converted
from model import Decider
from text import Tokenizer, option_texts, plain, reduced


@torch.no_grad()
def embedded(model, texts, batch_size=32):
    """A vector for each text."""
    ids = Tokenizer().many(texts)
    vectors = [None] * len(ids)
    order = sorted(range(len(ids)), key=lambda one: len(ids[one]))
    for start in range(0, len(order), batch_size):
        part = order[start : start + batch_size]
        trees = [(data.tree([[101, *ids[one][:400], 102]], [([], [[]])]), [([1.0], False)]) for one in part]
        batch = data.collated(trees)
        for one, vector in zip(part, model.embedded(*[tensor.long() for tensor in batch[:4]], batch[4])):
            vectors[one] = vector
    return vectors


def main():
    folder, out = map(pathlib.Path, sys.argv[1:3])
    config, tensors = converted(folder)
    model = Decider(config)
    model.load_state_dict(tensors)
    model.eval()
    rows = evaluate.held_out()
    asked = [(reduced(row["state"]), [plain(row["ask"]) + " " + text for text in option_texts(row | {"type": row["kind"]})]) for row in rows]
    texts = list(dict.fromkeys(text for state, options in asked for text in (state, *options)))
    vectors = dict(zip(texts, embedded(model, texts)))
    found = [{"key": evaluate.key(row), "cosine": [round(float(vectors[state] @ vectors[option]), 4) for option in options]} for row, (state, options) in zip(rows, asked)]
    out.write_text("".join(json.dumps(one) + "\n" for one in found))


if __name__ == "__main__":
    main()
