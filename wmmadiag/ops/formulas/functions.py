"""Functions of formulas: elementwise ones, those of rows, and those of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from wmmadiag.ops.formulas import values
from wmmadiag.ops.formulas.tree import FormulaError
from wmmadiag.ops.formulas.values import Val, constant
from wmmadiag.ops.formulas.words import CASTS
from wmmadiag.ops.parts.epilogue import FUNCTIONS, Activation
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import U32, Arithmetic

_TANH_APPROX = 2.0**-10.9  # tanh.approx.f32 (PTX ISA, "tanh")
_FAST = 8 * U32  # of __sinf, __cosf, and of logarithms near 0, absolute
_NARROW: Mapping[str, float] = {
    **dict.fromkeys(("half", "f16", "fp16", "float16"), 2.0**-11),
    **dict.fromkeys(("bf16", "bfloat16"), 2.0**-8),
}


@dataclass(frozen=True, slots=True)
class Reckoning:
    """How formulas are meant where they leave it open."""

    model: Arithmetic  # of sums
    narrow: float = 0.0  # relative rounding of what is computed before it is multiplied, or has a name; 0 for none
    gelu: str = "gelu"  # or "gelu_tanh"
    numbers: Mapping[str, float] = field(default_factory=dict)  # among which a norm's epsilon may be


Function: TypeAlias = "Callable[[Reckoning, Sequence[Val]], Val]"


def times(op: str, a: Val, b: Val, meaning: Reckoning) -> Val:
    """A product as it is written: element by element where axes meet, else of matrices.

    Raises:
        FormulaError: they fit neither way.
    """
    if not a.rank or not b.rank or (op == "*" and values.meets(a, b)):
        return values.combined("*", a, b)
    try:
        return values.multiplied(a, b, meaning.model)
    except FormulaError:
        if op == "@" or not values.meets(a, b):
            raise
        return values.combined("*", a, b)


def called(name: str, given: Sequence[Val], meaning: Reckoning) -> Val:
    """A function of values.

    Raises:
        FormulaError: there is no such function, or it does not take these.
    """
    function = _FUNCTIONS.get(name)
    if function is None and name not in CASTS:
        raise FormulaError(f"'{name}' is no function of formulas")
    try:
        return function(meaning, given) if function is not None else values.rounded(given[0], _NARROW.get(name, 0.0))
    except FormulaError:
        raise
    except (ValueError, IndexError) as error:
        raise FormulaError(f"'{name}' takes other arguments") from error


def rows(x: Val, kind: str, model: Arithmetic) -> Val:
    """A sum, mean, maximum or minimum along the last own axis, which stays with extent 1.

    Raises:
        FormulaError: it has none.
    """
    if not x.rank:
        raise FormulaError(f"{kind} of a number")
    axis = [x.v.ndim - 1]
    extreme = kind in ("max", "min")
    found = values.largest(x, axis, least=kind == "min") if extreme else values.summed_up(x, axis, model)
    found = replace(found, dims=(*x.dims[:-1], "1"))
    return values.combined("/", found, constant(float(x.v.shape[-1]), x)) if kind == "mean" else found


def _plain(function: Callable[[NDArray[Any]], NDArray[Any]], absolute: float = 0.0) -> Function:
    """A function of each element that rises or falls."""
    return lambda _, given: values.mapped(given[0], function, absolute=absolute)


def _exact(function: Callable[[NDArray[Any]], NDArray[Any]]) -> Function:
    """One that no kernel rounds, and that moves elements no further apart than they were."""
    return lambda _, given: replace(given[0], v=function(given[0].v), plain=False)


def _steps(name: str) -> Function:
    def stepped(_: Reckoning, given: Sequence[Val]) -> Val:
        x = given[0]
        found = values.mapped(x, getattr(np, name), 0.0)
        # Halves go to the even number, or away from zero.
        halves = (np.abs(x.v - np.trunc(x.v)) == 0.5) if name == "rint" else 0.0
        return replace(found, e=np.maximum(found.e, halves), whole=True)

    return stepped


def _activation(name: str) -> Function:
    def activated(meaning: Reckoning, given: Sequence[Val]) -> Val:
        x, chosen = given[0], FUNCTIONS[meaning.gelu if name == "gelu" else name]
        return _activated(x, chosen)

    return activated


def _activated(x: Val, chosen: Activation) -> Val:
    with np.errstate(all="ignore"):
        e = chosen.slope * x.e + 12 * U32 * np.abs(x.v)
        if chosen is FUNCTIONS["gelu_tanh"]:
            e = e + 0.5 * np.abs(x.v) * _TANH_APPROX
        return replace(x, v=chosen.apply(x.v), e=e, plain=False, whole=False)


def _largest(meaning: Reckoning, given: Sequence[Val]) -> Val:
    if len(given) == 1:
        return rows(given[0], "max", meaning.model)
    found = given[0]
    for one in given[1:]:
        (a, b), (ea, eb), dims = values.aligned([found, one])
        found = Val(np.maximum(a, b), np.maximum(ea, eb) + 0 * (a + b), dims, whole=found.whole and one.whole)
    return found


def _least(meaning: Reckoning, given: Sequence[Val]) -> Val:
    if len(given) == 1:
        return rows(given[0], "min", meaning.model)
    turned = _largest(meaning, [replace(one, v=-one.v) for one in given])
    return replace(turned, v=-turned.v)


def _clamp(meaning: Reckoning, given: Sequence[Val]) -> Val:
    x, low, high = given
    return _least(meaning, [_largest(meaning, [x, low]), high])


def _int8(meaning: Reckoning, given: Sequence[Val]) -> Val:
    x = given[0]
    return _clamp(meaning, [_steps("rint")(meaning, [x]), constant(-128.0, x), constant(127.0, x)])


def _softmax(meaning: Reckoning, given: Sequence[Val]) -> Val:
    x = given[0]
    if not x.rank:
        raise FormulaError("softmax of a number")
    return values.softmax(x, [x.v.ndim - 1], meaning.model)


def _of_rows(kind: str) -> Function:
    return lambda meaning, given: rows(given[0], kind, meaning.model)


def _logsumexp(meaning: Reckoning, given: Sequence[Val]) -> Val:
    high = replace(rows(given[0], "max", meaning.model), e=0.0)
    powers = values.exp(values.combined("-", given[0], high))
    return values.combined("+", values.mapped(rows(powers, "sum", meaning.model), np.log, absolute=_FAST), high)


def _rms(meaning: Reckoning, given: Sequence[Val]) -> Val:
    x, *rest = given
    squares = rows(values.combined("*", x, x), "mean", meaning.model)
    return values.mapped(values.combined("+", squares, _epsilon(meaning, x, rest)), np.sqrt)


def _rmsnorm(meaning: Reckoning, given: Sequence[Val]) -> Val:
    found = values.combined("/", given[0], _rms(meaning, given))
    for weight in (one for one in given[1:] if one.rank):
        found = values.combined("*", found, weight)
    return found


def _layernorm(meaning: Reckoning, given: Sequence[Val]) -> Val:
    x, *rest = given
    centred = values.combined("-", x, rows(x, "mean", meaning.model))
    variance = rows(values.combined("*", centred, centred), "mean", meaning.model)
    root = values.mapped(values.combined("+", variance, _epsilon(meaning, x, rest)), np.sqrt)
    found = values.combined("/", centred, root)
    for op, weight in zip("*+", (one for one in rest if one.rank), strict=False):
        found = values.combined(op, found, weight)
    return found


def _epsilon(meaning: Reckoning, x: Val, given: Sequence[Val]) -> Val:
    """The number among a norm's arguments; else the one that is called so."""
    said = next((one for one in given if not one.rank), None)
    named = [value for name, value in meaning.numbers.items() if "eps" in name.lower()]
    return said if said is not None else constant(named[0] if named else 0.0, x)


def _cov(meaning: Reckoning, given: Sequence[Val]) -> Val:
    """Of variables in rows, as torch.cov has them."""
    (x,) = given
    centred = values.rounded(values.combined("-", x, rows(x, "mean", meaning.model)), meaning.narrow)
    product = values.multiplied(centred, values.turned(centred), meaning.model)
    return values.combined("/", product, constant(float(x.v.shape[-1] - 1), x))


def _cdist(meaning: Reckoning, given: Sequence[Val]) -> Val:
    x, y = given
    product = values.combined("*", constant(2.0, x), values.multiplied(x, values.turned(y), meaning.model))
    first, second = (rows(values.combined("*", one, one), "sum", meaning.model) for one in (x, y))
    apart = values.combined("-", values.combined("+", first, values.turned(second)), product)
    return values.mapped(apart, lambda a: np.sqrt(np.maximum(a, 0)))


def _linear(meaning: Reckoning, given: Sequence[Val]) -> Val:
    x, w, *bias = given
    found = times("@", x, values.turned(w), meaning)
    return values.combined("+", found, bias[0]) if bias else found


def _matmul(meaning: Reckoning, given: Sequence[Val]) -> Val:
    x, y = given
    return times("@", x, y, meaning)


def _triangle(function: Callable[[NDArray[Any]], NDArray[Any]]) -> Function:
    return lambda _, given: replace(
        given[0], v=function(given[0].v), e=function(np.broadcast_to(given[0].e, given[0].v.shape)), plain=False
    )


_FUNCTIONS: Mapping[str, Function] = {
    "exp": lambda _, given: values.exp(given[0]),
    "tanh": lambda _, given: values.tanh(given[0]),
    "exp2": _plain(lambda a: np.exp2(a)),
    "log": _plain(lambda a: np.log(a), _FAST),
    "log2": _plain(lambda a: np.log2(a), _FAST),
    "sin": _plain(lambda a: np.sin(a), _FAST),
    "cos": _plain(lambda a: np.cos(a), _FAST),
    "sqrt": _plain(lambda a: np.sqrt(np.maximum(a, 0))),
    "rsqrt": _plain(lambda a: 1 / np.sqrt(a)),
    "sigmoid": _plain(lambda a: 1 / (1 + np.exp(-a))),
    "softplus": _plain(lambda a: np.logaddexp(0, a)),
    "erf": _plain(lambda a: np.asarray(np.frompyfunc(math.erf, 1, 1)(a), np.float64)),
    "square": lambda _, given: values.combined("*", given[0], given[0]),
    "relu": _exact(lambda a: np.maximum(a, 0)),
    "abs": _exact(lambda a: np.abs(a)),
    "conj": lambda _, given: replace(given[0], v=np.conj(given[0].v)),
    **{name: _activation(name) for name in ("gelu", "gelu_tanh", "silu", "relu6")},
    "swish": _activation("silu"),
    **{name: _steps(name) for name in ("floor", "ceil", "rint")},
    "round": _steps("rint"),
    **dict.fromkeys(("max", "fmax"), _largest),
    **dict.fromkeys(("min", "fmin"), _least),
    **dict.fromkeys(("clamp", "clip"), _clamp),
    "int8": _int8,
    "softmax": _softmax,
    **dict.fromkeys(("sum", "rowsum"), _of_rows("sum")),
    "mean": _of_rows("mean"),
    "amax": _of_rows("max"),
    "logsumexp": _logsumexp,
    "rms": _rms,
    **dict.fromkeys(("rmsnorm", "rms_norm"), _rmsnorm),
    **dict.fromkeys(("layernorm", "layer_norm"), _layernorm),
    "cov": _cov,
    "cdist": _cdist,
    "linear": _linear,
    **dict.fromkeys(("matmul", "mm", "bmm"), _matmul),
    "transpose": lambda _, given: values.turned(given[0]),
    "tril": _triangle(lambda a: np.tril(a)),
    "triu": _triangle(lambda a: np.triu(a)),
}
