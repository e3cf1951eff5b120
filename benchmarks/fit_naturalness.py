"""Counts what right kernels look like: `python benchmarks/fit_naturalness.py [--write]`.

Of every right source of `kernels/`, `tests/diagnose` and `tests/reading`, each text once: see
`wmmadiag/diagnose/corpus.py`. What is told is how likely a token is, as the mean of its logarithm, of sources that are
left out, a tenth of all at a time.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from wmmadiag.diagnose.corpus import COUNTS, RUN, Corpus, counted_in, tokens_in, vocabulary

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("kernels/*/kernel.cu", "tests/diagnose/*/*.cu", "tests/reading/*/*.cu")
LEAST_TEXTS = 8
"""That a token stands in, to be told apart by name."""
LEAST = 2
"""Times that a run is there, to be counted. Of 344 undoings of ten sets that are left out, the place (geometric mean)
is 23 where all 600,000 runs are counted, 25 with these 280,000, 27 with those that are there three times."""


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


def main() -> int:
    """Count, and tell; 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write {COUNTS.relative_to(ROOT)}")
    options = parser.parse_args()
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
