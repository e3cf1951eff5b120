"""Counts what right kernels look like: `python benchmarks/fit_naturalness.py [--write] [FOLDER…]`.

Of every right source of `kernels/`, `tests/diagnose` and `tests/reading`, each text once: see
`wmmadiag/diagnose/corpus.py`. Of the sources below a FOLDER it is told how many of random names and numbers, put where
others stand, the shipped counts find less natural; and how many, with what the source itself says.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.corpus import COMMENT, COUNTS, RUN, TOKEN, Corpus, counted_in, tokens_in, vocabulary
from wmmadiag.diagnose.naturalness import Naturalness

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("kernels/*/kernel.cu", "tests/diagnose/*/*.cu", "tests/reading/*/*.cu")
LEAST_TEXTS = 8
"""That a token stands in, to be told apart by name."""
LEAST = 2
"""Times that a run is there, to be counted. Of 344 undoings of ten sets that are left out, the place (geometric mean)
is 23 where all 600,000 runs are counted, 25 with these 280,000, 27 with those that are there three times."""


ENDINGS, FILES, PUT_IN = (".cu", ".cuh"), 25, 60
"""Of sources that are not counted: of which files, how many of these, and tokens that are put into each."""


def right_texts() -> list[bytes]:
    """Every right source of the repository, once."""
    paths = sorted(path for pattern in SOURCES for path in ROOT.glob(pattern))
    return list(dict.fromkeys(path.read_bytes() for path in paths))


def whole_corpus() -> Corpus:
    """All of them counted, runs that are there once, too."""
    texts = [tokens_in(text) for text in right_texts()]
    return counted_in(texts, vocabulary(texts, LEAST_TEXTS))


def leaving_out(whole: Corpus, right: str) -> Corpus:
    """What is shipped, as it would be without one text."""
    return whole.without(counted_in([tokens_in(right.encode())], whole.words), LEAST)


def told_apart(folder: Path) -> tuple[int, float, float]:
    """Random tokens put into a folder's sources: how many, and the shares that are less natural, by kernels and by the
    source as well."""
    rng = random.Random(0)
    paths = sorted(path for ending in ENDINGS for path in folder.rglob(f"*{ending}"))
    words = [told for path in rng.sample(paths, min(FILES, len(paths))) for told in _strange(path.read_bytes(), rng)]
    steps = np.array([[int(told[at].rpartition(":")[2]) for at in (0, 4)] for told in words]).reshape(-1, 2)
    return len(words), float((steps[:, 0] < 0).mean()), float((steps[:, 1] < 0).mean())


def _strange(data: bytes, rng: random.Random) -> Sequence[tuple[str, ...]]:
    """What random tokens of a source make of it where others of its tokens stand."""
    held = list(TOKEN.finditer(COMMENT.sub(lambda one: b" " * len(one[0]), data)))
    kinds = [[one[0] for one in held if test(one[0][:1])] for test in (bytes.isdigit, bytes.isalpha)]
    changes = []
    for _ in range(PUT_IN if all(kinds) else 0):
        one = rng.choice(held)
        like = next((some for some in kinds if one[0] in some), None)
        new = rng.choice(like) if like else one[0]
        if new != one[0]:
            edit = TextEdit("", one.start(), one.end(), new.decode())
            changes.append(Change("variable", (edit,), "expression", "value", ""))
    return Naturalness({"": parse(data, "")}).words(changes)


def main() -> int:
    """Count, and tell; 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write {COUNTS.relative_to(ROOT)}")
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="sources that the counts do not hold")
    options = parser.parse_args()
    for folder in options.folders:
        count, kernels, both = told_apart(folder)
        print(f"{folder}: of {count} tokens {kernels:.0%} less natural by kernels, {both:.0%} by the source as well")
    if options.folders and not options.write:
        return 0
    whole = whole_corpus()
    kept = whole.counts >= LEAST
    steps = np.diff(whole.runs[kept], prepend=np.uint64(0)).astype(np.uint32)
    print(f"{len(right_texts())} sources, {whole.tokens:,} tokens, {len(whole.words):,} told apart by name or kind")
    print(f"{whole.runs.size:,} runs of up to {RUN}, {kept.sum():,} of them {LEAST} times at least")
    if options.write:
        words = np.frombuffer(b"\n".join(whole.words), np.uint8)
        counts = np.minimum(whole.counts[kept], np.iinfo(np.uint32).max).astype(np.uint32)
        np.savez_compressed(COUNTS, words=words, steps=steps, counts=counts, tokens=np.int64(whole.tokens))
        print(f"{COUNTS.relative_to(ROOT)}: {COUNTS.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
