"""Sums of products that miss terms or take them twice: slices of D in Q·Kᵀ, of K in a GEMM, of the keys in P·V."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Prediction
from wmmadiag.diagnose.faults.problem import Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model
from wmmadiag.diagnose.faults.tail import with_keys
from wmmadiag.subject.epilogue import finished

_STEPS = (16, 8, 32, 64, 4, 128)
_LARGEST_SOLVED = 512  # unknowns


def with_depth(times: Doubles) -> Prediction:
    """The first product's terms counted `times` (depth,). Its `predict` raises ValueError for another depth."""
    used = np.flatnonzero(times)
    plain = bool((times[used] == 1.0).all())

    def predict(rows: Rows) -> Doubles:
        if rows.left.shape[1] != times.size:
            raise ValueError("made for another depth")
        left = rows.left[:, used]
        products = (left if plain else left * times[used]) @ rows.right[used]
        if not rows.problem.attends:
            return rows.finish(products)
        scores = rows.scored(products * rows.problem.scale)
        return rows.attend(np.where(rows.allowed, scores, -np.inf) if rows.causal else scores)

    return predict


def _candidate(
    problem: Problem, hypothesis: str, model: str, words: str, times: Doubles, step: int, first: int, stop: int
) -> Candidate:
    where = {"attention": "Q·Kᵀ", "qkt": "Q·Kᵀ", "pv": "P·V"}.get(problem.operation, "A·B")
    parameters = {"step": step, "first": first, "last": stop - 1}
    looser = max(1.0, float(times.max(initial=1.0)))
    return Candidate(hypothesis, model, f"{where}: {words}", with_depth(times), parameters, looser=looser)


@fault_model("attention", "qkt", "pv", "gemm", rank=28)
def slices(problem: Problem) -> Iterator[Candidate]:
    """One slice dropped, used twice, or the only one left."""
    depth = _depth(problem)
    done: set[tuple[str, int, int]] = set()
    # An accumulator that is cleared or overwritten at each step leaves the last one: likelier than a late start.
    survivor = "tile-overwritten" if problem.operation == "pv" else "accumulator-reset"
    for step in _STEPS:
        if step < depth:
            first = (depth - 1) // step * step
            done.add(("slice-only", first, depth))
            inside = np.zeros(depth)
            inside[first:] = 1.0
            words = f"only the last slice ({first} to {depth - 1}) of the sum is left"
            yield _candidate(problem, survivor, "slice-only", words, inside, step, first, depth)
    for step in _STEPS:
        if step >= depth:
            continue
        count = -(-depth // step)
        numbers = range(count) if count <= 16 else (0, 1, count - 2, count - 1)
        for number in numbers:
            first, stop = number * step, min(number * step + step, depth)
            inside = np.zeros(depth)
            inside[first:stop] = 1.0
            which = f"slice {number} ({first} to {stop - 1}) of the sum"
            for model, hypothesis, words, times in (
                ("slice-only", "loop-extent", f"only {which} is left", inside),
                ("slice-dropped", "loop-extent", f"{which} is missing", 1.0 - inside),
                ("slice-twice", "loop-extent", f"{which} is added twice", 1.0 + inside),
            ):
                if (model, first, stop) not in done:
                    done.add((model, first, stop))
                    yield _candidate(problem, hypothesis, model, words, times, step, first, stop)
        if depth % step:
            first = depth // step * step
            inside = np.zeros(depth)
            inside[first:] = 1.0
            if ("slice-dropped", first, depth) not in done:
                done.add(("slice-dropped", first, depth))
                words = f"the tail of the sum ({first} to {depth - 1}) is missing"
                yield _candidate(problem, "loop-extent", "slice-dropped", words, 1.0 - inside, step, first, depth)
    for half in {depth // 2}:
        inside = np.zeros(depth)
        inside[:half] = 1.0
        yield _candidate(
            problem,
            "loop-extent",
            "slice-only",
            f"only the first half of the sum ({half} terms) is used",
            inside,
            half,
            0,
            half,
        )
    for first, stop in ((0, 1), (depth - 1, depth)):
        inside = np.zeros(depth)
        inside[first:stop] = 1.0
        yield _candidate(
            problem, "loop-extent", "slice-dropped", f"term {first} of the sum is missing", 1.0 - inside, 1, first, stop
        )


def _depth(problem: Problem) -> int:
    rows = problem.rows(problem.leads[0], np.zeros(1, np.intp))
    return int(rows.left.shape[1])


@fault_model("qkt", "pv", "gemm", rank=70)
def solved_terms(problem: Problem) -> Iterator[Candidate]:
    """How often each term of the sum is counted, solved from the output by least squares.

    A product's output is linear in the counts: out - beta·C = alpha · Σ_k c_k · left_k · right_k. Counts that are not
    near whole numbers are no answer.
    """
    depth = _depth(problem)
    if depth > _LARGEST_SOLVED or problem.parameters.get("activation", "none") != "none" or problem.terms.softcap:
        return
    sampled = _enough_rows(problem, depth)
    if sampled is None:
        return
    rows, observed = sampled
    base = rows.finish(np.zeros(observed.shape))
    ones = np.ones(observed.shape)
    factors = (rows.finish(ones) - base).reshape(-1, 1)
    terms = (rows.left[:, None, :] * rows.right.T[None, :, :]).reshape(-1, depth) * factors
    counts = _whole(_solved(terms, (observed - base).reshape(-1)))
    if counts is None or (counts == 1).all() or not counts.any() or _is_a_factor(problem, counts):
        return
    changed = np.flatnonzero(counts != 1)
    words = f"terms {ranges(np.flatnonzero(counts == 0))} of the sum are missing" if (counts == 0).any() else ""
    if (counts > 1).any():
        words += (" and " if words else "") + f"terms {ranges(np.flatnonzero(counts > 1))} are added more than once"
    if (counts < 0).any():
        words += (" and " if words else "") + f"terms {ranges(np.flatnonzero(counts < 0))} are subtracted"
    yield _candidate(problem, "loop-extent", "terms-counted", words, counts, 1, int(changed[0]), int(changed[-1]) + 1)


def _is_a_factor(problem: Problem, counts: Doubles) -> bool:
    """Whether the whole sum is multiplied by what alpha and beta make: `linear_terms` says that more plainly."""
    if problem.operation != "gemm" or (counts != counts[0]).any():
        return False
    alpha, beta = float(problem.parameters["alpha"]), float(problem.parameters["beta"])
    return bool(counts[0] == beta or counts[0] * alpha in (1.0, beta))


@fault_model("attention", rank=71)
def solved_keys(problem: Problem) -> Iterator[Candidate]:
    """How often each key is counted, solved from the output: Σ_j c_j·e_ij·(v_j - o_i) = 0, and Σ_j c_j·p_ij·v_j = o_i.

    The first form is for counts that the row sum shares (c is then the null vector, taken so that most counts are 1),
    the second for counts in the output alone.
    """
    keys = int(problem.arrays["k"].shape[2])
    if keys > _LARGEST_SOLVED or problem.operation != "attention":
        return
    sampled = _enough_rows(problem, keys)
    if sampled is None:
        return
    rows, observed = sampled
    values = rows.values
    assert values is not None
    probabilities = rows.exponentials / rows.sums
    terms = (probabilities[:, None, :] * values.T[None, :, :]).reshape(-1, keys)
    alone = _whole(_solved(terms, observed.reshape(-1)))
    shared = probabilities[:, None, :] * (values.T[None, :, :] - observed[:, :, None])
    # The right singular vector of the smallest singular value, from the smaller Gram matrix.
    flat = shared.reshape(-1, keys)
    gram = flat.T @ flat
    if not np.isfinite(gram).all():
        return  # a row without keys
    null = np.linalg.eigh(gram)[1][:, 0]
    middle = np.median(null[np.abs(null) > 0.2 * np.abs(null).max()])
    both = _whole(null / middle)
    for counts, target, said in ((both, "b", ""), (alone, "o", " in the output; the row sum is whole")):
        if counts is None or (counts == 1).all() or (counts < 0).any():
            continue
        words = f"keys {ranges(np.flatnonzero(counts == 0))} are not used" if (counts == 0).any() else ""
        if (counts > 1).any():
            words += (" and " if words else "") + f"keys {ranges(np.flatnonzero(counts > 1))} count more than once"
        factors = counts[None, :]
        changed = np.flatnonzero(counts != 1)
        yield Candidate(
            "loop-extent",
            "keys-counted" + ("" if target == "b" else "-of-output"),
            words + said,
            with_keys(partial(_constant, factors), target),
            {"first": int(changed[0]), "last": int(changed[-1])},
            looser=float(counts.max()),
        )


def _constant(factors: Doubles, _: Rows) -> Doubles:
    return factors


def _enough_rows(problem: Problem, unknowns: int) -> tuple[Rows, Doubles] | None:
    """Wrong, finite rows of one head with at least twice as many elements as unknowns."""
    counts = problem.wrong.sum(axis=(2, 3))
    lead = max(problem.leads, key=lambda one: int(counts[one]))
    columns = problem.observed.shape[3]
    usable = np.flatnonzero(problem.wrong[lead].any(axis=1) & np.isfinite(problem.observed[lead]).all(axis=1))
    need = -(-2 * unknowns // columns) + 2
    if usable.size < need:
        return None
    index = usable[np.unique(np.linspace(0, usable.size - 1, need).astype(np.intp))]
    return problem.rows(lead, index), problem.observed[lead][index]


def _solved(terms: Doubles, right: Doubles) -> Doubles:
    """Least squares by the normal equations, which are faster and exact enough for whole numbers; NaN if singular."""
    try:
        return np.asarray(np.linalg.solve(terms.T @ terms, terms.T @ right))
    except np.linalg.LinAlgError:
        return np.full(terms.shape[1], np.nan)


def _whole(counts: NDArray[np.floating[Any]]) -> Doubles | None:
    """Counts rounded to whole numbers; None where some are far from one, or large."""
    if not np.isfinite(counts).all() or np.abs(counts).max() > 64:
        return None
    near = np.rint(counts)
    return np.asarray(near, np.float64) if np.abs(counts - near).max() < 0.25 else None


def ranges(index: NDArray[np.intp]) -> str:
    """ "0-15, 48-63": runs of indices, at most four."""
    if not index.size:
        return ""
    cuts = np.flatnonzero(np.diff(index) > 1)
    starts, stops = index[np.r_[0, cuts + 1]], index[np.r_[cuts, index.size - 1]]
    runs = [f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts[:4], stops[:4], strict=True)]
    return ", ".join(runs) + (", …" if starts.size > 4 else "")


@fault_model("gemm", rank=11)
def linear_terms(problem: Problem) -> Iterator[Candidate]:
    """Alpha and beta missing, exchanged, or on the wrong term."""
    alpha, beta = float(problem.parameters["alpha"]), float(problem.parameters["beta"])
    if "c" not in problem.arrays:
        return
    forms = (
        ("beta-missing", f"C is added without beta ({beta:g})", alpha, 1.0),
        ("c-not-added", "C is not added", alpha, 0.0),
        ("alpha-missing", f"A·B is added without alpha ({alpha:g})", 1.0, beta),
        ("alpha-beta-exchanged", "alpha and beta are exchanged", beta, alpha),
        ("alpha-on-both", "alpha multiplies C, too, in place of beta", alpha, alpha),
        ("alpha-on-both", "alpha multiplies beta·C, too", alpha, alpha * beta),
        ("beta-on-both", "beta multiplies A·B, too", alpha * beta, beta),
        ("alpha-beta-missing", "neither alpha nor beta is applied", 1.0, 1.0),
        ("c-subtracted", "C is subtracted", alpha, -beta),
        ("only-c", "the result is beta·C: A·B is not added", 0.0, beta),
        ("c-unchanged", "the result is C", 0.0, 1.0),
    )
    for model, words, first, second in forms:
        if (first, second) != (alpha, beta):
            hypothesis = "accumulator-init" if beta == 0 and second == 1.0 else "epilogue"
            looser = max(1.0, abs(first / alpha) if alpha else 1.0, abs(second / beta) if beta else 1.0)
            yield Candidate(
                hypothesis,
                model,
                words,
                partial(_linear, first, second),
                {"alpha": first, "beta": second},
                looser=looser,
            )


def _linear(first: float, second: float, rows: Rows) -> Doubles:
    activation = str(rows.problem.parameters["activation"])
    return finished(first * rows.products, rows.further, beta=second, activation=activation)
