"""Reports to render: made of real comparisons, so that they cannot drift from the model."""

from __future__ import annotations

import numpy as np

from wmmadiag.compare.comparison import compare
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.parts.rounding import Judgement
from wmmadiag.results.model import CaseResult, CompiledVariant, KernelReport, Overwritten, Problem, ResourceUse

F16 = TYPES["f16"]


def seen(change=None, shape=(1, 2, 100, 64), against="reference"):
    expected = np.sin(np.arange(np.prod(shape))).reshape(shape)
    observed = expected.astype(np.float16)
    poison = np.zeros(shape, bool)
    if change is not None:
        change(observed, poison)
    bound = Judgement(np.full(shape, 2.0**-10))
    return compare(observed, expected, bound, output="O", element=F16, unwritten=poison, axes="BHSD", against=against)


def report(cases, compiled=()):
    kernels = compiled or (
        CompiledVariant("scalar", "attention", {"USE_WMMA": "0", "HEAD_DIM": "64"}),
        CompiledVariant(
            "wmma", "attention", {"USE_WMMA": "1", "HEAD_DIM": "64"}, resources=ResourceUse(96, 0, 0, 0, 37888)
        ),
    )
    return KernelReport(
        "attention", "kernel.toml", "kernel.cu", "attention", "sm_90", "emulator", tuple(kernels), tuple(cases), 1.25
    )


def case(variant, name, status, observations, **more):
    symbols = {"B": 1, "H": 2, "S": 100, "D": 64}
    return CaseResult(
        variant, name, status, symbols, (4, 2, 1), (128, 1, 1), 9216, "normal", 0, tuple(observations),
        warp_instructions=130032, seconds=0.0035, **more,
        repeat="wmmadiag check kernel.toml --arch sm_90 --case tail --seed 0",
    )  # fmt: skip


def passing():
    compiled = [CompiledVariant("wmma", "attention", {"USE_WMMA": "1", "HEAD_DIM": str(d)}) for d in (32, 64)]
    cases = [case("wmma", name, "passed", [seen()]) for name in ("tail", "a_case_with_a_long_name")]
    return report(cases, compiled)


def rows(observed, _poison):
    observed[0, 1, 32:64, :16] += 0.25
    observed[0, 0, 5, 7] = np.inf


def broken():
    wrong = [seen(rows), seen(rows, against="scalar")]
    cases = [case("scalar", "tail", "passed", [seen()])]
    cases += [case("wmma", f"tail{i}", "failed", wrong) for i in range(5)]
    return report(cases)


def everything():
    def unwritten(observed, poison):
        observed[..., 16:32, :] = np.nan
        poison[..., 16:24, :] = True

    def periodic(observed, _poison):
        observed[:, ::3, 16:32] += 1
        observed[:, :, 48:64] += 1
        observed[:, :, 80:96] += 1
        observed[:, :, 112:128] += 1

    def all_wrong(observed, _poison):
        observed += 1
        observed[..., 0, 0] -= 1

    fault = Problem(
        "out-of-bounds", "reads 16 bytes past the end of 'k'", "kernel.cu:86:13",
        "  inside wmma::load_matrix_sync (mma.hpp:89)", (1, 0, 0), 2, 7, "address 0x7f00",
        "check the leading dimension",
    )  # fmt: skip
    notes = ('every difference would be within the bound with accumulate = "f16"; if the kernel means that, let the '
             "card say so",)  # fmt: skip
    memory = (Overwritten("O", "guard", 3, 70), Overwritten("K", "input", 1, 0))
    budget = Problem("budget", "the run used up its 10 s", hint="raise --timeout")
    compiling = Problem("compile", "kernel.cu does not compile", detail="kernel.cu(3): error")
    return report([
        case("wmma", "fault", "failed", [], problem=fault),
        case("wmma", "unwritten", "failed", [seen(unwritten)], notes=notes),
        case("wmma", "memory", "failed", [seen()], overwritten=memory),
        case("wmma", "later", "failed", [seen(rows)]),
        case("scalar", "heads", "failed", [seen(periodic, (2, 8, 130, 64))]),
        case("scalar", "large", "failed", [seen(all_wrong, (1, 2, 2048, 128))], output="hello\nworld\n"),
        case("scalar", "budget", "undecided", [], problem=budget),
        case("scalar", "compile", "error", [], problem=compiling),
    ])  # fmt: skip
