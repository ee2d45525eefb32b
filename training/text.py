"""What the model reads: histories as the service renders them, reduced to what matters, as a tree of token nodes.

`crates/model/src/history.rs` and `crates/decider/src/model_input.rs` say the same in Rust; `fixtures/` proves it.
"""

import pathlib
import re

import numpy as np
from text_rendering import breaks_line, compact, render  # noqa: F401
from tokenizers import BertWordPieceTokenizer

CLS, SEP, UNK = 101, 102, 100
CHUNK_TOKENS = 480
STATE_TOKENS = 4096
QUESTION_TOKENS = 256
OPTION_TOKENS = 128
STAMP = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d\.\d{6}Z (?=(?:event|message)\b)", re.M)
BREAKS = [letter for letter in map(chr, range(0x3000)) if breaks_line(letter) and letter != "\n"]
MARKS = str.maketrans({mark: " " for mark in [*'{}"_', *BREAKS]})


def reduced(state):
    """Seconds and the marks of JSON cost a third of the tokens and say nothing."""
    return STAMP.sub(r"\1 \2 ", state).translate(MARKS)


def plain(value):
    return (value if isinstance(value, str) else compact(value)).translate(MARKS)


def option_texts(question):
    """One text a candidate: yes and no; the options; the levels with their place."""
    kind, criteria = question["type"], question.get("criteria")
    if kind == "noul":
        pairs = [("yes", (criteria or {}).get("true")), ("no", (criteria or {}).get("false"))]
    elif kind == "choice":
        pairs = list(criteria.items())
    else:
        pairs = [(f"level {place} of {len(criteria)}", level) for place, level in enumerate(criteria, 1)]
    return [plain(name) + (": " + plain(what) if what is not None else "") for name, what in pairs]


class Tokenizer:
    def __init__(self, vocabulary=pathlib.Path(__file__).parents[1] / "crates/decider/src/vocabulary.txt"):
        self.inner = BertWordPieceTokenizer(str(vocabulary), lowercase=True)
        self.known = {}

    def many(self, texts):
        """Training reads the same lines again and again, so they are remembered."""
        if len(self.known) > 200_000:
            self.known.clear()
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        for text, encoding in zip(new, self.inner.encode_batch(new, add_special_tokens=False) if new else ()):
            self.known[text] = encoding.ids
        return [self.known[text] for text in texts]

    def chunks(self, state, size=CHUNK_TOKENS):
        """Lines go together while they fit, the newest first; a line that is too long is cut into several."""
        lines = self.many([line for line in reduced(state).split("\n") if line])
        room = size - 2
        pieces = [line[at : at + room] for line in lines for at in range(0, max(len(line), 1), room)]
        heading, pieces = (pieces[:1], pieces[1:]) if pieces else ([], [])
        chunks, left = [[]], STATE_TOKENS - sum(map(len, heading))
        for piece in reversed(pieces):
            if len(piece) > left:
                break
            left -= len(piece)
            if len(chunks[-1]) + len(piece) > room:
                chunks.append([])
            chunks[-1] = piece + chunks[-1]
        for piece in heading:
            if len(chunks[-1]) + len(piece) > room:
                chunks.append([])
            chunks[-1] = piece + chunks[-1]
        return [[CLS, *chunk, SEP] for chunk in reversed(chunks)]


def tree(chunks, questions, joint=True):
    """The nodes of one object with its questions, as arrays.

    A chunk of the state sees itself; a question sees the state and itself; an option sees its question besides. `family`
    says between which tokens distance means something.
    """
    ids, positions, node, family, parents, picks = [], [], [], [], [], []

    def add(tokens, start, kin, sees):
        number = len(parents)
        parents.append([*sees, number])
        ids.extend(tokens)
        positions.extend(range(start, start + len(tokens)))
        node.extend([number] * len(tokens))
        family.extend([kin] * len(tokens))
        return number

    state = [add(chunk, 0, -1 - index, []) for index, chunk in enumerate(chunks)]
    for kin, (ask, options) in enumerate(questions):
        ask = [CLS, *ask[: QUESTION_TOKENS - 2], SEP]
        asked = None if joint else add(ask, 0, kin, state)
        first = []
        for option in options:
            first.append(len(ids))
            if joint:
                add([*ask, *option[: OPTION_TOKENS - 1], SEP], 0, kin, state)
            else:
                add([CLS, *option[: OPTION_TOKENS - 2], SEP], len(ask), kin, [*state, asked])
        picks.append(first)
    sees = np.zeros((len(parents), len(parents)), bool)
    for number, seen in enumerate(parents):
        sees[number, seen] = True
    arrays = [np.array(values, np.int16 if values is not ids else np.int32) for values in (ids, positions, node, family)]
    return *arrays, sees, picks
