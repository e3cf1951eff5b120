"""Whether what undoes a bug is among the changes of the operators: `python benchmarks/operators.py [NAME…]`.

For every wrong kernel with its truth (kernels/*/wrong) and every bug of tests/diagnose/{unseen,public_style,blind},
all changes of the broken source are made. Nothing is compiled or run. NAMEs pick the bugs whose name contains one.

whole    one change makes the right text of it, compared without blanks, comments and parentheses, or a text that is
         equal by algebra (`same_text.py`)
parts    of a kernel that several edits mend: each of them alone is one change's work
changes  how many there were; seconds: of the processor's time, for reading and yielding all of them

--misses lists the bugs without a change; --operators how many changes each operator and role yields, and how many bugs
only it undoes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

sys.path.insert(0, str(Path(__file__).parent))

from same_text import Region

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.operators.places import program
from wmmadiag.diagnose.operators.registry import changes_of

ROOT = Path(__file__).resolve().parents[1]
SETS = ("wrong", "unseen", "public_style", "blind")


@dataclass(frozen=True, slots=True)
class Bug:
    """A broken source.

    Attributes:
        fixes: the edits that mend it: what stands there, and what is right.
    """

    set: str
    name: str
    entry: str
    text: str
    fixes: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Found:
    """What the operators yield for one bug.

    Attributes:
        whole: the changes that make all of it right; parts: for each fix, the changes that do it alone.
    """

    bug: Bug
    changes: list[Change]
    seconds: float
    whole: list[Change] = field(default_factory=list)
    parts: list[list[Change]] = field(default_factory=list)


def bugs() -> Iterator[Bug]:
    """All bugs of all sets."""
    for truth in sorted(ROOT.glob("kernels/*/wrong/*.truth.toml")):
        card = truth.with_name(truth.name.replace(".truth", ""))
        held = tomllib.loads(card.read_text("utf-8"))
        source = (card.parent / held["source"]).read_text("utf-8")
        fixes = tuple((one["old"], one["new"]) for one in tomllib.loads(truth.read_text("utf-8")).get("fix", ()))
        name = f"{truth.parts[-3]}/{card.stem}"
        yield Bug("wrong", name, held["entry"], source, tuple(one for one in fixes if one[0] in source))
    for folder in SETS[1:]:
        for file in sorted((ROOT / "tests/diagnose" / folder).glob("*.bugs.toml")):
            name = file.name.removesuffix(".bugs.toml")
            held = tomllib.loads(file.with_name(f"{name}.toml").read_text("utf-8"))
            right = file.with_name(f"{name}.cu").read_text("utf-8")
            for bug, what in tomllib.loads(file.read_text("utf-8")).items():
                at = right.index(what["old"])
                broken = right[:at] + what["new"] + right[at + len(what["old"]) :]
                yield Bug(folder, f"{name}/{bug}", held["entry"], broken, (_around(broken, at, what),))


def _around(broken: str, at: int, what: dict[str, str]) -> tuple[str, str]:
    """The edit that undoes a bug, with so much around it that it stands once."""
    start, end = at, at + len(what["new"])
    while broken.count(broken[start:end]) != 1:
        start, end = max(0, start - 20), min(len(broken), end + 20)
    old = broken[start:end]
    return old, broken[start:at] + what["old"] + broken[at + len(what["new"]) : end]


def found(bug: Bug) -> Found:
    """All changes of a bug's source, and those that undo it."""
    file = "kernel.cu"
    texts = {file: bug.text.encode()}
    begun = time.process_time()
    changes = list(changes_of(program(texts, bug.entry)))
    one = Found(bug, changes, time.process_time() - begun)
    right = bug.text
    for old, new in bug.fixes:
        region = Region(bug.text, bug.text.replace(old, new, 1))
        one.parts.append([change for change in changes if region.undone_by(change.edits)])
        right = right.replace(old, new, 1)
    if len(bug.fixes) == 1:
        one.whole = one.parts[0]
    else:
        region = Region(bug.text, right)
        one.whole = [change for change in changes if region.undone_by(change.edits)]
    return one


def table(results: Sequence[Found]) -> None:
    """Recall and counts, one row for each set."""
    print(
        f"{'set':14} {'bugs':>5} {'whole':>6} {'parts':>6} {'of one edit':>12}   changes: median, max    seconds: max"
    )
    for name in SETS:
        rows = [one for one in results if one.bug.set == name]
        if not rows:
            continue
        whole = sum(bool(one.whole) for one in rows)
        parts = sum(bool(one.whole) or all(one.parts) for one in rows)
        single = [one for one in rows if len(one.bug.fixes) == 1]
        hit = sum(bool(one.whole) for one in single)
        counts = [len(one.changes) for one in rows]
        print(
            f"{name:14} {len(rows):5} {whole:6} {parts:6} {hit:5} of {len(single):3}"
            f"   {statistics.median(counts):8.0f} {max(counts):9}   {max(one.seconds for one in rows):18.2f}"
        )


def misses(results: Sequence[Found]) -> None:
    """What no change undoes."""
    for one in results:
        for (old, new), hits in zip(one.bug.fixes, one.parts, strict=True):
            if not hits and not one.whole:
                print(f"{one.bug.set} {one.bug.name}\n  - {old.strip()}\n  + {new.strip()}")


def by_operator(results: Sequence[Found]) -> None:
    """Changes and bugs undone of each operator and role: which could go."""
    made: Counter[tuple[str, str]] = Counter()
    undone: Counter[tuple[str, str]] = Counter()
    alone: Counter[tuple[str, str]] = Counter()
    for one in results:
        made.update((change.operator, change.role) for change in one.changes)
        for hits in one.parts:
            keys = {(change.operator, change.role) for change in hits}
            undone.update(keys)
            if len(keys) == 1:
                alone.update(keys)
    print(f"{'operator':20} {'role':20} {'changes':>8} {'undone':>7} {'alone':>6}")
    for key, count in sorted(made.items()):
        print(f"{key[0]:20} {key[1]:20} {count:8} {undone[key]:7} {alone[key]:6}")


def main(arguments: Sequence[str]) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--operators", action="store_true")
    given = parser.parse_args(arguments)
    chosen = [bug for bug in bugs() if not given.names or any(name in f"{bug.set} {bug.name}" for name in given.names)]
    results = [found(bug) for bug in chosen]
    table(results)
    if given.misses:
        misses(results)
    if given.operators:
        by_operator(results)


if __name__ == "__main__":
    main(sys.argv[1:])
