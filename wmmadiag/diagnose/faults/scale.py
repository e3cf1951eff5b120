"""Another factor of the scores or of the result: 1/sqrt(D) missing, twice, the wrong base of the exponential."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Prediction
from wmmadiag.diagnose.faults.problem import Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model

LOG2E = math.log2(math.e)
_NEAR = 2e-3  # relative, of a fitted factor to a closed form: what the bounds of f16 results leave open


def with_scores_scaled(factor: float) -> Prediction:
    """softmax(factor · Q·Kᵀ + mask) · V."""

    def predict(rows: Rows) -> Doubles:
        scores = rows.scored(rows.products * factor)
        return rows.attend(np.where(rows.allowed, scores, -np.inf) if rows.causal else scores)

    return predict


def with_result_scaled(factor: float) -> Prediction:
    """Factor · oracle."""
    return lambda rows: rows.output * factor


def _score_factor(problem: Problem, hypothesis: str, model: str, words: str, factor: float) -> Candidate:
    growth = abs(factor / problem.scale) if problem.scale else abs(factor)
    return Candidate(hypothesis, model, words, with_scores_scaled(factor), {"factor": factor}, looser=max(1.0, growth))


@fault_model("attention", "softmax", rank=10)
def known_score_factors(problem: Problem) -> Iterator[Candidate]:
    """Factors that code writes by mistake."""
    scale = problem.scale
    for hypothesis, model, words, factor in _closed_forms(problem):
        if not math.isclose(factor, scale, rel_tol=1e-9):
            yield _score_factor(problem, hypothesis, model, words, factor)


def _closed_forms(problem: Problem) -> list[tuple[str, str, str, float]]:
    scale = problem.scale
    what = "softmax(Q·Kᵀ)·V" if problem.operation == "attention" else "softmax(X)"
    text = f"{scale:g}"
    found = [
        ("softmax-scale", "scale-missing", f"the kernel computes {what}: the factor {text} is missing", 1.0),
        ("softmax-scale", "scale-twice", f"the scores are multiplied by {text} twice", scale * scale),
        ("exp-base", "exp2-without-log2e", "the exponential is taken to base 2, and log2(e) is missing", scale / LOG2E),
        (
            "exp-base",
            "exp-with-log2e",
            "the scores carry a factor log2(e), but the exponential has base e",
            scale * LOG2E,
        ),
        ("exp-base", "exp2-and-scale-missing", f"exp2 without log2(e), and the factor {text} is missing", 1 / LOG2E),
        ("exp-base", "exp-with-log2e-twice", "the scores carry a factor log2(e) twice", scale * LOG2E * LOG2E),
        ("softmax-scale", "scale-inverted", f"the scores are divided by {text} instead of multiplied", 1 / scale),
        ("softmax-scale", "scale-negative", "the scores have the wrong sign", -scale),
        ("softmax-scale", "scale-square-root", f"the factor is sqrt({text})", math.sqrt(abs(scale))),
    ]
    if problem.operation == "attention":
        depth = problem.arrays["q"].shape[-1]
        keys, width = problem.arrays["v"].shape[-2:]
        heads = problem.observed.shape[1]
        for name, value in (("D", depth), ("Dv", width), ("S", keys), ("the number of heads", heads)):
            if value > 1:
                found += [
                    (
                        "softmax-scale",
                        f"scale-1/{name}",
                        f"the factor is 1/{name} = {1 / value:g}, not {text}",
                        1.0 / value,
                    ),
                    (
                        "softmax-scale",
                        f"scale-1/sqrt({name})",
                        f"the factor is 1/sqrt({name}) = {value**-0.5:g}, not {text}",
                        value**-0.5,
                    ),
                    (
                        "softmax-scale",
                        f"scale-sqrt({name})",
                        f"the factor is sqrt({name}) = {value**0.5:g}, not {text}",
                        value**0.5,
                    ),
                ]
        for width in (32, 64, 80, 96, 128, 256):
            if width != depth:
                found.append(
                    (
                        "softmax-scale",
                        "scale-of-other-width",
                        f"the factor is 1/sqrt({width}), but D is {depth}",
                        width**-0.5,
                    )
                )
    return found


@fault_model("attention", "softmax", rank=60)
def fitted_score_factor(problem: Problem) -> Iterator[Candidate]:
    """The factor that fits some rows best."""
    rows = _sample(problem)
    if rows is None or problem.scale == 0:
        return
    observed = problem.observed[rows.lead][rows.index]

    def error(factor: float) -> float:
        difference = np.minimum(np.abs(with_scores_scaled(factor)(rows) - observed), 1e3)
        return float(np.nansum(difference))

    grid = [problem.scale * sign * 2.0 ** (step / 2) for sign in (1, -1) for step in range(-16, 17)]
    best = min(grid, key=error)
    low, high = sorted((best / 1.42, best * 1.42))
    for _ in range(45):
        first, second = low + (high - low) * 0.381966, low + (high - low) * 0.618034
        if error(first) < error(second):
            high = second
        else:
            low = first
    factor = (low + high) / 2
    if math.isclose(factor, problem.scale, rel_tol=_NEAR):
        return
    if any(math.isclose(factor, known, rel_tol=_NEAR) for _, _, _, known in _closed_forms(problem)):
        return  # tried exactly
    words = f"the scores are multiplied by about {factor:.4g} instead of {problem.scale:g}"
    yield _score_factor(problem, "softmax-scale", "scale-fitted", words, factor)


@fault_model("attention", "softmax", "gemm", "qkt", "pv", rank=12)
def result_factor(problem: Problem) -> Iterator[Candidate]:
    """The whole result multiplied by one number."""
    rows = _sample(problem)
    if rows is None:
        return
    observed, expected = problem.observed[rows.lead][rows.index], rows.expected
    usable = np.isfinite(observed) & (np.abs(expected) > 20 * problem.allowed[rows.lead][rows.index])
    if np.count_nonzero(usable) < 4:
        return
    weights = np.abs(expected[usable])
    ratio = observed[usable] / expected[usable]
    order = np.argsort(ratio)
    share = np.cumsum(weights[order])
    factor = float(ratio[order][np.searchsorted(share, share[-1] / 2)])  # weighted median: some rows may differ
    if not math.isfinite(factor) or math.isclose(factor, 1.0, rel_tol=_NEAR):
        return
    hypothesis, model, words, exact = _result_form(problem, factor)
    yield Candidate(hypothesis, model, words, with_result_scaled(exact), {"factor": exact}, looser=max(1.0, abs(exact)))


def _result_form(problem: Problem, factor: float) -> tuple[str, str, str, float]:
    scale = problem.scale
    name = "alpha" if problem.operation == "gemm" else "the scale"
    of_scale = "epilogue" if problem.operation == "gemm" else "softmax-scale"
    if factor == 0.0:
        return "unwritten-output", "result-zero", "the result is 0", 0.0
    forms: list[tuple[str, str, str, float]] = []
    if scale not in (0.0, 1.0):
        if problem.attends:
            forms.append(("softmax-scale", "scale-after-softmax", f"the result is multiplied by {scale:g}", scale))
        else:
            forms += [
                (of_scale, "scale-missing", f"{name} ({scale:g}) is missing", 1 / scale),
                (of_scale, "scale-twice", f"the result is multiplied by {name} ({scale:g}) twice", scale),
                (of_scale, "scale-inverted", f"the result is divided by {name} ({scale:g})", scale**-2),
            ]
    depth = next(iter(problem.arrays.values())).shape[-1]
    forms += [
        (of_scale, "scale-added", f"the result is multiplied by 1/sqrt({depth})", depth**-0.5),
        (of_scale, "scale-added", f"the result is multiplied by 1/{depth}", 1 / depth),
        ("normalisation", "result-negated", "the result has the wrong sign", -1.0),
        ("loop-extent", "result-doubled", "the result is twice what it should be: the sum is taken twice", 2.0),
    ]
    for form in forms:
        if math.isclose(factor, form[3], rel_tol=_NEAR):
            return form
    if abs(factor - round(factor)) < _NEAR * abs(factor) and 1 < abs(round(factor)) <= 64:
        times = round(factor)
        return "loop-extent", "result-repeated", f"the result is {times} times what it should be", float(times)
    hypothesis = "normalisation" if problem.attends else of_scale
    return hypothesis, "result-factor", f"the result is multiplied by about {factor:.5g}", factor


def _sample(problem: Problem) -> Rows | None:
    """Up to 6 wrong, finite rows of the head with most wrong elements."""
    counts = problem.wrong.sum(axis=(2, 3))
    lead = max(problem.leads, key=lambda one: int(counts[one]))
    rows = np.flatnonzero(problem.wrong[lead].any(axis=1) & np.isfinite(problem.observed[lead]).all(axis=1))
    if not rows.size:
        return None
    return problem.rows(lead, rows[np.unique(np.linspace(0, rows.size - 1, 6).astype(np.intp))])
