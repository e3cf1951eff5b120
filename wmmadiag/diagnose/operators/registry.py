"""The operators that there are, found by walking the packages beside this module.

Those of the package `wider` make what is less likely and a great deal more: they are asked only where none of the
others' changes mends anything.

To add one, write one module in one of the packages with a function behind `@operator`: from what an entry reaches to
drafts of changes. Its docstring says what it changes; its tests say what it must yield, and what it must not. The
function's name is the operator's.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

from wmmadiag.csource.dependences import Line
from wmmadiag.diagnose.changes import Change, TextEdit, Texts
from wmmadiag.diagnose.operators.copied import NAME as COPIED
from wmmadiag.diagnose.operators.copied import Copied
from wmmadiag.diagnose.operators.making import Draft
from wmmadiag.diagnose.operators.places import Program, Range, program

Run = Callable[[Program], Iterator[Draft]]
_FOUND: dict[str, Run] = {}
# What is read off the source itself comes before what is tried anywhere: of equal changes the first one's name stays.
_PACKAGES = ("pairs", "calls", "conditions", "order", "declarations", "statements", "expressions", "donors")
_WIDER = ("wider",)


def operator(run: Run) -> Run:
    """Register an operator.

    Raises:
        ValueError: another one has its name.
    """
    if run.__name__ in _FOUND and _FOUND[run.__name__].__module__ != run.__module__:
        raise ValueError(f"two operators are called {run.__name__!r}")
    _FOUND[run.__name__] = run
    return run


@cache
def all_operators(wider: bool = False) -> Mapping[str, Run]:
    """Every operator by its name, in the order of packages and modules; `wider`: those of the second round.

    Raises:
        ValueError: a module in one of the packages has no operator.
    """
    around = __name__.rpartition(".")[0]
    ordered: dict[str, Run] = {}
    for name in _WIDER if wider else _PACKAGES:
        package = importlib.import_module(f"{around}.{name}")
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda one: one.name):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            own = {key: run for key, run in _FOUND.items() if run.__module__ == module.__name__}
            if not own:
                raise ValueError(f"{module.__file__} defines no operator")
            ordered |= own
    return ordered


def changes(
    texts: Texts,
    entry: str | tuple[str, ...],
    *,
    places: Iterable[Range] | None = None,
    wider: bool = False,
    known: Iterable[Change] | None = None,
    compiled: Iterable[Line] = (),
) -> Iterator[Change]:
    """Every change that an operator yields, in the same order each time, each resulting text once.

    Args:
        texts: the kernel's own source and the user's headers, UTF-8, by path.
        entry: the kernel as the card names it, or several.
        places: the parts of files that may be changed; None: all that they reach.
        wider: those of the second round, without what the first one has.
        known: of the second round, what the first one has; None: it is made for that.
        compiled: the lines that the compiler made instructions of, where that is known.

    Raises:
        ValueError: no file defines one of them.
    """
    yield from changes_of(program(texts, entry, places, compiled), wider=wider, known=known)


def changes_of(held: Program, *, wider: bool = False, known: Iterable[Change] | None = None) -> Iterator[Change]:
    """As `changes`, of a program that was read before."""
    seen: set[tuple[Difference, ...]] = set()
    if wider:
        first = changes_of(held) if known is None else (one for one in known if held.may_change(one.edits))
        seen = {_differences(held.texts, one.edits) for one in first}
    drafts = ((name, draft) for name, run in all_operators(wider).items() for draft in run(held))
    several: list[tuple[str, Draft]] = []  # they come last: an operator's own name for a change stays
    alike = None if wider else Copied(held)
    for name, draft in itertools.chain(drafts, several):
        if not held.may_change(draft.edits):
            continue
        key = _differences(held.texts, draft.edits)
        if key and key not in seen:
            seen.add(key)
            yield Change(name, draft.edits, draft.kind, draft.role, draft.note)
            if alike is not None and name != COPIED:
                several += [(COPIED, one) for one in alike.everywhere(draft)]


Difference = tuple[str, int, int, str]
"""Where a file differs from what it was, as short as can be: its path, offsets of what went, what came, blanks out."""


def _differences(texts: Texts, edits: tuple[TextEdit, ...]) -> tuple[Difference, ...]:
    """What edits change of each file; nothing where they change nothing, or two of them the same bytes.

    Edits that make one text have one difference.
    """
    ordered = sorted(edits, key=lambda one: (one.file, one.start, one.end))
    if any(one.file == other.file and one.end > other.start for one, other in itertools.pairwise(ordered)):
        return ()
    found = []
    for file, group in itertools.groupby(ordered, key=lambda one: one.file):
        one = _difference(texts[file], list(group))
        if one is not None:
            found.append((file, *one))
    return tuple(found)


def _difference(data: bytes, edits: list[TextEdit]) -> tuple[int, int, str] | None:
    start, end = edits[0].start, edits[-1].end
    parts, position = [], start
    for edit in edits:
        parts += [data[position : edit.start], edit.text.encode("utf-8", "surrogateescape")]
        position = edit.end
    old, new = data[start:end], b"".join(parts)
    if old == new:
        return None
    head = _common(old, new)
    tail = _common(old[: head - 1 if head else None : -1], new[: head - 1 if head else None : -1])
    start, end, new = start + head, end - tail, new[head : len(new) - tail]
    # An insertion or removal that may stand at several places is put at the first one.
    while not new and start and data[start - 1] == data[end - 1]:
        start, end = start - 1, end - 1
    while start == end and start and data[start - 1] == new[-1]:
        start, end, new = start - 1, end - 1, new[-1:] + new[:-1]
    text = new.decode("utf-8", "surrogateescape")
    return start, end, "".join(text.split())


def _common(first: bytes, second: bytes) -> int:
    """The number of bytes with which both begin."""
    same, beyond = 0, min(len(first), len(second)) + 1
    while beyond - same > 1:
        middle = (same + beyond) // 2
        if first[same:middle] == second[same:middle]:
            same = middle
        else:
            beyond = middle
    return same
