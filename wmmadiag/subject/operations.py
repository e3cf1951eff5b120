"""What a card can say that its kernel computes: parameters, roles and their usual shapes.

The float64 references are in `oracles.py`, the rounding bounds in `wmmadiag.compare.bounds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from wmmadiag.subject.activations import ACTIVATIONS

Default: TypeAlias = str | bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation.

    Attributes:
        kind: "real" (an expression), "cap" (one that is not negative), "flag" (a boolean, or an expression that is 0
            or not), "int" (from 1 on), "reach" (a number from 0 on, or -1), or "word".
        default: its value when the card does not give it.
        words: for "word", what it may be.
        meaning: one line for the documentation and for drafted cards.
    """

    kind: str
    default: Default
    meaning: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Role:
    """One tensor of an operation.

    Attributes:
        axes: letters of its usual logical axes, outermost first.
        shape: expressions of its usual shape over the usual symbols.
        output: whether the kernel computes it.
        required: whether a card must have it.
        drawn: what its values are where nobody says otherwise, a name in `inputs.MEANINGFUL`; "" for the case's
            distribution.
        usual: of a role that is spread over the axes that it lacks: letters of those that it usually has, where no
            layout names others; "" for a role that has all of its axes.
    """

    axes: str
    shape: tuple[str, ...]
    output: bool = False
    required: bool = True
    usual: str = ""
    drawn: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation a card can name."""

    name: str
    meaning: str
    roles: Mapping[str, Role]
    parameters: Mapping[str, Parameter]
    symbols: Mapping[str, str] = field(default_factory=dict)


_FLOAT_TYPES = ("f16", "bf16", "tf32", "f32", "f64")
_ROUNDING = {
    "accumulate": Parameter("word", "auto", "type of the sums", ("auto", "f16", "f32", "f64", "s32")),
    "accumulate_step": Parameter("int", "8", "products that one rounding of an f16 sum covers (1: scalar half code)"),
    "multiply": Parameter("word", "auto", "type that operands are rounded to first", ("auto", *_FLOAT_TYPES)),
}
_SOFTMAX_ROUNDING = {
    "exp_dtype": Parameter("word", "f32", "type of the exponentials", ("f16", "bf16", "f32", "f64")),
}
_SCORES = {
    "scale": Parameter("real", "1/sqrt(D)", "factor of Q·Kᵀ"),
    "causal": Parameter("flag", "causal", "whether key j > query i is masked"),
    "alignment": Parameter("word", "top-left", "corner of the causal mask", ("top-left", "bottom-right")),
}
_WINDOW = "that a query sees beside its own; -1: all"
_MASKS = {
    "window_left": Parameter("reach", "-1", f"keys before its own {_WINDOW}"),
    "mask_hides": Parameter("flag", "0", "what is not 0 in the mask hides a key, instead of keeping it"),
    "window_right": Parameter("reach", "-1", f"keys after its own {_WINDOW}"),
}
_SOFTCAP = {
    "softcap": Parameter("cap", "0", "c of c·tanh(score/c), on scaled scores, before bias and masks; 0: none"),
    "tanh_dtype": Parameter("word", "f32", "type of the softcap's tanh; f16 for tanh.approx", ("f16", "bf16", "f32")),
}
_OVER_SCORES = ("B", "H", "Sq", "Skv")
_ADDED = {
    "bias": Role("BHSK", _OVER_SCORES, required=False, usual="SK"),
    "alibi_slopes": Role("BH", _OVER_SCORES[:2], required=False, usual="H", drawn="slopes"),
}
_HIDING = {
    "mask": Role("BHSK", _OVER_SCORES, required=False, usual="SK", drawn="bits"),
    "lengths": Role("B", _OVER_SCORES[:1], required=False, usual="B", drawn="lengths"),
}
_SEQUENCE_SYMBOLS = {"B": "1", "H": "1", "Sq": "S", "S": "Sq", "Skv": "S", "Hkv": "H", "Dv": "D", "causal": "0"}

ATTENTION = Operation(
    "attention",
    "O = softmax(softcap(scale · Q·Kᵀ) + bias − slope·|i − j| + mask) · V",
    {
        "q": Role("BHSD", ("B", "H", "Sq", "D")),
        "k": Role("BHSD", ("B", "Hkv", "Skv", "D")),
        "v": Role("BHSD", ("B", "Hkv", "Skv", "Dv")),
        **_ADDED,
        **_HIDING,
        "o": Role("BHSD", ("B", "H", "Sq", "Dv"), output=True),
        "lse": Role("BHS", ("B", "H", "Sq"), output=True, required=False),
    },
    {
        **_SCORES,
        **_MASKS,
        **_SOFTCAP,
        "p_dtype": Parameter("word", "auto", "type that P is rounded to before P·V", ("auto", *_FLOAT_TYPES)),
        "scaled_q_dtype": Parameter("word", "none", "type that scale·Q is rounded to", ("none", *_FLOAT_TYPES)),
        "score_dtype": Parameter("word", "f32", "type that scores are kept in", ("f16", "bf16", "f32", "f64")),
        "masked_rows": Parameter("word", "any", "a row with no key", ("any", "zero", "nan")),
        **_ROUNDING,
        **_SOFTMAX_ROUNDING,
    },
    _SEQUENCE_SYMBOLS,
)
QKT = Operation(
    "qkt",
    "scores = softcap(scale · Q·Kᵀ) + bias − slope·|i − j|",
    {
        "q": Role("BHSD", ("B", "H", "Sq", "D")),
        "k": Role("BHSD", ("B", "Hkv", "Skv", "D")),
        **_ADDED,
        "scores": Role("BHSK", ("B", "H", "Sq", "Skv"), output=True),
    },
    {"scale": Parameter("real", "1", "factor of Q·Kᵀ"), **_SOFTCAP, **_ROUNDING},
    _SEQUENCE_SYMBOLS,
)
PV = Operation(
    "pv",
    "O = P·V",
    {
        "p": Role("BHSK", ("B", "H", "Sq", "Skv")),
        "v": Role("BHSD", ("B", "Hkv", "Skv", "Dv")),
        "o": Role("BHSD", ("B", "H", "Sq", "Dv"), output=True),
    },
    _ROUNDING,
    _SEQUENCE_SYMBOLS,
)
SOFTMAX = Operation(
    "softmax",
    "Y = softmax(scale · X) along the last axis",
    {"x": Role("MN", ("M", "N")), "y": Role("MN", ("M", "N"), output=True)},
    {"scale": Parameter("real", "1", "factor of X"), **_SOFTMAX_ROUNDING},
)
_OVER_RESULT = ("batch", "M", "N")
GEMM = Operation(
    "gemm",
    "D = activation(alpha · op(A)·op(B) · scales + beta · C + bias)",
    {
        "a": Role("BMK", ("batch", "K if transpose_a else M", "M if transpose_a else K")),
        "b": Role("BKN", ("batch", "N if transpose_b else K", "K if transpose_b else N")),
        "c": Role("BMN", _OVER_RESULT, required=False),
        "bias": Role("BMN", _OVER_RESULT, required=False, usual="N"),
        "scale_a": Role("BMN", _OVER_RESULT, required=False, usual="M"),
        "scale_b": Role("BMN", _OVER_RESULT, required=False, usual="N"),
        "d": Role("BMN", _OVER_RESULT, output=True),
    },
    {
        "alpha": Parameter("real", "1", "factor of A·B"),
        "beta": Parameter("real", "0", "factor of C"),
        "transpose_a": Parameter("flag", "0", "A is stored as K×M"),
        "transpose_b": Parameter("flag", "0", "B is stored as N×K"),
        "activation": Parameter("word", "none", "applied to the sum, bias included", tuple(ACTIVATIONS)),
        "epilogue_dtype": Parameter(
            "word", "auto", "type that the sum has before scales, C, bias and activation", ("auto", "f16", "bf16")
        ),
        **_ROUNDING,
    },
    {"batch": "1", "transpose_a": "0", "transpose_b": "0"},
)
PYTHON = Operation("python", "what a Python function of yours computes", {}, {})

OPERATIONS: Mapping[str, Operation] = {op.name: op for op in (ATTENTION, QKT, PV, SOFTMAX, GEMM, PYTHON)}
