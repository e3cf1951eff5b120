"""How many there are of what a whole number counts, as the source says where it is made."""

from __future__ import annotations

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Text, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools

_OF_LAUNCH = {"threadIdx": "blockDim", "blockIdx": "gridDim"}


class CounterExtents:
    """The extents of a program's counters and remainders, read once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        # by the declarator: an expression of the extent, or of what it is the extent of
        self._known: dict[int, Expression] = {}
        for statement in program.statements:
            if statement.kind == "loop":
                self._counted(statement)
            for variable, value in statement.initial_values():
                self._known.setdefault(variable.declarator.id, value)

    def _counted(self, loop: Statement) -> None:
        condition = loop.condition
        if condition is None or condition.operator != "<" or len(condition.operands) != 2:
            return
        for variable in loop.declares:
            if variable.name == condition.operands[0].text:
                self._known[variable.declarator.id] = condition

    def of(self, one: Expression) -> Text | None:
        """The number that a name, an axis of the launch or a remainder stays below, named where it stands; None of
        anything else."""
        one = sums.uncast(one)
        if one.kind == "member" and one.operands[0].text in _OF_LAUNCH:
            return Text(f"{_OF_LAUNCH[one.operands[0].text]}.{one.operator}", precedence.POSTFIX)
        extent = self.written(one)
        if extent is None:
            number = self._of_bits(one)
            return Text(str(number)) if number else None
        return text_of(extent) if pools(self._program).visible(extent, one) else None

    def of_made(self, one: Expression) -> Text | None:
        """The same, also of a variable that is made as an axis of the launch."""
        held = self._known.get(self.declarator(one) or 0) if one.kind == "name" else None
        return self.of(held if held is not None and held.kind == "member" else one)

    def _of_bits(self, one: Expression) -> int:
        """The same of the lowest bits of a number, and of what is left of such bits without the lowest ones, where all
        is written as numbers; else 0."""
        held = self._known.get(self.declarator(one) or 0) if one.kind == "name" else None
        one = sums.uncast(held) if held is not None else one
        by = one.operands[1].text if one.kind == "binary" else ""
        if not by.isdecimal() or one.operator not in ("&", "/", ">>"):
            return 0
        if one.operator == "&":
            return int(by) + 1 if int(by) & int(by) + 1 == 0 else 0
        whole = self.of(one.operands[0])
        if whole is None or not whole.text.isdecimal():
            return 0
        return int(whole.text) >> int(by) if one.operator == ">>" else int(whole.text) // max(1, int(by))

    def written(self, one: Expression) -> Expression | None:
        """The same as it is written where the loop or the remainder is; None of an axis of the launch."""
        one = sums.uncast(one)
        if one.kind == "name":
            held = self._known.get(self.declarator(one) or 0)
            one = sums.uncast(held) if held is not None else one
        found = one.kind == "binary" and one.operator in ("%", "<") and one.operands[1].varying is not True
        return one.operands[1] if found else None

    def declarator(self, one: Expression) -> int | None:
        """The identity of the declarator of a name."""
        variable = self._program.names_at(one.unit, one.start).get(one.text)
        return variable.declarator.id if variable is not None else None


def extents(program: Program) -> CounterExtents:
    """The extents of a program."""
    return program.once(CounterExtents)
