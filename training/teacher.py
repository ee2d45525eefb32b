"""The teacher: a causal model that reads the state once and each question after it, fine-tuned, then asked what nobody answered.

    python3 training/teacher.py --weights FOLDER --histories FOLDER --data FOLDER --out FOLDER --seconds 600 --label-seconds 240

FOLDER of weights is what `teacher_weights.py` wrote. Leaves `labels.xz` (the shares of every question of `pairs.py` that there was
time for) and `answers.jsonl` (the held-out questions). `--layers 2 --steps 3 --shards 1 --few 3 --workers 0` tries it all on a processor.
"""

import argparse
import itertools
import json
import math
import pathlib
import time

import data
import evaluate
import labels
import numpy as np
import pairs
import public
import teacher_weights
import torch
import torch.nn.functional as F
import train
from text import plain, reduced
from text_rendering import render
from torch import nn

STATE, ASKED, OPTION = 3000, 400, 120  # Tokens that are read of each at most; of a state the last ones.
SAVED = 12  # Labels are written after so many shards.
HIDDEN = -1e30  # Added to the score of a token that must not be seen.


class Norm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)).to(x.dtype) * self.weight.to(x.dtype)


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, self.heads, self.shared = config["width"], config["heads"], config["shared"]
        size = width // self.heads
        self.attn_norm, self.ffn_norm = Norm(width, config["epsilon"]), Norm(width, config["epsilon"])
        self.attn_q, self.attn_k, self.attn_v = nn.Linear(width, width), nn.Linear(width, size * self.shared), nn.Linear(width, size * self.shared)
        self.attn_output = nn.Linear(width, width, bias=False)
        self.ffn_gate, self.ffn_up, self.ffn_down = nn.Linear(width, config["inner"], bias=False), nn.Linear(width, config["inner"], bias=False), nn.Linear(config["inner"], width, bias=False)

    def forward(self, x, turn, bias):
        batch, length, width = x.shape
        split = lambda y, heads: y.view(batch, length, heads, -1).transpose(1, 2)
        y = self.attn_norm(x)
        query, key, value = turned(split(self.attn_q(y), self.heads), turn), turned(split(self.attn_k(y), self.shared), turn), split(self.attn_v(y), self.shared)
        key, value = (one.repeat_interleave(self.heads // self.shared, 1) for one in (key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, bias)
        x = x + self.attn_output(mixed.transpose(1, 2).reshape(batch, length, width))
        y = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(y)) * self.ffn_up(y))


def turned(x, turn):
    """Rotary places: each half of a head with the other."""
    cos, sin = turn
    one, two = x.chunk(2, -1)
    return torch.cat([one * cos - two * sin, two * cos + one * sin], -1)


class Teacher(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config["vocabulary"], config["width"])
        self.blk = nn.ModuleList(Layer(config) for _ in range(config["layers"]))
        self.output_norm = Norm(config["width"], config["epsilon"])
        self.head = nn.Linear(config["width"], 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def read(self, ids, position, bias):
        """The last layer's words. `bias` is added to the scores: it says which token sees which."""
        size = self.config["width"] // self.config["heads"]
        pace = self.config["base"] ** (-torch.arange(0, size, 2, device=ids.device).float() / size)
        angle = (position[:, :, None].float() * pace)[:, None]
        x = self.token_embd(ids)
        if torch.is_autocast_enabled(ids.device.type):
            x = x.to(torch.bfloat16)
        turn = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer in self.blk:
            x = layer(x, turn, bias)
        return self.output_norm(x)

    def forward(self, ids, position, node, sees, of, places):
        # A token sees what its node sees, and of its own node what stands before it.
        seen = torch.gather(torch.gather(sees, 1, node[:, :, None].expand(-1, -1, sees.shape[2])), 2, node[:, None, :].expand(-1, node.shape[1], -1))
        later = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).triu(1)
        seen = seen & ~((node[:, :, None] == node[:, None, :]) & later)
        # Added to the scores like the student's: with a mask of booleans one gradient in five was not finite. Far from the end of
        # what 32 bits hold, so that no kernel that scales it leaves them.
        dtype = torch.get_autocast_dtype(ids.device.type) if torch.is_autocast_enabled(ids.device.type) else torch.float32
        bias = torch.where(seen, torch.zeros((), dtype=dtype, device=ids.device), HIDDEN)
        x = self.read(ids, position, bias[:, None])
        return self.head(x[of[:, None], places.clamp(min=0)]).squeeze(-1).float().masked_fill(places < 0, -1e4)


def fill(model, folder, layers=None):
    """Puts the weights into the model; waits for them where they are still on their way."""
    path, whole = pathlib.Path(folder) / "teacher.bin", teacher_weights.size(folder)
    while not path.exists() or path.stat().st_size < whole:
        time.sleep(0.5)
    known = dict(model.named_parameters())
    for name, array in teacher_weights.load(folder, layers):
        known.pop(name).data.copy_(torch.from_numpy(np.ascontiguousarray(array, np.float32)))
    assert set(known) == {"head.weight", "head.bias"}, set(known)
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)


def texts_of(question, draw=None):
    """The question with all of its candidates, and a text for each of them."""
    kind, criteria = question["type"], question.get("criteria")
    if kind == "noul":
        pairs_ = [("yes", (criteria or {}).get("true")), ("no", (criteria or {}).get("false"))]
    elif kind == "choice":
        pairs_ = list(criteria.items())
    else:
        pairs_ = [(f"level {place} of {len(criteria)}", level) for place, level in enumerate(criteria, 1)]
    options = [plain(name) + (": " + plain(what) if what is not None else "") for name, what in pairs_]
    listed = draw.sample(options, len(options)) if draw and kind == "choice" else options
    return f"\nQuestion: {plain(question['ask'])}\nAnswers: {'; '.join(listed)}\n", [f"Answer: {option}\n" for option in options]


def example(words, state, questions, draw=None):
    """The tree of one state: ids, places, nodes, which node sees which, and where each question's candidates end."""
    asked = [texts_of(question, draw) for question in questions]
    told = words.many([reduced(state), *[text for ask, options in asked for text in (ask, *options)]])
    ids, position, node, sees, ends = list(told[0][-STATE:]), [], [], [[0]], []
    position, node = list(range(len(ids))), [0] * len(ids)
    at = 1
    for _, options in asked:
        ask, rest = told[at][:ASKED], told[at + 1 : at + 1 + len(options)]
        at += 1 + len(options)
        first, parent = position[len(told[0][-STATE:]) - 1] + 1, len(sees)
        ids, position, node = ids + ask, position + list(range(first, first + len(ask))), node + [parent] * len(ask)
        sees.append([0, parent])
        last = []
        for option in rest:
            option, number = option[:OPTION], len(sees)
            sees.append([0, parent, number])
            ids, node = ids + option, node + [number] * len(option)
            position = position + list(range(first + len(ask), first + len(ask) + len(option)))
            last.append(len(ids) - 1)
        ends.append(last)
    matrix = np.zeros((len(sees), len(sees)), bool)
    for number, seen in enumerate(sees):
        matrix[number, seen] = True
    return np.array(ids, np.int32), np.array(position, np.int16), np.array(node, np.int16), matrix, ends


def collated(examples):
    longest, nodes = -(-max(len(one[0]) for one in examples) // 16) * 16, max(len(one[3]) for one in examples) + 1
    ids, position, node = np.zeros((len(examples), longest), np.int64), np.zeros((len(examples), longest), np.int64), np.full((len(examples), longest), nodes - 1, np.int64)
    sees = np.zeros((len(examples), nodes, nodes), bool)
    sees[:, -1, -1] = True
    asked = [(row, last) for row, one in enumerate(examples) for last in one[4]]
    places = np.full((len(asked), max(len(last) for _, last in asked)), -1, np.int64)
    for row, one in enumerate(examples):
        ids[row, : len(one[0])], position[row, : len(one[1])], node[row, : len(one[2])] = one[:3]
        sees[row, : len(one[3]), : len(one[3])] = one[3]
    for number, (_, last) in enumerate(asked):
        places[number, : len(last)] = last
    return [torch.from_numpy(array) for array in (ids, position, node, sees, np.array([row for row, _ in asked], np.int64), places)]


class Batches(data.Batches):
    """The student's batches, told as the teacher reads: the same questions in the same mixture."""

    words_folder = ""

    def __iter__(self):
        self.words = teacher_weights.Words(self.words_folder)
        yield from super().__iter__()

    def example(self, state, asked, size=480, pairs=(), back=0):
        tree = example(self.words, state, [question for question, _ in asked], self.random)
        # Whoever sorts and packs looks at the first array alone, and combinators blank words of a state by the fourth.
        return (tree[0], tree[1], tree[2], -(tree[2] == 0).astype(np.int16), tree[3], tree[4]), [(data.softened(question, shares), question["type"] == "score") for question, shares in asked], [], 0

    def packed(self, pool, tokens):
        batches, batch, longest = [], [], 0
        for one in itertools.chain.from_iterable(pool):
            longest = max(longest, len(one[0][0]))
            if batch and longest * (len(batch) + 1) > tokens:
                batches.append(batch)
                batch, longest = [], len(one[0][0])
            batch.append(one)
        self.random.shuffle(batches)
        for batch in [*batches, batch]:
            trees = [(arrays[0], arrays[1], arrays[2], arrays[4], arrays[5]) for arrays, *_ in batch]
            goals = [target for _, targets, *_ in batch for target in targets]
            widest = max(len(target) for target, _ in goals)
            yield collated(trees), torch.tensor([target + [0.0] * (widest - len(target)) for target, _ in goals]), torch.tensor([float(scale) for _, scale in goals])


class Asked(torch.utils.data.Dataset):
    """Lists of (state, questions) as batches by length, each with the places of its states in the list and their numbers of candidates."""

    def __init__(self, lists, folder, tokens=49152):
        self.lists, self.folder, self.tokens, self.words = lists, folder, tokens, None

    def __len__(self):
        return len(self.lists)

    def __getitem__(self, number):
        self.words = self.words or teacher_weights.Words(self.folder)
        rows = self.lists[number]
        trees = [example(self.words, state, questions) for state, questions in rows]
        order, batches = sorted(range(len(trees)), key=lambda at: len(trees[at][0])), []
        while order:
            batch = [order.pop()]
            while order and (len(batch) + 1) * len(trees[batch[0]][0]) <= self.tokens:
                batch.append(order.pop())
            batches.append((batch, [[len(last) for last in trees[at][4]] for at in batch], collated([trees[at] for at in batch])))
        return number, len(rows), batches


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


@torch.no_grad()
def answered(model, loader, device, until=math.inf):
    """(number, logits of each question of each state) for list after list, while there is time."""
    model.eval()
    for number, count, batches in loader:
        if time.time() > until:
            break
        result = [None] * count
        for places, widths, fields in batches:
            with torch.autocast(device, torch.bfloat16):
                rows = iter(model(*[field.to(device, non_blocking=True) for field in fields]).cpu().tolist())
            for at, own in zip(places, widths):
                result[at] = [next(rows)[:width] for width in own]
        yield number, result
    model.train()


def loss_of(model, parts, device):
    """Histories count double."""
    total = 0.0
    for turn, (fields, goals, ordered) in parts:
        with torch.autocast(device, torch.bfloat16):
            logits = model(*[field.to(device, non_blocking=True) for field in fields])
        loss = train.loss_of(logits, goals.to(device, non_blocking=True), ordered.to(device, non_blocking=True)).mean()
        (loss * (1.0 if turn == "histories" else 0.5)).backward()
        total += loss.item() if turn == "histories" else 0.0
    return total


def warm(model, loader, count, device):
    """Compiles what training and labelling will run, with whatever weights there are: batches of many and of one, with and without gradients."""
    started = time.time()
    for _ in range(count):
        parts = next(loader)
        loss_of(model, parts, device)
        _, (fields, goals, ordered) = parts[0]
        own = fields[4] == 0
        alone = [field[:1] for field in fields[:4]] + [field[own] for field in fields[4:]]
        loss_of(model, [("alone", (alone, goals[own], ordered[own]))], device)
        model.zero_grad(set_to_none=True)
        with torch.no_grad(), torch.autocast(device, torch.bfloat16):
            for one in (fields, alone):
                model.eval()(*[field.to(device) for field in one])
        model.train()
    if device == "cuda":
        torch.cuda.empty_cache()
    print(f"warm after {time.time() - started:.0f}s", flush=True)


def broken(model):
    """Which gradients are not finite: where they begin says where to look."""
    names = [name for name, weight in model.named_parameters() if weight.grad is not None and not weight.grad.isfinite().all()]
    return f"{len(names)} weights from {names[0]} to {names[-1]}" if names else "only their norm"


def taught(model, loader, options, until, device):
    """Fine-tunes until the time is over."""
    matrices = [weight for weight in model.parameters() if weight.ndim == 2]
    others = [weight for weight in model.parameters() if weight.ndim != 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], lr=options.rate, betas=(0.9, 0.98), fused=device == "cuda")
    started, step, seen, mean, skipped = time.time(), 0, 0, None, 0
    while (progress := max(step / options.steps, (time.time() - started) / (until - started))) < 1:
        for group in optimizer.param_groups:
            group["lr"] = options.rate * min(1.0, (progress + 1e-3) / 0.04) * (1 - progress)
        parts = next(loader)
        loss = loss_of(model, parts, device)
        norm = nn.utils.get_total_norm([weight.grad for weight in model.parameters() if weight.grad is not None])
        if not math.isfinite(norm.item()):
            skipped += 1
            if skipped <= 3:
                print(f"step {step} not finite: loss {loss:.4f}, shapes {[list(fields[0].shape) for _, (fields, _, _) in parts]}, {broken(model)}", flush=True)
            # A teacher that skipped one step in five still learned; one that skips half of them does not.
            assert skipped < 20 + step / 2, "gradients are not finite"
            optimizer.zero_grad(set_to_none=True)
            step += 1
            continue
        nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step, seen = step + 1, seen + sum(fields[0].numel() for _, (fields, _, _) in parts)
        mean = loss if mean is None else 0.98 * mean + 0.02 * loss
        if step % 50 == 0 or step < 4:
            print(f"step {step} {progress:.2f} {time.time() - started:.0f}s tokens {seen} loss {mean:.4f} gradient {norm.item():.2f} skipped {skipped}", flush=True)


def judge(model, examples, options, device):
    """The held-out questions, and a table of how the teacher does on them."""
    lists = [[(state, [question for question, _ in asked]) for _, state, asked in examples[at : at + 256]] for at in range(0, len(examples), 256)]
    loader = torch.utils.data.DataLoader(Asked(lists, options.weights), batch_size=None, num_workers=min(options.workers, 8), pin_memory=device == "cuda")
    logits = [rows for _, one in answered(model, loader, device) for rows in one]
    answers = [told | {"logits": [round(value, 4) for value in own], "shares": right} for (told_of, _, asked), rows in zip(examples, logits) for told, (_, right), own in zip(told_of, asked, rows)]
    (pathlib.Path(options.out) / "answers.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    print(evaluate.table(evaluate.pooled([answer for answer in answers if not answer["task"].startswith("weak")])), flush=True)
    print(evaluate.table([answer for answer in answers if answer["task"].startswith("weak")]), flush=True)


def label(model, source, options, until, device):
    shards = Shards(source, options.shards)
    loader = torch.utils.data.DataLoader(Asked(shards, options.weights), batch_size=None, num_workers=options.workers, prefetch_factor=2 if options.workers else None, pin_memory=device == "cuda")
    lines, questions, started = [], 0, time.time()
    for number, logits in answered(model, loader, device, until):
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
    model = Teacher(teacher_weights.config(options.weights, options.layers)).to(device).train()
    if options.compile:
        torch._dynamo.config.suppress_errors = True
        for layer in model.blk:
            layer.compile(dynamic=True)
    folders, _ = data.folders(options.histories, options.held_out.split(","))
    described = data.read_described(folders[: options.few or None])
    names = [path.name[: -len(".jsonl.xz")] for path in sorted(pathlib.Path(options.data).glob("*.jsonl.xz"))] if options.data else []
    sets = data.read_public(options.data, [name for name in names if name not in (*public.HELD_OUT, *public.LEFT_OUT)])
    tokens = {"histories": options.tokens, "public": options.tokens // 3, "generated": options.tokens // 3}
    batches = Batches([group for *_, group in described], sets, options.seed, tokens, [["histories", "public"], ["histories", "generated"]])
    batches.words_folder = options.weights
    loader = iter(torch.utils.data.DataLoader(batches, batch_size=None, num_workers=options.workers, prefetch_factor=4 if options.workers else None, pin_memory=device == "cuda"))
    judged = data.Batches([], {}, 1)
    examples = train.held_out(options, judged)
    examples = examples[:: len(examples) // options.few] if options.few else examples
    print(f"{len(described)} lines, {len(sets)} sets, {len(examples)} held out, {sum(weight.numel() for weight in model.parameters()) / 1e6:.0f}M parameters", flush=True)
    warm(model, loader, options.warm, device)
    fill(model, options.weights, options.layers)
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
