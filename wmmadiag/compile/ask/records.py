"""The classes that a source sees, with the names of their members: its own, and those of the headers it includes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from wmmadiag.compile.read import is_file
from wmmadiag.compile.sources import SourceTree
from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.lexical import Macro, blank, code_of
from wmmadiag.csource.nodes import Node, descendants
from wmmadiag.csource.nodes import field as field_of
from wmmadiag.csource.skeleton import without_bodies
from wmmadiag.csource.tree import Source, parse

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]+)>|"([^"\n]+)")', re.MULTILINE)
_MOST_BYTES = 4 * 2**20
# Macros of attributes, between the keyword and the name: `struct __device_builtin__ __builtin_align__(8) float2 {`.
_ATTRIBUTES = re.compile(
    rb"\b(?:struct|class|union)\b((?:\s+(?!(?:final|struct|class|union)\b)[A-Za-z_]\w*(?:\s*\([^()\n]*\))?)+?)"
    rb"\s+[A-Za-z_]\w*\s*(?:final\s*)?[:{]"
)
# The head of a class with a body, or the name of a typedef of one.
_HEAD = re.compile(
    r"\b(?:struct|class|union)\b[^;:{}()=*<]*(?:\([^()]*\)[^;:{}()=*<]*)?(?<!\w)(?!final\b)([A-Za-z_]\w*)\s*"
    r"(?:<[^;{}]*>\s*)?(?:final\s*)?(?::(?!:)[^;{}]*)?\{|\}\s*([A-Za-z_]\w*)\s*;"
)
# `#define CUTLASS_HOST_DEVICE __forceinline__ __device__ __host__`: what may stand before a member.
_SPECIFIERS = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+((?:(?:__host__|__device__|__forceinline__|__inline__|__noinline__"
    r"|inline|static|constexpr|explicit|__attribute__\s*\(\(\w+\)\)|\[\[\w+\]\])[ \t]*)+)(?=$|/[/*])",
    re.MULTILINE,
)
_RECORDS = frozenset({"struct_specifier", "class_specifier", "union_specifier"})
_CONDITIONALS = frozenset({"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef", "ERROR"})
# What stands in a class and holds no data.
_NO_DATA = frozenset(
    {"access_specifier", "comment", "alias_declaration", "type_definition", "friend_declaration",
     "template_declaration", "function_definition", "static_assert_declaration", "using_declaration",
     "enum_specifier", "preproc_def",
     "preproc_function_def", "preproc_call", "preproc_include", "inline_method_definition", "declaration"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeclaredMember:
    """One data member, as a class declares it."""

    # "member", "bits", "base", "virtual" for a virtual base class, or "group" for a nameless union or struct whose
    # members are the class's own
    kind: str
    name: str  # "" for a group and for bit-fields that only pad
    type: str  # its type as written
    record: DeclaredClass | None = None  # the class that it declares in its own type: `struct { int m, n; } size;`
    members: tuple[DeclaredMember, ...] = ()  # of a group
    conditional: bool = False  # whether an `#if` decides about it
    aligned: bool = False  # whether it asks for an alignment of its own


@dataclass(frozen=True, slots=True)
class DeclaredClass:
    """A class with its data members, base classes first."""

    kind: str  # "struct", "class" or "union"
    name: str  # qualified, as far as the source tells; "" without one
    members: tuple[DeclaredMember, ...]
    unread: tuple[str, ...] = ()  # what stands among its members and is not understood, in the source's words


@dataclass(slots=True)
class Records:
    """The classes that a source can see, found by name; those of the toolkit where nothing else has the name."""

    tree: SourceTree  # the source with its headers
    provided: Sequence[Path]  # the folders of the toolkit's headers
    _own: tuple[_ClassFile, ...] | None = None
    _toolkit: _Toolkit | None = None

    def candidates(self, name: str) -> Iterator[list[DeclaredClass]]:
        """The classes of a canonical name, "ns::Params<64>", file by file; of specialisations each.

        Those whose scope the tree lost come last.
        """
        parts = components(name)
        loose: list[list[DeclaredClass]] = []
        for known in (self._files, self._library):
            for file in known() if parts else ():
                if parts[-1] in file.heads:
                    found = [one for one in file.classes() if fits(one.name, parts)]
                    sure = [one for one in found if components(one.name)[-2:] == parts[-2:]]
                    if sure:
                        yield sure
                    loose.append([one for one in found if one not in sure])
        yield from filter(None, loose)

    def near(self, text: str) -> DeclaredClass | None:
        """The first class that a type's text may name, the headers of the toolkit left out."""
        parts = components(re.sub(r"[*&]|\b(?:const|volatile|struct|typename)\b", " ", text))
        for file in self._files() if parts else ():
            if parts[-1] in file.heads:
                for one in file.classes():
                    if fits(one.name, parts):
                        return one
        return None

    def _files(self) -> Sequence[_ClassFile]:
        """The source and the headers that it brings."""
        if self._own is None:
            texts = [(one.key, one.text) for one in self.tree.every()]
            known = tuple(sorted({pair for _, text in texts for pair in _SPECIFIERS.findall(text)}))
            self._own = tuple(_ClassFile(key, text, known) for key, text in texts)
        return self._own

    def _library(self) -> Iterator[_ClassFile]:
        """The headers of the toolkit that these include, each read once."""
        if self._toolkit is None:
            self._toolkit = _Toolkit([str(folder) for folder in self.provided])
            for one in self._files():
                self._toolkit.wait_for(one.text, "")
            self._toolkit.wait_for("#include <cuda_runtime.h>", "")
        yield from self._toolkit.files()


@dataclass(slots=True)
class _ClassFile:
    """One file: the names of the classes that it seems to define, and these classes once they are wanted."""

    name: str
    text: str
    specifiers: tuple[tuple[str, str], ...]
    _heads: frozenset[str] | None = None

    @property
    def heads(self) -> frozenset[str]:
        if self._heads is None:
            self._heads = frozenset(one or other for one, other in _HEAD.findall(self.text))
        return self._heads

    def classes(self) -> tuple[DeclaredClass, ...]:
        return _classes(self.name, self.text, self.specifiers)


@dataclass(slots=True)
class _Toolkit:
    """The toolkit's headers in the order of inclusion, read as far as somebody looks."""

    folders: Sequence[str]
    _read: list[_ClassFile] = field(default_factory=list)
    _waiting: list[str] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def files(self) -> Iterator[_ClassFile]:
        index = 0
        while index < len(self._read) or self._waiting:
            if index == len(self._read):
                path = self._waiting.pop(0)
                text = Path(path).read_bytes().decode("utf-8", "surrogateescape")
                self._read.append(_ClassFile(path, text, tuple(_SPECIFIERS.findall(text))))
                self.wait_for(text, str(Path(path).parent))
            yield self._read[index]
            index += 1

    def wait_for(self, text: str, folder_of_file: str) -> None:
        """Read later what a file includes; `beside`: its folder, "" for a file of the user's."""
        for match in _INCLUDE.finditer(text):
            name = match[1] or match[2]
            for folder in (*([folder_of_file] if match[2] and folder_of_file else []), *self.folders):
                path = os.path.normpath(f"{folder}/{name}")
                if path in self._seen:
                    break
                if is_file(Path(path)) and Path(path).stat().st_size <= _MOST_BYTES:
                    self._seen.add(path)
                    self._waiting.append(path)
                    break


def components(name: str) -> list[str]:
    """The scopes and the name of a class, template arguments left out: "a::T<b::c, (1 > 0)>::P" → ["a", "T", "P"]."""
    plain: list[str] = []
    open_ones: list[str] = []
    for letter in name.replace("->", "  "):
        if letter in "<([" and not (letter == "<" and open_ones[-1:] in (["("], ["["])):
            open_ones.append(letter)
        elif letter in ")]" or (letter == ">" and open_ones[-1:] == ["<"]):
            del open_ones[-1:]
        elif not open_ones:
            plain.append(letter)
    words = [one.split()[-1] for one in "".join(plain).split("::") if one.split()]
    return words if words and re.fullmatch(r"[A-Za-z_]\w*", words[-1]) else []


def fits(name: str, parts: Sequence[str]) -> bool:
    """Whether a class of the tree can be the one of a canonical name.

    Unnamed and inline namespaces may be left out; in capitals, a macro stands for a namespace.
    """
    own = components(name)
    if not own or own[-1] != parts[-1]:
        return False
    own = [one for one in own if one in parts or not one.isupper()]
    fewer, more = sorted((own, list(parts)), key=len)
    rest = iter(more)
    return all(one in rest for one in fewer)


@lru_cache(maxsize=64)
def _classes(path: str, text: str, specifiers: tuple[tuple[str, str], ...]) -> tuple[DeclaredClass, ...]:
    data = bytearray(without_bodies(text.encode("utf-8", "surrogateescape")))
    for match in _ATTRIBUTES.finditer(code_of(bytes(data)).code):
        data[match.start(1) : match.end(1)] = blank(match[1])
    macros = {name: Macro(name, None, body, 0, 0, 0) for name, body in specifiers}
    source = parse(bytes(data), path, macros)
    return tuple(_class(source, one.node, one.qualified) for one in declarations(source).records if one.name)


def _class(source: Source, node: Node, name: str) -> DeclaredClass:
    body = field_of(node, "body")
    assert body is not None
    members: list[DeclaredMember] = []
    unread: list[str] = []
    for clause in (one for one in node.children if one.type == "base_class_clause"):
        members += _bases(source, clause)
    _read(source, body, name, members, unread, False)
    return DeclaredClass(node.type.partition("_")[0], name, tuple(members), tuple(unread))


def _bases(source: Source, clause: Node) -> Iterator[DeclaredMember]:
    virtual = re.search(r"\bvirtual\b", source.words(clause)) is not None
    for one in clause.named_children:
        if one.type in ("type_identifier", "template_type", "qualified_identifier", "dependent_type"):
            text = source.words(one)
            yield DeclaredMember("virtual" if virtual else "base", next(reversed(components(text)), ""), text)


def _read(
    source: Source, body: Node, name: str, members: list[DeclaredMember], unread: list[str], conditional: bool
) -> None:
    for one in body.named_children:
        if one.type in _CONDITIONALS:
            if one.type == "ERROR":
                unread.append(source.words(one))
            _read(source, one, name, members, unread, conditional or one.type != "ERROR")
        elif one.type == "field_declaration":
            for made in _field(source, one, name, conditional):
                if made.kind == "unread":
                    unread.append(made.type)
                else:
                    members.append(made)
        elif one.type in _RECORDS and field_of(one, "body") is not None and field_of(one, "name") is None:
            group = _class(source, one, "")
            members.append(DeclaredMember("group", "", group.kind, members=group.members, conditional=conditional))
        elif one.type not in _NO_DATA:
            unread.append(source.words(one))


def _field(source: Source, node: Node, name: str, conditional: bool) -> Iterator[DeclaredMember]:
    """The members that one declaration declares: `const half *q, *k; unsigned f : 3; struct { int m; } size;`."""
    type_node = field_of(node, "type")
    declarators = node.children_by_field_name("declarator")
    before = node.prev_sibling
    begin = before.end_byte if before is not None else node.start_byte
    head = source.code_text(begin, declarators[0].start_byte if declarators else node.end_byte)
    if type_node is None or re.search(r"\b(?:static|constexpr|friend|typedef)\b", head):
        return
    record = None
    if type_node.type in _RECORDS and field_of(type_node, "body") is not None:
        called = field_of(type_node, "name")
        record = _class(source, type_node, f"{name}::{source.text(called)}" if called is not None else "")
        if not declarators and called is None:
            yield DeclaredMember("group", "", record.kind, members=record.members, conditional=conditional)
    elif not declarators and type_node.type not in (*_RECORDS, "enum_specifier"):
        yield DeclaredMember("unread", "", source.words(node), conditional=conditional)
    aligned = re.search(r"align", head) is not None
    for declarator in declarators:
        called = _called(declarator)
        if called is None:
            continue
        kind = "bits" if _is_bits(declarator) else "member"
        yield DeclaredMember(
            kind, source.text(called), source.words(type_node), record,
            conditional=conditional, aligned=aligned,
        )  # fmt: skip


def _called(declarator: Node) -> Node | None:
    """The name that a declarator declares; None where it declares a function."""
    one = declarator
    while one.type != "field_identifier":
        inner = field_of(one, "declarator") or next(
            (child for child in one.named_children if child.type.endswith(("declarator", "field_identifier"))), None
        )
        if inner is None or (one.type == "function_declarator" and inner.type != "parenthesized_declarator"):
            return None
        one = inner
    return one


def _is_bits(declarator: Node) -> bool:
    following = declarator.next_named_sibling
    return following is not None and next(descendants(following, "bitfield_clause"), None) is not None
