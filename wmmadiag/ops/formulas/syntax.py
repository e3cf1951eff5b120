"""A formula's text as a tree.

The notation is that of comments: indices in brackets, parentheses or behind an underscore, `sum_k`, `sum over k of`,
products by `*`, `@`, a dot, or by writing them side by side, `^T` and `.T`, norms `|x|` and inner products `<x, y>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from wmmadiag.errors import did_you_mean
from wmmadiag.ops.formulas.tokens import FormulaToken, normalised, tokens_of
from wmmadiag.ops.formulas.tree import (
    Applied,
    Equation,
    Expr,
    FormulaError,
    Indexed,
    Infix,
    Inner,
    Literal,
    Negated,
    Norm,
    Power,
    Summed,
    Turned,
    Word,
    names_of,
    summed_in,
)
from wmmadiag.ops.formulas.words import CASTS, FUNCTIONS, OVER, STOP

_T = TypeVar("_T")


def parsed(text: str, is_tensor: Callable[[str], bool]) -> Equation:
    """One statement, all of a text.

    Raises:
        FormulaError: it is none.
    """
    parser = _Parser(normalised(text), is_tensor)
    statement = parser.statement()
    if (rest := parser.rest.strip()) and (name := parser.called()):
        near = did_you_mean(name, sorted(FUNCTIONS | CASTS), " ").strip()
        raise FormulaError(f"'{name}' is no function of formulas{f': {near}' if near else ''}")
    if rest:
        raise FormulaError(f"'{rest}' is no part of a formula")
    return statement


def parsed_prefix(text: str, is_tensor: Callable[[str], bool]) -> tuple[Equation, str]:
    """The longest statement that a text begins with, and what is left of it.

    Args:
        is_tensor: whether a name is that of a tensor, or of what another statement says.

    Raises:
        FormulaError: it begins with none.
    """
    parser = _Parser(normalised(text), is_tensor)
    return parser.statement(), parser.rest


def parsed_expression(text: str, is_tensor: Callable[[str], bool]) -> tuple[Expr, str]:
    """The longest expression that a text begins with, and what is left of it.

    Raises:
        FormulaError: it begins with none.
    """
    parser = _Parser(normalised(text), is_tensor)
    return parser.sum(), parser.rest


class _Parser:
    def __init__(self, text: str, is_tensor: Callable[[str], bool]) -> None:
        self.text, self.is_tensor = text, is_tensor
        self.tokens = tokens_of(text)
        self.at = 0
        self.closing: list[str] = []  # signs that end what is being read: "|", ">"

    def peek(self, ahead: int = 0) -> FormulaToken:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else FormulaToken("end", "", len(self.text), len(self.text), 9)

    @property
    def rest(self) -> str:
        return self.text[self.peek().start :]

    def called(self) -> str:
        """The name that stands before parentheses, where these come next; else ""."""
        before = self.tokens[self.at - 1] if self.at else self.peek()
        return before.text if self.peek().text == "(" and before.kind == "name" else ""

    def take(self, *texts: str) -> bool:
        if self.peek().kind in ("op", "name") and self.peek().text in texts:
            self.at += 1
            return True
        return False

    def need(self, text: str) -> None:
        if not self.take(text):
            raise FormulaError(f"'{text}' is missing before '{self.rest[:20]}'")

    def statement(self) -> Equation:
        begin = self.peek()
        if begin.kind != "name" or (begin.text in FUNCTIONS | STOP and not self.is_tensor(begin.text)):
            raise FormulaError("no target")
        name, items = self.indexed(target=True)
        power = 1
        if self.peek().text == "^" and self.peek(1).text == "2":
            self.at, power = self.at + 2, 2
        op = self.peek().text
        if not self.take("=", "+=", ":=", "<-"):
            raise FormulaError("no statement")
        value = self.sum()
        at = self.at
        condition = self.condition()
        said = {one.id for one in items or () if isinstance(one, Word)}
        if condition is not None and (not names_of(condition) & said or names_of(condition) & summed_in(value)):
            condition, self.at = None, at
        end = self.tokens[self.at - 1].end
        return Equation(name, items, value, op == "+=", power, condition, self.text[begin.start : end])

    def condition(self) -> Expr | None:
        """`for j <= i`, `where …`, `(i >= j)`."""
        at = self.at
        opened = self.take("(")
        if not opened:
            self.take(",")
        self.take("for", "where", "if", "with", "only")
        try:
            found = self.comparison()
            if isinstance(found, Infix) and found.op in ("<", "<=", ">", ">=", "=="):
                if opened:
                    self.need(")")
                return found
        except FormulaError:
            pass
        self.at = at
        return None

    def comparison(self) -> Expr:
        left = self.sum()
        op = self.peek().text
        if op in ("<", "<=", ">", ">=", "==", "!=") and op not in self.closing:
            self.at += 1
            return Infix(op, left, self.sum())
        return left

    def sum(self) -> Expr:
        found = self.product()
        while self.peek().text in ("+", "-") and self.goes_on():
            op = self.peek().text
            at = self.at
            self.at += 1
            try:
                found = Infix(op, found, self.product())
            except FormulaError:
                self.at = at
                break
        return found

    def goes_on(self) -> bool:
        """Whether a sign belongs to what stands before it: columns of a text are two spaces apart."""
        return self.peek().spaces < 2 or self.peek(1).spaces >= 1

    def product(self) -> Expr:
        found = self.unary()
        while True:
            token, at = self.peek(), self.at
            op = token.text
            if op in ("*", "/", "@", "%") or (
                op == "." and token.spaces >= 1 and self.peek(1).spaces >= 1 and self.peek(1).kind == "name"
            ):
                self.at += 1
            elif (op == "o" and not self.is_tensor("o") and token.spaces == 1) or (
                op in ("x", "X") and not self.is_tensor(op) and token.spaces == 1
            ):
                op = "*"
                self.at += 1
            elif self.side_by_side():
                op = "side"
            else:
                return found
            try:
                found = Infix(op, found, self.unary())
            except FormulaError:
                self.at = at
                return found

    def side_by_side(self) -> bool:
        token, before = self.peek(), self.tokens[self.at - 1]
        if token.spaces > 1:
            return False
        if token.kind == "name":
            whole = token.text[:-1] if token.text.endswith("_") else token.text
            known = self.is_tensor(whole) or token.text in FUNCTIONS or self.subscripted(token.text) is not None
            return (known and token.text not in STOP) or before.kind == "count" or token.text.startswith("sum_")
        if token.text == "(":
            return before.text in (")", "]", "T") or (before.kind in ("count", "number") and token.spaces <= 1)
        if token.text in ("<", "|") and token.text not in self.closing and ">" not in self.closing:
            return before.kind in ("number", "count") or (token.text == "<" and self.is_inner())
        return False

    def is_inner(self) -> bool:
        """Whether `<` opens an inner product: a comma and `>` come behind it."""
        return re.match(r"<[^<>=]*,[^<>=]*>", self.rest) is not None

    def unary(self) -> Expr:
        if self.take("-"):
            return Negated(self.unary())
        if self.take("+"):
            return self.unary()
        over = self.over()
        return over if over is not None else self.postfix()

    def over(self) -> Expr | None:
        """`sum_k …`, `sum_{j <= i} …`, `sum over k of …`, `softmax_j(…)`."""
        token = self.peek()
        kind, _, subscript = token.text.partition("_")
        if token.kind != "name" or kind not in OVER or self.is_tensor(token.text):
            return None
        at = self.at
        labels: list[str] = []
        where: Expr | None = None
        if subscript:
            self.at += 1
            labels = [subscript]
            while self.peek().text == "," and self.peek(1).kind == "name" and self.peek().spaces == 0:
                labels.append(self.peek(1).text)
                self.at += 2
        elif token.text.endswith("_") and self.peek(1).text == "{":
            self.at += 2
            labels, where = self.indices("}")
        elif self.peek(1).text == "over" and kind != "softmax":
            self.at += 2
            labels, where = self.named_indices()
            self.take("of")
        else:
            self.at = at
            return None
        # A sum goes over the product behind it; further sums are parts of that.
        body = self.product() if kind in ("sum", "mean", "avg") else self.unary()
        return Summed(OVER[kind], tuple(dict.fromkeys(labels)), where, body)  # `sum_{k, k <= n}` names k twice

    def indices(self, closing: str) -> tuple[list[str], Expr | None]:
        """Labels up to a closing sign, with a condition among them: `j <= i`."""
        labels: list[str] = []
        where: Expr | None = None
        while not self.take(closing):
            if self.take(","):
                continue
            found = self.comparison()
            name = found.left if isinstance(found, Infix) else found
            if not isinstance(name, Word):
                raise FormulaError("no index")
            labels.append(name.id)
            if isinstance(found, Infix):
                where = found if where is None else Infix("and", where, found)
        return labels, where

    def named_indices(self) -> tuple[list[str], Expr | None]:
        """`k`, `taps (r, s) and filters k`, `time`: those in parentheses, or the names that are no plain words."""
        labels: list[str] = []
        where: Expr | None = None
        while self.peek().kind == "name" or self.peek().text in (",", "(", ")"):
            token = self.peek()
            if token.text == "of":
                break
            if token.text == "(":
                self.at += 1
                inside, where = self.indices(")")
                labels = [*labels, *inside]
            elif (
                token.text == "with"
                or (labels and self.is_tensor(token.text))
                or self.peek(1).text in ("[", "(")
                or self.subscripted(token.text) is not None
            ):
                break
            else:
                if token.text not in (",", ")", "and", "all", "the"):
                    labels.append(token.text)
                self.at += 1
            if token.spaces > 1 and len(labels) > 1:
                break
        single = [one for one in labels if len(one) <= 2]
        labels = single or labels[:1]
        if not labels:
            raise FormulaError("no index")
        return labels, where

    def postfix(self) -> Expr:
        found = self.primary()
        while True:
            if self.peek().text == "^" and self.peek(1).text in ("T", "t") and self.peek(1).spaces == 0:
                self.at += 2
                found = Turned(found)
            elif self.peek().text == "." and self.peek(1).text in ("T", "t", "transpose") and self.peek().spaces == 0:
                self.at += 2
                if self.take("("):
                    while not self.take(")"):
                        self.at += 1
                        if self.peek().kind == "end":
                            raise FormulaError("no end")
                found = Turned(found)
            elif self.peek().text in ("^", "**") and self.peek().spaces <= 1:
                self.at += 1
                found = Power(found, self.primary() if not self.take("-") else Negated(self.primary()))
            else:
                return found

    def primary(self) -> Expr:
        token = self.peek()
        if token.kind in ("number", "count"):
            self.at += 1
            return Literal(float(token.text))
        if self.take("("):
            found = self.within(self.sum)
            self.need(")")
            return found
        if self.take("|"):
            found = self.within(self.sum, *self.closing, "|")
            self.need("|")
            return Norm(found)
        if token.text == "<" and self.is_inner():
            self.at += 1
            left = self.within(self.sum, *self.closing, ">")
            self.need(",")
            right = self.within(self.sum, *self.closing, ">")
            self.need(">")
            return Inner(left, right)
        if token.kind != "name" or (token.text in STOP and len(token.text) > 1 and not self.is_tensor(token.text)):
            raise FormulaError(f"nothing to compute at '{self.rest[:20]}'")
        if token.text in CASTS and self.peek(1).text == "(":
            self.at += 1
            return Applied(token.text, self.arguments())
        if token.text.lower() in FUNCTIONS and self.peek(1).text == "(" and self.peek(1).spaces <= 1:
            self.at += 1
            return Applied(token.text.lower(), self.arguments())
        name, items = self.indexed()
        return Word(name) if items is None else Indexed(name, items)

    def within(self, read: Callable[[], _T], *closing: str) -> _T:
        """What is read where these signs end it."""
        held, self.closing = self.closing, [*closing]
        try:
            return read()
        finally:
            self.closing = held

    def arguments(self) -> tuple[Expr, ...]:
        self.need("(")
        return self.separated(")", self.argument)

    def argument(self) -> Expr:
        if self.peek().kind == "name" and self.peek(1).text == "=":  # a keyword
            self.at += 2
        return self.sum()

    def separated(self, closing: str, read: Callable[[], _T]) -> tuple[_T, ...]:
        """What is read between commas up to a closing sign."""
        return self.within(lambda: tuple(self.up_to(closing, read)))

    def up_to(self, closing: str, read: Callable[[], _T]) -> Iterator[_T]:
        first = True
        while not self.take(closing):
            if not first:
                self.need(",")
            first = False
            yield read()

    def subscripted(self, name: str) -> tuple[str, tuple[Expr, ...]] | None:
        """`x_i`, `q_ij` where x is a tensor and that is none."""
        base, _, index = name.rpartition("_")
        if not base or self.is_tensor(name) or not self.is_tensor(base) or len(index) > 2 or not index.isalpha():
            return None
        return base, tuple(map(Word, index))

    def indexed(self, *, target: bool = False) -> tuple[str, tuple[Expr | None, ...] | None]:
        """A name with its indices."""
        token = self.peek()
        self.at += 1
        name = token.text
        if name.endswith("_") and self.peek().text == "{":
            self.at += 1
            return name[:-1], self.items("}")
        found = self.subscripted(name)
        if found is not None:
            return found
        items: list[Expr | None] = []
        some = False
        while self.peek().spaces == 0 and self.peek().text == "[":
            self.at += 1
            items += self.items("]")
            some = True
        if not some and self.peek().spaces == 0 and self.peek().text == "(" and (target or self.is_tensor(name)):
            self.at += 1
            return name, self.items(")")
        return name, tuple(items) if some else None

    def items(self, closing: str) -> tuple[Expr | None, ...]:
        return self.separated(closing, self.item)

    def item(self) -> Expr | None:
        return None if self.take(":", "...") else self.sum()
