"""An operand or the result rearranged: `transforms` applied to Q, K, V, A, B, C, P and the output."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Prediction
from wmmadiag.diagnose.faults.problem import Lead, Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model
from wmmadiag.diagnose.faults.transforms import Rearrange, Transform, transforms

_NAMES = {"q": "Q", "k": "K", "v": "V", "p": "P", "a": "A", "b": "B", "c": "C", "x": "X"}
_LARGEST = 1 << 18  # elements of one matrix: rearranging larger ones takes too long


def with_operand(role: str, apply: Rearrange) -> Prediction:
    """The oracle with one operand rearranged; where it reads outside the matrix, NaN spreads to what depends on it."""

    def source(problem: Problem, lead: Lead) -> Doubles:
        return apply(problem.matrix(role, lead))

    return lambda rows: rows.using(**{role: source}).output


def with_output(apply: Rearrange) -> Prediction:
    """The oracle's output rearranged."""
    return lambda rows: apply(rows.problem.expected[rows.lead])[rows.index]


@fault_model("attention", "qkt", "pv", "gemm", rank=35)
def rearranged(problem: Problem) -> Iterator[Candidate]:
    """One operand or the result, addressed wrongly."""
    shapes = [array.shape[-2:] for array in problem.arrays.values()] + [problem.observed.shape[-2:]]
    extents = frozenset(int(extent) for shape in shapes for extent in shape if extent > 1)
    for role, array in problem.arrays.items():
        if role not in _NAMES or array.shape[-1] * array.shape[-2] > _LARGEST:
            continue
        if role == "c" and not problem.parameters.get("beta"):
            continue
        for one in transforms(array.shape[-2:], extents):
            yield _candidate(role, one)
    if problem.observed.shape[-1] * problem.observed.shape[-2] <= _LARGEST:
        for one in transforms(problem.observed.shape[-2:], extents):
            words = one.words.format(what="the result")
            parameters = {"operand": problem.role, **one.parameters}
            yield Candidate(
                one.hypothesis, f"{one.model}-output", words, with_output(one.apply), parameters, looser=3.0
            )


def _candidate(role: str, one: Transform) -> Candidate:
    name = _NAMES[role]
    words = one.words.format(what=name)
    if role == "k" and one.model in ("transposed", "tiles-transposed"):
        words += ": the kernel computes Q·K there instead of Q·Kᵀ"
    return Candidate(
        one.hypothesis,
        f"{one.model}-{role}",
        words,
        with_operand(role, one.apply),
        {"operand": role, **one.parameters},
        looser=2.0,
    )


@fault_model("gemm", "attention", rank=34)
def exchanged(problem: Problem) -> Iterator[Candidate]:
    """Two operands of the same shape exchanged, or one used twice."""
    roles = ("a", "b") if problem.operation == "gemm" else ("q", "k", "v")
    for first in roles:
        for second in roles:
            if first == second or problem.arrays[first].shape[-2:] != problem.arrays[second].shape[-2:]:
                continue
            a, b = _NAMES[first], _NAMES[second]
            yield Candidate(
                "operand-order",
                "operand-instead",
                f"{b} is read in place of {a}",
                _reading({first: second}),
                {"operand": first, "read": second},
                looser=2.0,
            )
            if first < second:
                yield Candidate(
                    "operand-order",
                    "operands-exchanged",
                    f"{a} and {b} are exchanged",
                    _reading({first: second, second: first}),
                    {"operand": first, "read": second},
                    looser=2.0,
                )


def _reading(instead: dict[str, str]) -> Prediction:
    def predict(rows: Rows) -> Doubles:
        return rows.using(
            **{
                role: (lambda problem, lead, other=other: problem.matrix(other, lead))
                for role, other in instead.items()
            }
        ).output

    return predict


@fault_model("attention", "qkt", "gemm", rank=33)
def wrong_axis(problem: Problem) -> Iterator[Candidate]:
    """Q·K per D×D tile where Q·Kᵀ is meant: the sum runs over the keys of a tile instead of over D."""
    if problem.operation == "gemm":
        return
    keys, depth = problem.arrays["k"].shape[-2:]
    if keys == depth or keys < depth:
        return  # `rearranged` transposes a square K
    yield Candidate(
        "operand-layout",
        "tiles-transposed-k",
        f"Q·K per tile of {depth} keys instead of Q·Kᵀ",
        with_operand("k", lambda m: _tail_open(m, depth)),
        {"operand": "k", "tile": depth},
        looser=2.0,
    )


def _tail_open(matrix: Doubles, tile: int) -> Doubles:
    """Square tiles transposed, the incomplete last one with zeros past the end."""
    padded = np.zeros((-(-matrix.shape[0] // tile) * tile, tile))
    padded[: matrix.shape[0]] = matrix
    turned = padded.reshape(-1, tile, tile).transpose(0, 2, 1).reshape(padded.shape)
    return np.ascontiguousarray(turned[: matrix.shape[0]])
