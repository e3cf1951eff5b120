"""A wrong run as these models see it, and what they propose."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.faults.model import Doubles, Value
from wmmadiag.diagnose.functions.purity import may_be_repeated
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.python_reference import Function, answers_of, load_function

Arrays: TypeAlias = "dict[str, Doubles]"
Symbols: TypeAlias = "dict[str, int | float]"


@dataclass(frozen=True, eq=False)
class Task:
    """The reference of one run, ready to be called again.

    Attributes:
        function: the user's; `tree` and `path`: of its file; `name`: in that file.
        inputs: by role, float64; `whole`: roles of integers (tables, lengths).
        symbols: values that the function is given; `used`: names of those that it looked at.
        shapes: of the outputs, by role.
        extents: sizes of axes above 1, ascending: what an index may be computed with by mistake.
    """

    bound: BoundCase
    function: Function
    tree: ast.Module
    path: Path
    name: str
    inputs: Mapping[str, Doubles]
    whole: frozenset[str]
    symbols: Mapping[str, int | float]
    used: frozenset[str]
    shapes: Mapping[str, tuple[int, ...]]
    extents: tuple[int, ...]

    def call(
        self, inputs: Mapping[str, Doubles] | None = None, symbols: Mapping[str, int | float] | None = None,
        function: Function | None = None,
    ) -> tuple[Arrays, Arrays]:  # fmt: skip
        """Outputs and, where the function gives them, bounds; by role.

        Raises:
            Exception: whatever the function raises.
        """
        given = {role: array.copy() for role, array in (inputs or self.inputs).items()}
        answer = (function or self.function)(given, dict(symbols or self.symbols))
        return answers_of(answer, self.bound.card, self.shapes)


class _Watched(dict[str, "int | float"]):
    """Symbols that remember which of them were asked for."""

    def __init__(self, values: Mapping[str, int | float]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> int | float:
        self.asked.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: int | float | None = None) -> int | float | None:  # type: ignore[override]
        """As of any dict."""
        self.asked.add(name)
        return super().get(name, default)


def task_of(bound: BoundCase) -> Task | None:
    """None where the card's operation is no function, it fails, or it does more than compute."""
    if bound.card.computes.operation != "python":
        return None
    file_name, _, name = bound.card.computes.python.rpartition(":")
    path = bound.card.folder / file_name
    try:
        tree = ast.parse(path.read_text("utf-8-sig"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None
    if not may_be_repeated(tree):
        return None
    elements = bound.elements()
    inputs = {role: array.astype(np.float64) for role, array in bound.inputs().items()}
    symbols = _Watched(bound.symbols)
    try:
        function = load_function(bound.card)
        function({role: array.copy() for role, array in inputs.items()}, symbols)
    except ConfigurationError:
        return None
    except Exception:  # the user's code may raise anything
        return None
    shapes = {role: array.shape for role, array in bound.outputs().items()}
    sizes = {extent for array in inputs.values() for extent in array.shape} | {e for s in shapes.values() for e in s}
    return Task(
        bound,
        function,
        tree,
        path,
        name,
        inputs,
        frozenset(role for role in inputs if not elements[role].is_float and elements[role].bytes >= _INDEX_BYTES),
        dict(bound.symbols),
        frozenset(symbols.asked),
        shapes,
        tuple(sorted(extent for extent in sizes if extent > 1)),
    )


_INDEX_BYTES = 2
"""Integers narrower than this are numbers that are multiplied, not indices."""

Predict: TypeAlias = Callable[[Task], "tuple[Arrays, Arrays]"]


@dataclass(frozen=True, slots=True)
class Change:
    """One way in which the kernel may compute something else than the function.

    Attributes:
        hypothesis: id of what would cause it.
        model: stable name of the change.
        words: what the kernel computes then, as a clause.
        predict: the changed outputs and bounds.
        parameters: "operand": the role that it is about; further ones are for edits.
    """

    hypothesis: str
    model: str
    words: str
    predict: Predict = field(repr=False, compare=False)
    parameters: Mapping[str, Value] = field(default_factory=dict)


Propose: TypeAlias = Callable[[Task], Iterator[Change]]
Wrong: TypeAlias = "Mapping[str, NDArray[np.bool_]]"
