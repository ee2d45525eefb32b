"""Examples for training: histories with combinators and public sets, as batches of token trees."""

import json
import pathlib
import random

import combine
import facts
import histories
import numpy as np
import public
import torch
import weaknesses
from text import SEP, UNK, Tokenizer, option_texts, plain, render, tree
from weaknesses import insults

DISGUISED = ("davidson", "tweet_hate")
OBJECTS = ["user", "message", "post", "account", "conversation", "review", "ticket", "comment", "customer"]


def softened(question, shares):
    """Writers round: a certain choice is nearly certain, and a level's neighbours are nearly as right. A teacher does not."""
    count = len(shares)
    if question.get("taught"):
        return shares
    if question["type"] == "score" and count > 2:
        spread = [0.86 * share for share in shares]
        for level, share in enumerate(shares):
            near = [other for other in (level - 1, level + 1) if 0 <= other < count]
            for other in near:
                spread[other] += 0.14 * share / len(near)
        return spread
    if question["type"] == "choice":
        return [0.96 * share + 0.04 / count for share in shares]
    return [min(max(share, 0.02), 0.98) for share in shares]


def default_key(question):
    return next((key for key, default in histories.DEFAULTS.items() if default["ask"] == question["ask"]), None)


def read_described(folders):
    """Groups with their writer and language: a line with its variants, as [(object type, events, [(question, shares)])]."""
    groups = {}
    for folder in folders:
        for line, _, events, asked in histories.read(folder):
            asked = [(question | {"signal": default_key(question)}, shares) for question, shares in asked]
            _, _, group = groups.setdefault((folder, line["id"]), (pathlib.Path(folder).name, line.get("lang", "en"), []))
            group.append((line["object_type"], events, asked))
    return list(groups.values())


def read_histories(folders):
    return [group for _, _, group in read_described(folders)]


def read_public(folder, names):
    sets = {}
    for name in names:
        rows = public.rows(folder, name)
        sets[name] = (rows, public.names_of(name, rows))
    return sets


def trained_sets(folder):
    """The public sets of a folder that are neither held out nor left out; none where no folder is named."""
    names = [path.name[: -len(".jsonl.xz")] for path in sorted(pathlib.Path(folder).glob("*.jsonl.xz"))] if folder else []
    return read_public(folder, [name for name in names if name not in (*public.HELD_OUT, *public.LEFT_OUT)])


class Batches(torch.utils.data.IterableDataset):
    """Endless steps, each a few batches: of histories, of what a teacher answered, of public rows, of generated cases.

    What belongs together stays in one batch. `plan` has the turns of a step, or of several steps that follow each other; every
    worker goes through it by itself, so a step never has to be put together from several workers. An example is its token tree, its targets, its pairs of questions that must agree (one, other, the other's candidates in
    the order of the first's), and how many examples back the one stands whose answers it must repeat (0: none).
    """

    # The shares of histories that are also read with an order in them, and among many other events.
    ORDERED, LONG = 0.025, 0.05
    # The last token that is no word, and the one that stands for a word that goes unread.
    reserved, unread = SEP, UNK

    def __init__(self, groups, sets, seed, tokens=None, plan=(), taught=None):
        self.groups, self.sets, self.seed, self.tokens, self.plan, self.taught = groups, sets, seed, tokens or {}, plan, taught
        self.pool, self.long = facts.pooled(groups), []

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        self.number, self.workers = (worker.id, worker.num_workers) if worker else (0, 1)
        self.random = random.Random(self.seed * 1000 + self.number)
        self.tokenizer = Tokenizer()
        sources = {"histories": self.written(), "taught": self.answered(), "public": self.taken(), "generated": self.generated()}
        while True:
            for turns in self.plan:
                yield [(turn, next(sources[turn])) for turn in turns]

    def example(self, state, asked, size=480, pairs=(), back=0):
        chunks = self.tokenizer.chunks(state, size)
        texts = [[plain(question["ask"]), *option_texts(question)] for question, _ in asked]
        ids = self.tokenizer.many([text for question in texts for text in question])
        questions, at = [], 0
        for question in texts:
            questions.append((ids[at], ids[at + 1 : at + len(question)]))
            at += len(question)
        targets = [(softened(question, shares), question["type"] == "score") for question, shares in asked]
        return tree(chunks, questions), targets, list(pairs), back

    def group(self, group):
        """A line with its variants: a few of its questions, the same for all of them, so that pairs stay pairs."""
        named = [(kind, events, [(json.dumps([one[0]["ask"], one[0].get("criteria")]), one) for one in asked]) for kind, events, asked in group]
        every = list(dict.fromkeys(name for _, _, asked in named for name, _ in asked))
        some = set(self.random.sample(every, min(len(every), self.random.randint(4, 6))))
        chosen = [(kind, events, [one for name, one in asked if name in some]) for kind, events, asked in named]
        return [example for one in chosen if one[2] for example in self.history(*one)]

    def history(self, object_type, events, asked):
        """A history with its questions, and sometimes the same with an order in it. Among many other events it goes to `long`."""
        draw = self.random
        if draw.random() < 0.3:
            events = combine.noisy(draw, events)
        called = draw.choice(combine.CALLED) if draw.random() < 0.2 else None
        asked = [combine.varied(draw, question, shares) for question, shares in asked]
        own = len(asked)
        asked, pairs = combine.paired(draw, asked)
        if draw.random() < 0.3:
            asked = asked + list(filter(None, [facts.asked(draw, events, self.pool)]))
        size = draw.randint(96, 300) if draw.random() < 0.15 else 480
        arrays, *rest = self.example(render(object_type, events, called), asked, size, pairs)
        if draw.random() < 0.5:
            # Some words of the state go unread: what is asked is seldom in one word alone.
            ids, state = arrays[0], arrays[3] < 0
            unread = np.random.default_rng(draw.getrandbits(32)).random(len(ids)) < draw.uniform(0.02, 0.1)
            ids[state & unread & (ids > self.reserved)] = self.unread
        examples = [(arrays, *rest)]
        if draw.random() < self.ORDERED:
            examples.append(self.example(render(object_type, combine.with_order(draw, events, asked), called), asked[:own], back=1))
        if draw.random() < self.LONG:
            self.long.append([self.example(render(object_type, combine.lengthened(draw, events), called), asked[:own])])
        return examples

    def written(self):
        """Histories, in pools that are sorted by length: little padding, and yet no two epochs alike."""
        while True:
            order = self.random.sample(self.groups, len(self.groups))
            for start in range(0, len(order), 96):
                pool, self.long = [self.group(group) for group in order[start : start + 96]] + self.long, []
                pool.sort(key=lambda group: max(len(example[0][0]) for example in group))
                yield from self.packed(pool, self.tokens["histories"])

    def answered(self):
        """Questions with the answers of a teacher, asked in as many ways as written ones. Each worker has shards of its own, which may grow in number."""
        seen = set()
        while True:
            shards = self.taught.shards()
            own = [number for number in sorted(shards) if number % self.workers == self.number] or sorted(shards)
            left = [number for number in own if number not in seen]
            if not left:
                seen, left = set(), own
            number = self.random.choice(left)
            seen.add(number)
            pool = [self.history(*row) for row in self.taught.shard(shards[number])]
            pool.sort(key=lambda examples: len(examples[0][0][0]))
            yield from self.packed(pool, self.tokens["taught"])

    def taken(self):
        names = list(self.sets)
        weights = [len(rows) ** 0.5 * (1.6 if name.startswith(("nli_", "t0_")) else 1.0) for name, (rows, _) in self.sets.items()]
        while True:
            pool = []
            while len(pool) < 256:
                name = self.random.choices(names, weights)[0]
                rows, labels = self.sets[name]
                one = public.question(self.random, name, self.random.choice(rows), labels)
                if one:
                    text, question, shares = one
                    if name in DISGUISED and self.random.random() < 0.2:
                        text = insults.disguised(self.random, text, 0.3)
                    asked = [(question, [min(max(share, 0.01), 0.99) for share in shares] if question["type"] == "noul" else shares)]
                    if question["type"] == "choice" and self.random.random() < 0.1:
                        asked.append(combine.as_noul(self.random, question, shares))
                    asked, pairs = combine.paired(self.random, asked)
                    pool.append([self.example(self.wrapped(text), asked, pairs=pairs)])
            pool.sort(key=lambda group: len(group[0][0][0]))
            yield from self.packed(pool, self.tokens["public"])

    def generated(self):
        """Cases from the templates that are for training. Those of one call stay together, and some must agree with the first."""
        while True:
            pool = []
            while len(pool) < 160:
                _, cases = weaknesses.drawn(self.random)
                examples = []
                for at, case in enumerate(cases):
                    asked, pairs = (case.asked, case.pairs) if case.pairs or case.twin is not None or self.random.random() < 0.7 else combine.paired(self.random, case.asked)
                    asked = [(combine.paraphrased(self.random, question), shares) if self.random.random() < 0.3 else (question, shares) for question, shares in asked]
                    examples.append(self.example(render(case.object_type, case.events), asked, pairs=pairs, back=at - case.twin if case.twin is not None else 0))
                pool += [examples] if examples else []
            pool.sort(key=lambda group: max(len(example[0][0]) for example in group))
            yield from self.packed(pool, self.tokens["generated"])

    def wrapped(self, text):
        """A lone text as a history: the one message of an object, sometimes among events that mean nothing."""
        draw = self.random
        at = f"20{draw.randint(23, 27)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}T{draw.randint(0, 23):02}:{draw.randint(0, 59):02}:00Z"
        events = [{"at": at, "type": "message", "content": text}]
        if draw.random() < 0.15:
            events = combine.noisy(draw, events)
        return render(draw.choice(OBJECTS), events)

    def packed(self, pool, tokens):
        """Batches of at most so many tokens, padding counted, in any order."""
        batches, batch, longest = [], [], 0
        for group in pool:
            now = max(longest, max(len(example[0][0]) for example in group))
            if batch and now * (len(batch) + len(group)) > tokens:
                batches.append(batch)
                batch, now = [], max(len(example[0][0]) for example in group)
            batch, longest = batch + group, now
        if batch:
            batches.append(batch)
        self.random.shuffle(batches)
        yield from map(self.collated, batches)

    def collated(self, batch):
        return collated(batch)


def agreements(examples, widest):
    """Two questions of a batch a row that must agree, and for each candidate of the first where it stands in the second. What is beyond stays where it is."""
    starts, pairs, count = [], [], 0
    for row, (_, targets, own, back) in enumerate(examples):
        starts.append(count)
        count += len(targets)
        pairs += [(starts[row] + one, starts[row] + other, order) for one, other, order in own]
        if back:
            same = min(len(targets), len(examples[row - back][1]))
            pairs += [(starts[row - back] + at, starts[row] + at, list(range(len(targets[at][0])))) for at in range(same)]
    agree, order = np.array([pair[:2] for pair in pairs], np.int64).reshape(-1, 2), np.tile(np.arange(widest), (len(pairs), 1))
    for row, (_, _, own) in enumerate(pairs):
        order[row, : len(own)] = own
    return agree, order


def collated(examples):
    """Padded arrays. A pad is a node of its own that sees itself."""
    longest = -(-max(len(example[0][0]) for example in examples) // 16) * 16
    nodes = max(example[0][4].shape[0] for example in examples) + 1
    asked = [(row, first, target) for row, (arrays, targets, *_) in enumerate(examples) for first, target in zip(arrays[5], targets)]
    widest = max(len(first) for _, first, _ in asked)
    size = len(examples)
    fields = [np.zeros((size, longest), np.int32), np.zeros((size, longest), np.int16), np.full((size, longest), nodes - 1, np.int16), np.full((size, longest), 999, np.int16)]
    sees = np.zeros((size, nodes, nodes), bool)
    sees[:, -1, -1] = True
    for row, (arrays, *_) in enumerate(examples):
        for field, array in zip(fields, arrays[:4]):
            field[row, : len(array)] = array
        count = arrays[4].shape[0]
        sees[row, :count, :count] = arrays[4]
    places = np.full((len(asked), widest), -1, np.int64)
    goals = np.zeros((len(asked), widest), np.float32)
    of = np.array([row for row, _, _ in asked], np.int64)
    ordered = np.array([scale for _, _, (_, scale) in asked], np.float32)
    for number, (_, first, (target, _)) in enumerate(asked):
        places[number, : len(first)] = first
        goals[number, : len(target)] = target
    return [torch.from_numpy(array) for array in (*fields, sees, of, places, goals, ordered, *agreements(examples, widest))]


def folders(root, held_out):
    """The writers' folders: those to train on, and those to judge by."""
    every = sorted(str(path) for path in pathlib.Path(root).iterdir() if path.is_dir() and any(path.glob("*.jsonl")))
    return [path for path in every if pathlib.Path(path).name not in held_out], [path for path in every if pathlib.Path(path).name in held_out]
