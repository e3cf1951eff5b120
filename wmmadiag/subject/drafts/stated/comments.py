"""Formulas and shapes in comments: `y[m, n] = sum_k x[m, k] * w[n, k]`, `x [B, T, C]`, `same as torch.cov(x.T)`."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from wmmadiag.ops.formulas.syntax import parsed_expression, parsed_prefix
from wmmadiag.ops.formulas.tokens import normalised
from wmmadiag.ops.formulas.tree import Equation, FormulaError, Literal, Word, nodes
from wmmadiag.ops.formulas.words import FUNCTIONS

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", re.DOTALL)
_MARGIN = re.compile(r"^[ \t]*(?://+[!/<]*|/\*+[*!]*|\*+(?!/))?[ \t]?|[ \t]*\*+/[ \t]*$")
_NAMES = r"(?P<names>[A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)"
_SHAPE = re.compile(_NAMES + r"(?P<gap>\s*(?:->|:|\bis\b|\bare\b|\bof shape\b)?\s*)(?P<dims>(?:\[[^\[\]=]+\])+)")
_TUPLE = re.compile(_NAMES + r"\s*(?::|\bis\b|\bare\b|\bof shape\b)\s*\((?P<dims>[^()=]+,[^()=]+)\)")
_CROSSED = r"[A-Za-z0-9_]+(?:\s*[x×]\s*[A-Za-z0-9_]+)+"
_TIMES = re.compile(
    rf"\b(?P<names>[A-Za-z_]\w*)\s*(?::|=|is|\(|\[)?\s*(?P<dims>{_CROSSED})\b(?=\s*(?:[),;\]]|$|row|col|\s{{2}}))"
)
_FACTOR = r"(?:\w+|\([\w +*/-]+\))"
_EXTENT = re.compile(rf"{_FACTOR}(?:\s*[-+*/ ]\s*{_FACTOR})*")
_BEGIN = re.compile(r"(?:^\s*|\s{3,}|[:;,.(]\s+)(?=[A-Za-z_Α-ω])")
_TARGET = re.compile(r"[A-Za-z_]\w*(?:\^2|_\{[^}]*\}|\[[^=\]]*\]|\([^=)]*\))*\s*(?:\+=|:=|<-|=)(?!=)")
_SAME = re.compile(r"\b(?:same as|equivalent to|equal to|equals|matches|computes)\s+`?(?=(?:torch|F|np|numpy)\.)")
_GOES_ON = re.compile(r"^\s*[-+*/@]\s")
_REST = re.compile(r"\s*(?:$|[(,;:.#—–|]|--|-\s|//|for\b|where\b|with\b|if\b|over\b|in\b|and\b)")
_UNLIKE = frozenset(["block", "thread", "grid", "warp", "lane", "cta", "blocks", "threads", "warps", "lanes", "grids"])


@dataclass(frozen=True, slots=True)
class CommentLine:
    """One line of a comment: its text without the margin, and its number, from 1 on."""

    text: str
    number: int


@dataclass(frozen=True, slots=True)
class CommentFormula:
    """A statement, and the line in which it stands."""

    statement: Equation
    line: int


@dataclass(frozen=True, slots=True)
class Stated:
    """What a source's comments say.

    Attributes:
        formulas: in their order.
        shapes: the extents of tensors, by name, as expressions; of several shapes of one name the first.
    """

    formulas: tuple[CommentFormula, ...] = ()
    shapes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def comment_lines(text: str) -> list[CommentLine]:
    """The lines of all comments."""
    found = []
    for one in _COMMENT.finditer(text):
        if one[0][0] in "\"'":
            continue
        first = text.count("\n", 0, one.start()) + 1
        for number, line in enumerate(one[0].split("\n"), first):
            found.append(
                CommentLine(
                    _MARGIN.sub(
                        "", _MARGIN.sub("", line, count=1) if line.lstrip()[:2] != "//" else line, count=1
                    ).rstrip(),
                    number,
                )
            )
    return found


def stated(text: str, is_tensor: Callable[[str], bool]) -> Stated:
    """What the comments of a source say.

    Args:
        is_tensor: whether a name is that of an array of the kernel's.
    """
    lines = comment_lines(text)
    if not any("=" in one.text or _SAME.search(one.text) for one in lines):
        return Stated()
    shapes: dict[str, tuple[str, ...]] = {}
    for one in lines:
        for names, dims in shapes_in(one.text, is_tensor):
            for name in names:
                shapes.setdefault(name, dims)
    targets = {
        match[0]
        for one in lines
        for match in re.finditer(r"[A-Za-z_]\w*(?=(?:\^2|_\{[^}]*\}|\[[^=\]]*\]|\([^=)]*\))*\s*\+?=)", one.text)
    }
    indexed = {one for line in lines for one in re.findall(r"\b([A-Za-z]\w*)(?=\[|_[a-z]{1,2}\b)", line.text)}
    known = {*shapes, *targets, *indexed} - FUNCTIONS
    return Stated(tuple(_formulas(lines, lambda name: is_tensor(name) or name in known)), shapes)


def shapes_in(line: str, is_tensor: Callable[[str], bool]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Names with the extents that a line gives them."""
    for one in _SHAPE.finditer(line):
        dims = tuple(
            part.strip() for inside in re.findall(r"\[([^\[\]]+)\]", one["dims"]) for part in inside.split(",")
        )
        if not all(_EXTENT.fullmatch(part) for part in dims):
            continue
        # Behind a name without a space brackets are indices where they name no sizes.
        sizes = all(part.isdigit() or not re.fullmatch(r"[a-z]\d?|[a-z]{2}", part) for part in dims)
        if ((one["gap"] or sizes) and not re.search(r"[=+*/-]\s*$", line[: one.start()])) or (
            sizes and all(map(_is_capital, dims))
        ):
            yield tuple(re.split(r"\s*,\s*", one["names"])), tuple(map(extent, dims))
    for one in _TUPLE.finditer(line):
        dims = tuple(part.strip() for part in one["dims"].split(","))
        if all(_EXTENT.fullmatch(part) for part in dims):
            yield tuple(re.split(r"\s*,\s*", one["names"])), tuple(map(extent, dims))
    for one in _TIMES.finditer(line):
        if is_tensor(one["names"]):
            yield (one["names"],), tuple(map(extent, re.split(r"\s*[x×]\s*", one["dims"])))


def _is_capital(text: str) -> bool:
    return re.fullmatch(r"[A-Z0-9_+*/ -]+", text) is not None


def extent(text: str) -> str:
    """An extent as an expression: "2C" is 2 * C."""
    plain = re.sub(r"[A-Za-z_]\w*", lambda word: word[0] + "_" * keyword.iskeyword(word[0]), text.strip())
    plain = re.sub(r"(?<![\w.])(\d+)\s*(?=[A-Za-z_(])", r"\1 * ", plain)
    return re.sub(r"(?<=[\w)])\s+(?=[A-Za-z_(])", " * ", plain).replace("/", "//")


def _formulas(lines: Sequence[CommentLine], is_tensor: Callable[[str], bool]) -> Iterator[CommentFormula]:
    for at, line in enumerate(lines):
        following = lines[at + 1] if at + 1 < len(lines) and lines[at + 1].number == line.number + 1 else None
        joined = f"{line.text} {following.text.strip()}" if following is not None and (
            _GOES_ON.match(following.text) or re.search(r"[-+*/@=]\s*$", line.text)) else ""  # fmt: skip
        for begin in _BEGIN.finditer(line.text):
            found = None
            for text in filter(None, (joined, line.text)):
                found = found or _formula(text[begin.end() :], is_tensor)
            if found is not None:
                yield CommentFormula(found, line.number)
        for same in _SAME.finditer(line.text):
            with suppress(FormulaError):
                value, _ = parsed_expression(line.text[same.end() :], is_tensor)
                if not isinstance(value, Word | Literal):
                    text = normalised(line.text[same.end() :])
                    rest = parsed_expression(text, is_tensor)[1]
                    shown = text[: len(text) - len(rest)].strip() if rest else text.strip()
                    yield CommentFormula(Equation("", None, value, text=shown.rstrip(" `.")), line.number)


def _formula(text: str, is_tensor: Callable[[str], bool]) -> Equation | None:
    if _TARGET.match(normalised(text)) is None:
        return None
    try:
        found, rest = parsed_prefix(text, is_tensor)
    except (FormulaError, RecursionError):
        return None
    plain = normalised(text)
    gap = len(plain) - len(rest) - len(plain[: len(plain) - len(rest)].rstrip())
    if rest and gap < 2 and not _REST.match(rest):
        return None
    if isinstance(found.value, Literal | Word) or found.target.lower() in _UNLIKE:
        return None
    if any(isinstance(one, Word) and one.id in ("blockIdx", "threadIdx") for one in nodes(found)):
        return None
    return found
