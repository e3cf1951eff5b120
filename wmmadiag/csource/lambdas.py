"""Extended lambdas as classes with names, so that a compiler that never sees host code can be asked for kernels over
them.

The closure of a lambda has no name that another compiler knows. A class template of the same captures has: its
parameters are the captures' types, which the host's compiler fills in where the lambda stood, and those of the
templates around it. CUDA C++ Programming Guide, "Extended Lambdas": captures are by value, the space stands before the
parameters.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from dataclasses import field as field_of
from pathlib import Path

from wmmadiag.csource.closure_members import SELF, class_around, members_of, opened, through_the_object
from wmmadiag.csource.declarations import TemplateParameter, template_parameters
from wmmadiag.csource.edits import ByteEdit, applied
from wmmadiag.csource.nodes import Node, ancestors, at, descendants, field
from wmmadiag.csource.prepare import LAMBDA_SPACE
from wmmadiag.csource.scopes import Scopes
from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import Variable

NAME = re.compile(r"\bwmmadiag_lambda_[0-9a-f]{8}\b")
"""The classes' names."""
ARRAY = (
    "#ifndef WMMADIAG_CAPTURED_ARRAY\n#define WMMADIAG_CAPTURED_ARRAY\nextern \"C++\" {\n"
    "template <class T, unsigned long N> struct wmmadiag_array {\n"
    "T held[N]; __device__ operator const T*() const { return held; } };\n"
    "}\n#endif\n"
)  # fmt: skip
"""What an array is captured as."""
_AUTO = re.compile(r"\bauto\b")


@dataclass(frozen=True, slots=True)
class Functor:
    """A lambda as a class."""

    node: Node  # the lambda; `name`: of the class
    name: str
    captures: tuple[tuple[str, str], ...]  # (member, the expression it is made from)
    head: str  # of the class template, up to and with the parameters of its call operator
    given: tuple[str, ...]  # what the lambda's place adds to the captures' types as template arguments: "T, N"
    device_only: bool  # whether host code never calls it
    namespaces: tuple[str, ...]  # around it: what opens them
    inside: Node | None = None  # the class whose object it reaches members of
    members: frozenset[str] = frozenset()  # those that it names
    copied: bool = False  # whether it holds a copy of the object (`*this`)

    @property
    def body(self) -> Node:
        """Its compound statement."""
        found = field(self.node, "body")
        assert found is not None
        return found

    def text(self, source: Source) -> str:
        """Its compound statement as that of the class's call operator."""
        body = self.body
        data = source.data[body.start_byte : body.end_byte]
        if self.inside is not None:
            edits = through_the_object(source, body, self.members, self.copied)
            moved = [replace(one, start=one.start - body.start_byte, end=one.end - body.start_byte) for one in edits]
            data = applied(data, moved)
        return data.decode("utf-8", "surrogateescape")

    def made(self) -> str:
        """The expression that makes an object of it where the lambda stood."""
        types = [f"::wmmadiag_host::Captured<decltype({value})>" for _, value in self.captures]
        arguments = ", ".join([*types, *self.given, *(() if types or self.given else ("void",))])
        values = ", ".join(f"::wmmadiag_host::capture({value})" for _, value in self.captures)
        return f"({self.name}<{arguments}>{{{values}}})"


def functors(source: Source) -> Iterator[Functor]:
    """The extended lambdas of a source that can be a class: no reference and no pack is captured."""
    found = list(LAMBDA_SPACE.finditer(source.code.code))
    scopes = Scopes(source) if found else None
    end = -1
    for match in found:
        node: Node | None = at(source.root, match.start() - 1)
        while node is not None and node.type != "lambda_expression":
            node = node.parent
        captures = field(node, "captures") if node is not None else None
        if node is None or scopes is None or captures is None or captures.end_byte != match.start():
            continue
        if node.start_byte < end:
            continue  # inside of another
        words = frozenset(re.findall(r"\w+", match[0].decode()))
        one = _functor(source, scopes, node, captures, words)
        if one is not None:
            end = node.end_byte
            yield one


def appended(source: Source, name: str, wanted: Collection[str]) -> bytes:
    """What stands at the end of a file for a compiler that sees its device code alone: the classes that are wanted, at
    their own lines.

    Args:
        name: the file's, as the compiler knows it.
    """
    pieces = []
    for one in functors(source) if wanted else ():
        if one.name in wanted:
            opened = "".join(f"{each} {{ " for each in one.namespaces)
            body = one.text(source).encode("utf-8", "surrogateescape")
            text = LAMBDA_SPACE.sub(lambda found: b" " * len(found[0]), body).decode("utf-8", "surrogateescape")
            begin = source.place(one.body)
            line = f'#line {begin.line} "{_escaped(name)}"\n{" " * (begin.column - 1)}'
            closed = " }" * len(one.namespaces)
            pieces.append(f'{opened}extern "C++" {{ {one.head}\n{line}{text} }}; }}{closed}\n')
    if not pieces:
        return b""
    guard = f"WMMADIAG_LAMBDAS_{zlib.crc32(name.encode('utf-8', 'surrogateescape')):08x}"
    lines = source.data.count(b"\n") + 2
    text = f"\n{ARRAY}#ifndef {guard}\n#define {guard}\n{''.join(pieces)}#endif\n"
    return f'{text}#line {lines} "{_escaped(name)}"\n'.encode("utf-8", "surrogateescape")


def opening_edits(source: Source, wanted: Collection[str] | None = None) -> list[ByteEdit]:
    """What lets the classes of lambdas reach private members; `wanted`: of these alone."""
    found = [one for one in functors(source) if one.inside is not None and (wanted is None or one.name in wanted)]
    return opened(source, {one.inside.start_byte: one.inside for one in found if one.inside is not None})


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')


@dataclass(slots=True)
class _SurroundingsReader:
    """What a lambda's text needs of what stands around it."""

    source: Source
    scopes: Scopes
    node: Node
    names: dict[str, Variable]
    copied: dict[str, str]
    captured: dict[str, str]
    by_value: bool
    own: frozenset[str] = frozenset()  # members of the object that is captured
    used: set[str] = field_of(default_factory=set)  # those that the text names
    failed: bool = False

    def meet(self, identifier: Node) -> None:
        """An identifier in the lambda: of a variable outside, it is captured, or its constant is said again."""
        name = self.source.text(identifier)
        if name in self.copied or name in self.captured:
            return
        if identifier.type == "type_identifier":
            self.alias(name)
            return
        variable = self.scopes.at(identifier.start_byte).get(name) or self.names.get(name)
        if name in self.own and (variable is None or variable.kind in ("member", "namespace")):
            constant = self.constant(variable) if variable is not None else ""
            if constant:
                self.copied[name] = constant
            else:
                self.used.add(name)
            return
        if variable is None or variable.node.start_byte >= self.node.start_byte or variable.kind == "template":
            return
        if variable.kind == "namespace":
            return
        if constant := self.constant(variable):
            self.copied[name] = constant
        elif variable.kind == "member" or not self.by_value or "static" in variable.words:
            self.failed = True
        else:
            self.captured[name] = name

    def constant(self, variable: Variable) -> str:
        """The declaration of a constant, to be said in a class; "" for what is none."""
        value = variable.value
        if value is None or variable.pointers or variable.reference or variable.dimensions:
            return ""
        if not variable.constant and not ("const" in variable.type.split() and _is_constant(self, value)):
            return ""
        for one in descendants(value, "identifier", "type_identifier"):
            self.meet(one)
        kind = " ".join(word for word in variable.type.split() if word not in ("const", "constexpr"))
        text = self.source.words(value)
        return f"static constexpr {kind} {variable.name}{text if value.type == 'initializer_list' else f' = {text}'};"

    def alias(self, name: str) -> None:
        """A type that a function or a class around the lambda gives a name."""
        inside = self.node
        for block in ancestors(self.node):
            if block.type in ("compound_statement", "field_declaration_list"):
                for one in block.named_children:
                    if one.start_byte >= inside.start_byte:
                        break
                    self._alias(one, name)
            inside = block

    def _alias(self, one: Node, name: str) -> None:
        if one.type in ("alias_declaration", "type_definition"):
            named = field(one, "name") or field(one, "declarator")
            if named is not None and self.source.text(named) == name:
                self.copied[name] = self.source.words(one)
                for inner in descendants(one, "identifier", "type_identifier"):
                    self.meet(inner)
        elif one.type.endswith("_specifier"):
            named = field(one, "name")
            self.failed |= named is not None and self.source.text(named) == name  # a class of the function's own


def _is_constant(reader: _SurroundingsReader, value: Node) -> bool:
    for one in descendants(value, "identifier", "call_expression", "field_expression"):
        known = reader.names.get(reader.source.text(one)) if one.type == "identifier" else None
        if one.type != "identifier" or known is None or known.reference or known.pointers:
            return False
        own = known.value
        if not (known.constant or ("const" in known.type.split() and own is not None and _is_constant(reader, own))):
            return False
    return True


def _functor(source: Source, scopes: Scopes, node: Node, captures: Node, words: frozenset[str]) -> Functor | None:
    body, declarator = field(node, "body"), field(node, "declarator")
    if body is None or body.type != "compound_statement":
        return None
    if any(one.type in ("&", "...") for one in captures.children):
        return None
    by_value, owner = False, ""
    explicit: dict[str, str] = {}
    for one in captures.named_children:
        text = source.text(one)
        if one.type == "lambda_default_capture" and text == "=":
            by_value = True
        elif one.type == "identifier":
            explicit[text] = text
        elif one.type == "this":
            owner = "*this" if one.prev_sibling is not None and one.prev_sibling.type == "*" else "this"
        elif one.type == "lambda_capture_initializer" and not text.startswith(("&", "...")):
            name, _, value = text.partition("=")
            explicit[name.strip()] = " ".join(value.split())
        elif one.type != "comment":
            return None
    around = class_around(source, node) if owner or by_value else None
    own = members_of(source, around) if around is not None else frozenset()
    names = scopes.at(node.start_byte)
    reader = _SurroundingsReader(source, scopes, node, names, {}, dict(explicit), by_value, own)
    for part in (declarator, body):
        for one in descendants(part, "identifier", "type_identifier") if part is not None else ():
            reader.meet(one)
    reaches = bool(reader.used) or next(descendants(body, "this"), None) is not None
    if reader.failed or (reaches and around is None):
        return None
    if reaches or owner:
        reader.captured[SELF] = owner or "this"
    heads = list(_template_heads(source, node))
    members = list(reader.captured)
    types = [f"class wmmadiag_{number}" for number in range(len(members))]
    if any(one.pack for one in heads[:-1]):
        return None
    given = [_declared(source, one) for one in heads if one.name]
    parameters, called = _call(source, declarator)
    name = f"wmmadiag_lambda_{zlib.crc32(f'{Path(source.name).name}:{node.start_byte}'.encode()):08x}"
    fields = "".join(f"wmmadiag_{number} {member}; " for number, member in enumerate(members))
    spaces = " ".join(sorted(words & {"__host__", "__device__"}))
    listed = ", ".join([*types, *given] or ["class wmmadiag_"])
    constants = " ".join(reader.copied.values())
    head = f"template <{listed}> struct {name} {{ {constants} {fields}{parameters}{spaces} {called}"
    arguments = tuple(f"{one.name}{'...' if one.pack else ''}" for one in heads if one.name)
    device_only = "__host__" not in words
    captured = tuple(reader.captured.items())
    spaces_around = _namespaces(source, node)
    inside = around if reaches else None
    used = frozenset(reader.used)
    return Functor(node, name, captured, head, arguments, device_only, spaces_around, inside, used, owner == "*this")


def _call(source: Source, declarator: Node | None) -> tuple[str, str]:
    """(template head, "auto operator()(int i) const -> float") of a call operator."""
    listed = field(declarator, "parameters") if declarator is not None else None
    text = source.words(listed) if listed is not None else "()"
    count = 0

    def numbered(_: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"wmmadiag_any_{count}"

    text = _AUTO.sub(numbered, text)
    head = f"template <{', '.join(f'class wmmadiag_any_{one + 1}' for one in range(count))}> " if count else ""
    parts = declarator.named_children if declarator is not None else []
    mutable = any(source.text(one) == "mutable" for one in parts)
    returned = next((source.words(one) for one in parts if one.type == "trailing_return_type"), "")
    return head, f"auto operator()(text){'' if mutable else ' const'} {returned} ".replace("(text)", text, 1)


def _declared(source: Source, one: TemplateParameter) -> str:
    """A template parameter as declared, without what it is by default."""
    default = one.node.child_by_field_name("default_value") or one.node.child_by_field_name("default_type")
    end = one.node.end_byte if default is None else default.start_byte
    return " ".join(source.code_text(one.node.start_byte, end).split()).rstrip(" =")


def _template_heads(source: Source, node: Node) -> Iterator[TemplateParameter]:
    """The parameters of the templates around a node, the outermost first."""
    around = [one for one in ancestors(node) if one.type == "template_declaration"]
    for one in reversed(around):
        yield from template_parameters(source, one)


def _namespaces(source: Source, node: Node) -> tuple[str, ...]:
    found = []
    for one in ancestors(node):
        if one.type == "namespace_definition":
            body, name = field(one, "body"), field(one, "name")
            start = one.start_byte
            inline = source.slice(start, body.start_byte if body else one.end_byte).split()[:1] == ["inline"]
            found.append(f"{'inline ' if inline else ''}namespace {source.text(name) if name else ''}".rstrip())
    return tuple(reversed(found))
