"""Loops of host code: turn by turn where they are few, else once for all turns together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from wmmadiag.csource.nodes import Node, bare, descendants, field
from wmmadiag.csource.variables import declared
from wmmadiag.hostcode import terms
from wmmadiag.hostcode.evaluation import evaluate
from wmmadiag.hostcode.events import HostLaunch
from wmmadiag.hostcode.machine import Machine, PathEnd
from wmmadiag.hostcode.places import assigned
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.statements import Returned, Signal, execute, runs
from wmmadiag.hostcode.terms import Number, Term
from wmmadiag.hostcode.types import plain
from wmmadiag.hostcode.values import Cell, Items, Unknown, Value

_MOST_TURNS = 16
_FACTORS = frozenset({"*", "/", "<<", ">>", "*=", "/=", "<<=", ">>="})
_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")


@runs("for_statement")
def _for(machine: Machine, node: Node, scope: Scope) -> Signal:
    inner = scope.inner()
    first, condition, update, body = (field(node, name) for name in ("initializer", "condition", "update", "body"))
    if first is not None:
        if first.type == "declaration":
            execute(machine, first, inner)
        else:
            evaluate(machine, first, inner)

    def advance() -> None:
        if update is not None:
            evaluate(machine, update, inner)

    return _loop(machine, node, condition, body, inner, advance)


@runs("while_statement")
def _while(machine: Machine, node: Node, scope: Scope) -> Signal:
    return _loop(machine, node, field(node, "condition"), field(node, "body"), scope.inner(), lambda: None)


@runs("do_statement")
def _do(machine: Machine, node: Node, scope: Scope) -> Signal:
    body, condition = field(node, "body"), field(node, "condition")
    once = condition is not None and machine.known(evaluate(machine, condition, scope)) == 0  # `do { … } while (0)`
    machine.repeating += not once
    try:
        signal = execute(machine, body, scope.inner()) if body is not None else None
    finally:
        machine.repeating -= not once
    return None if signal in ("break", "continue") else signal


def _loop(
    machine: Machine, node: Node, condition: Node | None, body: Node | None, scope: Scope, advance: Callable[[], None]
) -> Signal:
    """A loop: a short one turn by turn, one that launches once, and all turns of a long one at once, by its index."""
    if body is None:
        return None
    launches = bool(machine.program.sites(scope.source, body))
    nested = machine.loops > 0 or next(descendants(body, *_LOOPS), None) is not None
    if not launches and condition is not None and _multiplies(condition, node, scope):
        # How often such a loop turns is told by sizes alone, `while (threads < n) threads *= 2;`: for one of them.
        machine.suppose(evaluate(machine, condition, scope))
    elif not launches and (nested or _is_long(machine, condition, scope)):
        return _indexed(machine, condition, body, scope)
    machine.loops += not launches
    machine.repeating += launches
    try:
        return _turns(machine, condition, body, scope, advance, launches)
    finally:
        machine.loops -= not launches
        machine.repeating -= launches


def _turns(
    machine: Machine, condition: Node | None, body: Node, scope: Scope, advance: Callable[[], None], launches: bool
) -> Signal:
    turns: list[list[HostLaunch]] = []
    for turn in range(_MOST_TURNS):
        if condition is not None:
            known = machine.known(evaluate(machine, condition, scope))
            if known is not None and not known:
                return None
            if known is None and turn > launches:  # of one that launches a second turn shows what moves
                return None
        count = len(machine.launches)
        signal = execute(machine, body, scope.inner())
        if isinstance(signal, Returned):
            return signal
        turns.append(machine.launches[count:])
        if signal == "break":
            return None
        advance()
        if launches and turns[-1] and turn >= 1:
            if condition is not None and _is_reshaped(machine, *turns[-2:]):
                with _for_shapes_alone(machine):
                    for _ in range(_MOST_TURNS):
                        if not machine.known(evaluate(machine, condition, scope)):
                            break
                        if execute(machine, body, scope.inner()) not in (None, "continue"):
                            break
                        advance()
            return None
    return None


def _is_reshaped(machine: Machine, turn: Sequence[HostLaunch], following: Sequence[HostLaunch]) -> bool:
    """Whether a turn of a loop launches a kernel with other blocks, or other shared memory, than the one before."""

    def shape(launch: HostLaunch) -> list[Number | None]:
        values = [*(one.value for one in launch.block.members.values()), launch.shared]
        return [machine.known(one) for one in values]

    pairs = ((one, other) for one in turn for other in following if one.place == other.place)
    return any(shape(one) != shape(other) for one, other in pairs)


@contextmanager
def _for_shapes_alone(machine: Machine) -> Iterator[None]:
    """Further turns of a loop for the shapes of their launches alone: `for (int threads : {32, 64, …, 1024})`."""
    steps, around, facts = machine.steps, machine.further_turn, len(machine.facts)
    machine.further_turn = True
    machine.repeating += 1
    try:
        with suppress(PathEnd):
            yield
    finally:
        machine.steps, machine.further_turn = steps, around
        machine.repeating -= 1
        del machine.facts[facts:]


def _multiplies(condition: Node, loop: Node, scope: Scope) -> bool:
    """Whether a loop multiplies or divides a variable of its condition: it turns as often as a logarithm says."""
    tested = {scope.source.text(one) for one in descendants(condition, "identifier")}
    turned = set()
    for one in descendants(loop, "assignment_expression", "update_expression"):
        target, value, sign = field(one, "left") or field(one, "argument"), field(one, "right"), field(one, "operator")
        name = scope.source.text(target) if target is not None else ""
        if name not in tested:
            continue
        text = scope.source.text(sign) if sign is not None else ""
        own = value is not None and any(scope.source.text(each) == name for each in descendants(value, "identifier"))
        if text in _FACTORS or (own and value is not None and _has_factor(value, scope)):
            return True
        turned.add(name)
    # `while ((1 << log2) < n) ++log2;`
    shifts = [one for one in descendants(condition, "binary_expression") if _has_factor(one, scope)]
    return any(scope.source.text(each) in turned for one in shifts for each in descendants(one, "identifier"))


def _has_factor(expression: Node, scope: Scope) -> bool:
    sign = field(expression, "operator")
    return expression.type == "binary_expression" and sign is not None and scope.source.text(sign) in _FACTORS


def _is_long(machine: Machine, condition: Node | None, scope: Scope) -> bool:
    """Whether a loop counts up to something that is no small number."""
    test = bare(condition) if condition is not None else None
    if test is None or test.type != "binary_expression":
        return False
    left, right = field(test, "left"), field(test, "right")
    if left is None or right is None or left.type != "identifier":
        return False
    end = machine.known(evaluate(machine, right, scope))
    begin = machine.known(evaluate(machine, left, scope))
    return end is None or begin is None or abs(end - begin) > _MOST_TURNS


def _indexed(machine: Machine, condition: Node | None, body: Node, scope: Scope) -> Signal:
    """One turn of a loop for all of them: its variable is a symbol, which stands for every index."""
    test = bare(condition) if condition is not None else None
    left = field(test, "left") if test is not None else None
    cell = scope.variable(scope.source.text(left)) if left is not None else None
    if cell is None:
        return None
    kept = cell.value
    machine.indices += 1
    cell.value = terms.symbol(f"index_{machine.indices}")
    machine.names.setdefault(f"index_{machine.indices}", [])
    index = f"index_{machine.indices}"
    before = {id(one): (one, one.value) for one in _assigned_cells(body, scope) if one is not cell}
    for count, (one, value) in enumerate(before.values()):
        one.value = Term("symbol", (f"{index}_sum_{count}",), isinstance(value, Term) and value.real)
    begun = {key: one.value for key, (one, _) in before.items()}
    signal = execute(machine, body, scope.inner())
    for key, (one, value) in before.items():
        one.value = _over_all_turns(index, value, begun[key], one.value)
    cell.value = kept
    return signal if isinstance(signal, Returned) and not isinstance(signal.value, Unknown) else None


def _over_all_turns(index: str, before: Value, begun: Value, after: Value) -> Value:
    """What a variable holds after a loop of which each turn makes `after` of `begun`: a sum, where each adds to it."""
    if after == begun:
        return before
    if isinstance(after, Term) and after.op == "+" and begun in after.args and isinstance(before, Term):
        added = after.args[after.args[0] == begun]
        if begun.args[0] not in terms.symbols(added):  # type: ignore[union-attr]
            return terms.combined("+", before, Term("sum", (terms.symbol(index), added), True))
    return Unknown()


def _assigned_cells(body: Node, scope: Scope) -> Iterator[Cell]:
    for one in descendants(body, "assignment_expression", "update_expression"):
        target = field(one, "left") or field(one, "argument")
        cell = scope.variable(scope.source.text(target)) if target is not None and target.type == "identifier" else None
        if cell is not None and isinstance(cell.value, Term):
            yield cell


@runs("for_range_loop")
def _range(machine: Machine, node: Node, scope: Scope) -> Signal:
    listed, body = field(node, "right"), field(node, "body")
    variable = next(declared(scope.source, node), None)
    if listed is None or body is None:
        return None
    value = evaluate(machine, listed, scope)
    cells = value.cells if isinstance(value, Items) else [Cell(Unknown())]
    launches = bool(machine.program.sites(scope.source, body))

    def entered(cell: Cell) -> Scope:
        inner = scope.inner()
        if variable is not None:
            kind = variable.type if plain(variable.type) != "auto" else "int"
            held = assigned(machine, variable.name, kind, cell.value)
            inner.variables[variable.name] = cell if variable.reference and held is cell.value else Cell(held, kind)
        return inner

    for cell in cells[: 1 if launches else _MOST_TURNS]:
        inner = entered(cell)
        machine.repeating += launches
        try:
            signal = execute(machine, body, inner)
        finally:
            machine.repeating -= launches
        if isinstance(signal, Returned):
            return signal
        if signal == "break":
            return None
    if launches:
        with _for_shapes_alone(machine):
            for cell in cells[1:_MOST_TURNS]:
                if execute(machine, body, entered(cell)) not in (None, "continue"):
                    break
    return None
