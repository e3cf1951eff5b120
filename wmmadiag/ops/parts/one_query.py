"""Attention of one query per head, by that of many: an axis of queries is put in, and taken out of what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wmmadiag.ops.catalogue.attention import OPERATION as WHOLE
from wmmadiag.ops.model import Arrays, Bound, Choice, Elements, Judged, Oracle, Outputs, Parameter, Role, Values
from wmmadiag.ops.parts.rounding import Judgement
from wmmadiag.ops.parts.sequence import ADDED

_SETTINGS: Values = {"causal": False, "alignment": "bottom-right"}


_MASKS = ("mask_hides", "causal", "alignment", "window_left", "window_right")

PARAMETERS: Mapping[str, Parameter] = {name: one for name, one in WHOLE.parameters.items() if name not in _MASKS}
PARTS = ("attention", "gemm", "softmax", "qkt", "pv")
QUERY = Role("BHD", spellings=WHOLE.roles["q"].spellings)
OUTPUTS: Mapping[str, Role] = {
    "alibi_slopes": ADDED["alibi_slopes"],
    "o": Role("BHD", ("B", "H", "Dv"), output=True, spellings=WHOLE.roles["o"].spellings),
    "lse": Role("BH", output=True, required=False, spellings="lse softmaxlse logsumexp"),
}
CHOICES: tuple[Choice, ...] = tuple(
    one for one in WHOLE.choices if one.kind == "arithmetic" or "multiplied by" in one.question
)


def of_one_query(tensors: Callable[[Arrays], Arrays]) -> tuple[Oracle, Bound]:
    """The reference and the bound of an attention whose outputs are `o` (B, H, D) and `lse` (B, H).

    Args:
        tensors: what that of many queries takes, of the operation's own tensors; queries (B, H, 1, D).
    """
    reference, bound = WHOLE.oracle, WHOLE.bound
    assert reference is not None and bound is not None

    def oracle(parameters: Values, inputs: Arrays) -> Outputs:
        found = reference({**parameters, **_SETTINGS}, tensors(inputs))
        return {"o": found["o"][..., 0, :], "lse": found["lse"][..., 0]}

    def bounds(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
        wide = {"o": expected["o"][..., None, :], "lse": expected["lse"][..., None]}
        judged = {}
        for role, one in bound({**parameters, **_SETTINGS}, tensors(inputs), wide, elements).items():
            axis = -2 if role == "o" else -1
            free = None if one.nonfinite_ok is None else one.nonfinite_ok.squeeze(axis)
            judged[role] = Judgement(one.bound.squeeze(axis), free)
        return judged

    return oracle, bounds
