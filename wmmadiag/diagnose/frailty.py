"""Why a change with which every case is right may only hide what is wrong: the search goes on behind it.

It is right where somebody looks: on other inputs, on other sizes, or where the blocks of a launch have to share their
work, what is wrong would be seen again.
"""

from __future__ import annotations

from collections.abc import Sequence

from wmmadiag.diagnose.frugal import overlaps
from wmmadiag.diagnose.hard import overflows
from wmmadiag.diagnose.idle import idle_blocks
from wmmadiag.diagnose.sizes import mixed_sizes, of_known_programs
from wmmadiag.diagnose.watched import blocks_of, fresh, watched
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.bench import CaseRun, Workbench
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card import Case
from wmmadiag.subject.compiling import Texts
from wmmadiag.subject.verdict import expectation


def frailty(bench: Workbench, cases: Sequence[Case], first: CaseRun, mended: CaseRun, texts: Texts) -> str:
    """Why a change may only hide what is wrong, in one sentence; "" for no reason.

    Args:
        cases: with which every run is right, the failing one first.
        first: the failing case as the source stands; mended: with the change.
        texts: with the change.
    """
    if overflows(bench, cases[0], texts):
        return "with it the kernel overflows on large inputs, and as it stands it does not: it may hide what is wrong"
    return _shared_otherwise(first, mended)


def wrong_size(bench: Workbench, cases: Sequence[Case], texts: Texts) -> tuple[str, bool]:
    """A size mixed of the cases' own that is wrong, "" for none, and whether it is of a program that no case is
    compiled as; one that is not goes before it."""
    mixed = mixed_sizes(cases, cases[0])
    known = list(of_known_programs(bench.card, bench.variant, cases, mixed))
    ordered = [*known, *(one for one in mixed if one not in known)]
    wrong = next((one for one in ordered if passes(bench, texts, one) is False), None)
    return (wrong.name, wrong not in known) if wrong is not None else ("", False)


def passes(bench: Workbench, texts: Texts, case: Case) -> bool | None:
    """Whether a case passes with some texts; None where the operation has no such size: the card's arguments cannot be
    made of it, or its reference has no values."""
    run = bench.run(case, texts)
    if run.verdict is not None or run.passed:
        return run.passed
    try:
        expectation(bind(bench.card, case, bench.variant, seed=bench.seed, inputs=bench.inputs))
    except ConfigurationError:
        return None
    return False


def _shared_otherwise(first: CaseRun, mended: CaseRun) -> str:
    """Where blocks no longer share their work with a change: one of them does it for all, or each does all of it."""
    one, two = first.emulated, mended.emulated
    if one is None or two is None or first.bound is None or mended.bound is None:
        return ""
    blocks = blocks_of(mended.bound.launch)
    if len(blocks) == 1:
        return ""
    before, after = watched(fresh(first.bound), one, blocks), watched(fresh(mended.bound), two, blocks)
    if before.cut or after.cut:
        return ""
    if count := idle_blocks(before, after):
        return f"with it {count} blocks do nothing, and others do their work: how blocks share it may be what is wrong"
    if count := overlaps(before, after):
        return f"with it two blocks or more store the same {count:,} bytes, and do not without it"
    return ""
