"""What holds of sizes: conditions of the host code, what it and the kernel divide them by, what the kernel guards."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import Term
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.expressions import names_in
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.meanings import Meanings
from wmmadiag.subject.drafts.model import TODO, CardDraft

_TILES = re.compile(r"ceil_div\((\w+), (\w+)\)")


def note_facts(result: CardDraft, kernel: SourceKernel, meant: Meanings, spoken: Collection[str]) -> None:
    """Conditions of the host code, and by what it and the kernel divide extents.

    Args:
        spoken: symbols that arguments, launch and instantiation speak of.
    """
    for argument in result.arguments:
        name = argument.parameter.own_name
        step = kernel.tiling.steps.get(name)
        if step and argument.value.isidentifier():
            result.steps[argument.value] = math.lcm(step, result.steps.get(argument.value, 1))
        if name in kernel.tiling.strides and argument.value.isidentifier():
            result.strides[argument.value] = max(kernel.tiling.strides[name], result.strides.get(argument.value, 0))
    _guards(result, kernel)
    result.constant = kernel.fixed
    if kernel.launch is None:
        return
    own = {*OPERATIONS[result.operation].symbols, "S", *meant.usual, *spoken}
    constants = {name: terms.number(value) for name, value in kernel.usual.items() if name not in own}
    shaped = {name: terms.number(kernel.usual[name]) for name in kernel.varied & meant.usual.keys()}
    for condition, holds in kernel.launch.facts:
        result.facts.append((terms.replaced(meant.card(condition), constants), holds))
    for cell in kernel.launch.grid.members.values():
        if isinstance(cell.value, Term):
            _divided(result, terms.replaced(meant.card(cell.value), shaped))
    for condition, _ in result.facts:
        _divided(result, terms.replaced(condition, shaped))


def _guards(result: CardDraft, kernel: SourceKernel) -> None:
    """The extents that the kernel compares indices with, of those that the grid rounds up, or a number of tiles that
    the kernel is given."""
    rounded = {name for text in result.grid for name in names_in(text) if "ceil_div" in text}
    counted = _counted(result)
    for argument in result.arguments:
        name = argument.parameter.own_name
        step = kernel.tiling.guards.get(name) or kernel.tiling.guards.get(argument.parameter.name)
        if step and argument.value in rounded and argument.value.isidentifier():
            result.guarded[argument.value] = step
        elif step and argument.value in counted and counted[argument.value] % step == 0:
            result.guarded[argument.value] = step
            result.tiles.setdefault(argument.value, []).append(counted[argument.value])
    result.rounded_up |= rounded - result.guarded.keys()
    over = set().union(*map(names_in, result.grid))
    for argument in result.arguments:  # the depth of a product
        name = argument.parameter.own_name
        step, tile = kernel.tiling.guards.get(name), kernel.tiling.covered.get(name)
        own = argument.value.isidentifier() and argument.value not in (TODO, *over)
        if own and step and tile and step % tile:
            result.guarded[argument.value] = step
            result.tiles.setdefault(argument.value, []).append(tile)


def _counted(result: CardDraft) -> dict[str, int]:
    """Extents of which the kernel is given the number of tiles, rounded up, with the tile."""
    known = {**result.usual, **{name: int(text) for name, text in result.fixed.items() if text.isdecimal()}}
    found = {}
    for one in result.arguments:
        parts = _TILES.fullmatch(one.value)
        tile = (int(parts[2]) if parts[2].isdecimal() else known.get(parts[2])) if parts is not None else None
        if parts is not None and isinstance(tile, int) and tile > 1:
            found[parts[1]] = tile
    return found


def _divided(result: CardDraft, term: Term) -> None:
    """Notes that a symbol is divided by a number."""
    if term.op in ("//", "ceil_div", "/", "%") and term.args[1].op == "number" and term.args[0].op == "symbol":
        by = term.args[1].args[0]
        if isinstance(by, int) and by > 1:
            result.tiles.setdefault(term.args[0].args[0], []).append(by)
    for one in term.args:
        if isinstance(one, Term):
            _divided(result, one)
