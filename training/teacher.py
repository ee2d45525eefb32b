"""The teacher: a causal model that reads the state once and each question after it, fine-tuned, then asked what nobody answered.

    python3 training/teacher.py --weights FOLDER --histories FOLDER --data FOLDER --out FOLDER --seconds 600 --label-seconds 240

FOLDER of weights is what `qwen.py` wrote. Leaves `labels.xz` (the shares of every question of `pairs.py` that there was
time for) and `answers.jsonl` (the held-out questions). `--layers 2 --steps 3 --shards 1 --few 3 --workers 0` tries it all on a processor.
"""

import argparse
import json
import pathlib
import time

import causal
import data
import evaluate
import labels
import pairs
import qwen
import torch
import train
from text_rendering import render

SAVED = 12  # Labels are written after so many shards.


class Shards:
    """The questions of `pairs.py`, as lists that a loader can take one by one."""

    def __init__(self, source, count):
        self.source, self.count = source, count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        return [(render(object_type, events), [question for question, _ in asked]) for object_type, events, asked in self.source.shard(number)]


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("weights", "histories", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--data", default="")
    parser.add_argument("--held-out", default="birch,ferry")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--label-seconds", type=float, default=240)
    parser.add_argument("--clock", default="", help="a file of JSON with `teacher` and `labels`: when to stop, in seconds since 1970; read when the weights are there")
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--warm", type=int, default=0, help="steps that only compile, before the weights are there")
    parser.add_argument("--rate", type=float, default=3e-5)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--shards", type=int, default=1000, help="of questions to label at most")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--checkpoint", default="", help="a file that keeps the trained teacher; where it exists, only labels are made")
    parser.add_argument("--few", type=int, default=0, help="so many writers and held-out states, to try it")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seed", type=int, default=10)
    return parser.parse_args()


def taught(model, loader, options, until, device):
    """Fine-tunes until the time is over."""
    course = causal.Course(model, device)
    while (progress := max(course.step / options.steps, (time.time() - course.started) / (until - course.started))) < 1:
        course.learn(next(loader), options.rate * min(1.0, (progress + 1e-3) / 0.04) * (1 - progress), progress)


def judge(model, examples, options, device):
    """The held-out questions, and a table of how the teacher does on them."""
    answers = causal.said(model, examples, causal.told_of(examples, options.weights, min(options.workers, 8), device), device)
    (pathlib.Path(options.out) / "answers.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    print(evaluate.table(evaluate.pooled([answer for answer in answers if not answer["task"].startswith("weak")])), flush=True)
    print(evaluate.table([answer for answer in answers if answer["task"].startswith("weak")]), flush=True)


def label(model, source, options, until, device):
    shards = Shards(source, options.shards)
    loader = torch.utils.data.DataLoader(causal.Asked(shards, options.weights), batch_size=None, num_workers=options.workers, prefetch_factor=2 if options.workers else None, pin_memory=device == "cuda")
    lines, questions, started = [], 0, time.time()
    for number, logits in causal.answered(model, loader, device, until):
        lines.append(labels.written(number, source.shard(number), [evaluate.softmax(own) for rows in logits for own in rows]))
        questions += sum(map(len, logits))
        if len(lines) % SAVED == 0:
            # A student starts with the first of them, and takes more as they come.
            print(f"shard {number} {time.time() - started:.0f}s questions {questions}", flush=True)
            labels.save(pathlib.Path(options.out) / "labels.xz", lines)
    labels.save(pathlib.Path(options.out) / "labels.xz", lines)
    print(f"{len(lines)} shards, {questions} questions labelled in {time.time() - started:.0f}s", flush=True)


def main():
    options = arguments()
    pathlib.Path(options.out).mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(options.seed)
    # Of the kernels for attention, those that the student learns with: with cuDNN's, gradients with masks are not always finite.
    torch.backends.cuda.enable_cudnn_sdp(False)
    model = causal.Causal(qwen.config(options.weights, options.layers)).to(device).train()
    if options.compile:
        causal.compiled(model)
    folders, _ = data.folders(options.histories, options.held_out.split(","))
    described = data.read_described(folders[: options.few or None])
    sets = data.trained_sets(options.data)
    tokens = {"histories": options.tokens, "public": options.tokens // 3, "generated": options.tokens // 3}
    batches = causal.Batches([group for *_, group in described], sets, options.seed, tokens, [["histories", "public"], ["histories", "generated"]])
    batches.folder = options.weights
    loader = iter(torch.utils.data.DataLoader(batches, batch_size=None, num_workers=options.workers, prefetch_factor=4 if options.workers else None, pin_memory=device == "cuda"))
    judged = data.Batches([], {}, 1)
    examples = train.held_out(options, judged)
    examples = examples[:: len(examples) // options.few] if options.few else examples
    print(f"{len(described)} lines, {len(sets)} sets, {len(examples)} held out, {sum(weight.numel() for weight in model.parameters()) / 1e6:.0f}M parameters", flush=True)
    causal.warm(model, loader, options.warm, device)
    layers = list(range(model.config["layers"]))
    causal.fill(model, causal.loaded(options.weights, layers), layers)
    clock = json.loads(pathlib.Path(options.clock).read_text()) if options.clock else {"teacher": time.time() + options.seconds, "labels": time.time() + options.seconds + options.label_seconds}
    kept = pathlib.Path(options.checkpoint) if options.checkpoint else None
    if kept and kept.exists():
        model.load_state_dict(torch.load(kept, map_location=device))
    else:
        taught(model, loader, options, clock["teacher"], device)
        if kept:
            torch.save({name: weight.to(torch.bfloat16) for name, weight in model.state_dict().items()}, kept)
    del loader
    if device == "cuda":
        # Whoever learns needs the memory.
        torch.cuda.empty_cache()
    label(model, pairs.Pairs(described, sets, options.seed), options, clock["labels"], device)
    judge(model, examples, options, device)


if __name__ == "__main__":
    main()
