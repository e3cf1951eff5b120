"""What the diagnosis gets right: `python benchmarks/diagnosis.py [NAME…]`.

Every kernel in kernels/*/wrong/ is diagnosed and held against the truth file beside it; every right kernel and every
look-alike must come out as right. NAMEs pick the cards whose path contains one of them. One line per kernel, then the
sums: all, by family (folder), by the cause that is the truth.

detected     the outcome is not "right"
cause        a cause is proven, and it is a true one: its line is one of the truth's, or its change undoes the bug
likely       the same of a cause that is called likely: a right line, beside another one that mends as well
misled       another cause is called proven: the worst that can happen
line         the first cause's line, or its second one, is one of the truth's lines
both         each of two bugs has a cause whose line, or second one, is its line
change       a change was tried that makes every case pass; counted where one edit mends the kernel
undone       of these: it undoes the bug, or changes just the truth's lines
false alarm  a right kernel whose outcome is not "right"
seconds      wall time of one diagnosis, from the card: compilation, runs and trials
work         changes of the source that were tried
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
from concurrent.futures import ProcessPoolExecutor, as_completed
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
        truth: the class of the bug that the truth file names; "" of a right kernel.
        outcome: of the diagnosis, or "crash".
        said: the first cause's name, or "".
        where: the line that it names.
        seconds: wall time; work: changes tried.
        detected, cause, likely, misled, line, fixed, undone: see the head of this file.
        one_edit: whether one edit mends the kernel.
        two: whether it has two bugs; both: see the head of this file.
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
    likely: bool = False
    misled: bool = False
    line: bool = False
    fixed: bool = False
    undone: bool = False
    one_edit: bool = False
    two: bool = False
    both: bool = False
    work: int = 0
    share: float = 0.0
    problem: str = ""


def normalised(text: str) -> str:
    """A source without comments and blanks that mean nothing, and without parentheses around all of an argument."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r"(?<=[^\w]) | (?=[^\w])", "", text).strip()


def right_source(path: Path, truth: Mapping[str, Any]) -> str | None:
    """The text that the wrong source should have; None where that is not known."""
    text = path.read_text("utf-8")
    beside = path.parents[1] / "kernel.cu"
    if truth.get("fix"):
        for fix in truth["fix"]:
            if text.count(fix["old"]) != 1:
                return None
            text = text.replace(fix["old"], fix["new"])
        return text
    return beside.read_text("utf-8") if beside.exists() else None


def scored(card: str, truth: Mapping[str, Any] | None, found: Any, seconds: float, right: str | None = None) -> Score:
    """A diagnosis held against a truth file's contents; None for a right kernel.

    Args:
        card: path below the folder of kernels, "family/wrong/name.toml".
        found: a `wmmadiag.results.diagnosis.Diagnosis`.
        right: the text that the source should have, where that is known.
    """
    family = card.split("/")[0]
    first = found.causes[0] if found.causes else None
    said, where = (first.name, first.place) if first is not None else ("", "")
    if truth is None:
        return Score(card, family, "", found.outcome, said, where, seconds, work=found.work.changes)
    lines = {*truth["lines"], *truth.get("second", {}).get("lines", ())}
    source = Path(found.source)
    line = first is not None and any(_on(place, source.name, lines) for place in (first.place, first.other))
    fixed = first is not None and first.fix is not None and first.fix.status == "verified"
    undone = fixed and _undoes(found, source, right, lines)
    true = line or undone
    proven, likely = (first is not None and first.verdict == word for word in ("proven", "likely"))
    return Score(
        card,
        family,
        truth["cause"],
        found.outcome,
        said,
        where,
        seconds,
        detected=found.outcome != "right",
        cause=proven and true,
        likely=likely and true,
        misled=proven and not true,
        line=line,
        fixed=fixed,
        undone=undone,
        one_edit=bool(truth["one_edit"]),
        two="second" in truth,
        both="second" in truth and _both(found, source.name, truth),
        work=found.work.changes,
        share=first.share if first is not None and first.fix is not None else 0.0,
    )


def _both(found: Any, source: str, truth: Mapping[str, Any]) -> bool:
    places = [place for cause in found.causes if cause.verdict != "undecided" for place in (cause.place, cause.other)]
    return all(any(_on(place, source, bug["lines"]) for place in places) for bug in (truth, truth["second"]))


def _on(place: str, source: str, lines: Iterable[int]) -> bool:
    found = _PLACE.match(place)
    return found is not None and Path(found["file"]).name == source and int(found["line"]) in lines


def _undoes(found: Any, source: Path, right: str | None, lines: Iterable[int]) -> bool:
    """Whether the changes make the source right again, or are about nothing but the truth's lines."""
    diffs = [cause.fix.diff for cause in found.causes if cause.fix is not None and cause.fix.diff]
    if not diffs:
        return False
    old, at, touched = source.read_text("utf-8").split("\n"), 0, set()
    new, position = [], 0
    for row in diffs[-1].split("\n"):
        if row.startswith("@@"):
            at = int(row.split()[1].split(",")[0][1:]) - 1
            new += old[position:at]
            position = at
        elif row.startswith("-") and not row.startswith("---"):
            touched.add(position + 1)
            position += 1
        elif row.startswith("+") and not row.startswith("+++"):
            new.append(row[1:])
            touched.add(position)
        elif row.startswith(" "):
            new.append(old[position])
            position += 1
    new += old[position:]
    same = right is not None and normalised("\n".join(new)) == normalised(right)
    return same or (bool(touched) and touched <= {one + step for one in lines for step in (-1, 0)})


def cards(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """The cards below a folder of kernels: right ones, look-alikes, wrong ones."""
    for pattern in ("*/*.toml", "*/lookalike/*.toml", "*/wrong/*.toml"):
        for path in sorted(folder.glob(pattern)):
            shown = path.relative_to(folder).as_posix()
            if not shown.endswith(".truth.toml") and (not names or any(name in shown for name in names)):
                yield path


def diagnosed(job: tuple[Path, Path, str, int]) -> Score:
    """Diagnose one card: (folder of kernels, card, effort, threads)."""
    folder, path, effort, threads = job
    warnings.simplefilter("ignore")
    from wmmadiag.diagnose.engine import diagnose_card
    from wmmadiag.subject.card_files.read import load_card

    shown = path.relative_to(folder).as_posix()
    beside = path.with_name(f"{path.stem}.truth.toml")
    truth = tomllib.loads(beside.read_text("utf-8")) if beside.exists() else None
    started = time.perf_counter()
    try:
        card = load_card(path)
        found = diagnose_card(card, effort=effort, threads=threads)
        right = right_source(card.source, truth) if truth is not None else None
        return scored(shown, truth, found, time.perf_counter() - started, right)
    except Exception as error:  # a crash is a result here, and the others are to be measured
        name = "" if truth is None else str(truth["cause"])
        words = f"{type(error).__name__}: {error}".split("\n")[0]
        taken, one = time.perf_counter() - started, bool(truth and truth["one_edit"])
        return Score(shown, shown.split("/")[0], name, "crash", "", "", taken, one_edit=one, problem=words)


def _share(hits: int, of: int) -> str:
    return f"{hits}/{of} ({hits / of:.0%})" if of else "-"


def summary(scores: Sequence[Score]) -> list[str]:
    """One row: what `HEADERS` says."""
    wrong = [one for one in scores if one.truth]
    right = [one for one in scores if not one.truth]
    mendable = [one for one in wrong if one.one_edit]
    mended = [one for one in mendable if one.fixed]

    def count(of: Sequence[Score], test: Callable[[Score], bool]) -> str:
        return _share(sum(map(test, of)), len(of))

    def ninth(values: Sequence[float]) -> float:
        return sorted(values)[min(len(values) - 1, int(0.9 * len(values)))]

    times, works = [one.seconds for one in wrong], [one.work for one in wrong]
    return [
        str(len(wrong)),
        count(wrong, lambda one: one.detected),
        count(wrong, lambda one: one.cause),
        count(wrong, lambda one: one.likely),
        count(wrong, lambda one: one.misled),
        count(wrong, lambda one: one.line),
        count([one for one in wrong if one.two], lambda one: one.both),
        count(mendable, lambda one: one.fixed),
        count(mended, lambda one: one.undone),
        count(right, lambda one: one.outcome != "right"),
        f"{statistics.median(times):.1f}, {ninth(times):.1f}" if times else "-",
        f"{statistics.median(works):.0f}, {ninth(works):.0f}" if works else "-",
    ]


HEADERS = [
    "", "wrong kernels", "detected", "cause", "likely", "misled", "line", "both", "change", "undone", "false alarms",
    "seconds: median, p90", "changes tried: median, p90",
]  # fmt: skip


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
    first = "C" if one.cause else "?" if one.likely else "!" if one.misled else "-"
    pair = "2" if one.both else "1" if one.two else ""
    marks = f"{first}{'L' if one.line else '-'}{'F' if one.fixed else '-'}{'U' if one.undone else '-'}{pair}"
    good = one.detected and one.cause and one.line and (one.fixed or not one.one_edit)
    return f"{marks:7} {one.seconds:5.1f} s {one.work:5}  {one.card}: {said}" + ("" if good else f"   < {one.truth}")


def main() -> int:
    """Measure and print; 1 where a kernel crashed the diagnosis."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only cards whose path contains one of these")
    parser.add_argument("--kernels", type=Path, default=ROOT / "kernels", metavar="DIR", help="default: kernels")
    parser.add_argument("--effort", default="normal", metavar="NAME", help="quick, normal, thorough")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="of one diagnosis (default: all)")
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
    jobs = [(folder, path, options.effort, options.threads) for path in chosen]
    scores = []
    with ProcessPoolExecutor(max(1, options.jobs), mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(diagnosed, job) for job in jobs]):
            scores.append(done.result())
            if not options.quiet:
                print(line_of(scores[-1]), flush=True)
    scores.sort(key=lambda one: one.card)
    print(f"\n{tables(scores)}")
    if options.json:
        made = {"effort": options.effort, "jobs": options.jobs, "scores": [asdict(one) for one in scores]}
        options.json.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    return 1 if any(one.problem for one in scores) else 0


if __name__ == "__main__":
    raise SystemExit(main())
