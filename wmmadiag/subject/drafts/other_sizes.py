"""A derived card at other sizes than the likeliest: larger tiles, squares, one query, extents that nothing tells."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from wmmadiag.hostcode.terms import Number
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.drafts.code_facts import tile_shapes
from wmmadiag.subject.drafts.draft import spoken_of
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.model import CardDraft
from wmmadiag.subject.drafts.sizes import cases, unsaid_settings
from wmmadiag.subject.drafts.text import draft_text

TILES = (64, 128, 256)
EXTENTS = (128, 32, 256, 16)  # of a head, where nothing tells
_LARGEST = 512  # what a size is divided by and more is no tile
_LEAVES_OUT = re.compile(r"(?<![\w.])([A-Za-z_]\w*) ?//? ?(\w+)(?![\w.(])")
"""A size that is divided as it stands, in a card's expressions or in C++."""


def resized_cards(card: Card) -> Iterator[tuple[str, Card]]:
    """A derived card at other sizes, with what is said of them.

    Kernels may take larger tiles only, squares only, or have an extent that nothing tells.
    """
    derived = card.derivation
    drafted, given, kernel = derived.draft, derived.options.symbols, derived.kernel
    seen = [dict(case.symbols) for case in card.cases]
    tiles = [(f"one tile of {'x'.join(sizes.values())}", drafted, {**given, **sizes}, TILES[0])
             for sizes in one_tile(drafted, given, kernel)]  # fmt: skip
    for said, draft_, symbols, tile in (*tiles, *_other_sizes(drafted, given, kernel)):
        text = draft_text(draft_, card.path.name, card.path.stem, cases(draft_, symbols, tile=tile))
        other = parse_card(text, card.path, shown=f"card derived from {card.path}")
        if all(dict(case.symbols) in seen for case in other.cases):
            continue
        seen += [dict(case.symbols) for case in other.cases]
        yield said, replace(card, cases=other.cases)


def one_tile(drafted: CardDraft, given: Mapping[str, str], kernel: SourceKernel) -> Iterator[dict[str, str]]:
    """The sizes of one tensor-core operation, for a kernel of which nothing tells any extent of its matrices."""
    extents = [name for name in ("M", "N", "K") if name in OPERATIONS[drafted.operation].extents]
    if len(extents) == 3 and not {*extents} & {*spoken_of(drafted), *given, *drafted.fixed}:
        for shape in tile_shapes(kernel.code, {**kernel.named, **kernel.constants}):
            yield {name: str(size) for name, size in zip(extents, shape, strict=True)}


def settings_in_code(drafted: CardDraft) -> Iterator[dict[str, str]]:
    """Values of numbers that nothing in the launch speaks of, as code may fix them: images are padded by 1."""
    names, usual = unsaid_settings(drafted), OPERATIONS[drafted.operation].cases
    for count in range(1, len(names) + 1):
        for chosen in combinations(names, count):
            yield {name: str(next(one[name] for one in reversed(usual) if name in one)) for name in chosen}


def one_row(drafted: CardDraft, kernel: SourceKernel) -> Iterator[dict[str, str]]:
    """One row, for a kernel of one block that gets no number of rows: the norm of the one token that is decoded."""
    rows = OPERATIONS[drafted.operation].rows
    alone = {*drafted.grid} <= {"1"} if kernel.launch is not None else not re.search(r"\bblockIdx\b", kernel.code)
    if rows and alone and rows not in {*spoken_of(drafted), *drafted.fixed}:
        yield {rows: "1"}


def _whole(drafted: CardDraft, given: Mapping[str, str], kernel: SourceKernel) -> dict[str, int]:
    """The sizes that host code gives, rounded up where grid or kernel divides them and leaves a rest out: another
    kernel of the source may be the one for them."""
    named = {**kernel.named, **kernel.constants}
    sizes = {one.parameter.name: one.value for one in drafted.arguments if one.value in drafted.usual}
    parts = [found for axis in drafted.grid for found in _LEAVES_OUT.findall(axis)]
    parts += [(sizes[name], tile) for name, tile in _LEAVES_OUT.findall(kernel.code) if name in sizes]
    tiles: dict[str, list[int]] = {}
    for name, text in parts:
        tile = int(text) if text.isdecimal() else named.get(text)
        if isinstance(tile, int) and 0 < tile <= _LARGEST:
            tiles.setdefault(name, []).append(tile)
    found = {}
    for name, some in tiles.items():
        size, tile = drafted.usual.get(name), math.lcm(*some)
        if tile > _LARGEST or name in given or name in drafted.fixed:
            continue
        if isinstance(size, int) and size % tile:
            found[name] = -(-size // tile) * tile
    return found


def _other_sizes(
    drafted: CardDraft, given: Mapping[str, str], kernel: SourceKernel
) -> Iterator[tuple[str, CardDraft, Mapping[str, str], int]]:
    """(what is said of them, draft, symbols that are given, tile)."""
    for symbol, meaning in OPERATIONS[drafted.operation].single.items():
        if symbol not in spoken_of(drafted) and symbol not in {*given, *drafted.fixed}:
            yield meaning, drafted, {**given, symbol: "1"}, TILES[0]
    for settings in one_row(drafted, kernel):
        if not settings.keys() & given.keys():
            yield "one row", drafted, {**given, **settings}, TILES[0]
    whole = _whole(drafted, given, kernel)
    if whole:
        said = " and ".join(f"{name} = {size}" for name, size in whole.items())
        told = f"sizes of which nothing is left out ({said}), as host code that calls it with others may see to"
        yield told, replace(drafted, usual={**drafted.usual, **whole}), given, TILES[0]
    for settings in settings_in_code(drafted):
        said = " and ".join(f"{name} = {value}" for name, value in settings.items())
        yield f"{said}, as the code has it", drafted, {**given, **settings}, TILES[0]
    for symbol in drafted.unstated:
        for value in EXTENTS:
            yield f"{symbol} = {value}", drafted, {**given, symbol: str(value)}, TILES[0]
    for tile in TILES[1:]:
        yield f"sizes that are multiples of {tile}", drafted, given, tile
    known = OPERATIONS[drafted.operation]
    apart = {*known.parameters}.union(*known.apart)  # rows and columns of a filter are told apart in any kernel
    square: dict[Number, set[str]] = {}
    for symbol, usual in drafted.usual.items():
        if symbol not in apart:
            square.setdefault(usual, set()).add(symbol)
    groups = [names for names in square.values() if len(names) > 1]
    if groups:
        yield (
            "the squares that the source launches",
            replace(drafted, equal=[*drafted.equal, *groups]),
            given,
            TILES[1],
        )
