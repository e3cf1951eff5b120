"""Whether a user's function may be called again and again, and its text changed: it computes, and does nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator

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
