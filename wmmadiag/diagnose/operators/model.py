"""What operators work on: the expressions and statements that an entry reaches, typed, each with its role.

They are made by `reading` and hold nodes of the sources' trees; an operator reads them and yields changes of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wmmadiag.csource import precedence
from wmmadiag.csource.declarations import Function
from wmmadiag.csource.scopes import Scopes
from wmmadiag.csource.tree import Source
from wmmadiag.csource.types import UNKNOWN, Type
from wmmadiag.csource.variables import Variable
from wmmadiag.diagnose.changes import TextEdit
from wmmadiag.diagnose.operators.cuda_names import Order

if TYPE_CHECKING:
    from tree_sitter import Node

ExpressionKind = Literal[
    "name", "member", "literal", "unary", "binary", "assignment", "conditional", "call", "cast", "subscript", "list",
    "comma", "lambda", "assembly", "other",
]  # fmt: skip
StatementKind = Literal["block", "expression", "declaration", "if", "loop", "return", "jump", "switch", "other"]


MACRO_TAIL = b";}"
"""What is put behind a macro's text to read it as the body of a function."""
_LINE_END = re.compile(r"(?<!\\)\r?\n")


@dataclass(slots=True, eq=False)
class Unit:
    """A parsed text: a file, or the body of a macro."""

    file: str  # the path of the file it stands in; `base`: what to add to a node's offset to have the file's
    source: Source
    scopes: Scopes
    base: int = 0
    # types of names that no declaration gives: a macro's parameters
    names: Mapping[str, Type] = field(default_factory=dict)
    macro: str = ""  # the name of the macro whose body it is
    anywhere: bool = False  # of a macro: whether it may stand where the compiler must know a value
    used: tuple[Unit, int] | None = None  # of a macro, the unit and the offset where it stands first

    def edit(self, start: int, end: int, text: str) -> TextEdit:
        """The bytes between two offsets of this unit's tree replaced; in a macro, lines go on, and what was put behind
        its text to read it is in no file."""
        if self.macro:
            text = _LINE_END.sub(r" \\\g<0>", text)
            start, end = (min(at, len(self.source.data) - len(MACRO_TAIL)) for at in (start, end))
        return TextEdit(self.file, start + self.base, end + self.base, text)


@dataclass(slots=True, eq=False)
class Expression:
    """An expression with the parentheses around it left out."""

    unit: Unit
    node: Node
    kind: ExpressionKind
    # of an operation, the operator; of a call, the name of what is called, its scope left out; of a cast, the type as
    # written; of a member, its name
    operator: str
    operands: list[Expression]  # in order: of a call the arguments, of a subscript the array and then the indices
    statement: Statement
    # start, end: offsets in the unit's tree; `whole`: with the parentheses around it
    start: int
    end: int
    whole: tuple[int, int]
    type: Type = UNKNOWN
    # whether its value differs between threads, blocks or rounds of a loop; None: not known
    varying: bool | None = None
    fixed: bool = False  # whether the compiler must know its value
    output: bool = False  # whether inline assembly stores into it, in a macro that it is given to as well
    role: str = ""
    parent: Expression | None = None
    number: int = 0
    receiver: Expression | None = None  # of a call of a method, what it is called on
    _text: str | None = None
    _names: frozenset[str] | None = None

    @property
    def text(self) -> str:
        """As written, on one line, without comments."""
        if self._text is None:
            text = self.unit.source.slice(self.start, self.end)
            simple = "\n" not in text and "//" not in text and "/*" not in text and "  " not in text
            self._text = text if simple else " ".join(self.unit.source.code_text(self.start, self.end).split())
        return self._text

    @property
    def names(self) -> frozenset[str]:
        """The names in it, those of what is called and of members left out."""
        if self._names is None:
            own = [self.text] if self.kind == "name" else []
            self._names = frozenset(own).union(*(one.names for one in self.parts()))
        return self._names

    @property
    def atom(self) -> bool:
        """Whether it is a name, a number, or a member of something named."""
        return self.kind in ("name", "literal") or (self.kind == "member" and self.operands[0].atom)

    @property
    def level(self) -> int:
        """How tightly it binds."""
        return _LEVELS.get(self.kind) or precedence.BINARY.get(self.operator, precedence.COMMA)

    @property
    def assigned(self) -> bool:
        """Whether it is what an assignment, an increment, an address or assembly's output is of, or a part of such a
        place."""
        around = self.parent
        if around is None or self.output:
            return self.output
        if around.kind in ("subscript", "member"):
            return self.number == 0 and around.assigned
        return (around.kind == "assignment" and self.number == 0) or (
            around.kind == "unary" and around.operator in ("&", "++", "--")
        )

    @property
    def sets(self) -> str:
        """The variable, or element, that is set to it, as written; "" where none is."""
        if self.parent is None:
            values = self.statement.initial_values()
            return next((variable.name for variable, value in values if value is self), "")
        target = self.parent.operands[0] if self.parent.kind == "assignment" and self.number == 1 else None
        kept = target is not None and target.kind in ("name", "subscript") and self.parent.operator == "="
        return target.text if target is not None and kept else ""

    @property
    def outermost(self) -> Expression:
        """The whole expression that it is a part of."""
        return self if self.parent is None else self.parent.outermost

    def base(self, *kinds: ExpressionKind) -> Expression:
        """What it is an element or member of, through all that are of some kinds."""
        return self.operands[0].base(*kinds) if self.kind in kinds else self

    def under(self) -> Iterator[Expression]:
        """Itself and all its parts, in the order of the text."""
        yield self
        for one in self.parts():
            yield from one.under()

    def parts(self) -> list[Expression]:
        """Its operands, with what a method is called on."""
        return self.operands if self.receiver is None else [self.receiver, *self.operands]

    def needs(self, operator: str = "") -> int:
        """How tightly something in its place must bind; `operator`: the outermost one of that."""
        around = self.parent
        if around is None:
            return precedence.ASSIGNMENT
        if around.kind == "binary":
            return precedence.operand(around.operator, right=self.number == 1, of=operator)
        if around.kind in ("unary", "cast"):
            # A cast in the form of a call has its own parentheses.
            closed = around.kind == "cast" and around.end > self.whole[1]
            return precedence.ASSIGNMENT if closed else precedence.UNARY
        if (around.kind in ("subscript", "member") and self.number == 0) or around.receiver is self:
            return precedence.POSTFIX
        if around.kind == "conditional":
            return precedence.CONDITIONAL + 1 if self.number == 0 else precedence.ASSIGNMENT
        return precedence.ASSIGNMENT


_LEVELS = {
    "name": precedence.PRIMARY, "literal": precedence.PRIMARY, "member": precedence.POSTFIX,
    "call": precedence.POSTFIX, "subscript": precedence.POSTFIX, "unary": precedence.UNARY, "cast": precedence.UNARY,
    "conditional": precedence.CONDITIONAL, "assignment": precedence.ASSIGNMENT, "list": precedence.PRIMARY,
    "lambda": precedence.PRIMARY, "comma": precedence.COMMA,
}  # fmt: skip


@dataclass(slots=True, eq=False)
class Statement:
    """A statement."""

    unit: Unit
    node: Node
    kind: StatementKind
    parent: Statement | None
    # the statements it stands among, `index` its number there; alone where it has no braces around it
    block: list[Statement]
    index: int
    braced: bool  # whether statements may be put before and after it
    loops: tuple[Statement, ...]  # the loops around it, the innermost last
    function: Body
    # of a block, loop or branch, the statements in it: of an `if` what follows it and its `else`
    children: list[Statement] = field(default_factory=list)
    # the whole expressions in it, those of its children left out
    expressions: list[Expression] = field(default_factory=list)
    declares: list[Variable] = field(default_factory=list)  # the variables that it declares
    condition: Expression | None = None
    role: str = ""
    order: Order | None = None  # what it does to the order of accesses, where that is all that it does
    _text: str | None = None

    @property
    def start(self) -> int:
        """Offset of its first byte in the unit's tree."""
        return self.node.start_byte

    @property
    def end(self) -> int:
        """Offset after its last byte in the unit's tree."""
        return self.node.end_byte

    @property
    def text(self) -> str:
        """As written, on one line, without comments."""
        if self._text is None:
            self._text = self.unit.source.words(self.node)
        return self._text

    @property
    def source(self) -> str:
        """As written, comments and line ends included."""
        return self.unit.source.slice(self.start, self.end)

    @property
    def fixed(self) -> bool:
        """Whether the compiler must know, or may have to know, what it does."""
        return self.unit.anywhere or self.function.fixed

    @property
    def expression(self) -> Expression | None:
        """What it computes where it is one expression and nothing else, the first of a macro's."""
        return self.expressions[0] if self.kind == "expression" and self.expressions else None

    def under(self) -> Iterator[Statement]:
        """Itself and all statements in it, in the order of the text."""
        yield self
        for one in self.children:
            yield from one.under()

    def initial_values(self) -> Iterator[tuple[Variable, Expression]]:
        """The variables that a declaration gives a value to, each with it."""
        for value in self.expressions if self.kind == "declaration" else ():
            for one in self.declares:
                if one.value is not None and one.value.start_byte == value.whole[0]:
                    yield one, value

    def own_parts(self) -> Iterator[Expression]:
        """The expressions in it and all their parts, those of its children left out."""
        return (part for whole in self.expressions for part in whole.under())

    def whole_expressions(self) -> Iterator[Expression]:
        """The whole expressions in it and in the statements in it."""
        for one in self.under():
            yield from one.expressions

    def all_parts(self) -> Iterator[Expression]:
        """The expressions in it and in the statements in it, and all their parts."""
        return (part for whole in self.whole_expressions() for part in whole.under())


@dataclass(slots=True, eq=False)
class Body:
    """What is run or read of a function, a macro, or a constant."""

    name: str
    unit: Unit
    function: Function | None  # None for a macro or a constant
    kernel: bool = False  # whether it is the entry
    fixed: bool = False  # whether the compiler must know its value: constants, and functions that give one
    declaration: Node | None = None  # of a constant: one name may have several, in records or their specialisations
    root: Statement | None = None
    statements: list[Statement] = field(default_factory=list)
