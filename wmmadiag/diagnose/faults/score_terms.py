"""Other terms of the scores: bias, ALiBi or softcap missing, doubled, misread, or in another order with the scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Value
from wmmadiag.diagnose.faults.problem import Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model

Scores: TypeAlias = "Callable[[Rows], Doubles]"
"""Scores of some rows before masking, (rows, keys)."""
Where: TypeAlias = "Callable[[Rows], tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]]"
"""(batch, head, row, column) of the element that is read, each broadcast over (rows, keys)."""

_STRONGER = 3.0  # scores without a softcap are larger, and round more


def finished(rows: Rows, scores: Doubles) -> Doubles:
    """The output that scores lead to: themselves, or softmax · V under the oracle's masks."""
    if rows.problem.operation == "qkt":
        return scores
    return rows.attend(np.where(rows.allowed, scores, -np.inf) if rows.causal else scores)


def _candidate(
    model: str,
    words: str,
    scores: Scores,
    about: str,
    *,
    hypothesis: str = "score-terms",
    looser: float = 1.0,
    parameters: Mapping[str, Value] | None = None,
) -> Candidate:
    def predict(rows: Rows) -> Doubles:
        return finished(rows, scores(rows))

    return Candidate(hypothesis, model, words, predict, parameters or {}, looser=looser, about=about)


def _scaled(rows: Rows) -> Doubles:
    return rows.products * rows.problem.scale


def _bias(rows: Rows) -> Doubles:
    terms = rows.problem.terms
    return terms.bias_of(rows.lead, rows.index) if terms.bias is not None else np.zeros((1, 1))


def _alibi(rows: Rows) -> Doubles:
    """What ALiBi subtracts."""
    terms = rows.problem.terms
    return terms.slope_of(rows.lead) * terms.distance(rows.index) if terms.slopes is not None else np.zeros((1, 1))


def _capped(rows: Rows) -> Doubles:
    return rows.problem.terms.capped(_scaled(rows))


@fault_model("attention", "qkt", rank=9)
def biases(problem: Problem) -> Iterator[Candidate]:
    """The bias missing, doubled, subtracted, before the scale or the softcap."""
    terms = problem.terms
    if terms.bias is None:
        return
    for model, words, factor in (
        ("missing", "the bias is not added to the scores", 0.0),
        ("twice", "the bias is added to the scores twice", 2.0),
        ("subtracted", "the bias is subtracted from the scores", -1.0),
    ):
        if factor == 0.0 or np.isfinite(terms.bias.astype(np.float64)).all():
            yield _candidate(f"bias-{model}", words, _with_bias(factor), "bias", looser=max(1.0, abs(factor)))
    scale = problem.scale
    if scale not in (0.0, 1.0):
        yield _candidate(
            "bias-before-scale",
            f"the bias is added before the scores are multiplied by {scale:g}",
            _with_bias(scale),
            "bias",
            looser=max(1.0, abs(scale)),
        )
    if terms.softcap:
        yield _candidate(
            "bias-before-softcap",
            "the softcap is applied after the bias is added",
            lambda r: r.problem.terms.capped(_scaled(r) + _bias(r)) - _alibi(r),
            "bias",
        )


def _with_bias(factor: float) -> Scores:
    def scores(rows: Rows) -> Doubles:
        bias = _bias(rows)
        added = np.zeros_like(bias) if factor == 0.0 else factor * bias
        return _capped(rows) + added - _alibi(rows)

    return scores


@fault_model("attention", "qkt", rank=9)
def softcaps(problem: Problem) -> Iterator[Candidate]:
    """The softcap missing, or its factors at other places."""
    cap, scale = problem.terms.softcap, problem.scale
    if not cap:
        return
    forms: list[tuple[str, str, Callable[[Doubles], Doubles]]] = [
        ("missing", f"the softcap ({cap:g}) is not applied", lambda x: x),
        ("not-multiplied", f"tanh is not multiplied by the softcap ({cap:g})", lambda x: np.tanh(x / cap)),
        ("not-divided", f"scores are not divided by the softcap ({cap:g}) before tanh", lambda x: cap * np.tanh(x)),
        ("twice", f"the softcap ({cap:g}) is applied twice", lambda x: cap * np.tanh(np.tanh(x / cap))),
    ]
    if scale not in (0.0, 1.0):
        words = f"the softcap is applied before the scale ({scale:g})"
        forms.append(("before-scale", words, lambda x: scale * cap * np.tanh(x / (scale * cap))))
    for model, words, change in forms:
        yield _candidate(
            f"softcap-{model}",
            words,
            lambda r, f=change: f(_scaled(r)) + _bias(r) - _alibi(r),  # type: ignore[misc]
            "softcap",
            looser=_STRONGER,
        )


@fault_model("attention", "qkt", rank=9)
def slopes(problem: Problem) -> Iterator[Candidate]:
    """ALiBi missing, of the wrong sign, scaled, without the absolute value, or with another head's slope."""
    terms = problem.terms
    if terms.slopes is None:
        return
    for model, words, factor in (
        ("missing", "ALiBi is not added to the scores", 0.0),
        ("sign", "ALiBi has the wrong sign: farther keys weigh more", -1.0),
        ("twice", "ALiBi is added twice", 2.0),
        ("scaled", f"ALiBi is multiplied by the scale ({problem.scale:g}), too", problem.scale),
    ):
        if factor != 1.0:
            yield _candidate(
                f"alibi-{model}",
                words,
                lambda r, f=factor: _capped(r) + _bias(r) - f * _alibi(r),  # type: ignore[misc]
                "alibi_slopes",
                looser=max(1.0, abs(factor)),
            )
    yield _candidate(
        "alibi-one-sided",
        "ALiBi counts keys after the query as nearer than its own: the distance has no absolute value",
        lambda r: _capped(r) + _bias(r) - _slope(r) * _signed(r),
        "alibi_slopes",
    )
    every, terms_heads = terms.slopes.reshape(-1).astype(np.float64), terms.slopes.shape[1]
    batches, heads = problem.observed.shape[:2]
    others: dict[str, Callable[[int, int], int]] = {
        "the next head": lambda b, h: b * terms_heads + h + 1,
        "the previous head": lambda b, h: b * terms_heads + h - 1,
        "head 0": lambda b, h: 0,  # noqa: ARG005 - of any
        "the head counted over batches": lambda b, h: b * heads + h,
        "the batch": lambda b, h: b,  # noqa: ARG005 - of any head
        "the heads in reverse": lambda b, h: terms_heads - 1 - h,  # noqa: ARG005 - of any batch
    }
    for name, index in others.items() if heads * batches > 1 else ():
        yield _candidate(
            "alibi-slope-of-other",
            f"the ALiBi slope is that of {name}",
            lambda r, f=index: (
                _capped(r)  # type: ignore[misc]
                + _bias(r)
                - (every[f(*r.lead)] if 0 <= f(*r.lead) < every.size else np.nan) * r.problem.terms.distance(r.index)
            ),
            "alibi_slopes",
            hypothesis="index-arithmetic",
            parameters={"of": name},
        )


def _slope(rows: Rows) -> float:
    return rows.problem.terms.slope_of(rows.lead)


def _signed(rows: Rows) -> Doubles:
    terms = rows.problem.terms
    return np.asarray(rows.index[:, None] + terms.corner - np.arange(terms.keys)[None, :], np.float64)


@fault_model("attention", "qkt", rank=10)
def misread_bias(problem: Problem) -> Iterator[Candidate]:
    """A bias that is read at another head, transposed, inside a tile, or with another pitch."""
    bias = problem.terms.bias
    if bias is None:
        return
    for words, where, parameters in other_elements(problem, bias.shape):
        yield _candidate(
            "bias-misread",
            f"the bias is read {words}",
            lambda r, w=where: _capped(r) + read_at(r, bias, w) - _alibi(r),  # type: ignore[misc]
            "bias",
            hypothesis="index-arithmetic",
            parameters=parameters,
        )


def read_at(rows: Rows, array: NDArray[np.generic], where: Where) -> Doubles:
    """Elements of a tensor over the scores at other places; NaN outside of it."""
    index = [np.broadcast_to(one, (rows.index.size, rows.keys)) for one in where(rows)]
    # Along axes that it lacks every place is the same one.
    index = [one if extent > 1 else np.zeros_like(one) for one, extent in zip(index, array.shape, strict=True)]
    inside = np.ones(index[0].shape, np.bool_)
    for one, extent in zip(index, array.shape, strict=True):
        inside &= (one >= 0) & (one < extent)
    found = array[tuple(np.where(inside, one, 0) for one in index)].astype(np.float64)
    return np.where(inside, found, np.nan)


def other_elements(problem: Problem, shape: tuple[int, ...]) -> Iterator[tuple[str, Where, Mapping[str, Value]]]:
    """(words, where, parameters) of ways to misread a tensor over the scores, as far as its axes tell them apart."""
    batches, heads, queries, keys = shape

    def at(
        b: Callable[[int, int], int], h: Callable[[int, int], int],
        i: Callable[[NDArray[np.intp], NDArray[np.intp]], NDArray[np.intp]],
        j: Callable[[NDArray[np.intp], NDArray[np.intp]], NDArray[np.intp]],
    ) -> Where:  # fmt: skip
        def where(
            rows: Rows,
        ) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
            row, column = rows.index[:, None], np.arange(rows.keys)[None, :]
            return (
                np.full((1, 1), b(*rows.lead)),
                np.full((1, 1), h(*rows.lead)),
                i(row, column),
                j(row, column),
            )

        return where

    def same_lead(i: Callable[..., NDArray[np.intp]], j: Callable[..., NDArray[np.intp]]) -> Where:
        return at(lambda b, _: b, lambda _, h: h, i, j)

    def row(i: NDArray[np.intp], _: NDArray[np.intp]) -> NDArray[np.intp]:
        return i

    def column(_: NDArray[np.intp], j: NDArray[np.intp]) -> NDArray[np.intp]:
        return j

    nothing: Mapping[str, Value] = {}
    outer: Mapping[str, Value] = {"outer": 1}
    if queries > 1 and keys > 1:
        yield "with rows and columns exchanged", same_lead(column, row), nothing
        if queries != keys:
            yield (
                f"as if its rows were {queries} elements long, which are {keys}",
                same_lead(lambda i, j: (i * queries + j) // keys, lambda i, j: (i * queries + j) % keys),
                nothing,
            )
    if queries > 1:
        yield "in its first row for every query", same_lead(lambda i, _: 0 * i, column), outer
    if keys > 1 and queries == 1:
        yield "by the query instead of the key", same_lead(row, row), nothing
    if heads > 1:
        yield "in head 0 for every head", at(lambda b, _: b, lambda *_: 0, row, column), outer
        yield "in the next head", at(lambda b, _: b, lambda _, h: (h + 1) % heads, row, column), outer
    if batches > 1:
        yield "in batch 0 for every batch", at(lambda *_: 0, lambda _, h: h, row, column), outer
    for tile in problem.tiles(max(queries, keys)):
        told = {"tile": tile}
        if keys > tile:
            words = f"by the key inside its tile of {tile} instead of the whole key"
            yield words, same_lead(row, lambda _, j, t=tile: j % t), told
        if queries > tile:
            words = f"by the row inside its tile of {tile} instead of the whole row"
            yield words, same_lead(lambda i, _, t=tile: i % t, column), {**told, **outer}
