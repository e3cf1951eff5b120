"""The loss of a language model's head, whose logits are never stored: cross entropy of a product of matrices.

Wijmans et al., Cut Your Losses in Large-Vocabulary Language Models, 2024 (arXiv 2411.09009), section 3.
"""

from __future__ import annotations

from wmmadiag.numerics.element_types import TYPES, ElementType
from wmmadiag.ops.catalogue.cross_entropy import OPERATION as OF_LOGITS
from wmmadiag.ops.model import Arrays, Drawn, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.epilogue import bias_of, finished
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged, magnitudes, product_error
from wmmadiag.ops.parts.settings import NARROW, PRODUCTS, kept_in, narrow_type, types_of_products, weights_lie
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES

assert OF_LOGITS.oracle is not None and OF_LOGITS.bound is not None
_OF_LOGITS, _BOUND_OF_LOGITS = OF_LOGITS.oracle, OF_LOGITS.bound
_PLAIN: Values = {"smoothing": 0.0}


def _targets(shape: tuple[int, ...], _: ElementType, classes: int, rng: np.random.Generator) -> Doubles:
    """Any class, the last one among them; each fifth is the first, the next the second: either may be ignored."""
    values = rng.integers(0, max(classes, 1), shape).reshape(-1)
    values[:1] = max(classes, 1) - 1
    values[2::5], values[3::5] = 0, min(1, max(classes, 1) - 1)
    return values.reshape(shape).astype(np.float64)


def _weights(shape: tuple[int, ...], _: ElementType, depth: int, rng: np.random.Generator) -> Doubles:
    """Normal ones over √K, as they are when training begins: of logits near 1 each class counts in the sum."""
    return np.asarray(rng.standard_normal(shape) / np.sqrt(max(depth, 1)))


def _logits(inputs: Arrays) -> Doubles:
    product = inputs["x"].astype(np.float64) @ inputs["w"].astype(np.float64).T
    return finished(product, bias_of(inputs))


def _counted(parameters: Values, inputs: Arrays) -> tuple[Arrays, Doubles]:
    """The logits with their targets, 0 for those that are ignored; and 1 for each row that counts, 0 for the others."""
    counts = inputs["targets"].astype(np.int64) != int(parameters["ignore_index"])
    targets = np.where(counts, inputs["targets"].astype(np.int64), 0)
    return {"x": _logits(inputs), "targets": targets}, counts.astype(np.float64)


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    rows, counts = _counted(parameters, inputs)
    found = _OF_LOGITS(_PLAIN, rows)
    return {"loss": found["loss"] * counts, "lse": found["lse"]}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of log Σ exp(l) − l_t for l = X·Wᵀ + bias, row by row.

    A logit is off by at most e: what a sum of K products costs, a bias two units, its rounding to `logits_dtype`. With
    weights w = softmax(l), log Σ exp(l + δ) − log Σ exp(l) = log Σ w·exp(δ), between ± log Σ w·exp(e) for |δ| ≤ e (the
    lower end since Σ w·exp(−e) · Σ w·exp(e) ≥ 1, by Cauchy and Schwarz). The target's own error is e_t. The rest is
    what `cross_entropy` has for logits of the working type.
    """
    model = arithmetic(parameters, elements["x"])
    rows, counts = _counted(parameters, inputs)
    bias = bias_of(inputs)
    lost = product_error(inputs["x"].shape[-1], model, len(bias))
    sizes = {role: magnitudes(array) for role, array in inputs.items() if role != "targets"}
    error = _logits(sizes) * (lost.relative + 2.0 * len(bias) * model.unit) + lost.absolute
    if (kept := str(parameters["logits_dtype"])) != "auto":
        size = np.abs(rows["x"]) + error
        error = error + np.maximum(TYPES[kept].unit * size, TYPES[kept].half_subnormal)
    values = rows["x"] - rows["x"].max(axis=-1, keepdims=True)
    weights = np.exp(values) / np.exp(values).sum(axis=-1, keepdims=True)
    with np.errstate(over="ignore"):
        moved = np.log((weights * np.exp(error)).sum(axis=-1))
    of_target = np.take_along_axis(error, rows["targets"].astype(np.int64)[..., None], axis=-1)[..., 0]
    working = {"x": TYPES["f64" if model.accumulate == "f64" else "f32"], "loss": TYPES["f64"], "lse": TYPES["f64"]}
    plain = _BOUND_OF_LOGITS({**parameters, **_PLAIN}, rows, _OF_LOGITS(_PLAIN, rows), working)
    errors = {"loss": (plain["loss"].bound + moved + of_target) * counts, "lse": plain["lse"].bound + moved}
    return judged(errors, expected, elements)


OPERATION = Operation(
    name="linear_cross_entropy",
    meaning="loss[m] = log(Σ exp(L[m])) − L[m, targets[m]], L = X·Wᵀ + bias; 0 where targets[m] is ignore_index",
    roles={
        "x": Role("MK", spellings="x h hidden hiddenstates a input in inp embeddings"),
        "w": Role(
            "NK",
            drawn=Drawn(_weights, "w", -1),
            spellings="w weight weights b c classifier lmhead lmheadweight vocabweight",
        ),
        "bias": Role("MN", required=False, usual="N", spellings="bias biases"),
        "targets": Role(
            "M", element="int", drawn=Drawn(_targets, "w", -2), spellings=OF_LOGITS.roles["targets"].spellings
        ),
        "loss": Role("M", output=True, spellings=OF_LOGITS.roles["loss"].spellings),
        "lse": Role("M", output=True, required=False, spellings=OF_LOGITS.roles["lse"].spellings),
    },
    parameters={
        "ignore_index": Parameter(
            "real",
            "-100",
            "the target of rows that do not count",
            spellings="ignoreindex ignorelabel ignore ignoreid padid paddingidx",
            drafted=("0", "1"),  # classes that there are: of one that is no target nothing shows
        ),
        "logits_dtype": narrow_type("type that logits are rounded to"),
        **PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    extents={
        "M": "m t rows nrows numrows tokens ntokens numtokens batch batchsize bt seqlen",
        "N": "n v vocab vocabsize nvocab classes numclasses nclasses",
        "K": "k d dim inner depth hiddensize hiddendim embed embeddim dmodel",
    },
    cases=({"M": 64, "N": 64, "K": 64}, {"M": 128, "N": 320, "K": 192}),
    work="2*M*N*K",
    signs=Signs(
        " ".join(
            first + second
            for first in ("linear", "fusedlinear", "lmhead", "fused", "cut")
            for second in ("crossentropy", "xent", "ce", "celoss", "loss")
        ),
        parts=("gemm", "softmax", "cross_entropy"),
        needs=(TENSOR_CORES, EXPONENTIAL),
    ),
    choices=(weights_lie("W", "w", "NK"), kept_in("x", "logits", "logits_dtype", *NARROW), *types_of_products("x")),
)
