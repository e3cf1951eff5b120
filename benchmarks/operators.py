"""Whether what undoes a bug is among the changes of the operators: `python benchmarks/operators.py [NAME…]`.

For every wrong kernel with its truth (kernels/*/wrong) and every bug of the sets in tests/diagnose, the changes of the
broken source near the bug are made. Nothing is compiled or run. NAMEs pick the bugs whose name
contains one.

whole    one change makes the right text of it, compared without blanks, comments and parentheses, or a text that is
         equal by algebra (`same_text.py`)
parts    of a kernel that several edits mend: each of them alone is one change's work
wider    as parts, with the operators of the second round

--counts adds how many changes each source has in all, and the seconds of the processor's time that reading it and
making them takes, for one broken source of each kernel. --misses lists the bugs without a change. --operators tells
how many changes each operator and role yields, and how many bugs only it undoes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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

FILE = "kernel.cu"
ROOT = Path(__file__).resolve().parents[1]
SETS = ("wrong", "unseen", "public_style", "blind", *(f"blind{number}" for number in range(2, 50)))


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
    """What the operators yield near one bug.

    Attributes:
        changes: near it.
        whole: the changes that make all of it right; parts: for each fix, the changes that do it alone; wider: the
            same of the second round's operators.
    """

    bug: Bug
    changes: list[Change]
    whole: list[Change] = field(default_factory=list)
    parts: list[list[Change]] = field(default_factory=list)
    wider: list[list[Change]] = field(default_factory=list)

    @property
    def missed(self) -> list[int]:
        """The numbers of the fixes that no operator does."""
        both = zip(self.parts, self.wider, strict=True)
        return [] if self.whole else [at for at, hits in enumerate(both) if not any(hits)]


@dataclass(frozen=True, slots=True)
class Counted:
    """All changes of one source; seconds: of the processor's time."""

    bug: Bug
    changes: list[Change]
    seconds: float


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
                broken, fixes = _broken(right, what.get("edits", [what]))
                yield Bug(folder, f"{name}/{bug}", held["entry"], broken, fixes)


def _broken(right: str, edits: Sequence[Mapping[str, str]]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A right text with a bug's edits made, and what undoes each, with so much around it that it stands once."""
    placed = sorted((right.index(edit["old"]), edit["old"], edit["new"]) for edit in edits)
    broken, position, at = "", 0, []
    for start, old, new in placed:
        broken += right[position:start]
        at.append((len(broken), len(broken) + len(new), old))
        broken, position = broken + new, start + len(old)
    broken += right[position:]
    fixes = []
    for first, last, old in at:
        start, end = first, last
        while start == end or broken.count(broken[start:end]) != 1:
            start, end = max(0, start - 20), min(len(broken), end + 20)
        fixes.append((broken[start:end], broken[start:first] + old + broken[last:end]))
    return broken, tuple(fixes)


def found(bug: Bug) -> Found:
    """The changes near a bug, and those that undo it."""
    texts = {FILE: bug.text.encode()}
    right = bug.text
    for old, new in bug.fixes:
        right = right.replace(old, new, 1)
    each = [Region(bug.text, bug.text.replace(old, new, 1)) for old, new in bug.fixes]
    together = Region(bug.text, right) if len(each) > 1 else each[0]
    near = [(FILE, *region.near) for region in each]
    held = program(texts, bug.entry, near)
    changes = list(changes_of(held))
    one = Found(bug, changes)
    one.parts = [[change for change in changes if region.undone_by(change.edits)] for region in each]
    further = list(changes_of(held, wider=True)) if not all(one.parts) else []
    one.wider = [[change for change in further if region.undone_by(change.edits)] for region in each]
    one.whole = [change for change in changes if together.undone_by(change.edits)]
    return one


def counted(bug: Bug) -> Counted:
    """How many changes all of a bug's source has, and how long they take."""
    texts = {FILE: bug.text.encode()}
    begun = time.process_time()
    changes = list(changes_of(program(texts, bug.entry)))
    return Counted(bug, changes, time.process_time() - begun)


def table(results: Sequence[Found], counts: Sequence[Counted]) -> None:
    """Recall and counts, one row for each set."""
    print(
        f"{'set':14} {'bugs':>5} {'whole':>6} {'parts':>6} {'wider':>6} {'of one edit':>12}"
        "   changes: median, max    seconds: max"
    )
    for name in SETS:
        rows = [one for one in results if one.bug.set == name]
        if not rows:
            continue
        whole = sum(bool(one.whole) for one in rows)
        parts = sum(bool(one.whole) or all(one.parts) for one in rows)
        single = [one for one in rows if len(one.bug.fixes) == 1]
        hit = sum(bool(one.whole) for one in single)
        wider = sum(not one.missed for one in rows)
        print(f"{name:14} {len(rows):5} {whole:6} {parts:6} {wider:6} {hit:5} of {len(single):3}", end="")
        sizes = [one for one in counts if one.bug.set == name]
        if sizes:
            held = [len(one.changes) for one in sizes]
            longest = max(one.seconds for one in sizes)
            print(f"   {statistics.median(held):8.0f} {max(held):9}   {longest:18.2f}", end="")
        print()


def misses(results: Sequence[Found]) -> None:
    """What no change undoes."""
    for one in results:
        for old, new in (one.bug.fixes[at] for at in one.missed):
            print(f"{one.bug.set} {one.bug.name}\n  - {old.strip()}\n  + {new.strip()}")


def by_operator(results: Sequence[Found], counts: Sequence[Counted]) -> None:
    """Changes and bugs undone of each operator and role: which could go."""
    made: Counter[tuple[str, str]] = Counter()
    undone: Counter[tuple[str, str]] = Counter()
    alone: Counter[tuple[str, str]] = Counter()
    for source in counts:
        made.update((change.operator, change.role) for change in source.changes)
    for one in results:
        for hits in (*one.parts, *one.wider):
            keys = {(change.operator, change.role) for change in hits}
            undone.update(keys)
            if len(keys) == 1:
                alone.update(keys)
    print(f"{'operator':20} {'role':20} {'changes':>8} {'undone':>7} {'alone':>6}")
    for key in sorted({*made, *undone}):
        print(f"{key[0]:20} {key[1]:20} {made[key]:8} {undone[key]:7} {alone[key]:6}")


def main(arguments: Sequence[str]) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--operators", action="store_true")
    given = parser.parse_args(arguments)
    chosen = [bug for bug in bugs() if not given.names or any(name in f"{bug.set} {bug.name}" for name in given.names)]
    results = [found(bug) for bug in chosen]
    # Broken sources of one kernel have much the same changes: one of each is counted.
    first = {(bug.set, bug.entry.partition("<")[0]): bug for bug in chosen}
    counts = [counted(bug) for bug in first.values()] if given.counts or given.operators else []
    table(results, counts)
    if given.misses:
        misses(results)
    if given.operators:
        by_operator(results, counts)


if __name__ == "__main__":
    main(sys.argv[1:])
