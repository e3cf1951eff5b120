"""All probes of one case of a card, as `wmmadiag probe CARD` shows them."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag import backends
from wmmadiag.errors import UndecidedError
from wmmadiag.probes.subject.model import ProbeAnswer
from wmmadiag.probes.subject.registry import all_subject_probes
from wmmadiag.probes.subject.run import run_subject_probes
from wmmadiag.subject.bench import Workbench

if TYPE_CHECKING:
    from wmmadiag.compile.options import CompilerName
    from wmmadiag.subject.card import Case

_LOOKING_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Probed:
    """The answers about one case."""

    kernel: str
    case: str
    variant: str
    arch: str
    backend: str
    answers: tuple[ProbeAnswer, ...]


def probe_card(
    path: Path,
    *,
    arch: str = "",
    backend: str = "emulator",
    case: str = "",
    variant: str = "",
    seconds: float = 10.0,
    compiler: CompilerName = "auto",
    use_cache: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> Probed:
    """Run all probes on one case of a card.

    Args:
        case: empty for the smallest that fails, or a middling one; variant: empty for the first.
        seconds: for all probes.

    Raises:
        ConfigurationError: no such card, case, variant, backend or architecture.
        UndecidedError: no probe is for what the card says that the kernel computes.
    """
    from wmmadiag.api import open_card
    from wmmadiag.subject.compiling import SubjectCompiler
    from wmmadiag.subject.target import card_target

    card = open_card(path)
    operation = card.computes.operation
    if not any(operation in probe.operations for probe in all_subject_probes().values()):
        raise UndecidedError(f"there are no probes for the operation '{operation}'", place=card.computes.place)
    target = card_target(card, arch or None, backend)
    bench = Workbench(
        card,
        card.variant(variant) if variant else card.variants[0],
        target,
        backends.backend(backend),
        (),
        SubjectCompiler(compiler, use_cache=use_cache),
    )
    chosen = card.case(case) if case else _telling_case(bench, progress)
    progress(f"probing {card.name} / {chosen.name}")
    answers = run_subject_probes(bench, chosen, seconds=seconds)
    return Probed(card.name, chosen.name, bench.variant.name, target, backend, answers)


def _telling_case(bench: Workbench, progress: Callable[[str], None]) -> Case:
    """The smallest case that fails, or of right ones a middling one: the smallest are often a single row or tile."""
    cases = bench.cases()
    started = time.perf_counter()
    for case in cases:
        progress(f"running {bench.card.name} / {case.name}")
        if not bench.run(case).passed:
            return case
        if time.perf_counter() - started > _LOOKING_SECONDS:
            break
    return cases[len(cases) // 2]


def exit_code(probed: Probed) -> int:
    """1 if any answer is wrong, else 3 if any is undecided or there is none, else 0."""
    verdicts = {answer.verdict for answer in probed.answers}
    if "wrong" in verdicts:
        return 1
    return 0 if verdicts == {"right"} else 3


def as_text(probed: Probed, *, verbose: bool, width: int) -> str:
    """For a terminal."""
    what = f"{probed.kernel}, case {probed.case}" + (f", variant {probed.variant}" if probed.variant else "")
    lines = [f"{what} on {probed.arch}, {probed.backend}"]
    marks = {"right": "right", "wrong": "WRONG", "undecided": "undecided"}
    for answer in sorted(probed.answers, key=lambda one: ("wrong", "undecided", "right").index(one.verdict)):
        head = f"  {marks[answer.verdict]:<9} "
        lines += textwrap.wrap(
            f"{answer.sentence} [{answer.name}]", width, initial_indent=head, subsequent_indent=" " * 12
        )
        if verbose or answer.verdict == "wrong":
            lines += [f"              {line}" for line in answer.detail]
        if verbose and answer.supports:
            lines.append(f"              speaks for: {', '.join(answer.supports)}")
    counts = {word: sum(one.verdict == word for one in probed.answers) for word in marks}
    lines.append(f"{counts['right']} right, {counts['wrong']} wrong, {counts['undecided']} undecided")
    if counts["wrong"]:
        lines.append("next: wmmadiag diagnose names the cause and the line")
    return "\n".join(lines)


def as_data(probed: Probed) -> dict[str, Any]:
    """As JSON holds it."""
    from wmmadiag.results.model import to_builtins

    data: dict[str, Any] = to_builtins(probed)
    return data
