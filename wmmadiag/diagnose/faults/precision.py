"""Sums, scores or weights kept in a narrower type than the bound allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Prediction, Value
from wmmadiag.diagnose.faults.problem import Problem, Rows, row_maximum
from wmmadiag.diagnose.faults.registry import fault_model
from wmmadiag.subject.dtypes import TYPES
from wmmadiag.subject.inputs import rounded

_SIZES = 4.0  # how far the size of the errors may be from that of a simulation: the order of additions is unknown
_NARROW = ("f16", "bf16")


def narrow(values: Doubles, name: str) -> Doubles:
    """Rounded to a type and back."""
    with np.errstate(all="ignore"):
        return rounded(values, TYPES[name]).astype(np.float64)


def _scores_rounded(name: str, rows: Rows) -> Doubles:
    scores = narrow(rows.scored(rows.products * rows.problem.scale), name)
    return rows.attend(np.where(rows.allowed, scores, -np.inf) if rows.causal else scores)


def _products_rounded(name: str, rows: Rows) -> Doubles:
    scores = rows.scored(narrow(rows.products, name) * rows.problem.scale)
    return rows.attend(np.where(rows.allowed, scores, -np.inf) if rows.causal else scores)


def _scaled_query_rounded(name: str, rows: Rows) -> Doubles:
    scores = rows.scored(narrow(rows.left * rows.problem.scale, name) @ rows.right)
    return rows.attend(np.where(rows.allowed, scores, -np.inf) if rows.causal else scores)


def _plain_weights_rounded(name: str, rows: Rows) -> Doubles:
    # exp(score) without subtracting the maximum: large scores overflow.
    exact = np.exp(rows.scores)
    weights = narrow(exact, name)
    result: Doubles = rows.combine(weights) / exact.sum(axis=1, keepdims=True)
    return result


def _plain_weights_rounded_before_sum(name: str, rows: Rows) -> Doubles:
    weights = narrow(np.exp(rows.scores), name)
    result: Doubles = rows.combine(weights) / weights.sum(axis=1, keepdims=True)
    return result


def _difference_rounded(name: str, rows: Rows) -> Doubles:
    return rows.attend(narrow(rows.scores - row_maximum(rows.scores), name))


def _weights_rounded(name: str, rows: Rows) -> Doubles:
    result: Doubles = rows.combine(narrow(rows.exponentials, name)) / rows.sums
    return result


_ROUNDED: tuple[tuple[str, str, Callable[[str, Rows], Doubles]], ...] = (
    ("scores-rounded", "the scaled scores are rounded to {type} before the softmax", _scores_rounded),
    ("products-rounded", "Q·Kᵀ is rounded to {type} before it is scaled", _products_rounded),
    ("scaled-query-rounded", "scale · Q is rounded to {type} before Q·Kᵀ", _scaled_query_rounded),
    ("exponentials-overflow", "exp(score) is kept in {type} without subtracting the maximum", _plain_weights_rounded),
    (
        "exponentials-overflow",
        "exp(score) is kept in {type} without subtracting the maximum, and its rounded values are summed",
        _plain_weights_rounded_before_sum,
    ),
    ("difference-rounded", "score - maximum is rounded to {type}", _difference_rounded),
    ("weights-rounded", "P is rounded to {type}", _weights_rounded),
)


@fault_model("attention", rank=50)
def rounded_stages(problem: Problem) -> Iterator[Candidate]:
    """One stage of the softmax rounded to f16 or bf16."""
    del problem
    for name in _NARROW:
        for model, words, stage in _ROUNDED:
            predict: Prediction = partial(stage, name)
            yield Candidate("p-precision", model, words.format(type=name), predict, {"type": name})


def summed_in_half(left: Doubles, right: Doubles, step: int) -> Doubles:
    """Left · right with the running sum rounded to f16 after every `step` products."""
    total = np.zeros((left.shape[0], right.shape[1]))
    for start in range(0, left.shape[1], step):
        total = narrow(total + left[:, start : start + step] @ right[start : start + step], "f16")
    return total


def _product_in_half(rows: Rows, step: int) -> Doubles:
    return rows.finish(summed_in_half(rows.left, rows.right, step))


def _attention_in_half(rows: Rows, step: int, stages: str) -> Doubles:
    scores = rows.scores
    if "q" in stages:
        products = rows.scored(summed_in_half(rows.left, rows.right, step) * rows.problem.scale)
        scores = np.where(rows.allowed, products, -np.inf) if rows.causal else products
    weights = np.exp(scores - row_maximum(scores))
    values = rows.values
    assert values is not None
    summed = summed_in_half(weights, values, step) if "p" in stages else weights @ values
    result: Doubles = summed / weights.sum(axis=1, keepdims=True)
    return result


@fault_model("attention", "qkt", "pv", "gemm", rank=52)
def half_accumulation(problem: Problem) -> Iterator[Candidate]:
    """Sums in f16: every error within that bound, of the size that a simulation has, and on both sides alike.

    The order of additions is unknown, so bits are not compared; that is less evidence than a prediction is.
    """
    if problem.parameters.get("accumulate") not in ("auto", "f32") or not np.isfinite(problem.observed).all():
        return
    if any(not problem.elements[role].is_float for role in problem.arrays):
        return
    error = problem.observed - problem.expected
    rows = _sample(problem)
    seen = (problem.observed[rows.lead][rows.index] - rows.expected).ravel()
    size = float(np.sqrt(np.mean(seen**2)))
    if abs(float(error.mean())) > 0.3 * float(np.sqrt(np.mean(error**2))):
        return
    where = {"q": "Q·Kᵀ is", "p": "P·V is", "qp": "Q·Kᵀ and P·V are"} if problem.operation == "attention" else {"": ""}
    for step in (16, 8, 4, 1):
        changes: Mapping[str, Value] = {"accumulate": "f16", "accumulate_step": step}
        if (np.abs(error) > problem.allowed_under(changes)).any():
            continue
        for stages, words in where.items():
            simulated = _attention_in_half(rows, step, stages) if stages else _product_in_half(rows, step)
            expected = float(np.sqrt(np.mean((simulated - rows.expected) ** 2)))
            if not size / _SIZES <= expected <= size * _SIZES:
                continue
            said = f"{words or 'the sum is'} accumulated in half precision"
            yield Candidate(
                "half-accumulation",
                "half-accumulation" + (f"-{stages}" if stages else ""),
                said,
                _oracle,
                {"step": step, "error": size, "simulated": expected},
                coarser=changes,
            )
        return  # larger sums of errors explain no better


def _oracle(rows: Rows) -> Doubles:
    return rows.output


def _sample(problem: Problem) -> Rows:
    """Up to 24 rows of the head with most wrong elements."""
    counts = problem.wrong.sum(axis=(2, 3))
    lead = max(problem.leads, key=lambda one: int(counts[one]))
    count = problem.observed.shape[2]
    return problem.rows(lead, np.unique(np.linspace(0, count - 1, 24).astype(np.intp)))
