"""Which statements of a source's comments say what a kernel's arrays hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from wmmadiag.ops.formulas.syntax import parsed
from wmmadiag.ops.formulas.tree import Equation, FormulaError, names_of
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.stated.comments import CommentFormula, Stated
from wmmadiag.subject.drafts.stated.names import array_named, labels_in, renamed, tensors_in

_DEEPEST = 6  # names that are said by others


@dataclass(frozen=True, slots=True)
class Chosen:
    """Statements that say all that a kernel writes.

    Attributes:
        texts, statements: in their order, with the kernel's own names for arrays.
        line: of the last one.
        shapes: what comments say of the arrays' extents, by the parameter's name.
    """

    texts: tuple[str, ...]
    statements: tuple[Equation, ...]
    line: int
    shapes: Mapping[str, tuple[str, ...]]

    def told(self, path: str) -> str:
        """The statements with their place, if they stand in a file: line 0 is none."""
        return "; ".join(self.texts) + (f" ({path}:{self.line})" if self.line else "")


def chosen(found: Stated, arrays: Sequence[DraftParameter]) -> Iterator[Chosen]:
    """The sets of statements that say what every array holds which the kernel may write; the likeliest first.

    Of a kernel that writes one array what is said of another name may be meant of that, too.
    """
    outputs = [one for one in arrays if not one.const]
    ways = []
    for output in outputs:
        named = [one for one in found.formulas if _is_of(one, output, arrays, short=False)]
        begun = [one for one in found.formulas if _is_of(one, output, outputs, short=True)]
        others = [*found.formulas] if len(outputs) == 1 else []
        without = [one for one in others if not one.statement.target]
        every = {id(one): one for one in (*named, *begun, *without, *others)}
        # What statements read is updated by one of them, or else only read.
        updates = [one for one in found.formulas if not every and _reads(one, output, arrays)]
        several: list[CommentFormula | None] = [*every.values(), *updates]
        ways.append(several or [None])
    for taken in product(*ways):
        said = {out.name: one for out, one in zip(outputs, taken, strict=True) if one is not None}
        if said and len({id(one) for one in said.values()}) == len(said):
            made = _Closure(found, arrays).whole(said)
            if made is not None:
                yield made


def _reads(one: CommentFormula, array: DraftParameter, arrays: Sequence[DraftParameter]) -> bool:
    """Whether a statement of a name that no array has reads an array."""
    target = one.statement.target
    if not target or array_named(target, arrays, short=False) is not None:
        return False
    return any(array_named(name, arrays, short=False) is array for name in names_of(one.statement.value))


def _is_of(one: CommentFormula, output: DraftParameter, arrays: Sequence[DraftParameter], *, short: bool) -> bool:
    target = one.statement.target
    return bool(target) and array_named(target, arrays, short=short) is output


@dataclass(slots=True)
class _Closure:
    """Statements with all those whose targets they name."""

    found: Stated
    arrays: Sequence[DraftParameter]
    order: list[tuple[str, CommentFormula]] = field(default_factory=list)  # the output of each, "" for another name
    names: dict[str, str] = field(default_factory=dict)  # as comments have them → the kernel's

    def whole(self, said: Mapping[str, CommentFormula]) -> Chosen | None:
        """The statements, or None where a name of them is nothing that is known, or they leave an input out."""
        if not all(self._visit(role, one) for role, one in said.items()):
            return None
        # An array that is updated is read before.
        self.order.sort(key=lambda pair: bool(pair[0]))
        shapes = self._shapes()
        axes = {dim for name in said for dim in shapes.get(name, ())}
        self.order[:0] = [("", one) for one in self.found.formulas if one.statement.target in axes]
        known = {one.name for one in self.arrays} | {one.statement.target for _, one in self.order}
        texts, statements = [], []
        for role, one in self.order:
            text = self._text(role, one.statement)
            try:
                statements.append(parsed(text, known.__contains__))
            except FormulaError:
                return None
            texts.append(text)
        used = {name for one in statements for name in names_of(one)}
        if any(one.const and one.name not in used for one in self.arrays):
            return None
        return Chosen(tuple(texts), tuple(statements), self.order[-1][1].line, shapes)

    def _visit(self, role: str, one: CommentFormula, depth: int = 0) -> bool:
        if depth > _DEEPEST or any(each is one and (done or not role) for done, each in self.order):
            return depth <= _DEEPEST
        labels, tensors = labels_in(one.statement), tensors_in(one.statement)
        for name in sorted(names_of(one.statement.value) - (labels - tensors)):
            array = array_named(name, self.arrays, short=False)
            if array is None and (earlier := self._said_earlier(name, one)) is not None:
                if not self._visit("", earlier, depth + 1):
                    return False
                continue
            if array is None and name in tensors:
                array = array_named(name, [each for each in self.arrays if each.const], short=True)
                if array is None:
                    return False
            if array is not None:
                self.names.setdefault(name, array.name)
        self.order.append((role, one))
        return True

    def _said_earlier(self, name: str, one: CommentFormula) -> CommentFormula | None:
        return next((each for each in self.found.formulas if each.statement.target == name and each is not one), None)

    def _text(self, role: str, statement: Equation) -> str:
        text = statement.text if statement.target else f"{role} = {statement.text}"
        if role and statement.target:  # with its indices, which may stand behind an underscore
            text = role + text[len(statement.target) :]
        return " ".join(renamed(text, {name: to for name, to in self.names.items() if name != to}).split())

    def _shapes(self) -> dict[str, tuple[str, ...]]:
        shapes: dict[str, tuple[str, ...]] = {}
        for name, dims in self.found.shapes.items():
            array = array_named(name, self.arrays, short=False)
            if array is not None:
                shapes.setdefault(array.name, dims)
        return shapes
