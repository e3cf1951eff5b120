"""The product with a low-rank update of its weights: a narrow product between two wide ones.

Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021 (arXiv 2106.09685), section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.model import Alternative, Arrays, Choice, Elements, Operation, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.epilogue import finished
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import (
    Arithmetic,
    Doubles,
    Judgement,
    arithmetic,
    magnitudes,
    operand_error,
    output_rounding,
    product_error,
    sum_error,
)
from wmmadiag.ops.parts.settings import PRODUCTS, added_to_output, by_layout, kept_in, types_of_products


def _wide(inputs: Arrays) -> Doubles:
    """X·Wᵀ, 0 without W."""
    x = inputs["x"].astype(np.float64)
    if "w" in inputs:
        return np.asarray(x @ inputs["w"].astype(np.float64).T)
    return np.zeros((x.shape[0], inputs["up"].shape[0]))


def _narrow(inputs: Arrays) -> Doubles:
    """X·Aᵀ."""
    return np.asarray(inputs["x"].astype(np.float64) @ inputs["down"].astype(np.float64).T)


def _ends(inputs: Arrays) -> Arrays:
    return {role: inputs[role] for role in ("c", "bias") if role in inputs}


def _oracle(parameters: Values, inputs: Arrays) -> dict[str, Doubles]:
    low = float(parameters["alpha"]) * (_narrow(inputs) @ inputs["up"].astype(np.float64).T)
    return {"d": finished(_wide(inputs) + low, _ends(inputs), beta=float(parameters["beta"]))}


def _bound(
    parameters: Values, inputs: Arrays, expected: Mapping[str, Doubles], elements: Elements
) -> dict[str, Judgement]:
    """Bound of X·Wᵀ + alpha·(X·Aᵀ)·Bᵀ + beta·C + bias, element by element.

    With T = X·Aᵀ: its sum of K products costs `sum_error`·Σ|x||a|, and it may be kept in a narrow type (alpha in it
    or not: the relative error is the same). An error ε of T moves the result by |alpha|·ε·|Bᵀ|; the sum over the rank
    costs `sum_error`·|alpha|·(|T| + ε)·|Bᵀ| more. X·Wᵀ is a sum of K products, to which those of the rank may be
    added; it may be kept in a narrow type before. Factors, C and the bias cost six units of all magnitudes together.
    """
    model = arithmetic(parameters, elements["x"])
    alpha, beta = abs(float(parameters.get("alpha", 1.0))), abs(float(parameters.get("beta", 0.0)))
    sizes = {role: magnitudes(array) for role, array in inputs.items()}
    up, depth, rank = sizes["up"].astype(np.float64).T, inputs["x"].shape[-1], inputs["up"].shape[-1]
    product, last = product_error(depth + rank, model, 2), sum_error(rank + 2, model)

    narrow = np.abs(_narrow(inputs))
    of_narrow = _narrow(sizes) * product.relative + product.absolute
    of_narrow = of_narrow + _kept(parameters, "middle_dtype", model, narrow + of_narrow)
    low = alpha * (of_narrow @ up + ((narrow + of_narrow) @ up) * (last.relative + operand_error(model)))
    low = low + alpha * last.absolute

    error = _wide(sizes) * product.relative + product.absolute
    error = error + _kept(parameters, "base_dtype", model, np.abs(_wide(inputs)) + error) + low
    total = finished(_wide(sizes) + alpha * (_narrow(sizes) @ up), _ends(sizes), beta=beta)
    error = error + 6.0 * model.unit * total
    return {"d": Judgement(output_rounding(error, expected["d"], elements["d"]))}


def _kept(parameters: Values, name: str, model: Arithmetic, size: Doubles) -> Doubles:
    """What rounding to the type that a parameter names adds to an error."""
    kind = str(parameters.get(name, "auto"))
    if kind == "auto":
        return model.unit * size
    return np.maximum(TYPES[kind].unit * size, TYPES[kind].half_subnormal)


_NARROW = ("auto", "f16", "bf16")

OPERATION = Operation(
    name="lora",
    meaning="D = X·Wᵀ + alpha · (X·Aᵀ)·Bᵀ + beta · C + bias",
    notes="The weights are as nn.Linear has them: W is N×K, A (`down`) R×K, B (`up`) N×R. W may be left out: the "
    "update alone, or added to what the output held.",
    roles={
        "x": Role("MK", ("M", "K"), spellings="x in input inp hidden activations"),
        "w": Role("NK", ("N", "K"), required=False, spellings="w weight weights base baseweight"),
        "down": Role("RK", ("R", "K"), spellings="a loraa adown down wa wdown adaptera aweight loradown"),
        "up": Role("NR", ("N", "R"), spellings="b lorab bup up wb wup adapterb bweight loraup"),
        "c": Role("MN", ("M", "N"), required=False, spellings="c residual baseout"),
        "bias": Role("MN", ("M", "N"), required=False, usual="N", spellings="bias biases"),
        "d": Role("MN", ("M", "N"), output=True, updates="c", spellings="d y o out output result"),
    },
    parameters={
        "alpha": Parameter(
            "real",
            "1",
            "factor of the update",
            spellings="alpha scale scaling s lorascale loraalpha",
            drafted=("1", "2"),
        ),
        "beta": Parameter("real", "0", "factor of C", spellings="beta", drafted=("0", "3"), factor_of="c"),
        "middle_dtype": Parameter("word", "auto", "type that X·Aᵀ is kept in", _NARROW),
        "base_dtype": Parameter("word", "auto", "type that X·Wᵀ is kept in before the update", _NARROW),
        **PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    made_for={"R": "rank"},
    extents={
        "M": "m rows nrows numrows tokens ntokens numtokens batch batchsize",
        "N": "n cols columns outfeatures outdim dout outputsize outsize",
        "K": "k inner depth infeatures indim din inputsize insize hiddensize hiddendim",
        "R": "r rank lorarank lorar",
    },
    cases=({"M": 64, "N": 64, "K": 64, "R": 16}, {"M": 128, "N": 192, "K": 320, "R": 48}),
    work="2*M*(N*K + K*R + R*N)",
    signs=Signs("lora lowrank", parts=("gemm",), extras="bias fused"),
    choices=(
        by_layout(
            "How does W lie?",
            {"W stored as N×K, as nn.Linear has it": {"w": "NK"}, "W stored as K×N": {"w": "KN"}},
            "w",
        ),
        by_layout(
            "How does A lie?",
            {"A stored as R×K, as nn.Linear has it": {"down": "RK"}, "A stored as K×R": {"down": "KR"}},
            "down",
        ),
        by_layout(
            "How does B lie?",
            {"B stored as N×R, as nn.Linear has it": {"up": "NR"}, "B stored as R×N": {"up": "RN"}},
            "up",
        ),
        Choice(
            "What is alpha?",
            "meaning",
            (
                Alternative("alpha the factor itself", {"alpha": "alpha"}),
                Alternative("alpha divided by the rank", {"alpha": "alpha / R"}),
            ),
        ),
        added_to_output("the update"),
        *types_of_products("x"),
        kept_in("x", "the narrow product", "middle_dtype", *_NARROW),
        kept_in("x", "the product with W", "base_dtype", *_NARROW),
    ),
)
