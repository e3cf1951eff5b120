"""Fits the weights of the ranking: `python benchmarks/fit_ranking.py --store DIR [--write]`.

For each wrong kernel the changes that undo its bug are known: those after which the text is the right source's again,
or, of a bug of several places, is right at one of them. Where none of the first round's changes does, those of the
second round are looked at. The weights are those that make the undoing likeliest among all changes of its kernel (a
conditional logit with a quadratic penalty), fitted to every set of tests/diagnose that has been scored. What is told of
how well they rank is of kernels left out of the fit, a fifth of all at a time; what right code looks like is told
without a kernel's own right text.

place    of the undoing in the ranking, 1 the first: median, 90th percentile, and how many are among the first 192;
         by a sample of the other changes
found    kernels among whose changes the undoing is
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from diagnosis import right_source, tomllib
from fit_naturalness import leaving_out, whole_corpus

from wmmadiag.diagnose.corpus import Corpus

ROOT = Path(__file__).resolve().parents[1]
SETS = ("unseen", "public_style", "blind", *(f"blind{number}" for number in range(2, 50)))
"""Folders of tests/diagnose; one that has not been scored yet is not among them."""
PENALTY = 0.7
"""Of two halves of ten sets, left out in turn, the place (geometric mean) is 68 and 55 with 2, 66 and 51 with 1, 66 and
49 with 0.5, 69 and 50 with 0.24, by the features that there were."""
AGAIN = 16.0
"""The same of a fit that begins with the weights that there are. Of 58 kernels of `blind22`, left out a quarter at a
time, the undoing's place is 37 with those weights, 38 with 0.5, 31 with 8, 30 with 16, 33 with 32 (geometric mean)."""
LEAST = 0.02
"""Of a weight that is kept."""
EPOCHS, BATCH, RATE = 30, 12, 0.03
"""Passes over all kernels, kernels of each step, and its length at first."""
BY_CHANCE = 0.0005
"""Of changes at other places than the truth's, so many mend a kernel at most. Of the first diagnoses of `blind19`, 49
tried no more than 2,800 changes each, 78,700 together: 17 of these mend every case at another place, 1 in 4,600. Of all
280,000 that its diagnoses tried 20 do, 1 in 14,000."""
LIKELIEST, SAMPLE = 400, 400
"""Other changes of each kernel that stand for all of them: the likeliest by the weights that there were, and so many of
the rest."""
FOLDS = 5
TRIED, TRIALS = 384, 160
"""Changes that are tried of each kernel to measure what mending a part tells, and kernels of which they are."""


@dataclass(frozen=True)
class Evidence:
    """What one wrong kernel's failing case shows, and what its source should be; all that a fit needs of a run."""

    card: str  # its path, for people
    # source, right: the text with `entry` in it, and as it should be
    source: str
    entry: str
    right: str
    marks: Sequence[tuple[int, str, str]]  # (line, kind, detail)
    pattern: Sequence[str]  # words for what is wrong of the numbers
    path: str  # of the card that it ran by


@dataclass(frozen=True)
class Kernel:
    """One wrong kernel: the features of its changes, those that undo the bug first."""

    set: str  # the folder that it is of
    family: str  # kernels that share a source share it
    # those that undo the bug, `undoing` of them; then a sample of the others, and how many each of these stands for
    changes: Sequence[Sequence[str]]
    undoing: int
    each: Sequence[float]
    further: bool = False  # whether they are of the second round, since nothing of the first one undoes it

    def scores(self, weights: Mapping[str, float]) -> Any:
        """Of each change."""
        return np.array([sum(weights.get(word, 0.0) for word in change) for change in self.changes])

    @property
    def offsets(self) -> Any:
        """Logarithms of how many changes each stands for."""
        return np.concatenate([np.zeros(self.undoing), np.log(self.each)])


def seen(job: tuple[Path, Path]) -> Evidence | None:
    """What one wrong kernel's run shows; None where it has no numbers, or no right source is known."""
    folder, card_path = job
    warnings.simplefilter("ignore")
    from wmmadiag.diagnose.engine import failing_runs
    from wmmadiag.subject.card_files.read import load_card

    try:
        card = load_card(card_path)
        truth = tomllib.loads(card_path.with_name(f"{card_path.stem}.truth.toml").read_text("utf-8"))
        right = right_source(card.source, truth)
        first = next(failing_runs(card), None)
        if right is None or first is None:
            return None
        shown = card_path.relative_to(folder).as_posix()
        return _shown(shown, first, card.source.read_text("utf-8"), right, str(card_path))
    except Exception as error:  # one kernel must not end the fit
        print(f"{card_path.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def _shown(name: str, failing: tuple[Any, Any], source: str, right: str, card: str) -> Evidence:
    """What a failing run, with the bench that it ran on, says of a source."""
    from wmmadiag.diagnose.evidence import traced
    from wmmadiag.diagnose.suspicion import marks, pattern
    from wmmadiag.place import own_place
    from wmmadiag.subject.symbols import rendered_entry

    bench, run = failing
    followed, _ = traced(bench, run)
    fault = own_place(run.error.place) if run.error is not None and run.error.place is not None else None
    found = [(one.line[1], one.kind, one.detail) for one in marks(run.findings, followed, fault)]
    entry = rendered_entry(bench.card, bench.card.case(run.result.case), bench.variant)
    return Evidence(name, source, entry, right, found, pattern(run), card)


def read(job: tuple[str, Evidence]) -> Kernel | None:
    """The changes of one wrong kernel of a set, described."""
    from wmmadiag.csource.dependences import Dependences
    from wmmadiag.csource.tree import parse
    from wmmadiag.diagnose.operators.registry import changes
    from wmmadiag.diagnose.ranking import described, seen_near
    from wmmadiag.diagnose.ranking import fitted as before
    from wmmadiag.diagnose.suspicion import Mark, suspicion

    name, one = job
    file = "kernel.cu"
    texts = {file: one.source.encode()}
    sources = {file: parse(texts[file], file)}
    found = [Mark((file, line), kind, detail) for line, kind, detail in one.marks]
    try:
        listed = list(changes(texts, one.entry))
        undoing = undone_by(one, listed)
        further = not undoing
        if further:
            listed = list(changes(texts, one.entry, wider=True))
            undoing = undone_by(one, listed)
    except ValueError as error:
        print(f"{one.card}: {error}", file=sys.stderr)
        return None
    family = one.card.split("/")[0]
    if not undoing:
        return Kernel(name, family, (), 0, ())
    seen_there = suspicion(found, Dependences(sources), one.pattern)
    words = [
        (*told, *seen_near(seen_there, line, change.role))
        for change, line, told in described(listed, sources, leaving_out(_whole_corpus(), one.right))
    ]
    weights = before()
    scores = [sum(weights.get(word, 0.0) for word in told) for told in words]
    others = sorted(set(range(len(listed))) - set(undoing), key=lambda number: -scores[number])
    rest = others[LIKELIEST:]
    some = random.Random(len(listed)).sample(rest, min(SAMPLE, len(rest)))
    each = [1.0] * len(others[:LIKELIEST]) + [len(rest) / len(some) for _ in some]
    chosen = [*undoing, *others[:LIKELIEST], *some]
    return Kernel(name, family, [words[number] for number in chosen], len(undoing), each, further)


@cache
def _whole_corpus() -> Corpus:
    return whole_corpus()


def undone_by(one: Evidence, changes: Sequence[Any]) -> list[int]:
    """Which changes make the right text of a wrong one; where none does, those that do it at one of several places."""
    from same_text import Region

    whole = Region(one.source, one.right)
    undoing = [number for number, change in enumerate(changes) if whole.undone_by(change.edits)]
    if undoing:
        return undoing
    old, new = one.source.splitlines(keepends=True), one.right.splitlines(keepends=True)
    every = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    hunks = [part for code in every if code[0] != "equal" for part in _by_line(*code[1:])]
    if len(hunks) < 2:
        return []
    texts = ["".join([*old[:first], *new[start:end], *old[last:]]) for first, last, start, end in hunks]
    regions = [Region(one.source, text) for text in texts]
    undo = (any(part.undone_by(change.edits, spelled=True) for part in regions) for change in changes)
    return [number for number, whether in enumerate(undo) if whether]


def _by_line(first: int, last: int, start: int, end: int) -> list[tuple[int, int, int, int]]:
    """Lines that differ, one by one where each stands for one."""
    if last - first != end - start:
        return [(first, last, start, end)]
    return [(first + at, first + at + 1, start + at, start + at + 1) for at in range(last - first)]


def gathered(folder: Path, jobs: int, store: Path, most: int) -> list[Kernel]:
    """The wrong kernels below a folder, read or from what an earlier run stored; `most` of them, 0 for all."""
    described = store.with_suffix(".npz")
    if described.exists():
        return restored(described)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        if store.exists():
            held = [Evidence(**json.loads(line)) for line in store.read_text("utf-8").splitlines()]
        else:
            cards = [p for p in sorted(folder.glob("*/wrong/*.toml")) if not p.name.endswith(".truth.toml")]
            cards = sorted(random.Random(0).sample(cards, most)) if 0 < most < len(cards) else cards
            held = [one for one in pool.map(seen, [(folder, card) for card in cards]) if one is not None]
            store.parent.mkdir(parents=True, exist_ok=True)
            store.write_text("".join(json.dumps(vars(one)) + "\n" for one in held), "utf-8")
        found = [one for one in pool.map(read, [(store.stem, one) for one in held], chunksize=4) if one is not None]
    stored(described, found)
    return found


def stored(path: Path, kernels: Sequence[Kernel]) -> None:
    """Keep described kernels: a fit that is made anew need not read their sources again."""
    number: dict[str, int] = {}
    rows = [change for one in kernels for change in one.changes]
    columns = [number.setdefault(word, len(number)) for change in rows for word in change]
    about = [(one.set, one.family, len(one.changes), one.undoing, one.further) for one in kernels]
    np.savez_compressed(
        path,
        words=np.frombuffer("\n".join(number).encode(), np.uint8),
        columns=np.array(columns, np.uint16),
        lengths=np.array([len(change) for change in rows], np.uint16),
        each=np.array([count for one in kernels for count in one.each], np.float32),
        about=np.frombuffer(json.dumps(about).encode(), np.uint8),
    )


def restored(path: Path) -> list[Kernel]:
    """What `stored` kept."""
    with np.load(path) as held:
        words = held["words"].tobytes().decode().split("\n")
        parts = np.split(held["columns"], np.cumsum(held["lengths"])[:-1]) if held["lengths"].size else []
        rows = iter([tuple(words[number] for number in part) for part in parts])
        each, found = iter(held["each"].tolist()), []
        for name, family, changes, undoing, further in json.loads(held["about"].tobytes()):
            mine = [next(rows) for _ in range(changes)]
            found.append(Kernel(name, family, mine, undoing, [next(each) for _ in mine[undoing:]], further))
    return found


def parts_mended(one: Evidence) -> tuple[int, int, int, int]:
    """What trying the likeliest changes of a wrong kernel shows of its lines, the bug's own and others.

    Returns:
        (own lines of which a change mends a part, own lines tried, the same of the others).
    """
    from same_text import Region

    warnings.simplefilter("ignore")
    from wmmadiag.diagnose.engine import case_bench
    from wmmadiag.diagnose.evidence import ranked_changes, traced
    from wmmadiag.diagnose.trials.setting import Setting
    from wmmadiag.diagnose.trials.trial_bench import TrialBench
    from wmmadiag.subject.card_files.read import load_card

    try:
        card = load_card(Path(one.path))
        texts = {str(card.source): one.source.encode()}
        bench = case_bench(card, card.variants[0].name, "sm_90", "emulator", "default", None, "", None)
        for case in bench.cases():
            run = bench.run(case, {card.source.resolve(): one.source})
            if not run.passed:
                break
        trials = TrialBench(Setting(card, bench.variant, case, texts=texts), threads=1)
        if not trials.wrong_before:
            return 0, 0, 0, 0
        _, order = ranked_changes(bench, run, traced(bench, run)[0], trials.texts)
        tried = order[:TRIED]
        outcomes = trials.try_batch([ranked.change for ranked in tried])
        region = Region(one.source, one.right)
        own = {ranked.line for ranked in order if region.undone_by(ranked.change.edits)}
        lines = {ranked.line for ranked in tried}
        partly = {ranked.line for ranked, outcome in zip(tried, outcomes, strict=True) if outcome.partly}
        return len(own & partly), len(own & lines), len(partly - own), len(lines - own)
    except Exception as error:
        print(f"{one.card}: {type(error).__name__}: {error}", file=sys.stderr)
        return 0, 0, 0, 0


def lines_mended(kernels: int, jobs: int) -> list[int]:
    """`parts_mended` of so many of the repository's own wrong kernels, picked at random, added up."""
    folder = ROOT / "kernels"
    cards = [path for path in sorted(folder.glob("*/wrong/*.toml")) if not path.name.endswith(".truth.toml")]
    chosen = random.Random(0).sample(cards, min(kernels, len(cards)))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        shown = [one for one in pool.map(seen, [(folder, card) for card in chosen]) if one is not None]
        return [sum(column) for column in zip(*pool.map(parts_mended, shown), strict=True)] or [0] * 4


def fitted(
    kernels: Sequence[Kernel], penalty: float = PENALTY, prior: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The weights under which the undoings are likeliest among all changes.

    Args:
        prior: weights fitted to other kernels before, from which these are to be as near as the penalty asks.
    """
    known = prior or {}
    used = [one for one in kernels if one.undoing]
    names = sorted({word for one in used for change in one.changes for word in change})
    number = {word: at for at, word in enumerate(names)}
    tables = [_table(one, number) for one in used]
    before = np.array([known.get(word, 0.0) for word in names])
    weights, first, second = before.copy(), np.zeros(len(names)), np.zeros(len(names))
    order, rng = list(range(len(tables))), random.Random(0)
    steps = EPOCHS * -(-len(tables) // BATCH)
    for step in range(1, steps + 1):  # Adam (Kingma and Ba 2015), its rate falling along half a cosine
        if not order:
            order = list(range(len(tables)))
        if len(order) == len(tables):
            rng.shuffle(order)
        batch, order = order[:BATCH], order[BATCH:]
        gradient = penalty * len(batch) / len(tables) * (weights - before)
        for rows, columns, offsets, undoing in (tables[at] for at in batch):
            scores = np.bincount(rows, weights[columns], offsets.size) + offsets
            share = np.exp(scores - scores.max())
            share /= share.sum()
            wanted = np.where(undoing, share, 0.0)
            gradient += np.bincount(columns, (share - wanted / wanted.sum())[rows], len(names))
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        rate = RATE * (1 + math.cos(math.pi * step / steps)) / 2
        weights -= rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    made = {**known, **{name: round(float(weight), 3) for name, weight in zip(names, weights, strict=True)}}
    return {name: weight for name, weight in made.items() if abs(weight) >= LEAST}


def _table(one: Kernel, number: Mapping[str, int]) -> tuple[Any, Any, Any, Any]:
    """(row, feature) pairs, the logarithm of what a row counts for, and which rows undo the bug."""
    rows = np.repeat(np.arange(len(one.changes), dtype=np.int32), [len(change) for change in one.changes])
    columns = np.array([number[word] for change in one.changes for word in change], np.int32)
    return rows, columns, one.offsets, np.arange(len(one.changes)) < one.undoing


def places(kernels: Sequence[Kernel], weights: Mapping[str, float]) -> Iterator[tuple[Kernel, int]]:
    """(kernel, place of its undoing in the ranking), of those that have one."""
    for one in kernels:
        if one.undoing:
            scores = one.scores(weights)
            before = np.array(one.each)[scores[one.undoing :] > scores[: one.undoing].max()].sum()
            yield one, round(float(before)) + 1


def further(kernels: Sequence[Kernel], weights: Mapping[str, float]) -> float:
    """What the score of a change of the second round is less by than that of one of the first, as a logarithm."""
    wholes: dict[bool, list[float]] = {False: [], True: []}
    for one in kernels:
        if one.undoing:
            scores = one.scores(weights) + one.offsets
            wholes[one.further].append(float(scores.max() + math.log(np.exp(scores - scores.max()).sum())))
    first, second = wholes[False], wholes[True]
    if not first or not second:
        return 0.0
    return round(math.log(len(second) / len(first)) + float(np.mean(first) - np.mean(second)), 2)


def told(name: str, kernels: Sequence[Kernel], found: Sequence[tuple[Kernel, int]]) -> list[str]:
    """A row of the table."""
    ranks = sorted(place for _, place in found)
    if not ranks:
        return [name, str(len(kernels)), "0", "-", "-", "-"]
    ninth = ranks[min(len(ranks) - 1, math.ceil(0.9 * len(ranks)) - 1)]
    early = sum(place <= 192 for place in ranks) / len(ranks)
    return [name, *map(str, (len(kernels), len(ranks), ranks[len(ranks) // 2], ninth)), f"{early:.0%}"]


def main() -> int:
    """Fit and tell; 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = partial(parser.add_argument, type=int, metavar="N")
    parser.add_argument("--write", action="store_true", help="write wmmadiag/diagnose/ranking.json")
    add("--jobs", default=os.cpu_count() or 1)
    add("--store", type=Path, metavar="DIR", required=True, help="keep there what runs showed, and take it from there")
    add("--sample", default=0, help="N kernels of each set; the weights that there are stand for the others")
    add("--trials", default=TRIALS, help=f"wrong kernels to try changes of ({TRIALS})")
    options = parser.parse_args()
    from tabulate import tabulate

    def kept(name: str) -> Path:
        return Path(options.store) / f"{name}.jsonl"

    own: list[Kernel] = []
    sys.path.insert(0, str(ROOT / "tests" / "diagnose" / "unseen"))
    from expand import expand

    for name in SETS:
        with tempfile.TemporaryDirectory() as folder:
            expand(Path(folder), ROOT / "tests" / "diagnose" / name)
            own += gathered(Path(folder), options.jobs, kept(name), options.sample)
    from wmmadiag.diagnose.ranking import fitted as before

    prior, penalty = (before(), AGAIN) if options.sample else (None, PENALTY)
    families = sorted({(one.set, one.family) for one in own})
    random.Random(0).shuffle(families)
    parts = [frozenset(families[number::FOLDS]) for number in range(min(FOLDS, len(families)))]
    held_out = [[one for one in own if (one.set, one.family) in part] for part in parts]
    rest = [[one for one in own if (one.set, one.family) not in part] for part in parts]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("fork")) as pool:
        every = pool.submit(fitted, own, penalty, prior)
        others_weights = list(pool.map(partial(fitted, penalty=penalty, prior=prior), rest))
        weights = every.result()
    left_out = [pair for used, held in zip(others_weights, held_out, strict=True) for pair in places(held, used)]
    rows = []
    for name in SETS:
        mine = [one for one in own if one.set == name]
        rows.append(told(f"{name}, left out", mine, [pair for pair in left_out if pair[0].set == name]))
        rows.append(told(f"{name}, fitted", mine, list(places(mine, weights))))
    counts = lines_mended(options.trials, options.jobs)
    own_share, share = (counts[0] + 0.5) / (counts[1] + 1), (counts[2] + 0.5) / (counts[3] + 1)
    from wmmadiag.diagnose.ranking import WEIGHTS
    from wmmadiag.diagnose.ranking import partly as known

    partly = round(math.log(own_share / share), 2) if counts[1] else known()
    print(
        f"lines of which a change mends a part: the bug's {counts[0]} of {counts[1]}, others {counts[2]} of {counts[3]}"
    )
    heads = ["set", "kernels", "found", "median place", "90th percentile", "among the first 192"]
    print(tabulate(rows, headers=heads, disable_numparse=True))
    if options.write:
        made = {
            "fitted": "python benchmarks/fit_ranking.py --store DIR --write", "by_chance": BY_CHANCE, "partly": partly,
            "further": further(own, weights), "weights": weights,
        }  # fmt: skip
        WEIGHTS.write_text(json.dumps(made, indent=0, sort_keys=True) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
