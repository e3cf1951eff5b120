"""A reference that a library has: a function named by the card, called with the case's inputs on the CPU.

`reference = "torch.nn.functional.silu"` calls torch's with float64 tensors; those of other modules get NumPy arrays.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.errors import ConfigurationError
from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.expressions import ExpressionError, evaluate
from wmmadiag.subject.card import Card, FromRole, FromSymbols

Convert: TypeAlias = "Callable[[NDArray[Any]], Any]"


@dataclass(frozen=True, slots=True)
class Library:
    """How a function takes and gives arrays."""

    function: Callable[..., Any]  # what is called
    tensor: Convert  # from an array to what it takes
    array: Callable[[Any], NDArray[Any]]  # from what it gives to an array


def library_of(card: Card) -> Library:
    """The function that a card names, and how to call it.

    Raises:
        ConfigurationError: its module cannot be imported, or has no such function.
    """
    name = card.computes.reference
    parts = name.split(".")
    module, found = _module(card, parts)
    function: Any = module
    for part in parts[found:]:
        function = getattr(function, part, None)
    if not callable(function):
        raise card.computes.error(
            f"{'.'.join(parts[:found])} has no function '{'.'.join(parts[found:])}'",
            '`reference` names a function with its module: "torch.nn.functional.silu"',
        )
    if parts[0] != "torch":
        return Library(function, lambda array: array, np.asarray)
    torch = importlib.import_module("torch")
    return Library(function, lambda array: torch.from_numpy(np.ascontiguousarray(array)), _from_tensor)


def _from_tensor(value: Any) -> NDArray[Any]:
    return np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)


def _module(card: Card, parts: list[str]) -> tuple[Any, int]:
    """The innermost module of a dotted name, and how many parts name it."""
    for count in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[:count])
        try:
            return importlib.import_module(name), count
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if not (name == missing or name.startswith(f"{missing}.")):
                raise _cannot_import(card, name, error) from error  # one of its own imports
        except Exception as error:  # an import may raise anything
            raise _cannot_import(card, name, error) from error
    raise card.computes.error(
        f"the reference {card.computes.reference} needs {parts[0]}, which is not installed",
        f"install {parts[0]} beside wmmadiag (its CPU build will do), or name another function",
    )


def _cannot_import(card: Card, name: str, error: Exception) -> ConfigurationError:
    return card.computes.error(
        f"{name} cannot be imported for the reference {card.computes.reference}: {type(error).__name__}: {error}",
        'install it into the environment of wmmadiag, or name a function of your own: python = "FILE.py:NAME"',
    )


def call_library(
    card: Card,
    inputs: Mapping[str, NDArray[Any]],
    elements: Mapping[str, ElementType],
    symbols: Mapping[str, int | float],
) -> tuple[Any, ...]:
    """What the card's function gives for a case's inputs, as arrays: one, or as many as it returns.

    Real numbers are float64, integers int64, elements of type "bool" booleans.

    Raises:
        ConfigurationError: the function cannot be called so, or what a keyword is cannot be evaluated.
    """
    library = library_of(card)
    computes = card.computes

    def tensor(role: str) -> Any:
        if role not in inputs:
            known = ", ".join(inputs)
            raise computes.error(f"no input has the role '{role}', which the reference takes", f"has: {known}")
        element = elements[role]
        kind = np.bool_ if element.name == "bool" else np.float64 if element.is_float else np.int64
        return library.tensor(inputs[role].astype(kind))

    def meant(value: Any) -> Any:
        if isinstance(value, FromRole):
            return tensor(value.role)
        if isinstance(value, FromSymbols):
            try:
                number = evaluate(str(value.text), symbols.__getitem__)
            except (ExpressionError, KeyError) as error:
                raise computes.error(
                    f"a keyword of the reference cannot be evaluated: {value.text}: {error}",
                    "mend the keyword; it may use the symbols of the case",
                ) from None
            return number if isinstance(number, int) else float(number)
        return [meant(one) for one in value] if isinstance(value, tuple) else value

    positional = [tensor(role) for role in computes.arguments or inputs]
    keywords = {name: meant(value) for name, value in computes.keywords.items()}
    try:
        answer = library.function(*positional, **keywords)
        several = answer if isinstance(answer, tuple | list) else (answer,)
        return tuple(library.array(one) for one in several)
    except Exception as error:  # the library may raise anything
        raise computes.error(
            f"the reference {computes.reference} failed: {type(error).__name__}: {error}",
            "mend its arguments: the card's roles and keywords",
        ) from error
