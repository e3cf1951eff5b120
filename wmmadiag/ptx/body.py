"""The body of a function: statements in nested brace scopes, to verified instructions."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from types import MappingProxyType
from typing import cast

from wmmadiag.errors import PtxSyntaxError
from wmmadiag.place import Place
from wmmadiag.ptx import ir
from wmmadiag.ptx.calls import INDIRECT, parse_call
from wmmadiag.ptx.cursor import Cursor
from wmmadiag.ptx.debug import Locations
from wmmadiag.ptx.instructions import lookup, refusal
from wmmadiag.ptx.lexer import MALFORMED
from wmmadiag.ptx.operands import OperandParser
from wmmadiag.ptx.scope import FreshNames, PtxScope, find_labels
from wmmadiag.ptx.variables import parse_head, parse_initializer, parse_shape, total_size
from wmmadiag.ptx.verifier import Mismatch, Shape, Verifier, of_one

UNSUPPORTED = "unsupported"
"""`op` of an instruction that is not emulated; its attribute "reason" says why, "operands" how it was written."""

_SPACES = {
    ".local": ir.Space.LOCAL,
    ".shared": ir.Space.SHARED,
    ".param": ir.Space.PARAM,
    ".global": ir.Space.GLOBAL,
    ".const": ir.Space.CONST,
}
_NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})
_UNIFORM: Mapping[str, str] = MappingProxyType({"uni": "1"})
_CARRY = "%cc"
_BETWEEN = frozenset((",", ";"))
_MAX_DEPTH = 200
_MAX_OPCODE = 400


class BodyParser:
    """Reads one body. The results are in the public attributes once `parse` has returned."""

    def __init__(
        self,
        cursor: Cursor,
        verifier: Verifier,
        locations: Locations,
        functions: Mapping[str, ir.PtxFunction],
        variables: MutableMapping[str, ir.PtxVariable],
    ) -> None:
        self._cursor = cursor
        self._verifier = verifier
        self._locations = locations
        self._functions = functions
        self._module_variables = variables
        self._made: dict[str, ir.Register] = {}
        self._labels = find_labels(cursor.text, cursor.index)
        self._names = FreshNames(variables)
        self.scope = PtxScope(None, self._labels[cursor.index], self._names, self._made)
        self._operands = OperandParser(cursor, self.scope, variables, functions)
        self.variables: list[ir.PtxVariable] = []
        self.instructions: list[ir.Instruction] = []
        self.labels: dict[str, int] = {}
        self.branch_targets: dict[str, tuple[str, ...]] = {}

    @property
    def registers(self) -> tuple[ir.Register, ...]:
        """All registers that the body declares one by one, or uses out of a range."""
        return tuple(self._made.values())

    def parse(self) -> None:
        """Read from `{` to the matching `}`.

        Raises:
            PtxSyntaxError: malformed, or breaking the rules of the instruction table.
        """
        cursor = self._cursor
        cursor.expect("{")
        depth = 1
        while depth:
            token = cursor.text[cursor.index]
            first = token[:1]
            if first == ".":
                self._directive()
            elif token == "{":
                depth += 1
                if depth > _MAX_DEPTH:
                    raise cursor.error("braces are nested too deeply")
                self.scope = self._operands.scope = self.scope.child(self._labels.get(cursor.index, {}))
                cursor.index += 1
            elif token == "}":
                depth -= 1
                cursor.index += 1
                if depth:
                    assert self.scope.parent is not None
                    self.scope = self._operands.scope = self.scope.parent
            elif token == ";":
                cursor.index += 1
            elif token[-1:] == ":":
                self._label()
            elif first == "@" or first.isalpha():
                self._instruction()
            elif not token:
                raise cursor.error("unexpected end of the PTX text: a '}' is missing")
            else:
                raise cursor.error(f"expected an instruction, found {token!r}")
        self._check_targets()

    def _check_targets(self) -> None:
        """Branches go to labels, indexed branches to lists of labels."""
        for item in self.instructions:
            if item.op in ("bra", "brx.idx"):
                target = item.operand("target" if item.op == "bra" else "targets")
                known: Mapping[str, object] = self.labels if item.op == "bra" else self.branch_targets
                if isinstance(target, ir.Label) and target.name not in known:
                    what = "a label" if item.op == "bra" else "a .branchtargets list"
                    message = f"{target.name!r} is not {what} (PTX line {item.ptx_line})"
                    raise PtxSyntaxError(message, place=item.place, hint=MALFORMED)

    # -- statements that are no instructions ---------------------------------------------------------------------

    def _label(self) -> None:
        cursor = self._cursor
        name = cursor.take()[:-1].rstrip()
        unique = self.scope.labels.get(name)
        if unique is None or unique in self.labels or unique in self.branch_targets:
            raise cursor.error(f"label {name!r} is defined twice" if unique else "expected a label")
        following = cursor.token
        if following in (".branchtargets", ".calltargets"):
            cursor.index += 1
            targets = []
            while True:
                target = cursor.identifier("a label")
                found = self.scope.label(target)
                if found is None and following == ".branchtargets":
                    raise cursor.error(f"undefined label {target!r}", index=cursor.index - 1)
                targets.append(found or target)
                if not cursor.accept(","):
                    break
            cursor.expect(";")
            self.branch_targets[unique] = tuple(targets)
        elif following == ".callprototype":
            self._skip_statement()
        else:
            self.labels[unique] = len(self.instructions)

    def _skip_statement(self) -> None:
        cursor = self._cursor
        depth = 0
        while (token := cursor.take()) != ";":
            depth += (token == "{") - (token == "}")
            if depth < 0:
                raise cursor.error("expected ';', found '}'", index=cursor.index - 1)
        if depth:
            raise cursor.error("expected '}', found ';'", index=cursor.index - 1)

    def _directive(self) -> None:
        cursor = self._cursor
        directive = cursor.take()
        if directive == ".loc":
            cursor.place = self._locations.parse(cursor)
        elif directive == ".reg":
            self._registers()
        elif directive in _SPACES:
            self._variable(_SPACES[directive])
        elif directive == ".pragma":
            self._skip_statement()
        else:
            raise cursor.error(f"unexpected directive {directive!r}", index=cursor.index - 1)

    def _registers(self) -> None:
        cursor = self._cursor
        head = parse_head(cursor, register=True)
        while True:
            name = cursor.identifier("a register")
            if self.scope.declared(name):
                raise cursor.error(f"{name!r} is declared twice", index=cursor.index - 1)
            if cursor.accept("<"):
                self.scope.ranges[name] = (cursor.integer("a number of registers", high=1 << 30), head.type)
                cursor.expect(">")
                if head.vector > 1:
                    raise cursor.error("a range of vector registers is not supported")
            elif head.vector > 1:
                elements = tuple(
                    self.scope.add_register(f"{name}.{axis}", head.type) for axis in "xyzwabcd"[: head.vector]
                )
                self.scope.registers[name] = ir.Vector(elements)
                if head.vector <= 4:
                    for axis, colour in zip("xyzw", "rgba", strict=True):
                        element = self.scope.registers.get(f"{name}.{axis}")
                        if element is not None:
                            self.scope.registers[f"{name}.{colour}"] = element
            else:
                self.scope.add_register(name, head.type)
            if not cursor.accept(","):
                break
        cursor.expect(";")

    def _variable(self, space: ir.Space) -> None:
        cursor = self._cursor
        place = cursor.place
        head = parse_head(cursor)
        while True:
            name = cursor.identifier("a variable")
            if self.scope.declared(name):
                raise cursor.error(f"{name!r} is declared twice", index=cursor.index - 1)
            shape = parse_shape(cursor)
            initializer = None
            if cursor.accept("="):
                if space not in (ir.Space.GLOBAL, ir.Space.CONST):
                    raise cursor.error(f"a .{space.value} variable cannot have an initial value")
                initializer = parse_initializer(cursor, head, shape)
            size = total_size(cursor, head, shape)
            unique = self.scope.add_variable(name, space)
            variable = ir.PtxVariable(
                unique, space, head.align, size, head.type, tuple(shape), initializer, False, place
            )
            if space in (ir.Space.GLOBAL, ir.Space.CONST):
                self._module_variables[unique] = variable
            else:
                self.variables.append(variable)
            if not cursor.accept(","):
                break
        cursor.expect(";")

    # -- instructions --------------------------------------------------------------------------------------------

    def _instruction(self) -> None:
        cursor = self._cursor
        start = cursor.index
        guard = self._guard() if cursor.text[start] == "@" else None
        at = cursor.index
        text = cursor.text[at]
        if not text[:1].isalpha():
            raise cursor.error(f"expected an instruction, found {text or 'the end'!r}")
        cursor.index += 1
        while cursor.text[cursor.index][:1] == "." and len(text) <= _MAX_OPCODE:
            text += cursor.text[cursor.index]
            cursor.index += 1
        if len(text) > _MAX_OPCODE:
            raise cursor.error(f"an instruction's name of more than {_MAX_OPCODE} characters", index=at)
        if text == "call" or text.startswith("call."):
            self._call(text, at, guard)
            return
        if not lookup(text):
            self._unsupported(text, refusal(text), at, guard)
            return
        operands: list[ir.Operand] = []
        shapes: list[Shape] = []
        if cursor.text[cursor.index] != ";":
            tokens, registers = cursor.text, self.scope.registers
            while True:
                register = registers.get(tokens[cursor.index])
                if type(register) is ir.Register and tokens[cursor.index + 1] in _BETWEEN:  # nearly always
                    operands.append(register)
                    shapes.append(register.type)
                    cursor.index += 1
                else:
                    operand, shape = self._operands.parse()
                    operands.append(operand)
                    shapes.append(shape)
                if tokens[cursor.index] != ",":
                    break
                cursor.index += 1
        cursor.expect(";")
        try:
            resolved = self._verifier.resolve(text, operands, tuple(shapes))
        except Mismatch as mismatch:
            error = cursor.error(str(mismatch), index=at)
            error.hint, error.op = mismatch.hint, text
            raise error from None
        assert resolved is not None
        form, specs = resolved
        for index, shape in enumerate(shapes):
            if type(shape) is tuple and len(shape) == 2 and of_one(form, specs[index], shape):
                (operands[index],) = cast(ir.Vector, operands[index]).elements
        if form.implicit:
            operands.extend([self._carry()] * form.implicit)
        self._append(text, form.op, form.attributes, tuple(operands), specs, guard, at)

    def _append(
        self,
        text: str,
        op: str,
        attributes: Mapping[str, str],
        operands: tuple[ir.Operand, ...],
        specs: tuple[ir.OperandSpec, ...],
        guard: ir.Predicate | None,
        at: int,
    ) -> None:
        line = self._cursor.line_of(at)
        place = self._cursor.place or Place(self._cursor.name, line)
        self.instructions.append(ir.Instruction(text, op, attributes, operands, specs, guard, place, line))

    def _guard(self) -> ir.Predicate:
        cursor = self._cursor
        cursor.index += 1
        negated = cursor.accept("!")
        name = cursor.take()
        register = self.scope.register(name)
        if not isinstance(register, ir.Register):
            raise cursor.error(f"undefined predicate {name!r}", index=cursor.index - 1)
        if register.type != "pred":
            raise cursor.error(f"{name!r} is no predicate but .{register.type}", index=cursor.index - 1)
        return ir.Predicate(register, negated)

    def _carry(self) -> ir.Register:
        """The carry flag, as a register of its own."""
        found = self._made.get(_CARRY)
        if found is None:
            found = self._made[_CARRY] = ir.Register(_CARRY, "pred")
        return found

    def _call(self, text: str, at: int, guard: ir.Predicate | None) -> None:
        cursor = self._cursor
        if text not in ("call", "call.uni"):
            self._unsupported(text, refusal(text), at, guard)
            return
        parsed = parse_call(cursor, self._operands, self._functions)
        cursor.expect(";")
        attributes = _UNIFORM if text == "call.uni" else _NO_ATTRIBUTES
        direct = isinstance(parsed[0][1], ir.SymbolAddress)
        self._append(text, "call" if direct else INDIRECT, attributes, *parsed, guard, at)

    def _unsupported(self, text: str, reason: str, at: int, guard: ir.Predicate | None) -> None:
        """Keep what is not emulated, so that only a kernel that reaches it is refused."""
        cursor = self._cursor
        start = cursor.index
        self._skip_statement()
        written = " ".join(cursor.text[start : cursor.index - 1]).replace(" ,", ",")
        attributes = MappingProxyType({"reason": reason, "operands": written})
        self._append(text, UNSUPPORTED, attributes, (), (), guard, at)
