"""A student with a vocabulary of many languages, to be compared with the embedded model: a causal reader of a few layers, weights of four bits.

    python3 training/multilingual.py --weights FOLDER --histories FOLDER --data FOLDER --labels FILE --out FOLDER --seconds 1200

FOLDER of weights is what `qwen.py` wrote. Each of `--tries` learns for a while, and the one with the lowest loss goes on (what it learns
from has not been seen before, so a loss on it is an honest one). Weights are rounded to four bits from `--round-from` on, and the file that
is written is judged. Leaves `weights.bin`, `answers.jsonl` and `log.txt`, and on the way `answers-SHARE.jsonl` at the shares of the time that
`--judge-at` names: a machine that is lost takes the end with it. `--tries 2@2e-5,0:4:2@2e-5 --steps 4 --few 40 --tokens
2000,1500,800,800` runs all of it on a processor.
"""

import argparse
import json
import pathlib
import time

import causal
import compare
import data
import evaluate
import labels
import model as files
import pairs
import qwen
import torch
import train

WARMING = 60  # Steps in which the rate rises.

def arguments():
    parser = argparse.ArgumentParser()
    for name in ("weights", "histories", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--data", default="")
    parser.add_argument("--held-out", default="birch,ferry")
    parser.add_argument("--labels", default="", help="a teacher's answers (`teacher.py`)")
    parser.add_argument("--labels-seed", type=int, default=10, help="of the questions that were labelled")
    parser.add_argument("--seconds", type=float, default=1200, help="of training, the tries of rates included")
    parser.add_argument("--begin", default="", help="weights of an earlier round to go on from; the folder of weights then needs no base.bin")
    parser.add_argument("--clock", default="", help="a file of JSON with `student`: when to stop, in seconds since 1970; read when the weights are there")
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--warm", type=int, default=0, help="steps that only compile, before the weights are there")
    parser.add_argument("--tries", default="12@2e-5", help="layers of the base and highest rate of each try: 12@2e-5,0:24:2@4e-5; as many layers in all of them")
    parser.add_argument("--try-seconds", type=float, default=40, help="for each of several tries")
    parser.add_argument("--head", type=float, default=10.0, help="how much faster the head learns")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--pairs", type=float, default=0.5, help="what it costs that questions that must agree differ")
    parser.add_argument("--round-from", type=float, default=0.6, help="the share of the time after which weights are rounded")
    parser.add_argument("--judge-at", default="0.4,0.8", help="shares of the time after which the held-out questions are answered, with rounded weights")
    parser.add_argument("--tokens", default="32768,16384,8192,8192", help="of a step: histories, a teacher's answers, public rows, generated cases")
    parser.add_argument("--few", type=int, default=0, help="so many held-out states, to try it")
    parser.add_argument("--limit", type=int, default=400, help="rows of a held-out public set")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


def batches_of(options):
    """The steps that the student learns from: every one has batches of all kinds."""
    folders, _ = data.folders(options.histories, options.held_out.split(","))
    described = data.read_described(folders)
    sets = data.trained_sets(options.data)
    tokens = dict(zip(("histories", "taught", "public", "generated"), map(int, options.tokens.split(","))))
    turns = [turn for turn in tokens if {"taught": options.labels, "public": sets}.get(turn, True)]
    batches = causal.Batches([group for *_, group in described], sets, options.seed, tokens, [turns])
    batches.folder = options.weights
    if options.labels:
        batches.taught = labels.Taught(options.labels, pairs.Pairs(described, sets, options.labels_seed))
    print(f"{len(described)} lines, {len(sets)} sets, steps of {turns}", flush=True)
    return batches


def tries_of(options):
    """The layers and the rate of each try."""
    count = qwen.config(options.weights)["layers"]
    return [(qwen.chosen(layers, count), float(rate)) for layers, rate in (one.split("@") for one in options.tries.split(","))]


def begun(model, base, layers):
    """The base with words of four bits, which stay as they are, and with a last norm that belongs to the new head. What an earlier round made goes on as it is."""
    if "head.weight" in base:
        model.load_state_dict(base)
        return
    causal.fill(model, base, layers)
    model.token_embd.weight.data.copy_(causal.nibbled(model.token_embd.weight.data))
    torch.nn.init.ones_(model.output_norm.weight)


def tried(model, base, loader, options, device):
    """Lets every try learn for a while. Leaves the model as the best of them made it, with its course."""
    found, tries = [], tries_of(options)
    for layers, rate in tries:
        begun(model, base, layers)
        course = causal.Course(model, device, options.head, options.pairs)
        while len(tries) > 1 and time.time() - course.started < options.try_seconds and course.step < options.steps:
            course.learn(next(loader), rate * min(1.0, (course.step + 1) / WARMING))
        loss = sum(causal.WEIGHTS.get(turn, 0.5) * mean for turn, mean in course.means.items())
        print(f"layers {layers}, rate {rate:.1e}: {course.step} steps, loss {loss:.4f}", flush=True)
        found.append((loss, layers, rate, course, {name: weight.clone() for name, weight in model.state_dict().items()}))
    _, layers, rate, course, weights = min(found, key=lambda one: one[0])
    model.load_state_dict(weights)
    return layers, rate, course


def rounded(model):
    """All tensors by name, the matrices as the file will hold them."""
    with torch.no_grad():
        return {name: causal.nibbled(weight.float()) if weight.ndim == 2 and min(weight.shape) > 32 else weight.float() for name, weight in model.state_dict().items()}


def judged(model, held, path, device):
    """Answers the held-out questions with weights as the file will hold them; the model then goes on with its own. Returns the rounded ones."""
    own, tensors = {name: weight.clone() for name, weight in model.state_dict().items()}, rounded(model)
    on = model.blk[0].attn_q.rounded
    model.round(False)
    model.load_state_dict(tensors)
    path.write_text("".join(json.dumps(answer) + "\n" for answer in causal.said(model, *held, device)))
    print(f"answered {path.name}", flush=True)
    model.load_state_dict(own)
    model.round(on)
    return tensors


def trained(model, base, loader, held, options, until, device):
    layers, rate, course = tried(model, base, loader, options, device)
    print(f"goes on with layers {layers}, rate {rate:.1e}", flush=True)
    started, first, waited, stops = time.time(), course.step, 0.0, sorted(map(float, filter(None, options.judge_at.split(","))))
    while (progress := max((course.step - first) / options.steps, (time.time() - started) / (until - started))) < 1:
        if stops and progress >= stops[0]:
            judged(model, held, pathlib.Path(options.out) / f"answers-{stops.pop(0)}.jsonl", device)
        model.round(progress >= options.round_from)
        asking = time.time()
        parts = next(loader)
        waited += time.time() - asking
        course.learn(parts, rate * min(1.0, (course.step + 1) / WARMING) * (1 - progress), progress)
    print(f"{course.step} steps, {course.tokens} tokens, {course.questions} questions, waited {waited:.0f}s for data", flush=True)
    return {"taken": layers, "rate": rate, "questions_seen": course.questions}


def main():
    options, started = arguments(), time.time()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(options.seed)
    torch.backends.cuda.enable_cudnn_sdp(False)
    tries = tries_of(options)
    model = causal.Causal(qwen.config(options.weights, len(tries[0][0])), options.dropout).to(device).train()
    model.token_embd.weight.requires_grad = False
    if options.compile:
        causal.compiled(model)
    batches = batches_of(options)
    loader = iter(torch.utils.data.DataLoader(batches, batch_size=None, num_workers=options.workers, prefetch_factor=4 if options.workers else None, pin_memory=device == "cuda"))
    examples = train.held_out(options, data.Batches([], {}, 1))
    examples = examples[:: len(examples) // options.few] if options.few else examples
    print(f"{len(examples)} held out, {sum(weight.numel() for weight in model.parameters()) / 1e6:.0f}M parameters", flush=True)
    held = examples, list(causal.told_of(examples, options.weights, min(options.workers, 10), device))
    print(f"held-out questions are told after {time.time() - started:.0f}s", flush=True)
    for on in (True, False):
        model.round(on)
        causal.warm(model, loader, options.warm, device)
    tensors = files.load(options.begin)[1] if options.begin else causal.loaded(options.weights, {number for layers, _ in tries for number in layers})
    base = {name: tensor.to(device) for name, tensor in tensors.items()}
    until = json.loads(pathlib.Path(options.clock).read_text())["student"] if options.clock else time.time() + options.seconds
    told = trained(model, base, loader, held, options, until, device)
    del loader
    tensors = judged(model, held, out / "answers.jsonl", device)
    files.save(out / "weights.bin", model.config | told | {"commit": options.commit, "reader": "causal"}, tensors, "i4", "i4")
    print("written", flush=True)
    answers = evaluate.read(out / "answers.jsonl")
    text = compare.figures(answers)
    print(text, flush=True)
    (out / "log.txt").write_text(text)


if __name__ == "__main__":
    main()
