"""From a tree to statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmmadiag.csource.nodes import LOOPS, descendants, field
from wmmadiag.csource.types import UNKNOWN, Type, Types
from wmmadiag.csource.variables import Variable, declared
from wmmadiag.diagnose.operators.model import Body, Statement, StatementKind, Unit
from wmmadiag.diagnose.operators.reading_expressions import ExpressionReader, operator_of

if TYPE_CHECKING:
    from tree_sitter import Node

_CONDITIONAL = frozenset({"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef"})
_JUMPS = frozenset({"break_statement", "continue_statement", "goto_statement"})
_STATEMENTS: dict[str, StatementKind] = {
    "compound_statement": "block", "expression_statement": "expression", "declaration": "declaration",
    "if_statement": "if", "return_statement": "return", "switch_statement": "switch",
    **dict.fromkeys(LOOPS, "loop"), **dict.fromkeys(_JUMPS, "jump"),
}  # fmt: skip


class BodyReader(ExpressionReader):
    """Reads bodies into statements and their expressions."""

    def __init__(self, types: Types, returns: dict[str, Type], shared_names: dict[str, Variable]) -> None:
        super().__init__(types, returns, shared_names)
        self._changed: frozenset[str] = frozenset()

    def body(self, body: Body, node: Node) -> None:
        """Read a function's, macro's or constant's text into `body`."""
        self._changed = _changed(body.unit, node)
        self._parameters_vary = False if body.kernel else None
        parameters = body.function.parameters if body.function is not None else ()
        calls = self.passed.get((body.name, len(parameters)), ())
        for number, one in enumerate(parameters):
            given = {call[number] for call in calls}
            vary = given.pop() if len(given) == 1 else self._parameters_vary
            self.varying[one.declarator.id] = True if one.name in self._changed else vary
        root = self._statement(body, node, None, [], 0, False, ())
        if root is not None:
            root.block.append(root)
            body.root = root
            self._initializers(body, root)
            body.statements = list(root.under())

    def _initializers(self, body: Body, root: Statement) -> None:
        """Read what a constructor gives its members, before its own statements."""
        for listed in body.function.node.named_children if body.function is not None else ():
            if listed.type == "field_initializer_list":
                one = Statement(body.unit, listed, "declaration", root, [], 0, False, (), body)
                root.children.insert(0, one)
                for given in descendants(listed, "argument_list"):
                    if given.parent is not None and given.parent.type == "field_initializer":
                        self.whole(one, given)

    def _statement(
        self,
        body: Body,
        node: Node,
        parent: Statement | None,
        block: list[Statement],
        index: int,
        braced: bool,
        loops: tuple[Statement, ...],
    ) -> Statement | None:
        kind: StatementKind = _STATEMENTS.get(node.type, "other")
        one = Statement(body.unit, node, kind, parent, block, index, braced, loops, body)
        if kind == "block":
            self._block(one, node.named_children, loops)
        elif kind == "expression":
            self.whole(one, next(iter(node.named_children), None))
        elif kind == "declaration" or node.type in ("field_declaration", "alias_declaration", "type_definition"):
            one.kind = "declaration"
            self._declaration(one, node)
        elif node.type == "base_class_clause":
            one.kind = "declaration"
            self._arguments_of(one, node)
        elif node.type == "enumerator":
            one.kind = "declaration"
            self.whole(one, field(node, "value"))
        elif kind == "if":
            known = any(part.type == "constexpr" for part in node.children)
            self._condition(one, field(node, "condition"), known)
            self._child(one, field(node, "consequence"), loops)
            alternative = field(node, "alternative")
            if alternative is not None:
                self._child(one, next(iter(alternative.named_children), None), loops)
        elif kind == "loop":
            self._loop(one, node, loops)
        elif kind == "return":
            self.whole(one, next(iter(node.named_children), None))
        elif kind == "switch":
            self._condition(one, field(node, "condition"))
            held = field(node, "body")
            for case in held.named_children if held is not None else ():
                self._block(one, [part for part in case.named_children if part.type in _STATEMENTS], loops)
        elif node.type in ("preproc_def", "preproc_function_def", "comment", "ERROR"):
            return None
        elif not node.type.endswith(("statement", "definition", "specifier", "declaration")):
            self.whole(one, node)
        return one

    def _block(self, around: Statement, nodes: list[Node], loops: tuple[Statement, ...]) -> None:
        block: list[Statement] = []
        for node in nodes:
            if node.type in _CONDITIONAL:
                self._block(around, [part for part in node.named_children if part.type in _STATEMENTS], loops)
                continue
            one = self._statement(around.function, node, around, block, len(block), True, loops)
            if one is not None:
                block.append(one)
                around.children.append(one)

    def _child(self, around: Statement, node: Node | None, loops: tuple[Statement, ...]) -> None:
        if node is None:
            return
        block: list[Statement] = []
        one = self._statement(around.function, node, around, block, 0, False, loops)
        if one is not None:
            block.append(one)
            around.children.append(one)

    def _loop(self, one: Statement, node: Node, loops: tuple[Statement, ...]) -> None:
        first = field(node, "initializer")
        if node.type == "for_range_loop":
            for variable in declared(one.unit.source, node, "local"):
                one.declares.append(variable)
                self.varying[variable.declarator.id] = True
            ranged = self.whole(one, field(node, "right"))
            for variable in one.declares:
                held = ranged.type.of if ranged is not None and ranged.type.of is not None else UNKNOWN
                self.autos[variable.declarator.id] = held
        elif first is not None and first.type == "declaration":
            self._declaration(one, first, loop=True)
        elif first is not None:
            self.whole(one, first)
        self._condition(one, field(node, "condition"))
        self.whole(one, field(node, "update"))
        self._child(one, field(node, "body"), (*loops, one))

    def _condition(self, one: Statement, node: Node | None, fixed: bool = False) -> None:
        if node is None:
            return
        if node.type == "condition_clause":
            initial, value = field(node, "initializer"), field(node, "value")
            for part in initial.named_children if initial is not None else ():
                if part.type == "declaration":
                    self._declaration(one, part)
            node = value
        one.condition = self.whole(one, node, fixed)

    def _declaration(self, one: Statement, node: Node, loop: bool = False) -> None:
        if node.type in ("alias_declaration", "type_definition"):
            self._arguments_of(one, field(node, "type"))
            return
        kind = field(node, "type")
        self._arguments_of(one, kind)
        for variable in declared(one.unit.source, node, "local"):
            one.declares.append(variable)
            for size in variable.dimensions:
                if size is not None:
                    self.whole(one, size, fixed=True)
            value = self.whole(one, variable.value, fixed="constexpr" in variable.words or one.function.fixed)
            key = variable.declarator.id
            if variable.type.split()[-1:] == ["auto"] and value is not None:
                self.autos[key] = value.type
            self.varying[key] = True if loop or variable.name in self._changed else value.varying if value else True

    def _arguments_of(self, one: Statement, kind: Node | None) -> None:
        """The values among a type's template arguments."""
        for listed in descendants(kind, "template_argument_list") if kind is not None else ():
            for part in listed.named_children:
                if part.type == "type_descriptor":
                    self.needed.add(one.unit.source.text(part))
                elif part.type != "comment":
                    self.whole(one, part, fixed=True)


def returned(body: Body) -> Type:
    """What a function that only the text gives a type returns: the type of its first `return`."""
    for one in body.statements:
        if one.kind == "return" and one.expressions:
            return one.expressions[0].type
    return UNKNOWN


def _changed(unit: Unit, node: Node) -> frozenset[str]:
    """The names that are assigned to, incremented, or have their address taken under a node."""
    found = set()
    for one in descendants(node, "assignment_expression", "update_expression", "pointer_expression"):
        what = field(one, "left") or field(one, "argument")
        if one.type != "pointer_expression" or operator_of(unit, one) == "&":
            found.add(unit.source.text(what) if what is not None else "")
    return frozenset(found)
