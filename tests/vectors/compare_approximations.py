"""Compares the emulator's approximate functions with the recorded digests and prints the table of the documentation:

python tests/vectors/compare_approximations.py            # every argument: a quarter of an hour of CPU time
python tests/vectors/compare_approximations.py --every 16 # of each 16 blocks of 2²³ arguments one
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from approximation_digests import APPROXIMATIONS, Approximation, Array, arguments, digest

from wmmadiag.emulator.modifiers import pack

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from native_parts import lane_op

PIECE = 1 << 15
"""Arguments at a time: what fits a cache."""
FILES = sorted(Path(__file__).parent.glob("approximation_digests_sm_*.npz"))


def answer(one: Approximation, operands: list[Array], isa: str | None = None) -> Array:
    """The engine's results for operands of a multiple of 32 elements."""
    results = np.zeros_like(operands[0])
    word = pack({"ftz": "1"} if one.ftz else {})
    lane_op(one.op, word, 0xFFFFFFFF, operands, results, registers=len(results) // 32, isa=isa)
    return results


def agrees(one: Approximation, block: int, recorded: Array) -> bool:
    """Whether a block's results have the recorded digest."""
    total = 0
    for first in range(block * one.count, (block + 1) * one.count, PIECE):
        total += digest(answer(one, arguments(one, first, PIECE)), first)
    return total % 2**64 == int(recorded[block])


def table(path: Path, every: int) -> Iterator[str]:
    """Lines of Markdown: instruction, arguments compared, differing blocks."""
    yield "| instruction | results compared | blocks of them that differ |"
    yield "|---|---|---|"
    with np.load(path) as recorded, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for one in APPROXIMATIONS:
            blocks = range(0, one.blocks, every)
            digests = recorded[one.text]
            same = list(pool.map(lambda block, one=one, digests=digests: agrees(one, block, digests), blocks))
            yield f"| `{one.text}` | {len(blocks) * one.count:,} | {len(same) - sum(same)} of {len(same)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1)
    every = parser.parse_args().every
    for path in FILES:
        print(path.stem)
        for line in table(path, every):
            print(line, flush=True)


if __name__ == "__main__":
    main()
