"""Let the threads fill a whole tile: a stride loop in place of one element per thread.

Bad:
    if (threadIdx.x < 256) tile[threadIdx.x] = q[threadIdx.x];      // a block of 128

Good:
    for (int i = threadIdx.x; i < 256; i += blockDim.x) tile[i] = q[i];
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import bracketed, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import factors
from wmmadiag.diagnose.source.model import SourceModel, Span, Statement

_KIND = "partial-fill"
_ALL = ("partial-fill", "stale-tile", "too-few-warps", "unwritten-output", "uninitialised-memory", "reduction")


@generator(_KIND, *_ALL)
def generate(view: View) -> Iterator[Edit]:
    """Guards on a thread index, then plain stores by it, then the steps of stride loops."""
    yield from _guards(view)
    yield from _stores(view)
    yield from _strides(view)


def _each(view: View, line: int, summary: str, changes: tuple[Change, ...], rank: float) -> Iterator[Edit]:
    return view.offer(_KIND, _ALL, line, summary, changes, rank)


def thread_indices(model: SourceModel, offset: int) -> dict[str, str]:
    """What stands for the thread's index at an offset, with the number of threads: {"tid": "blockDim.x"}."""
    found = {"threadIdx.x": "blockDim.x"}
    for variable in model.visible(offset):
        initial = "" if variable.initial is None else re.sub(r"\s+", "", variable.initial.text)
        if re.fullmatch(r"(?:static_cast<\w+>\(|\(\w+\))?threadIdx\.x\)?", initial):
            found[variable.name] = "blockDim.x"
        elif re.fullmatch(r"threadIdx\.y\*blockDim\.x\+threadIdx\.x|threadIdx\.x\+threadIdx\.y\*blockDim\.x", initial):
            found[variable.name] = "blockDim.x * blockDim.y"
        elif re.fullmatch(r"threadIdx\.x[%&](?:32|31|warpSize|WARP_SIZE)", initial):
            found[variable.name] = "32"
    return found


def _guards(view: View) -> Iterator[Edit]:
    """`if (tid < N) …` becomes `for (int i = tid; i < N; i += blockDim.x) …`, the index renamed in the body."""
    model = view.model
    for statement in model.statements:
        if statement.kind != "if" or statement.condition is None or statement.orelse >= 0:
            continue
        if not view.wanted(statement.start, statement.end) or statement.body < 0:
            continue
        match = re.fullmatch(r"\s*(\w+(?:\.x)?)\s*<\s*([^&|?<>=]+?)\s*", statement.condition.text)
        threads = thread_indices(model, statement.start)
        if match is None or match[1] not in threads:
            continue
        cut = next((i for i in range(statement.condition.first, statement.condition.last)
                    if model.tokens[i].text in ("/", "-")), -1)  # fmt: skip
        if cut > 0:
            change = Change(model.tokens[cut - 1].end, statement.condition.end, "")
            whole = model.span(statement.condition.first, cut).text
            yield from _each(view, statement.line, f"where {whole}", (change,), 0.06)
        name = _free(model, statement)
        head = f"for (int {name} = {match[1]}; {name} < {match[2]}; {name} += {threads[match[1]]})"
        body = model.statements[statement.body]
        changes = [Change(statement.start, statement.head_end, head)]
        changes += _renamed(model, body.first, body.last, match[1], name)
        near = 0.0 if view.wanted(statement.start, statement.head_end) else 0.08
        yield from _each(view, statement.line, f"fill all {match[2]} with a stride loop", tuple(changes), 0.05 + near)


def _free(model: SourceModel, statement: Statement) -> str:
    """A name that nothing in the statement uses."""
    used = {t.text for t in model.tokens[statement.first : statement.last]}
    return next(name for name in ("i", "idx", "element", "at", *(f"i{n}" for n in range(1000))) if name not in used)


def _renamed(model: SourceModel, first: int, last: int, old: str, new: str) -> list[Change]:
    wanted = old.split(".")
    found = []
    for index in range(first, last):
        token = model.tokens[index]
        if token.text != wanted[0] or (index > 0 and model.tokens[index - 1].text in (".", "->")):
            continue
        if len(wanted) == 1:
            found.append(Change(token.offset, token.end, new))
        elif index + 2 < last and model.tokens[index + 2].text == wanted[1]:
            found.append(Change(token.offset, model.tokens[index + 2].end, new))
    return found


def _stores(view: View) -> Iterator[Edit]:
    """`s[tid] = x[tid];` becomes a loop over the extent of s."""
    model = view.model
    for one in model.assignments:
        statement = model.statements[one.statement]
        if not view.wanted(statement.start, statement.end):
            continue
        array = model.variable(model.tokens[one.target.first].text, one.target.start)
        if array is None or not array.dims:
            continue
        for name, count in thread_indices(model, statement.start).items():
            pieces = _renamed(model, one.target.first, one.target.last, name, "i")
            heads = [model.statements[at] for at in model.enclosing(one.statement) if model.statements[at].loop]
            if not pieces or any(name in model.text[head.start : head.head_end] for head in heads):
                continue
            fresh = _free(model, statement)
            extents = [d.text for d in array.dims]
            total = " * ".join(f"({e})" if not re.fullmatch(r"\w+", e) else e for e in extents)
            for extent, rank in ((total, 0.09), *((e, 0.12) for e in extents if len(extents) > 1)):
                head = f"for (int {fresh} = {name}; {fresh} < {extent}; {fresh} += {count}) "
                changes = [Change(statement.start, statement.start, head)]
                changes += _renamed(model, statement.first, statement.last, name, fresh)
                yield from _each(view, statement.line, f"fill all {extent} of {array.name}", tuple(changes), rank)


def _strides(view: View) -> Iterator[Edit]:
    """A stride loop whose step is not the number of threads, or whose bound is not the tile's size."""
    model = view.model
    for statement in model.statements:
        if statement.kind != "for" or statement.init is None or statement.condition is None or statement.step is None:
            continue
        if not view.wanted(statement.start, statement.end):
            continue
        threads = thread_indices(model, statement.start)
        start = re.search(r"=\s*(\w+(?:\.x)?)", statement.init.text)
        if start is None or start[1] not in threads:
            continue
        near = 0.0 if view.wanted(statement.start, statement.head_end) else 0.1
        at = next((i for i in range(statement.step.first, statement.step.last) if model.tokens[i].text == "+="), -1)
        if at >= 0:
            amount = model.span(at + 1, statement.step.last)
            count = threads[start[1]]
            if amount.text != count:
                summary = f"step by {count}"
                yield from _each(view, statement.line, summary, (replaced(amount, count),), 0.08 + near)
        less = next((i for i in range(statement.condition.first, statement.condition.last)
                     if model.tokens[i].text in ("<", "<=")), -1)  # fmt: skip
        if less < 0:
            continue
        bound = model.span(less + 1, statement.condition.last)
        yield from _more(view, statement, bound, near)
        body = model.statements[statement.body] if statement.body >= 0 else statement
        written = [s for s in model.subscripts if body.start <= s.start < body.end]
        for subscript in written:
            array = model.variable(subscript.name, subscript.start)
            if array is None or not array.dims or not array.shared:
                continue
            extents = [d.text if re.fullmatch(r"\w+", d.text) else f"({d.text})" for d in array.dims]
            total = " * ".join(extents)
            if total != bound.text:
                yield from _each(view, statement.line, f"fill all {total}", (replaced(bound, total),), 0.1 + near)


def _more(view: View, statement: Statement, bound: Span, near: float) -> Iterator[Edit]:
    """A stride loop to twice as many rows or columns, or to a bound that another loop of the threads has."""
    model = view.model
    yield from _times(view, statement, bound)
    for factor in factors(model, bound):
        number = view.value(factor)
        if factor.text.isdigit() and number is not None:
            changes = (replaced(factor, str(2 * int(number))),)
            yield from _each(view, statement.line, f"fill twice as many: {2 * int(number)}", changes, 0.09 + near)
    if len(factors(model, bound)) == 1:
        return
    for other in model.statements:
        if other.kind != "for" or other is statement or other.init is None or other.condition is None:
            continue
        threads = thread_indices(model, other.start)
        start = re.search(r"=\s*(\w+(?:\.x)?)", other.init.text)
        limit = re.fullmatch(r"\s*\w+\s*<\s*(.+?)\s*", other.condition.text)
        if start is not None and start[1] in threads and limit is not None and limit[1] != bound.text:
            summary = f"fill {limit[1]}, as at line {other.line}"
            yield from _each(view, statement.line, summary, (replaced(bound, limit[1]),), 0.1 + near)


def _times(view: View, statement: Statement, bound: Span) -> Iterator[Edit]:
    """So many times the bound, where memory shows how many: the last divisor less often, or a factor in front."""
    times = int(view.values.get("times", 0))
    if times < 2 or not view.wanted(statement.start, statement.end):
        return
    slash, last = view.model.tokens[bound.last - 2], view.model.tokens[bound.last - 1]
    if bound.last - bound.first > 2 and slash.text == "/" and last.text.isdigit() and not int(last.text) % times:
        less = int(last.text) // times
        whole = Change(view.model.tokens[bound.last - 3].end, bound.end, "")
        change, words = (replaced(last, str(less)), f"/ {less}") if less > 1 else (whole, f"without / {last.text}")
        yield from _each(view, statement.line, f"fill {times} times as many: {words}", (change,), 0.01)
    text = f"{times} * {bracketed(bound.text)}"
    yield from _each(view, statement.line, f"fill {times} times as many: {text}", (replaced(bound, text),), 0.02)
