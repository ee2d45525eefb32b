"""What the Rust side is held to: python3 training/fixtures.py WEIGHTS HISTORIES WRITER[,WRITER] [COUNT]

`histories.jsonl` has histories with their rendered text, `tokens.jsonl` texts with their tokens, and `parity.jsonl` states
with questions and what the training framework answers before calibration, with weights as bytes.
"""

import json
import pathlib
import random
import sys

import data
import torch
from model import Decider, load
from text import Tokenizer, render

HERE = pathlib.Path(__file__).parent / "fixtures"
ODD = ["", " ", "naïve café — ¿qué?", "ÅNGSTRÖM Straße ﬁn İstanbul", "你好，世界 hello", "日本語のテキスト", "e\u0301\u0302 zero\u200bwidth", "a" * 101 + " b", "x" * 100,
       "🎉 party 👩‍👩‍👧", "\u00a0non breaking\u3000space", "1,250.00 € ≥ 3½ km²", "don't—stop…", "АБВ где ё Й", "ﷺ العربية", "หนังสือ", "한국어 텍스트", "##ing ][", "a_b{c}\"d\"", "\ufffd\u0000\u0007ok"]


def writes(name, rows):
    (HERE / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def parity(model, batches, groups, count, device):
    """Some histories with one question each, and the logits of its candidates."""
    model.eval()
    draw = random.Random(3)
    asked = [(object_type, events, one) for group in groups for object_type, events, questions in group for one in questions]
    rows = []
    for object_type, events, (question, shares) in draw.sample(asked, min(count, len(asked))):
        state = render(object_type, events)
        batch = [tensor.to(device) for tensor in data.collated([batches.example(state, [(question, shares)])])]
        with torch.no_grad():
            logits = model(*[tensor.long() for tensor in batch[:4]], *batch[4:7])[0].tolist()
        rows.append({"state": state, "type": question["type"], "ask": question["ask"], "criteria": question.get("criteria"), "shares": shares, "logits": [round(value, 5) for value in logits]})
    return rows


def main():
    weights, folder, writers = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 500
    HERE.mkdir(exist_ok=True)
    groups = data.read_histories([f"{folder}/{writer}" for writer in writers.split(",")])
    draw = random.Random(4)
    lone = [(object_type, events) for group in draw.sample(groups, min(len(groups), 30)) for object_type, events, _ in group[:1]]
    writes("histories.jsonl", [{"object_type": o, "called": "Ann\n" if n % 3 == 0 else None, "events": e, "text": render(o, e, "Ann\n" if n % 3 == 0 else None)} for n, (o, e) in enumerate(lone)])
    tokenizer = Tokenizer()
    texts = ODD + [event.get("content") or event.get("name") for group in groups for _, events, _ in group for event in events]
    texts = list(dict.fromkeys(texts))[:3000]
    writes("tokens.jsonl", [{"text": text, "tokens": tokens} for text, tokens in zip(texts, tokenizer.many(texts))])
    config, tensors = load(weights)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Decider(config)
    model.load_state_dict(tensors)
    model.to(device)
    batches = data.Batches(groups, {}, 1)
    batches.tokenizer = tokenizer
    writes("parity.jsonl", parity(model, batches, groups, count, device))


if __name__ == "__main__":
    main()
