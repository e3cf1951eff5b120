"""What host code calls that is not its own: the CUDA runtime, BLAS, torch, the standard library.

A model of a function takes the call's node and gives its value; `function` and `method` register it by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from wmmadiag.csource.nodes import Node
from wmmadiag.hostcode.library.registry import CLASSES, FUNCTIONS, METHODS, Maker, Method, Model

if TYPE_CHECKING:
    from wmmadiag.hostcode.machine import Machine
    from wmmadiag.hostcode.scopes import Scope
    from wmmadiag.hostcode.values import Value

_MODULES = ("runtime", "standard", "blas", "torch")
Loader: TypeAlias = Callable[[], None]


@cache
def _loaded() -> bool:
    for name in _MODULES:
        importlib.import_module(f"wmmadiag.hostcode.library.{name}")
    return True


def function_of(name: str) -> Model | None:
    """The model of a function of that plain name, None for an unknown one."""
    _loaded()
    found = FUNCTIONS.get(name)
    if found is not None:
        return found
    return next(
        (model for prefix, model in FUNCTIONS.items() if prefix.endswith("*") and name.startswith(prefix[:-1])), None
    )


def method_of(name: str) -> Method | None:
    """The model of the methods of that name."""
    _loaded()
    return METHODS.get(name)


def made(machine: Machine, kind: str, values: Sequence[Value], node: Node | None, scope: Scope) -> Value | None:
    """An object of a library's class; None for an unknown one."""
    _loaded()
    maker: Maker | None = CLASSES.get(kind.partition("<")[0].rpartition("::")[2])
    return None if maker is None else maker(machine, kind, values, node, scope)
