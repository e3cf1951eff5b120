"""The changes that combine the partial results of all warps or threads, not of some.

Bad:
    m = fmaxf(m, part[warp][row]);                                       // this warp's alone
    for (int i = 0; i < WARPS; ++i) if (i < 2) total += sums[i][row];    // half of them
    warp = threadIdx.x / 32, warps = blockDim.x / 64;

Good:
    for (int i = 0; i < WARPS; ++i) m = fmaxf(m, part[i][row]);
    for (int i = 0; i < WARPS; ++i) total += sums[i][row];
    warp = threadIdx.x / 32, warps = blockDim.x / 32;
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.diagnose.edits import Change, Edit
from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.source.model import SourceModel, Span, Subscript
from wmmadiag.diagnose.source.softmax import MAXIMA, Softmax, plain

_KIND = "all-partial-results"
_SHARE = re.compile(r"(threadIdx|blockDim)\.[xyz](/|>>)(\w+)")


@dataclass(frozen=True, slots=True)
class _Gathering:
    """A loop over partial results: `array[.. index ..]`, the index at one position; `head` is its `for (…)`."""

    array: str
    position: int
    index: str
    head: str
    loop: int


def partial_mends(model: SourceModel, parts: Softmax) -> Iterator[Edit]:
    """Edits of how partial results are combined, the likeliest first."""
    gathered = tuple(_gathered(model))
    yield from _warps_counted(model)
    yield from _guards(model, gathered)
    yield from _extents(model, gathered)
    yield from _own_alone(model, parts, gathered)


def _edit(line: int, summary: str, changes: tuple[Change, ...], rank: float) -> Edit:
    return Edit(_KIND, "reduction", line, summary, changes, rank)


def _gathered(model: SourceModel) -> Iterator[_Gathering]:
    """Loops that count from 0 in steps of 1 and read an array that threads share by their variable."""
    for number, statement in enumerate(model.statements):
        if statement.kind != "for" or statement.init is None or statement.step is None:
            continue
        counted = re.fullmatch(r"\w+(\w+)=0", plain(statement.init.text).replace("unsignedint", "int"))
        index = next((v.name for v in model.variables if statement.start <= v.name_at < statement.head_end), "")
        if (
            counted is None
            or not index
            or plain(statement.step.text) not in (f"++{index}", f"{index}++", f"{index}+=1")
        ):
            continue
        head = model.text[statement.start : statement.head_end]
        for subscript in model.subscripts:
            if statement.head_end <= subscript.start < statement.end and _shared(model, subscript):
                for position, own in enumerate(subscript.indices):
                    if own.text == index:
                        yield _Gathering(subscript.name, position, index, head, number)


def _shared(model: SourceModel, subscript: Subscript) -> bool:
    array = model.variable(subscript.name, subscript.start)
    return array is not None and array.shared


def _guards(model: SourceModel, gathered: tuple[_Gathering, ...]) -> Iterator[Edit]:
    """`if (i < 2) total += part[i];` loses its condition where the loop's variable alone is compared."""
    for one in dict.fromkeys(gathered):
        loop = model.statements[one.loop]
        for statement in model.statements:
            inside = loop.head_end <= statement.start < loop.end
            if not inside or statement.kind != "if" or statement.condition is None or statement.orelse >= 0:
                continue
            if re.fullmatch(rf"{re.escape(one.index)}(<|<=|>|>=|!=)\w+", plain(statement.condition.text)):
                change = Change(statement.start, model.statements[statement.body].start, "")
                summary = f"combine every {one.array}, not only where {statement.condition.text}"
                yield _edit(statement.line, summary, (change,), 0.0)


def _extents(model: SourceModel, gathered: tuple[_Gathering, ...]) -> Iterator[Edit]:
    """`i < WARPS / 2` becomes `i < WARPS`, the array's extent."""
    for one in gathered:
        loop = model.statements[one.loop]
        array = model.variable(one.array, loop.start)
        if array is None or loop.condition is None or one.position >= len(array.dims):
            continue
        extent = array.dims[one.position].text
        tokens = range(loop.condition.first, loop.condition.last)
        at = next((i for i in tokens if model.tokens[i].text in ("<", "<=")), -1)
        bound = model.span(at + 1, loop.condition.last) if 0 < at < loop.condition.last - 1 else None
        if bound is not None and plain(bound.text) != plain(extent):
            text = f"{one.index} < {extent}"
            yield _edit(loop.line, f"combine all {extent} of {one.array}", (replaced(loop.condition, text),), 0.004)


def _own_alone(model: SourceModel, parts: Softmax, gathered: tuple[_Gathering, ...]) -> Iterator[Edit]:
    """`m = fmaxf(m, part[warp][row])` goes over all warps, as another loop over the array does."""
    for one in model.assignments:
        target = plain(one.target.text)
        joined = target in parts.maximum_names | parts.sum_names and (
            one.operator.text == "+=" or target in _inside(model, one.value)
        )
        for subscript in model.subscripts if joined else ():
            if not one.value.start <= subscript.start < one.value.end or not _shared(model, subscript):
                continue
            for head, index, position in _heads(model, subscript, gathered):
                around = [model.statements[i] for i in model.enclosing(one.statement)]
                if any(s.loop and model.text[s.start : s.head_end] == head for s in around):
                    continue
                own = subscript.indices[position]
                if own.text == index or not _per_warp(model, own):
                    continue
                start = model.statements[one.statement].start
                changes = (Change(start, start, f"{head} "), replaced(own, index))
                yield _edit(one.line, f"over all of {subscript.name}, not {own.text} alone", changes, 0.001)


def _inside(model: SourceModel, piece: Span) -> frozenset[str]:
    """What the calls of maximum functions of an expression join, blanks removed."""
    return frozenset(
        plain(argument.text)
        for call in model.calls
        if call.name in MAXIMA and piece.start <= call.start < piece.end
        for argument in call.arguments
    )


def _heads(
    model: SourceModel, subscript: Subscript, gathered: tuple[_Gathering, ...]
) -> Iterator[tuple[str, str, int]]:
    """Heads of loops over an array, their variables and its position: those that there are, else of its extent."""
    known = [one for one in gathered if one.array == subscript.name and one.position < len(subscript.indices)]
    yield from dict.fromkeys((one.head, one.index, one.position) for one in known)
    array = model.variable(subscript.name, subscript.start)
    if not known and array is not None and len(array.dims) == len(subscript.indices):
        for position, extent in enumerate(array.dims):
            yield f"for (int other = 0; other < {extent.text}; ++other)", "other", position


def _per_warp(model: SourceModel, index: Span) -> bool:
    """Whether an index is the number of a warp or thread, by itself or as a variable."""
    variable = model.variable(index.text, index.start)
    text = variable.initial.text if variable is not None and variable.initial is not None else index.text
    return "threadIdx" in text


def _warps_counted(model: SourceModel) -> Iterator[Edit]:
    """Of `threadIdx.x / 32` and `blockDim.x / 64` the second becomes as the first is: one result for each warp."""
    shares: dict[str, list[tuple[str, str, Span]]] = {"threadIdx": [], "blockDim": []}
    for at in range(len(model.tokens) - 4):
        piece = model.span(at, at + 5)
        match = _SHARE.fullmatch(plain(piece.text))
        if match is None:  # `>>` is two tokens in some templates
            piece = model.span(at, min(at + 6, len(model.tokens)))
            match = _SHARE.fullmatch(plain(piece.text))
        if match is not None:
            shares[match[1]].append((match[2], match[3], piece))
    for operator, count, piece in shares["blockDim"]:
        for other, own, _ in dict.fromkeys((o, c, "") for o, c, _ in shares["threadIdx"]):
            if other == operator and own != count:
                text = f"{piece.text[: -len(count)]}{own}"
                summary = f"as many partial results as there are warps: {text}"
                yield _edit(piece.line, summary, (replaced(piece, text),), 0.002)
