"""Writes what is shipped: python3 training/export.py WEIGHTS ANSWERS OUT

Fits temperature and bias on the held-out histories in ANSWERS, puts them into the header, and prints the table in which
every writer was calibrated by the others.
"""

import json
import pathlib
import struct
import sys

import evaluate

MAGIC = b"AUSPEX1\n"


def main():
    weights, answers, out = map(pathlib.Path, sys.argv[1:4])
    blob = weights.read_bytes()
    size = struct.unpack("<I", blob[8:12])[0]
    header = json.loads(blob[12 : 12 + size])
    # Calibrated on histories that people wrote; generated cases are judged, and fit nothing.
    found = [answer for answer in evaluate.read(answers) if not answer["task"].startswith("weak")]
    header["config"]["calibration"] = evaluate.fitted([answer for answer in found if not answer["task"].startswith("public")])
    text = json.dumps(header).encode()
    text += b" " * (-(12 + len(text)) % 64)
    out.write_bytes(MAGIC + struct.pack("<I", len(text)) + text + blob[12 + size :])
    moved = evaluate.crossed(found)
    print(evaluate.table(moved) + "\n" + "\n".join(evaluate.table(evaluate.pooled(moved)).splitlines()[2:]))
    print(json.dumps(header["config"]))


if __name__ == "__main__":
    main()
