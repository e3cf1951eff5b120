"""What a card's host function gives for a case: expected outputs, and the bound that rounding each operation gives."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compile.read import read_text
from wmmadiag.hostcode.program import HostProgram, read_program
from wmmadiag.numerics.element_types import TYPES, ElementType
from wmmadiag.ops.expressions import ExpressionError, evaluate
from wmmadiag.ops.parts.rounding import Doubles, output_rounding
from wmmadiag.subject.card import Card
from wmmadiag.subject.host_functions import library
from wmmadiag.subject.host_functions.text import CallArray, arrays_in, source_text
from wmmadiag.subject.reference_case import ReferenceCase

ANY = 1e300
"""The bound of an element that the function leaves as it is: what a kernel writes there is not judged."""

_ORDERS = 2.0  # of a sum's terms: any may come first (`real.hpp`)
_FLUSHED = 2.0**-125
# tanh.approx.f32: 2^-10.987 relative (PTX ISA, "tanh"); tanhf: 2 ulp.
_TANH, _TANH_APPROX = 2.0**-22, 2.0**-10.9
_APPROXIMATE = re.compile(r"tanh\.approx|\b__?tanhf?\b|\bhtanh")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of host functions, ready to be made."""

    made: Path  # the shared object
    arrays: tuple[CallArray, ...]
    numbers: tuple[str, ...]  # names, in the order in which it takes them


def program_of(path: Path, include_paths: Sequence[Path], macros: Sequence[tuple[str, str]]) -> HostProgram:
    """A source as read, once for each of its versions."""
    text = read_text(path)
    key = (path.as_posix(), text, tuple(include_paths), tuple(macros))
    if key not in _READ:
        _READ.clear()
        _READ[key] = read_program(text, path.as_posix(), include_paths, {name: one or None for name, one in macros})
    return _READ[key]


_READ: dict[Hashable, HostProgram] = {}


def prepared(program: HostProgram, statements: str, numbers: Mapping[str, bool], shown: str) -> Call | None:
    """A call compiled; None where the program has no such functions, or they need more than can be taken out of it.

    Args:
        numbers: those that it may name, and whether each is a real one.
        shown: the source, for messages.

    Raises:
        CompileError: the functions do not compile by themselves. ConfigurationError: there is no compiler.
    """
    arrays = arrays_in(program, statements, numbers)
    own = {one.name for one in arrays or ()}
    named = {name: real for name, real in numbers.items()
             if name not in own and re.search(rf"\b{re.escape(name)}\b", statements)}  # fmt: skip
    text = None if arrays is None else source_text(program, statements, arrays, named)
    if arrays is None or text is None:
        return None
    return Call(library.compiled(text, shown), tuple(arrays), tuple(named))


def numbers_of(card: Card, symbols: Mapping[str, int | float]) -> dict[str, tuple[float, bool]]:
    """The numbers that a call may name, each with whether it is a real one: the kernel's own, and a case's symbols."""
    found = {name: (float(value), isinstance(value, float)) for name, value in symbols.items()}
    for one in card.arguments:
        if one.value is None:
            continue
        try:
            value = float(evaluate(str(one.value), symbols.__getitem__))
        except (ExpressionError, KeyError, ValueError):
            continue
        if one.element.is_float:  # as the kernel gets it
            value = float(np.float32(value)) if one.element.name != "f64" else value
        found[one.name] = value, one.element.is_float
    return found


def host_reference(case: ReferenceCase) -> tuple[dict[str, Doubles], dict[str, Doubles]]:
    """Expected outputs and bounds, by role, as `python_reference` takes and gives them.

    Raises:
        ConfigurationError: the functions are not there, do not compile by themselves, or do not end.
    """
    card, shapes, elements = case.card, case.shapes, case.elements
    sizes = dict(shapes) | {role: one.shape for role, one in case.inputs.items()}
    case = replace(case, inputs=dict(case.inputs) | _begun(card, sizes))
    left = fresh = _run(case)
    if shapes.keys() & case.inputs:
        fresh = _run(replace(case, inputs={role: one for role, one in case.inputs.items() if role not in shapes}))
    expected, bounds = {}, {}
    for role, shape in shapes.items():
        if role not in left:
            raise card.computes.error(
                f"'{card.computes.call}' has no array '{role}', which the kernel writes",
                "let the card call it an input or a workspace",
            )
        expected[role], bounds[role] = _judged(left[role], fresh[role], shape, elements[role])
    return expected, bounds


def left_by_call(case: ReferenceCase) -> dict[str, Doubles]:
    """The numbers that the card's call leaves in the inputs that the kernel gets so, by role, shaped; 0 where none.

    Raises:
        ConfigurationError: as `host_reference`.
    """
    left = _run(replace(case, inputs=dict(case.inputs) | _begun(case.card, case.shapes)))
    wanted = [role for role in case.card.computes.given if role in left and left[role].ndim > 1]
    return {role: np.nan_to_num(left[role][:, 0], posinf=0, neginf=0).reshape(case.shapes[role]) for role in wanted}


def _begun(card: Card, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[Any]]:
    """What the inputs hold before the call that hold afterwards what it leaves: zeros, to which it may add."""
    return {role: np.zeros(shapes[role]) for role in card.computes.given}


def _run(case: ReferenceCase) -> dict[str, Doubles]:
    """The arrays after the card's call."""
    card = case.card
    path = (card.folder / card.computes.host).resolve()
    macros = tuple((name, str(value)) for name, value in card.macros.items())
    if not path.is_file():
        raise card.computes.error(f"there is no source file {path}", "mend `host`; it is relative to the card")
    program = program_of(path, card.include_paths, macros)
    numbers = numbers_of(card, case.symbols)
    kinds = {name: real for name, (_, real) in numbers.items()}
    call = prepared(program, card.computes.call, kinds, card.computes.host)
    if call is None:
        raise card.computes.error(
            f"{card.computes.host} has no host functions for '{card.computes.call}'",
            "call functions of its own, outside namespaces, with roles, symbols and the kernel's numbers",
        )
    counts = {role: int(np.prod(shape)) for role, shape in case.shapes.items()}
    values = [numbers[name][0] for name in call.numbers]
    approximate = _APPROXIMATE.search("\n".join(one.data.decode("utf-8", "replace") for one in program.sources))
    unit = _unit(card, case.elements)
    units = unit, max(_TANH_APPROX if approximate else _TANH, 4 * unit)
    roundings = {role: one.unit for role, one in case.elements.items() if one.is_float}
    done = library.run(call.made, call.arrays, case.inputs, counts, values, units, roundings)
    if done is None:
        raise card.computes.error(
            f"'{card.computes.call}' of {card.computes.host} reads or writes outside its arrays, or does not end",
            "mend `call`, or the function: it must be right for the sizes of the case",
        )
    return done[0]


def _unit(card: Card, elements: Mapping[str, ElementType]) -> float:
    """Of one rounding of the kernel's: as the card says, of double where it has nothing narrower, else of float."""
    if card.computes.rounding:
        return TYPES[card.computes.rounding].unit
    floats = [one for one in elements.values() if one.is_float]
    return TYPES["f64"].unit if floats and all(one.name == "f64" for one in floats) else TYPES["f32"].unit


def _judged(
    left: NDArray[Any], fresh: NDArray[Any], shape: tuple[int, ...], element: ElementType
) -> tuple[Doubles, Doubles]:
    """What one output should hold, and its bound.

    Args:
        left: the array after the call.
        fresh: after one that began with nothing in it: what is unwritten then is not the function's to say, unless it
            adds to what it finds.
    """
    if left.ndim == 1:  # integers
        return left.astype(np.float64).reshape(shape), np.zeros(shape)
    value, error = left[:, 0], left[:, 1]
    bound = output_rounding(_ORDERS * error + _FLUSHED * (error > 0), value, element)
    unsaid = left[:, 2] == library.UNSAID
    if not updates(fresh):
        unsaid |= fresh[:, 2] == library.UNWRITTEN
    return np.where(unsaid, 0.0, value).reshape(shape), np.where(unsaid, ANY, bound).reshape(shape)


def updates(fresh: NDArray[Any]) -> bool:
    """Whether a function adds to what it finds in an array: begun with nothing in it, what it writes is no number."""
    made = ~np.isin(fresh[:, 2], (library.UNWRITTEN, library.UNSAID))
    return bool(np.isnan(fresh[made, 0]).any())
