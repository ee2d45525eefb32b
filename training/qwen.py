"""Weights of the Qwen2.5 family (Alibaba Cloud's Qwen team, Apache-2.0), cut to what a reader needs, from a GGUF file.

    python3 training/qwen.py GGUF OUT LAYERS WORDS TEXTS…

OUT gets `base.bin` (blocks as they are in the GGUF file, 4 to 8 bits an element), `base.json` (what is where, and the configuration) and
`words.json` (the tokenizer and which words were kept). LAYERS is a number of first layers or a slice such as `0:24:2`. Kept are the words
of the texts that are not held out and, up to WORDS, the commonest others with letters beyond ASCII; the product with the words at the end is
left out. Needs PyPI `gguf` and `tokenizers`. None of it is part of this repository.
"""

import json
import lzma
import pathlib
import re
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import public
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

# How the family splits texts before it looks for pairs of bytes.
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORD = re.compile(r"[^\W\d_]+|[^\w\s]+|\d")
LINE = re.compile(r"[^\n]*\n|[^\n]+")
FIELDS = {"layers": "qwen2.block_count", "width": "qwen2.embedding_length", "inner": "qwen2.feed_forward_length", "heads": "qwen2.attention.head_count",
          "shared": "qwen2.attention.head_count_kv", "base": "qwen2.rope.freq_base", "epsilon": "qwen2.attention.layer_norm_rms_epsilon"}
HELD_OUT = {*(pathlib.Path(__file__).parent / "held-out.txt").read_text().split(), *public.HELD_OUT, "held-out"}
BYTES = 256  # The first words are the bytes.
UNREAD = 124  # One that no text has: 0xC0 is no part of UTF-8.


def tokenizer_of(words, merges):
    tokenizer = Tokenizer(models.BPE(vocab={word: at for at, word in enumerate(words)}, merges=[tuple(merge.split(" ")) for merge in merges]))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return tokenizer


def known(paths):
    """The words of files of JSON and Python, with and without a space before them."""
    found = set()
    for path in map(pathlib.Path, paths):
        for file in sorted([*path.rglob("*.jsonl*"), *path.rglob("*.py")]) if path.is_dir() else [path]:
            if HELD_OUT.isdisjoint(part.split(".")[0] for part in file.parts):
                text = lzma.open(file, "rt").read() if file.suffix == ".xz" else file.read_text()
                found.update(WORD.findall(text))
    return [space + word for word in sorted(found) for space in ("", " ")]


class Words:
    """The tokenizer with the words that were kept. Another word is told by the two that it was merged from, down to bytes."""

    def __init__(self, folder):
        told = json.loads((pathlib.Path(folder) / "words.json").read_text())
        self.inner, self.known = tokenizer_of(told["words"], told["merges"]), {}
        self.parts = parts_of(told["words"], told["merges"], told["kept"])

    def lines(self, text):
        """The tokens of each line; the same lines come again and again, so they are remembered."""
        if len(self.known) > 300_000:
            self.known.clear()
        lines = LINE.findall(text)
        new = [line for line in dict.fromkeys(lines) if line not in self.known]
        for line, encoding in zip(new, self.inner.encode_batch(new) if new else ()):
            self.known[line] = [at for token in encoding.ids for at in self.parts[token]]
        return [self.known[line] for line in lines]

    def of(self, text):
        return [at for line in self.lines(text) for at in line]


def parts_of(words, merges, kept):
    """For each word the numbers, among those that were kept, that it is told by."""
    number, place, found = {word: at for at, word in enumerate(words)}, {word: at for at, word in enumerate(kept)}, {}
    made = {}
    for merge in merges:
        one, other = merge.split(" ")
        made.setdefault(number[one + other], (number[one], number[other]))
    for at in range(len(words)):
        if at in place:
            found[at] = [place[at]]
        elif at in made:
            # The parts of a word come before it.
            found[at] = found[made[at][0]] + found[made[at][1]]
    return found


def kept_of(words, merges, paths, most):
    used = set(range(BYTES))
    used.update(at for encoding in tokenizer_of(words, merges).encode_batch(known(paths)) for at in encoding.ids)
    print(len(used), "words of the texts")
    letters = bytes_of(words)
    for at, word in enumerate(words):
        if len(used) >= most:
            break
        if not letters(word).isascii():
            used.add(at)
    return sorted(used)


def bytes_of(words):
    """A function that turns a word back into text. The alphabet of the family writes each byte as a letter."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(BYTES) if byte not in printable]
    byte = {chr(one): one for one in printable} | {chr(BYTES + at): one for at, one in enumerate(others)}
    return lambda word: bytes(byte.get(letter, 0) for letter in word).decode(errors="ignore")


def chosen(layers, count):
    """The numbers of the layers that are meant by `12` or `0:24:2`."""
    bounds = [int(part) if part else None for part in str(layers).split(":")]
    return list(range(count))[slice(*bounds)]


def cut(source, out, layers, most, paths):
    from gguf import GGUFReader

    reader, out = GGUFReader(source), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    words, merges = (reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges"))
    kept = kept_of(words, merges, paths, most)
    (out / "words.json").write_text(json.dumps({"words": words, "merges": merges, "kept": kept}, ensure_ascii=False))
    config = {name: reader.fields[field].contents() for name, field in FIELDS.items()} | {"vocabulary": len(kept)}
    taken = {number: at for at, number in enumerate(chosen(layers, config["layers"]))}
    config |= {"of": reader.fields["general.name"].contents(), "taken": list(taken), "layers": len(taken)}
    index, at = {}, 0
    with open(out / "base.bin", "wb") as file:
        for tensor in reader.tensors:
            name, number = tensor.name, int(tensor.name.split(".")[1]) if tensor.name.startswith("blk.") else None
            if name == "output.weight" or number is not None and number not in taken:
                continue
            if number is not None:
                name = name.replace(f"blk.{number}.", f"blk.{taken[number]}.")
            rows = np.ascontiguousarray(tensor.data[kept] if name == "token_embd.weight" else tensor.data)
            index[name] = {"kind": tensor.tensor_type.name, "shape": list(rows.shape), "type": str(rows.dtype), "offset": at}
            file.write(rows.tobytes())
            at += rows.nbytes
    (out / "base.json").write_text(json.dumps({"config": config, "tensors": index}))
    print(len(kept), "words,", at, "bytes,", config)


def whole(arguments):
    """A tensor in 32 bits."""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    path, entry = arguments
    rows = np.fromfile(path, entry["type"], int(np.prod(entry["shape"])), offset=entry["offset"]).reshape(entry["shape"])
    return dequantize(rows, GGMLQuantizationType[entry["kind"]])


def described(folder):
    return json.loads((pathlib.Path(folder) / "base.json").read_text())


def config(folder, layers=None):
    return described(folder)["config"] | ({"layers": layers} if layers else {})


def size(folder):
    """The bytes of the file of weights."""
    last = max(described(folder)["tensors"].values(), key=lambda entry: entry["offset"])
    return last["offset"] + int(np.prod(last["shape"])) * np.dtype(last["type"]).itemsize


def load(folder, layers=None, workers=12):
    """The tensors one by one, with their names; only of some layers where their numbers are given."""
    folder, tensors = pathlib.Path(folder), described(folder)["tensors"]
    names = [name for name in tensors if layers is None or not name.startswith("blk.") or int(name.split(".")[1]) in layers]
    with ProcessPoolExecutor(workers) as pool:
        yield from zip(names, pool.map(whole, [(folder / "base.bin", tensors[name]) for name in names]))


if __name__ == "__main__":
    cut(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:])
