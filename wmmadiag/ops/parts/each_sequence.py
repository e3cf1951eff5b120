"""Attention of sequences whose queries lie one behind the other, by that of one sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.catalogue.attention import OPERATION as WHOLE
from wmmadiag.ops.model import Arrays, Bound, Elements, Judged, Oracle, Outputs, Values
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, Judgement

Sequence: TypeAlias = "tuple[slice, NDArray[Any], NDArray[Any]]"
"""The rows of a sequence's queries, its keys and its values, (rows, heads, D)."""


def starts(shape: tuple[int, ...], _: ElementType, rows: int, __: np.random.Generator) -> Doubles:
    """Where sequences begin, then the number of rows: lengths that differ; as many queries as keys where rows are."""
    count = shape[-1] - 1
    if count < 1:
        return np.zeros(shape)
    weights = 1.0 + np.random.default_rng([rows, count]).permutation(count)
    cuts = np.floor(rows * np.cumsum(weights) / weights.sum()).astype(np.int64)
    return np.concatenate([[0], cuts[:-1] | 1, [rows]]).astype(np.float64)  # odd: no tile's size divides them


def of_sequences(sequences: Callable[[Arrays], Iterator[Sequence]]) -> tuple[Oracle, Bound]:
    """The reference and the bound of an attention whose outputs are `o` (T, H, Dv) and `lse` (H, T).

    Args:
        sequences: those of the operation's own tensors, `q` (T, H, D) among them.
    """
    reference, of_one = WHOLE.oracle, WHOLE.bound
    assert reference is not None and of_one is not None

    def each(inputs: Arrays) -> Iterator[tuple[slice, dict[str, NDArray[Any]]]]:
        others = {role: inputs[role] for role in ("alibi_slopes",) if role in inputs}
        for rows, keys, values in sequences(inputs):
            if rows.stop > rows.start and len(keys):
                taken = {"q": inputs["q"][rows], "k": keys, "v": values}
                yield rows, {**{role: array.swapaxes(0, 1) for role, array in taken.items()}, **others}

    def oracle(parameters: Values, inputs: Arrays) -> Outputs:
        q, v = inputs["q"], inputs["v"]
        out, lse = np.zeros((*q.shape[:2], v.shape[-1])), np.full((q.shape[1], q.shape[0]), -np.inf)
        for rows, tensors in each(inputs):
            found = reference(parameters, tensors)
            out[rows], lse[:, rows] = found["o"].swapaxes(0, 1), found["lse"]
        return {"o": out, "lse": lse}

    def bounds(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
        """Of each sequence the bound of `attention`; rows of no sequence are 0."""
        bounds = {role: np.zeros_like(expected[role]) for role in ("o", "lse") if role in elements}
        free = {role: np.ones(bound.shape, np.bool_) for role, bound in bounds.items()}
        for rows, tensors in each(inputs):
            own = {"o": expected["o"][rows].swapaxes(0, 1), "lse": expected["lse"][:, rows]}
            found = of_one(parameters, tensors, own, elements)
            for role, bound in bounds.items():
                one, ok = found[role], free[role]
                first, second = (bound, ok) if role == "lse" else (bound.swapaxes(0, 1), ok.swapaxes(0, 1))
                first[:, rows] = one.bound
                second[:, rows] = False if one.nonfinite_ok is None else one.nonfinite_ok
        return {role: Judgement(bound, free[role] if free[role].any() else None) for role, bound in bounds.items()}

    return oracle, bounds
