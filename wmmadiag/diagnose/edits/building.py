"""Building blocks of edits: replace, exchange, and insert statements where they can stand."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.edits.model import Change
from wmmadiag.diagnose.source.model import SourceModel, Span, Statement, Token, Variable

# A word or number, with subscripts and calls that hold no further brackets of their kind.
_ONE = re.compile(r"[\w.:]+(?:\[[^\[\]]*\]|\([^()]*\))*")


def replaced(piece: Span | Token, text: str) -> Change:
    """Put `text` in place of a piece."""
    start = piece.start if isinstance(piece, Span) else piece.offset
    return Change(start, piece.end, text)


def exchanged(a: Span, b: Span) -> tuple[Change, Change]:
    """Put each of two pieces in the other's place."""
    return replaced(a, b.text), replaced(b, a.text)


def anchor(model: SourceModel, index: int) -> int:
    """The statement next to which a new one can stand: itself in a block, or what governs it alone.

    A declaration governed without a block does not exist, and a label goes with what follows.
    """
    while index >= 0:
        parent = model.statements[index].parent
        if parent >= 0 and model.statements[parent].kind == "block":
            return index
        if parent < 0:
            return -1
        index = parent
    return -1


def before(model: SourceModel, index: int, code: str) -> Change | None:
    """Insert statements before a statement, as lines of their own; None where none can stand."""
    if anchor(model, index) != index:
        return governed(model, index, code, first=True)
    statement = model.statements[index]
    return Change(
        statement.start, statement.start, _lines(code, model.indent(statement.start)) + _gap(model, statement.start)
    )


def after(model: SourceModel, index: int, code: str) -> Change | None:
    """Insert statements after a statement, as lines of their own; None where none can stand."""
    if anchor(model, index) != index:
        return governed(model, index, code, first=False)
    statement = model.statements[index]
    indent = model.indent(statement.start)
    if _ends_line(model, statement.end):
        at = model.text.find("\n", statement.end)
        at = len(model.text) if at < 0 else at
        # A line that a backslash continues belongs to a macro: stay before it.
        at = statement.end if model.text[statement.end : at].rstrip().endswith("\\") else at
    else:
        at = statement.end
    return Change(at, at, f"\n{indent}" + _lines(code, indent))


def governed(model: SourceModel, index: int, code: str, *, first: bool) -> Change | None:
    """Insert beside a statement that an `if` or a loop governs without braces: give it braces."""
    statement = model.statements[index]
    parent = statement.parent
    if parent < 0 or not statement.simple or model.statements[parent].kind not in ("if", "for", "while", "do"):
        return None
    inside = model.text[statement.start : statement.end]
    body = f"{code} {inside}" if first else f"{inside} {code}"
    return (
        Change(statement.start, statement.end, "{ " + " ".join(body.splitlines()) + " }") if "//" not in body else None
    )


def at_end(model: SourceModel, index: int, code: str) -> Change | None:
    """Insert statements as the last of a block."""
    block = model.statements[index]
    if block.kind != "block" or model.tokens[block.last - 1].text != "}":
        return None
    close = model.tokens[block.last - 1].offset
    inner = [s for s in model.statements[index + 1 :] if s.parent == index and s.start < block.end]
    indent = model.indent(inner[0].start) if inner else model.indent(block.start) + "    "
    line = model.text.rfind("\n", 0, close) + 1
    if not model.text[line:close].strip():
        return Change(line, line, indent + _lines(code, indent) + "\n")
    return Change(close, close, _lines(code, " ") + " ")


def at_start(model: SourceModel, index: int, code: str) -> Change | None:
    """Insert statements as the first of a block."""
    block = model.statements[index]
    if block.kind != "block":
        return None
    at = model.tokens[block.first].end
    inner = [s for s in model.statements[index + 1 :] if s.parent == index and s.start < block.end]
    indent = model.indent(inner[0].start) if inner else model.indent(block.start) + "    "
    return Change(at, at, f"\n{indent}" + _lines(code, indent))


def _lines(code: str, indent: str) -> str:
    return code.replace("\n", "\n" + indent)


def _gap(model: SourceModel, offset: int) -> str:
    """What stands between an insertion and the statement after it."""
    line = model.text.rfind("\n", 0, offset) + 1
    return "\n" + model.text[line:offset] if not model.text[line:offset].strip() else " "


def _ends_line(model: SourceModel, offset: int) -> bool:
    """Whether nothing but a comment follows on the line."""
    end = model.text.find("\n", offset)
    rest = model.text[offset : len(model.text) if end < 0 else end].strip()
    return not rest or rest.startswith("//") or (rest.startswith("/*") and rest.endswith("*/"))


def removed(model: SourceModel, index: int) -> Change | None:
    """Take a simple statement out, with its line if it stands there alone."""
    statement = model.statements[index]
    if anchor(model, index) != index:
        return Change(statement.start, statement.end, "{}") if statement.simple else None
    line = model.text.rfind("\n", 0, statement.start) + 1
    end = model.text.find("\n", statement.end)
    whole = not model.text[line : statement.start].strip() and _ends_line(model, statement.end)
    return Change(line, end + 1, "") if whole and end >= 0 else Change(statement.start, statement.end, "")


def children(model: SourceModel, index: int) -> Iterator[int]:
    """Indices of the statements that stand directly in a statement."""
    end = model.statements[index].end
    for at in range(index + 1, len(model.statements)):
        if model.statements[at].start >= end:
            return
        if model.statements[at].parent == index:
            yield at


def inside(model: SourceModel, index: int) -> Iterator[int]:
    """Indices of all statements in a statement, itself left out."""
    end = model.statements[index].end
    for at in range(index + 1, len(model.statements)):
        if model.statements[at].start >= end:
            return
        yield at


def nearest(model: SourceModel, index: int, *kinds: str) -> int:
    """The nearest enclosing statement of one of these kinds, -1 if none."""
    return next((at for at in model.enclosing(index) if model.statements[at].kind in kinds), -1)


def mentions(model: SourceModel, piece: Span, code: str) -> bool:
    """Whether an expression holds a name; for what is no name, whether it holds that text."""
    if code.isidentifier():
        return any(token.text == code for token in model.tokens[piece.first : piece.last])
    return "".join(code.split()) in "".join(piece.text.split())


def bracketed(text: str) -> str:
    """An expression in brackets, unless it is one word, number, or already in them."""
    stripped = text.strip()
    if _ONE.fullmatch(stripped):
        return stripped
    return f"({stripped})"


def same_pieces(a: str, b: str) -> bool:
    """Whether two expressions are spelled the same but for blanks."""
    return "".join(a.split()) == "".join(b.split())


def means_the_same(model: SourceModel, piece: Span | Statement, offset: int) -> bool:
    """Whether every variable that an expression names is the same one at another place."""
    for index in range(piece.first, piece.last):
        token = model.tokens[index]
        if token.kind == "id" and (index == 0 or model.tokens[index - 1].text not in (".", "->", "::")):
            here, there = model.variable(token.text, token.offset), model.variable(token.text, offset)
            if here is not None and (there is None or there.name_at != here.name_at):
                return False
    return True


def fixed_shape(model: SourceModel, array: Variable) -> bool:
    """Whether an array is passed on as an array, so that its inner extents are part of another type."""
    for call in model.calls:
        for argument in call.arguments:
            if argument and model.tokens[argument.first].text == array.name:
                indexed = sum(model.tokens[i].text == "[" for i in range(argument.first, argument.last))
                if len(array.dims) - indexed >= 2:
                    return True
    return False
