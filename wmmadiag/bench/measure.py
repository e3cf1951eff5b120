"""Time every variant of a card's case; the result is checked first, since a wrong kernel's time means nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmmadiag.errors import ConfigurationError, WmmadiagError
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.parts.score_terms import score_terms
from wmmadiag.ops.shapes import floating_operations
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Card, Case, Variant
from wmmadiag.subject.card_session import session_for
from wmmadiag.subject.compiling import SubjectCompiler
from wmmadiag.subject.symbols import rendered_entry
from wmmadiag.subject.verdict import judge_case


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One variant of one case, or a reference."""

    name: str  # of the variant, or "torch SDPA"
    case: str  # its name
    status: str  # of the check before the timing: "passed", "failed", "undecided", "reference", or "error"
    seconds: float = 0.0  # median
    spread: float = 0.0  # between the fastest and the slowest half's medians, as a share of the median
    operations: float = 0.0  # of the matrix products
    peak: float = 0.0  # share of the device's measured `mma.sync` rate, 0.0 if not known
    # registers, spills, shared: per thread, bytes per thread, bytes per block; -1 if not known
    registers: int = -1
    spills: int = -1
    shared: int = -1
    occupancy: float = 0.0  # warps on a multiprocessor over what it can hold, 0.0 if not known
    warp_instructions: int = 0  # executed (emulator)
    difference: float = float("nan")  # largest absolute difference from torch's output, NaN if not compared
    note: str = ""  # what went wrong, or ""

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds if self.seconds else 0.0


def bench_card(
    card: Card,
    *,
    arch: str,
    backend: str,
    cases: Sequence[str] | None = None,
    variants: Sequence[str] | None = None,
    reference: str = "",
    repeats: int = 50,
    seed: int | None = None,
) -> Iterator[BenchRow]:
    """Check and time; rows come as they are measured.

    Args:
        cases: names; None for the one with the most work.
        variants: names; None for all. The first one is the baseline of comparisons.
        reference: "torch" to time and compare with torch's attention, too.

    Raises:
        ConfigurationError: an unknown name, no GPU, or a reference that the operation does not have.
    """
    if reference and (reference != "torch" or card.computes.operation != "attention"):
        raise ConfigurationError(
            f"there is no reference '{reference}' for {card.computes.operation}",
            hint="--reference torch, for attention",
        )
    chosen_variants = card.variants if variants is None else tuple(card.variant(name) for name in variants)
    chosen_cases = [_largest(card, chosen_variants[0])] if cases is None else [card.case(name) for name in cases]
    compiler = SubjectCompiler()
    for case in chosen_cases:
        outputs: dict[str, Any] = {}
        for variant in chosen_variants:
            try:
                bound = bind(card, case, variant, seed=seed)
                row = _measured(bound, compiler, arch, backend, repeats)
                outputs[variant.name] = bound
            except WmmadiagError as error:
                row = BenchRow(variant.name, case.name, "error", note=error.message)
            if reference and variant.name in outputs:
                row, extra = _against_torch(outputs[variant.name], row, repeats)
                if variant is chosen_variants[0]:
                    yield extra
            yield row


def _work(bound: BoundCase) -> float:
    shapes = {role: array.shape for role, array in {**bound.inputs(), **bound.outputs()}.items()}
    return floating_operations(OPERATIONS[bound.card.computes.operation], shapes, bound.parameters)


def _largest(card: Card, variant: Variant) -> Case:
    def work(case: Case) -> float:
        try:
            return _work(bind(card, case, variant))
        except WmmadiagError:
            return -1.0

    return max(card.cases, key=work)


def _measured(bound: BoundCase, compiler: SubjectCompiler, arch: str, backend: str, repeats: int) -> BenchRow:
    card, variant = bound.card, bound.variant
    entry = rendered_entry(card, bound.case, variant)
    options = session_for(card, arch, None, compiler).compile_options(bound.case, variant)
    compilation = compiler(variant.source or card.source, options)
    symbol = compilation.entry(entry).name
    if backend == "emulator":
        return _on_emulator(bound, compilation.ptx, symbol, arch, repeats)
    return _on_gpu(bound, compilation.ptx, symbol, arch, repeats)


def _on_emulator(bound: BoundCase, ptx: str, symbol: str, arch: str, repeats: int) -> BenchRow:
    from wmmadiag.emulator import load

    kernel = load(ptx, symbol, arch=arch)
    stats = [kernel.launch(bound.launch)]
    verdict = judge_case(bound)
    while len(stats) < min(repeats, 5):
        stats.append(kernel.launch(bound.launch))
    seconds = [one.seconds for one in stats[1:] or stats]
    return BenchRow(
        bound.variant.name,
        bound.case.name,
        verdict.status,
        statistics.median(seconds),
        _spread(seconds),
        _work(bound),
        warp_instructions=stats[0].warp_instructions,
    )


def _on_gpu(bound: BoundCase, ptx: str, symbol: str, arch: str, repeats: int) -> BenchRow:
    from wmmadiag.bench.peak import measured_peak
    from wmmadiag.gpu import load

    kernel = load(ptx, symbol, arch=arch)
    kernel.launch(bound.launch)
    verdict = judge_case(bound)
    timing = kernel.time(bound.launch, repeats=repeats)
    attributes, device = timing.attributes, kernel.device
    work = _work(bound)
    first = next(
        (a.spec.element.name for a in bound.arguments if a.spec.direction == "in" and a.storage is not None), ""
    )
    peak = measured_peak(device, first) if work else 0.0
    threads = int(np.prod(bound.launch.block))
    median = statistics.median(timing.seconds)
    return BenchRow(
        bound.variant.name,
        bound.case.name,
        verdict.status,
        median,
        _spread(timing.seconds),
        work,
        work / median / peak if peak else 0.0,
        attributes.registers,
        attributes.local_bytes,
        attributes.static_shared + bound.launch.shared_bytes,
        attributes.blocks * -(-threads // 32) / (device.threads // 32),
    )


def _against_torch(bound: BoundCase, row: BenchRow, repeats: int) -> tuple[BenchRow, BenchRow]:
    """The row with its difference from torch, and torch's own row."""
    from dataclasses import replace

    from wmmadiag.bench.torch_reference import torch_attention

    element = bound.elements()["q"].name
    parameters = bound.parameters
    found = torch_attention(
        bound.inputs(), element, scale=float(parameters["scale"]), causal=bool(parameters["causal"]), repeats=repeats
    )
    terms = score_terms(parameters, bound.inputs(), 0, bound.inputs()["k"].shape[-2])
    if terms.modifies or terms.masks_otherwise:
        raise ConfigurationError(
            "torch's attention is compared with nothing but a causal mask", hint="leave --reference out"
        )
    output = bound.outputs()["o"].astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = float(np.abs(output - found.output).max())
    name = f"torch {found.version} SDPA"
    return (
        replace(row, difference=difference),
        BenchRow(name, bound.case.name, "reference", found.seconds, 0.0, _work(bound)),
    )


def _spread(seconds: Sequence[float]) -> float:
    ordered = sorted(seconds)
    half = max(1, len(ordered) // 2)
    middle = statistics.median(ordered)
    return (statistics.median(ordered[-half:]) - statistics.median(ordered[:half])) / middle if middle else 0.0
