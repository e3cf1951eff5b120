"""Room behind the arrays: a run that dies on an access outside an array goes on there, and shows why it went there."""

from __future__ import annotations

from dataclasses import replace

from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.trials.workbench import Workbench
from wmmadiag.errors import KernelFault, WmmadiagError
from wmmadiag.subject.binding import bind

_TIMES = 4
_AT_LEAST = 1 << 12


def with_room(evidence: Evidence) -> Evidence | None:
    """The same case with every array several times as large, what is added poisoned; None where that is no help.

    It is of help where an access outside global memory ended the run on the emulator, and does not with more room.
    """
    error = evidence.run.error
    if not (evidence.emulated and isinstance(error, KernelFault) and error.kind == "out-of-bounds"):
        return None
    if error.space != "global":
        return None
    old = evidence.bench
    try:
        bound = bind(old.card, evidence.case, old.variant, seed=old.seed, inputs=old.inputs)
        sizes = {a.spec.name: a.storage.size for a in bound.arguments if a.storage is not None}
        arguments = tuple(
            replace(one, size=_TIMES * sizes[one.name] + _AT_LEAST) if one.name in sizes else one
            for one in old.card.arguments
        )
        bench = Workbench(
            replace(old.card, arguments=arguments), old.variant, old.arch, old.backend, old.checks, old.compiler,
            seed=old.seed, inputs=old.inputs, launch=old.launch, ahead=old.ahead,
        )  # fmt: skip
        run = bench.run(evidence.case, evidence.texts)
    except WmmadiagError:
        return None
    if run.verdict is None:
        return None
    return Evidence(bench, evidence.case, evidence.texts, run, {})
