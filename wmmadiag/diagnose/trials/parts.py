"""Which changes are tried together: parts of the work, each of one program or of texts of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from wmmadiag.diagnose.changes import Change, Texts, together
from wmmadiag.diagnose.trials.schemata import selector_of
from wmmadiag.diagnose.trials.team import Part

BATCH = 256
"""Changes of one program: more of them make it slow, fewer are not worth a compilation (2,240 changes of one kernel by
128, 256 and 400 took the compiler 7.5, 6.2 and 6.0 s, and their runs 53, 67 and 78 million warp instructions)."""
_HALVES = 64
"""From twice so many changes on there are two programs, for two processes."""
APART = 16
"""Changes that are compiled each as a text of its own, of one part of the work."""
SMALL_APART, _LARGE = 6.0, 25_000
"""How much more a change costs that is compiled as a text of its own (24 ms for 4, SGEMM with 20 KB of source, one
core), and bytes of source from which on it costs yet more: all of it is read each time (FlashInfer's prefill, 590 KB:
2.5 s, as much as 150 that share a program)."""
DEAR_PTX = 100_000
"""Bytes of PTX from which on a kernel is one of many templates, whose compilation is much more than that of changes:
22 KB take the compiler 0.2 s, 300 KB (FlashInfer's prefill) 0.8 s, 600 KB (CUTLASS's attention) 2.5 s, 900 KB (CuTe's
`sgemm_2`, of 10 KB of source) 10 s (one core, headers precompiled)."""
_PTX_APART, _PTX_MORE, _MOST = 50_000, 400_000, 4
"""Bytes of PTX for which a text of its own costs what it does of a small source, bytes for which programs hold so many
changes more, and how many times as many they hold at most."""


def cost_apart(texts: Texts, ptx: int) -> float:
    """How much more a change of a source costs that is compiled as a text of its own than one that shares a program.

    Args:
        ptx: bytes that the compiler makes of it.
    """
    return SMALL_APART * max(1.0, sum(map(len, texts.values())) / _LARGE, ptx / _PTX_APART)


def spread(ptx: int) -> int:
    """How many times as many changes a program of so many bytes of PTX holds."""
    return max(1, min(_MOST, ptx // _PTX_MORE))


def parts(
    changes: Sequence[Change],
    looks: int,
    *,
    times: int = 1,
    defers: bool = False,
    alone: Set[Change] = frozenset(),
) -> Iterator[Part]:
    """Who is tried with whom. Those of one place are together: what a program costs at run time is its places.

    Args:
        times: as many changes in a program.
        alone: what is known to need a text of its own, besides what says so.
    """
    ordered = sorted(dict.fromkeys(changes), key=lambda one: [(edit.file, edit.start, edit.end) for edit in one.edits])
    for apart, most in ((False, BATCH * times), (True, APART)):
        some = [one for one in ordered if (one.kind == "static" or one in alone) == apart]
        count = -(-len(some) // most)
        if not apart and len(some) >= 2 * _HALVES:
            count = max(count, 2)
        for number in range(count):
            group = some[number * len(some) // count : (number + 1) * len(some) // count]
            yield Part(tuple(group), apart, looks, defers=defers)


def packed(pairs: Sequence[tuple[Change, Change]]) -> Iterator[Part]:
    """Pairs whose changes one program holds; those of what cannot hang on a value are made as one change each."""
    numbers: dict[Change, int] = {}
    some: list[tuple[int, int]] = []
    for pair in pairs:
        if "static" in (pair[0].kind, pair[1].kind):
            continue
        if len(numbers.keys() | set(pair)) > BATCH:
            yield Part(tuple(numbers), False, 1, tuple(some))
            numbers, some = {}, []
        some.append((numbers.setdefault(pair[0], len(numbers)), numbers.setdefault(pair[1], len(numbers))))
    if some:
        yield Part(tuple(numbers), False, 1, tuple(some))
    yield from parts([together(*pair) for pair in pairs if "static" in (pair[0].kind, pair[1].kind)], 1)


def selected(changes: Mapping[int, Change], part: Part) -> Mapping[int, Change]:
    """What of a part a program holds, by what selects it: its changes, or two of them at once.

    Args:
        changes: of the program, by their numbers.
    """
    if not part.pairs:
        return changes
    number = {change: key for key, change in changes.items()}
    pairs = [(part.changes[one], part.changes[other]) for one, other in part.pairs]
    return {
        selector_of(number[one], number[other]): together(one, other)
        for one, other in pairs if one in number and other in number
    }  # fmt: skip
