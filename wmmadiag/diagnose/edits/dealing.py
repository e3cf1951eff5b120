"""Deal work out to warps: coordinates that must differ, a loop over strips, a return before the store.

Bad:
    int row = (warp >> 1) * 16, col = (warp >> 1) * 16;      // two of four tiles

Good:
    int row = (warp >> 1) * 16, col = (warp & 1) * 16;
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import children, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.model import SourceModel, Span, Statement, Variable

_KIND = "dealing"
_TILES = ("too-few-warps", "loop-extent", "unwritten-output")


@generator(_KIND, "index-arithmetic", "write-conflict", "unwritten-output", "guard-condition", *_TILES)
def generate(view: View) -> Iterator[Edit]:
    """Other halves of a number, loops in place of one strip for each warp, and returns left out, on wanted lines."""
    yield from _other_half(view)
    yield from _strips(view)
    yield from _returns(view)
    yield from _slices(view)


def _other_half(view: View) -> Iterator[Edit]:
    """Quotient for remainder and the reverse where both coordinates have the same: `w >> 1` and `w & 1`."""
    model = view.model
    for variable in model.variables:
        piece = variable.initial
        if piece is None or variable.dims or not is_integer(variable) or not view.wanted(piece.start, piece.end):
            continue
        for first, last, text in _halves(model, piece):
            change = Change(model.tokens[first].offset, model.tokens[last - 1].end, text)
            old = model.text[change.start : change.end]
            faults = ("index-arithmetic", "write-conflict", "unwritten-output")
            yield from view.offer(_KIND, faults, piece.line, f"{text} in place of {old}", (change,), 0.09)


def _halves(model: SourceModel, piece: Span) -> Iterator[tuple[int, int, str]]:
    """(first token, last, other half) of `name >> 2`, `name & 3` and, with brackets, of such quotients."""
    for at in range(piece.first, piece.last - 2):
        name = model.tokens[at]
        if name.kind != "id" or (at and model.tokens[at - 1].text in (".", "->", "::")):
            continue
        words = [token.text for token in model.tokens[at + 1 : min(at + 4, piece.last)]]
        if words[:2] == [">", ">"] and len(words) == 3 and words[2].isdigit():
            yield at, at + 4, f"{name.text} & {(1 << min(int(words[2]), 16)) - 1}"
        elif words[0] == ">>" and words[1].isdigit():
            yield at, at + 3, f"{name.text} & {(1 << min(int(words[1]), 16)) - 1}"
        elif words[0] == "&" and words[1].isdigit() and (int(words[1]) + 1).bit_count() == 1:
            yield at, at + 3, f"{name.text} >> {int(words[1]).bit_length()}"


def _strips(view: View) -> Iterator[Edit]:
    """`{ int col = warp * 16; … }` becomes `for (int col = warp * 16; col < D; col += WARPS * 16) { … }`."""
    model = view.model
    for variable in model.variables:
        found = _strip(model, variable)
        if found is None or variable.initial is None:
            continue
        warp, width = found
        at = model.statement_at(variable.name_at)
        declaration = model.statements[at]
        block = model.statements[declaration.parent] if declaration.parent >= 0 else None
        if block is None or block.kind != "block" or not view.wanted(variable.start, variable.end):
            continue
        inner = list(children(model, declaration.parent))
        if not inner or inner[0] != at or not _free(model, block):
            continue
        head = re.sub(r"\b(?:const|constexpr)\s+", "", model.text[declaration.start : declaration.end]).rstrip("; \n")
        for number, bound in enumerate(_bounds(view, variable, block)):
            step = f"{_warps(view, variable, warp)} * {width}"
            text = f"for ({head}; {variable.name} < {bound}; {variable.name} += {step}) {{"
            summary = f"loop over all {variable.name} below {bound}"
            change = Change(block.start, declaration.end, text)
            yield from view.offer(_KIND, _TILES, variable.line, summary, (change,), 0.05 + 0.004 * number)


def _strip(model: SourceModel, variable: Variable) -> tuple[str, str] | None:
    """(warp's index, width) of `int col = warp * 16` where no other integer is declared along with it."""
    piece = variable.initial
    if piece is None or variable.kind != "local" or variable.dims or not is_integer(variable):
        return None
    words = [token.text for token in model.tokens[piece.first : piece.last]]
    if len(words) != 3 or words[1] != "*" or sum(v.start == variable.start for v in model.variables) != 1:
        return None
    for name, width in ((words[0], words[2]), (words[2], words[0])):
        other = model.variable(name, piece.start)
        made = other.initial.text if other is not None and other.initial is not None else ""
        if "threadIdx" in made and re.search(r"/|>>|\.[yz]", made) and "%" not in made:
            return name, width
    return None


def _free(model: SourceModel, block: Statement) -> bool:
    """Whether a block is there for itself, without a barrier in it."""
    alone = block.parent >= 0 and model.statements[block.parent].kind == "block"
    return alone and not any(b.kind == "block" and block.start <= b.start < block.end for b in model.barriers)


def _bounds(view: View, variable: Variable, block: Statement) -> Iterator[str]:
    """How many columns a tile may have: parameters and constants, those that the rest of the source uses most first."""
    model = view.model
    names: dict[str, None] = {}
    for other in view.integers(variable.name_at):
        if other.kind == "parameter" or other.name in model.constants:
            names[other.name] = None
    names |= dict.fromkeys(name for name in model.constants if name[:2] != "__")
    used = [t.text for t in model.tokens if not block.start <= t.offset < block.end]
    known = {name: view.number(name) for name in names}
    wide = [name for name, value in known.items() if value is None or value >= 16]
    yield from sorted(wide, key=lambda name: -used.count(name))[:10]


def _warps(view: View, variable: Variable, warp: str) -> str:
    """How many warps a block has, as the source calls it."""
    model = view.model
    for other in view.integers(variable.name_at):
        text = re.sub(r"\s", "", other.initial.text) if other.initial is not None else ""
        if re.fullmatch(r"(?:\w*\()?blockDim\.x\)?(?:/32|/warpSize|>>5)", text):
            return other.name
    made = model.variable(warp, variable.name_at)
    plain = made is not None and made.initial is not None and re.search(r"threadIdx\.y", made.initial.text)
    return "blockDim.y" if plain else "(blockDim.x / 32)"


def _slices(view: View) -> Iterator[Edit]:
    """`begin = blockIdx.z * (K / gridDim.z)` where the slice ends at `begin + LENGTH`: slices begin LENGTH apart."""
    model = view.model
    for variable in model.variables:
        piece = variable.initial
        if piece is None or variable.dims or not is_integer(variable) or not view.wanted(piece.start, piece.end):
            continue
        if len(parts := factors(model, piece)) != 2 or len(terms(model, piece)) != 1:
            continue
        apart = next((b for a, b in (parts, parts[::-1]) if a.text.startswith("blockIdx.")), None)
        for length in _lengths(model, variable) if apart is not None else ():
            if apart is not None and apart.text != length.text:
                text = length.text if length.last - length.first == 1 else f"({length.text})"
                faults = ("index-arithmetic", "loop-extent", "write-conflict")
                summary = f"slices begin {length.text} apart, as long as they are"
                yield from view.offer(_KIND, faults, piece.line, summary, (replaced(apart, text),), 0.04)


def _lengths(model: SourceModel, start: Variable) -> Iterator[Span]:
    """What is added to a slice's start to get its end: in `start + LENGTH`, by itself or as an argument of `min`."""
    ends = [v.initial for v in model.variables if v.initial is not None and v.kind == "local"]
    ends += [s.condition for s in model.statements if s.loop and s.condition is not None]
    for end in ends:
        calls = [c for c in model.calls if c.name == "min" and end.start <= c.start and c.end <= end.end]
        for piece in (*(argument for call in calls for argument in call.arguments), end):
            parts = terms(model, piece)
            names = [model.variable(part.text, part.start) for part in parts]
            if len(parts) == 2 and start in names and "Idx" not in piece.text:
                yield parts[1 - names.index(start)]


def _returns(view: View) -> Iterator[Edit]:
    """`if (!whole) return;` left out."""
    model = view.model
    for statement in model.statements:
        if statement.kind != "if" or statement.condition is None or statement.orelse >= 0:
            continue
        body = model.statements[statement.body]
        only = list(children(model, statement.body)) if body.kind == "block" else [statement.body]
        leaves = len(only) == 1 and model.statements[only[0]].kind == "return"
        if leaves and view.wanted(statement.start, statement.end):
            change = Change(statement.start, statement.end, "")
            faults = ("unwritten-output", "guard-condition")
            summary = f"without the return where {statement.condition.text}"
            yield from view.offer(_KIND, faults, statement.line, summary, (change,), 0.09)
