"""Asking all probes of one case of a kernel."""

from __future__ import annotations

import time

from wmmadiag.errors import KernelFault, WmmadiagError
from wmmadiag.probes.subject.model import ProbeAnswer, Subject, SubjectProbe
from wmmadiag.probes.subject.registry import all_subject_probes
from wmmadiag.subject.bench import Workbench
from wmmadiag.subject.card import Case
from wmmadiag.subject.compiling import Texts


def run_subject_probes(
    bench: Workbench, case: Case, *, seconds: float, texts: Texts | None = None
) -> tuple[ProbeAnswer, ...]:
    """The answers of all probes that apply to a case; of those only that fit into the time.

    Nothing that the kernel does raises. A kernel that dies of the case's own inputs has one answer, "runs".

    Args:
        seconds: wall time; the probe that is running when it is over ends first.
        texts: files whose text is replaced, as `Workbench.run` takes them.
    """
    started = time.perf_counter()
    subject = Subject(bench, case, texts)
    probes = [one for one in all_subject_probes().values() if bench.card.computes.operation in one.operations]
    try:
        _ = subject.base
    except WmmadiagError as error:
        verdict = "wrong" if isinstance(error, KernelFault) else "undecided"
        sentence = f"the kernel does not run to its end: {error.message}"
        return (ProbeAnswer("runs", "does the kernel run at all?", verdict, sentence),)  # type: ignore[arg-type]
    if subject.terms.modifies or subject.terms.masks_otherwise:
        return ()  # the probes' inputs have known answers where scores are scaled products under a causal mask at most
    answers = []
    for probe in probes:
        if time.perf_counter() - started > seconds:
            break
        if probe.emulator and subject.emulated is None:
            continue
        answer = _asked(probe, subject)
        if answer is not None:
            answers.append(answer)
    return tuple(answers)


def _asked(probe: SubjectProbe, subject: Subject) -> ProbeAnswer | None:
    try:
        outcome = probe.run(subject)
    except KernelFault as fault:
        sentence = f"the launch dies with these inputs: {fault.message}"
        return ProbeAnswer(probe.name, probe.asks, "wrong", sentence)
    except WmmadiagError as error:
        return ProbeAnswer(probe.name, probe.asks, "undecided", f"it cannot be said: {error.message}")
    if outcome is None:
        return None
    return ProbeAnswer(probe.name, probe.asks, outcome.verdict, outcome.sentence, outcome.supports, outcome.detail)
