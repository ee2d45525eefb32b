"""Turns downloaded base weights into our file: python3 training/base.py MODEL_FOLDER OUT [i4|i8]

MODEL_FOLDER holds `config.json` and `model.safetensors` of all-MiniLM-L6-v2 or all-mpnet-base-v2. Words get BERT's numbers.
"""

import json
import pathlib
import sys

import torch
from model import Decider, load, save
from safetensors.torch import load_file

NAMES = {
    "bert": {"query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
             "output": "attention.output.dense", "norm_attention": "attention.output.LayerNorm"},
    "mpnet": {"query": "attention.attn.q", "key": "attention.attn.k", "value": "attention.attn.v",
              "output": "attention.attn.o", "norm_attention": "attention.LayerNorm"},
}
SHARED = {"up": "intermediate.dense", "down": "output.dense", "norm_output": "output.LayerNorm"}


def converted(folder):
    theirs = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    weights = {name.removeprefix("bert.").removeprefix("mpnet."): tensor for name, tensor in weights.items()}
    kind = theirs["model_type"]
    words, positions = weights["embeddings.word_embeddings.weight"], weights["embeddings.position_embeddings.weight"]
    if kind == "mpnet":
        start, pad, end, unknown = words[:4].clone()
        words, positions = words[4:30526].clone(), positions[2:514]
        words[0], words[100], words[101], words[102] = pad, unknown, start, end
    else:
        positions = positions + weights["embeddings.token_type_embeddings.weight"][0]
    config = {
        "base": "all-mpnet-base-v2" if kind == "mpnet" else "all-MiniLM-L6-v2",
        "vocabulary": 30522, "width": theirs["hidden_size"], "heads": theirs["num_attention_heads"],
        "inner": theirs["intermediate_size"], "layers": theirs["num_hidden_layers"],
        "epsilon": theirs["layer_norm_eps"], "relative": kind == "mpnet",
    }
    tensors = {"word.weight": words, "position.weight": positions,
               "norm.weight": weights["embeddings.LayerNorm.weight"], "norm.bias": weights["embeddings.LayerNorm.bias"]}
    if kind == "mpnet":
        tensors["relative.weight"] = weights["encoder.relative_attention_bias.weight"]
    for layer in range(config["layers"]):
        for ours, name in (NAMES[kind] | SHARED).items():
            for part in ("weight", "bias"):
                tensors[f"layers.{layer}.{ours}.{part}"] = weights[f"encoder.layer.{layer}.{name}.{part}"]
    torch.manual_seed(1)
    fresh = Decider(config).state_dict()
    tensors |= {name: fresh[name] for name in ("head.weight", "head.bias", "logit.weight", "logit.bias")}
    Decider(config).load_state_dict(tensors)
    return config, tensors


if __name__ == "__main__":
    config, tensors = converted(pathlib.Path(sys.argv[1]))
    save(sys.argv[2], config, tensors, sys.argv[3])
    again = load(sys.argv[2])[1]
    for name in ("word.weight", "layers.0.up.weight"):
        print(name, torch.cosine_similarity(again[name], tensors[name]).mean().item())
