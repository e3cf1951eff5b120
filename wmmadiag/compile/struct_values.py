"""What host code puts into a struct before it launches a kernel with it: `params.q_ptr = q;`, `Problem p{a, b, m}`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wmmadiag.compile.declarations import DEVICE_KEYWORDS, Declaration, declarations
from wmmadiag.compile.host_code import HostLaunch, SourceExpression, definitions, split_arguments
from wmmadiag.compile.launch_macros import expand_launch_macros
from wmmadiag.compile.lexer import Token, closing, tokenize
from wmmadiag.compile.struct_layout import Member, Structs
from wmmadiag.place import Place

_EMPTY = frozenset({"", "0", "NULL", "nullptr"})


@dataclass(frozen=True, slots=True)
class Assigned:
    """One value of one member: `path` as in `Member.leaves`, the value's `text`, and the host `function`."""

    path: str
    text: str
    function: str


@dataclass(frozen=True, slots=True)
class StructValues:
    """What host code says about the members of one struct.

    Attributes:
        variables: of that type, of any host function.
        assigned: in the order of the source.
        zeroed: whether some variable is set to zeros as a whole.
        locals: definitions of the functions that assign, for names in the texts.
    """

    variables: frozenset[str]
    assigned: tuple[Assigned, ...]
    zeroed: bool
    locals: tuple[tuple[str, SourceExpression], ...]

    def value(self, path: str, function: str) -> str:
        """The text that a member gets: the one that the launching function assigns, else the only one; else ""."""
        texts = [(one.text, one.function) for one in self.assigned if one.path == path and one.text not in _EMPTY]
        own = {text for text, where in texts if where == function} or {text for text, _ in texts}
        return next(iter(own)) if len(own) == 1 else ""

    def is_empty(self, path: str) -> bool:
        """Whether a member is only ever set to zero, by itself or with the whole; others must be set to tell that."""
        texts = {one.text for one in self.assigned if one.path == path}
        return texts <= _EMPTY and (bool(texts) or (self.zeroed and bool(self.assigned)))


def struct_values(text: str, known: Structs, type_: str, layout: Member) -> StructValues:
    """The values that a source's host functions give the members of a struct.

    Args:
        text: of the source.
        known: its structs.
        type_: of the kernel's parameter.
        layout: of that struct.
    """
    text = expand_launch_macros(text)
    types = _with_bases(known, type_)
    try:
        functions = [one for one in _functions(declarations(tokenize(text))) if not one.words() & DEVICE_KEYWORDS]
    except RecursionError:
        functions = []
    constructors = _constructors(known, types)
    makers = {one.name for one in functions if _before(one, types)}
    assigned: list[Assigned] = []
    variables: set[str] = set()
    zeroed = False
    extra: dict[str, SourceExpression] = {}
    for function in functions:
        reader = _Reader(text, function.qualified_name, layout)
        named = set(_variables(function, types, makers))
        variables |= named
        found = [*_assignments(reader, function.body, named)]
        for parts in _initialised(function, types):
            made = [*_constructed(reader, constructors, parts)]
            found += made or reader.listed(layout, "", parts)
            zeroed = zeroed or not parts or [token.text for token in parts[0]] == ["0"]
        zeroed = zeroed or _calls_on(function.body, named, "memset") or any(one.path == "" for one in found)
        assigned += [one for one in found if one.path]
        if found:
            for name, value in definitions(text, function.body):
                extra.setdefault(name, value)
    return StructValues(frozenset(variables), tuple(assigned), zeroed, tuple(extra.items()))


def methods(known: Structs, type_: str, layout: Member) -> dict[str, tuple[str, ...]]:
    """The struct's functions without parameters that return one expression: name → that, token by token.

    A member in it is written ".member", so that a variable's name before it makes host code's own expression.
    """
    declared = known.classes.get(known.plain(type_).partition("<")[0])
    own = {member.name for member in layout.members}
    found = {}
    for one in declared.members if declared is not None else ():
        body = one.body
        if one.kind == "function" and len(body) > 3 and body[1].text == "return" and not _formals(one):
            tokens = body[2 : next((i for i, token in enumerate(body) if token.text == ";"), 2)]
            found[one.name] = tuple("." + token.text if token.text in own else token.text for token in tokens)
    return found


def passed_in_place(launch: HostLaunch, index: int, layout: Member) -> tuple[Assigned, ...]:
    """The members of a struct that the launch itself makes: `kernel<<<…>>>(Problem{a, b, m})` or `({a, b, m})`."""
    text = launch.arguments[index].text
    tokens = tokenize(text)
    brace = next((i for i, token in enumerate(tokens) if token.text == "{"), None)
    if brace is None or closing(tokens, brace) != len(tokens) - 1:
        return ()
    reader = _Reader(text, launch.function, layout)
    return tuple(reader.listed(layout, "", split_arguments(tokens[brace + 1 : -1])))


def expression(text: str) -> SourceExpression:
    """A text without a place of its own."""
    return SourceExpression(text, Place("", 1))


def _functions(scope: Sequence[Declaration]) -> Iterator[Declaration]:
    for one in scope:
        if one.kind == "class":
            yield from _functions(one.members)
        elif one.body:
            yield one


def _with_bases(known: Structs, type_: str) -> frozenset[str]:
    """The names of a struct and of its base classes, which functions may fill through a reference."""
    found: set[str] = set()
    waiting = [known.plain(type_).partition("<")[0]]
    while waiting:
        name = waiting.pop()
        declared = known.classes.get(name)
        if declared is None or name in found:
            continue
        found.add(name)
        words = [token.text for token in declared.head]
        waiting += words[words.index(":") + 1 :] if ":" in words else []
    found |= {alias for alias, meant in known.aliases.items() if known.plain(meant).partition("<")[0] in found}
    return frozenset(found)


def _before(function: Declaration, types: frozenset[str]) -> bool:
    """Whether a function returns one of these types."""
    words = [token.text for token in function.head]
    end = words.index(function.name) if function.name in words else 0
    return bool(set(words[:end]) & types)


def _variables(function: Declaration, types: frozenset[str], makers: set[str]) -> Iterator[str]:
    """The variables of these types that a function gets or declares."""
    tokens = [*function.head, *function.body]
    for index, token in enumerate(tokens[:-1]):
        if token.kind == "id" and token.text in types:
            after = _after_type(tokens, index)
            if after < len(tokens) and tokens[after].kind == "id" and tokens[after].text != function.name:
                yield tokens[after].text
        is_auto = token.text == "auto" and index + 3 < len(tokens) and tokens[index + 2].text == "="
        if is_auto and {one.text for one in tokens[index + 3 : index + 8]} & (makers | types):
            yield tokens[index + 1].text


def _after_type(tokens: Sequence[Token], index: int) -> int:
    index += 1
    if index < len(tokens) and tokens[index].text == "<":
        depth = 0
        while index < len(tokens):
            depth += (tokens[index].text == "<") - (tokens[index].text == ">")
            index += 1
            if depth == 0:
                break
    while index < len(tokens) and tokens[index].text in ("const", "&", "*", "__restrict__"):
        index += 1
    return index


def _initialised(function: Declaration, types: frozenset[str]) -> Iterator[list[Sequence[Token]]]:
    """The initialisers of `T p{…}`, `T p(…)`, `T p = {…}`, `T p = T{…}` and `return T{…}`."""
    tokens = function.body
    for index, token in enumerate(tokens[:-1]):
        if token.kind != "id" or token.text not in types:
            continue
        after = _after_type(tokens, index)
        if after < len(tokens) and tokens[after].kind == "id":
            after += 1
            after += after < len(tokens) and tokens[after].text == "="
        if after < len(tokens) and tokens[after].text in ("{", "("):
            yield split_arguments(tokens[after + 1 : closing(tokens, after)])


def _constructors(known: Structs, types: frozenset[str]) -> tuple[Declaration, ...]:
    """The constructors of a struct that have parameters."""
    return tuple(
        member
        for name in sorted(types & set(known.classes))
        for member in known.classes[name].members
        if member.kind == "function" and member.name == name and _formals(member)
    )


def _formals(function: Declaration) -> list[str]:
    """The names of a function's parameters."""
    head = function.head
    opened = next((i for i in range(1, len(head)) if head[i].text == "(" and head[i - 1].text == function.name), None)
    if opened is None:
        return []
    names = []
    for part in split_arguments(head[opened + 1 : closing(head, opened)]):
        texts = [token.text for token in part]
        end = texts.index("=") if "=" in texts else len(part)
        names.append(next((token.text for token in reversed(part[:end]) if token.kind == "id"), ""))
    return names


def _constructed(
    reader: _Reader, constructors: Sequence[Declaration], parts: Sequence[Sequence[Token]]
) -> Iterator[Assigned]:
    """What the constructor that takes so many arguments puts into the members."""
    fitting = [one for one in constructors if len(_formals(one)) == len(parts)]
    if len(fitting) != 1 or not parts:
        return
    values = dict(zip(_formals(fitting[0]), parts, strict=True))
    reader = replace(reader, foreign=True)

    def filled(tokens: Sequence[Token]) -> list[Token]:
        return [other for token in tokens for other in values.get(token.text, (token,))]

    head = fitting[0].head
    opened = next(i for i in range(1, len(head)) if head[i].text == "(" and head[i - 1].text == fitting[0].name)
    rest = head[closing(head, opened) + 1 :]
    for part in split_arguments(rest[1:] if rest and rest[0].text == ":" else ()):
        if len(part) > 2 and part[1].text in ("(", "{"):
            yield from reader.put(part[0].text, filled(part[2:-1]), listed=True)
    body = fitting[0].body
    for index in range(1, len(body) - 3):
        start = index + 2 * (body[index].text == "this" and body[index + 1].text == "->")
        if body[index - 1].text in (";", "{", "}") and body[start].kind == "id" and body[start + 1].text == "=":
            end = start + 2
            while end < len(body) and body[end].text != ";":
                end += 1
            yield from reader.put(body[start].text, filled(body[start + 2 : end]))


def _assignments(reader: _Reader, tokens: Sequence[Token], variables: set[str]) -> Iterator[Assigned]:
    """Of `p.path = value;`, `p->path = value;` and `p = {…};`."""
    for index, token in enumerate(tokens[:-2]):
        if token.text not in variables or (index and tokens[index - 1].text in (".", "->", "::")):
            continue
        path, after = "", index + 1
        while after + 1 < len(tokens) and tokens[after].text in (".", "->", "["):
            if tokens[after].text == "[":
                end = closing(tokens, after)
                path += "[" + "".join(one.text for one in tokens[after + 1 : end]) + "]"
                after = end + 1
                continue
            path += ("." if path else "") + tokens[after + 1].text
            after += 2
        if after >= len(tokens) or tokens[after].text != "=" or tokens[after + 1].text == "=":
            continue
        end = after + 1
        while end < len(tokens) and tokens[end].text not in (";", ","):
            end = closing(tokens, end) + 1 if tokens[end].text in ("(", "[", "{") else end + 1
        value = list(tokens[after + 1 : end])
        while any(one.text == "=" for one in value):  # p.lda = p.ldb = k;
            value = value[[one.text for one in value].index("=") + 1 :]
        if path:
            yield from reader.put(path, value)
        elif value and value[0].text == "{":
            yield Assigned("", "0", reader.function)
            yield from reader.listed(reader.layout, "", split_arguments(value[1:-1]))


def _calls_on(tokens: Sequence[Token], variables: set[str], call: str) -> bool:
    """Whether a function of that name is called on one of the variables: `memset(&p, 0, sizeof(p))`."""
    for index, token in enumerate(tokens[:-3]):
        if token.text == call and {one.text for one in tokens[index + 1 : index + 4]} & variables:
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Reader:
    text: str
    function: str
    layout: Member
    foreign: bool = False  # tokens come from several places

    def put(self, path: str, value: Sequence[Token], *, listed: bool = False) -> Iterator[Assigned]:
        """A value for a member that may have members of its own; `listed`: it is what stands between brackets."""
        member = _at(self.layout, path)
        if listed and member is not None and member.declared is None:
            yield from self.listed(member, path, split_arguments(value))
        elif member is not None and value:
            yield from self._given(member, path, value)

    def listed(self, member: Member, path: str, parts: Sequence[Sequence[Token]]) -> Iterator[Assigned]:
        """An initialiser list: by position, or `.name = value`."""
        parts = [part for part in parts if part]
        if [token.text for part in parts for token in part] == ["0"]:
            return
        members = member.members
        for position, part in enumerate(parts):
            if part[0].text == "." and len(part) > 2:
                equals = part[2].text == "="
                value = part[3:] if equals else part[3:-1]
                yield from self.put((path + "." if path else "") + part[1].text, value)
            elif position < len(members):
                one = members[position]
                dot = "." if path and one.name and not one.name.startswith("[") else ""
                yield from self._given(one, path + dot + one.name, part)

    def _given(self, member: Member, path: str, value: Sequence[Token]) -> Iterator[Assigned]:
        if member.declared is not None:
            yield Assigned(path, self._written(value), self.function)
            return
        brace = next((i for i, token in enumerate(value[:3]) if token.text in ("{", "(")), None)
        if brace is not None and closing(value, brace) == len(value) - 1:
            yield from self.listed(member, path, split_arguments(value[brace + 1 : -1]))
            return
        whole = self._written(value)
        for inner, _, _ in member.leaves():
            yield Assigned(f"{path}{'' if inner.startswith('[') else '.'}{inner}", f"{whole}.{inner}", self.function)

    def _written(self, value: Sequence[Token]) -> str:
        if self.foreign:
            return " ".join(token.text for token in value)
        return " ".join(self.text[value[0].start : value[-1].end].split())


def _at(layout: Member, path: str) -> Member | None:
    """The member of a path, through base classes."""
    for one in layout.members:
        if not one.name:
            found = _at(one, path)
            if found is not None:
                return found
        elif path == one.name:
            return one
        elif path.startswith((one.name + ".", one.name + "[")) and one.declared is None:
            return _at(one, path[len(one.name) :].removeprefix("."))
    return None
