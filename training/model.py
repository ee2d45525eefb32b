"""The model: a transformer encoder over a tree of nodes with one logit an option, and the file that weights travel in."""

import json
import math
import struct

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

MAGIC = b"AUSPEX1\n"
FAR = 15  # The bucket of what stands far to the left: how a question sees the state.
GROUP = 32
HIGHEST = 63  # Of a weight as a byte: two products with inputs of eight bits then fit in sixteen, which is where processors add them.


def bucket(distance, buckets=32, furthest=128):
    """MPNet's buckets for the distance from a token to another: exact when near, logarithmic when far."""
    half = buckets // 2
    side = (distance > 0).long() * half
    distance = distance.abs()
    exact = half // 2
    far = exact + (torch.log(distance.float().clamp(min=1) / exact) / math.log(furthest / exact) * (half - exact)).long()
    return side + torch.where(distance < exact, distance, far.clamp(max=half - 1))


def rounded_rows(weight):
    """What `rows_of_bytes` makes of a matrix. The gradient passes."""
    scale = weight.detach().abs().amax(-1, keepdim=True) / HIGHEST + 1e-12
    return weight + (torch.round(weight / scale) * scale - weight).detach()


class Linear(nn.Linear):
    """A product with weights as bytes: so they are rounded in training, and out of a file they are already."""

    def forward(self, x):
        return F.linear(x, rounded_rows(self.weight) if self.training else self.weight, self.bias)


class Layer(nn.Module):
    def __init__(self, width, heads, inner, dropout, epsilon):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value, self.output = (Linear(width, width) for _ in range(4))
        self.up, self.down = Linear(width, inner), Linear(inner, width)
        self.norm_attention, self.norm_output = (nn.LayerNorm(width, epsilon) for _ in range(2))

    def forward(self, x, bias):
        batch, length, width = x.shape
        split = lambda y: y.view(batch, length, self.heads, -1).transpose(1, 2)
        drop = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(split(self.query(x)), split(self.key(x)), split(self.value(x)), bias, drop)
        mixed = self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        x = self.norm_attention(x + F.dropout(mixed, drop))
        return self.norm_output(x + F.dropout(self.down(F.gelu(self.up(x))), drop))


class Decider(nn.Module):
    def __init__(self, config, dropout=0.1):
        super().__init__()
        self.config = config
        width, epsilon = config["width"], config["epsilon"]
        self.word = nn.Embedding(config["vocabulary"], width)
        self.position = nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width, epsilon)
        self.relative = nn.Embedding(32, config["heads"]) if config["relative"] else None
        self.layers = nn.ModuleList(
            Layer(width, config["heads"], config["inner"], dropout, epsilon) for _ in range(config["layers"])
        )
        self.head = Linear(width, width)
        self.logit = nn.Linear(width, 1)
        self.dropout = dropout
        nn.init.normal_(self.logit.weight, std=0.02)
        nn.init.zeros_(self.logit.bias)
        self.word.weight.requires_grad = False
        if self.relative is not None:
            self.relative.weight.requires_grad = False

    def bias(self, position, node, family, sees, dtype):
        """What is added to the scores of attention: minus infinity where a token must not look."""
        seen = torch.gather(
            torch.gather(sees, 1, node[:, :, None].expand(-1, -1, sees.shape[2])), 2, node[:, None, :].expand(-1, node.shape[1], -1)
        )
        if self.relative is None:
            shift = torch.zeros((), dtype=dtype, device=node.device)
            return torch.where(seen, shift, torch.finfo(dtype).min / 2)[:, None]
        near = bucket(position[:, None, :] - position[:, :, None])
        near = torch.where(family[:, :, None] == family[:, None, :], near, FAR)
        bias = torch.stack([column.to(dtype)[near] for column in self.relative.weight.t()], 1)
        return torch.where(seen[:, None], bias, torch.finfo(dtype).min / 2)

    def forward(self, ids, position, node, family, sees, of, places):
        """A row of logits for each question: `of` says whose tree it is in, `places` where its options start, -1 for none."""
        dtype = torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else torch.float32
        with torch.no_grad():
            bias = self.bias(position, node, family, sees, dtype)
        x = self.norm(self.word(ids) + self.position(position))
        x = F.dropout(x, self.dropout if self.training else 0.0)
        for layer in self.layers:
            x = layer(x, bias)
        picked = x[of[:, None], places.clamp(min=0)]
        logits = self.logit(torch.tanh(self.head(picked))).squeeze(-1).float()
        return logits.masked_fill(places < 0, -1e4)

    def embedded(self, ids, position, node, family, sees):
        """The mean of the first node's tokens, as the base model embeds a sentence."""
        bias = self.bias(position, node, family, sees, torch.float32)
        x = self.norm(self.word(ids) + self.position(position))
        for layer in self.layers:
            x = layer(x, bias)
        first = (node == 0).float()[:, :, None]
        return F.normalize((x * first).sum(1) / first.sum(1), dim=-1)


def rows_of_bytes(matrix):
    scale = np.abs(matrix).max(1) / HIGHEST + 1e-12
    return scale.astype("<f4"), np.clip(np.round(matrix / scale[:, None]), -HIGHEST, HIGHEST).astype(np.int8)


def groups_of_nibbles(matrix):
    """Four bits an element with a scale (the upper half of a float) for each group; the best of a few scales."""
    groups = matrix.reshape(-1, GROUP)
    best, error = None, None
    for share in (1.0, 0.9, 0.8, 0.7):
        scale = np.abs(groups).max(1, keepdims=True) * share / 7 + 1e-12
        scale = (np.ascontiguousarray(scale, "<f4").view("<u4") >> 16 << 16).view("<f4")
        values = np.clip(np.round(groups / scale), -7, 7)
        now = ((values * scale - groups) ** 2).sum(1, keepdims=True)
        if best is None:
            best, error = (scale.copy(), values), now
        else:
            better = now < error
            best = np.where(better, scale, best[0]), np.where(better, values, best[1])
            error = np.minimum(now, error)
    scale = (np.ascontiguousarray(best[0], "<f4").view("<u4") >> 16).astype("<u2").ravel()
    nibbles = (best[1] + 8).astype(np.uint8).reshape(-1)
    return scale, nibbles[0::2] | nibbles[1::2] << 4


def save(path, config, tensors, words="i4", matrices="i8"):
    """A line of magic, the header's length, the header as JSON, then the tensors: matrices as bytes with a scale a row, or as nibbles."""
    header, data = {"config": config, "tensors": {}}, bytearray()
    for name, tensor in tensors.items():
        tensor = tensor.detach().float().cpu().numpy()
        kind = words if name in ("word.weight", "token_embd.weight") else matrices if tensor.ndim == 2 and min(tensor.shape) > 32 else "f32"
        header["tensors"][name] = {"kind": kind, "shape": list(tensor.shape), "offset": len(data)}
        if kind == "f32":
            data += tensor.astype("<f4").tobytes()
        else:
            scale, values = rows_of_bytes(tensor) if kind == "i8" else groups_of_nibbles(tensor)
            data += scale.tobytes() + values.tobytes()
        data += bytes(-len(data) % 64)
    text = json.dumps(header).encode()
    text += b" " * (-(len(MAGIC) + 4 + len(text)) % 64)
    with open(path, "wb") as file:
        file.write(MAGIC + struct.pack("<I", len(text)) + text + data)


def header(path):
    """The configuration of a file, of which no more than the beginning has to be there, and how many bytes all of it has."""
    with open(path, "rb") as file:
        size = struct.unpack("<I", file.read(12)[8:])[0]
        told = json.loads(file.read(size))
    last = max(told["tensors"].values(), key=lambda entry: entry["offset"])
    count = math.prod(last["shape"])
    taken = {"f32": 4 * count, "i8": 4 * last["shape"][0] + count, "i4": count // GROUP * 2 + count // 2}[last["kind"]]
    return told["config"], 12 + size + last["offset"] + taken + -taken % 64


def load(path):
    """The configuration and the tensors of a file, dequantised."""
    blob = open(path, "rb").read()
    assert blob[:8] == MAGIC, path
    size = struct.unpack("<I", blob[8:12])[0]
    header, base, tensors = json.loads(blob[12 : 12 + size]), 12 + size, {}
    for name, entry in header["tensors"].items():
        shape, at = entry["shape"], base + entry["offset"]
        count = math.prod(shape)
        if entry["kind"] == "f32":
            array = np.frombuffer(blob, "<f4", count, at).reshape(shape).copy()
        elif entry["kind"] == "i8":
            scale = np.frombuffer(blob, "<f4", shape[0], at)
            array = np.frombuffer(blob, np.int8, count, at + 4 * shape[0]).reshape(shape) * scale[:, None]
        else:
            scale = (np.frombuffer(blob, "<u2", count // GROUP, at).astype("<u4") << 16).view("<f4")
            packed = np.frombuffer(blob, np.uint8, count // 2, at + count // GROUP * 2)
            values = np.stack([packed & 15, packed >> 4], 1).astype(np.float32).reshape(-1, GROUP) - 8
            array = (values * scale[:, None]).reshape(shape)
        tensors[name] = torch.from_numpy(np.ascontiguousarray(array, np.float32))
    return header["config"], tensors
