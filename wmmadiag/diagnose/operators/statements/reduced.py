"""What the lanes of a warp have each, put together once more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator


@operator
def combined(program: Program) -> Iterator[Draft]:
    """`x = f(x, g(x))` after what accumulates `x`, with an exchange `g` between lanes that stands elsewhere, or with
    all that stand there in a row; after `x = s[i]` of a sum `s[i]`, and before what uses an `s[i]` otherwise."""
    pool = pools(program)
    rows = _exchanges(program)
    summed = {one.base("subscript").text for one in program.all_expressions() if _adds_to(one)}
    for statement in program.statements:
        if statement.kind == "declaration" and statement.braced:
            yield from _of_sum(statement, summed, rows)
        if statement.kind in ("declaration", "expression") and statement.braced:
            yield from _of_element(statement, summed, rows)
        if statement.kind not in ("expression", "loop"):
            continue
        for whole in statement.whole_expressions():
            form = _accumulated(whole)
            if form is None or not form[0].atom or form[0].type.kind != "float":
                continue
            target, before, after = form
            place = _block_level(statement)
            for row in rows:
                if not place.braced and not all(pool.visible(target, one) for one in row):
                    continue
                texts = [_renamed(one, one.operands[1], target.text) for one in row]
                made = " ".join(f"{before}{text}{after};" for text in texts)
                yield inserted_after(place, made, f"{target.text} with {', '.join(texts)}", "accumulation")


@operator
def completed(program: Program) -> Iterator[Draft]:
    """`x = f(x);` after what accumulates a real `x`, with a function of the program that has one argument."""
    functions = [
        name
        for name, listed in program.functions.items()
        if program.reader.returns[name].kind == "float"
        and any(not one.kernel and len(one.parameters) == 1 for one in listed)
    ]
    done: set[tuple[int, str]] = set()
    for statement in program.statements if functions else ():
        for whole in statement.expressions if statement.kind == "expression" else ():
            form = _accumulated(whole)
            if form is None or form[0].kind != "name" or form[0].type.kind != "float":
                continue
            name = form[0].text
            place = _beside_declaration(statement, name)
            if place is None or (id(place), name) in done:
                continue
            done.add((id(place), name))
            for function in functions:
                if function != statement.function.name:
                    text = f"{name} = {function}({name});"
                    yield inserted_after(place, text, text[:-1], "accumulation")


@operator
def warp_wide(program: Program) -> Iterator[Draft]:
    """What a lane accumulates put together of all lanes of the warp, after the statement that does, or the loop that it
    is in."""
    for statement in program.statements:
        for whole in statement.expressions if statement.kind == "expression" else ():
            form = _accumulated(whole)
            if form is None or not form[0].atom or form[0].type.kind not in ("float", "integer"):
                continue
            target, before, after = form
            exchanged = f"__shfl_xor_sync(0xffffffffu, {target.text}, lanes_)"
            loop = f"for (int lanes_ = 16; lanes_ > 0; lanes_ /= 2) {before}{exchanged}{after};"
            for place in dict.fromkeys((_block_level(statement), *statement.loops[-1:])):
                if place.braced and "__shfl" not in whole.text:
                    yield inserted_after(place, loop, f"{target.text} of all lanes", "accumulation")


def _of_sum(statement: Statement, summed: set[str], rows: Sequence[Sequence[Expression]]) -> Iterator[Draft]:
    """`x += g(x)` after a declaration that takes an element of an array that something is added to."""
    value = statement.expressions[0] if len(statement.expressions) == 1 and len(statement.declares) == 1 else None
    if (
        value is None
        or value.kind != "subscript"
        or value.type.kind != "float"
        or value.base("subscript").text not in summed
    ):
        return
    name = statement.declares[0].name
    for row in rows:
        texts = [_renamed(one, one.operands[1], name) for one in row]
        made = " ".join(f"{name} += {text};" for text in texts)
        yield inserted_after(statement, made, f"{name} with {', '.join(texts)}", "accumulation")


def _of_element(statement: Statement, summed: set[str], rows: Sequence[Sequence[Expression]]) -> Iterator[Draft]:
    """`s[i] += g(s[i])` before a statement that only reads a sum."""
    parts = list(statement.own_parts())
    if any(part.assigned and part.base("subscript").text in summed for part in parts):
        return
    elements = [part for part in parts if part.kind == "subscript" and part.type.kind == "float"]
    read = {part.text: part for part in elements if part.base("subscript").text in summed}
    for name in read:
        for row in rows:
            texts = [_renamed(one, one.operands[1], name) for one in row]
            made = " ".join(f"{name} += {text};" for text in texts)
            yield inserted_before(statement, made, f"{name} with {', '.join(texts)}", "accumulation")


def _adds_to(one: Expression) -> bool:
    """Whether it is an element of an array that an assignment adds to."""
    around = one.parent
    if one.kind != "subscript" or around is None or around.kind != "assignment" or one.number:
        return False
    value = around.operands[-1]
    return around.operator == "+=" or (around.operator == "=" and value.operator == "+")


def _exchanges(program: Program) -> list[Sequence[Expression]]:
    """The exchanges of a value between lanes, each alone, and those that stand in a row together."""
    singles: dict[str, Expression] = {}
    rows: dict[int, list[Expression]] = {}
    for one in program.all_expressions():
        if (
            one.kind == "call"
            and one.operator.startswith("__shfl")
            and len(one.operands) > 1
            and _named(one.operands[1])
        ):
            singles.setdefault(one.text, one)
            if one.statement.kind in ("expression", "return") and one.statement.braced:
                rows.setdefault(id(one.statement.block), []).append(one)
    together = {
        tuple(one.text for one in row): row
        for row in rows.values()
        if len(row) > 1 and len({one.operands[1].text for one in row}) == 1
    }
    return [*([one] for one in singles.values()), *together.values()]


def _named(one: Expression) -> bool:
    """Whether it is a variable, or an element of an array."""
    return one.atom or (one.kind == "subscript" and all(part.atom for part in one.operands))


def _beside_declaration(statement: Statement, name: str) -> Statement | None:
    """The statement that holds another one, in the block that declares a name."""
    at: Statement | None = statement
    while at is not None:
        if at.braced and any(one.name == name for other in at.block[: at.index] for one in other.declares):
            return at
        at = at.parent
    return None


def _block_level(statement: Statement) -> Statement:
    while not statement.braced and statement.parent is not None and statement.parent.kind != "block":
        statement = statement.parent
    return statement


def _renamed(call: Expression, value: Expression, name: str) -> str:
    source = call.unit.source
    return f"{source.slice(call.start, value.start)}{name}{source.slice(value.end, call.end)}"


def _accumulated(one: Expression) -> tuple[Expression, str, str] | None:
    """What `x op= e` or `x = f(x, e)` accumulates, and its text before and after `e`."""
    if one.kind != "assignment" or len(one.operands) != 2:
        return None
    target, value = one.operands
    if one.operator in ("+=", "*="):
        return target, f"{target.text} {one.operator} ", ""
    by_function = value.kind == "call" and len(value.operands) == 2 and value.receiver is None
    if one.operator == "=" and by_function and target.text in (value.operands[0].text, value.operands[1].text):
        return target, f"{target.text} = {value.operator}({target.text}, ", ")"
    return None
