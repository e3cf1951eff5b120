"""Attention of one query per head, by that of many: an axis of queries is put in, and taken out of what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wmmadiag.ops.model import Arrays, Bound, Elements, Operation, Oracle, Values
from wmmadiag.ops.parts.rounding import Doubles, Judgement

_SETTINGS: Values = {"causal": False, "alignment": "bottom-right"}


def of_one_query(whole: Operation, tensors: Callable[[Arrays], Arrays]) -> tuple[Oracle, Bound]:
    """The reference and the bound of an attention whose outputs are `o` (B, H, D) and `lse` (B, H).

    Args:
        whole: the attention of many queries.
        tensors: what that takes, of the operation's own tensors; queries (B, H, 1, D).
    """
    reference, bound = whole.oracle, whole.bound
    assert reference is not None and bound is not None

    def oracle(parameters: Values, inputs: Arrays) -> dict[str, Doubles]:
        found = reference({**parameters, **_SETTINGS}, tensors(inputs))
        return {"o": found["o"][..., 0, :], "lse": found["lse"][..., 0]}

    def bounds(
        parameters: Values, inputs: Arrays, expected: Mapping[str, Doubles], elements: Elements
    ) -> dict[str, Judgement]:
        told = {"o": expected["o"][..., None, :], "lse": expected["lse"][..., None]}
        judged = {}
        for role, one in bound({**parameters, **_SETTINGS}, tensors(inputs), told, elements).items():
            axis = -2 if role == "o" else -1
            free = None if one.nonfinite_ok is None else one.nonfinite_ok.squeeze(axis)
            judged[role] = Judgement(one.bound.squeeze(axis), free)
        return judged

    return oracle, bounds
