"""A causal reader: the state first and once, each question after it, each candidate after its question, a logit at a candidate's last token.

What `teacher.py` and `multilingual.py` share: the model, how a state with its questions becomes a tree of tokens, batches, fine-tuning, answers.
"""

import math
import pathlib
import re
import time

import data
import numpy as np
import qwen
import torch
import torch.nn.functional as F
import train
from model import GROUP
from text import option_texts, plain, reduced
from torch import nn

STATE, ASKED, OPTION = 4096, 400, 120  # Tokens that are read of each at most; of a state the heading and the newest.
LISTED = 4  # Words of a candidate that its question names.
HIDDEN = -1e30  # Added to the score of a token that must not be seen.
WEIGHTS = {"histories": 1.0, "taught": 0.7}  # What a batch counts; others half.
DAY = re.compile(r"^(\d{4}-\d\d-\d\d) (?=\d\d:\d\d (?:event|message)\b)", re.M)
SPACES = re.compile(" {2,}")


class Norm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)).to(x.dtype) * self.weight.to(x.dtype)


def nibbled(weight):
    """What `model.groups_of_nibbles` makes of a matrix. The gradient passes."""
    groups = weight.detach().reshape(-1, GROUP)
    largest = groups.abs().amax(1, keepdim=True)
    best, error = None, None
    for share in (1.0, 0.9, 0.8, 0.7):
        scale = ((largest * share / 7 + 1e-12).view(torch.int32) >> 16 << 16).view(torch.float32)
        value = torch.round(groups / scale).clamp(-7, 7) * scale
        now = (value - groups).square().sum(1, keepdim=True)
        best, error = (value, now) if best is None else (torch.where(now < error, value, best), torch.minimum(now, error))
    return weight + (best.reshape(weight.shape) - weight).detach()


class Linear(nn.Linear):
    """A product whose weights are rounded to four bits once `rounded` is set."""

    rounded = False

    def forward(self, x):
        return F.linear(x, nibbled(self.weight) if self.rounded else self.weight, self.bias)


class Layer(nn.Module):
    def __init__(self, config, dropout):
        super().__init__()
        width, inner, self.heads, self.shared, self.dropout = config["width"], config["inner"], config["heads"], config["shared"], dropout
        size = width // self.heads
        self.attn_norm, self.ffn_norm = Norm(width, config["epsilon"]), Norm(width, config["epsilon"])
        self.attn_q, self.attn_k, self.attn_v = Linear(width, width), Linear(width, size * self.shared), Linear(width, size * self.shared)
        self.attn_output = Linear(width, width, bias=False)
        self.ffn_gate, self.ffn_up, self.ffn_down = Linear(width, inner, bias=False), Linear(width, inner, bias=False), Linear(inner, width, bias=False)

    def forward(self, x, turn, bias):
        batch, length, width = x.shape
        split = lambda y, heads: y.view(batch, length, heads, -1).transpose(1, 2)
        y = self.attn_norm(x)
        query, key, value = turned(split(self.attn_q(y), self.heads), turn), turned(split(self.attn_k(y), self.shared), turn), split(self.attn_v(y), self.shared)
        key, value = (one.repeat_interleave(self.heads // self.shared, 1) for one in (key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, bias)
        x = x + F.dropout(self.attn_output(mixed.transpose(1, 2).reshape(batch, length, width)), self.dropout, self.training)
        y = self.ffn_norm(x)
        return x + F.dropout(self.ffn_down(F.silu(self.ffn_gate(y)) * self.ffn_up(y)), self.dropout, self.training)


def turned(x, turn):
    """Rotary places: each half of a head with the other."""
    cos, sin = turn
    one, two = x.chunk(2, -1)
    return torch.cat([one * cos - two * sin, two * cos + one * sin], -1)


class Causal(nn.Module):
    def __init__(self, config, dropout=0.0):
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config["vocabulary"], config["width"])
        self.blk = nn.ModuleList(Layer(config, dropout) for _ in range(config["layers"]))
        self.output_norm = Norm(config["width"], config["epsilon"])
        self.head = nn.Linear(config["width"], 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def round(self, on=True):
        for module in self.modules():
            if isinstance(module, Linear):
                module.rounded = on

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
        # Added to the scores like those of `model.py`: with a mask of booleans one gradient in five was not finite. Far from the end of
        # what 32 bits hold, so that no kernel that scales it leaves them.
        dtype = torch.get_autocast_dtype(ids.device.type) if torch.is_autocast_enabled(ids.device.type) else torch.float32
        bias = torch.where(seen, torch.zeros((), dtype=dtype, device=ids.device), HIDDEN)
        x = self.read(ids, position, bias[:, None])
        return self.head(x[of[:, None], places.clamp(min=0)]).squeeze(-1).float().masked_fill(places < 0, -1e4)


def loaded(folder, layers=None):
    """The tensors of a base by name; waits for them where they are still on their way."""
    path, whole = pathlib.Path(folder) / "base.bin", qwen.size(folder)
    while not path.exists() or path.stat().st_size < whole:
        time.sleep(0.5)
    return {name: torch.from_numpy(np.ascontiguousarray(array, np.float32)) for name, array in qwen.load(folder, layers)}


def fill(model, tensors, layers):
    """Puts the base into the model, with these of its layers, and a head that says nothing yet."""
    known = dict(model.named_parameters())
    for name, tensor in tensors.items():
        if name.startswith("blk."):
            _, number, rest = name.split(".", 2)
            if int(number) not in layers:
                continue
            name = f"blk.{layers.index(int(number))}.{rest}"
        known.pop(name).data.copy_(tensor)
    assert set(known) == {"head.weight", "head.bias"}, set(known)
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)


def brief(state):
    """A date is told where it changes, since digits are a token each, and no space follows another."""
    last = None

    def told(found):
        nonlocal last
        same, last = found[1] == last, found[1]
        return "" if same else found[0]

    return SPACES.sub(" ", DAY.sub(told, reduced(state)))


def newest(lines, most):
    """The heading and as many of the newest lines as fit."""
    heading, rest, left = lines[0][:most], [], most - min(len(lines[0]), most)
    for line in reversed(lines[1:]):
        if len(line) > left:
            rest.append(line[len(line) - left :] if not rest else [])
            break
        left -= len(line)
        rest.append(line)
    return [at for line in (heading, *reversed(rest)) for at in line]


def texts_of(question, draw=None):
    """The question, and a text for each candidate.

    The question says in a few words what there is to choose from: each candidate then knows of the others, and is read once. Options are
    listed by name, so that their order does not matter.
    """
    listed = [" ".join(plain(name).split()[:LISTED]) for name in (question["criteria"] if question["type"] != "noul" else ())]
    if question["type"] == "choice":
        listed = draw.sample(listed, len(listed)) if draw else sorted(listed)
    ask = f"\nQuestion: {plain(question['ask'])}\n" + (f"Answers: {'; '.join(listed)}\n" if listed else "")
    return ask, [f"Answer: {option}\n" for option in option_texts(question)]


def example(words, state, questions, draw=None):
    """The tree of one state: ids, places, nodes, which node sees which, and where each question's candidates end."""
    ids = newest(words.lines(brief(state)), STATE)
    position, node, sees, ends, start = list(range(len(ids))), [0] * len(ids), [[0]], [], len(ids)

    def add(tokens, first, seen):
        number = len(sees)
        sees.append([*seen, number])
        ids.extend(tokens)
        position.extend(range(first, first + len(tokens)))
        node.extend([number] * len(tokens))
        return number

    for question in questions:
        ask, options = texts_of(question, draw)
        ask, last = words.of(ask)[:ASKED], []
        parent = add(ask, start, [0])
        for option in options:
            add(words.of(option)[:OPTION], start + len(ask), [0, parent])
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
    """The batches of `data.py`, told as a causal reader reads: the same questions in the same mixture, and the same that must agree."""

    folder = ""
    reserved, unread = -1, qwen.UNREAD

    def __iter__(self):
        self.words = qwen.Words(self.folder)
        yield from super().__iter__()

    def example(self, state, asked, size=480, pairs=(), back=0):
        tree = example(self.words, state, [question for question, _ in asked], self.random)
        # Whoever sorts and packs looks at the first array alone, and combinators blank words of a state by the fourth.
        arrays = (tree[0], tree[1], tree[2], -(tree[2] == 0).astype(np.int16), tree[3], tree[4])
        return arrays, [(data.softened(question, shares), question["type"] == "score") for question, shares in asked], list(pairs), back

    def collated(self, batch):
        fields = collated([(arrays[0], arrays[1], arrays[2], arrays[4], arrays[5]) for arrays, *_ in batch])
        goals = [target for _, targets, *_ in batch for target in targets]
        widest = max(len(target) for target, _ in goals)
        told = torch.tensor([target + [0.0] * (widest - len(target)) for target, _ in goals]), torch.tensor([float(scale) for _, scale in goals])
        return fields, *told, *map(torch.from_numpy, data.agreements(batch, widest))


class Asked(torch.utils.data.Dataset):
    """Lists of (state, questions) as batches by length, each with the places of its states in the list and their numbers of candidates."""

    def __init__(self, lists, folder, tokens=49152):
        self.lists, self.folder, self.tokens, self.words = lists, folder, tokens, None

    def __len__(self):
        return len(self.lists)

    def __getitem__(self, number):
        self.words = self.words or qwen.Words(self.folder)
        rows = self.lists[number]
        trees = [example(self.words, state, questions) for state, questions in rows]
        order, batches = sorted(range(len(trees)), key=lambda at: len(trees[at][0])), []
        while order:
            batch = [order.pop()]
            while order and (len(batch) + 1) * len(trees[batch[0]][0]) <= self.tokens:
                batch.append(order.pop())
            batches.append((batch, [[len(last) for last in trees[at][4]] for at in batch], collated([trees[at] for at in batch])))
        return number, len(rows), batches


@torch.no_grad()
def answered(model, loader, device, until=math.inf):
    """(number, logits of each question of each state) for list after list, while there is time."""
    model.eval()
    for number, count, batches in loader:
        if time.time() > until:
            break
        result = [None] * count
        for places, widths, fields in batches:
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                rows = iter(model(*[field.to(device, non_blocking=True) for field in fields]).cpu().tolist())
            for at, own in zip(places, widths):
                result[at] = [next(rows)[:width] for width in own]
        yield number, result
    model.train()


def told_of(examples, folder, workers, device):
    """Held-out questions (`train.held_out`) as batches, which can be answered again and again."""
    lists = [[(state, [question for question, _ in asked]) for _, state, asked in examples[at : at + 256]] for at in range(0, len(examples), 256)]
    return torch.utils.data.DataLoader(Asked(lists, folder), batch_size=None, num_workers=workers, pin_memory=device == "cuda")


def said(model, examples, told, device):
    """The answers to held-out questions, as `evaluate.py` judges them."""
    logits = [rows for _, one in answered(model, told, device) for rows in one]
    return [known | {"logits": [round(value, 4) for value in own], "shares": right} for (every, _, asked), rows in zip(examples, logits) for known, (_, right), own in zip(every, asked, rows)]


def loss_of(model, parts, device, pairs=0.0):
    """Leaves the gradients of a step; returns the loss of each turn. `pairs` is what it costs that questions that must agree differ."""
    losses = {}
    for turn, (fields, goals, ordered, agree, order) in parts:
        goals, ordered, agree, order = (one.to(device, non_blocking=True) for one in (goals, ordered, agree, order))
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model(*[field.to(device, non_blocking=True) for field in fields])
        loss = train.loss_of(logits, goals, ordered).mean()
        differ = train.disagreement(logits, agree, order) if pairs and len(agree) else 0.0
        ((loss + pairs * differ) * WEIGHTS.get(turn, 0.5)).backward()
        losses[turn] = loss.detach()
    return losses


def warm(model, loader, count, device):
    """Compiles what training and answering will run, with whatever weights there are: batches of many and of one, with and without gradients."""
    started = time.time()
    for _ in range(count):
        parts = next(loader)
        loss_of(model, parts, device)
        _, (fields, goals, ordered, agree, order) = parts[0]
        own = fields[4] == 0
        alone = [field[:1] for field in fields[:4]] + [field[own] for field in fields[4:]]
        loss_of(model, [("alone", (alone, goals[own], ordered[own], agree, order))], device)
        model.zero_grad(set_to_none=True)
        with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
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


class Course:
    """Fine-tuning, step by step."""

    def __init__(self, model, device, head=1.0, pairs=0.0):
        self.model, self.device, self.pairs, self.started = model, device, pairs, time.time()
        self.step, self.tokens, self.questions, self.skipped, self.means = 0, 0, 0, 0, {}
        own = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
        groups = [([w for n, w in own if w.ndim == 2 and not n.startswith("head")], 0.01, 1.0), ([w for n, w in own if w.ndim != 2 and not n.startswith("head")], 0.0, 1.0),
                  ([w for n, w in own if n.startswith("head")], 0.0, head)]
        self.optimizer = torch.optim.AdamW([{"params": weights, "weight_decay": decay, "faster": faster} for weights, decay, faster in groups], lr=1.0, betas=(0.9, 0.98), fused=device == "cuda")

    def learn(self, parts, rate, progress=0.0):
        """One step. A gradient that is not finite is skipped."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["faster"]
        losses = loss_of(self.model, parts, self.device, self.pairs)
        norm = nn.utils.get_total_norm([weight.grad for weight in self.model.parameters() if weight.grad is not None])
        finite = math.isfinite(norm.item())
        if finite:
            nn.utils.clip_grads_with_norm_(self.model.parameters(), 1.0, norm)
            self.optimizer.step()
            for turn, loss in losses.items():
                # So that the first steps, which say more of their batches than of the model, do not count for more than later ones.
                kept = min(0.98, 1 - 1 / (self.step + 1 - self.skipped))
                self.means[turn] = kept * self.means.get(turn, 0.0) + (1 - kept) * loss.item()
        else:
            self.skipped += 1
            if self.skipped <= 3:
                print(f"step {self.step} not finite: {losses}, shapes {[list(fields[0].shape) for _, (fields, *_) in parts]}, {broken(self.model)}", flush=True)
            # A teacher that skipped one step in five still learned; one that skips half of them does not.
            assert self.skipped < 20 + self.step / 2, "gradients are not finite"
        self.optimizer.zero_grad(set_to_none=True)
        self.step, self.tokens, self.questions = self.step + 1, self.tokens + sum(fields[0].numel() for _, (fields, *_) in parts), self.questions + sum(len(goals) for _, (_, goals, *_) in parts)
        if self.step % 50 == 0 or self.step < 4:
            told = ", ".join(f"{turn} {mean:.4f}" for turn, mean in self.means.items())
            print(f"step {self.step} {progress:.2f} {time.time() - self.started:.0f}s rate {rate:.1e} tokens {self.tokens} questions {self.questions} gradient {norm.item():.2f} skipped {self.skipped} loss {told}", flush=True)


def compiled(model):
    """One layer's code serves all of them."""
    torch._dynamo.config.suppress_errors = True
    torch._dynamo.config.recompile_limit = 64
    for layer in model.blk:
        layer.compile(dynamic=True)
