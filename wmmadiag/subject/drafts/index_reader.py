"""What the code of a function does with an index: where it compares, steps and divides it, what it is a multiple of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from wmmadiag.csource.nodes import Node, ancestors, arguments, bare, descendants, operands
from wmmadiag.csource.nodes import field as child
from wmmadiag.csource.tree import Source
from wmmadiag.hostcode.program import plain_name
from wmmadiag.hostcode.terms import Number

_COMPARISONS = frozenset({"<", "<=", ">", ">="})


_ONES = ("threadIdx", "blockIdx")


DEEPEST = 12


_INTEGERS = frozenset({"int", "unsigned", "long", "size_t", "int32_t", "uint32_t", "int64_t", "uint64_t", "ptrdiff_t"})


_LOOPS = frozenset({"for_statement", "while_statement", "do_statement"})


@dataclass(slots=True)
class Reader:
    source: Source
    body: Node | None
    constants: Mapping[str, Number]
    assigned: dict[str, list[Node]] = field(default_factory=dict)
    added: dict[str, list[Node]] = field(default_factory=dict)  # what is added to a number: `i += blockDim.x`
    counted: set[str] = field(default_factory=set)  # what goes on by one
    given: dict[str, list[tuple[Reader, Node]]] = field(default_factory=dict)  # what calls pass for a parameter, where
    multiples: Mapping[str, int] = field(default_factory=dict)  # name of a number that the kernel is handed → a divisor

    def __post_init__(self) -> None:
        for one in self._nodes("init_declarator", "assignment_expression"):
            target = child(one, "declarator") or child(one, "left")
            value = child(one, "value") or child(one, "right")
            if target is not None and value is not None and target.type == "identifier":
                known = self.added if operands(one)[0] in ("+=", "-=") else self.assigned
                known.setdefault(self.source.text(target), []).append(value)
        targets = (child(one, "argument") for one in self._nodes("update_expression"))
        self.counted |= {self.source.text(target) for target in targets if target is not None}

    def _nodes(self, *types: str) -> Iterator[Node]:
        """The nodes of these types in the body."""
        return descendants(self.body, *types) if self.body is not None else iter(())

    def _called(self, call: Node) -> str:
        """The name of what a call calls."""
        called = child(call, "function")
        return plain_name(self.source.words(called)) if called is not None else ""

    def calls(self, name: str) -> Iterator[list[Node]]:
        """The arguments of each call of a function."""
        yield from (arguments(one) for one in self._nodes("call_expression") if self._called(one) == name)

    def sizes(self, name: str, depth: int) -> Iterator[str]:
        """The kernel's own names of a number: of a parameter, what calls pass for it."""
        if name not in self.given:
            yield name
        for caller, passed in self.given.get(name, ()) if depth else ():
            if own := caller._name(passed):
                yield from caller.sizes(own, depth - 1)

    def comparisons(self) -> Iterator[tuple[str, Node]]:
        """(name of a number, what is compared with it), the ends of loops left out: `k < K` of `k < end && k < K` is
        none, as the other one is where the loop ends."""
        for one in self._nodes("binary_expression"):
            sign, left, right = operands(one)
            if sign not in _COMPARISONS or (self._bounds_a_loop(one) and not self._beside(one)) or self._asserted(one):
                continue
            for size, index in ((right, left), (left, right)):
                if bare(index).type != "number_literal":
                    yield from ((name, index) for name in self._bounded_by(size, DEEPEST))

    def _bounded_by(self, node: Node, depth: int) -> set[str]:
        """The sizes that a bound is one of or the least of: `min(K, k0 + 64)`, or what a variable was given."""
        inner = bare(node)
        if name := self._name(inner):
            return {name}
        if depth == 0:
            return set()
        if inner.type == "identifier":
            held = self.assigned.get(self.source.text(inner), [])
        else:
            held = arguments(inner) if inner.type == "call_expression" and self._called(inner) == "min" else []
        return {name for one in held for name in self._bounded_by(one, depth - 1)}

    def steps(self) -> Iterator[tuple[str, int]]:
        """(name of a number, the step) of loops to it and of divisions of it."""
        for one in self._nodes("for_statement", "binary_expression"):
            size, by = self._loop(one) if one.type == "for_statement" else self._division(one)
            name = self._name(size) if size is not None else ""
            step = self.multiple(by, DEEPEST) if name and by is not None else None
            if step is not None and step > 1:
                yield name, step

    def turns(self) -> Iterator[tuple[str, int | None]]:
        """(name of a number, the step) of loops to it, of divisions that round up, and of those that count the whole
        tiles of a loop; None of other divisions, what is no multiple of which the code has no place for."""
        for one in self._nodes("for_statement", "binary_expression"):
            counted = one.type == "for_statement"
            size, by = self._loop(one) if counted else self._division(one)
            sizes: set[str] = set()
            if size is not None:
                sizes = self._bounded_by(size, DEEPEST) if counted else {self._name(size)} - {""}
                counted = counted or (bool(sizes) and self._ends_a_loop(one))
            if not counted and not sizes:
                counted, (up, by) = True, self._division_up(one)
                sizes = {up} - {""}
            step = self.multiple(by, DEEPEST) if sizes and by is not None else None
            if step is None or step > 1:
                yield from ((name, step if counted else None) for name in sizes)

    def _ends_a_loop(self, node: Node) -> bool:
        """Whether a number is where a loop ends and nothing else, itself or by the name that it is given."""
        around = next((one for one in ancestors(node) if one.type != "parenthesized_expression"), None)
        if around is None:
            return False
        if around.type != "init_declarator":
            return around.type == "binary_expression" and self._bounds_a_loop(node)
        declared = child(around, "declarator")
        name = self.source.text(declared) if declared is not None else ""
        read = [one for one in self._nodes("identifier") if self.source.text(one) == name and one != declared]
        # A number of groups is a loop's end, too, and beside that how far one row of scales is from the next.
        return any(map(self._bounds_a_loop, read)) and all(map(self._is_compared, read))

    def _is_compared(self, node: Node) -> bool:
        """Whether an expression is a side of a comparison or a part of one."""
        above = (one for one in ancestors(node) if one.type not in ("parenthesized_expression", "cast_expression"))
        around = next((one for one in above if operands(one)[0] not in ("+", "-")), None)
        return around is not None and operands(around)[0] in _COMPARISONS

    def _division_up(self, node: Node) -> tuple[str, Node | None]:
        """`(size + step - 1) / step`; "" for what is no such division."""
        sign, left, right = operands(node)
        if sign != "/" or self._is_varying(right):
            return "", None
        named = {self.source.text(one) for one in descendants(left, "identifier")}
        own = named - {self.source.text(one) for one in (right, *descendants(right, "identifier"))}
        own = {one for one in own if one not in self.constants and not self._changes(one)}
        return (own.pop(), right) if len(own) == 1 and bare(left).type == "binary_expression" else ("", None)

    def strides(self) -> Iterator[tuple[str, int]]:
        """(name of a number, the step) of loops to it that each thread begins at a place of its own."""
        for one in self._nodes("for_statement"):
            size, begin, by = self._parts(one)
            if by is not None and begin is not None and self._is_varying(begin):
                yield self._name(size) if size is not None else "", self._number(by)

    def _number(self, node: Node) -> int:
        """A product of constants; 0 of anything else."""
        node = bare(node)
        sign, left, right = operands(node)
        if sign and node.type == "binary_expression":
            return self._number(left) * self._number(right) if sign == "*" else 0
        text = self.source.words(node).replace(" ", "")
        known = self.constants.get(text, int(text) if text.isdecimal() else 0)
        return int(known) if known == int(known) else 0

    def _loop(self, node: Node) -> tuple[Node | None, Node | None]:
        """`for (k = 0; k < size; k += step)`: its bound and its step; none of another loop."""
        bound, begin, by = self._parts(node)
        if begin is None or by is None:
            return None, None
        at, step = self.multiple(begin, DEEPEST), self.multiple(by, DEEPEST)
        if at is None or not step or at % step or self._is_varying(by):
            return None, None
        return bound, by

    def _parts(self, node: Node) -> tuple[Node | None, Node | None, Node | None]:
        """Where a loop that counts ends, where it begins, and its step; none of another loop."""
        first, condition, update = child(node, "initializer"), child(node, "condition"), child(node, "update")
        if first is None or condition is None or update is None or update.type != "assignment_expression":
            return None, None, None
        compares, index, bound = operands(condition)
        sign, _, by = operands(update)
        counter = self.source.words(update).split()[0]
        begins = next(descendants(first, "init_declarator", "assignment_expression"), None)
        begin = (child(begins, "value") or child(begins, "right")) if begins is not None else None
        counts = bool(compares) and sign == "+=" and counter == self.source.text(self._without_added(index))
        return (self._without_added(bound), begin, by) if counts and begin is not None else (None, None, None)

    def _without_added(self, node: Node) -> Node:
        """A side of a condition without the tile that `k + 32 <= K` and `k <= K - 32` ask to be left."""
        sign, left, right = operands(bare(node))
        while sign in ("+", "-") and self.multiple(right, DEEPEST) is not None and not self._is_varying(right):
            node = left
            sign, left, right = operands(bare(node))
        return node

    def _division(self, node: Node) -> tuple[Node | None, Node | None]:
        """`size / step`; none of what is no division."""
        sign, left, right = operands(node)
        plain = sign == "/" and bare(left).type != "binary_expression" and not self._is_varying(right)
        return (left, right) if plain else (None, None)

    def _is_varying(self, node: Node) -> bool:
        """Whether a number depends on the thread or the launch, or on what changes."""
        names = [self.source.text(one) for one in (node, *descendants(node, "identifier")) if one.type == "identifier"]
        built_in = (*_ONES, "blockDim", "gridDim")
        return any(one in built_in or (self._changes(one) and one not in self.constants) for one in names)

    def _changes(self, name: str) -> bool:
        return name in self.assigned or name in self.added

    def _name(self, node: Node) -> str:
        inner = bare(node)
        while inner.type == "cast_expression" and (held := child(inner, "value")) is not None:
            inner = bare(held)
        if inner.type == "identifier" and not self._changes(self.source.text(inner)):
            return self.source.text(inner)
        if inner.type == "field_expression" and (held := child(inner, "field")) is not None:
            whole = child(inner, "argument")
            built_in = whole is not None and self.source.text(whole) in (*_ONES, "blockDim", "gridDim")
            return "" if built_in else self.source.text(held)
        return ""

    def divided(self) -> Iterator[str]:
        """Numbers of which the code asks whether they are multiples of something."""
        for one in self._nodes("binary_expression"):
            sign, left, _ = operands(one)
            if sign == "%":
                name = self._name(left)
                tested = one.parent is not None and one.parent.type in (
                    "binary_expression", "condition_clause", "parenthesized_expression", "unary_expression"
                )  # fmt: skip
                if name and tested:
                    yield name

    def _bounds_a_loop(self, node: Node) -> bool:
        inside = node
        for around in ancestors(node):
            if around.type in _LOOPS:
                condition = child(around, "condition")
                return condition is not None and condition.start_byte <= inside.start_byte < condition.end_byte
            if around.type in ("compound_statement", "function_definition"):
                return False
            inside = around
        return False

    def _beside(self, node: Node) -> bool:
        """Whether the same is held to something else beside it, as in `k < end && k < K`."""
        around = next((one for one in ancestors(node) if one.type != "parenthesized_expression"), None)
        if around is None or around.type != "binary_expression" or operands(around)[0] != "&&":
            return False
        sides = [operands(bare(one)) for one in operands(around)[1:]]
        left = [self.source.words(one[1]) for one in sides if one[0] in _COMPARISONS]
        return len(left) == len(sides) and len(set(left)) == 1

    def _asserted(self, node: Node) -> bool:
        for around in ancestors(node):
            if around.type == "call_expression":
                name = self._called(around)
                if name == "assert" or "CHECK" in name.upper():
                    return True
            if around.type == "compound_statement":
                return False
        return False

    def multiple(self, node: Node, depth: int) -> int | None:
        """What a number is a multiple of, for whatever thread and turn of a loop; None where that is not known."""
        node = bare(node)
        if depth == 0:
            return None
        if node.type == "number_literal":
            text = self.source.text(node).rstrip("uUlL")
            return int(text) if text.isdecimal() else None
        if node.type in ("identifier", "field_expression", "qualified_identifier"):
            return self._of_name(node, depth)
        if node.type == "cast_expression":
            held = child(node, "value")
            return self.multiple(held, depth - 1) if held is not None else None
        if node.type == "binary_expression":
            return self._of_operation(node, depth)
        if node.type == "call_expression":
            held = self._cast(node)
            return self.multiple(held, depth - 1) if held is not None else None
        return None

    def _cast(self, node: Node) -> Node | None:
        """What `int64_t(x)` and `static_cast<int>(x)` make a number of a type of; None for another call."""
        name, held = self._called(node), arguments(node)
        return held[0] if len(held) == 1 and (name == "static_cast" or name in _INTEGERS) else None

    def _of_name(self, node: Node, depth: int) -> int | None:
        text = self.source.words(node)
        if text.partition(".")[0] in _ONES:
            return 1
        if text in self.assigned:
            own = _divisor(self.multiple(value, depth - 1) for value in self.assigned[text])
            if own is None:  # in steps of one it comes to every number, wherever it begins
                return 1 if text in self.counted else None
            if own == 1:  # any number stays one, whatever is added
                return own
            return _divisor([own, *(self.multiple(value, depth - 1) for value in self.added.get(text, ()))])
        if text in self.given:
            return _divisor(caller.multiple(passed, depth - 1) for caller, passed in self.given[text])
        known = self.constants.get(text.replace(" ", ""))
        return int(known) if known is not None and known == int(known) else self.multiples.get(text)

    def _of_operation(self, node: Node, depth: int) -> int | None:
        op, left, right = operands(node)
        if not op:
            return None
        a, b = self.multiple(left, depth - 1), self.multiple(right, depth - 1)
        if op in ("+", "-"):
            return 1 if 1 in (a, b) else _divisor([a, b])  # whatever is added to any number
        if op in ("/", "%", ">>", "&"):  # of a thread's index, any number
            return 1 if a is not None else None
        if op not in ("*", "<<") or a is None or b is None:
            return None
        return a * b if op == "*" else a << min(b, 64)


def _divisor(steps: Iterable[int | None]) -> int | None:
    """What numbers are multiples of that are multiples of these; None where one is not known."""
    every = list(steps)
    return None if None in every else math.gcd(*(one for one in every if one is not None))
