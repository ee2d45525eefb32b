"""The teacher: a causal model that reads the state once and each question after it, fine-tuned, then asked what nobody answered.

    python3 training/teacher.py --weights FOLDER --histories FOLDER --data FOLDER --out FOLDER --seconds 600 --pairs 300000

FOLDER of weights is what `teacher_weights.py` wrote. Leaves `labels.xz` (the shares of every pair of `pairs.py`, a byte each) and
`answers.jsonl` (the held-out questions). `--layers 2 --steps 3 --pairs 50 --few 5` tries it all on a processor.
"""

import argparse
import itertools
import json
import lzma
import math
import pathlib
import random
import time

import data
import evaluate
import numpy as np
import pairs
import public
import teacher_weights
import torch
import torch.nn.functional as F
import train
from text import plain, reduced
from torch import nn
from torch.utils.checkpoint import checkpoint

STATE, ASKED, OPTION = 3000, 400, 120  # Tokens that are read of each at most; of a state the last ones.


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

    def forward(self, x, turn, seen):
        batch, length, width = x.shape
        split = lambda y, heads: y.view(batch, length, heads, -1).transpose(1, 2)
        y = self.attn_norm(x)
        query, key, value = turned(split(self.attn_q(y), self.heads), turn), turned(split(self.attn_k(y), self.shared), turn), split(self.attn_v(y), self.shared)
        key, value = (one.repeat_interleave(self.heads // self.shared, 1) for one in (key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, seen)
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
        self.config, self.saving = config, False
        self.token_embd = nn.Embedding(config["vocabulary"], config["width"])
        self.blk = nn.ModuleList(Layer(config) for _ in range(config["layers"]))
        self.output_norm = Norm(config["width"], config["epsilon"])
        self.head = nn.Linear(config["width"], 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def read(self, ids, position, seen):
        """The last layer's words. `seen` says which token sees which."""
        size = self.config["width"] // self.config["heads"]
        pace = self.config["base"] ** (-torch.arange(0, size, 2, device=ids.device).float() / size)
        angle = (position[:, :, None].float() * pace)[:, None]
        x = self.token_embd(ids)
        if torch.is_autocast_enabled():
            x = x.to(torch.bfloat16)
        turn = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer in self.blk:
            x = checkpoint(layer, x, turn, seen, use_reentrant=False) if self.saving and self.training else layer(x, turn, seen)
        return self.output_norm(x)

    def forward(self, ids, position, node, sees, of, places):
        # A token sees what its node sees, and of its own node what stands before it.
        seen = torch.gather(torch.gather(sees, 1, node[:, :, None].expand(-1, -1, sees.shape[2])), 2, node[:, None, :].expand(-1, node.shape[1], -1))
        later = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).triu(1)
        seen = seen & ~((node[:, :, None] == node[:, None, :]) & later)
        x = self.read(ids, position, seen[:, None])
        return self.head(x[of[:, None], places.clamp(min=0)]).squeeze(-1).float().masked_fill(places < 0, -1e4)


def loaded(folder, layers=None):
    config, tensors = teacher_weights.load(folder, layers)
    model = Teacher(config)
    missing, extra = model.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(array, np.float32)) for name, array in tensors.items()}, strict=False)
    assert set(missing) == {"head.weight", "head.bias"} and not extra, (missing, extra)
    return model


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


def collated(examples, device):
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
    return [torch.from_numpy(array).to(device, non_blocking=True) for array in (ids, position, node, sees, np.array([row for row, _ in asked], np.int64), places)]


class Batches(data.Batches):
    """The student's batches, told as the teacher reads: the same questions in the same mixture."""

    words_folder, few = "", 0

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
            yield collated(trees, "cpu"), torch.tensor([target + [0.0] * (widest - len(target)) for target, _ in goals]), torch.tensor([float(scale) for _, scale in goals])


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("weights", "histories", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--data", default="")
    parser.add_argument("--held-out", default="birch,ferry")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--rate", type=float, default=3e-5)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--pairs", type=int, default=300000)
    parser.add_argument("--label-seconds", type=float, default=420, help="labels that take longer are left out at the end")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--few", type=int, default=0, help="so many writers and held-out states, to try it")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--saving", action="store_true", help="less memory for more time")
    parser.add_argument("--seed", type=int, default=10)
    return parser.parse_args()


@torch.no_grad()
def shares(model, words, found, device, seconds=math.inf, tokens=60000):
    """The logits of each question of (state, questions), in order, and of how many states there was time for."""
    model.eval()
    started, result, at = time.time(), [], 0
    while at < len(found) and time.time() - started < seconds:
        # A few thousand at a time, by length.
        taken = [example(words, state, questions) for state, questions in found[at : at + 2048]]
        order, logits = sorted(range(len(taken)), key=lambda one: len(taken[one][0])), [None] * len(taken)
        while order:
            batch = [order.pop()]
            while order and (len(batch) + 1) * len(taken[batch[0]][0]) <= tokens:
                batch.append(order.pop())
            fields = collated([taken[one] for one in batch], device)
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                rows = iter(model(*fields).cpu().tolist())
            for one in batch:
                logits[one] = [next(rows)[: len(last)] for last in taken[one][4]]
        result += logits
        at += len(taken)
    model.train()
    return result


def main():
    options = arguments()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(options.seed)
    model = loaded(options.weights, options.layers).to(device).train()
    model.saving = options.saving
    folders, _ = data.folders(options.histories, options.held_out.split(","))
    groups = data.read_histories(folders[: options.few or None])
    names = [path.name[: -len(".jsonl.xz")] for path in sorted(pathlib.Path(options.data).glob("*.jsonl.xz"))] if options.data else []
    sets = data.read_public(options.data, [name for name in names if name not in (*public.HELD_OUT, *public.LEFT_OUT)])
    judge = data.Batches([], {}, 1)
    judge.random = random.Random(5)
    examples = train.held_out(options, judge)
    examples = examples[:: len(examples) // options.few] if options.few else examples
    print(f"{len(groups)} lines, {len(sets)} sets, {len(examples)} held out, {sum(weight.numel() for weight in model.parameters()) / 1e6:.0f}M parameters", flush=True)
    batches = Batches(groups, sets, options.seed, options.tokens, 1, options.tokens, options.tokens)
    batches.words_folder = options.weights
    loader = iter(torch.utils.data.DataLoader(batches, batch_size=None, num_workers=options.workers, prefetch_factor=4 if options.workers else None, pin_memory=device == "cuda"))
    matrices = [weight for weight in model.parameters() if weight.ndim == 2]
    others = [weight for weight in model.parameters() if weight.ndim != 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], lr=options.rate, betas=(0.9, 0.98), fused=device == "cuda")
    started, step, seen = time.time(), 0, 0
    while (progress := max(step / options.steps, (time.time() - started) / options.seconds)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = options.rate * min(1.0, (progress + 1e-3) / 0.04) * (1 - progress)
        fields, goals, ordered = next(loader)
        fields, goals, ordered = [field.to(device, non_blocking=True) for field in fields], goals.to(device), ordered.to(device)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model(*fields)
        loss = train.loss_of(logits, goals, ordered).mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        assert math.isfinite(norm.item()) or step > 5, "gradients are not finite"
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step, seen = step + 1, seen + fields[0].numel()
        if step % 100 == 0 or step < 6:
            print(f"step {step} {progress:.2f} {time.time() - started:.0f}s tokens {seen} loss {loss.item():.4f} gradient {norm.item():.2f}", flush=True)
    words = teacher_weights.Words(options.weights)
    judged = shares(model, words, [(state, [question for question, _ in asked]) for _, state, asked in examples], device)
    answers = [told | {"logits": logits, "shares": right} for (labels, _, asked), rows in zip(examples, judged) for told, (_, right), logits in zip(labels, asked, rows)]
    (out / "answers.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    usual = [answer for answer in answers if not answer["task"].startswith("weak")]
    print(evaluate.table(evaluate.pooled(usual)), flush=True)
    print(evaluate.table([answer for answer in answers if answer["task"].startswith("weak")]), flush=True)
    found = list(pairs.by_state(pairs.pairs(groups, sets, options.seed, options.pairs)))
    labels = shares(model, words, found, device, options.label_seconds)
    told = bytearray()
    for rows in labels:
        for logits in rows:
            told += bytes(round(255 * share) for share in evaluate.softmax(logits))
    (out / "labels.xz").write_bytes(lzma.compress(bytes(told), preset=9))
    print(f"{len(labels)} of {len(found)} states, {sum(map(len, labels))} questions labelled, {len(told)} bytes", flush=True)


if __name__ == "__main__":
    main()
