"""Other windows, lengths and masks of keys: missing, off by one, of another batch, inverted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Value
from wmmadiag.diagnose.faults.problem import Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model
from wmmadiag.diagnose.faults.score_terms import other_elements, read_at
from wmmadiag.subject.score_terms import ScoreTerms

Kept: TypeAlias = "Callable[[Rows], NDArray[np.bool_]]"
"""Where scores are kept, (rows, keys)."""


_BLOCKS = (64, 32, 16, 128)
"""Rows and keys of one block's tiles that kernels have."""


def _candidate(
    hypothesis: str, model: str, words: str, kept: Kept, about: str, parameters: Mapping[str, Value] | None = None,
    *, otherwise: float = -np.inf,
) -> Candidate:  # fmt: skip
    def predict(rows: Rows) -> Doubles:
        scores = rows.scored(rows.products * rows.problem.scale)
        return rows.attend(np.where(kept(rows), scores, otherwise))

    return Candidate(hypothesis, model, words, predict, parameters or {}, about=about)


def _under(terms: ScoreTerms) -> Kept:
    """The masks of other terms."""
    return lambda rows: terms.allowed(rows.lead, rows.index)


@fault_model("attention", rank=19)
def windows(problem: Problem) -> Iterator[Candidate]:
    """The window missing, off by a few keys, with its sides exchanged, or by whole tiles."""
    terms = problem.terms
    left, right = terms.window_left, terms.window_right
    sides = {"window_left": left, "window_right": right}
    known = {name: reach for name, reach in sides.items() if reach >= 0}
    if not known:
        return
    if len(known) == 2 and not terms.causal:
        words = f"the window is missing: a query sees more than {left} keys before and {right} after its own"
        yield _window("window-missing", words, replace(terms, window_left=-1, window_right=-1))
    for name, reach in known.items():
        side = "before" if name == "window_left" else "after"
        if not (terms.causal and name == "window_right"):
            words = f"the window is missing: a query sees more than {reach} keys {side} its own"
            yield _window("window-missing", words, _with(terms, name, -1))
        for offset in (-1, 1, -2, 2):
            if reach + offset >= 0:
                words = f"the window is off by {offset:+d}: {reach + offset} keys {side} the query's, not {reach}"
                yield _window("window-offset", words, _with(terms, name, reach + offset), {"offset": offset})
        for rows_of, tile in product(_BLOCKS, repeat=2) if name == "window_left" else ():
            words = (
                f"the window is not masked inside tiles: blocks of {rows_of} rows begin at whole tiles of {tile} keys"
            )
            yield _window_by_blocks(words, terms, rows_of, tile)
        for tile in problem.tiles(terms.keys):
            words = f"the window is masked by whole tiles of {tile} keys: the one in which it ends is seen whole"
            yield _window_by_tiles(words, terms, name, tile)
    if left != right and min(left, right) >= 0:
        words = f"the window's sides are exchanged: {right} keys before and {left} after a query's own"
        yield _window("window-exchanged", words, replace(terms, window_left=right, window_right=left))
    if terms.corner:
        words = "the window is aligned to the wrong corner"
        yield _window("window-corner", words, replace(terms, corner=0))


def _with(terms: ScoreTerms, name: str, reach: int) -> ScoreTerms:
    return replace(terms, window_left=reach) if name == "window_left" else replace(terms, window_right=reach)


def _window(model: str, words: str, terms: ScoreTerms, parameters: Mapping[str, Value] | None = None) -> Candidate:
    return _candidate("causal-mask", model, words, _under(terms), "", parameters)


def _window_by_tiles(words: str, terms: ScoreTerms, name: str, tile: int) -> Candidate:
    open_ = _with(terms, name, -1)

    def kept(rows: Rows) -> NDArray[np.bool_]:
        i, j = rows.index[:, None] + terms.corner, np.arange(terms.keys)[None, :]
        if name == "window_left":
            inside = j // tile >= np.maximum(i - terms.window_left, 0) // tile
        else:
            inside = j // tile <= (i + terms.window_right) // tile
        return open_.allowed(rows.lead, rows.index) & inside

    return _candidate("causal-mask", "window-whole-tiles", words, kept, "", {"tile": tile})


def _window_by_blocks(words: str, terms: ScoreTerms, rows_of: int, tile: int) -> Candidate:
    open_ = _with(terms, "window_left", -1)

    def kept(rows: Rows) -> NDArray[np.bool_]:
        first = np.maximum(rows.index // rows_of * rows_of + terms.corner - terms.window_left, 0) // tile * tile
        return open_.allowed(rows.lead, rows.index) & (np.arange(terms.keys)[None, :] >= first[:, None])

    return _candidate("causal-mask", "window-missing", words, kept, "", {"rows": rows_of, "tile": tile})


@fault_model("attention", rank=19)
def lengths(problem: Problem) -> Iterator[Candidate]:
    """The lengths ignored, off by one, of another batch, or keys past them that count with score 0."""
    terms = problem.terms
    if terms.lengths is None:
        return
    counts = terms.lengths.astype(np.int64)
    words = "the lengths are ignored: keys past a batch's length take part"
    yield _candidate("tail-masking", "lengths-ignored", words, _under(replace(terms, lengths=None)), "lengths")
    for offset, said in ((1, "the first key past a batch's length takes part"), (-1, "a batch's last key is left out")):
        kept = _under(replace(terms, lengths=counts + offset))
        yield _candidate("tail-masking", "lengths-offset", said, kept, "lengths", {"offset": offset})
    words = "keys past a batch's length count with score 0"
    yield _candidate("tail-masking", "lengths-zero", words, _under(terms), "lengths", otherwise=0.0)
    for tile in problem.tiles(terms.keys):
        words = f"keys past a batch's length take part up to the end of its last tile of {tile}"
        kept = _under(replace(terms, lengths=-(-counts // tile) * tile))
        yield _candidate("tail-masking", "lengths-whole-tiles", words, kept, "lengths", {"tile": tile})
        words = f"keys of a batch's last tile of {tile} are left out where its length does not fill it"
        kept = _under(replace(terms, lengths=counts // tile * tile))
        yield _candidate("tail-masking", "lengths-whole-tiles", words, kept, "lengths", {"tile": tile})
    if len(counts) > 1:
        for name, other in (("batch 0", counts[np.zeros_like(counts)]), ("the next batch", np.roll(counts, -1))):
            words = f"keys are counted by the length of {name} in every batch"
            kept = _under(replace(terms, lengths=other))
            yield _candidate("index-arithmetic", "lengths-of-other", words, kept, "lengths", {"of": name})


@fault_model("attention", rank=19)
def masks(problem: Problem) -> Iterator[Candidate]:
    """The mask ignored, inverted, misread, or with score 0 where it hides."""
    terms = problem.terms
    mask = terms.mask
    if mask is None:
        return
    yield _candidate("causal-mask", "mask-ignored", "the mask is ignored", _under(replace(terms, mask=None)), "mask")
    inverted = _under(replace(terms, mask=mask == 0))
    yield _candidate("causal-mask", "mask-inverted", "the mask is inverted: it hides what it keeps", inverted, "mask")
    words = "masked scores are set to 0 instead of -inf"
    yield _candidate("causal-mask", "mask-zero", words, _under(terms), "mask", otherwise=0.0)
    open_ = replace(terms, mask=None)
    for words, where, parameters in other_elements(problem, mask.shape):
        yield _candidate(
            "index-arithmetic",
            "mask-misread",
            f"the mask is read {words}",
            lambda r, w=where: open_.allowed(r.lead, r.index) & (np.nan_to_num(read_at(r, mask, w)) != 0),  # type: ignore[misc]
            "mask",
            parameters,
        )
