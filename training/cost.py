"""What an answer costs, computed: python3 training/cost.py FOLDER_OF_WEIGHTS

Multiply-adds of the embedded model and of the causal reader (`qwen.py` wrote its folder) for the inputs that
`crates/decider/examples/eval.rs` measures: a state of ten or 150 lines, with three short signals or with the default ones.
"""

import sys

import causal
import histories
import qwen
from text import Tokenizer, option_texts, plain, tree

LINE = "2026-01-01T00:00:01.000000Z message I was charged twice and nobody answers, please refund me today.\n"
SHORT = [
    {"type": "noul", "ask": "Is the user about to leave?"},
    {"type": "choice", "ask": "Which team should answer?", "criteria": {"billing": "charges, refunds", "shipping": "parcels", "other": None}},
    {"type": "score", "ask": "How angry are they?", "criteria": ["calm", "annoyed", "furious"]},
]
MPNET = {"layers": 12, "width": 768, "matrices": 4 * 768 * 768 + 2 * 768 * 3072}


def pairs_seen(node, sees, causal_within):
    """How many pairs of tokens look at each other."""
    sizes = [int((node == number).sum()) for number in range(len(sees))]
    total = sum(sizes[one] * sizes[other] for one in range(len(sees)) for other in range(len(sees)) if sees[one, other])
    return total - sum(size * (size - 1) // 2 for size in sizes) * causal_within


def multiply_adds(tokens, pairs, shape):
    """Of all layers: products with weights, and both products of attention."""
    return shape["layers"] * (tokens * shape["matrices"] + 2 * pairs * shape["width"])


def main():
    config, words, tokenizer = qwen.config(sys.argv[1], 12), qwen.Words(sys.argv[1]), Tokenizer()
    width, inner = config["width"], config["inner"]
    shape = {"layers": 12, "width": width, "matrices": 2 * width * width + 2 * width * width * config["shared"] // config["heads"] + 3 * width * inner}
    print("| lines | signals | tokens today | multiply-adds today | tokens of the causal reader | multiply-adds | ratio |\n|---|---|---|---|---|---|---|")
    for lines in (10, 150):
        state = "Object of type user.\nEvents, oldest first:\n" + LINE * lines
        for name, questions in (("short", SHORT), ("default", list(histories.DEFAULTS.values()))):
            asked = [(tokenizer.many([plain(one["ask"])])[0], tokenizer.many(option_texts(one))) for one in questions]
            ids, _, node, _, sees, _ = tree(tokenizer.chunks(state), asked)
            today = multiply_adds(len(ids), pairs_seen(node, sees, False), MPNET)
            told, _, other, seen, _ = causal.example(words, state, questions)
            new = multiply_adds(len(told), pairs_seen(other, seen, True), shape)
            print(f"| {lines} | {name} | {len(ids)} | {today / 1e9:.1f} G | {len(told)} ({int((other == 0).sum())} of the state) | {new / 1e9:.1f} G | {new / today:.2f} |")


if __name__ == "__main__":
    main()
