"""References and comparisons for arrays, without a card."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.errors import ConfigurationError, did_you_mean
from wmmadiag.place import Place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wmmadiag.compare.observation import Observation
    from wmmadiag.numerics.element_types import ElementType
    from wmmadiag.ops import Operation


@dataclass(frozen=True)
class Reference:
    """What an operation should give.

    Attributes:
        operation: its name.
        value: float64, exact up to float64 rounding.
        bound: float64, same shape: the largest error that rounding can explain in a kernel whose output has type
            `dtype`; its derivation is in `wmmadiag.ops`.
        dtype: the output's type, "f16".
        nonfinite_ok: elements where NaN or infinity is right, too (rows without keys), or None.
    """

    operation: str
    value: NDArray[np.float64]
    bound: NDArray[np.float64]
    dtype: str
    nonfinite_ok: NDArray[np.bool_] | None = None


def reference(operation: str, *, dtype: str = "", **given: Any) -> Reference:
    """The float64 reference of an operation on arrays, with its rounding bound.

    Args:
        operation: its name in a card: "attention" (q, k, v), "gemm" (a, b; optional c, bias, scale_a, scale_b),
            "softmax" (x), …; docs/cards.md has all of them with their inputs.
        dtype: type of the kernel's output: "f16", "bf16", "f32", …; empty: that of the first input.
        given: the inputs by role, in the type that the kernel reads, shaped as in a card (q: (B, H, S, D), leading
            axes may be left out); and the operation's parameters, as in a card's `[computes]`: scale, causal,
            transpose_b, accumulate, p_dtype, …

    Raises:
        ConfigurationError: an unknown operation, input or parameter, a missing input, or shapes that do not fit.

    >>> import numpy as np, wmmadiag
    >>> q, k, v = np.random.default_rng(0).standard_normal((3, 64, 32)).astype(np.float16)
    >>> wmmadiag.reference("attention", q=q, k=k, v=v, causal=True).value.shape
    (64, 32)
    """
    import numpy as np

    from wmmadiag.ops.evaluation import judge
    from wmmadiag.ops.evaluation import reference as compute

    spec = _operation(operation)
    parameters = {name: value for name, value in given.items() if name in spec.parameters}
    inputs = {name: np.asarray(value) for name, value in given.items() if name not in spec.parameters}
    _check_roles(spec, inputs)
    elements = {role: element_of(array) for role, array in inputs.items()}
    output = next(name for name, role in spec.roles.items() if role.output)
    elements[output] = _element_named(dtype) if dtype else next(iter(elements.values()))
    evaluated = _evaluated(spec, parameters, inputs)
    expected = compute(operation, evaluated, inputs)
    judged = judge(operation, evaluated, inputs, expected, elements)[output]
    value = expected[output]
    bound = np.broadcast_to(judged.bound, value.shape)
    return Reference(operation, value, bound, elements[output].name, judged.nonfinite_ok)


def compare_arrays(
    observed: NDArray[Any],
    expected: Reference | NDArray[Any],
    bound: NDArray[Any] | float = 0.0,
    *,
    name: str = "output",
) -> Observation:
    """Compare what a kernel wrote with what it should have written, element by element.

    Args:
        observed: the kernel's output; NumPy or ml_dtypes type.
        expected: a `Reference`, or an array of the same shape.
        bound: with an array: the largest difference allowed, a number or an array.
        name: of the output, for the result.

    Returns:
        How many elements are wrong, the first and the worst, the largest and mean difference, and a map of wrong
        16×16 tiles; `passed` says whether all are right.

    Raises:
        ConfigurationError: the shapes differ, or the type is no element type.

    >>> import numpy as np, wmmadiag
    >>> c = np.zeros((32, 32), np.float32)
    >>> c[20, 3] = 1
    >>> seen = wmmadiag.compare_arrays(c, np.zeros((32, 32)), 1e-3)
    >>> seen.passed, seen.wrong, seen.first.index
    (False, 1, (20, 3))
    """
    import numpy as np

    from wmmadiag.compare.comparison import compare
    from wmmadiag.ops.parts.rounding import Judgement

    criterion, allowed = "tolerance", None
    values: NDArray[Any]
    if isinstance(expected, Reference):
        criterion, allowed = "rounding bound", expected.nonfinite_ok
        values, limit = expected.value, expected.bound
    else:
        element_of(np.asarray(expected))
        values, limit = np.asarray(expected, np.float64), np.asarray(bound, np.float64)
    observed = np.asarray(observed)
    if observed.shape != values.shape:
        raise ConfigurationError(
            f"{name} has shape {list(observed.shape)}, what is expected {list(values.shape)}",
            hint="reshape the output, or give what it is compared with in its shape",
        )
    try:
        limit = np.broadcast_to(limit, values.shape)
    except ValueError:
        raise ConfigurationError(
            f"the bound has shape {list(limit.shape)}, the output {list(values.shape)}",
            hint="give one number, or an array of the output's shape",
        ) from None
    judgement = Judgement(np.array(limit), allowed)
    return compare(observed, values, judgement, output=name, element=element_of(observed), criterion=criterion)


def element_of(array: NDArray[Any]) -> ElementType:
    """The element type that an array holds.

    Raises:
        ConfigurationError: none that kernels have (complex numbers, text, …).
    """
    from wmmadiag.numerics.element_types import element_type

    found = element_type(array.dtype.name)
    if found is None:
        known = (
            "float16, ml_dtypes.bfloat16, float8_e4m3fn, float8_e5m2, float32, float64, int8 … int64, uint8 … uint64"
        )
        raise ConfigurationError(f"no kernel has elements of type {array.dtype.name}", hint=f"known: {known}")
    return found


def _element_named(dtype: str) -> ElementType:
    from wmmadiag.numerics.element_types import TYPES, element_type

    found = element_type(str(dtype))
    if found is None:
        raise ConfigurationError(f"unknown type '{dtype}'", hint=did_you_mean(str(dtype), TYPES))
    return found


def _operation(name: str) -> Operation:
    from wmmadiag.ops import OPERATIONS

    known = {key: operation for key, operation in OPERATIONS.items() if operation.oracle is not None}
    if name not in known:
        raise ConfigurationError(f"unknown operation '{name}'", hint=did_you_mean(name, known))
    return known[name]


def _check_roles(spec: Operation, inputs: dict[str, NDArray[Any]]) -> None:
    roles = [name for name, role in spec.roles.items() if not role.output]
    for name, array in inputs.items():
        if name not in roles:
            raise ConfigurationError(
                f"'{spec.name}' has no input or parameter '{name}'", hint=did_you_mean(name, [*roles, *spec.parameters])
            )
        always = [extent for extent in spec.roles[name].shape if not spec.optional or extent != spec.optional]
        least = 1 if spec.roles[name].usual else min(2, len(always))
        if array.ndim < least:
            raise ConfigurationError(
                f"'{name}' has {array.ndim} dimensions; it needs at least {'one' if least == 1 else 'two'}",
                hint="reshape it: array[None] adds an axis in front",
            )
    missing = [name for name in roles if spec.roles[name].required and name not in inputs]
    if missing:
        inputs_of = f"its inputs: {', '.join(roles)}"
        raise ConfigurationError(f"'{spec.name}' needs the input '{missing[0]}'", hint=inputs_of)


def _evaluated(
    spec: Operation, given: dict[str, Any], inputs: dict[str, NDArray[Any]]
) -> dict[str, float | int | bool | str]:
    """The operation's parameters with their defaults, for inputs whose shapes fit."""
    from wmmadiag.ops.shapes import ShapeMismatch, extents_of
    from wmmadiag.subject.card import Card, Computes, LaunchShape, Places
    from wmmadiag.subject.shapes import check_shapes
    from wmmadiag.subject.symbols import evaluate_parameters, operation_scope

    for name, value in given.items():
        words = spec.parameters[name].words
        if words and value not in words:
            raise ConfigurationError(f"{name} cannot be {value!r}", hint=did_you_mean(str(value), words))
    shapes = {role: array.shape for role, array in inputs.items()}
    plain = {name: int(value) if isinstance(value, bool) else value for name, value in given.items()}
    nowhere = Place("", 0)
    computes = Computes(spec.name, nowhere, plain)
    card = Card("", Path(), Path(), "", (), LaunchShape((1,), (1,), 0, nowhere), (), computes, Places(""))
    try:
        evaluated = evaluate_parameters(computes, operation_scope(computes, extents_of(spec, shapes)))
        check_shapes(card, shapes, evaluated)
    except (ConfigurationError, ShapeMismatch) as error:
        usual = "; ".join(f"{name}: ({', '.join(role.shape)})" for name, role in spec.roles.items() if name in inputs)
        message = error.message if isinstance(error, ConfigurationError) else str(error)
        raise ConfigurationError(message, hint=f"usual shapes: {usual}") from None
    return evaluated
