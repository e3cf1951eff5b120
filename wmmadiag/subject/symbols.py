"""Which symbols an expression of a card may use, and what `{…}` in entries and macros becomes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TypeAlias

from wmmadiag.errors import ConfigurationError
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.expressions import SymbolScope
from wmmadiag.place import Place
from wmmadiag.subject.card import Card, Case, Computes, Expression, Variant

GivenParameters: TypeAlias = Mapping[str, float | int | bool | str]

_LEAST = {"int": 1, "count": 0, "reach": -1}
_BRACES = re.compile(r"\{([^{}]*)\}")


def case_scope(card: Card, case: Case, variant: Variant) -> SymbolScope:
    """The symbols of one case and variant.

    A case's own symbols come first, then the variant's macros, the card's macros, the card's `[symbols]`, and what
    the operation derives when nobody says otherwise (Skv = S, Hkv = H, …).
    """
    given: list[Mapping[str, Expression]] = [
        case.symbols,
        _macro_symbols(variant.macros),
        _macro_symbols(card.macros),
        card.symbols,
    ]
    return operation_scope(card.computes, *given)


def operation_scope(computes: Computes, *given: Mapping[str, Expression]) -> SymbolScope:
    """The symbols that are given, the first layer before the next, then what the operation makes of them.

    Parameters that shapes may depend on are symbols, too: `transpose_b`, `groups`.
    """
    operation = OPERATIONS[computes.operation]
    counts = {name: one for name, one in operation.parameters.items() if one.kind in _IN_SHAPES}
    said: dict[str, Expression] = {
        name: value for name, value in computes.parameters.items() if name in counts and str(value) != name
    }
    known = {name for layer in given for name in layer}
    derived: dict[str, Expression] = {
        name: text for name, text in operation.symbols.items() if not _runs_in_a_circle(name, operation.symbols, known)
    }
    derived |= {name: str(one.default) for name, one in counts.items() if str(one.default) != name}
    return SymbolScope(*given, said, derived)


def _runs_in_a_circle(name: str, defaults: Mapping[str, str], known: set[str]) -> bool:
    """Whether a symbol's default leads back to it: S and Sq are each other's, and with neither both are unknown."""
    at, seen = name, set[str]()
    while at in defaults and at not in known:
        if at in seen:
            return True
        seen.add(at)
        at = defaults[at]
    return False


_FARTHEST = 2**31 - 1
_IN_SHAPES = ("flag", "int", "count")
"""Kinds of parameters that the expressions of a card, and of shapes, may use by name."""


def _macro_symbols(macros: Mapping[str, Expression]) -> dict[str, Expression]:
    return {name: _BRACES.sub(r"(\1)", value) if isinstance(value, str) else value for name, value in macros.items()}


def evaluate_parameters(computes: Computes, scope: SymbolScope) -> dict[str, float | int | bool | str]:
    """The operation's parameters for one case, defaults included."""
    values: dict[str, float | int | bool | str] = {}
    for name, parameter in OPERATIONS[computes.operation].parameters.items():
        given = computes.parameters.get(name, parameter.default)
        what = f"computes.{name}"
        if parameter.kind == "word":
            values[name] = str(given)
        elif parameter.kind == "flag":
            values[name] = bool(scope.number(given, place=computes.place, what=what))
        elif parameter.kind in _LEAST:
            least = _LEAST[parameter.kind]
            values[name] = whole = scope.integer(given, place=computes.place, what=what, minimum=least)
            if whole > _FARTHEST:
                raise computes.error(f"{what} is {whole}", f"at most {_FARTHEST}")
        else:
            values[name] = number = scope.real(given, place=computes.place, what=what)
            if not math.isfinite(number) or (parameter.kind == "cap" and number < 0):
                raise computes.error(f"{what} is {number}", "it must be finite, and a cap not negative")
    return values


def interpolate(text: str, scope: SymbolScope, *, place: Place, what: str) -> str:
    """Text in which each `{expression}` is replaced by its integer (or real) value."""

    def value(match: re.Match[str]) -> str:
        number = scope.number(match[1], place=place, what=what)
        return str(number) if isinstance(number, int) else repr(float(number))

    return _BRACES.sub(value, text)


def one_kernel(card: Card, variant: Variant) -> bool:
    """Whether all cases of a variant are one compiled kernel: neither its entry nor a macro has an expression."""
    texts = [variant.entry or card.entry, *card.macros.values(), *variant.macros.values()]
    return not any(isinstance(text, str) and _BRACES.search(text) for text in texts)


def rendered_macros(card: Card, case: Case, variant: Variant) -> dict[str, str]:
    """Macros as the compiler gets them, the variant's over the card's.

    Raises:
        ConfigurationError: an expression in braces cannot be evaluated.
    """
    scope = case_scope(card, case, variant)
    place = variant.place
    return {
        name: interpolate(value, scope, place=place, what=f"macro {name}") if isinstance(value, str) else str(value)
        for name, value in {**card.macros, **variant.macros}.items()
    }


def rendered_entry(card: Card, case: Case, variant: Variant) -> str:
    """The kernel's name (or name expression) for one case and variant."""
    place = card.places.of("entry")
    entry = interpolate(variant.entry or card.entry, case_scope(card, case, variant), place=place, what="entry")
    if not entry.strip():
        raise ConfigurationError("'entry' is empty", place=place, hint="name the kernel")
    return entry


def rendered_entries(card: Card, case: Case, variant: Variant) -> tuple[str, ...]:
    """The names (or name expressions) of the kernels that run for one case and variant: several where a host function
    launches several."""
    steps = card.derived.kernel.together if card.derived is not None else None
    if steps is None:
        return (rendered_entry(card, case, variant),)
    return tuple(dict.fromkeys(one.entry for one in steps.stages))
