"""What the diagnosis gets right: `python benchmarks/diagnosis.py [NAME…]`.

Every kernel in kernels/*/wrong/ is diagnosed and held against the truth file beside it; every right kernel and every
look-alike must come out as right. NAMEs pick the cards whose path contains one of them. One line per kernel, then the
sums: all, by family (folder), by the hypothesis that is the truth.

detected     the outcome is not "right"
cause        the first cause is the truth's hypothesis, or one that the truth accepts, and not undecided
misled       another first cause, stated as proven or reproduced: the worst that can happen
line         the first cause's line, or its second one, is one of the truth's lines
fix          a change was tried that makes every case pass; counted where one edit mends the kernel
false alarm  a right kernel whose outcome is not "right"
seconds      wall time of one diagnosis, from the card: compilation, runs and trials
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?$")


@dataclass(frozen=True, slots=True)
class Score:
    """One diagnosis against the truth.

    Attributes:
        card: path below the folder of kernels.
        family: its first folder.
        truth: the hypothesis that is true; "" of a right kernel.
        outcome: of the diagnosis, or "crash".
        said: the first cause's hypothesis, or "".
        where: the line that it names.
        seconds: wall time.
        detected, cause, misled, line, fixed: see the head of this file.
        one_edit: whether one edit mends the kernel.
        problem: of a crash, what was raised.
    """

    card: str
    family: str
    truth: str
    outcome: str
    said: str
    where: str
    seconds: float
    detected: bool = False
    cause: bool = False
    misled: bool = False
    line: bool = False
    fixed: bool = False
    one_edit: bool = False
    problem: str = ""


def scored(card: str, truth: Mapping[str, Any] | None, found: Any, seconds: float) -> Score:
    """A diagnosis held against a truth file's contents; None for a right kernel.

    Args:
        card: path below the folder of kernels, "family/wrong/name.toml".
        found: a `wmmadiag.report.diagnosis.Diagnosis`.
    """
    family = card.split("/")[0]
    first = found.causes[0] if found.causes else None
    said, where = (first.hypothesis, first.place) if first is not None else ("", "")
    if truth is None:
        return Score(card, family, "", found.outcome, said, where, seconds)
    second = truth.get("second", {})
    names = {truth["hypothesis"], *truth["accept"], *second.get("accept", ())}
    names |= {second["hypothesis"]} if second else set()
    lines = {*truth["lines"], *second.get("lines", ())}
    sure = first is not None and first.verdict != "undecided"
    source = Path(found.source).name
    return Score(
        card,
        family,
        truth["hypothesis"],
        found.outcome,
        said,
        where,
        seconds,
        detected=found.outcome != "right",
        cause=sure and said in names,
        misled=sure and said not in names,
        line=first is not None and any(_on(place, source, lines) for place in (first.place, first.other)),
        fixed=first is not None and first.fix is not None and first.fix.status == "verified",
        one_edit=bool(truth["one_edit"]),
    )


def _on(place: str, source: str, lines: Iterable[int]) -> bool:
    found = _PLACE.match(place)
    return found is not None and Path(found["file"]).name == source and int(found["line"]) in lines


def cards(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """The cards below a folder of kernels: right ones, look-alikes, wrong ones."""
    for pattern in ("*/*.toml", "*/lookalike/*.toml", "*/wrong/*.toml"):
        for path in sorted(folder.glob(pattern)):
            shown = path.relative_to(folder).as_posix()
            if not shown.endswith(".truth.toml") and (not names or any(name in shown for name in names)):
                yield path


def diagnosed(job: tuple[Path, Path, float]) -> Score:
    """Diagnose one card: (folder of kernels, card, seconds for trials)."""
    folder, path, seconds = job
    warnings.simplefilter("ignore")
    from wmmadiag.diagnose.engine import diagnose_card
    from wmmadiag.subject.card_files.read import load_card

    shown = path.relative_to(folder).as_posix()
    beside = path.with_name(f"{path.stem}.truth.toml")
    truth = tomllib.loads(beside.read_text("utf-8")) if beside.exists() else None
    started = time.perf_counter()
    try:
        found = diagnose_card(load_card(path), seconds=seconds)
    except Exception as error:  # a crash is a result here, and the others are to be measured
        name = "" if truth is None else str(truth["hypothesis"])
        words = f"{type(error).__name__}: {error}".split("\n")[0]
        taken, one = time.perf_counter() - started, bool(truth and truth["one_edit"])
        return Score(shown, shown.split("/")[0], name, "crash", "", "", taken, one_edit=one, problem=words)
    return scored(shown, truth, found, time.perf_counter() - started)


def _share(hits: int, of: int) -> str:
    return f"{hits}/{of} ({hits / of:.0%})" if of else "-"


def summary(scores: Sequence[Score]) -> list[str]:
    """One row: kernels, detected, cause, misled, line, fix, false alarms, median and 90th percentile of seconds."""
    wrong = [one for one in scores if one.truth]
    right = [one for one in scores if not one.truth]
    mendable = [one for one in wrong if one.one_edit]
    times = sorted(one.seconds for one in wrong)
    ninth = times[min(len(times) - 1, int(0.9 * len(times)))] if times else 0.0

    def count(of: Sequence[Score], test: Callable[[Score], bool]) -> str:
        return _share(sum(map(test, of)), len(of))

    return [
        str(len(wrong)),
        count(wrong, lambda one: one.detected),
        count(wrong, lambda one: one.cause),
        count(wrong, lambda one: one.misled),
        count(wrong, lambda one: one.line),
        count(mendable, lambda one: one.fixed),
        count(right, lambda one: one.outcome != "right"),
        f"{statistics.median(times):.1f}" if times else "-",
        f"{ninth:.1f}" if times else "-",
    ]


HEADERS = ["", "wrong kernels", "detected", "cause", "misled", "line", "fix", "false alarms", "median s", "p90 s"]


def tables(scores: Sequence[Score]) -> str:
    """All sums, as text."""
    from tabulate import tabulate

    rows = [["all", *summary(scores)]]
    for family in sorted({one.family for one in scores}):
        rows.append([family, *summary([one for one in scores if one.family == family])])
    parts = [tabulate(rows, headers=HEADERS, disable_numparse=True)]
    names = sorted({one.truth for one in scores if one.truth})
    by_name = [[name, *summary([one for one in scores if one.truth == name])] for name in names]
    kept = [index for index, header in enumerate(HEADERS) if header != "false alarms"]
    parts.append(
        tabulate([[row[i] for i in kept] for row in by_name], headers=[HEADERS[i] for i in kept], disable_numparse=True)
    )
    return "\n\n".join(parts)


def line_of(one: Score) -> str:
    """One kernel: what it came to, and what is amiss."""
    where = ":".join(Path(one.where).name.split(":")[:2])
    said = f"{one.said or one.outcome}{' at ' + where if where else ''}"
    if one.problem:
        return f"CRASH   {one.seconds:5.1f} s  {one.card}: {one.problem}"
    if not one.truth:
        return f"{'ok' if one.outcome == 'right' else 'ALARM':7} {one.seconds:5.1f} s  {one.card}: {one.outcome}"
    marks = f"{'C' if one.cause else '!' if one.misled else '-'}{'L' if one.line else '-'}{'F' if one.fixed else '-'}"
    good = one.detected and one.cause and one.line and (one.fixed or not one.one_edit)
    return f"{marks:7} {one.seconds:5.1f} s  {one.card}: {said}" + ("" if good else f"   < {one.truth}")


def main() -> int:
    """Measure and print; 1 where a kernel crashed the diagnosis."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only cards whose path contains one of these")
    parser.add_argument("--kernels", type=Path, default=ROOT / "kernels", metavar="DIR", help="default: kernels")
    parser.add_argument("--seconds", type=float, default=8.0, metavar="S", help="for trying changes (default: 8)")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N of them, picked at random")
    parser.add_argument("--seed", type=int, default=0, metavar="K", help="of --sample")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1, as times need it)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every score, and the options")
    parser.add_argument("--quiet", action="store_true", help="sums only")
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    folder = options.kernels.resolve()
    chosen = list(cards(folder, options.names))
    if options.sample and options.sample < len(chosen):
        chosen = sorted(random.Random(options.seed).sample(chosen, options.sample))
    if not chosen:
        parser.error(f"no card below {folder} is called so")
    jobs = [(folder, path, options.seconds) for path in chosen]
    scores = []
    with ProcessPoolExecutor(max(1, options.jobs), mp_context=get_context("spawn")) as pool:
        for one in pool.map(diagnosed, jobs):
            scores.append(one)
            if not options.quiet:
                print(line_of(one), flush=True)
    print(f"\n{tables(scores)}")
    if options.json:
        made = {"seconds": options.seconds, "jobs": options.jobs, "scores": [asdict(one) for one in scores]}
        options.json.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    return 1 if any(one.problem for one in scores) else 0


if __name__ == "__main__":
    raise SystemExit(main())
