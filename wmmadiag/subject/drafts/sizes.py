"""Sizes for a drafted card's cases: those of the source itself, smaller where they are large, and told apart.

A size keeps its rest by the tiles that the host code divides it by: what is no multiple there is none here. Different
extents get different sizes, so that one in another's place shows; a kernel that host code calls for squares gets them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from wmmadiag.hostcode.terms import Number
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.expressions import ExpressionError, evaluate, names_in
from wmmadiag.subject.drafts.held_sizes import derived, hold, of_several_units, refuses
from wmmadiag.subject.drafts.model import CardDraft
from wmmadiag.subject.drafts.numbers import PASSED

_NAMES = ("small", "tiles")
RAGGED = "tail"
OTHER_SHAPE = "launch"  # the kernel as host code launches it in another shape, too
UNUSUAL = frozenset({RAGGED, OTHER_SHAPE})
"""Cases that tell nothing of what a kernel is meant to compute: it is judged in them as it is read by the others."""
_MASKED = "causal"  # where a flag says so; as many rows as columns, so that both corners of the mask are one
_USUAL_TILE = 64
_USUAL_REST = 16  # vectors of 16 bytes stay whole
_SMALLEST_REST = 8  # those of 2-byte elements, too
_USUAL_NAME = {"Sq": "S", "Skv": "S"}
_LARGEST_TILE = 512
_LARGEST_PROBED = 1024
_MOST_OPERATIONS = 1e9  # of a case whose extents are made to differ
_LONGEST_TURN = 4096  # elements
_LARGEST_NAMED = 1 << 16
_FEW = 3  # matrices, where an operation's own cases have one
_WHOLE, _PART = 8, 2  # heads, and those of keys: neither index // 4 is index // 2, nor either of them index % 2
_SIDES = 8  # of an area of a tile
_COUNTED = 4  # a size up to this counts heads or matrices
_MOST_ELEMENTS, _MOST_IN_SHAPE = 1 << 22, 2e8  # of a case of another shape: the product of its sizes, its operations
_LARGEST_USUAL = 96  # a size up to this is taken as it is

Sizes = dict[str, str]


def cases(
    draft: CardDraft, given: Mapping[str, str], *, tile: int = _USUAL_TILE, batched: bool = False
) -> list[tuple[str, Sizes]]:
    """Names and sizes of the cases.

    Args:
        given: symbols of the command line; they win.
        tile: what extents of unknown granularity are multiples of.
        batched: whether there are several batches and heads, though nothing in the launch speaks of them.
    """
    used = _used(draft) | ({"B", "H", OPERATIONS[draft.operation].optional or "batch"} if batched else set())
    found: list[tuple[str, Sizes]] = []
    tables = [*zip(_NAMES, OPERATIONS[draft.operation].cases, strict=False)]
    masked = "causal" in used and not {"causal"} & {*draft.fixed, *given}
    tables += [(_MASKED, tables[-1][1])] if masked else []
    for name, table in tables:
        values = _case(draft, name, table, used, tile, given)
        if all(values != other for _, other in found):
            found.append((name, values))
    # A mask hides what lies behind the end, too: what guards that is seen without one.
    last = next((values for name, values in reversed(found) if name != _MASKED), {})
    ragged = _ragged(draft, last, given)
    every = [*found, (RAGGED, ragged)] if ragged else found
    if found and (other := _in_other_shape(draft, given, tile, batched)):
        every = [*every, (OTHER_SHAPE, other)]
    return [(name, _alike(draft, values, used | {*draft.fixed, *given})) for name, values in every]


def _in_other_shape(draft: CardDraft, given: Mapping[str, str], tile: int, batched: bool) -> Sizes:
    """The sizes of a case in which host code's other shape is launched, its symbols among them; empty for none.

    An extent is as large beside a block as host code has it: what is launched over whole blocks takes no part of one.
    """
    other = draft.other_shape
    if other is None or draft.varied & given.keys():
        return {}
    shaped = replace(
        draft, other_shape=None, usual=other.usual, facts=other.facts, tiles=other.tiles, steps=other.steps,
        strides=other.strides,
    )  # fmt: skip
    values = [one for name, one in cases(shaped, given, tile=tile, batched=batched) if name in _NAMES][-1]
    numbers = {name: int(text) for name, text in values.items() if text.isdecimal()}
    blocks = [_blocks(draft, text, numbers) for text in draft.block]
    if None in blocks or any(numbers.get(name) != other.usual[name] for name in draft.varied):
        return {}
    firm, threads = {*draft.fixed, *draft.constant, *given}, int(math.prod(one for one in blocks if one is not None))
    firm |= {*draft.grid}  # what has a block for each index lies beside no block's threads
    for symbol in [one for one in numbers if one in OPERATIONS[draft.operation].extents and one not in firm]:
        alike = next((group for group in draft.equal if symbol in group), {symbol}) & numbers.keys() - firm
        numbers |= dict.fromkeys(alike, beside_block(numbers[symbol], other.usual.get(symbol), threads))
    work = _operations(draft, numbers)
    whole = math.prod(number for name, number in numbers.items() if name not in draft.varied)
    if whole > _MOST_ELEMENTS if work == math.inf else work > _MOST_IN_SHAPE:
        return {}
    if refuses(other.facts, draft.operation, numbers):
        return {}
    return values | {name: str(number) for name, number in numbers.items()}


def beside_block(size: int, usual: Number | None, threads: int) -> int:
    """A size that is less than a block's threads where the source's own is, with the same rest by them where not."""
    if isinstance(usual, int):
        if usual < threads:
            return size if size < threads else usual
        return max(size // threads, 1) * threads + usual % threads
    return -(-size // threads) * threads if size > _COUNTED else size


def _alike(draft: CardDraft, values: Sizes, said: Collection[str]) -> Sizes:
    """Sizes with those that follow from others where nothing speaks of them, and of what they follow from."""
    for symbol, text in OPERATIONS[draft.operation].alike.items():
        numbers = {name: int(value) for name, value in values.items() if value.isdecimal()}
        told = {*numbers} & {*said, *unvaried(draft.operation)}
        if symbol in values and symbol not in said and names_in(text) <= told:
            values = {**values, symbol: f"{evaluate(text, numbers.__getitem__):g}"}
    return values


def probed_sizes(draft: CardDraft, given: Mapping[str, str], *, tile: int, batched: bool) -> list[tuple[str, Sizes]]:
    """One case of several such tiles, whose extents differ so that one is not taken for another."""
    name, values = [one for one in cases(draft, given, batched=batched) if one[0] not in UNUSUAL][-1]
    seen: set[str] = set()
    firm = {*draft.fixed, *draft.constant, *given, *(symbol for group in draft.equal for symbol in group)}
    firm |= unvaried(draft.operation)
    for symbol, value in values.items():
        number = int(value) if value.isdecimal() else 0
        if number >= _USUAL_TILE and symbol not in firm:
            step = _steps(draft, symbol)
            step = math.lcm(step, tile) if step <= _LARGEST_TILE and math.lcm(step, tile) <= _LARGEST_PROBED else tile
            number = -(-2 * tile // step) * step
            while str(number) in seen:
                number += step
            values[symbol] = str(number)
        seen.add(values[symbol])
    return [(name, values)]


def narrow_axes(draft: CardDraft, tried: Sequence[tuple[str, Sizes]]) -> Iterator[str]:
    """What these sizes do not show, each a clause: an axis of the grid has one block, and more for larger sizes."""
    values = [{name: int(text) for name, text in one.items() if text.isdecimal()} for _, one in tried]
    for axis, text in zip("xyz", draft.grid, strict=False):
        if not values or not names_in(text) or any(_blocks(draft, text, one) != 1 for one in values):
            continue
        for symbol in sorted(names_in(text) & values[-1].keys() - draft.fixed.keys()):
            size = values[-1][symbol]
            larger = (size << doubled for doubled in range(1, 16) if size << doubled <= _LARGEST_NAMED)
            found = next((one for one in larger if (_blocks(draft, text, {**values[-1], symbol: one}) or 0) > 1), None)
            if found is not None:
                yield f"at the sizes tried the grid has one block along {axis}; --symbol {symbol}={found} gives it more"
                break


def _blocks(draft: CardDraft, text: str, numbers: Mapping[str, int]) -> float | None:
    """An axis of the grid at these sizes; None where they do not tell it."""
    known = {**derived(draft.operation, numbers), **numbers}
    try:
        return float(evaluate(text, known.__getitem__))
    except (ExpressionError, KeyError, ArithmeticError):
        return None


def unvaried(operation: str) -> set[str]:
    """Extents that an operation's usual cases have in common: that of a head."""
    first, *others = OPERATIONS[operation].cases
    return {name for name, value in first.items() if others and all(one.get(name) == value for one in others)}


def unsaid_settings(draft: CardDraft, used: Collection[str] | None = None) -> list[str]:
    """Numbers other than extents that an operation's usual cases vary and nothing in the launch speaks of: padding.

    They are as the operation has them, or what the code itself fixes. `used`: the names that the draft speaks of.
    """
    known = OPERATIONS[draft.operation]
    spoken = _used(draft) if used is None else used
    every = dict.fromkeys(name for case in known.cases for name in case)
    settings = [name for name in every if name not in known.extents and name != known.optional]
    return [name for name in settings if known.symbols.get(name, "").isdecimal() and name not in spoken]


def unguarded_sizes(draft: CardDraft, values: Sizes, given: Mapping[str, str]) -> Sizes:
    """Sizes that are no multiples of a tile along extents that the grid rounds up and nothing guards, while others are.

    Empty where nothing is guarded, or everything.
    """
    if not draft.guarded or not draft.rounded_up:
        return {}
    return _ragged(replace(draft, guarded=dict.fromkeys(draft.rounded_up, 1)), values, given)


def _ragged(draft: CardDraft, values: Sizes, given: Mapping[str, str]) -> Sizes:
    """Sizes that are no multiples of a tile, where the kernel compares indices with them and the grid is rounded up."""
    found = dict(values)
    for symbol, step in draft.guarded.items():
        own = symbol if symbol in found else _USUAL_NAME.get(symbol, "")
        if own not in found or own in draft.fixed or own in given or not found[own].isdecimal():
            continue
        tiles = [one for one in draft.tiles.get(symbol, ()) if _SMALLEST_REST < one <= _LARGEST_TILE]
        whole = math.lcm(*tiles)
        rest = -(-min(_USUAL_REST, whole // 2) // step) * step
        if tiles and rest % whole:
            blocks = 1 if symbol != "Skv" else 2
            ragged = str(blocks * whole + rest)
            alike = next((group for group in draft.equal if own in group), {own})
            taken = found | {name: ragged for name in alike if name in found and name not in draft.fixed}
            numbers = {name: int(text) for name, text in taken.items() if text.isdecimal()}
            if not refuses(draft.facts, draft.operation, numbers, alike):
                found = taken
    return found if found != values else {}


def _case(
    draft: CardDraft, name: str, table: Mapping[str, int], used: set[str], tile: int, given: Mapping[str, str]
) -> Sizes:
    first = name == _NAMES[0]
    numbers = {
        symbol: _sized(
            draft, symbol, value, tile, 1 if first or not {symbol, f"{symbol}q", f"{symbol}kv"} & used else 2
        )
        for symbol, value in table.items()
    }
    for symbol in ("B", "H"):
        if symbol in numbers and symbol not in used:
            numbers[symbol] = 1  # nothing in the launch speaks of it: the kernel takes one
    optional = OPERATIONS[draft.operation].optional
    if optional in numbers and optional not in used:
        del numbers[optional]
    elif optional in used:
        numbers.setdefault(optional, 1 if first else _FEW)
    for symbol in unsaid_settings(draft, used):
        numbers.pop(symbol, None)
    if not first:
        _told_apart(draft, {symbol: value for symbol, value in table.items() if symbol in numbers}, numbers, tile)
    if not first:
        _told_by_numbers(draft, name, numbers)
        _several_turns(draft, numbers, tile)
    for symbol, value in draft.usual.items():
        if symbol not in numbers and symbol in used and _USUAL_NAME.get(symbol) not in numbers:
            numbers[symbol] = int(value)
    for group in draft.equal:
        known = [numbers[symbol] for symbol in group if symbol in numbers]
        said = [int(given[symbol]) for symbol in group if given.get(symbol, "").isdecimal()]
        numbers |= dict.fromkeys(group & set(numbers), max(said or known, default=1))
    numbers |= {symbol: int(text) for symbol, text in draft.fixed.items() if text.isdecimal()}
    parameters = OPERATIONS[draft.operation].parameters
    drafted = {
        symbol: one.drafted[0 if first else 1]
        for symbol, one in parameters.items()
        if draft.computes.get(symbol) == symbol and one.drafted
    }
    # Those of two axes differ in all but the first case, whatever the source has: one in the other's place shows.
    kinds = ("int",) if first else ("int", "count")
    counts = {symbol: int(text) for symbol, text in drafted.items() if parameters[symbol].kind in kinds}
    numbers |= counts
    firm = {*draft.fixed, *draft.constant, *given}
    hold(draft, numbers, firm, draft.facts)
    if not first:
        hold(draft, numbers, firm, [*draft.facts, *of_several_units(draft)])
    values = {symbol: str(value) for symbol, value in numbers.items() if symbol not in counts}
    values |= {symbol: str(numbers.get(symbol, text)) for symbol, text in drafted.items()}
    if "causal" in used and "causal" not in given:
        values["causal"] = str(int(name == _MASKED))
    return {**values, **draft.fixed, **given}


def _sized(draft: CardDraft, symbol: str, value: int, tile: int, blocks: int) -> int:
    """A size of about that value, of so many of the host's tiles at least, with the same rest as the source's own."""
    tiles = [one for one in draft.tiles.get(symbol, ()) if one <= _LARGEST_TILE]
    tiles += [one for one in (_steps(draft, symbol),) if one <= _LARGEST_TILE]
    step, tile = math.lcm(*tiles), _granularity(draft, symbol, tile)
    usual = next((draft.usual[one] for one in (symbol, f"{symbol}q") if one in draft.usual), None)
    if isinstance(usual, int) and 0 < usual <= _LARGEST_USUAL and usual <= max(value, tile) and blocks == 1:
        return usual
    if value <= 4:  # heads and batches, and rows that a block takes several of
        return -(-value // step) * step
    step = math.lcm(step, tile) if step <= _LARGEST_TILE else step
    rest = int(usual) % step if isinstance(usual, int) else 0
    own = math.lcm(*tiles)
    rounded = -(-max(value, blocks * own if own <= _LARGEST_TILE else 0) // step) * step + rest
    if rest and not (isinstance(usual, int) and usual > step):  # less than a tile where the source has it so
        rounded -= step
    return max(rounded, rest or step)


def _granularity(draft: CardDraft, symbol: str, tile: int) -> int:
    """What an extent of unknown granularity is a multiple of, where others are of `tile`."""
    return tile // _SIDES if symbol in OPERATIONS[draft.operation].untiled else tile


def _steps(draft: CardDraft, symbol: str) -> int:
    """What the kernel itself steps through an extent by, under whichever of its names."""
    return math.lcm(*(draft.steps.get(one, 1) for one in (symbol, f"{symbol}q", f"{symbol}kv")))


def _told_apart(draft: CardDraft, table: Mapping[str, int], numbers: dict[str, int], tile: int) -> None:
    """Make extents differ again that differ in an operation's usual case and were rounded up to the same size."""
    before: list[str] = []
    for symbol in sorted(table, key=lambda symbol: table[symbol]):
        alike = [one for one in before if table[one] != table[symbol] and numbers[one] == numbers[symbol]]
        before.append(symbol)
        if not any(numbers[one] > table[one] for one in (*alike, symbol) if alike):
            continue
        steps = [one for one in (*draft.tiles.get(symbol, ()), _steps(draft, symbol)) if one <= _LARGEST_TILE]
        own_tile = _granularity(draft, symbol, tile)
        step = math.lcm(*steps, own_tile) if math.lcm(*steps) <= _LARGEST_TILE else math.lcm(*steps)
        own = {**numbers, symbol: numbers[symbol] + step}
        if _operations(draft, own) <= _MOST_OPERATIONS:
            numbers[symbol] = own[symbol]


def _several_turns(draft: CardDraft, numbers: dict[str, int], tile: int) -> None:
    """Give an extent that a block's threads step through a size of more than one turn, where that is no long run.

    One that is gone through in tiles gets three: what is carried into the second alone is right in two. What counts
    matrices stays: tables in shared memory have room for so many, and each costs as much as the others.
    """
    turns = [*draft.strides.items(), *((symbol, 2 * step) for symbol, step in draft.steps.items())]
    for symbol, count in turns:
        own = symbol if symbol in numbers else _USUAL_NAME.get(symbol, "")
        if own not in numbers or not _COUNTED < numbers[own] <= count < _LONGEST_TURN:
            continue
        steps = [one for one in (*draft.tiles.get(symbol, ()), _steps(draft, symbol), tile) if one <= _LARGEST_TILE]
        step = math.lcm(*steps)
        size = (count // step + 1) * step
        while size in numbers.values():  # two extents alike hide one in the other's place
            size += step
        larger = {**numbers, own: size}
        if _operations(draft, larger) <= _MOST_OPERATIONS:
            numbers[own] = larger[own]


def _operations(draft: CardDraft, sizes: Mapping[str, int]) -> float:
    """How much a case computes; infinite if not known."""
    known = OPERATIONS[draft.operation]

    def lookup(name: str) -> int:
        if name in sizes:
            return sizes[name]
        text = str(known.symbols[name] if name in known.symbols else known.parameters[name].default)
        return int(text) if text.isdecimal() else lookup(text)

    try:
        return float(evaluate(known.work, lookup))
    except (ExpressionError, KeyError, RecursionError):
        return math.inf


def _told_by_numbers(draft: CardDraft, name: str, numbers: dict[str, int]) -> None:
    """Give extents that a kernel takes as numbers of their own different values: one in the other's place shows."""
    known = OPERATIONS[draft.operation]
    # An accessor's sizes come with it, whether or not the kernel looks at them; strides of a tensor have its extents.
    given = [one for one in draft.arguments if not one.parameter.name.endswith(")")]
    taken = {one.value for one in given}
    named = [one for one in given if one.reason != PASSED and not one.parameter.pointer and one.value]
    spoken = set().union(*(names_in(one.value) for one in named))
    for part, whole in known.divisors.items() if name != _MASKED else ():
        if part in taken | spoken and whole in numbers:
            numbers |= {whole: _WHOLE, part: _PART}
    squares = "S" in known.symbols.values() and "S" in numbers and name != _MASKED
    if squares and {"Sq", "Skv"} <= taken:
        numbers["Skv"] = 2 * numbers["S"]
    for pair, value in known.apart.items():
        if set(pair) <= taken and not {*draft.fixed} & set(pair):
            numbers[pair[1]] = value
    for role, symbol in known.counted_by.items():
        same = known.symbols.get(symbol)
        if same in numbers and symbol not in numbers and draft.holding(role) is not None:
            numbers[symbol] = numbers[same] * 3 // 2


def _used(draft: CardDraft) -> set[str]:
    texts = [*draft.grid, *draft.block, draft.shared, *(one.value for one in draft.arguments)]
    texts += [one.size for one in draft.arguments]
    texts += re.findall(r"\{([^{}]*)\}", draft.entry)
    return set().union(*(names_in(text) for text in texts if text))
