"""The function's own text with one thing changed: a comparison, an index, an end, a term or a factor left out.

A kernel computes what its function says, in other words; what its author got wrong there can often be said as one small
change here. Only a function that does nothing but compute is changed: numbers in, numbers out.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wmmadiag.diagnose.edits.conditions import STRICT
from wmmadiag.diagnose.edits.signs import SIGN
from wmmadiag.diagnose.functions.model import Arrays, Change, Task
from wmmadiag.diagnose.functions.mutations import Rewrite, rewrites
from wmmadiag.diagnose.functions.purity import may_be_changed
from wmmadiag.subject.python_reference import Function

_LONGEST = 60
"""Characters of a piece of the function that is quoted."""


def rewritten(task: Task) -> Iterator[Change]:
    """The likeliest mistakes first: what is compared, then which index, then what is left out."""
    tree, path, name = task.tree, task.path, task.name
    if not may_be_changed(tree):
        return
    nodes = list(_nodes(tree))
    found = [
        (rank, at, one)
        for at, (node, function) in enumerate(nodes)
        if function is not None
        for rank, one in rewrites(node, function)
    ]
    for _, at, one in sorted(found, key=lambda item: item[:2]):
        old = nodes[at][0]
        new, text = _changed(tree, at, one)
        line, was = getattr(old, "lineno", 0), _short(old)
        words = f"with {text} in place of {was}" if text else f"without {was}"
        yield Change(
            one.hypothesis,
            f"{one.model}-{line}",
            f"the kernel computes what {path.name}:{line} says {words}",
            _calling(new, path, name),
            {"line": line, **({STRICT: 1} if one.strict else {}), **({SIGN: 1} if one.sign else {})},
        )


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.FunctionDef | None]]:
    """Every node, always in the same order, with the function in whose body it stands."""

    def walk(node: ast.AST, inside: ast.FunctionDef | None) -> Iterator[tuple[ast.AST, ast.FunctionDef | None]]:
        yield node, inside
        for field, value in ast.iter_fields(node):
            own = node if isinstance(node, ast.FunctionDef) and field == "body" else inside
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child, own)

    yield from walk(tree, None)


def _changed(tree: ast.Module, at: int, one: Rewrite) -> tuple[ast.Module, str]:
    """The module with one node replaced, and the replacement's text, "" where it is left out."""
    new = copy.deepcopy(tree)
    target = next(node for number, (node, _) in enumerate(_nodes(new)) if number == at)
    made = one.make(target)
    instead = ast.copy_location(made if made is not None else ast.Pass(), target)
    ast.fix_missing_locations(instead)
    text = _short(made) if made is not None else ""
    for parent in list(ast.walk(new)):
        for field, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, field, instead)
            elif isinstance(value, list) and any(child is target for child in value):
                setattr(parent, field, [instead if child is target else child for child in value])
    return ast.fix_missing_locations(new), text


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _calling(tree: ast.Module, path: Path, name: str) -> Callable[[Task], tuple[Arrays, Arrays]]:
    def predict(task: Task) -> tuple[Arrays, Arrays]:
        scope: dict[str, Any] = {"__name__": "changed_reference", "__file__": str(path)}
        exec(compile(tree, str(path), "exec"), scope)  # the user's own function, which only computes
        function: Function = scope[name]
        return task.call(function=function)

    return predict
