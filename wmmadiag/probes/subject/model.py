"""A kernel that probes can run on inputs of their own, and what a probe answers about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.run import emulator_of
from wmmadiag.compare.comparison import wrong_elements
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.launch import LoadedKernel
from wmmadiag.ops.evaluation import judge, reference, tolerance
from wmmadiag.ops.parts.epilogue import NEUTRAL
from wmmadiag.ops.parts.rounding import Judgement
from wmmadiag.ops.parts.score_terms import ScoreTerms, score_terms
from wmmadiag.probes.answer import Verdict
from wmmadiag.probes.subject.rerun import run_of
from wmmadiag.subject.bench import Workbench
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Case
from wmmadiag.subject.compiling import Texts
from wmmadiag.subject.inputs import rounded
from wmmadiag.subject.storage import bits
from wmmadiag.subject.verdict import unwritten_elements

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What a probe saw of a kernel."""

    # name, asks: of the probe
    name: str
    asks: str
    verdict: Verdict  # "right", "wrong" or "undecided"
    sentence: str  # the conclusion
    supports: tuple[str, ...] = ()  # names of causes that would look like this, `diagnose.names`
    detail: tuple[str, ...] = ()  # further lines


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A `ProbeAnswer` without its probe."""

    verdict: Verdict
    sentence: str
    supports: tuple[str, ...] = ()
    detail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """A run on chosen inputs against what is known of it."""

    role: str  # the main output
    # observed, expected, bound: float64, of the main output's logical shape
    observed: NDArray[np.float64]
    expected: NDArray[np.float64]
    bound: NDArray[np.float64]
    wrong: NDArray[np.bool_]  # mask, of the same shape
    others: tuple[str, ...] = ()  # roles of further outputs that are wrong

    @property
    def right(self) -> bool:
        """Whether every element of the main output is."""
        return not self.wrong.any()

    @property
    def verdict(self) -> Verdict:
        """ "undecided" where rounding alone could explain any value."""
        if not self.right:
            return "wrong"
        return "right" if np.isfinite(self.bound).all() else "undecided"

    @property
    def overflows(self) -> bool:
        """Whether only values that are not finite are wrong."""
        return not self.right and not np.isfinite(self.observed[self.wrong]).any()

    def where(self) -> str:
        """ "12 of 256 elements of o, the first o[0,3]: 1.5 instead of 2"."""
        if self.right:
            return f"all {self.wrong.size} elements of {self.role}"
        first = tuple(int(i) for i in np.argwhere(self.wrong)[0])
        index = ",".join(map(str, first))
        seen, want = float(self.observed[first]), float(self.expected[first])
        return (
            f"{int(self.wrong.sum())} of {self.wrong.size} elements of {self.role}, the first {self.role}[{index}]: "
            f"{seen:.4g} instead of {want:.4g}"
        )


@dataclass
class Subject:
    """One case of a kernel on a workbench."""

    # bench, case: what runs
    bench: Workbench
    case: Case
    texts: Texts | None = None  # files whose text is replaced, as `Workbench.run` takes them
    runs: int = field(default=0, init=False)

    @cached_property
    def bound(self) -> BoundCase:
        """The case's arrays and launch."""
        return self.bind(self.case)

    def bind(self, case: Case) -> BoundCase:
        """A case, bound as the workbench does."""
        return bind(self.bench.card, case, self.bench.variant, seed=self.bench.seed, inputs=self.bench.inputs)

    @cached_property
    def kernel(self) -> LoadedKernel:
        """The kernel, without checks."""
        return plain(self.bench.loaded(self.case, self.texts))

    @property
    def emulated(self) -> EmulatedKernel | None:
        """The kernel on the emulator; None on a GPU alone."""
        return emulator_of(self.kernel)

    @property
    def operation(self) -> str:
        """What the card says that it computes."""
        return self.bound.card.computes.operation

    @property
    def parameters(self) -> Mapping[str, float | int | bool | str]:
        """Of the operation."""
        return self.bound.parameters

    @cached_property
    def inputs(self) -> dict[str, NDArray[Any]]:
        """The case's own inputs by role."""
        return {role: array.copy() for role, array in self.bound.inputs().items()}

    @cached_property
    def neutral(self) -> dict[str, NDArray[Any]]:
        """Scales and a bias that leave a GEMM's product as it is."""
        return {role: self.values(role, np.array(value)) for role, value in NEUTRAL.items() if role in self.inputs}

    @cached_property
    def terms(self) -> ScoreTerms:
        """What the operation does to scores beyond scaling them."""
        keys = self.inputs["k"].shape[-2] if "k" in self.inputs else 0
        return score_terms(self.parameters, self.inputs if keys else {}, 0, keys)

    @cached_property
    def base(self) -> dict[str, NDArray[Any]]:
        """Outputs for the case's own inputs."""
        return dict(self.outputs({}))

    @cached_property
    def base_judged(self) -> Judged:
        """The case's own inputs, judged."""
        return self.judge_outputs({}, self.base)

    def outputs(self, inputs: Arrays) -> Mapping[str, NDArray[Any]]:
        """Outputs by role of a run in which some inputs (logical tensors by role) are replaced.

        Raises:
            WmmadiagError: the launch dies, or does not end.
        """
        self.runs += 1
        return run_of(self.bound, self.kernel.launch)(inputs)

    def values(self, role: str, values: NDArray[Any]) -> NDArray[Any]:
        """Float64 values as a role's type holds them, broadcast to its shape."""
        wide = np.broadcast_to(values, self.inputs[role].shape).astype(np.float64)
        return rounded(wide, self.bound.elements()[role])

    def judged(self, inputs: Arrays) -> Judged:
        """Run on some other inputs, and compare with the float64 reference within the rounding bound.

        Raises: as `outputs`.
        """
        return self.judge_outputs(inputs, self.outputs(inputs))

    def judge_outputs(self, inputs: Arrays, outputs: Arrays) -> Judged:
        """Compare the outputs of some inputs."""
        bound = self.bound
        elements = bound.elements()
        given = {**self.inputs, **inputs}
        expected = reference(self.operation, self.parameters, given)
        judgements: Mapping[str, Judgement]
        if bound.tolerance is not None:
            judgements = {role: tolerance(value, bound.tolerance) for role, value in expected.items()}
        else:
            judgements = judge(self.operation, self.parameters, given, expected, elements)
        wrong = {
            role: wrong_elements(
                seen,
                expected[role],
                judgements[role],
                element=elements[role],
                unwritten=unwritten_elements(bound, role, seen),
            )
            for role, seen in outputs.items()
            if role in judgements
        }
        role = self.output
        others = tuple(other for other, mask in wrong.items() if other != role and mask.any())
        with np.errstate(invalid="ignore"):
            seen = outputs[role].astype(np.float64)
        limit = np.broadcast_to(judgements[role].bound, seen.shape)
        return Judged(role, seen, np.asarray(expected[role], np.float64), limit, wrong[role], others)

    @cached_property
    def output(self) -> str:
        """Role of the main output."""
        outputs = self.bound.outputs()
        return next(role for role in ("o", "scores", "y", "d", "c", *outputs) if role in outputs)


def changed(first: NDArray[Any], second: NDArray[Any]) -> int:
    """How many elements of two outputs differ by a bit."""
    return int((bits(np.ascontiguousarray(first)) != bits(np.ascontiguousarray(second))).sum())


def plain(kernel: LoadedKernel) -> LoadedKernel:
    """The kernel without checks, on one thread: a probe's launches are short."""
    if isinstance(kernel, EmulatedKernel):
        return EmulatedKernel(kernel.kernel, replace(kernel.options, threads=1, checks=(), observer=None))
    return kernel


@dataclass(frozen=True, slots=True)
class SubjectProbe:
    """One question to a kernel."""

    name: str  # as users write it; the module has underscores for the hyphens
    asks: str  # the question, one line
    operations: tuple[str, ...]  # those that it is for
    run: Callable[[Subject], Conclusion | None]  # asks it; None where it does not apply to the case
    emulator: bool = False  # needs more than outputs


PRODUCTS = ("gemm", "qkt", "pv")
EVERY = ("attention", *PRODUCTS, "softmax")
