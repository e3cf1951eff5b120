"""Fits the weights of the ranking: `python benchmarks/fit_ranking.py [--write]`.

For each wrong kernel the change that undoes its bug is known: the one after which the text is the right source's again.
The weights are those that make it likeliest among all changes of its kernel (a conditional logit with a quadratic
penalty). They are fitted to kernels/*/wrong alone; what is told of other sets is how they rank there.

place    of the undoing in the ranking, 1 the first: median, 90th percentile, and how many are among the first 192
found    kernels among whose changes the undoing is
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from diagnosis import normalised, right_source

ROOT = Path(__file__).resolve().parents[1]
SETS = ("unseen", "public_style", "blind")
PENALTY = 0.5
STEPS = 250
BY_CHANCE = 0.03
"""Of changes at other places than the truth's, so many mend the failing case at most: 1 of 3,000 did where all were
tried; but those that do stand near the truth, and are likely ones."""
SAMPLE = 600


@dataclass(frozen=True)
class Kernel:
    """One wrong kernel: the features of each change, and which of them undo the bug.

    Attributes:
        card: its path, for people; `family`: kernels that share a source share it.
        words: per change, numbers into `names`.
    """

    card: str
    family: str
    changes: Sequence[Sequence[str]]
    undoing: Sequence[int]


def read(job: tuple[Path, Path]) -> Kernel | None:
    """The changes of one wrong kernel; None where it has no numbers, or no right source is known."""
    folder, card_path = job
    warnings.simplefilter("ignore")
    from wmmadiag.diagnose.engine import failing_runs
    from wmmadiag.diagnose.evidence import ranked_changes, traced
    from wmmadiag.diagnose.trials.prepared import prepare  # noqa: F401  (fails early where the engine is not built)
    from wmmadiag.subject.card_files.read import load_card

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        card = load_card(card_path)
        truth = tomllib.loads(card_path.with_name(f"{card_path.stem}.truth.toml").read_text("utf-8"))
        right = right_source(card.source, truth)
        first = next(failing_runs(card), None)
        if right is None or first is None:
            return None
        bench, run = first
        followed, _ = traced(bench, run)
        wanted = normalised(right)
        texts = {str(card.source): card.source.read_bytes()}
        _, ranked = ranked_changes(bench, run, followed, texts)
        undoing = [number for number, one in enumerate(ranked) if _text(texts, one.change, card.source) == wanted]
        shown = card_path.relative_to(folder).as_posix()
        return Kernel(shown, shown.split("/")[0], [one.features for one in ranked], undoing)
    except Exception as error:  # one kernel must not end the fit
        print(f"{card_path.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def _text(texts: Mapping[str, bytes], change: Any, source: Path) -> str:
    from wmmadiag.diagnose.changes import applied

    try:
        return normalised(applied(texts, [change])[str(source)].decode("utf-8"))
    except ValueError:
        return ""


def gathered(folder: Path, jobs: int, store: Path | None) -> list[Kernel]:
    """The wrong kernels below a folder, read or from what an earlier run stored."""
    if store is not None and store.exists():
        return [Kernel(**json.loads(line)) for line in store.read_text("utf-8").splitlines()]
    cards = [p for p in sorted(folder.glob("*/wrong/*.toml")) if not p.name.endswith(".truth.toml")]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        found = [one for one in pool.map(read, [(folder, card) for card in cards]) if one is not None]
    if store is not None:
        store.write_text("".join(json.dumps(vars(one)) + "\n" for one in found), "utf-8")
    return found


def fitted(kernels: Sequence[Kernel], penalty: float = PENALTY) -> dict[str, float]:
    """The weights under which the undoings are likeliest among all changes."""
    used = [one for one in kernels if one.undoing]
    names = sorted({word for one in used for change in one.changes for word in change})
    number = {word: at for at, word in enumerate(names)}
    tables = [_table(one, number, SAMPLE) for one in used]
    weights = np.zeros(len(names))
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):  # Adam (Kingma and Ba 2015), on all kernels at once
        gradient = penalty * weights
        for rows, columns, offsets, undoing in tables:
            scores = np.bincount(rows, weights[columns], offsets.size) + offsets
            share = np.exp(scores - scores.max())
            share /= share.sum()
            wanted = np.where(undoing, share, 0.0)
            gradient += np.bincount(columns, (share - wanted / wanted.sum())[rows], len(names))
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        weights -= 0.05 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return {name: round(float(weight), 3) for name, weight in zip(names, weights, strict=True) if abs(weight) >= 0.001}


def _table(one: Kernel, number: Mapping[str, int], most: int) -> tuple[Any, Any, Any, Any]:
    """(row, feature) pairs, what a row counts for, and which rows undo the bug; of many changes a sample stands in."""
    others = np.setdiff1d(np.arange(len(one.changes)), list(one.undoing))
    offset = 0.0
    if others.size > most:
        offset = math.log(others.size / most)
        others = np.random.default_rng(len(one.changes)).choice(others, most, replace=False)
    chosen = [*one.undoing, *others.tolist()]
    pairs = [(row, number[word]) for row, at in enumerate(chosen) for word in one.changes[at]]
    rows, columns = np.array(pairs).T
    undoing = np.arange(len(chosen)) < len(one.undoing)
    return rows, columns, np.where(undoing, 0.0, offset), undoing


def places(kernels: Sequence[Kernel], weights: Mapping[str, float]) -> Iterator[tuple[Kernel, int]]:
    """(kernel, place of its undoing in the ranking), of those that have one."""
    for one in kernels:
        if one.undoing:
            scores = np.array([sum(weights.get(word, 0.0) for word in change) for change in one.changes])
            best = scores[list(one.undoing)].max()
            yield one, int((scores > best).sum()) + 1


def told(name: str, kernels: Sequence[Kernel], found: Sequence[tuple[Kernel, int]]) -> list[str]:
    """A row of the table."""
    ranks = sorted(place for _, place in found)
    if not ranks:
        return [name, str(len(kernels)), "0", "-", "-", "-"]
    ninth = ranks[min(len(ranks) - 1, math.ceil(0.9 * len(ranks)) - 1)]
    early = sum(place <= 192 for place in ranks)
    return [
        name,
        str(len(kernels)),
        str(len(ranks)),
        str(ranks[len(ranks) // 2]),
        str(ninth),
        f"{early / len(ranks):.0%}",
    ]


def main() -> int:
    """Fit and tell; 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write wmmadiag/diagnose/ranking.json")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep what was read there, and read it from there")
    options = parser.parse_args()
    from tabulate import tabulate

    def kept(name: str) -> Path | None:
        return None if options.store is None else options.store / f"{name}.jsonl"

    own = gathered(ROOT / "kernels", options.jobs, kept("wrong"))
    rows = []
    left_out: list[tuple[Kernel, int]] = []
    for family in sorted({one.family for one in own}):
        weights = fitted([one for one in own if one.family != family])
        left_out += places([one for one in own if one.family == family], weights)
    weights = fitted(own)
    rows.append(told("wrong, fitted", own, list(places(own, weights))))
    rows.append(told("wrong, each family left out", own, left_out))
    sys.path.insert(0, str(ROOT / "tests" / "diagnose" / "unseen"))
    from expand import expand

    for name in SETS:
        with tempfile.TemporaryDirectory() as folder:
            expand(Path(folder), ROOT / "tests" / "diagnose" / name)
            others = gathered(Path(folder), options.jobs, kept(name))
        rows.append(told(name, others, list(places(others, weights))))
    heads = ["set", "kernels", "found", "median place", "90th percentile", "among the first 192"]
    print(tabulate(rows, headers=heads, disable_numparse=True))
    if options.write:
        from wmmadiag.diagnose.ranking import WEIGHTS

        made = {"fitted": "python benchmarks/fit_ranking.py --write", "by_chance": BY_CHANCE, "weights": weights}
        WEIGHTS.write_text(json.dumps(made, indent=0, sort_keys=True) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
