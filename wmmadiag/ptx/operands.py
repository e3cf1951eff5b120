"""Operands of instructions, with the shape that the verifier looks at."""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.ptx import ir
from wmmadiag.ptx.cursor import Cursor
from wmmadiag.ptx.lexer import parse_integer
from wmmadiag.ptx.literals import constant, constant_integer, parse_number
from wmmadiag.ptx.scope import PtxScope
from wmmadiag.ptx.verifier import Shape

_VECTORS = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
_WORDS = (
    "laneid warpid nwarpid smid nsmid is_explicit_cluster cluster_ctarank cluster_nctarank lanemask_eq "
    "lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi globaltimer_lo globaltimer_hi "
    "reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap total_smem_size "
    "aggr_smem_size dynamic_smem_size"
)

SPECIAL: Mapping[str, str] = {
    **{f"%{name}.{axis}": "u32" for name in _VECTORS for axis in "xyzw"},
    **{f"%{name}": "u32" for name in _WORDS.split()},
    **{f"%{name}": "u64" for name in ("clock64", "globaltimer", "gridid", "current_graph_exec")},
    **{f"%pm{index}": "u32" for index in range(8)},
    **{f"%pm{index}_64": "u64" for index in range(8)},
    **{f"%envreg{index}": "u32" for index in range(32)},
    **{f"%reserved_smem_offset_{index}": "u32" for index in range(2)},
}
"""Special register → its type."""


_SINK = ir.Sink()
_MAX_ELEMENTS = 128
_ENDS = frozenset((",", ";", "}", ")"))


class OperandParser:
    """Reads operands in the scope that is current. `scope` is set by the body parser."""

    __slots__ = ("_cursor", "_functions", "_variables", "scope")

    def __init__(
        self,
        cursor: Cursor,
        scope: PtxScope,
        variables: Mapping[str, ir.PtxVariable],
        functions: Mapping[str, ir.PtxFunction],
    ) -> None:
        self._cursor = cursor
        self._variables = variables
        self._functions = functions
        self.scope = scope

    def parse(self) -> tuple[ir.Operand, Shape]:
        """Read one operand.

        Raises:
            PtxSyntaxError: malformed, or a name that is not declared.
        """
        cursor = self._cursor
        text, index = cursor.text, cursor.index
        token = text[index]
        register = self.scope.registers.get(token)
        first = token[:1]
        if register is None:
            if first == "[":
                return self._address()
            if first == "{":
                return self._vector()
            if first.isdigit():
                number = parse_number(token) if text[index + 1] in _ENDS else None
                if number is not None:
                    cursor.index = index + 1
                    return number, f"#{number.type}"
            elif first.isalpha() or first in "_$%":
                register = self.scope.register(token)
        if register is not None:
            cursor.index = index + 1
            operand, shape = _of_register(register)
            if text[index + 1] == "|":
                return self._pair(operand, shape)
            return operand, shape
        if token == "_":
            cursor.index = index + 1
            return self._pair(_SINK, "_") if cursor.token == "|" else (_SINK, "_")
        if first == "!" and token == "!":
            following = self.scope.register(text[index + 1])
            if isinstance(following, ir.Register):
                if following.type != "pred":
                    raise cursor.error(f"'!' needs a predicate, not a .{following.type} register")
                cursor.index = index + 2
                return ir.Predicate(following, True), "!"
        if first and (first.isalpha() or first in "_$%") and token != "WARP_SZ":
            return self._name()
        value = constant(cursor)
        return value, f"#{value.type}"

    def _pair(self, first: ir.Operand, first_shape: Shape) -> tuple[ir.Operand, Shape]:
        cursor = self._cursor
        cursor.index += 1
        token = cursor.take()
        if token == "_":
            return ir.OperandPair(first, _SINK), ("|", first_shape, "_")
        register = self.scope.register(token)
        if not isinstance(register, ir.Register):
            raise cursor.error(f"undefined register {token!r}", index=cursor.index - 1)
        return ir.OperandPair(first, register), ("|", first_shape, register.type)

    def _name(self) -> tuple[ir.Operand, Shape]:
        cursor = self._cursor
        name = cursor.identifier("an operand")
        if name in SPECIAL:
            return ir.Special(name), f"${SPECIAL[name]}"
        symbol = self.symbol(name)
        if symbol is not None:
            return ir.SymbolAddress(symbol[0], self._offset()), "&"
        if name in self._functions:
            return ir.SymbolAddress(name), "&"
        label = self.scope.label(name)
        if label is not None:
            return ir.Label(label), "L"
        raise cursor.error(f"undefined register, variable or label {name!r}", index=cursor.index - 1)

    def symbol(self, name: str) -> tuple[str, ir.Space] | None:
        """Unique name and space of a variable of the function or the module."""
        found = self.scope.variable(name)
        if found is None and name in self._variables:
            return name, self._variables[name].space
        return found

    def _offset(self) -> int:
        cursor = self._cursor
        sign = cursor.text[cursor.index]
        if sign not in ("+", "-"):
            return 0
        if cursor.text[cursor.index + 2 : cursor.index + 3] == ["]"]:  # nearly always one number
            value = parse_integer(cursor.text[cursor.index + 1])
            if value is not None and value < 1 << 63:
                cursor.index += 2
                return value if sign == "+" else -value
        return _wrapped(constant_integer(cursor))

    def _address(self) -> tuple[ir.Operand, Shape]:
        cursor = self._cursor
        cursor.index += 1
        token = cursor.token
        register = self.scope.register(token)
        base: ir.Register | str | None = None
        shape = "["
        if isinstance(register, ir.Vector):
            raise cursor.error("a vector register cannot be an address")
        if register is not None:
            cursor.index += 1
            base, shape = register, f"[{register.type}"
            offset = self._offset()
        elif token and (token[0].isalpha() or token[0] in "_$%"):
            name = cursor.identifier("an address")
            symbol = self.symbol(name)
            if symbol is None:
                raise cursor.error(f"undefined register or variable {name!r}", index=cursor.index - 1)
            base, shape = symbol[0], f"[:{symbol[1].value}"
            offset = self._offset()
        else:
            offset = _wrapped(constant_integer(cursor))
        cursor.expect("]")
        return ir.Address(base, offset), shape

    def _vector(self) -> tuple[ir.Operand, Shape]:
        cursor = self._cursor
        start = cursor.index
        cursor.index += 1
        elements: list[ir.Operand] = []
        shapes: list[Shape] = ["{"]
        while True:
            if cursor.token in ("{", "["):
                raise cursor.error("unexpected bracket in a vector")
            operand, shape = self.parse()
            elements.append(operand)
            shapes.append(shape)
            if not cursor.accept(","):
                break
        cursor.expect("}")
        if len(elements) > _MAX_ELEMENTS:
            raise cursor.error(f"a vector of {len(elements)} elements is too long", index=start)
        return ir.Vector(tuple(elements)), tuple(shapes)


def _of_register(register: ir.Register | ir.Vector) -> tuple[ir.Operand, Shape]:
    if isinstance(register, ir.Register):
        return register, register.type
    types = tuple(element.type for element in register.elements if isinstance(element, ir.Register))
    return register, ("{", *types)


def _wrapped(offset: int) -> int:
    """An offset as 64-bit addresses add it: integer constants are 64 bits wide (PTX ISA, "Constants")."""
    return (offset + (1 << 63)) % (1 << 64) - (1 << 63)
