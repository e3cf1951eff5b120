"""Sizes for which the conditions hold that host code has: what it refuses is not tried."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import Term
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.model import CardDraft

_LARGEST_UNIT = 1 << 14

Fact = tuple[Term, bool]
"""A condition of host code, and whether it holds where the kernel is launched."""


def hold(draft: CardDraft, numbers: dict[str, int], firm: set[str], facts: Sequence[Fact]) -> None:
    """Change sizes, as few as can be, until the conditions of the host code, `facts`, hold for them."""
    usual = tuple((name, value) for name, value in draft.usual.items() if isinstance(value, int) and value > 0)
    numbers.update(_holding(draft.operation, tuple(numbers.items()), frozenset(firm), tuple(facts), usual))


def refuses(facts: Sequence[Fact], operation: str, numbers: Mapping[str, int], naming: Collection[str] = ()) -> bool:
    """Whether a condition does not hold for some sizes.

    Args:
        naming: only conditions that name one of these symbols, or one that is made of it; none: all.
    """
    concerned = {*naming, *(name for name, made_of in OPERATIONS[operation].symbols.items() if made_of in naming)}
    some = [one for one in facts if not naming or terms.symbols(one[0]) & concerned]
    asked = [one for one in some if _about(one[0], numbers)]
    return any(_holds(one, operation, numbers) is False for one in asked)


@lru_cache(maxsize=1 << 12)
def _holding(
    operation: str,
    sizes: tuple[tuple[str, int], ...],
    firm: frozenset[str],
    facts: tuple[Fact, ...],
    usual: tuple[tuple[str, int], ...],
) -> Mapping[str, int]:
    """The sizes for which the conditions hold; each meaning of a kernel's arguments asks for the same ones."""
    numbers, own = dict(sizes), dict(usual)
    # What is no size of a case is as host code has it: a number of threads of which sizes are multiples.
    as_usual = {name: terms.number(value) for name, value in usual if name not in derived(operation, numbers)}
    facts = tuple((terms.replaced(one, as_usual), holds) for one, holds in facts)
    open_ones = [one for one in facts if _about(one[0], numbers) and _holds(one, operation, numbers) is False]
    for fact in open_ones:
        known = derived(operation, numbers)  # Skv, say, which then is a number of its own
        symbols = sorted(name for name in terms.symbols(fact[0]) if name in known and name not in firm)
        if len(symbols) > 3:
            continue
        whole = list(_units(fact[0], known))
        options = [sorted({known[name], *_candidates(known[name], own.get(name), whole)}) for name in symbols]
        apart = [{one: abs(math.log2(one / known[name])) for one in several}
                 for name, several in zip(symbols, options, strict=True)]  # fmt: skip

        def distance(chosen: tuple[int, ...], apart: list[dict[int, float]] = apart) -> float:
            return sum(far[one] for far, one in zip(apart, chosen, strict=True))

        about = [fact, *(one for one in facts if one is not fact and _about(one[0], numbers))]
        for chosen in sorted(product(*options), key=distance):
            tried = {**numbers, **dict(zip(symbols, chosen, strict=True))}
            values = {**derived(operation, tried), **tried}
            if all(_is_so(one, values) is not False for one in about):
                numbers.update(tried)
                break
    return numbers


def of_several_units(draft: CardDraft) -> Iterator[Fact]:
    """That a quotient which host code asks to be a multiple of something is more than once that.

    Groups of which eight share a word are one word of each column otherwise, and their two orders the same.
    """
    waiting = [condition for condition, holds in draft.facts if holds]
    while waiting:
        one = waiting.pop()
        if one.op == "and":
            waiting += [part for part in one.args if isinstance(part, Term)]
        elif one.op == "==" and isinstance(one.args[0], Term) and one.args[0].op == "%" and one.args[1] == terms.ZERO:
            whole, unit = one.args[0].args
            if isinstance(whole, Term) and isinstance(unit, Term) and whole.op == "//":
                yield terms.combined(">", whole, unit), True


def _candidates(value: int, usual: int | None, units: Sequence[int]) -> Iterator[int]:
    yield from (value * factor for factor in (2, 3, 4, 8))
    yield from (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    yield from (-(-value // unit) * unit for unit in units)
    if usual is not None:
        yield usual


def _units(term: Term, values: Mapping[str, int]) -> Iterator[int]:
    """What a condition asks for multiples of."""
    if term.op == "%" and isinstance(term.args[1], Term):
        unit = terms.value(term.args[1], values)
        if isinstance(unit, int) and 1 < unit <= _LARGEST_UNIT:
            yield unit
    for one in term.args:
        if isinstance(one, Term):
            yield from _units(one, values)


def _about(condition: Term, numbers: Mapping[str, int]) -> bool:
    names = terms.symbols(condition)
    return bool(names) and names <= set(numbers) | {"Sq", "Skv", "Hkv", "Dv", "S"}


def _holds(fact: Fact, operation: str, numbers: Mapping[str, int]) -> bool | None:
    return _is_so(fact, {**derived(operation, numbers), **numbers})


def _is_so(fact: Fact, values: Mapping[str, int]) -> bool | None:
    known = terms.value(fact[0], values)
    return None if known is None else bool(known) is fact[1]


def derived(operation: str, numbers: Mapping[str, int]) -> dict[str, int]:
    """What the operation's other symbols are for these sizes."""
    found = dict(numbers)
    for name, text in OPERATIONS[operation].symbols.items():
        seen, meant = 0, text
        while meant not in found and meant in OPERATIONS[operation].symbols and seen < 4:
            meant, seen = OPERATIONS[operation].symbols[meant], seen + 1
        if name not in found and meant in found:
            found[name] = found[meant]
        elif name not in found and meant.isdecimal():
            found[name] = int(meant)
    return found
