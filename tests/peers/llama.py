"""llama.cpp's server on loopback for tests, with a model that knows nothing: random weights, one layer, under a megabyte.

What it says means nothing, and how it says it is real: tokens, probabilities, grammars, prompt reuse, errors. With
`--decision` the model is a decision model, which answers at /v1/systemone. The first line on stdout is JSON with its port.
It ends when stdin does, so that it outlives no test.
"""

import argparse
import json
import os
import string
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import gguf
import numpy
import xllamacpp

WIDTH = 64
HEADS = 4
CONTEXT = 16384
# The letters that the model likes to say, so that answers have some.
LIKED = "ABCDEFGH"
# What a decision model makes of a question.
SYSTEMONE = """{{ state }}
{{ instructions if instructions is string else instructions | tojson }}
{% for option in options %}{{ option.label }}) {{ option.key }} {{ option.description if option.description }}
{% endfor %}Answer:"""


def vocabulary():
    """Tokens with their scores and types: control tokens, every byte, printable characters, letters after a blank."""
    kinds = gguf.TokenType
    yield "<unk>", 0.0, kinds.UNKNOWN
    for name in ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]:
        yield name, 0.0, kinds.CONTROL
    for byte in range(256):
        yield f"<0x{byte:02X}>", 0.0, kinds.BYTE
    for code in range(ord(" "), ord("~") + 1):
        yield chr(code).replace(" ", "\u2581"), -1000.0 - code, kinds.NORMAL
    for letter in string.ascii_uppercase:
        yield "\u2581" + letter, -1.0, kinds.NORMAL


def write_model(path, decision):
    tokens, scores, kinds = zip(*vocabulary())
    model = gguf.GGUFWriter(path, "llama")
    model.add_context_length(CONTEXT)
    model.add_embedding_length(WIDTH)
    model.add_block_count(1)
    model.add_feed_forward_length(WIDTH)
    model.add_head_count(HEADS)
    model.add_head_count_kv(HEADS)
    model.add_rope_dimension_count(WIDTH // HEADS)
    model.add_layer_norm_rms_eps(1e-5)
    model.add_vocab_size(len(tokens))
    model.add_tokenizer_model("llama")
    model.add_token_list([token.encode() for token in tokens])
    model.add_token_scores(scores)
    model.add_token_types(kinds)
    model.add_unk_token_id(tokens.index("<unk>"))
    model.add_bos_token_id(tokens.index("<s>"))
    model.add_eos_token_id(tokens.index("</s>"))
    model.add_add_bos_token(True)
    model.add_add_space_prefix(False)
    if decision:
        model.add_string("llama.decision.type", "lev")
        model.add_array("tokenizer.chat_templates", ["systemone"])
        model.add_string("tokenizer.chat_template.systemone", SYSTEMONE)
    for name, weights in tensors(tokens):
        model.add_tensor(name, weights.astype(numpy.float32))
    model.write_header_to_file()
    model.write_kv_data_to_file()
    model.write_tensors_to_file()
    model.close()


def tensors(tokens):
    # The same model every time.
    random = numpy.random.default_rng(1).standard_normal
    embedding = random((len(tokens), WIDTH))
    output = random((len(tokens), WIDTH)) * 0.2
    # Every token carries a constant, which speaks for the letters that are liked.
    embedding[:, 0] = 4
    for index, token in enumerate(tokens):
        if token.strip("\u2581") in tuple(LIKED):
            output[index, 0] += 0.8
    yield "token_embd.weight", embedding
    yield "output.weight", output
    for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"]:
        yield f"{name}.weight", numpy.ones(WIDTH)
    for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]:
        yield f"blk.0.{name}.weight", random((WIDTH, WIDTH)) * 0.1


def start(path, api_key):
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [api_key]
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    # More threads than free cores make it a thousand times slower.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.verbosity = 0
    return xllamacpp.Server(params)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--api-key", required=True)
    parser.add_argument("--decision", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.gguf"
        write_model(path, options.decision)
        server = start(path, options.api_key)
    print(json.dumps({"port": urlsplit(server.listening_address).port}), flush=True)
    sys.stdin.read()
    # The server waits for connections that clients keep open; nobody needs it any more.
    os._exit(0)


if __name__ == "__main__":
    main()
