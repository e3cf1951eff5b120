"""The parts of a source model. All offsets are into the source text; all lines are 1-based."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from wmmadiag.diagnose.source.lanes import LaneFunctions

Number: TypeAlias = int | float


@dataclass(frozen=True, slots=True)
class Token:
    """One token: `kind` is "id", "num", "str", "char" or "punct" (operators of two characters are one token)."""

    offset: int
    line: int
    text: str
    kind: str

    @property
    def end(self) -> int:
        """Offset after its last character."""
        return self.offset + len(self.text)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the source: `text` is the source between `start` and `end`; `first`, `last` are token indices.

    `last` is one past the last token. An empty piece has start == end and no tokens.
    """

    start: int
    end: int
    line: int
    text: str
    first: int
    last: int

    def __bool__(self) -> bool:
        return self.end > self.start


VariableKind: TypeAlias = Literal["parameter", "local", "loop", "global"]


@cache
def _element(written: str) -> str:
    words = written.replace("*", " ").replace("&", " ").split()
    return " ".join(w for w in words if w not in ("const", "volatile", "__restrict__", "__restrict", "constexpr"))


@dataclass(frozen=True, slots=True)
class Variable:
    """A named thing that code can use.

    Attributes:
        name, type: the type as written, without the name and without `__shared__` and the like ("const half *").
        kind: where it is declared; "loop" in the head of a `for`.
        pointer: whether it is a pointer; reference: whether it is a reference.
        const: declared const or constexpr (of a pointer: what it points to).
        shared: `__shared__`; external: `extern __shared__`, whose size the launch gives.
        dims: array extents as written; `sizes` their values, None where unknown. Empty for what is no array.
        line, start, end: of the whole declaration statement (or parameter).
        name_at: offset of the name.
        initial: its initialiser, or None.
        visible: offsets between which it can be used.
        specifiers: words such as "__shared__", "__align__", "static".
    """

    name: str
    type: str
    kind: VariableKind
    pointer: bool
    reference: bool
    const: bool
    shared: bool
    external: bool
    dims: tuple[Span, ...]
    sizes: tuple[int | None, ...]
    line: int
    start: int
    end: int
    name_at: int
    initial: Span | None
    visible: tuple[int, int]
    specifiers: tuple[str, ...] = ()

    @property
    def element(self) -> str:
        """The type without const, `*` and `&`: what one element is."""
        return _element(self.type)

    @property
    def pitch(self) -> Span | None:
        """The extent that separates two rows: the last one of an array of two or more dimensions."""
        return self.dims[-1] if len(self.dims) > 1 else None


@dataclass(frozen=True, slots=True)
class Fragment:
    """A declared WMMA fragment (or array of them).

    Attributes:
        name: of the variable.
        use: "matrix_a", "matrix_b" or "accumulator".
        shape: template arguments m, n, k as written; sizes: their values, None where unknown.
        element, layout: as written without the namespace ("half", "row_major"); layout is "" for accumulators.
        layout_at, element_at: where they are written (in the alias, if it is declared through one), or None.
        alias: name of the alias that gives the type, "" if none.
        dims: extents of an array of fragments.
        line, start, end: of the declaration statement.
        visible: offsets between which it can be used.
    """

    name: str
    use: str
    shape: tuple[str, ...]
    sizes: tuple[int | None, ...]
    element: str
    layout: str
    layout_at: Span | None
    element_at: Span | None
    alias: str
    dims: tuple[Span, ...]
    line: int
    start: int
    end: int
    visible: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Call:
    """A call `name<template>(arguments)`: `name` without namespaces; `start` is where its qualified name begins."""

    name: str
    start: int
    end: int
    line: int
    name_at: int
    arguments: tuple[Span, ...]
    template: str
    first: int
    last: int


BarrierKind: TypeAlias = Literal["block", "warp", "commit", "wait"]


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier, or a step of an asynchronous copy.

    Attributes:
        kind: "block" (`__syncthreads`, bar.sync 0), "warp", "commit" or "wait" (of cp.async).
        form: "builtin", "pipeline" (`__pipeline_…`, `cuda::pipeline`) or "asm".
        count: the N of a wait_group as a span, or None (wait_all).
        start, end, line: of the call.
        statement: index of the statement that holds it.
    """

    kind: BarrierKind
    form: str
    count: Span | None
    start: int
    end: int
    line: int
    statement: int


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement.

    Attributes:
        kind: "block", "if", "for", "while", "do", "switch", "return", "declaration", "expression", "empty", "label",
            "jump" (break, continue, goto).
        start, end: offsets; `start` is before a `#pragma` that belongs to it. line, last_line: its first and last.
        head_end: offset after the head of a compound statement (`for (…)`), `end` otherwise.
        first, last: token indices, last exclusive.
        init, condition, step: parts of the head, None where there is none.
        body: index of the statement that it governs, -1; orelse: of the `else` branch, -1.
        parent: index of the statement that it stands in, -1 for a function's body.
        depth: number of enclosing statements.
    """

    kind: str
    start: int
    end: int
    line: int
    last_line: int
    head_end: int
    first: int
    last: int
    init: Span | None
    condition: Span | None
    step: Span | None
    body: int
    orelse: int
    parent: int
    depth: int

    @property
    def loop(self) -> bool:
        """Whether it repeats its body."""
        return self.kind in ("for", "while", "do")

    @property
    def simple(self) -> bool:
        """Whether it governs no other statement."""
        return self.kind in ("return", "declaration", "expression", "empty", "jump")


@dataclass(frozen=True, slots=True)
class Assignment:
    """`target operator value`, operators =, +=, *= and so on; declarations with an initialiser are none."""

    target: Span
    operator: Token
    value: Span
    line: int
    statement: int


@dataclass(frozen=True, slots=True)
class Subscript:
    """`base[i][j]`: `base` as written, `indices` between the brackets, `name` the identifier that base ends with."""

    name: str
    base: Span
    indices: tuple[Span, ...]
    start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class Ternary:
    """`condition ? yes : no`."""

    condition: Span
    yes: Span
    no: Span
    line: int


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel or a function that it can reach.

    Attributes:
        name: unqualified. kernel: whether it is `__global__`.
        start, end: of the definition; body: index of its block statement.
        parameters: in order.
        templates: names of its value template parameters.
        line: of its name.
    """

    name: str
    kernel: bool
    start: int
    end: int
    body: int
    parameters: tuple[Variable, ...]
    templates: tuple[str, ...]
    line: int


@dataclass(frozen=True, eq=False)
class SourceModel:
    """What a source says about the kernels that can be reached from one entry.

    Attributes:
        text: the source; path: "" if it was given as text.
        tokens: of the active preprocessor branches, without comments and directives.
        match: index of the token that closes (or opens) the bracket at an index, -1 for others.
        functions: reachable kernels and device functions, in the order of the source.
        statements: of their bodies, outer ones before inner ones, in the order of the source.
        variables: globals, parameters and locals; arrays are those with dims.
        fragments, calls, barriers, assignments, subscripts, ternaries: in the order of the source.
        constants: name → value, of macros and constants that have one value everywhere.
        aliases: type name → what it stands for.
    """

    text: str
    path: str
    tokens: Sequence[Token]
    match: Sequence[int]
    functions: tuple[Function, ...] = ()
    statements: tuple[Statement, ...] = ()
    variables: tuple[Variable, ...] = ()
    fragments: tuple[Fragment, ...] = ()
    calls: tuple[Call, ...] = ()
    barriers: tuple[Barrier, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    subscripts: tuple[Subscript, ...] = ()
    ternaries: tuple[Ternary, ...] = ()
    constants: Mapping[str, Number] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The text of each line; line n is `lines[n - 1]`."""
        return tuple(self.text.split("\n"))

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset of the start of each line, and of the end."""
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line) + 1)
        return starts

    def line_of(self, offset: int) -> int:
        """The 1-based line of an offset."""
        return max(min(bisect.bisect_right(self.line_starts, offset), len(self.lines)), 1)

    def indent(self, offset: int) -> str:
        """The blanks at the start of the line of an offset."""
        line = self.lines[self.line_of(offset) - 1]
        return line[: len(line) - len(line.lstrip())]

    def span(self, first: int, last: int) -> Span:
        """The piece from token `first` to before token `last`."""
        tokens = self.tokens
        if last <= first or first >= len(tokens):
            at = tokens[first].offset if first < len(tokens) else len(self.text)
            return Span(at, at, self.line_of(at), "", first, first)
        start, end = tokens[first].offset, tokens[last - 1].end
        return Span(start, end, tokens[first].line, self.text[start:end], first, last)

    @cached_property
    def _offsets(self) -> list[int]:
        return [token.offset for token in self.tokens]

    def token_at(self, offset: int) -> int:
        """Index of the first token at or after an offset."""
        return bisect.bisect_left(self._offsets, offset)

    @cached_property
    def arrays(self) -> tuple[Variable, ...]:
        """Variables that are arrays, shared ones first."""
        return tuple(sorted((v for v in self.variables if v.dims or v.external), key=lambda v: not v.shared))

    @cached_property
    def fragment_names(self) -> frozenset[str]:
        """Names of all fragments."""
        return frozenset(fragment.name for fragment in self.fragments)

    @cached_property
    def wmma_calls(self) -> tuple[Call, ...]:
        """Calls of load_matrix_sync, store_matrix_sync, fill_fragment and mma_sync."""
        return tuple(call for call in self.calls if call.name in WMMA_CALLS)

    @cached_property
    def loops(self) -> tuple[int, ...]:
        """Indices of the statements that are loops."""
        return tuple(index for index, statement in enumerate(self.statements) if statement.loop)

    @cached_property
    def _starts(self) -> list[int]:
        return [statement.start for statement in self.statements]

    def statement_at(self, offset: int) -> int:
        """Index of the innermost statement that holds an offset, or -1."""
        index = bisect.bisect_right(self._starts, offset) - 1
        while index >= 0 and self.statements[index].end <= offset:
            index = self.statements[index].parent
        return index

    def enclosing(self, index: int) -> Iterator[int]:
        """Indices of the statements around one, the nearest first."""
        while index >= 0:
            index = self.statements[index].parent
            if index >= 0:
                yield index

    def function_at(self, offset: int) -> Function | None:
        """The function that holds an offset."""
        return next((function for function in self.functions if function.start <= offset < function.end), None)

    def visible(self, offset: int) -> tuple[Variable, ...]:
        """The variables that code at an offset can use, the nearest declaration of each name."""
        # Between two offsets at which a scope begins or ends, the same names are visible.
        region = bisect.bisect_right(self._scope_ends, offset)
        known = self._visible.get(region)
        if known is None:
            found: dict[str, Variable] = {}
            for variable in self.variables:
                if variable.visible[0] <= offset < variable.visible[1]:
                    found[variable.name] = variable
            known = self._visible[region] = tuple(found.values())
        return known

    @cached_property
    def _scope_ends(self) -> list[int]:
        return sorted({end for variable in self.variables for end in variable.visible})

    @cached_property
    def _visible(self) -> dict[int, tuple[Variable, ...]]:
        return {}

    def variable(self, name: str, offset: int) -> Variable | None:
        """What a name means at an offset."""
        found = None
        for variable in self._by_name.get(name, ()):
            if variable.visible[0] <= offset < variable.visible[1]:
                found = variable
        return found

    @cached_property
    def _by_name(self) -> dict[str, list[Variable]]:
        found: dict[str, list[Variable]] = {}
        for variable in self.variables:
            found.setdefault(variable.name, []).append(variable)
        return found

    @cached_property
    def lanes(self) -> LaneFunctions:
        """Its index expressions as functions of the lane."""
        from wmmadiag.diagnose.source.lanes import LaneFunctions

        return LaneFunctions(self)

    def fragment(self, name: str, offset: int) -> Fragment | None:
        """The fragment that a name means at an offset."""
        found = None
        for fragment in self.fragments:
            if fragment.name == name and fragment.visible[0] <= offset < fragment.visible[1]:
                found = fragment
        return found


WMMA_CALLS = frozenset({"load_matrix_sync", "store_matrix_sync", "fill_fragment", "mma_sync", "bmma_sync"})
