"""A reference as a program that can be changed: its functions, and a call of it with one of them replaced."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.spec.trees import copied
from wmmadiag.errors import ConfigurationError
from wmmadiag.ops.registry import OPERATIONS
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.python_reference import answers_of, load_function

# Loops of a changed reference, held to the rounds that they take in the reference as it is.
#
# A change may double what a loop makes in each round once more, or never end it: neither memory nor time would do.


_MORE = 2
"""Rounds that a changed loop may take beyond those of the reference: an end that is one off, at both ends."""
_BEGIN, _ROUND = "_loop_begins", "_loop_goes_round"
_Loop: TypeAlias = tuple[str, int, int]


class TooManyRoundsError(Exception):
    """A changed loop goes round more often than that of the reference can have been meant to."""


@dataclass(slots=True)
class Rounds:
    """How often each loop of a reference goes round."""

    known: bool = False  # whether the reference ran as it is: until then rounds are counted, not limited
    _most: dict[_Loop, int] = field(default_factory=dict)
    _now: dict[_Loop, int] = field(default_factory=dict)

    def counted(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """A definition, changed or not, whose loops tell here when they go round."""
        made: ast.FunctionDef = _Told(tree.name).visit(copied(tree))
        return ast.fix_missing_locations(made)

    def names(self) -> dict[str, Any]:
        """What such a definition calls."""
        return {_BEGIN: self._begin, _ROUND: self._round}

    def _begin(self, *loop: Any) -> None:
        self._now[loop] = 0

    def _round(self, *loop: Any) -> None:
        self._now[loop] = self._now.get(loop, 0) + 1
        if not self.known:
            self._most[loop] = max(self._most.get(loop, 0), self._now[loop])
        elif self._now[loop] > self._most.get(loop, 0) + _MORE:
            raise TooManyRoundsError


class _Told(ast.NodeTransformer):
    """A loop is known by its function and place, which a change leaves as they are."""

    def __init__(self, function: str) -> None:
        self._function = function

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        return self._loop(node)

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        return self._loop(node)

    def _loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        self.generic_visit(node)
        node.body = [self._call(_ROUND, node), *node.body]
        return [self._call(_BEGIN, node), node]

    def _call(self, name: str, node: ast.stmt) -> ast.stmt:
        where: list[ast.expr] = [ast.Constant(each) for each in (self._function, node.lineno, node.col_offset)]
        return ast.Expr(ast.Call(ast.Name(name, ast.Load()), where, []))


# Whether a user's function may be called again and again, and its text changed: it computes, and does nothing else.


_MATHEMATICS = frozenset(
    {"numpy", "math", "itertools", "functools", "operator", "typing", "collections", "dataclasses", "__future__"}
)
_LIBRARIES = _MATHEMATICS | {"scipy", "torch", "jax", "einops", "ml_dtypes"}
_FORBIDDEN = frozenset(
    {"open", "exec", "eval", "compile", "input", "exit", "quit", "globals", "locals", "vars", "getattr",
     "setattr", "delattr", "breakpoint", "save", "savez", "savez_compressed", "savetxt", "tofile", "memmap", "load",
     "loadtxt", "genfromtxt", "fromfile", "dump", "ctypeslib", "lib", "f2py", "testing", "hub", "distributed"}
)  # fmt: skip
"""Names of what does more than compute."""
_UNENDING = (ast.While, ast.Global, ast.Nonlocal, ast.AsyncFunctionDef, ast.Await, ast.With)
"""What a change could make endless, or remembers something between calls."""


def may_be_repeated(tree: ast.Module) -> bool:
    """Whether calls leave nothing behind: known libraries only, and no name of what reads or writes."""
    return _imports(tree) <= _LIBRARIES and _names(tree).isdisjoint(_FORBIDDEN) and not _hidden(tree)


def may_be_changed(tree: ast.Module) -> bool:
    """Whether any small change of it still does nothing but compute, and comes to its end."""
    unending = any(isinstance(node, _UNENDING) for node in ast.walk(tree))
    return may_be_repeated(tree) and not unending and _imports(tree) <= _MATHEMATICS


def _imports(tree: ast.Module) -> frozenset[str]:
    def modules() -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (one.name.partition(".")[0] for one in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield "." if node.level else (node.module or "").partition(".")[0]

    return frozenset(modules())


def _names(tree: ast.Module) -> frozenset[str]:
    def names() -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.Attribute):
                yield node.attr
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                yield from (one.name.rpartition(".")[2] for one in node.names)

    return frozenset(names())


def _hidden(tree: ast.Module) -> bool:
    return any(name.startswith("__") and name not in ("__name__", "__future__") for name in _names(tree))


Doubles: TypeAlias = NDArray[np.float64]
_OURS = "wmmadiag.ops"


@dataclass(frozen=True, slots=True)
class ReferencePart:
    """One function of a reference."""

    function: FunctionType  # as it is; `tree`: its definition
    tree: ast.FunctionDef
    # file, line: where the definition begins; an empty file for the project's own
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ReferenceProgram:
    """The reference of one bound case."""

    root: FunctionType
    parts: tuple[
        ReferencePart, ...
    ]  # its function and those that it calls, as far as they are Python of the same origin
    # calls a function in its place: outputs by role
    call: Callable[[Callable[..., Any]], Mapping[str, Doubles]] = field(repr=False)
    rounds: Rounds = field(default_factory=Rounds, repr=False)
    _compiled: dict[FunctionType, CodeType] = field(default_factory=dict, init=False, repr=False)

    def changed(self, part: ReferencePart, tree: ast.FunctionDef) -> Mapping[str, Doubles]:
        """The outputs with one part's definition replaced.

        Raises:
            TooManyRoundsError: a loop goes round more often than the reference's does.
            Exception: whatever the changed function raises.
        """
        if not self.rounds.known:
            self._called(self.parts[0], self.parts[0].tree)
            self.rounds.known = True
        return self._called(part, tree)

    def _called(self, part: ReferencePart, tree: ast.FunctionDef) -> Mapping[str, Doubles]:
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

    def _code(self, part: ReferencePart, tree: ast.FunctionDef) -> CodeType:
        """A part's definition, compiled; as it is, once."""
        if tree is not part.tree:
            return self._counted(tree)
        if part.function not in self._compiled:
            self._compiled[part.function] = self._counted(tree)
        return self._compiled[part.function]

    def _counted(self, tree: ast.FunctionDef) -> CodeType:
        return compile(ast.Module([self.rounds.counted(tree)], []), "<reference>", "exec")


def program_of(bound: BoundCase) -> ReferenceProgram | None:
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

    return ReferenceProgram(oracle, _reached(oracle, lambda one: one.__module__.startswith(_OURS), ""), call)


def _users(bound: BoundCase) -> ReferenceProgram | None:
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

    return ReferenceProgram(
        function, _reached(function, lambda one: one.__module__ == function.__module__, str(path)), call
    )


def _reached(root: FunctionType, own: Callable[[FunctionType], bool], file: str) -> tuple[ReferencePart, ...]:
    """A function and those of its own kind that it calls, itself first."""
    found: dict[FunctionType, ReferencePart] = {}
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
        found[function] = ReferencePart(function, tree, file, first)
        names = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}
        known = (function.__globals__.get(name) for name in sorted(names))
        front += [one for one in known if isinstance(one, FunctionType) and own(one)]
    return tuple(found.values())
