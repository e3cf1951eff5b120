"""Fuzz wmmadiag: `python tests/fuzz/fuzz.py [TARGET…] --runs 1000000 --jobs 2`.

Inputs are functions of the seed and their number, so that what is found is found again:
`python tests/fuzz/fuzz.py ptx --seed 7 --only 1234 --show`. Each runs in a child process; a mistake is an exception
that is no error for the user, a child that dies, or one that says nothing for long. Exit code: 1 if there was any.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from fuzz_mutations import made
from fuzz_targets import TARGETS

from wmmadiag.processes.child import Child, ChildEnded, ChildSilent

PART = 100
SECONDS = 60.0
"""How long one input may take on a busy machine; the budgets of the targets are far below."""


@dataclass(slots=True)
class Found:
    """What became of a target's inputs: counts by word, and the mistakes by number."""

    counts: Counter[str] = field(default_factory=Counter)
    mistakes: dict[int, str] = field(default_factory=dict)


def asked(child: Child, target: str, seed: int, first: int, count: int) -> Found:
    """What became of a part; one that ends or silences the child is taken apart."""
    found = Found()
    while count > 0:
        try:
            counts, mistake = child.ask((target, seed, first, count), SECONDS + count / 10)
        except (ChildEnded, ChildSilent) as error:
            if count == 1:
                what = f"the process ended: {error.words()}" if isinstance(error, ChildEnded) else "no end in sight"
                found.mistakes[first] = what
                return found
            for half, length in ((first, count // 2), (first + count // 2, count - count // 2)):
                one = asked(child, target, seed, half, length)
                found.counts += one.counts
                found.mistakes |= one.mistakes
            return found
        found.counts += Counter(counts)
        if mistake is None:
            return found
        number, what = mistake
        found.mistakes[number] = what
        count -= number + 1 - first
        first = number + 1
    return found


def fuzzed(target: str, seed: int, runs: int, jobs: int, first: int = 0) -> Iterator[Found]:
    """What became of parts of a target's inputs, in order, from so many children at a time."""
    children = [Child("fuzz_targets:serve") for _ in range(jobs)]
    parts = [(start, min(PART, first + runs - start)) for start in range(first, first + runs, PART)]

    def work(index: int) -> list[Found]:
        return [asked(children[index], target, seed, *part) for part in parts[index::jobs]]

    try:
        if jobs == 1:
            for part in parts:
                yield asked(children[0], target, seed, *part)
        else:
            with ThreadPoolExecutor(jobs) as pool:
                for answers in pool.map(work, range(jobs)):
                    yield from answers
    finally:
        for child in children:
            child.stop()


def main(argv: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--runs", type=int, default=1000, help="inputs of each target (default: 1000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", type=int, default=None, help="one input, by its number")
    parser.add_argument("--show", action="store_true", help="with --only: print the input")
    args = parser.parse_args(argv)
    unknown = sorted(set(args.targets) - set(TARGETS))
    if unknown:
        parser.error(f"there is no target {unknown[0]}; known: {', '.join(TARGETS)}")
    failed = False
    for target in args.targets or TARGETS:
        if args.show and args.only is not None:
            sys.stdout.buffer.write(made(TARGETS[target].seeds(), args.seed, args.only))
        failed |= bool(_fuzz(target, args))
    return 1 if failed else 0


def _fuzz(target: str, args: Any) -> dict[int, str]:
    started = time.monotonic()
    first, runs = (0, args.runs) if args.only is None else (args.only, 1)
    total = Found()
    for found in fuzzed(target, args.seed, runs, args.jobs, first):
        total.counts += found.counts
        for number, what in found.mistakes.items():
            total.mistakes[number] = what
            print(f"{target} --seed {args.seed} --only {number}: {what}", flush=True)
    words = ", ".join(f"{count:,} {word}" for word, count in sorted(total.counts.items()))
    seconds = time.monotonic() - started
    print(f"{target}: {runs:,} inputs in {seconds:.0f} s: {words}; {len(total.mistakes)} mistakes", flush=True)
    return total.mistakes


if __name__ == "__main__":
    sys.exit(main())
