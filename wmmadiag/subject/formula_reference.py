"""What a card's formulas give for a case: expected outputs, and the bound that rounding each operation gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.numerics.element_types import TYPES, ElementType
from wmmadiag.ops.expressions import ExpressionError, evaluate
from wmmadiag.ops.formulas.evaluate import SaidTensor, evaluated
from wmmadiag.ops.formulas.functions import Reckoning
from wmmadiag.ops.formulas.indices import NamedTensor, Wanted
from wmmadiag.ops.formulas.syntax import parsed
from wmmadiag.ops.formulas.tokens import normalised
from wmmadiag.ops.formulas.tree import Applied as FormulaCall
from wmmadiag.ops.formulas.tree import Equation, nodes
from wmmadiag.ops.parts.rounding import TF32_TRUNCATION, Doubles, arithmetic, output_rounding
from wmmadiag.subject.card import Argument, Card
from wmmadiag.subject.reference_case import ReferenceCase

ANY = 1e300
"""The bound of an element of which formulas say nothing: what a kernel writes there is not judged."""

_TANH, _SQUARES = "gelu_tanh", "squares"


def statements_of(formula: Sequence[str], tensors: Sequence[str]) -> list[Equation]:
    """The statements of a card's formula; its words `gelu_tanh` and `squares` are no statements.

    Raises:
        FormulaError: one is none.
    """
    texts = [one for one in formula if one not in (_TANH, _SQUARES)]
    targets = {
        one.split("=")[0].rstrip("+: ").split("[")[0].split("(")[0].split("^")[0].strip()
        for one in map(normalised, texts)
    }
    known = {*tensors, *targets}
    found = []
    for text in texts:
        plain = (
            text
            if "=" in normalised(text).replace("==", "").replace("<=", "").replace(">=", "")
            else f"{tensors[0]} = {text}"
        )
        found.append(parsed(plain, known.__contains__))
    return [replace(one, power=1) for one in found] if _SQUARES in formula else found


def formula_reference(case: ReferenceCase) -> tuple[dict[str, Doubles], dict[str, Doubles]]:
    """Expected outputs and bounds, by role, as `python_reference` takes and gives them.

    Raises:
        ConfigurationError: the formula cannot be read, or evaluated for these extents.
    """
    card = case.card
    try:
        said = _evaluated(case)
    except (ValueError, IndexError, KeyError, TypeError, ArithmeticError, MemoryError, RecursionError) as error:
        raise card.computes.error(
            f"the formula cannot be evaluated: {error}",
            "mend it: it may use roles, the case's symbols and the numbers of the kernel, whose shapes the card says",
        ) from None
    expected, bounds = {}, {}
    for role, shape in case.shapes.items():
        if role not in said:
            raise card.computes.error(f"the formula does not say '{role}'", "let it, or call that a workspace")
        expected[role], bounds[role] = _judged(said[role], shape, case.elements[role])
    return expected, bounds


def _numbers_of(card: Card, symbols: Mapping[str, int | float]) -> dict[str, float]:
    """The numbers that formulas may name: the kernel's own, as it gets them, and a case's symbols."""
    found = {name: float(value) for name, value in symbols.items()}
    for one in card.arguments:
        if one.value is None:
            continue
        with suppress(ExpressionError, KeyError, ValueError):
            value = float(evaluate(str(one.value), symbols.__getitem__))
            found[one.name] = float(np.float32(value)) if one.element.is_float and one.element.bytes == 4 else value
    return found


def _evaluated(case: ReferenceCase) -> Mapping[str, SaidTensor]:
    card, formula = case.card, case.card.computes.formula
    dims = {name: one for argument in card.arguments for name, one in _dims(argument)}
    outputs = list(case.shapes)
    names = [*outputs, *(one for one in case.inputs if one not in outputs)]
    statements = statements_of(formula, names)
    pairs = any(isinstance(one, FormulaCall) and one.name == "conj" for each in statements for one in nodes(each))
    tensors: dict[str, NamedTensor] = {}
    for role, array in case.inputs.items():
        whole = not case.elements[role].is_float
        tensors[role] = _tensor(array.astype(np.float64), dims.get(role, ()), whole=whole, pairs=pairs)
    wanted = {}
    for role, shape in case.shapes.items():
        before = tensors[role].v if role in tensors else None
        own = dims.get(role, tuple(map(str, shape)))
        is_pair = pairs and bool(own) and own[-1] == "2"
        wanted[role] = Wanted(tuple(shape[:-1] if is_pair else shape), own[:-1] if is_pair else own, before)
    numbers = _numbers_of(card, case.symbols)
    floats = [one for one in case.elements.values() if one.is_float]
    operand = next((one for one in floats if one.bytes <= 2), floats[0] if floats else TYPES["f32"])
    rounding = card.computes.rounding
    narrow = TF32_TRUNCATION if rounding == "tf32" else TYPES[rounding].unit if rounding in ("f16", "bf16") else 0.0
    model = arithmetic({}, operand if operand.is_float else TYPES["f32"])
    meaning = Reckoning(replace(model, operand=0.0), narrow, _TANH if _TANH in formula else "gelu", numbers)
    return evaluated(statements, tensors, numbers, wanted, meaning)


def _dims(argument: Argument) -> list[tuple[str, tuple[str, ...]]]:
    """What a card calls the extents of each view of an argument."""
    return [(one.role, tuple(map(str, one.shape))) for one in argument.views if one.role]


def _tensor(array: NDArray[Any], dims: Sequence[str], *, whole: bool, pairs: bool) -> NamedTensor:
    own = tuple(dims) if len(dims) == array.ndim else tuple(map(str, array.shape))
    if pairs and own and own[-1] == "2":
        return NamedTensor(array[..., 0] + 1j * array[..., 1], own[:-1], whole=whole)
    return NamedTensor(array, own, whole=whole)


def _judged(said: SaidTensor, shape: tuple[int, ...], element: ElementType) -> tuple[Doubles, Doubles]:
    v, e, known = said.v, said.e, said.known
    if v.size * 2 == int(np.prod(shape)):
        v = np.stack([v.real, v.imag], axis=-1)
        e, known = np.repeat(e[..., None], 2, -1), np.repeat(known[..., None], 2, -1)
    v, e, known = (np.asarray(one).reshape(shape) for one in (v, e, known))
    if not element.is_float:
        bound = np.where(e > 0, np.maximum(np.ceil(e), 1.0), 0.0)
        return np.rint(v.astype(np.float64)), np.where(known, bound, ANY)
    value = np.nan_to_num(v.astype(np.float64), nan=0.0)
    error = np.where(np.isfinite(e), e, ANY)
    bound = output_rounding(error, value, element)
    return np.where(known, value, 0.0), np.where(known & np.isfinite(v), bound, ANY)
