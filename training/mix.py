"""Mixes two sets of weights of which one was trained from the other: python3 training/mix.py BEFORE AFTER SHARE OUT COMMIT

SHARE is that of AFTER. COMMIT names the scripts in the header, whose other entries are those of AFTER.
"""

import sys

from model import load, save


def main():
    before, after, share, out, commit = sys.argv[1:6]
    _, old = load(before)
    config, new = load(after)
    share = float(share)
    mixed = {name: old[name] * (1 - share) + new[name] * share for name in new}
    save(out, config | {"commit": commit, "mixed": share}, mixed, "i4" if config["relative"] else "i8")


if __name__ == "__main__":
    main()
