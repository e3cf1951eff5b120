"""What each lane addresses or holds: ldmatrix rows, `.trans`, swizzles, accumulator elements, register order.

Bad:
    ldmatrix_x4(b, &sh[(row + (lane & 7)) * LD + k + (lane >> 3) * 8]);        // rows 8 to 15 are never addressed

Good:
    ldmatrix_x4(b, &sh[(row + (lane & 15)) * LD + k + (lane >> 4) * 8]);
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.lane_functions import MACRO
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.model import Call, SourceModel, Span

_KIND = "lane-maps"
_LDMATRIX = ("ldmatrix-address", "operand-layout", "index-arithmetic")
_SWIZZLE = ("swizzle-mismatch", "ldmatrix-address")
_MAP = ("fragment-map", "operand-order", "operand-layout", "index-arithmetic")
_TRANS = re.compile(r"ldmatrix\.sync\.aligned\.(?:m8n8\.(x[124])|(x[124])\.m8n8|m8n8)(\.trans)?")
# PTX ISA, mma.m16n8k16; wmma m16n16k16 on sm_75 and later holds two such tiles: element e of a lane.
_MAP_ROW = "({lane} / 4 + 8 * ({e} / 2 % 2))"
_MAP_COLUMN = "({lane} % 4 * 2 + {e} % 2 + 8 * ({e} / 4))"


@generator(_KIND, *_LDMATRIX, *_SWIZZLE[:1], *_MAP[:2])
def generate(view: View) -> Iterator[Edit]:
    """Lane addresses, transposition, swizzles, accumulator maps and register order on wanted lines."""
    if view.lines is None:
        return
    yield from _transposed(view)
    yield from _transposed_macro(view)
    yield from _other_function(view)
    yield from _swizzled(view)
    yield from _wrapped(view)
    yield from _halves(view)
    yield from _guessed_map(view)


def _transposed(view: View) -> Iterator[Edit]:
    """`.trans` added to, or taken from, an ldmatrix."""
    for token in view.model.tokens:
        match = _TRANS.search(token.text) if token.kind == "str" else None
        if match is None or not view.wanted(token.offset, token.end):
            continue
        end = token.offset + match.end()
        change = Change(end - len(".trans"), end, "") if match[3] else Change(end, end, ".trans")
        summary = "ldmatrix without .trans" if match[3] else "ldmatrix with .trans"
        yield from view.offer(_KIND, ("operand-layout", "ldmatrix-address"), token.line, summary, (change,), 0.04)


def _transposed_macro(view: View) -> Iterator[Edit]:
    """`.trans` in the macro that a wanted line uses."""
    model = view.model
    for found in MACRO.finditer(model.text):
        match = _TRANS.search(found[2])
        calls = [call for call in model.calls if call.name == found[1] and view.wanted(call.start, call.end)]
        if match is None or not calls:
            continue
        end = found.start(2) + match.end()
        change = Change(end - len(".trans"), end, "") if match[3] else Change(end, end, ".trans")
        summary = f"{found[1]} {'without' if match[3] else 'with'} .trans"
        faults = ("operand-layout", "ldmatrix-address")
        yield from view.offer(_KIND, faults, calls[0].line, summary, (change,), 0.04)


def _other_function(view: View) -> Iterator[Edit]:
    """A call of the sibling function that takes the same arguments: the one that transposes, or does not."""
    model = view.model
    text = model.text
    found = {m[1]: text[m.end() : text.find("}", m.end())] for m in _DEFINED.finditer(text)}
    loads = {name for name, body in found.items() if "ldmatrix" in body}
    for call in model.calls:
        if call.name not in loads or not view.wanted(call.start, call.end):
            continue
        for other in sorted(loads - {call.name}):
            change = Change(call.name_at, call.name_at + len(call.name), other)
            faults = ("operand-layout", "ldmatrix-address")
            yield from view.offer(_KIND, faults, call.line, f"{other} in place of {call.name}", (change,), 0.02)


_DEFINED = re.compile(r"__device__[^;{}()]*?\b(\w+)\s*\([^{};]*\)\s*(?=\{)")


def _lane(model: SourceModel, piece: Span) -> str:
    """The name of the lane's number in an expression, "" if there is none."""
    for token in model.tokens[piece.first : piece.last]:
        variable = model.variable(token.text, token.offset) if token.kind == "id" else None
        made = variable.initial.text if variable is not None and variable.initial is not None else ""
        if "threadIdx" in made and re.search(r"%\s*(32|WARP)|&\s*(31|0x1[fF])|warpSize", made):
            return token.text
    return ""


def _swizzled(view: View) -> Iterator[Edit]:
    """An address without the swizzle that the other side of the tile has, or with a second one."""
    model = view.model
    functions = {m[1] for m in _SWIZZLE_FUNCTION.finditer(model.text)}
    for index, token in enumerate(model.tokens):
        if token.text == "^" and view.wanted(token.offset) and index > 0:
            last = model.match[index + 1] + 1 if model.tokens[index + 1].text == "(" else index + 2
            change = Change(token.offset, model.tokens[last - 1].end, "")
            yield from view.offer(_KIND, _SWIZZLE, token.line, "without the exclusive or", (change,), 0.05)
    for call in model.calls:
        if not view.wanted(call.start, call.end) or call.name in functions:
            continue
        for argument in call.arguments:
            for name in sorted(functions):
                yield from _through(view, call, argument, name)


_SWIZZLE_FUNCTION = re.compile(
    r"\b(?:int|unsigned|u?int32_t|size_t)\s+(\w+)\s*\(\s*(?:const\s+)?\w+\s+\w+\s*,\s*(?:const\s+)?\w+\s+\w+\s*\)\s*"
    r"\{[^{}]*\^"
)


def _wrapped(view: View) -> Iterator[Edit]:
    """An offset through the function that swizzles the other side of the tile, or no longer through it."""
    model = view.model
    names = {found[1] for found in _SWIZZLE_OFFSET.finditer(model.text)}
    spelled = {model.text[call.start : call.name_at] + call.name for call in model.calls if call.name in names}
    pieces = [one.indices[-1] for one in model.subscripts]
    for call in model.calls:
        for argument in call.arguments if call.name not in names else ():
            pieces += [
                model.span(index + 1, model.match[index])
                for index in range(argument.first, argument.last)
                if model.tokens[index].text == "(" and model.tokens[index - 1].kind != "id"
            ]
        if call.name in names and len(call.arguments) == 1 and view.wanted(call.start, call.end):
            inner = call.arguments[0]
            change = Change(call.start, call.end, f"({inner.text})")
            yield from view.offer(_KIND, _SWIZZLE, call.line, f"without {call.name}", (change,), 0.06)
    for piece in pieces:
        plain = not any(token.text in names for token in model.tokens[piece.first : piece.last])
        if plain and piece and len(terms(model, piece)) > 1 and view.wanted(piece.start, piece.end):
            for name in sorted(spelled):
                change = replaced(piece, f"{name}({piece.text})")
                yield from view.offer(_KIND, _SWIZZLE, piece.line, f"through {name}", (change,), 0.035)


_SWIZZLE_OFFSET = re.compile(
    r"\b(?:int|unsigned|u?int32_t|size_t)\s+(\w+)\s*\(\s*(?:const\s+)?\w+\s+\w+\s*\)\s*(?:const\s*)?\{[^{}]*\^"
)


def _through(view: View, call: Call, argument: Span, name: str) -> Iterator[Edit]:
    """`base + row * pitch + chunk * 8` as `base + swizzle(row, chunk)`."""
    model = view.model
    sums = terms(model, argument)
    if len(sums) != 3 or name in argument.text:
        return
    row = factors(model, sums[1])
    if len(row) < 2:
        return
    column = sums[2].text.strip()
    for _ in range(2):
        column = column[1:-1].strip() if column.startswith("(") and _closes(column) else column
        column = re.sub(r"\s*(\*\s*8|<<\s*3)$", "", column)
    column = column[1:-1].strip() if column.startswith("(") and _closes(column) else column
    column = re.split(r"\s*\^", column)[0].strip()
    column = column[1:-1] if column.startswith("(") and _closes(column) else column
    first = row[0].text[1:-1] if row[0].text.startswith("(") and _closes(row[0].text) else row[0].text
    text = f"{name}({first}, {column})"
    change = Change(sums[1].start, sums[2].end, text)
    yield from view.offer(_KIND, _SWIZZLE, call.line, f"through {text}", (change,), 0.04)


def _closes(text: str) -> bool:
    """Whether the bracket that opens a text closes at its end."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0:
            return at == len(text) - 1
    return False


def _halves(view: View) -> Iterator[Edit]:
    """Rows g and g + 8, columns 2t and 2t + 1: the parts of an accumulator map, written with another multiplier."""
    model = view.model
    for ternary in model.ternaries:
        if not view.wanted(ternary.condition.start, ternary.no.end):
            continue
        match = re.fullmatch(r"\(?\s*(\w+)\s*(<|&|>=|/|>>).*", ternary.condition.text)
        counter = model.variable(match[1], ternary.condition.start) if match else None
        if match and counter is not None and counter.kind == "loop":
            for text, rank in ((f"!({match[1]} & 2)", 0.03), (f"({match[1]} & 2)", 0.035), (f"({match[1]} & 1)", 0.05)):
                summary = f"where {text}"
                change = replaced(ternary.condition, text)
                yield from view.offer(_KIND, _MAP[:1], ternary.line, summary, (change,), rank)
    for variable in model.variables:
        if variable.initial is None or not view.wanted(variable.start, variable.end):
            continue
        own = terms(model, variable.initial)
        for a in own:
            parts = factors(model, a)
            for b in own:
                if len(parts) == 2 and parts[1].text == "2" and b is not a and len(factors(model, b)) == 1:
                    changes = (replaced(a, parts[0].text), replaced(b, f"{b.text} * 8"))
                    summary = f"{parts[0].text} + {b.text} * 8"
                    rank = 0.05 if b.start > a.start else 0.07
                    yield from view.offer(_KIND, _MAP, variable.line, summary, changes, rank)


def _guessed_map(view: View) -> Iterator[Edit]:
    """An element's place computed from lane and element number: the map that sm_75 and later have."""
    model = view.model
    for variable in model.variables:
        if variable.initial is None or variable.kind != "local" or variable.dims:
            continue
        loop = next((at for at in model.enclosing(model.statement_at(variable.start)) if model.statements[at].loop), -1)
        if loop < 0 or not view.wanted(variable.start, variable.end):
            continue
        head = model.text[model.statements[loop].start : model.statements[loop].head_end]
        match = re.search(r"(\w+)\s*<\s*[\w.\[\]]*num_elements", head)
        if match is None or not re.search(rf"\b{match[1]}\b", variable.initial.text):
            continue
        lane = _lane(model, variable.initial) or "(threadIdx.x % 32)"
        row, column = (text.format(lane=lane, e=match[1]) for text in (_MAP_ROW, _MAP_COLUMN))
        for text, rank in ((f"{row} * 16 + {column}", 0.02), (row, 0.06), (column, 0.06)):
            change = replaced(variable.initial, text)
            summary = "the accumulator map of sm_75 and later"
            yield from view.offer(_KIND, ("fragment-map",), variable.line, summary, (change,), rank)
