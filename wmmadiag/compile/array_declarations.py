"""Arrays as a source declares them: `__shared__ half sK[64][72]`, and pointers into one buffer that is carved by hand.

A compiled kernel only knows that `sK` has 9,216 bytes. Extents that depend on template parameters, constants and
macros are evaluated; what cannot be is left out, and what contradicts the compiled size is not believed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wmmadiag.compile.declarations import Declaration, declarations
from wmmadiag.compile.device_expressions import NoValue, Pointer, evaluate
from wmmadiag.compile.directives import structural
from wmmadiag.compile.host_code import split_arguments
from wmmadiag.compile.lexer import Token, closing, directive, tokenize
from wmmadiag.compile.old_context import template_parameters
from wmmadiag.compile.signatures import type_bytes
from wmmadiag.compile.variable_declarations import Variable, declared_in, variables

_ITEM_SIZES = (1, 2, 4, 8, 16)
_FORMULAS_DEEP = 8  # macros and functions in each other's arguments and bodies
_WIDEST_ALIGN = 128  # to which a struct's own alignas may round its size


@dataclass(frozen=True, slots=True)
class Elements:
    """How an array is indexed: bytes of an element, and its declared extents, outermost first (none: one object)."""

    item: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Carved:
    """A pointer into a buffer: `float* sS = (float*)(smem + 9216)`.

    Attributes:
        name: of the pointer.
        offset: bytes from the buffer's start.
        item: bytes of what it points to.
    """

    name: str
    offset: int
    item: int


@dataclass(frozen=True, slots=True)
class Member:
    """An array in a struct that lies in memory: its name, bytes from the start, and how it is indexed."""

    name: str
    offset: int
    elements: Elements


@dataclass(slots=True)
class _Function:
    name: str
    head: tuple[Token, ...]
    variables: dict[str, list[Variable]]
    text: str

    def changed(self, name: str) -> bool:
        """Whether a variable is assigned to after its declaration."""
        word = re.escape(name)
        if re.search(rf"(\+ \+|- -) {word}\b|(?<![\w.>] ) {word} (\+ \+|- -|([-+*/%&|^]|< <|> >) = )", self.text):
            return True
        return len(re.findall(rf"(?<!\.)(?<!->) {word} = (?!= )", self.text)) > 1


@dataclass(slots=True)
class ArraySource:
    """The array declarations of some files.

    Attributes:
        texts: the files.
        macros: name → text, as options define them.
    """

    texts: Sequence[str]
    macros: Mapping[str, str | None] = field(default_factory=dict)
    _functions: dict[str, list[_Function]] = field(default_factory=dict, init=False)
    _globals: dict[str, list[Variable]] = field(default_factory=dict, init=False)
    _defines: dict[str, list[Token]] = field(default_factory=dict, init=False)
    _formulas: dict[str, tuple[list[str], list[Token]]] = field(default_factory=dict, init=False)
    _aliases: dict[str, str] = field(default_factory=dict, init=False)
    _structs: dict[str, tuple[tuple[Token, ...], list[Variable]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for text in self.texts:
            self._read(text)
        for name, value in self.macros.items():
            self._defines[name] = tokenize(value if value is not None else "1")

    def elements(self, name: str, function: str, size: int) -> Elements | None:
        """How an array of `size` bytes that a function declares is indexed; None when the source does not say.

        Args:
            name: of the array.
            function: that declares it, with template arguments ("attn<64>"); "" at namespace scope.
        """
        base, arguments = _split_name(function)
        places = self._functions.get(base, []) if base else []
        for place in places:
            for variable in place.variables.get(name, []):
                if "__shared__" in variable.specifiers or "__device__" in variable.specifiers:
                    return self._sized(variable, _Scope(self, place, arguments, {}), size)
        for variable in self._globals.get(name, []):
            return self._sized(variable, _Scope(self, None, (), {}), size)
        return None

    def members(self, name: str, function: str, size: int) -> tuple[Member, ...]:
        """The arrays in a shared struct of `size` bytes; none when the source does not say where they lie.

        Offsets: each member at a multiple of its alignment (Itanium C++ ABI, 2.4).
        """
        base, arguments = _split_name(function)
        for place in self._functions.get(base, []):
            for variable in place.variables.get(name, []):
                if "__shared__" in variable.specifiers and not variable.dims:
                    return _Scope(self, place, arguments, {}).members(variable.type, size)
        return ()

    def carved(self, buffer: str, kernel: str, scalars: Mapping[int, int]) -> tuple[Carved, ...]:
        """Pointers of a kernel into a buffer, by offset; several may be at one offset.

        Args:
            kernel: its name with template arguments.
            scalars: integer arguments of the launch by position.
        """
        base, arguments = _split_name(kernel)
        for function in self._functions.get(base, []):
            if buffer not in function.variables and buffer not in self._globals:
                continue
            scope = _Scope(self, function, arguments, scalars)
            return tuple(sorted(scope.carved(buffer), key=lambda one: one.offset))
        return ()

    def constant(self, tokens: Sequence[Token]) -> int | None:
        """The value of a constant expression at namespace scope, or None."""
        return _Scope(self, None, (), {}).integer(tokens)

    def _read(self, text: str) -> None:
        tokens = tokenize(text)
        for token in tokens:
            if token.kind == "directive":
                what, argument = directive(token)
                match = re.match(r"(\w+)\s+(.+)", argument, re.DOTALL)
                if what == "define" and match is not None:
                    self._defines.setdefault(match[1], tokenize(match[2]))
                formula = re.match(r"(\w+)\(([\w\s,]+)\)\s*(.+)", argument, re.DOTALL) if what == "define" else None
                if formula is not None:
                    names = [name.strip() for name in formula[2].split(",")]
                    self._formulas.setdefault(formula[1], (names, tokenize(formula[3])))
        for one in _flat(declarations(tokens)):
            if one.kind == "function":
                body = structural(one.body)
                found: dict[str, list[Variable]] = {}
                for variable in variables(body):
                    found.setdefault(variable.name, []).append(variable)
                plain = " ".join(token.text for token in body)
                function = _Function(one.name, one.head, found, f" {plain} ")
                self._functions.setdefault(one.name, []).append(function)
                if re.fullmatch(r"\{ return [^;]+ ; \}", plain):
                    names = _parameters(function)
                    self._formulas.setdefault(one.name, (names, _bracketed(body[2:-2], names)))
            elif one.kind == "variable":
                end = next((i for i, token in enumerate(tokens) if token.start >= one.end), len(tokens))
                start = next((i for i, token in enumerate(tokens) if token.start >= one.start), end)
                for variable in declared_in(structural(tokens[start:end])[:-1]):
                    self._globals.setdefault(variable.name, []).append(variable)
            elif one.kind == "class" and one.body and one.name and "union" not in one.words():
                self._structs[one.name] = (one.head, list(variables(structural(one.body[1:-1]))))
            elif one.kind == "alias":
                words = [token.text for token in one.head]
                if words[0] == "using" and "=" in words:
                    self._aliases[words[1]] = " ".join(words[words.index("=") + 1 :])
                elif words[0] == "typedef":
                    self._aliases[words[-1]] = " ".join(words[1:-1])

    def _sized(self, variable: Variable, scope: _Scope, size: int) -> Elements | None:
        item = scope.type_bytes(variable.type)
        extents = [scope.integer(dim) for dim in variable.dims]
        known = math.prod(extent for extent in extents if extent is not None)
        missing = extents.count(None)
        if item is None and missing == 0 and known > 0 and size % known == 0 and size // known in _ITEM_SIZES:
            item = size // known
        if item is None or known <= 0:
            return None
        if missing == 1 and size % (known * item) == 0:
            extents[extents.index(None)] = size // (known * item)
            missing = 0
        if missing == 0 and math.prod(extent or 0 for extent in extents) * item == size:
            return Elements(item, tuple(extent or 0 for extent in extents))
        return Elements(item, (size // item,)) if size % item == 0 and variable.dims else None


@dataclass(slots=True)
class _Scope:
    """What names mean inside one instantiation of a function."""

    source: ArraySource
    function: _Function | None
    arguments: Sequence[str]
    scalars: Mapping[int, int]
    _asked: list[str] = field(default_factory=list)

    def type_bytes(self, text: str) -> int | None:
        """Bytes of a type; template parameters and aliases are followed."""
        for _ in range(8):
            size = type_bytes(text)
            if size is not None:
                return size
            after = self._template().get(text) or self.source._aliases.get(text)
            if after is None and text in self.source._defines:
                after = " ".join(token.text for token in self.source._defines[text])
            if after is None:
                return None
            text = after
        return None

    def integer(self, tokens: Sequence[Token]) -> int | None:
        """The value of a constant expression, or None."""
        try:
            value = self.evaluated(tokens)
        except NoValue:
            return None
        return value if isinstance(value, int) else None

    def evaluated(self, tokens: Sequence[Token]) -> int | Pointer:
        """The value of an expression in which macros with arguments, and functions of one `return`, are expanded.

        Raises:
            NoValue: it has none that the source alone tells.
        """
        return evaluate(self._expanded(tokens, _FORMULAS_DEEP), self.name, self.type_bytes)

    def _expanded(self, tokens: Sequence[Token], depth: int) -> list[Token]:
        made: list[Token] = []
        index = 0
        while index < len(tokens):
            token = tokens[index]
            formula = self.source._formulas.get(token.text) if token.kind == "id" else None
            end = closing(tokens, index + 1) if index + 1 < len(tokens) and tokens[index + 1].text == "(" else 0
            if formula is None or not 0 < end < len(tokens):
                made.append(token)
                index += 1
                continue
            names, body = formula
            arguments = split_arguments(tokens[index + 2 : end])
            if depth == 0 or len(arguments) != len(names):
                raise NoValue
            given = dict(zip(names, arguments, strict=True))
            put = [piece for one in body for piece in given.get(one.text, (one,))]
            made += self._expanded(put, depth - 1)
            index = end + 1
        return made

    def members(self, type_: str, size: int) -> tuple[Member, ...]:
        """The arrays of a struct type that takes `size` bytes, with its own template arguments; () if not known."""
        base, arguments = _split_name(self._template().get(type_) or self.source._aliases.get(type_) or type_)
        if base not in self.source._structs:
            return ()
        head, declared = self.source._structs[base]
        scope = _Scope(self.source, _Function(base, head, {one.name: [one] for one in declared}, ""), arguments, {})
        found: list[Member] = []
        end, widest = 0, 1
        for variable in declared:
            if variable.specifiers & {"static", "constexpr"}:
                continue
            item = scope.type_bytes(variable.type)
            extents = [scope.integer(dim) for dim in variable.dims]
            align = scope.integer(variable.align) if variable.align else item
            if item is None or align is None or variable.pointer or None in extents:
                return ()
            align = max(align, item if item in _ITEM_SIZES else 1)
            offset = -(-end // align) * align
            shape = tuple(extent or 0 for extent in extents)
            found.append(Member(variable.name, offset, Elements(item, shape)))
            end, widest = offset + item * math.prod(shape), max(widest, align)
        return tuple(found) if found and end <= size < end + max(widest, _WIDEST_ALIGN) else ()

    def carved(self, buffer: str) -> Iterator[Carved]:
        assert self.function is not None
        for name, declared in self.function.variables.items():
            if name == buffer or not any(one.pointer or one.type == "auto" for one in declared):
                continue
            try:
                value = self.name(name)
            except NoValue:
                continue
            if isinstance(value, Pointer) and value.base == buffer and value.size and value.offset >= 0:
                yield Carved(name, value.offset, value.size)

    def name(self, name: str) -> int | Pointer:
        """The value of a name. Raises NoValue."""
        if name in self._asked or len(self._asked) > 30:
            raise NoValue
        self._asked.append(name)
        try:
            return self._value(name)
        finally:
            self._asked.pop()

    def _value(self, name: str) -> int | Pointer:
        if name in ("true", "false"):
            return int(name == "true")
        function = self.function
        if function is not None and name in function.variables:
            declared = function.variables[name]
            if len(declared) > 1 or function.changed(name):
                raise NoValue
            return self._initial(declared[0])
        template = self._template()
        if name in template:
            return self.evaluated(tokenize(template[name]))
        if function is not None and name in (parameters := _parameters(function)):
            position = parameters.index(name)
            if position not in self.scalars or function.changed(name):
                raise NoValue
            return self.scalars[position]
        if len(self.source._globals.get(name, ())) == 1:
            return self._initial(self.source._globals[name][0])
        if name in self.source._defines:
            return self.evaluated(self.source._defines[name])
        raise NoValue

    def _initial(self, variable: Variable) -> int | Pointer:
        if variable.dims:
            size = self.type_bytes(variable.type)
            if len(variable.dims) > 1:
                raise NoValue
            return Pointer(variable.name, 0, size or 0)
        if not variable.initial:
            raise NoValue
        value = self.evaluated(variable.initial)
        if isinstance(value, Pointer) and not variable.pointer and variable.type != "auto":
            raise NoValue
        return value

    def _template(self) -> Mapping[str, str]:
        if self.function is None:
            return {}
        return dict(zip(template_parameters(self.function.head), self.arguments, strict=False))


def _bracketed(body: Sequence[Token], names: Sequence[str]) -> list[Token]:
    """A returned expression as a macro that means the same: it and its parameters in brackets."""
    words = ["(", *(f"({one.text})" if one.text in names else one.text for one in body), ")"]
    return tokenize(" ".join(words))


def _parameters(function: _Function) -> list[str]:
    """Names of a function's parameters by position."""
    head = function.head
    start = next((i + 1 for i in range(len(head) - 1) if head[i].text == function.name and head[i + 1].text == "("), -1)
    if start < 0:
        return []
    names = []
    for group in split_arguments(head[start + 1 : closing(head, start)]):
        before = [token for token in group if token.kind == "id"]
        names.append(before[-1].text if before else "")
    return names


def _flat(found: Iterable[Declaration]) -> Iterator[Declaration]:
    for one in found:
        yield one
        yield from _flat(one.members)


def _split_name(name: str) -> tuple[str, tuple[str, ...]]:
    """Identifier and template arguments of "ns::attn<64, __half>"."""
    open_ = name.find("<")
    if open_ < 0 or not name.endswith(">"):
        return name.rpartition("::")[2], ()
    parts = split_arguments(tokenize(name[open_ + 1 : -1]))
    texts = (re.sub(r" ?(::) ?", r"\1", " ".join(token.text for token in part)) for part in parts)
    return name[:open_].rpartition("::")[2], tuple(texts)
