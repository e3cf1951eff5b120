"""Real numbers of unknown names: what the result is multiplied or divided by, as a run tells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product

from wmmadiag.numerics.element_types import element_type
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.meanings import is_real
from wmmadiag.subject.drafts.model import TODO, CardDraft, DraftArgument

_MOST = 3
_DRAWN = (0.875, 1.125, 0.9375)
"""Values of factors: no product of some of them is that of others, nor far from it."""
_OF_FLOATS, _OF_BYTES = -1, 7
"""Logarithms of what sums of products of normal numbers are multiplied by, and of what each byte is divided by."""


def factors_of(drafted: CardDraft) -> Iterator[Mapping[str, int]]:
    """What real numbers of unknown names may do to the result: each multiplies it, or divides it."""
    names = [one.parameter.name for one in drafted.arguments if one.value == TODO and _is_real_number(one)]
    if not names or len(names) > _MOST or not factor_of_result(drafted.operation):
        yield {}
        return
    for ways in product((1, -1), repeat=len(names)):
        yield dict(zip(names, ways, strict=True))


def _is_real_number(argument: DraftArgument) -> bool:
    return not argument.parameter.pointer and is_real(argument.parameter)


def factor_of_result(operation: str) -> str:
    """The parameter that all of an operation's result is multiplied by; "" where it has none."""
    known = OPERATIONS[operation].parameters
    return next((name for name, one in known.items() if one.kind == "real" and one.drafted and one.default == "1"), "")


def multiply(result: CardDraft, factors: Mapping[str, int]) -> None:
    """Let numbers be what the result is multiplied or divided by: no two alike, and none 1."""
    name = factor_of_result(result.operation)
    terms_of, size = [str(result.computes.get(name, "1"))], _size_left(result)
    for argument, value in zip(
        [one for one in result.arguments if one.parameter.name in factors], _DRAWN, strict=False
    ):
        own = argument.parameter.name
        symbol = re.sub(r"\W", "_", own)
        argument.value, argument.reason = symbol, "what the result is multiplied or divided by"
        result.fixed[symbol] = f"{value * size ** factors[own]:.17g}"
        size = 1.0
        terms_of.append(f"{'*' if factors[own] > 0 else '/'} {symbol}")
        result.open = [one for one in result.open if one.what != f"the value of '{own}'"]
    result.computes[name] = " ".join(terms_of)
    for one in result.arguments:  # beside such numbers one that nothing reads may well be another
        if _is_real_number(one) and one.parameter.unread and one.parameter.name not in factors:
            one.ignored = one.ignored or OPERATIONS[result.operation].parameters[name].meaning


def _size_left(result: CardDraft) -> float:
    """What keeps results within the bytes that they are stored in, a power of two; 1 for those in wider types.

    What is cut off at the ends of a type tells of a result no more than its sign.
    """
    known = OPERATIONS[result.operation].roles
    every = [(known[one.role], element_type(one.dtype)) for one in result.arguments if one.role in known]
    if not any(role.output and element and not element.is_float and element.bytes == 1 for role, element in every):
        return 1.0
    bytes_read = sum(
        not role.output and element is not None and element.name in ("s8", "u8") for role, element in every
    )
    return 2.0 ** (_OF_FLOATS - _OF_BYTES * bytes_read)
