"""Inputs that no case asks for and that are hard for the operation: a change is held to them as well."""

from __future__ import annotations

import math
from collections.abc import Iterator

from wmmadiag.errors import ConfigurationError
from wmmadiag.ops.registry import OPERATIONS
from wmmadiag.subject.bench import CaseRun, Workbench
from wmmadiag.subject.card import Card, Case
from wmmadiag.subject.compiling import Texts

_LARGE = "large"


def hard_names(bench: Workbench, case: Case) -> tuple[str, ...]:
    """Distributions that are hard for the operation and change something in the card's arrays.

    None where somebody said which inputs the kernel is for: others are not what it has to be right on.
    """
    hard = OPERATIONS[bench.card.computes.operation].hard_inputs
    if bench.inputs or (case.inputs or bench.card.inputs or "normal") not in {"normal", *hard}:
        return ()
    free = _free(bench.card)
    return tuple(name for name, one in hard.items() if any(roles <= free for roles in one.of))


def overflows(bench: Workbench, case: Case, texts: Texts) -> bool:
    """Whether a changed kernel makes no numbers of large inputs, of which the kernel as it stands makes some.

    Such a change may only hide what is wrong: without its running maximum, a softmax needs none of its rescaling. Where
    somebody said which inputs the kernel is for, others tell nothing.
    """
    if bench.inputs or case.inputs or bench.card.inputs:
        return False
    return not _finite(bench.run(case, texts, inputs=_LARGE)) and _finite(bench.run(case, inputs=_LARGE))


def _finite(run: CaseRun) -> bool:
    return math.isfinite(run.max_difference)


def _free(card: Card) -> frozenset[str]:
    """Roles of inputs whose values nobody said."""
    taken = (one for one in card.arguments if one.value is None and one.values is None and not one.inputs)
    return frozenset(view.role for one in taken for view in one.views)


def runs_on_hard_inputs(bench: Workbench, case: Case, texts: Texts) -> Iterator[tuple[str, CaseRun]]:
    """A case on each hard distribution that its arrays can hold, with some texts changed."""
    for name in hard_names(bench, case):
        try:
            yield name, bench.run(case, texts, inputs=name)
        except ConfigurationError:  # of arrays that are stored as these inputs do not know them
            continue
