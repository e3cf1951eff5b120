"""Which elements each warp of a launch stores, computed from the source alone: no compilation, no run.

An address, with the loops, conditions and early returns on the way to it, is evaluated for all threads at once. A
change of one of these expressions is forecast by evaluating it in the old one's place. What is not understood (a
function, a variable that is assigned to, a `while`) has no forecast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.edits.model import Change
from wmmadiag.diagnose.source.evaluate import Unknown
from wmmadiag.diagnose.source.model import Number, SourceModel, Span, Token, Variable
from wmmadiag.diagnose.source.thread_values import Lanes, Pointer, moved

Ints: TypeAlias = NDArray[np.int64]

_LANES = 32
_MOST_STEPS = 3_000
"""Turns of loops on the way to one store."""
_MOST_ELEMENTS = 2_000_000
_WORD = re.compile(r"[A-Za-z_]\w*|(?:0[xX][\da-fA-F]+|\d[\d.]*)\w*|<<|<=|>=|==|!=|&&|\|\||->|::|[-+*/%&|^]=|\+\+|--|\S")
_AXES = ("x", "y", "z")
_ASSIGNED = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--"})


@dataclass(frozen=True, slots=True)
class Shape:
    """Blocks and threads of a launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]


@dataclass(frozen=True)
class Stores:
    """What one statement stores: (warp, element) pairs, each once. A warp's number counts through all blocks.

    Attributes:
        base: where the name of the array or pointer is declared.
        line: of the statement.
        atomic: whether it adds.
    """

    base: int
    line: int
    atomic: bool
    warp: Ints
    element: Ints


@dataclass(frozen=True, slots=True)
class _Outline:
    """Of each statement those that stand directly in it, and where names are assigned to."""

    children: Mapping[int, Sequence[int]]
    written: Mapping[str, Sequence[int]]


@lru_cache(maxsize=8)
def _outline(model: SourceModel) -> _Outline:
    children: dict[int, list[int]] = {}
    for index, statement in enumerate(model.statements):
        children.setdefault(statement.parent, []).append(index)
    written: dict[str, list[int]] = {}
    declared = {variable.name_at for variable in model.variables}
    for before, token, following in zip(model.tokens, model.tokens[1:], model.tokens[2:], strict=False):
        changed = before.text in ("++", "--") or following.text in _ASSIGNED
        if token.kind == "id" and changed and token.offset not in declared:
            written.setdefault(token.text, []).append(token.offset)
    return _Outline(children, written)


class Threads:
    """The threads of one launch of one kernel's source.

    Args:
        values: parameters by name.
        item: bytes of an element, by the name of the pointer.
        changes: to the source, inside of expressions.
        tiles_only: fragments are all that is looked at: one thread of each warp does.
        one_block: only the first block is looked at.
    """

    def __init__(
        self, model: SourceModel, shape: Shape, values: Mapping[str, Number], item: Mapping[str, int],
        changes: Sequence[Change] = (), *, tiles_only: bool = False, one_block: bool = False,
    ) -> None:  # fmt: skip
        self._model, self._shape, self._values, self._item = model, shape, values, item
        self._outline = _outline(model)
        self._changes = tuple(changes)
        x, y, z = shape.block
        threads = x * y * z
        grid_x, grid_y, grid_z = shape.grid
        blocks = 1 if one_block else grid_x * grid_y * grid_z
        step = _LANES if tiles_only and threads % _LANES == 0 else 1
        number = np.arange(0, threads * blocks, step, dtype=np.int64)
        thread, block = number % threads, number // threads
        self._builtin: dict[tuple[str, str], Any] = {
            ("threadIdx", "x"): thread % x, ("threadIdx", "y"): thread // x % y, ("threadIdx", "z"): thread // x // y,
            ("blockIdx", "x"): block % grid_x, ("blockIdx", "y"): block // grid_x % grid_y,
            ("blockIdx", "z"): block // grid_x // grid_y,
        }  # fmt: skip
        for axis, threads_along, blocks_along in zip(_AXES, shape.block, shape.grid, strict=True):
            self._builtin["blockDim", axis] = threads_along
            self._builtin["gridDim", axis] = blocks_along
        self._leads = thread % _LANES == 0
        self._warp = block * -(-threads // _LANES) + thread // _LANES
        self._loops: dict[int, Ints] = {}
        self._known: dict[int, Any] = {}
        self._steps = 0
        self._making: set[int] = set()
        self.read: set[tuple[int, int]] = set()
        """Offsets of the expressions that were looked at."""

    def stores(self, statements: Sequence[int]) -> tuple[Stores, ...]:
        """What some statements store, in their order.

        Raises:
            Unknown: one is not understood.
        """
        return tuple(one for index in statements for one in self._of_statement(index))

    # Control flow

    def _of_statement(self, index: int) -> Iterator[Stores]:
        model = self._model
        chain = [*reversed(list(model.enclosing(index))), index]
        parts: list[tuple[Pointer, Ints, Ints]] = []
        self._steps = 0
        self._walk(chain, 0, np.ones(len(self._warp), bool), parts)
        call = self._store_call(index)
        by_base: dict[int, list[tuple[Ints, Ints]]] = {}
        for pointer, warp, element in parts:
            by_base.setdefault(pointer.base, []).append((warp, element))
        for base, pieces in by_base.items():
            warp, element = (np.concatenate([piece[i] for piece in pieces]) for i in (0, 1))
            low = int(element.min()) if element.size else 0
            span = int(element.max()) - low + 1 if element.size else 1
            both = np.unique(warp * span + (element - low))
            atomic = call is not None and call.name == "atomicAdd"
            yield Stores(base, model.statements[index].line, atomic, both // span, both % span + low)

    def _walk(self, chain: Sequence[int], at: int, mask: Any, parts: list[tuple[Pointer, Ints, Ints]]) -> None:
        model, index = self._model, chain[at]
        statement = model.statements[index]
        if at == len(chain) - 1:
            self._emit(index, mask, parts)
            return
        following = chain[at + 1]
        if statement.kind == "block":
            self._walk(chain, at + 1, mask & ~self._left(index, following), parts)
        elif statement.kind == "if" and statement.condition is not None:
            holds = self._truth(statement.condition)
            self._walk(chain, at + 1, mask & (holds if following == statement.body else ~holds), parts)
        elif statement.kind == "for":
            self._turns(chain, at, mask, parts)
        else:
            raise Unknown

    def _left(self, block: int, before: int) -> Any:
        """Which threads have left a block of statements before one of them."""
        gone: Any = np.zeros(len(self._warp), bool)
        for index in self._outline.children.get(block, ()):
            statement = self._model.statements[index]
            if statement.start >= self._model.statements[before].start:
                break
            if self._leaves(index):
                gone = np.ones_like(gone)
            elif statement.kind == "if" and statement.condition is not None and self._leaves(statement.body):
                gone = gone | self._truth(statement.condition)
        return gone

    def _leaves(self, index: int) -> bool:
        """Whether a statement ends with a return or continue."""
        model = self._model
        statement = model.statements[index]
        if statement.kind == "block":
            inner = self._outline.children.get(index, ())
            return bool(inner) and self._leaves(inner[-1])
        return statement.kind == "return" or model.tokens[statement.first].text == "continue"

    def _turns(self, chain: Sequence[int], at: int, mask: Any, parts: list[tuple[Pointer, Ints, Ints]]) -> None:
        model, statement = self._model, self._model.statements[chain[at]]
        loop = [v for v in model.variables if v.kind == "loop" and statement.start <= v.name_at < statement.head_end]
        if len(loop) != 1 or loop[0].initial is None or statement.condition is None or statement.step is None:
            raise Unknown
        variable = loop[0]
        try:
            value = self._whole_array(self._value(loop[0].initial))
            self._loops[variable.name_at] = value
            self._truth(statement.condition)
        except Unknown:  # how often is not known: once, as long as nothing that matters depends on it
            self._loops.pop(variable.name_at, None)
            self._walk(chain, at + 1, mask, parts)
            return
        while True:
            self._loops[variable.name_at] = value
            self._forget(statement.start, statement.end)
            running = mask & self._truth(statement.condition)
            if not running.any():
                break
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise Unknown
            self._walk(chain, at + 1, running, parts)
            self._loops[variable.name_at] = value
            self._forget(statement.start, statement.end)
            after = self._stepped(variable, statement.step, value)
            if (after == value)[running].any():
                raise Unknown
            value = after
        del self._loops[variable.name_at]
        self._forget(statement.start, statement.end)

    def _stepped(self, variable: Variable, step: Span, value: Ints) -> Ints:
        tokens = self._tokens(step)
        words = [token.text for token in tokens]
        if sorted(words) in (["++", variable.name], ["--", variable.name]):
            return value + (1 if "++" in words else -1)
        if len(words) < 3 or words[0] != variable.name or words[1] not in ("+=", "-="):
            raise Unknown
        amount = self._read(tokens[2:])
        return self._whole_array(value + amount if words[1] == "+=" else value - amount)

    def _forget(self, start: int, end: int) -> None:
        for name_at in [one for one in self._known if start <= one < end]:
            del self._known[name_at]

    # Stores

    def _store_call(self, index: int) -> Any:
        statement = self._model.statements[index]
        names = ("store_matrix_sync", "atomicAdd")
        inside = (c for c in self._model.calls if statement.start <= c.start < statement.end and c.name in names)
        return next(inside, None)

    def _emit(self, index: int, mask: Any, parts: list[tuple[Pointer, Ints, Ints]]) -> None:
        call = self._store_call(index)
        if call is not None and call.name == "store_matrix_sync":
            self._emit_tile(call.arguments, mask & self._leads, parts)
            return
        if call is not None:
            pointer = self._pointer(call.arguments[0])
            parts.append((pointer, *self._run(pointer, mask)))
            return
        for one in self._model.assignments:
            if one.statement == index:
                reader = Lanes(self._tokens(one.target), self)
                pointer = reader.place()
                parts.append((pointer, *self._run(pointer, mask)))

    def _emit_tile(self, arguments: Sequence[Span], mask: Any, parts: list[tuple[Pointer, Ints, Ints]]) -> None:
        pointer = self._pointer(arguments[0])
        name = self._model.tokens[arguments[1].first].text
        fragment = self._model.fragment(name, arguments[1].start)
        pitch = self._value(arguments[2])
        if fragment is None or fragment.sizes[0] is None or fragment.sizes[1] is None or isinstance(pitch, Pointer):
            raise Unknown
        rows, columns = fragment.sizes[:2]
        assert rows is not None and columns is not None
        row, column = np.arange(rows)[:, None], np.arange(columns)[None, :]
        turned = len(arguments) > 3 and "col_major" in arguments[3].text
        pitches = self._whole_array(pitch)[mask][:, None, None]
        inside = column * pitches + row if turned else row * pitches + column
        at = self._whole_array(pointer.at)[mask][:, None, None] + inside
        self._bounded(at.size)
        warp = np.broadcast_to(self._warp[mask][:, None, None], at.shape)
        parts.append((pointer, warp.ravel(), at.ravel()))

    def _run(self, pointer: Pointer, mask: Any) -> tuple[Ints, Ints]:
        """Neighbouring elements that one store of each thread writes."""
        count = 1
        if pointer.width:
            item = next((v for n, v in self._item.items() if self._name_at(n) == pointer.base), 0)
            if not item or pointer.width % item:
                raise Unknown
            count = pointer.width // item
        at = self._whole_array(pointer.at)[mask][:, None] + np.arange(count)
        self._bounded(at.size)
        return np.repeat(self._warp[mask], count), at.ravel()

    def _bounded(self, size: int) -> None:
        if size > _MOST_ELEMENTS:
            raise Unknown

    def _name_at(self, name: str) -> int:
        return next((v.name_at for v in self._model.variables if v.name == name), -1)

    # Values

    def _pointer(self, span: Span) -> Pointer:
        value = self._value(span)
        if not isinstance(value, Pointer):
            raise Unknown
        return value

    def _truth(self, span: Span) -> Any:
        value = self._value(span)
        if isinstance(value, Pointer):
            raise Unknown
        return np.broadcast_to(np.asarray(value) != 0, self._warp.shape)

    def _whole_array(self, value: Any) -> Ints:
        if isinstance(value, Pointer):
            raise Unknown
        array: Ints = np.broadcast_to(np.asarray(value, np.int64), self._warp.shape)
        return array

    def _value(self, span: Span) -> Any:
        return self._read(self._tokens(span))

    def _read(self, tokens: Sequence[Token]) -> Any:
        if not tokens or len(tokens) > 200:
            raise Unknown
        reader = Lanes(tokens, self)
        value = reader.ternary(0)
        if reader.at != len(tokens):
            raise Unknown
        return value

    def _tokens(self, span: Span) -> list[Token]:
        """The tokens of a piece of source, changed."""
        self.read.add((span.start, span.end))
        inside = [c for c in self._changes if span.start <= c.start and c.end <= span.end]
        found = list(self._model.tokens[span.first : span.last])
        for change in inside:
            fresh = [Token(change.start, 0, m[0], _kind(m[0])) for m in _WORD.finditer(change.text)]
            before = [t for t in found if t.end <= change.start]
            after = [t for t in found if t.offset >= change.end and t not in before]
            if len(before) + len(after) + sum(change.start <= t.offset < change.end for t in found) != len(found):
                raise Unknown
            found = [*before, *fresh, *after]
        return found

    def named(self, name: str, offset: int) -> Any:
        """What a name is at an offset."""
        model = self._model
        variable = model.variable(name, offset)
        if variable is None:
            value = model.constants.get(name)
            if value is None:
                raise Unknown
            return value
        if variable.name_at in self._loops:
            return self._loops[variable.name_at]
        if variable.name_at not in self._known:
            if variable.name_at in self._making:
                raise Unknown
            self._making.add(variable.name_at)
            self._known[variable.name_at] = self._made(variable)
            self._making.discard(variable.name_at)
        return self._known[variable.name_at]

    def _made(self, variable: Variable) -> Any:
        model = self._model
        if variable.dims:
            sizes = [self._value(dim) for dim in variable.dims]
            if not all(isinstance(size, int) for size in sizes):
                raise Unknown
            return Pointer(variable.name_at, 0, tuple(sizes))
        if variable.kind == "loop":
            raise Unknown
        if variable.kind == "parameter":
            value: Any = Pointer(variable.name_at, 0) if variable.pointer else self._values.get(variable.name)
            if value is None:
                value = model.constants.get(variable.name)
        elif variable.initial is not None:
            try:
                value = self._value(variable.initial)
            except Unknown:
                if not variable.pointer:
                    raise
                value = Pointer(variable.name_at, 0)  # carved out of other memory: an array of its own
        else:
            value = model.constants.get(variable.name)
        if value is None:
            raise Unknown
        return self._assigned(variable, value)

    def _assigned(self, variable: Variable, value: Any) -> Any:
        """The value after what moves it once, for all that comes later: `C += batch * M * N` of a pointer."""
        model = self._model
        for offset in self._outline.written.get(variable.name, ()):
            if not variable.visible[0] <= offset < variable.visible[1]:
                continue
            if model.variable(variable.name, offset) is not variable:
                continue
            one = next((a for a in model.assignments if a.target.start == offset), None)
            if one is None or one.operator.text != "+=" or not self._once(one.statement):
                raise Unknown
            value = moved("+", value, self._value(one.value))
        return value

    def _once(self, index: int) -> bool:
        """Whether a statement stands in the body of the kernel itself."""
        return self._model.statements[index].parent in {function.body for function in self._model.functions}

    def builtin(self, name: str, axis: str) -> Any:
        """`threadIdx.x` and the like."""
        if (name, axis) not in self._builtin:
            raise Unknown
        return self._builtin[name, axis]


def _kind(text: str) -> str:
    return "id" if text[0].isalpha() or text[0] == "_" else "num" if text[0].isdigit() else "punct"
