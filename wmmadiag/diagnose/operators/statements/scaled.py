"""A running value brought up to date once more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from wmmadiag.csource.variables import Variable
from wmmadiag.diagnose.operators.cuda_names import STORE
from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before
from wmmadiag.diagnose.operators.model import Expression, Statement, Unit
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_MOST_RUNNING, _MOST_FACTORS, _MOST_BESIDE = 10, 4, 4

_LANES = "32"

_Head = tuple[frozenset[str], str]
"""Of a loop: its counters, and the text of its head."""
_Heads = tuple[_Head, ...]


@operator
def scaled(program: Program) -> Iterator[Draft]:
    """`x *= f;` after a real `f` was made, for an `x` that is accumulated; in a loop that goes over `x`, or over some
    elements of one array, elsewhere; or over all `i % n` of an `x[i % n]`, each thread or each lane of a warp some."""
    running = sorted(_running(program), key=lambda one: not _accumulates(one[0]))[:_MOST_RUNNING]
    groups = [([target], head) for target, head in running] + list(_beside(program))
    pool, known = pools(program), _remainders(program)
    for statement in program.statements:
        made = [
            one.name for one in statement.declares if program.reader.type_of(one).kind == "float" and not one.dimensions
        ]
        if statement.kind != "declaration" or not made or not statement.braced:
            continue
        if not statement.loops and statement.function.kernel:
            continue
        for place in dict.fromkeys((statement, statement.block[-1])):
            if place.kind in ("return", "jump"):
                continue
            for name in made:
                scope = program.names_at(place.unit, place.end)
                for targets, heads in groups:
                    # A counter that is in scope says which element is meant.
                    head = "".join(text for counters, text in heads if not counters & scope.keys())
                    for whole in (head, *(head + inner for inner in _rest_of(targets[0], scope.keys(), known))):
                        if all(one.text != name and pool.visible_within(one, place, whole) for one in targets):
                            texts = [f"{one.text} *= {name};" for one in targets]
                            text = f"{whole}{texts[0]}" if len(texts) == 1 else f"{whole}{{ {' '.join(texts)} }}"
                            note = f"{' and '.join(one.text for one in targets)} times {name}"
                            yield inserted_after(place, text, note, "accumulation")
                            break


@operator
def scaled_by_element(program: Program) -> Iterator[Draft]:
    """`x[i] *= f[i];` after a real `f[i]` was made in a loop in another one, for an `x[i]` that is accumulated."""
    pool = pools(program)
    running = {one.text: one for one, _ in _running(program) if one.kind == "subscript" and _accumulates(one)}
    for statement in program.statements:
        whole = statement.expression
        if whole is None or whole.kind != "assignment" or whole.operator != "=" or not statement.braced:
            continue
        factor = whole.operands[0]
        if factor.kind != "subscript" or factor.type.kind != "float" or len(statement.loops) < 2:
            continue
        for target in running.values():
            same = target.operands[1:] and target.operands[-1].text == factor.operands[-1].text
            other = target.operands[0].text != factor.operands[0].text and target.text not in whole.operands[1].text
            if same and other and pool.visible(target, whole):
                text = f"{target.text} *= {factor.text};"
                yield inserted_after(statement, text, f"{target.text} times {factor.text}", "accumulation")


def _remainders(program: Program) -> Mapping[str, Expression]:
    """What variables are remainders by, by their names: `n` for `int d = i % n;`."""
    found: dict[str, Expression] = {}
    for statement in program.statements:
        for variable, value in statement.initial_values():
            if value.kind == "binary" and value.operator == "%" and value.operands[1].varying is False:
                found.setdefault(variable.name, value.operands[1])
    return found


def _rest_of(target: Expression, scope: Set[str], known: Mapping[str, Expression]) -> Iterator[str]:
    """Heads of loops over all that the one name of an element may be that no scope has: of the lanes of a warp some
    each, and all."""
    missing = [name for name in sorted(target.names - scope) if name in known]
    if len(missing) == 1:
        name, size = missing[0], known[missing[0]].text
        lanes = [lane for lane, by in known.items() if by.text == _LANES and lane in scope]
        yield from (f"for (int {name} = {lane}; {name} < {size}; {name} += {_LANES}) " for lane in lanes)
        yield f"for (int {name} = 0; {name} < {size}; ++{name}) "


@operator
def scaled_by_rows(program: Program) -> Iterator[Draft]:
    """`x[i] *= f[j];` after the loop that makes `f[j]`, in the loops and for all `x[i]` of a statement that multiplies
    or divides `x[i]` by another array's `[j]`."""
    pool = pools(program)
    donors = list(_by_rows(program))
    for statement in program.statements if donors else ():
        whole = statement.expression
        if whole is None or whole.kind != "assignment" or whole.operator != "=":
            continue
        factor = whole.operands[0]
        if factor.kind != "subscript" or factor.type.kind != "float" or factor.operands[0].kind != "name":
            continue
        place = statement
        while place.parent is not None and (not place.braced or _counts(place.parent, factor)):
            place = place.parent
        if not place.braced or not place.loops:  # nothing runs on
            continue
        name = factor.operands[0].text
        for at in (place, *_behind(place)):
            scope = program.names_at(at.unit, at.end)
            for targets, by, heads in donors if name in scope else ():
                if by.operands[0].text == name or any(one.text.startswith(f"{name}[") for one in targets):
                    continue
                head = "".join(text for counters, text in heads if not counters & scope.keys())
                if all(pool.visible_within(one, at, head) for one in (*targets, by.operands[1])):
                    made = " ".join(f"{one.text} *= {name}[{by.operands[1].text}];" for one in targets)
                    text = f"{head}{made}" if len(targets) == 1 else f"{head}{{ {made} }}"
                    yield inserted_after(at, text, f"{made[:-1]}", "accumulation")


def _behind(place: Statement) -> list[Statement]:
    """The next barrier behind a statement in its branch, where all threads see what some have made."""
    while place.parent is not None and place.parent.kind != "loop":
        if place.braced and place.parent.parent is not None and place.parent.parent.kind == "loop":
            break
        place = place.parent
    later = (one for one in place.block[place.index + 1 :] if one.order is not None and "barrier" in one.order)
    return [one for one, _ in zip(later, range(1), strict=False)] if place.braced else []


def _by_rows(program: Program) -> Iterator[tuple[list[Expression], Expression, _Heads]]:
    """What a statement multiplies or divides by an element of one array: elements of others, that one, and the loops
    around whose counters these name."""
    found: dict[tuple[int, str], list[Expression]] = {}
    by: dict[tuple[int, str], Expression] = {}
    for one in program.all_expressions():
        if one.kind != "binary" or one.operator not in ("*", "/") or one.type.kind != "float":
            continue
        target, other = one.operands
        single = other.kind == "subscript" and other.operands[0].kind == "name" and other.type.kind == "float"
        if single and target.kind == "subscript" and target.type.kind == "float" and not target.fixed:
            key = id(one.statement), other.text
            by[key] = other
            found.setdefault(key, []).append(target)
    for key, targets in found.items():
        if len(targets) <= _MOST_BESIDE:
            names = frozenset(part.text for one in (*targets, by[key]) for part in one.under() if part.kind == "name")
            yield targets, by[key], _loops(targets[0].statement, names)


def _counts(loop: Statement, one: Expression) -> bool:
    """Whether a statement is a loop whose counter an expression names, or the block of one."""
    held = loop.parent if loop.kind == "block" and loop.parent is not None else loop
    return held.kind == "loop" and any(variable.name in one.names for variable in held.declares)


@operator
def scaled_by_array(program: Program) -> Iterator[Draft]:
    """`x[i] *= f[j];` for all `x[i]` that are accumulated or kept, after real `f` were made in a round of a loop: `j`
    as another array of so many elements is indexed in a loop over the same `i`."""
    pool = pools(program)
    made = [
        (statement, one.name, size)
        for statement in program.statements
        if statement.kind == "declaration" and statement.braced and statement.loops
        for one in statement.declares
        if (size := _size(statement.unit, one)) and _of_reals(program, one)
    ]
    maps = _maps(program) if made else {}
    groups = [([one], heads) for one, heads in _running(program) if heads] if made else []
    for statement, name, size in made:
        scope = program.names_at(statement.unit, statement.end)
        for targets, heads in (*groups, *_beside(program)):
            head = "".join(text for counters, text in heads if not counters & scope.keys())
            known = set(heads)
            for index, loops in maps.get(size, {}).items():
                # What no loop around an element counts says nothing of which one is meant.
                if not loops or not loops <= known or any(one.text.startswith(f"{name}[") for one in targets):
                    continue
                if all(pool.visible_within(one, statement, head) for one in targets):
                    texts = " ".join(f"{one.text} *= {name}[{index}];" for one in targets)
                    text = f"{head}{texts}" if len(targets) == 1 else f"{head}{{ {texts} }}"
                    yield inserted_after(statement, text, texts[:-1], "accumulation")


def _of_reals(program: Program, one: Variable) -> bool:
    held = program.reader.type_of(one)
    return held.kind == "array" and held.of is not None and held.of.kind == "float"


def _size(unit: Unit, one: Variable) -> str:
    """How many elements an array of one dimension has, as written."""
    size = one.dimensions[0] if len(one.dimensions) == 1 else None
    return unit.source.words(size) if size is not None else ""


def _maps(program: Program) -> Mapping[str, Mapping[str, frozenset[_Head]]]:
    """How arrays are indexed by counters of loops: by how many elements they have the index, with the loops' heads."""
    found: dict[str, dict[str, frozenset[_Head]]] = {}
    for one in program.all_expressions():
        if one.kind != "subscript" or one.operands[0].kind != "name" or one.fixed:
            continue
        held = program.names_at(one.unit, one.start).get(one.operands[0].text)
        index = one.operands[-1]
        loops = frozenset(_loops(one.statement, index.names))
        if held is None or not loops or index.names != frozenset(name for counters, _ in loops for name in counters):
            continue
        if size := _size(one.unit, held):
            found.setdefault(size, {}).setdefault(index.text, loops)
    return found


@operator
def fragment_scaled(program: Program) -> Iterator[Draft]:
    """Every element of a fragment times a real number, before the fragment is stored."""
    pool = pools(program)
    for statement in program.statements:
        whole = statement.expression
        if whole is None or whole.operator != STORE or not statement.braced or len(whole.operands) < 2:
            continue
        held = whole.operands[1].text
        factors = [atom for atom in pool.at(whole) if atom.type.kind == "float" and "[" not in atom.text]
        factors.sort(key=lambda atom: atom.text in pool.roles)
        for atom in factors[:_MOST_FACTORS]:
            text = f"for (int i_ = 0; i_ < {held}.num_elements; ++i_) {held}.x[i_] *= {atom.text};"
            yield inserted_before(statement, text, f"{held} times {atom.text}", "accumulation")


def _running(program: Program) -> Iterator[tuple[Expression, _Heads]]:
    """Real numbers that are accumulated or kept in arrays, with the heads of the loops that go over them."""
    seen: set[tuple[_Heads, str]] = set()
    for one in program.all_expressions():
        if one.type.kind != "float" or one.fixed or one.kind not in ("name", "subscript", "member"):
            continue
        around = one.parent
        in_target = around is not None and around.kind == "assignment" and one.number == 0
        if one.kind == "name" and not in_target:
            continue
        head = _heads(one)
        key = head, one.text
        if key not in seen:
            seen.add(key)
            yield one, head


def _beside(program: Program) -> Iterator[tuple[list[Expression], _Heads]]:
    """Elements of one array that one statement in a loop names beside each other, with the heads of loops."""
    seen: set[tuple[_Heads, tuple[str, ...]]] = set()
    for statement in program.statements:
        held: dict[tuple[str, _Heads], dict[str, Expression]] = {}
        for whole in statement.expressions if statement.loops else ():
            for one in whole.under():
                head = _heads(one) if one.kind == "subscript" and one.type.kind == "float" and not one.fixed else ()
                if head:
                    held.setdefault((one.base("subscript").text, head), {}).setdefault(one.text, one)
        for (_, head), found in held.items():
            key = head, tuple(found)
            if 1 < len(found) <= _MOST_BESIDE and key not in seen:
                seen.add(key)
                yield list(found.values()), head


def _accumulates(one: Expression) -> bool:
    """Whether it is what something is added to."""
    around = one.parent
    return around is not None and around.kind == "assignment" and around.operator != "=" and one.number == 0


def _heads(one: Expression) -> _Heads:
    """The loops around an expression whose counters it names, directly nested."""
    return _loops(one.statement, frozenset(part.text for part in one.under() if part.kind == "name"))


def _loops(statement: Statement, names: frozenset[str]) -> _Heads:
    found = []
    for loop in statement.loops:
        counters = frozenset(variable.name for variable in loop.declares)
        if names & counters and loop.children:
            found.append((counters, f"{loop.unit.source.one_line(loop.start, loop.children[0].start)} "))
    return tuple(found)
