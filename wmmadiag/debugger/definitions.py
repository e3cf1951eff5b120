"""The value of a local variable that is defined once, from its definition: in integers, for each lane of a warp.

Index arithmetic (`const int row = blockIdx.x * 16 + threadIdx.x / 32`) is made of built-in variables, constants, kernel
arguments and other such variables. What a variable holds follows from that even where the compiler kept no register of
it. Types and constants are the compiler's to say. Anything else (memory, calls, loop counters) is not evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compile.ask.answers import Constant, TypeFacts
from wmmadiag.compile.ask.asking import ask
from wmmadiag.compile.ask.questions import AskedSource, Question, TypeOf, ValueOf
from wmmadiag.compile.ask.scope import scope_at
from wmmadiag.csource.nodes import Node, arguments, bare, called, descendants, field
from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import Variable
from wmmadiag.csource.writes import Write
from wmmadiag.debugger import integers
from wmmadiag.debugger.declared import DeclaredLocal
from wmmadiag.errors import CompileError, ConfigurationError

Lanes: TypeAlias = NDArray[np.int64]
Known: TypeAlias = Callable[[str], "Lanes | None"]

LANES = 32
_CASTS = frozenset({"static_cast", "const_cast"})
_LISTS = frozenset({"initializer_list", "argument_list"})


@dataclass(frozen=True, eq=False)
class Definitions:
    """What variables of one function are by their definitions."""

    local: DeclaredLocal  # the one that is asked about; the function and its instance are its own
    asked: AskedSource  # the source, as it was compiled
    outside: Known  # what built-in variables ("threadIdx.x") and arguments of the kernel hold

    @cached_property
    def type(self) -> TypeFacts | None:
        """What the compiler says of the variable's type; None where it cannot."""
        found = self._answers.get(self._type_of(self.local.variable))
        return found if isinstance(found, TypeFacts) else None

    def value(self) -> Lanes | None:
        """What the variable holds in each of the warp's lanes; None where its definition does not tell."""
        try:
            found = self._defined(self.local.variable, ())
        except integers.UnknownValue:
            return None
        kind = np.uint64 if any(value >= 1 << 63 for value in found.values) else np.int64
        return np.asarray(found.values, kind)

    # Questions to the compiler, all at once

    @cached_property
    def _answers(self) -> Mapping[Question, Any]:
        questions = list(dict.fromkeys(self._questions(self.local.variable, set())))
        try:
            return ask(self.asked, questions)
        except (CompileError, ConfigurationError):  # no NVRTC here: registers tell what they tell
            return {}

    def _questions(self, variable: Variable, seen: set[int]) -> Iterator[Question]:
        if variable.declarator.id in seen:
            return
        seen.add(variable.declarator.id)
        yield self._type_of(variable)
        for node in descendants(variable.value, *_ASKED) if variable.value is not None else ():
            other = self._variable(node) if node.type == "identifier" else None
            if other is not None and other.kind == "local":
                yield from self._questions(other, seen)
            elif other is not None and other.kind == "parameter":
                yield self._type_of(other)
            elif node.type == "cast_expression":
                yield self._named_type(field(node, "type"))
            elif node.type == "call_expression":
                yield self._cast_to(node)
            else:
                yield self._constant(node)

    def _type_of(self, variable: Variable) -> TypeOf:
        value = variable.value
        if "auto" in variable.type.split() and value is not None:
            text = self._source.words(value)
            return TypeOf(text, scope_at(self._source, value, text, self._bindings, every=True), expression=True)
        text = variable.type + "*" * variable.pointers
        return TypeOf(text, scope_at(self._source, variable.node, text, self._bindings))

    def _named_type(self, node: Node | None) -> TypeOf:
        assert node is not None
        text = self._source.words(node)
        return TypeOf(text, scope_at(self._source, node, text, self._bindings))

    def _cast_to(self, call: Node) -> TypeOf:
        """The type that a call converts to, if it is a conversion."""
        held = field(call, "function")
        assert held is not None
        template = field(held, "arguments") if called(call) in _CASTS else None
        return self._named_type(template.named_children[0] if template and template.named_children else held)

    def _constant(self, node: Node) -> ValueOf:
        text = self._source.words(node)
        return ValueOf(text, scope_at(self._source, node, text, self._bindings))

    @cached_property
    def _bindings(self) -> Mapping[str, str]:
        """Template parameter → its argument."""
        return self.local.file.bindings(self.local.function.node, self.local.instance)

    # Evaluation

    def _defined(self, variable: Variable, open_ones: Sequence[int]) -> integers.Integers:
        if variable.declarator.id in open_ones or variable.value is None or variable.kind != "local":
            raise integers.UnknownValue
        if variable.dimensions or variable.pointers or variable.reference or not self._set_once(variable):
            raise integers.UnknownValue
        open_ones = (*open_ones, variable.declarator.id)
        return self._evaluated(variable.value, open_ones).converted(self._integer(self._type_of(variable)))

    def _evaluated(self, node: Node, open_ones: Sequence[int]) -> integers.Integers:
        node = bare(node)
        parts = [bare(one) for one in node.named_children if one.type != "comment"]
        if node.type in _LISTS and len(parts) == 1:
            return self._evaluated(parts[0], open_ones)
        if node.type == "number_literal":
            return integers.literal(self._source.text(node), LANES)
        if node.type in ("true", "false"):
            return integers.Integers((int(node.type == "true"),) * LANES, integers.BOOL)
        if node.type in ("identifier", "field_expression", "qualified_identifier", "sizeof_expression"):
            return self._named(node, open_ones)
        if node.type == "cast_expression" and len(parts) == 2:
            return self._evaluated(parts[1], open_ones).converted(self._integer(self._named_type(parts[0])))
        if node.type == "call_expression":
            return self._called(node, open_ones)
        operator = field(node, "operator")
        sign = operator.type if operator is not None else ""
        if node.type == "unary_expression" and parts:
            return integers.unary(sign, self._evaluated(parts[-1], open_ones))
        if node.type == "binary_expression" and len(parts) == 2:
            return integers.binary(sign, *(self._evaluated(one, open_ones) for one in parts))
        if node.type == "conditional_expression" and len(parts) == 3:
            condition, yes, no = (self._evaluated(one, open_ones) for one in parts)
            return _chosen(condition, yes, no)
        raise integers.UnknownValue

    def _called(self, node: Node, open_ones: Sequence[int]) -> integers.Integers:
        given = [self._evaluated(one, open_ones) for one in arguments(node)]
        name = called(node)
        if name in ("min", "max") and len(given) == 2:
            left, right = given
            less = integers.binary("<", left, right) if name == "min" else integers.binary(">", left, right)
            return _chosen(less, left, right)
        if len(given) == 1:
            return given[0].converted(self._integer(self._cast_to(node)))
        raise integers.UnknownValue

    def _named(self, node: Node, open_ones: Sequence[int]) -> integers.Integers:
        text = self._source.words(node)
        variable = self._variable(node) if node.type == "identifier" else None
        if variable is not None and variable.kind == "local" and not variable.constant:
            return self._defined(variable, open_ones)
        if variable is not None and variable.kind == "parameter":
            if not self.local.function.kernel or not self._set_once(variable):
                raise integers.UnknownValue
            return self._given(text, self._integer(self._type_of(variable)))
        constant = self._answers.get(self._constant(node))
        if isinstance(constant, Constant) and constant.kind in ("bool", "int", "uint"):
            return integers.Integers((int(constant.value),) * LANES, _integer_type(constant.kind, constant.size))
        if variable is not None:
            raise integers.UnknownValue
        # What CUDA declares in every kernel: vectors of unsigned, and an int.
        return self._given(text, integers.UNSIGNED if "." in text else integers.INT)

    def _given(self, text: str, kind: integers.IntegerType) -> integers.Integers:
        values = self.outside(text)
        if values is None:
            raise integers.UnknownValue
        return integers.Integers(tuple(map(int, values)), kind)

    def _integer(self, question: Question) -> integers.IntegerType:
        facts = self._answers.get(question)
        if not isinstance(facts, TypeFacts) or facts.kind not in ("bool", "int", "uint"):
            raise integers.UnknownValue
        return _integer_type(facts.kind, facts.size)

    def _set_once(self, variable: Variable) -> bool:
        """Whether nothing but its definition can change it."""
        if "const" in variable.words or variable.constant:
            return True
        written = any(self._variable(one.name) == variable for one in self._writes)
        return not written and not self.local.file.aliased(variable)

    @cached_property
    def _writes(self) -> Sequence[Write]:
        return self.local.file.writes(self.local.function)

    def _variable(self, name: Node) -> Variable | None:
        return self.local.file.variable(name)

    @property
    def _source(self) -> Source:
        return self.local.file.source


_ASKED = (
    "identifier", "qualified_identifier", "sizeof_expression", "cast_expression", "call_expression",
)  # fmt: skip


def _integer_type(kind: str, size: int) -> integers.IntegerType:
    return integers.BOOL if kind == "bool" else integers.IntegerType(size, kind == "int")


def _chosen(condition: integers.Integers, yes: integers.Integers, no: integers.Integers) -> integers.Integers:
    common = integers.common_type(yes.type, no.type)
    pairs = zip(condition.values, yes.converted(common).values, no.converted(common).values, strict=True)
    return integers.Integers(tuple(a if c else b for c, a, b in pairs), common)
