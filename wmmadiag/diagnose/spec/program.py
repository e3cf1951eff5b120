"""A reference as a program that can be changed: its functions, and a call of it with one of them replaced."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.spec.purity import may_be_changed
from wmmadiag.diagnose.spec.rounds import Rounds
from wmmadiag.errors import ConfigurationError
from wmmadiag.ops.registry import OPERATIONS
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.python_reference import answers_of, load_function

Doubles: TypeAlias = NDArray[np.float64]
_OURS = "wmmadiag.ops"


@dataclass(frozen=True, slots=True)
class Part:
    """One function of a reference."""

    function: FunctionType  # as it is; `tree`: its definition
    tree: ast.FunctionDef
    # file, line: where the definition begins; an empty file for the project's own
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Program:
    """The reference of one bound case."""

    root: FunctionType
    parts: tuple[Part, ...]  # its function and those that it calls, as far as they are Python of the same origin
    # calls a function in its place: outputs by role
    call: Callable[[Callable[..., Any]], Mapping[str, Doubles]] = field(repr=False)
    rounds: Rounds = field(default_factory=Rounds, repr=False)
    _compiled: dict[FunctionType, CodeType] = field(default_factory=dict, init=False, repr=False)

    def changed(self, part: Part, tree: ast.FunctionDef) -> Mapping[str, Doubles]:
        """The outputs with one part's definition replaced.

        Raises:
            TooManyRoundsError: a loop goes round more often than the reference's does.
            Exception: whatever the changed function raises.
        """
        if not self.rounds.known:
            self._called(self.parts[0], self.parts[0].tree)
            self.rounds.known = True
        return self._called(part, tree)

    def _called(self, part: Part, tree: ast.FunctionDef) -> Mapping[str, Doubles]:
        spaces: dict[int, dict[str, Any]] = {}
        made: dict[FunctionType, Any] = {}
        for one in self.parts:
            space = spaces.setdefault(id(one.function.__globals__), dict(one.function.__globals__))
            space |= self.rounds.names()
            exec(self._code(one, tree if one is part else one.tree), space)
            made[one.function] = space[one.tree.name]
        for space in spaces.values():
            for name, value in space.items():
                if isinstance(value, FunctionType) and value in made:
                    space[name] = made[value]
        return self.call(made[self.root])

    def _code(self, part: Part, tree: ast.FunctionDef) -> CodeType:
        """A part's definition, compiled; as it is, once."""
        if tree is not part.tree:
            return self._counted(tree)
        if part.function not in self._compiled:
            self._compiled[part.function] = self._counted(tree)
        return self._compiled[part.function]

    def _counted(self, tree: ast.FunctionDef) -> CodeType:
        return compile(ast.Module([self.rounds.counted(tree)], []), "<reference>", "exec")


def program_of(bound: BoundCase) -> Program | None:
    """The reference of a case, or None where it cannot be called again and again, or its text is not to be had."""
    inputs = bound.inputs()
    operation = bound.card.computes.operation
    if operation == "python":
        return _users(bound)
    oracle = OPERATIONS[operation].oracle
    if not isinstance(oracle, FunctionType):
        return None

    def call(function: Callable[..., Any]) -> Mapping[str, Doubles]:
        given = {role: array.copy() for role, array in inputs.items()}
        answer: Mapping[str, Doubles] = function(dict(bound.parameters), given)
        return answer

    return Program(oracle, _reached(oracle, lambda one: one.__module__.startswith(_OURS), ""), call)


def _users(bound: BoundCase) -> Program | None:
    path = bound.card.folder / bound.card.computes.python.rpartition(":")[0]
    try:
        if not may_be_changed(ast.parse(path.read_text("utf-8-sig"))):
            return None
        function = load_function(bound.card)
    except (OSError, SyntaxError, UnicodeDecodeError, ConfigurationError):
        return None
    if not isinstance(function, FunctionType):
        return None
    inputs = {role: array.astype(np.float64) for role, array in bound.inputs().items()}
    shapes = {role: array.shape for role, array in bound.outputs().items()}

    def call(changed: Callable[..., Any]) -> Mapping[str, Doubles]:
        given = {role: array.copy() for role, array in inputs.items()}
        return answers_of(changed(given, dict(bound.symbols)), bound.card, shapes)[0]

    return Program(function, _reached(function, lambda one: one.__module__ == function.__module__, str(path)), call)


def _reached(root: FunctionType, own: Callable[[FunctionType], bool], file: str) -> tuple[Part, ...]:
    """A function and those of its own kind that it calls, itself first."""
    found: dict[FunctionType, Part] = {}
    front = [root]
    while front:
        function = front.pop()
        if function in found:
            continue
        try:
            lines, first = inspect.getsourcelines(function)
            tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        except (OSError, TypeError, SyntaxError):
            continue
        if not isinstance(tree, ast.FunctionDef) or tree.decorator_list or function.__closure__:
            continue
        found[function] = Part(function, tree, file, first)
        names = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}
        known = (function.__globals__.get(name) for name in sorted(names))
        front += [one for one in known if isinstance(one, FunctionType) and own(one)]
    return tuple(found.values())
