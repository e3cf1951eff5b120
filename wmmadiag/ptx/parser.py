"""A whole PTX module: directives, variables, functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from wmmadiag.compile.names import full_name
from wmmadiag.errors import PtxSyntaxError, UnsupportedError
from wmmadiag.place import Place
from wmmadiag.processes.collection import paused_collection
from wmmadiag.ptx import variables
from wmmadiag.ptx.body import BodyParser
from wmmadiag.ptx.calls import INDIRECT, addressed, callee
from wmmadiag.ptx.cursor import Cursor
from wmmadiag.ptx.debug import DebugInfo, Locations, extract
from wmmadiag.ptx.ir import Module, PtxFunction, PtxParameter, PtxVariable, Register, Space
from wmmadiag.ptx.lexer import check_begins, tokenize, without_comments
from wmmadiag.ptx.scope import PtxScope
from wmmadiag.ptx.verifier import Verifier

_LINKING = frozenset((".extern", ".visible", ".weak", ".common"))
_SPACES = {".global": Space.GLOBAL, ".const": Space.CONST, ".shared": Space.SHARED}
_TARGET = re.compile(r"sm_\d+[af]?$")
_LIMIT_NAMES = (
    "maxntid reqntid minnctapersm maxnctapersm maxnreg noreturn explicitcluster reqnctapercluster "
    "maxclusterrank blocksareclusters abi_preserve abi_preserve_control local_maxnreg"
)
_LIMITS = frozenset(_LIMIT_NAMES.split())
_THREE = frozenset(("maxntid", "reqntid", "reqnctapercluster"))
_NEXT_STEP = "if a compiler wrote this PTX, please report it; else check the inline assembly at that place"
_MAX_PARAMETER_BYTES = 1 << 20


def parse(text: str, *, name: str = "<ptx>", entry: str | tuple[str, ...] = "") -> Module:
    """Parse and verify PTX.

    Instructions that are not emulated are kept with the op "unsupported", so that a kernel which does not reach them
    can run.

    Args:
        text: the PTX.
        name: what to call it in messages, such as its file's path.
        entry: a kernel, or several: only their bodies and those of the functions that they can call are read, all
            where they call through pointers; the others are as if they were declared only. Empty, or none of them in
            this module: all.

    Returns:
        The module; it may be shared with other callers.

    Raises:
        PtxSyntaxError: malformed PTX, with the user's source line where the PTX tells it.
        UnsupportedError: 32-bit addresses.
    """
    return _parse(text, name, (entry,) if isinstance(entry, str) else entry)


def parse_each(text: str, *, name: str, entries: tuple[str, ...]) -> tuple[Module, Mapping[str, PtxSyntaxError]]:
    """The same of some kernels, of which one that cannot be read spoils no other: it is as if it were declared only.

    Returns:
        The module, and why kernels or functions that these call could not be read.

    Raises:
        PtxSyntaxError: what stands outside of kernels and functions is malformed.
        UnsupportedError: 32-bit addresses.
    """
    refused: dict[str, PtxSyntaxError] = {}
    return _read(text, name, entries, refused), refused


@lru_cache(maxsize=4)
def _parse(text: str, name: str, entries: tuple[str, ...]) -> Module:
    return _read(text, name, entries, None)


def _read(text: str, name: str, entries: tuple[str, ...], refused: dict[str, PtxSyntaxError] | None) -> Module:
    text = text.rstrip("\0").removeprefix("\ufeff")
    with paused_collection():
        try:
            check_begins(text, name)
            text, info = extract(without_comments(text, name=name), name)
            return _ModuleParser(Cursor(tokenize(text, name=name), name), info, refused).parse(entries)
        except PtxSyntaxError as error:
            error.hint = error.hint or _NEXT_STEP
            raise


@dataclass(frozen=True, slots=True)
class _Header:
    """Where a function's parts stand: indices of the tokens that begin its results (-1: none), parameters and body."""

    place: Place
    returns: int
    parameters: int
    body: int


class _ModuleParser:
    def __init__(self, cursor: Cursor, info: DebugInfo, refused: dict[str, PtxSyntaxError] | None) -> None:
        self._cursor = cursor
        self._info = info
        self._refused = refused  # functions whose bodies cannot be read, and why; None: the first one ends it
        self._version = (0, 0)
        self._target = ""
        self._functions: dict[str, PtxFunction] = {}
        self._variables: dict[str, PtxVariable] = {}
        self._verifier: Verifier | None = None
        self._headers: dict[str, _Header] = {}
        self._aliases: dict[str, str] = {}

    def parse(self, entries: tuple[str, ...]) -> Module:
        """The module, with the bodies of some kernels and of what they call, or with all of them."""
        try:
            self._outside()
        except PtxSyntaxError:
            self._bodies(list(self._headers))  # a brace too many or too few is told best where it stands
            raise
        wanted = [entry for entry in entries if entry in self._functions]
        self._bodies(wanted or list(self._headers))
        self._pointed_to()
        for alias, name in self._aliases.items():
            self._functions[alias] = replace(self._functions[name], name=alias)
        return Module(self._version, self._target, self._functions, self._variables)

    def _outside(self) -> None:
        """Read all that stands outside of functions' bodies."""
        cursor = self._cursor
        self._preamble()
        while cursor.token:
            cursor.place = None
            directive = cursor.take()
            linking = set()
            while directive in _LINKING:
                linking.add(directive)
                directive = cursor.take()
            if directive in (".func", ".entry"):
                self._function(directive == ".entry")
            elif directive in _SPACES:
                self._variable(_SPACES[directive], extern=".extern" in linking)
            elif directive == ".tex":
                self._variable(Space.GLOBAL, extern=False)
            elif directive == ".pragma":
                cursor.skip_past(";")
            elif directive == ".alias":
                self._alias()
            elif directive == ".version":
                error = cursor.error("a second module begins here", index=cursor.index - 1)
                error.hint = "write each module to a file of its own"
                raise error
            elif directive != ";":
                raise cursor.error(f"unexpected {directive!r} outside of a function", index=cursor.index - 1)

    def _alias(self) -> None:
        """`.alias name, function;`: another name for a function that is defined in this module."""
        cursor = self._cursor
        name = cursor.identifier("a function")
        cursor.expect(",")
        at = cursor.index
        function = cursor.identifier("a function")
        cursor.expect(";")
        if function not in self._functions:
            raise cursor.error(f"undefined function {function!r}", index=at)
        self._aliases[name] = function
        self._functions[name] = replace(self._functions[function], name=name)

    def _bodies(self, waiting: list[str]) -> None:
        """Read the bodies of functions, and of those that these call."""
        waiting.reverse()
        while waiting:
            name = waiting.pop()
            name = self._aliases.get(name, name)
            header = self._headers.pop(name, None)
            if header is not None:
                try:
                    self._body(name, header)
                except PtxSyntaxError as error:
                    if self._refused is None:
                        raise
                    self._refused[name] = error
                    continue
                called = {callee(one) for one in self._functions[name].instructions if one.op == "call"}
                waiting += sorted(one for one in called if one in self._functions)

    def _pointed_to(self) -> None:
        """Read the bodies of what calls through pointers may reach: whose addresses any kernel takes, since one may
        hand on what another gets."""
        if not any(one.op == INDIRECT for function in self._functions.values() for one in function.instructions):
            return
        told = self._refused
        self._refused = refused = {} if told is None else told  # of bodies that nothing reaches none spoils the others
        self._bodies(list(self._headers))
        self._refused = told
        if told is None:
            names = addressed(self._functions.values(), self._variables.values())
            for name in sorted({self._aliases.get(name, name) for name in names} & refused.keys()):
                raise refused[name]

    def _unsupported(self, message: str) -> UnsupportedError:
        place = Place(self._cursor.name, self._cursor.line)
        return UnsupportedError(message, place=place, hint="docs/limits.md says what is read; compile without it")

    def _preamble(self) -> None:
        cursor = self._cursor
        cursor.expect(".version")
        token = cursor.take()
        if not re.fullmatch(r"\d{1,3}\.\d{1,3}", token):
            raise cursor.error(f"expected a version such as 8.0, found {token!r}", index=cursor.index - 1)
        major, minor = token.split(".")
        self._version = (int(major), int(minor))
        cursor.expect(".target")
        self._target = cursor.identifier("a target such as sm_80")
        if not _TARGET.match(self._target):
            raise cursor.error(f"unknown target {self._target!r}", index=cursor.index - 1)
        while cursor.accept(","):
            cursor.identifier("a target option")
        if cursor.accept(".address_size") and cursor.integer("32 or 64") != 64:
            raise self._unsupported("32-bit addresses (.address_size 32) are not emulated")
        self._verifier = Verifier(self._version, self._target)

    def _variable(self, space: Space, *, extern: bool) -> None:
        cursor = self._cursor
        head = variables.parse_head(cursor)
        while True:
            at = cursor.index
            name = cursor.identifier("a variable")
            known = self._variables.get(name)
            if name in self._functions or (known is not None and not (known.extern or extern)):
                raise cursor.error(f"{name!r} is declared twice", index=at)
            shape = variables.parse_shape(cursor)
            initializer = None
            if head.type in variables.OPAQUE_TYPES and cursor.accept("="):
                cursor.expect("{")
                cursor.skip_past("}")
            elif cursor.accept("="):
                if space is Space.SHARED:
                    raise cursor.error("a .shared variable cannot have an initial value")
                initializer = variables.parse_initializer(cursor, head, shape)
            size = variables.total_size(cursor, head, shape)
            if known is None or known.extern:
                self._variables[name] = PtxVariable(
                    name, space, head.align, size, head.type, tuple(shape), initializer, extern
                )
            if initializer is not None:
                self._check_relocations(self._variables[name], at)
            if not cursor.accept(","):
                break
        cursor.expect(";")

    def _check_relocations(self, variable: PtxVariable, at: int) -> None:
        assert variable.initializer is not None
        for _, _, _, symbol, _ in variable.initializer.relocations:
            if symbol.name not in self._variables and symbol.name not in self._functions:
                raise self._cursor.error(f"undefined symbol {symbol.name!r} in an initial value", index=at)

    # -- functions -----------------------------------------------------------------------------------------------

    def _function(self, entry: bool) -> None:
        cursor = self._cursor
        place = Place(cursor.name, cursor.line)
        if cursor.accept(".attribute"):
            cursor.skip_past(")")  # .attribute(.unified(uuid1, uuid2))
            cursor.accept(")")
        returns_at = cursor.index
        if cursor.token == "(":
            cursor.skip_past(")")
        name_at = cursor.index
        name = cursor.identifier("a function's name")
        parameters_at = cursor.index
        if cursor.token == "(":
            cursor.skip_past(")")
        limits = self._limits()
        known = self._functions.get(name)
        if name in self._variables or (known is not None and known.entry != entry):
            raise cursor.error(f"{name!r} is declared twice", index=name_at)
        header = _Header(place, returns_at if returns_at != name_at else -1, parameters_at, cursor.index)
        defined = cursor.token == "{"
        function = self._declared(name, entry, limits, header, None)
        if not defined:
            cursor.expect(";")
            self._functions.setdefault(name, function)
            return
        if known is not None and name in self._headers:
            raise cursor.error(f"{name!r} is defined twice", index=name_at)
        self._functions[name] = function
        self._headers[name] = header
        self._skip_body()

    def _declared(
        self, name: str, entry: bool, limits: Mapping[str, tuple[int, ...]], header: _Header, scope: PtxScope | None
    ) -> PtxFunction:
        """A function without its body; its parameters belong to the body's scope, if there is one."""
        returns = self._parameters(header.returns, scope) if header.returns >= 0 else ()
        parameters = self._parameters(header.parameters, scope) if header.parameters != header.body else ()
        self._cursor.index = header.body
        return PtxFunction(name, entry, parameters, returns, (), (), (), {}, {}, limits, True, header.place)

    def _skip_body(self) -> None:
        """Move from `{` past the matching `}`."""
        cursor = self._cursor
        text, index, depth = cursor.text, cursor.index, 0
        while True:
            token = text[index]
            index += 1
            if token == "{":
                depth += 1
            elif token == "}":
                depth -= 1
                if depth == 0:
                    break
            elif not token:
                error = cursor.error("unexpected end of the PTX text: a '}' is missing", index=index - 1)
                error.hint = "the file seems to be cut off; write it again"
                raise error
        cursor.index = index

    def _body(self, name: str, header: _Header) -> None:
        """Read one function's body."""
        cursor = self._cursor
        assert self._verifier is not None
        cursor.index, cursor.place = header.body, None
        locations = Locations(self._info, full_name(name))
        body = BodyParser(cursor, self._verifier, locations, self._functions, self._variables)
        known = self._functions[name]
        function = self._declared(name, known.entry, known.limits, header, body.scope)
        body.parse()
        first = next((item.place for item in body.instructions), header.place)
        self._functions[name] = replace(
            function,
            variables=tuple(body.variables),
            registers=body.registers,
            instructions=tuple(body.instructions),
            labels=body.labels,
            branch_targets=body.branch_targets,
            declared_only=False,
            place=list(first.frames())[-1],
        )

    def _limits(self) -> dict[str, tuple[int, ...]]:
        cursor = self._cursor
        limits: dict[str, tuple[int, ...]] = {}
        while cursor.token.startswith("."):
            directive = cursor.take()[1:]
            if directive == "pragma":
                cursor.skip_past(";")
                continue
            if directive not in _LIMITS:
                raise cursor.error(f"unknown directive '.{directive}'", index=cursor.index - 1)
            numbers: list[int] = []
            while cursor.token[:1].isdigit():
                numbers.append(cursor.integer("a number", high=2**31 - 1))
                if not cursor.accept(","):
                    break
            if directive in _THREE:
                numbers = [*numbers, 1, 1, 1][:3]
            limits[directive] = tuple(numbers)
        return limits

    def _parameters(self, at: int, scope: PtxScope | None) -> tuple[PtxParameter | Register, ...]:
        """Read a parameter list again, now that the body's scope exists."""
        cursor = self._cursor
        cursor.index = at
        cursor.expect("(")
        found: list[PtxParameter | Register] = []
        offset = 0
        while not cursor.accept(")"):
            directive = cursor.take()
            if directive not in (".param", ".reg"):
                raise cursor.error(f"expected .param or .reg, found {directive!r}", index=cursor.index - 1)
            register = directive == ".reg"
            head = variables.parse_head(cursor, register=register)
            parameter = self._parameter(head, register, offset, scope)
            if isinstance(parameter, PtxParameter):
                offset = parameter.offset + parameter.size
            found.append(parameter)
            if not cursor.accept(","):
                cursor.expect(")")
                break
        return tuple(found)

    def _parameter(
        self, head: variables.Head, register: bool, offset: int, scope: PtxScope | None
    ) -> PtxParameter | Register:
        cursor = self._cursor
        name = cursor.identifier("a parameter")
        if scope is not None and scope.declared(name):
            raise cursor.error(f"{name!r} is declared twice", index=cursor.index - 1)
        if register:
            if head.vector > 1:
                raise cursor.error("a vector register cannot be a parameter")
            return scope.add_register(name, head.type) if scope else Register(name, head.type)
        size = variables.total_size(cursor, head, variables.parse_shape(cursor))
        if size > _MAX_PARAMETER_BYTES:
            raise cursor.error(f"a parameter of {size} bytes is too large")
        if scope is not None:
            name = scope.add_variable(name, Space.PARAM)
        start = (offset + head.align - 1) // head.align * head.align
        return PtxParameter(name, head.type, size, head.align, start)
