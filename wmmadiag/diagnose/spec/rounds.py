"""Loops of a changed reference, held to the rounds that they take in the reference as it is.

A change may double what a loop makes in each round once more, or never end it: neither memory nor time would do.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from wmmadiag.diagnose.spec.trees import copied

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
