"""The product with a low-rank update of its weights: a narrow product between two wide ones.

Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021 (arXiv 2106.09685), section 4.1.
"""

from __future__ import annotations

from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts import rounding, settings
from wmmadiag.ops.parts.epilogue import finished
from wmmadiag.ops.parts.late import np


def _wide(inputs: Arrays) -> rounding.Doubles:
    """X·Wᵀ, 0 without W."""
    x = inputs["x"].astype(np.float64)
    if "w" in inputs:
        return np.asarray(x @ inputs["w"].astype(np.float64).T)
    return np.zeros((x.shape[0], inputs["up"].shape[0]))


def _narrow(inputs: Arrays) -> rounding.Doubles:
    """X·Aᵀ."""
    return np.asarray(inputs["x"].astype(np.float64) @ inputs["down"].astype(np.float64).T)


def _ends(inputs: Arrays) -> Arrays:
    return {role: inputs[role] for role in ("c", "bias") if role in inputs}


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    low = float(parameters["alpha"]) * (_narrow(inputs) @ inputs["up"].astype(np.float64).T)
    return {"d": finished(_wide(inputs) + low, _ends(inputs), beta=float(parameters["beta"]))}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of X·Wᵀ + alpha·(X·Aᵀ)·Bᵀ + beta·C + bias, element by element.

    With T = X·Aᵀ: its sum of K products costs `sum_error`·Σ|x||a|, and it may be kept in a narrow type (alpha in it
    or not: the relative error is the same). An error ε of T moves the result by |alpha|·ε·|Bᵀ|; the sum over the rank
    costs `sum_error`·|alpha|·(|T| + ε)·|Bᵀ| more. X·Wᵀ is a sum of K products, to which those of the rank may be
    added; it may be kept in a narrow type before. Factors, C and the bias cost six units of all magnitudes together.
    """
    model = rounding.arithmetic(parameters, elements["x"])
    alpha, beta = abs(float(parameters.get("alpha", 1.0))), abs(float(parameters.get("beta", 0.0)))
    sizes = {role: rounding.magnitudes(array) for role, array in inputs.items()}
    up, depth, rank = sizes["up"].astype(np.float64).T, inputs["x"].shape[-1], inputs["up"].shape[-1]
    product, last = rounding.product_error(depth + rank, model, 2), rounding.sum_error(rank + 2, model)

    narrow = np.abs(_narrow(inputs))
    of_narrow = _narrow(sizes) * product.relative + product.absolute
    of_narrow = of_narrow + _kept(parameters, "middle_dtype", model, narrow + of_narrow)
    low = alpha * (of_narrow @ up + ((narrow + of_narrow) @ up) * (last.relative + rounding.operand_error(model)))
    low = low + alpha * last.absolute

    error = _wide(sizes) * product.relative + product.absolute
    error = error + _kept(parameters, "base_dtype", model, np.abs(_wide(inputs)) + error) + low
    total = finished(_wide(sizes) + alpha * (_narrow(sizes) @ up), _ends(sizes), beta=beta)
    error = error + 6.0 * model.unit * total
    return rounding.judged({"d": error}, expected, elements)


def _kept(parameters: Values, name: str, model: rounding.Arithmetic, size: rounding.Doubles) -> rounding.Doubles:
    """What rounding to the type that a parameter names adds to an error."""
    kind = str(parameters.get(name, "auto"))
    if kind == "auto":
        return model.unit * size
    return np.maximum(TYPES[kind].unit * size, TYPES[kind].half_subnormal)


OPERATION = Operation(
    name="lora",
    meaning="D = X·Wᵀ + alpha · (X·Aᵀ)·Bᵀ + beta · C + bias",
    notes="The weights are as nn.Linear has them: W is N×K, A (`down`) R×K, B (`up`) N×R. W may be left out: the "
    "update alone, or added to what the output held.",
    roles={
        "x": Role("MK", spellings="x in input inp hidden activations"),
        "w": Role("NK", required=False, spellings="w weight weights base baseweight"),
        "down": Role("RK", spellings="a loraa adown down wa wdown adaptera aweight loradown"),
        "up": Role("NR", spellings="b lorab bup up wb wup adapterb bweight loraup"),
        "c": Role("MN", required=False, spellings="c residual baseout"),
        "bias": Role("MN", required=False, usual="N", spellings="bias biases"),
        "d": Role("MN", output=True, updates="c", spellings="d y o out output result"),
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
        "middle_dtype": settings.narrow_type("type that X·Aᵀ is kept in"),
        "base_dtype": settings.narrow_type("type that X·Wᵀ is kept in before the update"),
        **settings.PRODUCTS,
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
        settings.weights_lie("W", "w", "NK"),
        settings.weights_lie("A", "down", "RK"),
        settings.weights_lie("B", "up", "NR"),
        settings.by_value(
            "What is alpha?",
            "meaning",
            "alpha",
            {"alpha the factor itself": "alpha", "alpha divided by the rank": "alpha / R"},
        ),
        settings.added_to_output("the update"),
        *settings.types_of_products("x"),
        settings.kept_in("x", "the narrow product", "middle_dtype", *settings.NARROW),
        settings.kept_in("x", "the product with W", "base_dtype", *settings.NARROW),
    ),
)
