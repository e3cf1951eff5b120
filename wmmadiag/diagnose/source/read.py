"""A model of a CUDA source, from which candidate edits are made: `read_source`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from wmmadiag.compile import lexer
from wmmadiag.compile.declarations import Declaration, declarations
from wmmadiag.compile.host_code import split_arguments
from wmmadiag.compile.old_context import template_parameters
from wmmadiag.diagnose.source.barriers import barriers, macro_kinds, wrapper_kinds
from wmmadiag.diagnose.source.evaluate import evaluate
from wmmadiag.diagnose.source.expressions import assignments, calls, subscripts, ternaries
from wmmadiag.diagnose.source.fragments import aliases, fragment_type
from wmmadiag.diagnose.source.model import (
    Assignment,
    Barrier,
    Call,
    Fragment,
    Function,
    Number,
    SourceModel,
    Span,
    Statement,
    Subscript,
    Ternary,
    Token,
    Variable,
    VariableKind,
)
from wmmadiag.diagnose.source.statements import StatementReader
from wmmadiag.diagnose.source.tokens import Read, brackets, join, read_tokens
from wmmadiag.diagnose.source.variables import DeclarationReader, Declarator

__all__ = [
    "Assignment",
    "Barrier",
    "Call",
    "Fragment",
    "Function",
    "SourceModel",
    "Span",
    "Statement",
    "Subscript",
    "Ternary",
    "Token",
    "Variable",
    "read_source",
]


def read_source(
    path_or_text: str | Path, *, entry: str = "", macros: Mapping[str, str | None] | None = None
) -> SourceModel:
    """The model of a source, as far as it can be read; code that is not understood is left out, never an error.

    Args:
        path_or_text: a `Path` is read (undecodable bytes replaced); a string is the text.
        entry: name or name expression of a kernel ("attn<64>"): only it and what it calls are in the model, and its
            template arguments give values. Empty, or not to be found: all kernels and what they call.
        macros: given to the compiler; None as a value means 1. They choose the branches of `#if`.

    Raises:
        OSError: the path cannot be read.
    """
    path = str(path_or_text) if isinstance(path_or_text, Path) else ""
    text = path_or_text.read_bytes().decode("utf-8", "replace") if isinstance(path_or_text, Path) else path_or_text
    return _Assembly(text, path, read_tokens(text, macros or {})).model(entry)


class _Assembly:
    """The steps of `read_source`, each of which uses what the earlier ones found."""

    def __init__(self, text: str, path: str, read: Read) -> None:
        self.read = read
        self.tokens = read.tokens
        self.match = brackets(self.tokens)
        self.base = SourceModel(text, path, self.tokens, self.match)
        self.reader = DeclarationReader(self.tokens, self.match, self.base.span)
        self.constants: dict[str, Number | None] = {}

    def model(self, entry: str) -> SourceModel:
        functions = self._functions(entry)
        statements = StatementReader(self.base.text, self.tokens, self.match, self.read.pragmas)
        self.known = {alias.name: alias for alias in aliases(self.tokens, self.reader)}
        self.variables: list[Variable] = list(self._globals())
        self.fragments: list[Fragment] = []
        for name, value in functions.bound.items():
            self.constants[name] = value
        found = []
        for declaration, brace in functions.reachable:
            body = statements.body(brace)
            parameters = tuple(self._parameters(declaration, brace))
            self.variables += parameters
            self._locals(statements.found, body)
            named = next((t for t in declaration.head if t.text == declaration.name), None)
            found.append(
                Function(
                    declaration.name,
                    "__global__" in declaration.words(),
                    declaration.start,
                    declaration.end,
                    body,
                    parameters,
                    template_parameters(declaration.head),
                    self.base.line_of(named.start if named else declaration.start),
                )
            )
        return self._finish(functions, tuple(found), statements.found)

    def _finish(self, functions: _Functions, found: tuple[Function, ...], statements: list[Statement]) -> SourceModel:
        constants = self._constants()
        sizes = [_sized(v, self._evaluate) for v in self.variables]
        calls_: list[Call] = []
        subscripts_: list[Subscript] = []
        ternaries_: list[Ternary] = []
        names = {v.name_at for v in self.variables}
        for function in found:
            body = statements[function.body]
            calls_ += calls(body.first, body.last, self.tokens, self.reader)
            subscripts_ += (
                s for s in subscripts(body.first, body.last, self.tokens, self.reader) if s.start not in names
            )
            ternaries_ += ternaries(body.first, body.last, self.tokens, self.reader)
        assigned: list[Assignment] = []
        for index, statement in enumerate(statements):
            if statement.kind == "expression":
                assigned += assignments(index, statement, self.tokens, self.reader)
        model = replace(
            self.base,
            functions=found,
            statements=tuple(statements),
            variables=tuple(sizes),
            fragments=tuple(self.fragments),
            calls=tuple(calls_),
            assignments=tuple(assigned),
            subscripts=tuple(subscripts_),
            ternaries=tuple(ternaries_),
            constants=constants,
            aliases={name: self.base.span(a.first, a.last).text for name, a in self.known.items()},
        )
        wrappers = {**macro_kinds(self.base.text), **wrapper_kinds(self.tokens, functions.bodies)}
        return replace(model, barriers=tuple(sorted(barriers(model, wrappers), key=lambda b: b.start)))

    def _functions(self, entry: str) -> _Functions:
        """The functions to model: the entry's kernel, or all, and what they name, transitively."""
        all_functions = [d for d in _flat(declarations(self.read.raw)) if d.kind == "function" and d.body]
        braces = [self.base.token_at(d.body[0].start) for d in all_functions]
        pairs = [
            (d, b) for d, b in zip(all_functions, braces, strict=True) if b < len(self.tokens) and self.match[b] > b
        ]
        base = entry.split("<")[0].split("::")[-1].strip()
        kernels = [d for d, _ in pairs if "__global__" in d.words()]
        roots = [d for d in kernels if d.name == base] or kernels or [d for d, _ in pairs]
        wanted = {id(d) for d in roots}
        by_name: dict[str, list[Declaration]] = {}
        for d, _ in pairs:
            if d not in kernels:
                by_name.setdefault(d.name, []).append(d)
        todo = list(roots)
        while todo:
            words = {token.text for token in todo.pop().body if token.kind == "id"}
            for name in words & by_name.keys():
                for d in by_name.pop(name):
                    wanted.add(id(d))
                    todo.append(d)
        bound: dict[str, Number | None] = {}
        names = {name for d, _ in pairs for name in template_parameters(d.head)}
        for name in names:
            bound[name] = None
        if base and "<" in entry and len(roots) == 1:
            inside = lexer.tokenize(entry[entry.index("<") + 1 :].rsplit(">", 1)[0])
            parts = split_arguments(inside)
            for name, part in zip(template_parameters(roots[0].head), parts, strict=False):
                bound[name] = evaluate(join(part, 0), lambda _: None)
        return _Functions(
            [(d, b) for d, b in pairs if id(d) in wanted],
            {d.name: (b, self.match[b] + 1) for d, b in pairs},
            bound,
        )

    def _parameters(self, declaration: Declaration, brace: int) -> Iterator[Variable]:
        named = [t.start for t in declaration.head if t.text == declaration.name]
        opened = next((i for i in map(self.base.token_at, reversed(named)) if self._is(i + 1, "(")), -1) + 1
        if opened <= 0 or self.match[opened] < 0:
            return
        scope = (self.tokens[brace].offset, self.tokens[self.match[brace]].end)
        for first, last in self.reader.split(opened + 1, self.match[opened]):
            for one in self.reader.read(first, last, parameter=True):
                yield self._variable(one, "parameter", self.base.span(first, last), scope)

    def _is(self, index: int, text: str) -> bool:
        return 0 <= index < len(self.tokens) and self.tokens[index].text == text

    def _globals(self) -> Iterator[Variable]:
        for declaration in _flat(declarations(self.read.raw)):
            if declaration.kind == "variable":
                first = self.base.token_at(declaration.start)
                last = self.base.token_at(declaration.end)
                last -= self._is(last - 1, ";")
                for one in self.reader.read(first, last):
                    yield self._variable(
                        one, "global", self.base.span(first, last), (declaration.start, len(self.base.text))
                    )

    def _locals(self, statements: list[Statement], body: int) -> None:
        for index in range(body, len(statements)):
            statement = statements[index]
            kind: VariableKind
            if statement.kind == "expression":
                first, last, kind = statement.first, statement.last, "local"
                last -= self.tokens[last - 1].text == ";"
                scope_end = self._scope_end(statements, index)
            elif statement.kind == "for" and statement.init is not None:
                first, last, kind, scope_end = statement.init.first, statement.init.last, "loop", statement.end
            else:
                continue
            read = self.reader.read(first, last)
            if kind == "local":
                members = tuple(self.reader.members(first, last))
                self.variables += (self._variable(one, kind, whole, (one.name_at, scope_end)) for one, whole in members)
            if not read:
                continue
            if kind == "local":
                statements[index] = replace(statement, kind="declaration")
            whole = self.base.span(statement.first, statement.last) if kind == "local" else self.base.span(first, last)
            for one in read:
                variable = self._variable(one, kind, whole, (one.name_at, scope_end))
                self.variables.append(variable)
                if kind == "local":
                    self._fragment(one, whole, variable)

    def _scope_end(self, statements: list[Statement], index: int) -> int:
        parent = statements[index].parent
        return statements[parent].end if parent >= 0 else statements[index].end

    def _variable(self, one: Declarator, kind: VariableKind, whole: Span, scope: tuple[int, int]) -> Variable:
        return Variable(
            one.name,
            one.type,
            kind,
            one.pointer,
            one.reference,
            one.const,
            "__shared__" in one.specifiers,
            "__shared__" in one.specifiers and "extern" in one.specifiers,
            one.dims,
            (),
            whole.line,
            whole.start,
            whole.end,
            one.name_at,
            one.initial,
            scope,
            one.specifiers,
        )

    def _fragment(self, one: Declarator, whole: Span, variable: Variable) -> None:
        found = fragment_type(one.type_first, one.type_last, self.tokens, self.reader, self.known)
        if found is None:
            return
        plain = found.layout.text.split("::")[-1].strip() if found.layout else ""
        self.fragments.append(
            Fragment(
                one.name,
                found.use,
                tuple(span.text for span in found.shape),
                tuple(_whole(self._evaluate(span)) for span in found.shape),
                found.element.text.split("::")[-1].strip(),
                plain,
                found.layout,
                found.element,
                found.alias,
                one.dims,
                whole.line,
                whole.start,
                whole.end,
                variable.visible,
            )
        )

    def _evaluate(self, span: Span) -> Number | None:
        return evaluate(self.tokens[span.first : span.last], self._lookup)

    def _lookup(self, name: str) -> Number | None:
        """The value of a macro or constant; names that are being looked up, and ambiguous ones, have none."""
        if name in self.constants:
            return self.constants[name]
        self.constants[name] = None
        if name in self.read.macros:
            self.constants[name] = evaluate(self.read.macros[name], self._lookup)
            return self.constants[name]
        named = [v for v in self.variables if v.name == name]
        if named and all(v.const and not v.pointer and not v.dims and v.initial is not None for v in named):
            values = {self._evaluate(v.initial) for v in named if v.initial is not None}
            if len(values) == 1:
                self.constants[name] = values.pop()
        return self.constants[name]

    def _enumerators(self) -> None:
        """`enum { BM = 128, LD = BM + 8, NEXT }`: each is a constant; one that is declared twice has no value."""
        seen: set[str] = set()
        for index, token in enumerate(self.tokens):
            if token.text != "enum":
                continue
            opened = next((at for at in range(index + 1, len(self.tokens)) if self.tokens[at].text in "{;("), -1)
            if opened < 0 or self.tokens[opened].text != "{" or self.match[opened] < opened:
                continue
            value: Number | None = -1
            for first, last in self.reader.split(opened + 1, self.match[opened]):
                name = self.tokens[first].text
                if last - first > 2 and self.tokens[first + 1].text == "=":
                    value = evaluate(self.tokens[first + 2 : last], self._lookup)
                else:
                    value = value + 1 if value is not None else None
                if first < last and (name in seen or name not in self.constants):
                    self.constants[name] = None if name in seen else value
                    seen.add(name)

    def _constants(self) -> dict[str, Number]:
        self._enumerators()
        for name in self.read.macros:
            self._lookup(name)
        for variable in self.variables:
            if variable.const:
                self._lookup(variable.name)
        return {name: value for name, value in self.constants.items() if value is not None}


@dataclass(frozen=True, slots=True)
class _Functions:
    """Functions with the index of their `{`; token ranges of all bodies by name; template parameters with values."""

    reachable: list[tuple[Declaration, int]]
    bodies: dict[str, tuple[int, int]]
    bound: dict[str, Number | None]


def _flat(found: Iterable[Declaration]) -> Iterator[Declaration]:
    for declaration in found:
        yield declaration
        yield from _flat(declaration.members)


def _whole(value: Number | None) -> int | None:
    return int(value) if value is not None and value == value // 1 else None


def _sized(variable: Variable, value: Callable[[Span], Number | None]) -> Variable:
    if not variable.dims:
        return variable
    return replace(variable, sizes=tuple(_whole(value(span)) for span in variable.dims))
