"""Put the steps of an asynchronous copy in order: commit, wait for enough groups, barrier; and copy sizes that exist.

Bad:
    asm volatile("cp.async.wait_group 1;\n");      // the tile to be read is the last one committed
    __syncthreads();

Good:
    asm volatile("cp.async.wait_group 0;\n");
    __syncthreads();
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from wmmadiag.diagnose.edits.building import after, anchor, at_end, before, exchanged, removed, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.source.evaluate import literal
from wmmadiag.diagnose.source.model import Barrier, Number, SourceModel

_KIND = "asynchronous"
_ORDER, _SIZE = "async-copy-order", "async-copy-size"
# PTX ISA, cp.async: .ca takes 4, 8 and 16 bytes, .cg takes 16 only.
_COPY = re.compile(r"cp\.async\.(c[ag])\.shared(?:::\w+)?\.global")
_NUMBER = re.compile(r",\s*(\d+)\s*[,;\\]")
_BYTES = (16, 8, 4)
_FILL = "partial-fill"


@generator(_KIND, _ORDER, _SIZE, _FILL)
def generate(view: View) -> Iterator[Edit]:
    """Wait counts, order of the steps, missing steps, and sizes."""
    model = view.model
    steps = [b for b in model.barriers if b.kind in ("commit", "wait")]
    for barrier in steps:
        if barrier.kind == "wait" and view.wanted(barrier.start, barrier.end):
            yield from _counts(barrier)
    yield from _order(view, steps)
    yield from _missing(view, steps)
    yield from _sizes(view)


def _counts(barrier: Barrier) -> Iterator[Edit]:
    if barrier.count is None:
        return
    text = barrier.count.text
    choices = (
        [(str(n), n) for n in (0, 1, 2, 3)] if text.isdigit() else [("0", 0), (f"{text} - 1", 1), (f"{text} + 1", 2)]
    )
    for position, (choice, _) in enumerate(choices):
        if choice == text:
            continue
        rank = 0.03 + 0.03 * (
            position if not text.isdigit() else abs(int(choice) - int(text)) - 1 + 0.5 * (choice > text)
        )
        summary = f"wait until at most {choice} groups are in flight, not {text}"
        yield Edit(_KIND, _ORDER, barrier.line, summary, (replaced(barrier.count, choice),), rank)


def _code(model: SourceModel, barrier: Barrier) -> str:
    statement = model.statements[barrier.statement]
    return model.text[statement.start : statement.end]


def _movable(model: SourceModel, barrier: Barrier) -> bool:
    return barrier.statement >= 0 and model.statements[barrier.statement].simple


def _order(view: View, steps: list[Barrier]) -> Iterator[Edit]:
    """Exchange neighbouring steps; move a step after a barrier before it."""
    model = view.model
    ordered = [b for b in model.barriers if b.kind != "warp" and _movable(model, b)]
    for a, b in pairwise(ordered):
        if a.kind == b.kind or model.function_at(a.start) is not model.function_at(b.start):
            continue
        if a.statement == b.statement or not (view.wanted(a.start, a.end) or view.wanted(b.start, b.end)):
            continue
        one, two = (model.statements[x.statement] for x in (a, b))
        summary = f"exchange the {_NAMES[a.kind]} (line {a.line}) and the {_NAMES[b.kind]} (line {b.line})"
        pieces = (model.span(one.first, one.last), model.span(two.first, two.last))
        yield Edit(_KIND, _ORDER, b.line, summary, exchanged(*pieces), 0.07)
    for step in steps:
        if not _movable(model, step) or not view.wanted(step.start, step.end):
            continue
        gone = removed(model, step.statement)
        outer = next(
            (at for at in model.enclosing(step.statement) if model.statements[at].kind in ("if", "for", "while")), -1
        )
        if gone is None or outer < 0 or anchor(model, outer) != outer:
            continue
        for make, where, rank in ((after, "after", 0.12), (before, "before", 0.14)):
            moved = make(model, outer, _code(model, step))
            if moved is not None and not gone.start <= moved.start < gone.end:
                kind = model.statements[outer].kind
                summary = f"move the {_NAMES[step.kind]} {where} the {kind} at line {model.statements[outer].line}"
                yield Edit(_KIND, _ORDER, step.line, summary, (gone, moved), rank)


_NAMES = {"commit": "commit", "wait": "wait", "block": "barrier", "warp": "barrier"}


def _missing(view: View, steps: list[Barrier]) -> Iterator[Edit]:
    """A wait without a barrier, copies without a commit or a wait, a barrier without a wait."""
    model = view.model
    wait_text, commit_text = _spelling(view, steps)
    copies = _asynchronous_copies(view)
    if not copies and not steps:
        return
    for barrier in steps:
        if barrier.kind == "wait" and _movable(model, barrier) and view.wanted(barrier.start, barrier.end):
            change = after(model, barrier.statement, "__syncthreads();")
            if change is not None:
                yield Edit(_KIND, _ORDER, barrier.line, "insert a barrier after the wait", (change,), 0.05)
    for index, statement in enumerate(model.statements):
        if statement.kind in ("block", "label", "empty") or not view.wanted(statement.start, statement.head_end):
            continue
        place = anchor(model, index)
        if place < 0:
            continue
        line, at_line = model.statements[place].line, statement.line
        here = next((b for b in model.barriers if b.statement == index), None)
        near = view.lines is not None or here is not None or index in copies
        if not near:
            continue
        wait_all = f"{wait_text}\n__syncthreads();"
        # A wait needs its commit: where the source has none, waiting for all covers uncommitted copies, too.
        for code, what, rank in (
            (wait_text, "wait for all copies", 0.09),
            (wait_all, "wait for all copies, and the barrier,", 0.08),
            (f"{commit_text}\n{wait_all}", "commit, wait and barrier", 0.13),
        ):
            change = before(model, place, code)
            if change is not None and not (here is not None and here.kind == "wait"):
                yield Edit(_KIND, _ORDER, at_line, f"insert {what} before line {line}", (change,), rank)
        for code, what, rank in ((commit_text, "a commit", 0.12), (wait_all, "wait and barrier", 0.14)):
            change = after(model, place, code)
            if change is not None and statement.kind != "return":
                end = model.statements[place].last_line
                yield Edit(_KIND, _ORDER, at_line, f"insert {what} after line {end}", (change,), rank)
        loop = next((at for at in model.enclosing(place) if model.statements[at].loop), -1)
        if loop >= 0 and model.statements[loop].body >= 0 and view.lines is not None:
            change = at_end(model, model.statements[loop].body, "__syncthreads();")
            if change is not None:
                summary = f"insert a barrier at the end of the loop at line {model.statements[loop].line}"
                yield Edit(_KIND, _ORDER, at_line, summary, (change,), 0.1)


def _spelling(view: View, steps: list[Barrier]) -> tuple[str, str]:
    """How this source writes "wait for all" and "commit"; inline assembly where it writes neither."""
    model = view.model
    wait, commit = (
        'asm volatile("cp.async.wait_all;\\n" ::: "memory");',
        'asm volatile("cp.async.commit_group;\\n" ::: "memory");',
    )
    for barrier in steps:
        if barrier.form == "pipeline" and model.text.startswith("__pipeline", barrier.start):
            return "__pipeline_wait_prior(0);", "__pipeline_commit();"
        if barrier.form == "call" and _movable(model, barrier):
            if barrier.kind == "commit":
                commit = _code(model, barrier)
            elif barrier.count is not None:
                cut = barrier.count.start - model.statements[barrier.statement].start
                text = _code(model, barrier)
                wait = text[:cut] + "0" + text[cut + len(barrier.count.text) :]
    if any(call.name == "__pipeline_memcpy_async" for call in model.calls):
        return "__pipeline_wait_prior(0);", "__pipeline_commit();"
    return wait, commit


def _asynchronous_copies(view: View) -> set[int]:
    """Indices of the statements that start copies, directly or by a call."""
    model = view.model
    found = set()
    starters = set()
    for function in model.functions:
        body = model.statements[function.body]
        if (
            any(t.kind == "str" and _COPY.search(t.text) for t in model.tokens[body.first : body.last])
            and not function.kernel
        ):
            starters.add(function.name)
    for call in model.calls:
        if call.name in starters or call.name in ("__pipeline_memcpy_async", "memcpy_async"):
            found.add(model.statement_at(call.start))
    for index, statement in enumerate(model.statements):
        strings = (t.text for t in model.tokens[statement.first : statement.last] if t.kind == "str")
        assembly = statement.simple and model.tokens[statement.first].text in ("asm", "__asm__")
        if assembly and any(_COPY.search(text) for text in strings):
            found.add(index)
    return found


def _sizes(view: View) -> Iterator[Edit]:
    model = view.model
    for token in model.tokens:
        match = _COPY.search(token.text) if token.kind == "str" else None
        if match is None:
            continue
        statement = model.statement_at(token.offset)
        around = model.statements[statement] if statement >= 0 else None
        if not view.wanted(token.offset, token.end) and not (
            around is not None and view.wanted(around.start, around.end)
        ):
            continue
        other = "ca" if match[1] == "cg" else "cg"
        at = token.offset + match.start(1)
        yield Edit(_KIND, _SIZE, token.line, f"copy with .{other}", (Change(at, at + 2, other),), 0.04)
        number = _NUMBER.search(token.text, match.end())
        if number is not None:
            for size in _BYTES:
                start = token.offset + number.start(1)
                change = Change(start, start + len(number[1]), str(size))
                yield from _resized(view, token.line, int(number[1]), size, (change,))
                if other == "ca" or size == 16:
                    both = (Change(at, at + 2, other), change)
                    yield from _resized(view, token.line, int(number[1]), size, both, f" with .{other}")
        elif around is not None:
            for index in range(around.first, around.last):
                one = model.tokens[index]
                if one.kind == "num" and model.tokens[index - 1].text == "(":
                    for size in _BYTES:
                        yield from _resized(view, token.line, literal(one.text), size, (replaced(one, str(size)),))
    for call in model.calls:
        if call.name == "__pipeline_memcpy_async" and len(call.arguments) >= 3 and view.wanted(call.start, call.end):
            for size in _BYTES:
                old, change = view.value(call.arguments[2]), replaced(call.arguments[2], str(size))
                yield from _resized(view, call.line, old, size, (change,))


def _resized(
    view: View, line: int, old: Number | None, size: int, changes: tuple[Change, ...], how: str = ""
) -> Iterator[Edit]:
    """A copy of another size; of a larger one also where only part of a tile is filled."""
    more = old is not None and size > old
    rank = (0.08 if not more else 0.02 if size == _BYTES[0] else 0.05) + 0.02 * bool(how)
    yield from view.offer(_KIND, (_SIZE, _FILL) if more else (_SIZE,), line, f"copy {size} bytes{how}", changes, rank)
