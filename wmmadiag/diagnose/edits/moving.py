"""Move a statement out of its loop, take a jump out, put a loop around a block that handles one tile only.

Bad:
    for (int k = 0; k < K; k += 16) {
        fill_fragment(acc, 0.0f);              // once per step
        ...
    {
        const int col = warp * 16;             // one tile per warp, however many there are

Good:
    fill_fragment(acc, 0.0f);
    for (int k = 0; k < K; k += 16) {
        ...
    for (int col = warp * 16; col < D; col += blockDim.x / 32 * 16) {
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import after, anchor, at_end, before, children, inside, removed, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.edits.terms import factors
from wmmadiag.diagnose.source.model import SourceModel, Statement, Variable

_KIND = "moving"
_RESET = ("accumulator-reset", "accumulator-init", "missing-barrier", "loop-extent")
_JUMPS = ("divergent-barrier", "unwritten-output", "guard-condition", "missing-barrier")
_TILES = ("too-few-warps", "loop-extent", "partial-fill", "unwritten-output", "reduction")
_GUARDS = ("out-of-bounds", "guard-condition", "launch-coverage")
_WARPS = "(blockDim.x * blockDim.y / 32)"


@generator(_KIND, *_RESET, *_JUMPS[:3], *_TILES[:1], *_TILES[2:3], "reduction", "out-of-bounds", "launch-coverage")
def generate(view: View) -> Iterator[Edit]:
    """Statements out of loops; jumps out; loops for blocks and for conditions on a thread's number; early returns."""
    yield from _out_of_loops(view)
    yield from _jumps(view)
    yield from _looped_blocks(view)
    yield from _stride_loops(view)
    yield from _joins(view)
    yield from _early_returns(view)
    yield from _barriers(view)


def _whole(model: SourceModel, index: int) -> Change | None:
    """Take a statement out, compound ones too."""
    statement = model.statements[index]
    if statement.simple:
        return removed(model, index)
    return Change(statement.start, statement.end, "") if anchor(model, index) == index else None


def _invariant(model: SourceModel, statement: Statement, loop: Statement) -> bool:
    """Whether a statement names nothing that the loop declares."""
    for token in model.tokens[statement.first : statement.last]:
        variable = model.variable(token.text, token.offset) if token.kind == "id" else None
        inside = variable is not None and loop.start <= variable.name_at < loop.end
        if variable is not None and inside and not statement.start <= variable.name_at < statement.end:
            return False
    return True


def _out_of_loops(view: View) -> Iterator[Edit]:
    model = view.model
    for index, statement in enumerate(model.statements):
        if not view.wanted(statement.start, max(statement.end - 1, statement.start)):
            continue
        if statement.kind not in ("expression", "for") or statement.last - statement.first > 60:
            continue
        loop = next((at for at in model.enclosing(index) if model.statements[at].loop), -1)
        if loop < 0 or anchor(model, loop) != loop:
            continue
        text = model.text[statement.start : statement.end]
        # A nested loop that is all clearing may go as a whole; other loops do work of their own.
        clears = "fill_fragment" in text or any(f"= {z};" in text for z in ("0", "0.f", "0.0f", "{}"))
        if statement.kind == "for" and not clears:
            continue
        around = model.statements[loop]
        comma = _comma(model, statement)
        if comma > 0 and around.body == index:
            first = model.span(statement.first, comma)
            moved = before(model, loop, f"{first.text};")
            gone = Change(first.start, model.tokens[comma + 1].offset, "")
            if moved is not None:
                summary = f"{first.text} before the loop"
                yield from view.offer(_KIND, _RESET, statement.line, summary, (moved, gone), 0.04)
        gone_whole = _whole(model, index)
        if gone_whole is None or not _invariant(model, statement, around):
            continue
        moved = before(model, loop, text)
        if moved is not None:
            rank = 0.03 if clears else 0.16
            summary = f"before the loop at line {around.line}"
            yield from view.offer(_KIND, _RESET, statement.line, summary, (moved, gone_whole), rank)


def _comma(model: SourceModel, statement: Statement) -> int:
    index = statement.first
    while statement.kind == "expression" and index < statement.last:
        if model.tokens[index].text in ("(", "[", "{") and model.match[index] > index:
            index = model.match[index]
        elif model.tokens[index].text == ",":
            return index
        index += 1
    return -1


def _jumps(view: View) -> Iterator[Edit]:
    """`if (…) return;` and `if (…) continue;` that should not be there."""
    model = view.model
    for index, statement in enumerate(model.statements):
        if statement.kind != "if" or statement.orelse >= 0 or anchor(model, index) != index:
            continue
        inner = list(children(model, index))
        while len(inner) == 1 and model.statements[inner[0]].kind == "block":
            inner = list(children(model, inner[0]))
        jump = len(inner) == 1 and model.statements[inner[0]].kind in ("jump", "return")
        if not jump or not view.wanted(statement.start, statement.end):
            continue
        change = Change(statement.start, statement.end, "")
        yield from view.offer(_KIND, _JUMPS, statement.line, "without leaving early", (change,), 0.05)


def _looped_blocks(view: View) -> Iterator[Edit]:
    """A bare block whose first statement gives one tile to each warp: all tiles, in turns."""
    model = view.model
    for index, block in enumerate(model.statements):
        if block.kind != "block" or block.parent < 0 or model.statements[block.parent].kind != "block":
            continue
        first = next(iter(children(model, index)), -1)
        if first < 0 or model.statements[first].kind != "declaration":
            continue
        statement = model.statements[first]
        made = [v for v in model.variables if v.kind == "local" and v.start == statement.start]
        if len(made) != 1 or made[0].initial is None or not is_integer(made[0]) or made[0].dims:
            continue
        if not view.wanted(block.start, statement.end) and not _holds_wanted(view, block):
            continue
        yield from _loop_over(view, block, statement, made[0])


def _holds_wanted(view: View, block: Statement) -> bool:
    return view.lines is not None and any(block.line <= line <= block.last_line for line in view.lines)


def _loop_over(view: View, block: Statement, statement: Statement, variable: Variable) -> Iterator[Edit]:
    model, initial = view.model, variable.initial
    assert initial is not None
    parts = factors(model, initial)
    step = _WARPS if len(parts) == 1 else f"{_WARPS} * {parts[-1].text}"
    bounds = [v.name for v in view.integers(block.start) if v.kind == "parameter"]
    bounds += [n for n, value in model.constants.items() if value > 8 and n[:2] != "__"]
    bounds += [v.name for v in view.integers(block.start) if v.const and v.name not in bounds and v.kind == "local"]
    used = _extents(model, variable.name)
    for name in bounds[:12]:
        head = f"for ({variable.element} {variable.name} = {initial.text}; {variable.name} < {name}; {variable.name} += {step}) {{"  # noqa: E501
        changes = (Change(block.start, statement.end, head),)
        rank = 0.06 if name in used else 0.08
        summary = f"all of {variable.name} up to {name}, in steps of {step}"
        yield from view.offer(_KIND, _TILES, statement.line, summary, changes, rank)


def _extents(model: SourceModel, name: str) -> set[str]:
    """Names that stand in one statement with a name."""
    found = set()
    for statement in model.statements:
        texts = {t.text for t in model.tokens[statement.first : statement.last]} if statement.simple else set()
        if name in texts:
            found |= texts
    return found


def _stride_loops(view: View) -> Iterator[Edit]:
    """`if (threadIdx.x < n) f(threadIdx.x)` covers n elements only where the block has n threads."""
    model = view.model
    for statement in model.statements:
        if statement.kind != "if" or statement.orelse >= 0 or statement.condition is None or statement.body < 0:
            continue
        if not view.wanted(statement.start, statement.head_end):
            continue
        condition = statement.condition
        at = next((i for i in range(condition.first, condition.last) if model.tokens[i].text == "<"), -1)
        if at < 0 or at + 1 >= condition.last or "&&" in condition.text:
            continue
        left, bound = model.span(condition.first, at), model.span(at + 1, condition.last)
        variable = model.variable(left.text, left.start)
        made = variable.initial.text if variable is not None and variable.initial is not None else left.text
        if "threadIdx" not in made:
            continue
        body = model.statements[statement.body]
        name = "i_" if "i_" not in model.text else "i_of_thread"
        text = model.text[body.start : body.end].replace(left.text, name)
        for step, rank in (("blockDim.x", 0.04), ("blockDim.x * blockDim.y", 0.12)):
            head = f"for (int {name} = {left.text}; {name} < {bound.text}; {name} += {step}) "
            change = Change(statement.start, statement.end, head + text)
            summary = f"all elements up to {bound.text}, in steps of the block"
            yield from view.offer(_KIND, _TILES, statement.line, summary, (change,), rank)


def _joins(view: View) -> Iterator[Edit]:
    """`if (row >= M && col >= N) return;` lets threads on that are outside along one axis: `||`, before a new guard."""
    model = view.model
    functions = [model.function_at(start) for start in _wanted_starts(view)]
    for index, statement in enumerate(model.statements):
        condition = statement.condition if statement.kind == "if" else None
        if condition is None or model.function_at(statement.start) not in functions or view.lines is None:
            continue
        inner = [model.statements[at].kind for at in inside(model, index) if model.statements[at].kind != "block"]
        joins = [t for t in model.tokens[condition.first : condition.last] if t.text in ("&&", "||")]
        if inner != ["return"] or len(joins) != 1 or joins[0].text != "&&" or statement.line >= min(view.lines):
            continue
        line, text = min(view.lines), f"{condition.text}".replace("&&", "||")
        yield from view.offer(_KIND, _GUARDS, line, f"return where {text}", (replaced(joins[0], "||"),), 0.03)


def _early_returns(view: View) -> Iterator[Edit]:
    """Threads or warps past the end leave before the first access: rows against one length, columns against another."""
    model = view.model
    if view.lines is None:
        return
    for function in model.functions:
        if not function.kernel or not any(function.start <= s < function.end for s in _wanted_starts(view)):
            continue
        locals_ = [
            v for v in model.variables
            if v.kind == "local" and is_integer(v) and not v.dims and not v.pointer and v.initial is not None
            and function.start <= v.start < function.end and _from_grid(model, v)
        ]  # fmt: skip
        top = [v for v in locals_ if model.statements[model.statement_at(v.start)].parent == function.body]
        lengths = [p for p in function.parameters if is_integer(p) and not p.pointer]
        if not top:
            continue
        at = model.statement_at(max(top, key=lambda v: v.start).start)
        bounds = [(v, n.name) for v in top for n in lengths]
        tests = [(f"{v.name} >= {n}", 0.1) for v, n in bounds]
        tests += [(f"{v.name} >= ({n} + {s} - 1) / {s}", 0.11) for v, n in bounds if (s := _scaled(model, v.name))]
        if len(top) > 1:
            one, two = top[-2:]
            tests += [
                (f"{one.name} >= {a.name} || {two.name} >= {b.name}", 0.08 if a.start < b.start else 0.1)
                for a in lengths for b in lengths if a.name != b.name
            ]  # fmt: skip
        for text, rank in tests:
            change = after(model, at, f"if ({text}) return;")
            if change is not None:
                line = min(view.lines)
                yield from view.offer(_KIND, _GUARDS, line, f"return where {text}", (change,), rank)


def _wanted_starts(view: View) -> list[int]:
    model = view.model
    return [model.line_starts[min(line, len(model.lines)) - 1] for line in view.lines or ()]


def _from_grid(model: SourceModel, variable: Variable) -> bool:
    """Whether a variable is made from the block's or thread's number, over a few steps."""
    text = variable.initial.text if variable.initial is not None else ""
    for _ in range(4):
        if "blockIdx" in text or "threadIdx" in text:
            return True
        names = [n for n in text.replace("(", " ").replace("*", " ").replace("+", " ").split() if n.isidentifier()]
        known = [v for n in names if (v := model.variable(n, variable.start)) is not None and v.initial is not None]
        text = " ".join(v.initial.text for v in known if v.initial is not None)
    return False


def _scaled(model: SourceModel, name: str) -> str:
    """What a tile's number is multiplied by to give a row or column, "" if it never is."""
    tokens = model.tokens
    for index in range(len(tokens) - 2):
        if tokens[index].text == name and tokens[index + 1].text == "*" and tokens[index + 2].kind in ("num", "id"):
            return tokens[index + 2].text
    return ""


def _barriers(view: View) -> Iterator[Edit]:
    """A barrier behind a condition that not every round meets; one at the end of the loop that precedes it."""
    model = view.model
    for barrier in model.barriers:
        if barrier.kind != "block" or barrier.statement < 0:
            continue
        parent = model.statements[barrier.statement].parent
        statement = model.statements[parent] if parent >= 0 else None
        if statement is not None and statement.kind == "if" and view.wanted(statement.start, statement.end):
            change = Change(statement.start, statement.head_end, "")
            faults = ("missing-barrier", "divergent-barrier")
            yield from view.offer(_KIND, faults, statement.line, "the barrier in any case", (change,), 0.03)
    for index in model.loops if view.lines is not None else ():
        loop = model.statements[index]
        if loop.body < 0 or not _holds_wanted(view, loop):
            continue
        body = model.statements[loop.body]
        if not any(b.kind == "block" and body.start <= b.start < body.end for b in model.barriers):
            continue
        change_end = at_end(model, loop.body, "__syncthreads();")
        if change_end is not None:
            summary = f"a barrier at the end of the loop at line {loop.line}"
            line = min(view.lines or {loop.line})
            yield from view.offer(_KIND, ("missing-barrier",), line, summary, (change_end,), 0.05)
