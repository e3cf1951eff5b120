"""What is read from sources alone: `python benchmarks/reading.py [FOLDER…]` (default: all that the project has).

Every kernel of the folders that has a card of its own is checked three times: its source alone, the source with
`--entry` (and the folder for includes), and its card. One line per kernel on request, then a table:

right      exit code 0
asked      exit code 3 or 2 with a question whose answer is an option: nothing was said of the kernel
WRONG      exit code 1; of a right kernel that is the worst that can happen, and it is listed by name
error      anything else: it does not compile, or there is no next step

`--table docs/reading.md --kept FILE` writes that page; what FILE holds is not run again, so that it may be done in
pieces (`--only`, folders), and an interrupted run goes on.

`--bugs` checks the kernels that are broken on purpose, too: those with a truth file beside their card, and those that a
`NAME.bugs.toml` beside the card, or beside `NAME.cu`, makes of the right source. For them WRONG is what should be said,
and "right" is listed by name.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
_DEFAULT = ("kernels", "tests/diagnose", "tests/reading", "examples/production")
_WAYS = ("source alone", "--entry", "card")
_OUTCOMES = ("right", "asked", "WRONG", "error")


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel to be read.

    Attributes:
        name: for the listing; `group`: the row of the table.
        source: of the kernel; `include`: the folder that it would stand in, where it was changed.
        entry: its name or the instantiation; "" where nobody says.
        card: its file, None where there is none.
        broken: whether it is wrong on purpose.
    """

    name: str
    group: str
    source: Path
    entry: str
    card: Path | None
    broken: bool = False
    include: Path | None = None


@dataclass(slots=True)
class Result:
    """How each way came out, the seconds it took and what was said."""

    kernel: Kernel
    outcomes: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)


def kernels(folder: Path, bugs: Path | None) -> Iterator[Kernel]:
    """The kernels of a folder; changed sources are written to `bugs`, None for right kernels alone."""
    seen = set()
    for path in sorted(folder.rglob("*.toml")):
        if path.name.endswith((".truth.toml", ".bugs.toml")):
            continue
        card = tomllib.loads(path.read_text("utf-8"))
        source = path.parent / str(card.get("source", ""))
        if source.suffix != ".cu" or not source.is_file():
            continue
        seen.add(source.resolve())
        name, group = path.relative_to(folder).with_suffix("").as_posix(), _group(folder, path)
        entry = _entry(card)
        broken = path.with_suffix(".truth.toml").is_file()
        if not broken or bugs is not None:
            yield Kernel(name, group, source, entry, path, broken)
        listed = path.with_name(path.stem + ".bugs.toml")
        if bugs is not None and listed.is_file():
            yield from _changed(name, group, source, entry, listed, path, bugs)
    for source in sorted(folder.rglob("*.cu")):  # without a card
        if source.resolve() not in seen and not source.with_suffix(".truth.toml").is_file():
            name, group = source.relative_to(folder).as_posix(), _group(folder, source)
            yield Kernel(name, group, source, "", None)
            listed = source.with_suffix(".bugs.toml")
            if bugs is not None and listed.is_file():
                yield from _changed(name, group, source, "", listed, None, bugs)


def _group(folder: Path, path: Path) -> str:
    """The row of a kernel: of the tests' sets each has its own."""
    inside = path.relative_to(folder).parts
    of_tests = folder.as_posix() in ("tests/diagnose", "tests/reading") and len(inside) > 1
    return (folder / inside[0] if of_tests else folder).as_posix()


def _entry(card: dict[str, Any]) -> str:
    """What a user would type: the kernel's plain name, since the instantiation is the host code's to say."""
    variants = card.get("variants") or {}
    first = next((one.get("entry") for one in variants.values() if one.get("entry")), "")
    return re.sub(r"<.*", "", str(card.get("entry") or first), flags=re.DOTALL)


def _changed(
    name: str, group: str, source: Path, entry: str, listed: Path, card: Path | None, folder: Path
) -> Iterator[Kernel]:
    text = source.read_text("utf-8")
    for bug, change in tomllib.loads(listed.read_text("utf-8")).items():
        edits = change.get("edits") or [change]
        broken = text
        for one in edits:
            broken = broken.replace(one["old"].strip("\n"), one["new"].strip("\n"))
        if broken == text:
            continue
        own = folder / name.replace("/", "_") / bug / source.name
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(broken, "utf-8")
        copied = None if card is None else own.with_suffix(".toml")
        if card is not None and copied is not None:
            copied.write_text(re.sub(r"^source = .*$", f'source = "{own.name}"', card.read_text("utf-8"), flags=re.M))
            for reference in card.parent.glob("*reference*.py"):
                (own.parent / reference.name).write_text(reference.read_text("utf-8"), "utf-8")
        yield Kernel(f"{name}: {bug}", group, own, entry, copied, True, source.parent)


def judged(kernel: Kernel, ways: Sequence[str], arguments: Sequence[str], seconds: float) -> Result:
    """A kernel checked in each of these ways."""
    result = Result(kernel)
    for way in ways:
        command = [sys.executable, "-m", "wmmadiag", "check", "--color", "never"]
        if way == "card":
            if kernel.card is None:
                continue
            command += [str(kernel.card), "--wrong", *arguments]
        else:
            command += [str(kernel.source), *arguments]
            command += ["-I", str(kernel.include)] if kernel.include else []
            if way == "--entry":
                if not kernel.entry:
                    continue
                command += ["--entry", kernel.entry]
        began = time.perf_counter()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, cwd=ROOT, check=False)
            code, said = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            code, said = 124, f"not done within {seconds:g} s"
        result.seconds[way] = time.perf_counter() - began
        result.said[way] = said
        result.outcomes[way] = _outcome(code, said)
    return result


def _outcome(code: int, said: str) -> str:
    if code in (0, 1):
        return ("right", "WRONG")[code]
    asks = re.search(r"next: .*--(?:entry|computes|symbol|grid|block|shared|define)", said, re.DOTALL)
    return "asked" if code in (2, 3) and asks else "error"


def table(results: Sequence[Result], ways: Sequence[str]) -> str:
    """Right kernels by group: a row for each, for each way how many had which outcome, and what a check takes."""
    heads = (f"{way}: {' / '.join(_OUTCOMES)} | seconds: median, largest" for way in ways)
    lines = ["| kernels | | " + " | ".join(heads) + " |", "|---" * (2 + 2 * len(ways)) + "|"]
    groups = list(dict.fromkeys(one.kernel.group for one in results))
    for group in [*groups, *(["all"] if len(groups) > 1 else [])]:
        own = [one for one in results if group in (one.kernel.group, "all")]
        cells = []
        for way in ways:
            counts = Counter(one.outcomes[way] for one in own if way in one.outcomes)
            taken = sorted(one.seconds[way] for one in own if way in one.seconds)
            cells.append(" / ".join(str(counts[outcome]) for outcome in _OUTCOMES))
            cells.append(f"{taken[len(taken) // 2]:.1f}, {taken[-1]:.0f}" if taken else "")
        lines.append(f"| {group} | {len(own)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(results: Sequence[Result], ways: Sequence[str]) -> str:
    """The page of the documentation: the table, and what is asked of each kernel that is not right at once."""
    lines = ["# What is read from a source alone", "", _PAGE, table(results, ways)]
    lines += ["", "## Not right from the source alone", "", "| kernel | | what is said |", "|---|---|---|"]
    for one in results:
        outcome = one.outcomes.get(ways[0], "right")
        if outcome != "right":
            lines.append(f"| {one.kernel.group}: {one.kernel.name} | {outcome} | {_why(one.said[ways[0]])} |")
    return "\n".join(lines) + "\n"


_PAGE = """`python benchmarks/reading.py --table docs/reading.md --kept FILE` wrote this page: right kernels, each
checked with its source alone, with `--entry NAME` and `-I` besides, and by its card. `right`: exit code 0; `asked`:
nothing was said of the kernel, and one option or field of a card decides; `WRONG`: a false alarm; `error`: neither a
verdict nor a next step. What has no card is checked in the first way only. Seconds are those of a check, its process
included, beside other work on two cores.
"""


def _why(said: str) -> str:
    """The clause that says why nobody can say."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    for at, line in enumerate(lines):
        if line.endswith("what should the kernel compute?") and at + 1 < len(lines):
            return lines[at + 1]
        if (question := _QUESTION.search(line)) is not None:
            return question[1]
        if line.startswith("UNDECIDED default") and at + 1 < len(lines):
            return " ".join(lines[at + 1 : at + 4]).partition(" next:")[0]
    return next((line for line in lines if "error" in line), lines[0] if lines else "")


_QUESTION = re.compile(r": the kernel '[^']*': (.*)")


def _kept(file: Path | None) -> dict[tuple[str, str], dict[str, Any]]:
    """What was run before, by group and name of the kernel."""
    if file is None or not file.is_file():
        return {}
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return {(row["group"], row["name"]): row for row in rows}


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; 1 where a right kernel is called WRONG."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=list(_DEFAULT), metavar="FOLDER")
    parser.add_argument("--ways", default=",".join(_WAYS), help='of "source alone", "--entry" and "card"')
    parser.add_argument("--bugs", action="store_true", help="also the kernels that are broken on purpose")
    parser.add_argument("--only", default="", metavar="PATTERN", help="kernels whose name matches")
    parser.add_argument("-I", "--include", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--list", action="store_true", help="a line per kernel, and what was said of the others")
    parser.add_argument("--seconds", type=float, default=120.0, help="at most, per check")
    parser.add_argument("--table", type=Path, metavar="PAGE", help="write this page of the documentation")
    parser.add_argument(
        "--kept", type=Path, metavar="FILE", help="results of earlier runs; those of this one are added"
    )
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args(words)
    ways = [one.strip() for one in args.ways.split(",")]
    arguments = [word for one in args.include for word in ("-I", one)]
    with tempfile.TemporaryDirectory() as changed:
        bugs = Path(changed) if args.bugs else None
        every = [one for folder in args.folders for one in kernels(Path(folder), bugs)]
        every = [one for one in every if re.search(args.only, one.name)]
        known = _kept(args.kept)

        def result(one: Kernel) -> Result:
            row = known.get((one.group, one.name), {"outcomes": {}, "seconds": {}, "said": {}})
            left = [way for way in ways if way not in row["outcomes"]]
            done = judged(one, left, arguments, args.seconds)
            ran = bool(done.outcomes)
            done = Result(one, row["outcomes"] | done.outcomes, row["seconds"] | done.seconds, row["said"] | done.said)
            if args.kept is not None and ran:
                row = {"group": one.group, "name": one.name, "outcomes": done.outcomes, "seconds": done.seconds}
                with args.kept.open("a", encoding="utf-8") as kept:
                    kept.write(json.dumps({**row, "said": done.said}) + "\n")
            return done

        with ThreadPoolExecutor(args.jobs) as pool:
            results = []
            for done in pool.map(result, every):
                results.append(done)
                if args.list:
                    _print_line(done, ways)
    right = [one for one in results if not one.kernel.broken]
    broken = [one for one in results if one.kernel.broken]
    print(table(right, ways))
    if args.table is not None:
        args.table.write_text(page(right, ways), "utf-8")
    false_alarms = _named(right, "WRONG")
    print(f"right kernels called WRONG: {', '.join(false_alarms) or 'none'}")
    if broken:
        print("\nbroken on purpose:\n" + table(broken, ways))
        print(f"broken kernels called right: {', '.join(_named(broken, 'right')) or 'none'}")
    return int(bool(false_alarms))


def _named(results: Sequence[Result], outcome: str) -> list[str]:
    return [f"{one.kernel.name} ({way})" for one in results for way, said in one.outcomes.items() if said == outcome]


def _print_line(result: Result, ways: Sequence[str]) -> None:
    shown = "  ".join(f"{way}: {result.outcomes.get(way, '-'):5} {result.seconds.get(way, 0):5.1f} s" for way in ways)
    print(f"{result.kernel.name:40} {shown}", flush=True)
    good = "WRONG" if result.kernel.broken else "right"
    for way, outcome in result.outcomes.items():
        if outcome != good:
            head = [line for line in result.said[way].splitlines() if line.strip()][:14]
            print(*(f"      {way}| {line}" for line in head), sep="\n", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    raise SystemExit(main())
