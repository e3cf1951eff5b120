"""Rotary position embeddings: pairs of each head's elements, rotated by an angle of their position.

Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021 (arXiv 2104.09864), section 3.2.
"""

from __future__ import annotations

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.model import (
    Arrays,
    Drawn,
    Elements,
    Judged,
    Operation,
    Outputs,
    Packed,
    Parameter,
    Role,
    Signs,
    Values,
)
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import U64, Doubles, arithmetic, judged
from wmmadiag.ops.parts.settings import STEPS, by_layout, by_value, steps_kept_in
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES

# Of powers, sines and cosines that are computed in f32, fast ones among them: an angle is off by that part of it (the
# exponent's rounding, times the logarithm of theta, below 16 ulp), and what is taken of it by as much once more.
_ANGLE, _WAVE = 2.0**-19, 2.0**-19


_FURTHEST = 512  # a position where no table of angles says how many there are


def _places(shape: tuple[int, ...], _: ElementType, rows: int, rng: np.random.Generator) -> Doubles:
    """Any row of the table, the last one among them; without a table none is 0, where nothing is rotated."""
    values = rng.integers(0, rows, shape) if rows else rng.integers(1, _FURTHEST, shape)
    values.reshape(-1)[:1] = (rows or _FURTHEST) - 1
    return values.astype(np.float64)


def _rotation(parameters: Values, inputs: Arrays) -> tuple[Doubles, Doubles, Doubles]:
    """Cosines, sines, and how far they are off, each (batch or 1, T, D/2)."""
    count, width = inputs["x"].shape[-3], inputs["x"].shape[-1] // 2
    at = inputs.get("positions")
    where = np.arange(count) + int(parameters["offset"]) if at is None else at.astype(np.int64)
    if "cos" in inputs and "sin" in inputs:
        cos, sin = (inputs[role].astype(np.float64)[where] for role in ("cos", "sin"))
        return cos, sin, np.zeros_like(cos)
    frequencies = float(parameters["theta"]) ** (-np.arange(width) / width)
    angles = where[..., None] * frequencies
    return np.cos(angles), np.sin(angles), angles * _ANGLE + _WAVE


def _pairs(parameters: Values, x: Doubles) -> tuple[Doubles, Doubles]:
    width = x.shape[-1] // 2
    if parameters["pairs"] == "neighbours":
        return x[..., 0::2], x[..., 1::2]
    return x[..., :width], x[..., width:]


def _joined(parameters: Values, first: Doubles, second: Doubles) -> Doubles:
    if parameters["pairs"] == "neighbours":
        return np.stack([first, second], axis=-1).reshape(*first.shape[:-1], -1)
    return np.concatenate([first, second], axis=-1)


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    cos, sin, _ = _rotation(parameters, inputs)
    cos, sin = cos[..., None, :], sin[..., None, :]
    found = {}
    for role, output in (("x", "y"), ("k", "k_out")):
        if role in inputs:
            first, second = _pairs(parameters, inputs[role].astype(np.float64))
            found[output] = _joined(parameters, first * cos - second * sin, second * cos + first * sin)
    return found


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of x·cos − y·sin, element by element.

    Two products and their sum: 3u of |x·cos| + |y·sin|. Cosines that the kernel computes are off by an angle's part
    (`_ANGLE`) and the function's own (`_WAVE`), times |x| + |y|. Narrow inputs may be multiplied in their own type,
    where `steps` says so. Then the output's rounding.
    """
    cos, sin, off = (one[..., None, :] for one in _rotation(parameters, inputs))
    errors = {}
    for role, output in (("x", "y"), ("k", "k_out")):
        if role not in inputs:
            continue
        unit = arithmetic(parameters, elements[role]).unit
        if parameters["steps"] == "as-stored" and elements[role].name in ("f16", "bf16"):
            unit = elements[role].unit
        first, second = (np.abs(one) for one in _pairs(parameters, inputs[role].astype(np.float64)))
        own = (first + second) * off
        step = 4.0 * unit + 8 * U64
        one = own + step * (first * np.abs(cos) + second * np.abs(sin))
        other = own + step * (second * np.abs(cos) + first * np.abs(sin))
        errors[output] = _joined(parameters, one, other)
    return judged(errors, expected, elements)


_LAYOUTS = {
    "rows of heads": {"x": "BTHD", "y": "BTHD", "k": "BTGD", "k_out": "BTGD"},
    "heads of rows": {"x": "BHTD", "y": "BHTD", "k": "BGTD", "k_out": "BGTD"},
}

OPERATION = Operation(
    name="rope",
    meaning="(Y₁, Y₂) = (X₁·cos − X₂·sin, X₂·cos + X₁·sin) of pairs of each head's elements",
    notes="`cos` and `sin` are tables of positions and pairs; without them the angle of pair i at position t is "
    '`t · theta^(−2i/D)`. `role = "cos_sin"` is one table with both, in the layout `"P2E"` for halves of a row, '
    '`"PE2"` where they alternate. Without `positions`, rows count from `offset` on.',
    roles={
        "x": Role("BTHD", ("batch", "T", "H", "D"), spellings="x q sq query in input inp src queries xq"),
        "k": Role("BTGD", ("batch", "T", "G", "D"), required=False, spellings="k sk key keys xk"),
        "positions": Role(
            "BT",
            ("batch", "T"),
            required=False,
            element="int",
            drawn=Drawn(_places, "cos", -2),
            spellings="positions pos position positionids posids",
        ),
        "cos": Role(
            "PE", ("P", "D // 2"), required=False, spellings="cos coscache cosines costable cosbuf freqscos cosptr"
        ),
        "sin": Role("PE", ("P", "D // 2"), required=False, spellings="sin sincache sines sintable sinbuf freqssin"),
        "y": Role(
            "BTHD", ("batch", "T", "H", "D"), output=True, updates="x", spellings="y out output dst o qout result"
        ),
        "k_out": Role("BTGD", ("batch", "T", "G", "D"), output=True, required=False, updates="k", spellings="kout"),
    },
    parameters={
        "pairs": Parameter("word", "halves", "which elements make a pair", ("halves", "neighbours")),
        "theta": Parameter(
            "cap",
            "10000",
            "base of the frequencies",
            spellings="theta base ropetheta ropebase freqbase thetabase basefreq rotarybase",
        ),
        "offset": Parameter(
            "count",
            "0",
            "position of the first row",
            spellings="offset pos position startpos posoffset start",
            drafted=("3", "41"),
        ),
        **STEPS,
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"batch": "1", "H": "1", "G": "H", "P": "T"},
    separate=("batch",),
    single={"T": "one position"},
    optional="batch",
    divisors={"G": "H"},
    extents={
        "batch*T": "numtokens ntokens tokens bt",
        "batch": "b batch batchsize bsz bs",
        "T": "t s seqlen seq n sequencelength seqlength length rows",
        "G": "numkvheads nkvheads kvheads hk hkv nkv",
        "H": "h heads numheads nheads nh nhead numqheads qheads",
        "P": "maxposition maxpos maxseqlen maxpositions maxpositionembeddings",
        "D": "d dim headdim headsize hd dh rotarydim rotdim rotarydims",
        "D // 2": "halfdim halfd half rotdimhalf embeddim halfrotarydim halfheaddim",
    },
    packed={
        "cos_sin": Packed(("cos", "sin"), ("P2E", "PE2"), "cossincache cossin sincos freqscis freqs rotary cossintable")
    },
    cases=({"T": 8, "H": 2, "D": 64}, {"batch": 2, "T": 24, "H": 4, "G": 2, "D": 64}),
    signs=Signs(
        "rope rotary ropeneox rotaryembedding applyrope applyrotary ropekernel ropeinterleaved rotaryembed",
        excludes=(TENSOR_CORES, EXPONENTIAL),
        open="its source does not tell which elements make a pair",
    ),
    choices=(
        by_value(
            "Which elements make a pair?",
            "meaning",
            "pairs",
            {"an element of each half of a head": "halves", "neighbouring elements": "neighbours"},
        ),
        by_layout("How do heads lie?", _LAYOUTS, "x"),
        steps_kept_in("x"),
    ),
)
