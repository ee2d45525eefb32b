"""Trains the embedded model: python3 training/train.py --base BASE --data FOLDER --histories FOLDER --out FOLDER

Ends with the figures on what was held out; leaves `weights.bin`, `answers.jsonl` (every held-out answer) and `log.txt`. With `--average`
the same of the average as `average.bin` and `answers-average.jsonl`, and both at the shares of the time that `--judge-at` names.
"""

import argparse
import hashlib
import json
import pathlib
import random
import time

import data
import evaluate
import generate
import labels
import pairs
import public
import torch
import torch.nn.functional as F
from model import Decider, header, load, save
from text import render


SURE = 1.5  # The temperature of the average's answers: about that of choices and scales in the calibration of round 9.


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", required=True)
    parser.add_argument("--data", default="")
    parser.add_argument("--histories", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--held-out", default="birch,ferry")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--steps", type=int, default=100000, help="0 only judges the base")
    parser.add_argument("--rate", type=float, default=4e-5)
    parser.add_argument("--tokens", type=int, default=16384, help="of a batch, padding counted")
    parser.add_argument("--public-tokens", type=int, help="of a batch of public rows, where it differs")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--decay", type=float, default=0.05)
    parser.add_argument("--agree", type=float, default=0.0, help="what it costs that two readings of a batch differ; 0 reads once")
    parser.add_argument("--generated-tokens", type=int, default=0, help="of a batch of generated cases; 0 for none")
    parser.add_argument("--pairs", type=float, default=0.5, help="what it costs that questions that must agree differ")
    parser.add_argument("--labels", default="", help="a teacher's answers (`teacher.py`); waits for the file where it is still being written")
    parser.add_argument("--labels-seed", type=int, default=10, help="of the questions that were labelled")
    parser.add_argument("--taught-tokens", type=int, default=32768, help="of a batch of a teacher's answers")
    parser.add_argument("--share", type=int, default=1, help="public batches for each batch of histories")
    parser.add_argument("--floor", type=float, default=0.0, help="the share of the rate that is left at the end")
    parser.add_argument("--compile", action="store_true", help="compile the layers")
    parser.add_argument("--warm", type=int, default=0, help="steps that only compile, while a teacher is at work")
    parser.add_argument("--clock", default="", help="a file of JSON with `student`: when to stop, in seconds since 1970; read when the labels are there")
    parser.add_argument("--mixes", default="", help="shares of the result (of the average, where there is one) that are also judged mixed with the base: 0.5,0.7")
    parser.add_argument("--average", type=float, default=0.0, help="what a step keeps of a moving average of the weights, which begins with the base; 0 for none")
    parser.add_argument("--second", type=float, default=0.0, help="the average's part in a teacher's answers: the mean of both is what the student learns")
    parser.add_argument("--judge-at", default="", help="shares of the time after which the average is written and answers the held-out questions")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=1500, help="rows of a held-out public set")
    parser.add_argument("--commit", default="")
    return parser.parse_args()


def loss_of(logits, goals, ordered):
    """How unlikely the right answer seemed; on a scale also how far away the likely ones were."""
    likely = F.log_softmax(logits, -1)
    away = (likely.exp() - goals).cumsum(-1).square().sum(-1)
    return -(goals * likely).sum(-1) + ordered * away


def apart(one, other):
    """How far two readings of the same questions are from each other, each with other parts of the network dropped."""
    one, other = F.log_softmax(one, -1), F.log_softmax(other, -1)
    return ((one.exp() - other.exp()) * (one - other)).sum(-1) / 2


def disagreement(logits, agree, order):
    """How far questions that must agree are from each other: a question and its opposite, a scale and the same turned round."""
    return apart(logits[agree[:, 0]], logits[agree[:, 1]].gather(1, order)).mean()


def held_out(options, batches):
    """Every held-out question, by state: what is told of each answer, the state, the questions with their shares."""
    _, judges = data.folders(options.histories, options.held_out.split(","))
    found = []
    for folder in judges:
        writer = pathlib.Path(folder).name
        for _, language, group in data.read_described([folder]):
            for object_type, events, asked in group:
                told = [{"task": f"{'default signals' if question['signal'] else 'histories'} {writer}", "kind": question["type"], "lang": language} for question, _ in asked]
                found.append((told, render(object_type, events), asked))
    draw = random.Random(5)
    batches.random = draw
    for name in public.HELD_OUT if options.data else ():
        rows = public.rows(options.data, name)
        names = public.names_of(name, rows)
        # As many of each label: AUC and accuracy then mean the same for every set.
        for row in draw.sample(rows, min(options.limit, len(rows))):
            wanted = ["noul"] if name in public.NOUL and name != "tweet_emotion" or name.startswith("nli_") else ["choice"]
            for kind in wanted:
                text, question, shares = public.question(draw, name, row, names)
                while question["type"] != kind:
                    text, question, shares = public.question(draw, name, row, names)
                found.append(([{"task": f"public {name}", "kind": kind}], batches.wrapped(text), [(question, shares)]))
    for row in generate.rows():
        told = {key: row[key] for key in ("task", "kind", "part", "id", "like") if key in row}
        if found and found[-1][1] == row["state"]:
            found[-1][0].append(told)
            found[-1][2].append(({"type": row["kind"]} | row, row["shares"]))
        else:
            found.append(([told], row["state"], [({"type": row["kind"]} | row, row["shares"])]))
    return found


def prepared(examples, batches):
    """What is held out as trees, the longest last."""
    found = [(told, batches.example(state, asked), asked) for told, state, asked in examples]
    return found, sorted(range(len(found)), key=lambda at: len(found[at][1][0][0]))


@torch.no_grad()
def answers(model, found, order, device):
    """What the model says to each held-out question."""
    model.eval()
    order, result = list(order), []
    while order:
        taken = [order.pop()]
        while order and len(taken) * len(found[taken[0]][1][0][0]) < 24000:
            taken.append(order.pop())
        batch = [tensor.to(device) for tensor in data.collated([found[at][1] for at in taken])]
        fields = [tensor.long() for tensor in batch[:4]]
        logits = model(*fields, *batch[4:7]).cpu()
        row = 0
        for at in taken:
            every, _, asked = found[at]
            for told, (_, shares) in zip(every, asked):
                result.append({"at": at} | told | {"logits": [round(value, 5) for value in logits[row, : len(shares)].tolist()], "shares": shares})
                row += 1
    result.sort(key=lambda answer: answer["at"])
    model.train()
    return result


def answered(model, path, found, order, out, device):
    """The answers of a file of weights: as it is shipped, with the weights as bytes."""
    model.load_state_dict(load(path)[1])
    said = answers(model, found, order, device)
    # Under another name first: whoever waits for the file finds it whole.
    part = out.with_suffix(".part")
    part.write_text("".join(json.dumps(answer) + "\n" for answer in said))
    part.rename(out)
    print(f"answered {out.name}", flush=True)
    return said


def figures(said):
    """The tables of these answers, calibrated by all that is written; generated cases fit nothing."""
    usual, weak = [one for one in said if not one["task"].startswith("weak")], [one for one in said if one["task"].startswith("weak")]
    settings = evaluate.fitted([answer for answer in usual if not answer["task"].startswith("public")])
    return evaluate.table(usual) + "\n" + "\n".join(evaluate.table(evaluate.pooled(usual)).splitlines()[2:]) + "\n\n" + generate.judged(weak, settings) + f"\n\n{json.dumps(settings)}"


@torch.no_grad()
def second_opinion(average, fields, batch, part):
    """A teacher's shares with those of the average, which is a little too sure of itself."""
    return (1 - part) * batch[7] + part * F.softmax(average(*fields, *batch[4:7]) / SURE, -1)


def step_of(model, parts, options, device, average=None):
    """Reads the batches of a step, histories twice where readings have to agree; leaves gradients, returns the losses by turn."""
    losses, seen = {}, 0
    for turn, batch in parts:
        batch = [tensor.to(device, non_blocking=True) for tensor in batch]
        fields = [tensor.long() for tensor in batch[:4]]
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            if average and options.second and turn == "taught":
                batch[7] = second_opinion(average, fields, batch, options.second)
            readings = [model(*fields, *batch[4:7]) for _ in range(2 if options.agree and turn == "histories" else 1)]
        loss = sum(loss_of(logits, *batch[7:9]) for logits in readings) / len(readings)
        if len(readings) > 1:
            loss = loss + options.agree * apart(*readings)
        # The scale of a batch is its number of questions, so that long histories do not count more.
        loss = loss.mean()
        differ = disagreement(readings[0], *batch[9:11]) if len(batch[9]) else torch.zeros((), device=device)
        (loss + options.pairs * differ).backward()
        seen += len(batch[5])
        losses[turn] = (loss.detach(), differ.detach())
    return losses, seen


def main():
    options = arguments()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    base = pathlib.Path(options.base)
    # The rest may still be on its way while the layers are compiled.
    config, whole = header(base)
    model, average = Decider(config, options.dropout).to(device).train(), None
    if options.average:
        average = Decider(config).to(device).eval().requires_grad_(False)
    if options.compile:
        # One layer's code serves all of them, in training and not, for many examples and for one.
        torch._dynamo.config.recompile_limit = 32
        for layer in [*model.layers, *(average.layers if average else ())]:
            layer.compile(dynamic=True)

    folders, _ = data.folders(options.histories, options.held_out.split(","))
    described = data.read_described(folders)
    groups = [group for *_, group in described]
    sets = data.trained_sets(options.data)
    tokens = {"histories": options.tokens, "public": options.public_tokens or options.tokens, "generated": options.generated_tokens, "taught": options.taught_tokens}
    turns = ["histories"] + ["public"] * (options.share if sets else 0) + ["generated"] * bool(options.generated_tokens)
    batches = data.Batches(groups, sets, options.seed, tokens, [turns])
    batches.tokenizer = data.Tokenizer()
    found, order = prepared(held_out(options, batches), batches)
    print(f"{len(groups)} lines, {sum(map(len, groups))} histories of {[pathlib.Path(f).name for f in folders]}, {len(sets)} sets, {len(found)} held out", flush=True)

    def loader(workers):
        return iter(torch.utils.data.DataLoader(batches, batch_size=None, num_workers=workers, prefetch_factor=4 if workers else None, pin_memory=device == "cuda"))

    warming, started = loader(min(options.workers, 4)) if options.warm else None, time.time()
    for _ in range(options.warm):
        parts = next(warming)
        if average:
            # As they will be taught: the average reads the batch as well.
            parts = parts + [("taught", parts[0][1])]
        step_of(model, parts, options, device, average)
        # A batch of one example is compiled apart.
        batch = [tensor.to(device) for tensor in parts[0][1][:7]]
        own = batch[5] == 0
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            one = *[tensor[:1].long() for tensor in batch[:4]], batch[4][:1], batch[5][own], batch[6][own]
            model(*one).logsumexp(-1).sum().backward()
            if average:
                with torch.no_grad():
                    average(*one)
        model.zero_grad(set_to_none=True)
    print(f"warm after {time.time() - started:.0f}s", flush=True)
    del warming
    if options.warm and device == "cuda":
        # Whoever teaches needs the memory.
        torch.cuda.empty_cache()
    while base.stat().st_size < whole:
        time.sleep(0.2)
    config, tensors = load(base)
    words = "i4" if config["relative"] else "i8"
    for one in filter(None, (model, average)):
        one.load_state_dict(tensors)
    if options.labels:
        turns.insert(1, "taught")
        batches.taught = labels.Taught(options.labels, pairs.Pairs(described, sets, options.labels_seed))
    steps = loader(options.workers)
    matrices = [weight for weight in model.parameters() if weight.requires_grad and weight.ndim == 2]
    others = [weight for weight in model.parameters() if weight.requires_grad and weight.ndim != 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": options.decay}, {"params": others, "weight_decay": 0.0}], lr=options.rate, betas=(0.9, 0.98), fused=device == "cuda")
    first = next(steps) if options.steps else None
    started, sums, seen, waited, step = time.time(), {name: [0.0, 0.0, 0] for name in turns}, 0, 0.0, 0
    judge, stops = Decider(config).to(device), sorted(map(float, filter(None, options.judge_at.split(","))))
    learned = [pair for pair in zip(average.parameters(), model.parameters()) if pair[1].requires_grad] if average else []
    until = json.loads(pathlib.Path(options.clock).read_text())["student"] if options.clock else started + options.seconds
    while True:
        progress = max(step / options.steps if options.steps else 1.0, (time.time() - started) / (until - started))
        if progress >= 1:
            break
        if stops and progress >= stops[0]:
            path = out / f"average-{stops[0]}.bin"
            save(path, config, average.state_dict(), words)
            answered(judge, path, found, order, out / f"answers-average-{stops.pop(0)}.jsonl", device)
        for group in optimizer.param_groups:
            group["lr"] = options.rate * min(1.0, progress / 0.06) * (1 - progress * (1 - options.floor))
        asking = time.time()
        parts, first = first or next(steps), None
        waited += time.time() - asking
        losses, count = step_of(model, parts, options, device, average)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if learned:
            torch._foreach_lerp_([one for one, _ in learned], [two.detach() for _, two in learned], 1 - options.average)
        step, seen = step + 1, seen + count
        if step % 10 == 0 or step < 6:
            for turn, own in losses.items():
                sums[turn] = [total + value for total, value in zip(sums[turn], (own[0].item(), own[1].item(), 1))]
        if step % 200 == 0 or step in (1, 2, 5, 25, 100):
            told = ", ".join(f"{turn} {loss / max(count, 1):.4f} pairs {differ / max(count, 1):.4f}" for turn, (loss, differ, count) in sums.items())
            print(f"step {step} {progress:.2f} {time.time() - started:.0f}s waited {waited:.0f}s questions {seen} gradient {norm.item():.2f} loss {told}", flush=True)
            sums = {name: [0.0, 0.0, 0] for name in turns}
    del steps
    print(f"{step} steps, {seen} questions, {time.time() - started:.0f}s", flush=True)

    written = b"".join(path.read_bytes() for folder in folders for path in sorted(pathlib.Path(folder).rglob("*.jsonl")))
    config |= {"commit": options.commit, "name": "auspex-1.0", "histories": hashlib.sha256(written).hexdigest(), "questions_seen": seen}
    results = {"": (config, {name: tensor.detach().float().cpu() for name, tensor in model.state_dict().items()})}
    if average:
        results["average"] = config | {"averaged": options.average}, {name: tensor.float().cpu() for name, tensor in average.state_dict().items()}
    _, best = results["average" if average else ""]
    for share in filter(None, options.mixes.split(",")):
        # Of the weights before they are rounded: rounded ones that are mixed fall back to one side or the other.
        part = float(share)
        results[share] = config | {"mixed": part}, {name: tensors[name] * (1 - part) + best[name] * part for name in best}
    said = {}
    for name, (told, weights) in results.items():
        path = out / (f"mixed-{name}.bin" if name[:1].isdigit() else f"{name or 'weights'}.bin")
        save(path, told, weights, words)
        said[name] = answered(judge, path, found, order, out / ("-".join(filter(None, ["answers", name])) + ".jsonl"), device)
    for name, own in said.items():
        text = figures(own)
        print(f"{name}\n{text}", flush=True)
        (out / ("-".join(filter(None, ["log", name])) + ".txt")).write_text(text)


if __name__ == "__main__":
    main()
