"""Weights of the teacher: Qwen2.5-Coder-1.5B-Instruct (Alibaba Cloud's Qwen team, Apache-2.0), from a GGUF file.

    python3 training/teacher_weights.py GGUF OUT LAYERS TEXTS…   keeps the words of the texts and the first layers, and leaves the last product out

OUT gets `teacher.bin` (blocks as they are in the GGUF file, 4 to 6 bits an element), `teacher.json` (what is where, and the
configuration) and `words.json` (the tokenizer and which words were kept). Needs PyPI `gguf` and `tokenizers`. None of it is part of
this repository.
"""

import json
import lzma
import pathlib
import re
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

# How the family splits texts before it looks for pairs of bytes.
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORD = re.compile(r"[^\W\d_]+|[^\w\s]+|\d")
FIELDS = {"layers": "qwen2.block_count", "width": "qwen2.embedding_length", "inner": "qwen2.feed_forward_length", "heads": "qwen2.attention.head_count",
          "shared": "qwen2.attention.head_count_kv", "base": "qwen2.rope.freq_base", "epsilon": "qwen2.attention.layer_norm_rms_epsilon"}


def tokenizer_of(words, merges):
    tokenizer = Tokenizer(models.BPE(vocab={word: at for at, word in enumerate(words)}, merges=[tuple(merge.split(" ")) for merge in merges]))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return tokenizer


def known(paths):
    """The words of files of JSON, with and without a space before them."""
    found = set()
    for path in map(pathlib.Path, paths):
        for file in sorted(path.rglob("*.jsonl*")) if path.is_dir() else [path]:
            text = lzma.open(file, "rt").read() if file.suffix == ".xz" else file.read_text()
            found.update(WORD.findall(text))
    return [space + word for word in sorted(found) for space in ("", " ")]


class Words:
    """The tokenizer with the words that were kept. Another word is spelled out in bytes, which are the first 256."""

    def __init__(self, folder):
        told = json.loads((pathlib.Path(folder) / "words.json").read_text())
        self.inner, self.kept = tokenizer_of(told["words"], told["merges"]), {word: at for at, word in enumerate(told["kept"])}
        self.first, self.words, self.known = {word: at for at, word in enumerate(told["words"][:256])}, told["words"], {}

    def many(self, texts):
        if len(self.known) > 300_000:
            self.known.clear()
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        for text, encoding in zip(new, self.inner.encode_batch(new) if new else ()):
            self.known[text] = [at for token in encoding.ids for at in ([self.kept[token]] if token in self.kept else [self.kept[self.first[byte]] for byte in self.words[token]])]
        return [self.known[text] for text in texts]


def cut(source, out, layers, paths):
    from gguf import GGUFReader

    reader, out = GGUFReader(source), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    words, merges = (reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges"))
    used = set(range(256))
    used.update(at for encoding in tokenizer_of(words, merges).encode_batch(known(paths)) for at in encoding.ids)
    kept = sorted(used)
    (out / "words.json").write_text(json.dumps({"words": words, "merges": merges, "kept": kept}, ensure_ascii=False))
    config = {name: reader.fields[field].contents() for name, field in FIELDS.items()} | {"vocabulary": len(kept), "layers": layers}
    index, at = {}, 0
    with open(out / "teacher.bin", "wb") as file:
        for tensor in reader.tensors:
            if tensor.name == "output.weight" or tensor.name.startswith("blk.") and int(tensor.name.split(".")[1]) >= layers:
                continue
            rows = np.ascontiguousarray(tensor.data[kept] if tensor.name == "token_embd.weight" else tensor.data)
            index[tensor.name] = {"kind": tensor.tensor_type.name, "shape": list(rows.shape), "type": str(rows.dtype), "offset": at}
            file.write(rows.tobytes())
            at += rows.nbytes
    (out / "teacher.json").write_text(json.dumps({"config": config, "tensors": index}))
    print(len(kept), "words,", at, "bytes,", config)


def whole(arguments):
    """A tensor in 32 bits."""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    path, entry = arguments
    rows = np.fromfile(path, entry["type"], int(np.prod(entry["shape"])), offset=entry["offset"]).reshape(entry["shape"])
    return dequantize(rows, GGMLQuantizationType[entry["kind"]])


def described(folder):
    return json.loads((pathlib.Path(folder) / "teacher.json").read_text())


def config(folder, layers=None):
    return described(folder)["config"] | ({"layers": layers} if layers else {})


def size(folder):
    """The bytes of the file of weights."""
    last = max(described(folder)["tensors"].values(), key=lambda entry: entry["offset"])
    return last["offset"] + int(np.prod(last["shape"])) * np.dtype(last["type"]).itemsize


def load(folder, layers=None, workers=12):
    """The tensors one by one, with their names; only of the first layers where so many are named."""
    folder, tensors = pathlib.Path(folder), described(folder)["tensors"]
    count = config(folder, layers)["layers"]
    names = [name for name in tensors if not name.startswith("blk.") or int(name.split(".")[1]) < count]
    with ProcessPoolExecutor(workers) as pool:
        yield from zip(names, pool.map(whole, [(folder / "teacher.bin", tensors[name]) for name in names]))


if __name__ == "__main__":
    cut(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
