"""From a tree to typed expressions."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from wmmadiag.csource.nodes import descendants, field
from wmmadiag.csource.types import BOOL, FLOAT, INTEGER, UNKNOWN, Type, Types
from wmmadiag.csource.variables import Variable
from wmmadiag.diagnose.operators.cuda_names import LIKE_ARGUMENT, NAMES, RESULTS, THREAD_VARIABLES
from wmmadiag.diagnose.operators.model import Expression, ExpressionKind, Statement, Unit

if TYPE_CHECKING:
    from tree_sitter import Node

_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "bit_cast", "__bit_cast"})
_COMPARISONS = frozenset({"<", ">", "<=", ">=", "==", "!=", "&&", "||"})
_FLOAT_LITERAL = re.compile(r"[-+]?(?!0[xX])[\d']*(?:\.|\d[eE]|\d[fF]$)")


class ExpressionReader(ABC):
    """Reads expressions; what a body declares is known to those read after it.

    Attributes:
        returns: types of functions by name.
        autos: types of the variables that only their initial values give one; `varying`: of each variable, whether it
            varies; by the identity of their declarators.
        constants: types of the macros that stand for numbers, and of enumerators that need no scope.
        enumerations: of each that has a name, what its enumerators need before theirs, or nothing, and these.
        needed: names whose values the compiler must know, as read so far.
        passed: of each function, by its number of arguments: whether each one varies, in every call read so far.
    """

    def __init__(self, types: Types, returns: dict[str, Type], shared_names: dict[str, Variable]) -> None:
        self.types = types
        self.returns = returns
        self.constants: dict[str, Type] = {}
        # those that are called, with the constraints by which they give their parameters to inline assembly
        self.macros: Mapping[str, Sequence[str]] = {}
        self.enumerations: list[tuple[str, ...]] = []
        self.shared_names = shared_names
        self.needed: set[str] = set()
        self.autos: dict[int, Type] = {}
        self.varying: dict[int, bool | None] = {}
        self.passed: dict[tuple[str, int], list[tuple[bool | None, ...]]] = {}
        self._parameters_vary: bool | None = None
        self._expressions: dict[str, Callable[[Expression, Node], None]] = {
            "binary_expression": self._binary,
            "assignment_expression": self._assignment,
            "unary_expression": self._unary,
            "pointer_expression": self._unary,
            "update_expression": self._unary,
            "subscript_expression": self._subscript,
            "field_expression": self._member,
            "call_expression": self._call,
            "cast_expression": self._cast,
            "conditional_expression": self._conditional,
            "initializer_list": self._list,
            "compound_literal_expression": self._compound,
            "comma_expression": self._comma,
            "lambda_expression": self._lambda,
            "gnu_asm_expression": self._assembly,
        }

    @abstractmethod
    def _child(self, around: Statement, node: Node | None, loops: tuple[Statement, ...]) -> None:
        """Read a statement that another one holds, such as the body of a lambda."""

    def _named_value(self, one: Statement, argument: Node) -> None:
        """A template argument that the tree takes for a type, where its name is a number's."""
        parts = argument.named_children
        if len(parts) == 1 and parts[0].type in ("type_identifier", "qualified_identifier"):
            made = self._expression(one, parts[0], fixed=True)
            if made.type.kind in ("integer", "enum"):
                one.expressions.append(made)

    def whole(self, one: Statement, node: Node | None, fixed: bool = False) -> Expression | None:
        if node is None or node.type in ("comment", "ERROR"):
            return None
        if node.type in ("argument_list", "parameter_list"):  # an initialiser in parentheses, perhaps of names alone
            values = [part for part in node.named_children if part.type != "comment"]
            values = [field(part, "type") or part for part in values]
            found = [self.whole(one, part, fixed) for part in values]
            return found[0] if len(found) == 1 else None
        made = self._expression(one, node, fixed or one.function.fixed)
        one.expressions.append(made)
        return made

    def _expression(self, one: Statement, node: Node, fixed: bool) -> Expression:
        whole = (node.start_byte, node.end_byte)
        while node.type == "parenthesized_expression":
            inner = next((part for part in node.named_children if part.type != "comment"), None)
            if inner is None:
                break
            node = inner
        kind: ExpressionKind = "other"
        made = Expression(one.unit, node, kind, "", [], one, node.start_byte, node.end_byte, whole, fixed=fixed)
        reader = self._expressions.get(node.type)
        if reader is not None:
            reader(made, node)
        elif node.type in ("identifier", "qualified_identifier", "type_identifier", "true", "false"):
            self._name(made, node)
        elif node.type in ("number_literal", "char_literal"):
            made.kind, made.varying = "literal", False
            made.type = FLOAT if _FLOAT_LITERAL.match(made.text) else INTEGER
        elif node.type == "sizeof_expression":
            made.type, made.varying = INTEGER, False
        return made

    def _operand(self, made: Expression, node: Node | None, fixed: bool = False) -> Expression | None:
        if node is None:
            return None
        one = self._expression(made.statement, node, fixed or made.fixed)
        one.parent, one.number = made, len(made.operands)
        made.operands.append(one)
        return one

    def _name(self, made: Expression, node: Node) -> None:
        made.kind = "name"
        text = made.text
        if made.fixed:
            self.needed.add(text)
        scope, _, plain = text.rpartition("::")
        variable = None if scope else self._variable(made.unit, text, node.start_byte)
        if variable is not None:
            made.type, made.varying = self.type_of(variable), self.varies(variable)
        elif text in made.unit.names:
            made.type = made.unit.names[text]
        elif plain in NAMES:
            made.type, made.varying = NAMES[plain], plain in THREAD_VARIABLES
        elif scope:
            of = self.enumeration(text)
            made.type = Type("enum", of[0]) if of and of[0] else self.types.static_member(scope, plain)
            made.varying = False
        elif text in self.constants:
            made.type, made.varying = self.constants[text], False
        elif text in self.returns:
            made.type = Type("function", text)
        elif text.isupper() and text not in self.macros:
            # A macro that is given where the source is compiled.
            made.type, made.varying = INTEGER, False

    def enumeration(self, text: str) -> tuple[str, ...]:
        """The enumeration that an enumerator is of, as written; of anything else, nothing."""
        scope, _, plain = text.rpartition("::")
        of = scope.rpartition("::")[2]
        return next((one for one in self.enumerations if plain in one[1:] and one[0] in ("", of)), ())

    def _variable(self, unit: Unit, name: str, offset: int) -> Variable | None:
        found = unit.scopes.at(offset).get(name)
        if found is None and unit.used is not None and name not in unit.names:
            around, at = unit.used  # what no macro declares is what it is where that stands
            return self._variable(around, name, at)
        return found or self.shared_names.get(name)

    def type_of(self, variable: Variable) -> Type:
        """The type of a variable that was read."""
        held = self.autos.get(variable.declarator.id)
        return self.types.variable(variable) if held is None else held

    def varies(self, variable: Variable) -> bool | None:
        """Whether a variable that was read differs between threads, blocks or rounds of a loop; None: not known."""
        if variable.kind in ("template", "namespace", "member") or "constexpr" in variable.words:
            return False
        return self.varying.get(variable.declarator.id, None if variable.kind == "parameter" else True)

    def _binary(self, made: Expression, node: Node) -> None:
        made.kind = "binary"
        made.operator = operator_of(made.unit, node)
        left, right = self._operand(made, field(node, "left")), self._operand(made, field(node, "right"))
        if left is None or right is None or not made.operator:
            made.kind = "other"
            return
        made.varying = _together(left.varying, right.varying)
        made.type = BOOL if made.operator in _COMPARISONS else _sum(left.type, right.type)

    def _assignment(self, made: Expression, node: Node) -> None:
        made.kind, made.operator = "assignment", operator_of(made.unit, node)
        left = self._operand(made, field(node, "left"))
        self._operand(made, field(node, "right"))
        made.type = left.type if left is not None else UNKNOWN
        made.varying = True

    def _unary(self, made: Expression, node: Node) -> None:
        made.kind, made.operator = "unary", operator_of(made.unit, node)
        inner = self._operand(made, field(node, "argument"))
        if inner is None:
            return
        made.varying = inner.varying if made.operator not in ("*", "++", "--") else True
        if made.operator == "&":
            made.type = Type("pointer", of=inner.type)
        elif made.operator == "*":
            made.type = inner.type.of or UNKNOWN if inner.type.address else UNKNOWN
        else:
            made.type = BOOL if made.operator == "!" else inner.type

    def _subscript(self, made: Expression, node: Node) -> None:
        made.kind, made.varying = "subscript", True
        held = self._operand(made, field(node, "argument"))
        indices = field(node, "indices")
        for one in indices.named_children if indices is not None else ():
            self._operand(made, one)
        if held is not None and held.type.address and held.type.of is not None:
            made.type = held.type.of

    def _member(self, made: Expression, node: Node) -> None:
        made.kind = "member"
        name = field(node, "field")
        made.operator = made.unit.source.text(name) if name is not None else ""
        held = self._operand(made, field(node, "argument"))
        if held is None:
            return
        of = held.type.of if held.type.kind == "pointer" and held.type.of is not None else held.type
        made.type = self.types.member(of, made.operator)
        made.varying = held.varying
        if made.operator == "num_elements":
            made.varying = False

    def _call(self, made: Expression, node: Node) -> None:
        function = field(node, "function")
        name, template = _called(made.unit, function)
        if made.fixed:
            self.needed.add(name)
        held = field(node, "arguments")
        values = [one for one in (held.named_children if held is not None else ()) if one.type != "comment"]
        made.kind, made.operator = "call", name
        if function is not None and function.type == "field_expression":
            receiver = field(function, "argument")
            if receiver is not None:
                made.receiver = self._expression(made.statement, receiver, made.fixed)
                made.receiver.parent = made
        for one in template.named_children if template is not None else ():
            if one.type == "type_descriptor":
                self.needed.add(made.unit.source.text(one))
        constraints = self.macros.get(name, ())
        for number, one in enumerate(values):
            self._given(made, one, constraints[number] if number < len(constraints) else "")
        spelled = made.unit.source.words(function) if function is not None else ""
        if name in _CASTS and template is not None and values:
            made.kind, made.operator = "cast", made.unit.source.words(template)[1:-1].strip()
            made.type = self.types.read(made.operator)
        elif made.receiver is None and len(values) == 1 and self.types.read(spelled).kind not in ("named", "unknown"):
            made.kind, made.operator, made.type = "cast", spelled, self.types.read(spelled)
        else:
            made.type = self._result(made)
        # Template arguments are values of their own, beside the arguments.
        for one in template.named_children if template is not None and made.kind == "call" else ():
            if one.type == "type_descriptor":
                self._named_value(made.statement, one)
            elif one.type != "comment":
                self.whole(made.statement, one, fixed=True)
        given = tuple(one.varying for one in made.operands)
        if name in self.returns and made.receiver is None:
            self.passed.setdefault((name, len(given)), []).append(given)
        if made.operands:
            made.varying = _together(*given)
        elif made.receiver is None:
            made.varying = None

    def _result(self, made: Expression) -> Type:
        name = made.operator
        if name in LIKE_ARGUMENT and len(made.operands) > LIKE_ARGUMENT[name]:
            found = made.operands[LIKE_ARGUMENT[name]].type
            return _sum(found, made.operands[-1].type) if name in ("max", "min") else found
        if name in RESULTS:
            return RESULTS[name]
        if made.receiver is not None and made.receiver.kind == "name" and not made.operands:
            return INTEGER if name in ("size", "num_threads", "meta_group_rank", "meta_group_size") else UNKNOWN
        found = self.returns.get(name, UNKNOWN)
        if found.kind == "unknown" and name.startswith("make_"):  # CUDA's vector types are made so
            vector = self.types.read(name.removeprefix("make_"))
            return vector if vector.kind == "record" else UNKNOWN
        return found

    def _cast(self, made: Expression, node: Node) -> None:
        kind = field(node, "type")
        made.kind, made.operator = "cast", made.unit.source.words(kind) if kind is not None else ""
        inner = self._operand(made, field(node, "value"))
        made.type = self.types.read(made.operator)
        made.varying = inner.varying if inner is not None else None

    def _conditional(self, made: Expression, node: Node) -> None:
        made.kind = "conditional"
        parts = [self._operand(made, field(node, name)) for name in ("condition", "consequence", "alternative")]
        known = [one for one in parts if one is not None]
        if len(known) == 3:
            made.type = known[1].type if known[1].type.kind != "unknown" else known[2].type
            made.varying = _together(*(one.varying for one in known))

    def _list(self, made: Expression, node: Node) -> None:
        made.kind = "list"
        for one in node.named_children:
            if one.type not in ("comment", "initializer_pair"):
                self._operand(made, one)
        made.varying = _together(*(one.varying for one in made.operands))
        if len(made.operands) == 1:
            made.type = made.operands[0].type

    def _compound(self, made: Expression, node: Node) -> None:
        kind, value = field(node, "type"), field(node, "value")
        made.kind, made.operator = "list", made.unit.source.words(kind) if kind is not None else ""
        for one in value.named_children if value is not None else ():
            if one.type != "comment":
                self._operand(made, one)
        made.type = self.types.read(made.operator)

    def _comma(self, made: Expression, node: Node) -> None:
        made.kind = "comma"
        for name in ("left", "right"):
            self._operand(made, field(node, name))

    def _lambda(self, made: Expression, node: Node) -> None:
        made.kind = "lambda"
        held = field(node, "body")
        around = made.statement
        if held is None:
            return
        before = self._parameters_vary
        self._parameters_vary = None
        self._child(around, held, around.loops)
        self._parameters_vary = before

    def _assembly(self, made: Expression, node: Node) -> None:
        made.kind = "assembly"
        for operand in descendants(node, "gnu_asm_output_operand", "gnu_asm_input_operand"):
            constraint = field(operand, "constraint")
            text = made.unit.source.text(constraint).strip('"') if constraint is not None else ""
            self._given(made, field(operand, "value"), text)

    def _given(self, made: Expression, node: Node | None, constraint: str) -> None:
        """An operand that inline assembly is given with a constraint, "" where it is not."""
        one = self._operand(made, node, fixed=constraint in ("n", "i"))
        if one is not None:
            one.output = constraint.startswith(("=", "+"))


def operator_of(unit: Unit, node: Node) -> str:
    one = field(node, "operator")
    return unit.source.text(one) if one is not None else ""


def _called(unit: Unit, function: Node | None) -> tuple[str, Node | None]:
    """The name of what is called, its scope left out, and its template arguments."""
    template = None
    while function is not None and function.type in (
        "qualified_identifier", "template_function", "field_expression", "template_method", "parenthesized_expression",
    ):  # fmt: skip
        if function.type in ("template_function", "template_method"):
            template = field(function, "arguments")
        if function.type == "parenthesized_expression":
            return "", template
        function = field(function, "field" if function.type == "field_expression" else "name")
    if function is None or function.type not in ("identifier", "field_identifier", "type_identifier", "primitive_type"):
        return "", template
    return unit.source.text(function), template


def _together(*parts: bool | None) -> bool | None:
    return True if True in parts else None if None in parts else False


def _sum(left: Type, right: Type) -> Type:
    """The type of an arithmetic operation's result."""
    if left.address:
        return INTEGER if right.address else Type("pointer", of=left.of)
    if right.address:
        return Type("pointer", of=right.of)
    for kind in ("float", "half", "integer"):
        for one in (left, right):
            if one.kind == kind:
                return one
    if left.kind in ("bool", "byte") and right.kind in ("bool", "byte"):
        return INTEGER
    return left if left.kind == right.kind else UNKNOWN
