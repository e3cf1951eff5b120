"""The second product of an attention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wmmadiag.ops.model import COLUMN, ROW, Arrays, Elements, Judged, MatrixProduct, Outputs, Role, Signs, Values
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged, magnitudes, product_error
from wmmadiag.ops.parts.scores import as_heads
from wmmadiag.ops.parts.sequence import OF_HEADS, laid_out, turned
from wmmadiag.ops.parts.settings import PRODUCTS, types_of_products
from wmmadiag.ops.parts.traits import ACTIVATION, EXPONENTIAL, TENSOR_CORES


def pv(p: NDArray[Any], v: NDArray[Any]) -> Doubles:
    """P·V with p (B, H, Sq, Skv) and v (B, Hkv, Skv, Dv), shaped (B, H, Sq, Dv) without the axes that p lacks."""
    p4, v4 = as_heads(p), as_heads(v)
    out = np.empty((*p4.shape[:3], v4.shape[3]))
    group = p4.shape[1] // v4.shape[1]
    for batch, head in np.ndindex(p4.shape[:2]):
        out[batch, head] = p4[batch, head].astype(np.float64) @ v4[batch, head // group].astype(np.float64)
    return out.reshape(*p.shape[:-1], v4.shape[3])


def _oracle(_: Values, inputs: Arrays) -> Outputs:
    return {"o": pv(inputs["p"], inputs["v"])}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of P·V: `sum_error`·Σ|p||v|, then the output's rounding."""
    model = arithmetic(parameters, elements["p"])
    product = product_error(inputs["p"].shape[-1], model)
    total = pv(magnitudes(inputs["p"]), magnitudes(inputs["v"]))
    error = total * product.relative + product.absolute
    return judged({"o": error}, expected, elements)


OPERATION = replace(
    OF_HEADS,
    name="pv",
    meaning="O = P·V",
    roles={
        "p": Role("BHSK", ("B", "H", "Sq", "Skv"), spellings="p prob probs attn s a weights"),
        "v": Role("BHSD", ("B", "Hkv", "Skv", "Dv"), spellings="v value values b"),
        "o": Role("BHSD", ("B", "H", "Sq", "Dv"), output=True, spellings="o out output result c y"),
    },
    parameters=PRODUCTS,
    oracle=_oracle,
    bound=_bound,
    products=lambda _: {"o": MatrixProduct("p", COLUMN, "v", ROW)},
    work="2*B*H*Sq*Skv*Dv",
    signs=Signs("pv", ("gemm", "attention"), needs=(TENSOR_CORES,), excludes=(EXPONENTIAL, ACTIVATION), arrays=True),
    choices=(laid_out("v", "o"), turned("v"), *types_of_products("p")),
)
