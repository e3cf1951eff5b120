"""The tables that models of library functions register in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from wmmadiag.csource.nodes import Node

if TYPE_CHECKING:
    from wmmadiag.hostcode.machine import Machine
    from wmmadiag.hostcode.scopes import Scope
    from wmmadiag.hostcode.values import Value

Model: TypeAlias = "Callable[[Machine, Node, Scope], Value]"
Method: TypeAlias = "Callable[[Machine, Value, Node, Scope], Value | None]"
Maker: TypeAlias = "Callable[[Machine, str, Sequence[Value], Node | None, Scope], Value | None]"

FUNCTIONS: dict[str, Model] = {}
METHODS: dict[str, Method] = {}
CLASSES: dict[str, Maker] = {}


def function(*names: str) -> Callable[[Model], Model]:
    """Registers the model of functions by plain names; one that ends with `*` counts for all that begin so."""

    def register(model: Model) -> Model:
        for name in names:
            known = FUNCTIONS.get(name)
            # The same one again: its module was imported anew.
            if known is not None and (known.__module__, known.__qualname__) != (model.__module__, model.__qualname__):
                raise TypeError(f"{model.__module__}: '{name}' has a model already")
            FUNCTIONS[name] = model
        return model

    return register


def method(*names: str) -> Callable[[Method], Method]:
    """Registers the model of the methods of these names; of several, each answers for the objects that it knows."""

    def register(model: Method) -> Method:
        for name in names:
            earlier = METHODS.get(name)
            METHODS[name] = model if earlier is None else _either(earlier, model)
        return model

    return register


def _either(one: Method, other: Method) -> Method:
    def either(machine: Machine, whole: Value, node: Node, scope: Scope) -> Value | None:
        found = one(machine, whole, node, scope)
        return found if found is not None else other(machine, whole, node, scope)

    return either


def maker(*names: str) -> Callable[[Maker], Maker]:
    """Registers what makes objects of the classes of these plain names."""

    def register(one: Maker) -> Maker:
        CLASSES.update(dict.fromkeys(names, one))
        return one

    return register
