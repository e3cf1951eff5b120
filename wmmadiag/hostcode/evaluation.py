"""The evaluator of expressions: a table of handlers by the kind of a node.

A handler takes the run, the node and the scope, and gives the expression's value; `Unknown` where nothing is known.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from wmmadiag.csource.nodes import Node
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.values import Unknown, Value

Handler: TypeAlias = "Callable[[Machine, Node, Scope], Value]"
_HANDLERS: dict[str, Handler] = {}
_MODULES = ("names", "places", "expressions")


def handles(*types: str) -> Callable[[Handler], Handler]:
    """Registers the handler of nodes of these types."""

    def register(handler: Handler) -> Handler:
        _HANDLERS.update(dict.fromkeys(types, handler))
        return handler

    return register


def evaluate(machine: Machine, node: Node, scope: Scope) -> Value:
    """The value of an expression; `Unknown` with its text where nothing is known of it."""
    handler = _handlers().get(node.type)
    if handler is None:
        return Unknown(scope.source.words(node))
    return handler(machine, node, scope)


@cache
def _handlers() -> dict[str, Handler]:
    for name in _MODULES:
        importlib.import_module(f"wmmadiag.hostcode.{name}")
    return _HANDLERS
