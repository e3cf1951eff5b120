"""The gated linear units: two products of one matrix, one of them through an activation, multiplied element by element.

Shazeer, GLU Variants Improve Transformer, 2020 (arXiv 2002.05202), section 2: GLU, Bilinear, ReGLU, GEGLU, SwiGLU.
"""

from __future__ import annotations

from typing import Any

from wmmadiag.errors import ConfigurationError
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Packed, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.epilogue import FUNCTIONS, GATES, spread
from wmmadiag.ops.parts.epilogue_bounds import after, narrow
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged, magnitudes, product_error
from wmmadiag.ops.parts.settings import PRODUCTS, WHICH_GATE, by_layout, narrow_type, types_before_epilogue
from wmmadiag.ops.parts.traits import TENSOR_CORES


def _half(inputs: Arrays, which: str) -> Doubles:
    """A·W + bias of the gate or of what it gates ("up"), (M, N)."""
    product = inputs["a"].astype(np.float64) @ inputs[which].astype(np.float64)
    bias: NDArray[Any] | None = inputs.get(f"{which}_bias")
    return product if bias is None else product + spread(bias, product.shape)


def _told_apart(parameters: Values, inputs: Arrays) -> Arrays:
    """The inputs with the columns of both weights by themselves, where blocks of them take turns.

    Raises:
        ConfigurationError: the columns are no multiple of a block.
    """
    block, (depth, columns) = int(parameters["block"]), inputs["gate"].shape
    if not block:
        return inputs
    if columns % block:
        raise ConfigurationError(f"{columns} columns are no blocks of {block}", hint="take N as a multiple of `block`")
    both = np.concatenate([inputs["gate"], inputs["up"]], axis=1).reshape(depth, -1, 2, block)
    return {**inputs, "gate": both[:, :, 0].reshape(depth, -1), "up": both[:, :, 1].reshape(depth, -1)}


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    inputs = _told_apart(parameters, inputs)
    return {"d": GATES[str(parameters["gating"])].apply(_half(inputs, "gate")) * _half(inputs, "up")}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of activation(A·G + g) ⊙ (A·U + u), element by element.

    Each sum of K products costs `sum_error`·Σ|a||w|, two units its bias; the activation adds what
    `epilogue_bounds.after` derives. With errors ε of the gate x and η of the other factor y, the product is off by
    |y|ε + |x|η + εη, and one more rounding of a narrow epilogue, or of the working type.
    """
    model = arithmetic(parameters, elements["a"])
    inputs = _told_apart(parameters, inputs)
    sizes = {role: magnitudes(array) for role, array in inputs.items()}
    depth = inputs["a"].shape[-1]
    product = product_error(depth, model, 1)
    gating = GATES[str(parameters["gating"])]
    errors, factors = {}, {}
    for which in ("gate", "up"):
        biased = f"{which}_bias" in inputs
        sums = _half(inputs, which)
        error = _half(sizes, which) * (product.relative + 2.0 * biased * model.unit) + product.absolute
        added = np.broadcast_to(spread(sizes[f"{which}_bias"], sums.shape), sums.shape) if biased else 0.0 * sums
        function = gating if which == "gate" else FUNCTIONS["none"]
        errors[which] = after(error, np.abs(sums), added, np.ones_like(sums), narrow(parameters), function, model)
        factors[which] = np.abs(function.apply(sums))
    error = factors["up"] * errors["gate"] + factors["gate"] * errors["up"] + errors["gate"] * errors["up"]
    last = model.unit if narrow(parameters) is None else TYPES[str(parameters["epilogue_dtype"])].unit
    error = error + 2.0 * last * (np.abs(expected["d"]) + error)
    return judged({"d": error}, expected, elements)


_STACKED = ("K2N", "2NK", "KN2", "N2K")  # columns or rows, halves or interleaved
_BLOCKS = {"2NK": (16, 32)}  # fused for tiles of tensor cores; each costs a reading of all else

OPERATION = Operation(
    name="gated_gemm",
    meaning="D = activation(A·G + gate_bias) ⊙ (A·U + up_bias)",
    notes='The two weights are arguments of their own, or one with `role = "gate_up"`, in whose layout the digit is '
    'the axis that picks one: `"K2N"` for halves (the columns of G, then those of U), `"KN2"` for interleaved columns, '
    '`"2NK"` and `"N2K"` for halves and interleaved rows of a `[2N, K]` weight, as nn.Linear has it. '
    '`role = "up_gate"` has U first.',
    roles={
        "a": Role("MK", spellings="a x in input lhs hidden"),
        "gate": Role("KN", spellings="gate wgate gateweight w1 wg bgate"),
        "up": Role("KN", spellings="up wup upweight w3 wu bup"),
        "gate_bias": Role("MN", required=False, usual="N", spellings="gatebias biasgate bg"),
        "up_bias": Role("MN", required=False, usual="N", spellings="upbias biasup bu"),
        "d": Role("MN", output=True, spellings="d c y out output result"),
    },
    parameters={
        "gating": Parameter("word", "swiglu", "activation of the gate", tuple(GATES), asked="which of them it is"),
        "epilogue_dtype": narrow_type("type that the sums have before biases and activation"),
        "block": Parameter(
            "count", "0", "columns of a weight that lie together where blocks of both take turns; 0: all"
        ),
        **PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    extents={
        "M": "m rows nrows numrows tokens numtokens",
        "N": "n cols columns ncols numcols intermediate intermediatesize inter intersize ffndim dff",
        "K": "k inner depth hidden hiddensize hiddendim",
    },
    packed={
        "gate_up": Packed(("gate", "up"), _STACKED, "gateup wgateup gateupweight w13", _BLOCKS),
        "up_gate": Packed(("up", "gate"), _STACKED, "upgate wupgate", _BLOCKS),
    },
    cases=({"M": 64, "N": 64, "K": 64}, {"M": 128, "N": 192, "K": 320}),
    work="4*M*N*K",
    signs=Signs(
        "swiglu geglu reglu glu gatedgemm gatedmlp gateup",
        parts=("gemm",),
        extras="silu gelu relu sigmoid act fused",
        explains=("gate",),
        needs=(TENSOR_CORES,),
        open="its source does not tell how the two weights lie, and which is the gate",
    ),
    choices=(
        WHICH_GATE,
        by_layout(
            "How are the weights stored?",
            {
                "weights stored as K×N": {"gate": "KN", "up": "KN"},
                "weights stored as N×K, as nn.Linear has them": {"gate": "NK", "up": "NK"},
            },
            "gate",
        ),
        *types_before_epilogue("a"),
    ),
)
