"""A reference that the user wrote: a Python function named by the card."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from wmmadiag.errors import ConfigurationError
from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.place import Place
from wmmadiag.subject.card import Card
from wmmadiag.subject.library_reference import call_library
from wmmadiag.subject.reference_case import ReferenceCase


def python_reference(case: ReferenceCase) -> tuple[dict[str, Doubles], dict[str, Doubles]]:
    """Call the card's function, or the library's that it names (`library_reference`).

    The function gets two dicts: float64 copies of the logical inputs by role, and the symbols' values. It returns
    the output, or a dict of outputs by role; in place of an output it may give a pair (output, bound), the bound a
    number or an array of the largest error that rounding explains.

    Returns:
        Expected outputs and, for those that came with one, bounds; both float64, by role.

    Raises:
        ConfigurationError: the function is missing or fails, or its result does not fit; with the user's line.
    """
    card, shapes = case.card, case.shapes
    if card.computes.reference:
        given = call_library(card, case.inputs, case.elements, case.symbols)
        return answers_of(dict(zip(shapes, given, strict=False)), card, shapes)
    function = load_function(card)
    arrays = {role: array.astype(np.float64) for role, array in case.inputs.items()}
    with _users_code(card, f"the reference {card.computes.python} failed"):
        answer = function(arrays, dict(case.symbols))
    return answers_of(answer, card, shapes)


def answers_of(
    answer: object, card: Card, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, Doubles], dict[str, Doubles]]:
    """What a call of the card's function gave, as `python_reference` returns it.

    Raises:
        ConfigurationError: it does not fit.
    """
    answers = answer if isinstance(answer, dict) else {next(iter(shapes)): answer}
    expected, bounds = {}, {}
    for role, shape in shapes.items():
        if role not in answers:
            raise card.computes.error(
                f"the reference {_named(card)} gives no output '{role}'",
                f"it gives: {', '.join(map(str, answers)) or 'none'}",
            )
        value = answers[role]
        if isinstance(value, tuple) and len(value) == 2:
            value, bound = value
            bounds[role] = _array(bound, shape, f"the bound of '{role}'", card, broadcast=True)
            if not np.all(bounds[role] >= 0):
                raise card.computes.error(
                    f"the bound of '{role}' of the reference {_named(card)} has negative numbers or NaN",
                    "a bound is the largest error that rounding explains: 0 where there is none",
                )
        expected[role] = _array(value, shape, f"the output '{role}'", card, broadcast=False)
    return expected, bounds


def _named(card: Card) -> str:
    return card.computes.reference or card.computes.python


def _array(value: object, shape: tuple[int, ...], what: str, card: Card, *, broadcast: bool) -> Doubles:
    try:
        plain = np.asarray(value)
        if plain.dtype.kind == "c":
            raise TypeError("the numbers are complex")
        array = plain.astype(np.float64)
        if broadcast:
            array = np.broadcast_to(array, shape)
    except (TypeError, ValueError) as error:
        raise card.computes.error(
            f"{what} of the reference {_named(card)} is no array of numbers of shape {list(shape)}",
            "return an array of that shape",
            detail=str(error),
        ) from None
    if array.shape != shape:
        raise card.computes.error(
            f"{what} of the reference {_named(card)} has shape {list(array.shape)}, not {list(shape)}",
            "return an array of that shape",
        )
    return array


Function: TypeAlias = "Callable[[dict[str, Doubles], dict[str, int | float]], Any]"
"""(inputs by role, symbols) → an output, or outputs by role."""


def load_function(card: Card) -> Function:
    """The function that a card names.

    Raises:
        ConfigurationError: there is none.
    """
    file_name, _, name = card.computes.python.rpartition(":")
    path = card.folder / file_name
    if not path.is_file():
        raise card.computes.error(f"there is no reference file {path}", "give `python` relative to the card's folder")
    spec = importlib.util.spec_from_file_location(f"wmmadiag_reference_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise card.computes.error(f"{path} is not a Python file", 'name it as python = "FILE.py:NAME"')
    module = importlib.util.module_from_spec(spec)
    written = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # leave no __pycache__ beside the user's card
    try:
        with _users_code(card, f"the reference {path.name} cannot be imported"):
            spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    function = getattr(module, name, None)
    if not callable(function):
        raise card.computes.error(f"{path.name} has no function '{name}'", "mend the name, or write the function")
    found: Function = function
    return found


@contextlib.contextmanager
def _users_code(card: Card, failed: str) -> Iterator[None]:
    """Code that may raise anything, also what would end this process; what it prints is no part of any report."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        try:
            words = str(error)
        except Exception:
            words = "(its message cannot be shown)"
        raise ConfigurationError(
            f"{failed}: {type(error).__name__}: {words}",
            place=_line(error, card),
            hint="mend the function; it runs as plain Python, too",
        ) from error


def _line(error: BaseException, card: Card) -> Place:
    """The innermost line of the user's own file, or the card's."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Place(error.filename, error.lineno)
    own = str((card.folder / card.computes.python.rpartition(":")[0]).resolve())
    frames = [f for f in traceback.extract_tb(error.__traceback__) if str(Path(f.filename).resolve()) == own]
    return Place(frames[-1].filename, frames[-1].lineno or 0) if frames else card.computes.place
