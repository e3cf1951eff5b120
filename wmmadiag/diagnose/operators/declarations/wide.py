"""Types of variables and arrays that hold more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from wmmadiag.csource.nodes import field
from wmmadiag.csource.scalars import Scalar, scalar_named
from wmmadiag.csource.variables import Variable
from wmmadiag.diagnose.changes import TextEdit
from wmmadiag.diagnose.operators.cuda_names import FILL, LOAD, STORE
from wmmadiag.diagnose.operators.declarations.fragment import arguments
from wmmadiag.diagnose.operators.making import Draft, in_place_of, text_of
from wmmadiag.diagnose.operators.model import Body, Expression, Statement, Unit
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

if TYPE_CHECKING:
    from tree_sitter import Node

_NAMES = {
    "i32": "int", "u32": "unsigned", "i64": "long long", "u64": "unsigned long long", "f32": "float", "f64": "double",
}  # fmt: skip
_INT = Scalar("i32")
_SMALL = Scalar("i8")
"""What numbers are taken for, as written: they fit any type."""
_SUMS, _SHIFTS = frozenset({"+", "-", "*", "/", "%", "&", "|", "^"}), frozenset({"<<", ">>"})


@operator
def wide_enough(program: Program) -> Iterator[Draft]:
    """`long long` for `short` and the like: the type of a function's parameter, of what it returns, or of a variable,
    where something wider is given to it as it is."""
    widths = _Widths(program)
    for body in program.bodies:
        function = body.function
        if function is None or body.unit.macro:
            continue
        for number, one in enumerate(function.parameters if not body.kernel else ()):
            if one.name and _plain(one):
                given = (call.operands[number] for call in widths.calls[body.name, len(function.parameters)])
                yield from widths.wider(body.unit, field(one.node, "type"), given, one.name)
        values = [one.expressions[0] for one in body.statements if one.kind == "return" and one.expressions]
        yield from widths.wider(body.unit, field(function.node, "type"), values, f"what {body.name} returns")
        yield from _variables(body, widths)


def _variables(body: Body, widths: _Widths) -> Iterator[Draft]:
    for statement in body.statements:
        if statement.kind == "declaration" and len(statement.declares) == 1 and _plain(statement.declares[0]):
            one = statement.declares[0]
            given = widths.given[one.declarator.id]
            yield from widths.wider(statement.unit, field(statement.node, "type"), given, one.name)


def _plain(one: Variable) -> bool:
    return not (one.pointers or one.reference or one.dimensions or one.shared or one.constant)


class _Widths:
    """What everything of a program is computed as."""

    def __init__(self, program: Program) -> None:
        self._program = program
        # calls by the function and its number of arguments; what is assigned, by the variable's declarator
        self.calls: dict[tuple[str, int], list[Expression]] = defaultdict(list)
        self.given: dict[int, list[Expression]] = defaultdict(list)
        for statement in program.statements:
            for variable, value in statement.initial_values():
                self.given[variable.declarator.id].append(value)
        for one in program.all_expressions():
            if one.kind == "call":
                self.calls[one.operator, len(one.operands)].append(one)
            elif one.kind == "assignment" and one.operands[0].kind == "name" and len(one.operands) == 2:
                target = program.names_at(one.unit, one.start).get(one.operands[0].text)
                if target is not None:
                    self.given[target.declarator.id].append(one.operands[1])

    def wider(self, unit: Unit, node: Node | None, given: Iterable[Expression], name: str) -> Iterator[Draft]:
        """The type that a node names made as wide as the widest of what is given."""
        text = unit.source.text(node) if node is not None else ""
        own = scalar_named(text)
        if node is None or own is None or own.vector or text == "bool":
            return
        known = [one for one in map(self.of, given) if one is not None and _real(one) == _real(own)]
        widest = max(known, key=lambda one: one.bytes, default=own)
        other = _NAMES.get(widest.dtype)
        if other is not None and widest.bytes > own.bytes:
            edit = unit.edit(node.start_byte, node.end_byte, other)
            yield Draft((edit,), "static", "element type", f"{other} for {text}: {name}")

    def of(self, one: Expression) -> Scalar | None:
        """What an expression is computed as; None where that is not known."""
        if one.kind == "literal":
            return scalar_named("long long") if one.text.lower().endswith("ll") else _SMALL if one.type.whole else None
        if one.kind == "cast":
            return _scalar(one.operator)
        if one.kind == "call":
            listed = self._program.functions.get(one.operator, ())
            return _scalar(listed[0].returns) if listed else None
        if one.kind in ("name", "subscript"):
            return self._held(one)
        if one.kind == "unary" and one.operator in ("-", "~", "+"):
            return _widest(self.of(one.operands[0]), _INT)
        if one.kind == "conditional" and len(one.operands) == 3:
            return _widest(self.of(one.operands[1]), self.of(one.operands[2]))
        if one.kind == "binary" and one.operator in (_SUMS | _SHIFTS):
            right = _INT if one.operator in _SHIFTS else self.of(one.operands[1])
            return _widest(_widest(self.of(one.operands[0]), right), _INT)
        return None

    def _held(self, one: Expression) -> Scalar | None:
        """Of a variable, or an element of an array."""
        depth, base = 0, one
        while base.kind == "subscript":
            depth, base = depth + len(base.operands) - 1, base.operands[0]
        variable = self._program.names_at(one.unit, one.start).get(base.text) if base.kind == "name" else None
        whole = variable is not None and variable.pointers + len(variable.dimensions) == depth
        return _scalar(variable.type) if variable is not None and whole else None


def _scalar(text: str) -> Scalar | None:
    known = scalar_named(" ".join(word for word in text.split() if word not in ("const", "volatile")))
    return None if known is None or known.vector else known


def _real(one: Scalar) -> bool:
    return one.dtype[0] not in "iu"


def _widest(one: Scalar | None, other: Scalar | None) -> Scalar | None:
    """Of two operands; a real number is not held back by a whole one."""
    if one is None or other is None:
        return None
    return max(one, other, key=lambda part: (_real(part), part.bytes))


_HALVES = frozenset({"half", "__half"})
_TO_SINGLE, _TO_HALF = "__half2float", frozenset({"__float2half", "__float2half_rn", "half", "__half"})


@operator
def widened(program: Program) -> Iterator[Draft]:
    """`float` for `half`: an accumulator, the arrays that it is stored in and loaded from, the accumulators that these
    hold, and so on; conversions of their elements go."""
    declared = {name: edit for one in program.statements for name, edit in _halves(one)}
    joined = {name: {name} for name in declared}
    for one in program.all_expressions():
        if one.kind == "call" and one.operator in (LOAD, STORE) and len(one.operands) > 1:
            ends = [next((name for name in sorted(part.names) if name in declared), "") for part in one.operands[:2]]
            if all(ends):
                both = joined[ends[0]] | joined[ends[1]]
                joined.update(dict.fromkeys(both, both))
    for names in {id(some): some for some in joined.values()}.values():
        edits = [declared[name] for name in sorted(names)]
        for one in program.all_expressions():
            edits += _converted(one, names)
        edits = sorted(dict.fromkeys(edits), key=lambda edit: (edit.file, edit.start))
        yield Draft(tuple(edits), "static", "element type", f"float for half of {', '.join(sorted(names))}")


def _halves(one: Statement) -> Iterator[tuple[str, TextEdit]]:
    """An array of halves, or an accumulator of halves, that a statement declares alone, and the edit of its type."""
    if one.kind != "declaration" or len(one.declares) != 1 or one.unit.macro:
        return
    variable, node = one.declares[0], field(one.node, "type")
    if node is not None and variable.dimensions and one.unit.source.text(node) in _HALVES:
        yield variable.name, one.unit.edit(node.start_byte, node.end_byte, "float")
    for parts in arguments(one):
        texts = [one.unit.source.words(part) for part in parts]
        if len(texts) > 4 and texts[0].endswith("accumulator") and texts[4] in _HALVES:
            yield variable.name, one.unit.edit(parts[4].start_byte, parts[4].end_byte, "float")


def _converted(one: Expression, names: set[str]) -> Iterator[TextEdit]:
    """The edits that leave out a conversion of an element of some arrays or fragments, or of what they are set to."""
    if one.kind != "call" or len(one.operands) != 1 or (one.parent is None and one.operator != _TO_SINGLE):
        return
    inner, around = one.operands[0], one.parent
    if one.operator == _TO_SINGLE and inner.base("subscript", "member").text in names:
        yield in_place_of(one, text_of(inner))
    elif one.operator in _TO_HALF and around is not None:
        fills = around.kind == "call" and around.operator == FILL and one.number == 1
        sets = around.kind == "assignment" and one.number == 1
        if (fills or sets) and around.operands[0].base("subscript", "member").text in names:
            yield in_place_of(one, text_of(inner))
