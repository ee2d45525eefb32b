"""Weights of the teacher: Qwen2.5-Coder-1.5B-Instruct (Alibaba Cloud's Qwen team, Apache-2.0), from a GGUF file.

    python3 training/teacher_weights.py GGUF OUT TEXTS…   cuts the vocabulary to the words of the texts and leaves the last product out

OUT gets `teacher.bin` (blocks as they are in the GGUF file, 4 to 6 bits an element), `teacher.json` (what is where, and the
configuration) and `words.json` (the tokenizer and which words were kept). Needs PyPI `gguf` and `tokenizers`. None of it is part of
this repository.
"""

import json
import lzma
import pathlib
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

# How the family splits texts before it looks for pairs of bytes.
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
FIELDS = {"layers": "qwen2.block_count", "width": "qwen2.embedding_length", "inner": "qwen2.feed_forward_length", "heads": "qwen2.attention.head_count",
          "shared": "qwen2.attention.head_count_kv", "base": "qwen2.rope.freq_base", "epsilon": "qwen2.attention.layer_norm_rms_epsilon"}


def tokenizer_of(words, merges):
    tokenizer = Tokenizer(models.BPE(vocab={word: at for at, word in enumerate(words)}, merges=[tuple(merge.split(" ")) for merge in merges]))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return tokenizer


def texts(paths):
    """The lines of files of JSON, as they are: their marks are words too."""
    for path in map(pathlib.Path, paths):
        for file in sorted(path.rglob("*.jsonl*")) if path.is_dir() else [path]:
            text = lzma.open(file, "rt").read() if file.suffix == ".xz" else file.read_text()
            for line in text.splitlines():
                told = json.loads(line)
                yield json.dumps(told, ensure_ascii=False)
                # Words at the start of a field have no space before them.
                yield from (value for value in walked(told) if isinstance(value, str))


def walked(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from walked(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walked(inner)
    else:
        yield value


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


def cut(source, out, paths):
    from gguf import GGUFReader

    reader, out = GGUFReader(source), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    words, merges = (reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges"))
    tokenizer, used, batch = tokenizer_of(words, merges), set(range(256)), []
    for text in texts(paths):
        batch.append(text)
        if len(batch) == 20000:
            used.update(at for encoding in tokenizer.encode_batch(batch) for at in encoding.ids)
            batch = []
    used.update(at for encoding in tokenizer.encode_batch(batch) for at in encoding.ids)
    kept = sorted(used)
    (out / "words.json").write_text(json.dumps({"words": words, "merges": merges, "kept": kept}, ensure_ascii=False))
    config = {name: reader.fields[field].contents() for name, field in FIELDS.items()} | {"vocabulary": len(kept)}
    index, at = {}, 0
    with open(out / "teacher.bin", "wb") as file:
        for tensor in reader.tensors:
            if tensor.name == "output.weight":
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


def load(folder, layers=None, workers=14):
    """The configuration and the tensors; only the first layers where so many are named."""
    folder = pathlib.Path(folder)
    told = json.loads((folder / "teacher.json").read_text())
    config = told["config"] | ({"layers": layers} if layers else {})
    names = [name for name in told["tensors"] if not name.startswith("blk.") or int(name.split(".")[1]) < config["layers"]]
    with ProcessPoolExecutor(workers) as pool:
        arrays = pool.map(whole, [(folder / "teacher.bin", told["tensors"][name]) for name in names])
        return config, dict(zip(names, arrays))


if __name__ == "__main__":
    cut(sys.argv[1], sys.argv[2], sys.argv[3:])
