"""What a source declares at namespace and class scope: functions with where they run, records, variables, aliases."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.csource.nodes import Node, body_of, descendants, field
from wmmadiag.csource.outline import joined
from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import Variable, declared

_TRANSPARENT = frozenset(
    {"translation_unit", "declaration_list", "linkage_specification", "preproc_if", "preproc_ifdef", "preproc_else",
     "preproc_elif", "preproc_elifdef", "field_declaration_list", "ERROR"}
)  # fmt: skip
_RECORDS = frozenset({"struct_specifier", "class_specifier", "union_specifier"})
_WORD = re.compile(r"[A-Za-z_]\w*")
_ENDS = re.compile(rb"[;{}:]")


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """One parameter of a template."""

    name: str  # "" if it has none
    type: str  # of a value parameter as written ("int", "bool"); "typename" for a type, "template" for a template
    default: str  # as written, "" for none
    pack: bool  # whether it is a pack
    node: Node


@dataclass(frozen=True, slots=True)
class Function:
    """A function or a prototype."""

    name: str  # as declared; `scope`: its namespaces and classes, "a::b"
    scope: str
    node: Node  # the definition or declaration; `outer`: with the template head around it
    outer: Node
    start: int  # offset of its first byte, with macros and attributes that no node holds
    # its parameters; None for no template, empty for an explicit specialisation
    template: tuple[TemplateParameter, ...] | None
    parameters: tuple[Variable, ...]  # in order; `variadic` and packs as parameters without dimensions
    body: Node | None  # its compound statement, None for a prototype
    words: frozenset[str]  # of its head, macros of the source expanded: "__global__", "static", "constexpr", …
    returns: str  # its type as written

    @property
    def qualified(self) -> str:
        """`scope::name`."""
        return f"{self.scope}::{self.name}" if self.scope else self.name

    @property
    def kernel(self) -> bool:
        """Whether it is a `__global__` function."""
        return "__global__" in self.words

    @property
    def device(self) -> bool:
        """Whether it is marked as one that runs on the device."""
        return bool(self.words & {"__global__", "__device__"})


@dataclass(frozen=True, slots=True)
class Record:
    """A struct, class or union with its body."""

    kind: str  # "struct", "class" or "union"
    name: str
    scope: str
    node: Node
    template: tuple[TemplateParameter, ...] | None
    # its data members in order, with those of unions and structs in it that have no name and no variable
    members: tuple[Variable, ...]
    spelled: str = ""  # of one without a name, its text, by which variables name it as their type; "" of others

    @property
    def qualified(self) -> str:
        """`scope::name`."""
        return f"{self.scope}::{self.name}" if self.scope else self.name


@dataclass(frozen=True, slots=True)
class Declarations:
    """What a source declares, each in the order of the text."""

    functions: tuple[Function, ...]
    records: tuple[Record, ...]
    variables: tuple[Variable, ...]
    aliases: tuple[tuple[str, str, Node], ...]

    def kernels(self) -> tuple[Function, ...]:
        """The `__global__` functions that have a body."""
        return tuple(one for one in self.functions if one.kernel and one.body is not None)


def declarations(source: Source) -> Declarations:
    """Everything that a source declares outside function bodies, members of classes included."""
    reader = _DeclarationReader(source)
    reader.read()
    return Declarations(tuple(reader.functions), tuple(reader.records), tuple(reader.variables), tuple(reader.aliases))


def local_aliases(source: Source) -> dict[str, str]:
    """The types that function bodies give a name, by that name; without those that stand for several."""
    reader = _DeclarationReader(source)
    for body in descendants(source.root, "compound_statement"):
        for node in body.named_children:
            if node.type in ("alias_declaration", "type_definition"):
                reader.alias(node, "", None)
    meant: dict[str, set[str]] = {}
    for name, text, _ in reader.aliases:
        meant.setdefault(name, set()).add(text)
    return {name: texts.pop() for name, texts in meant.items() if len(texts) == 1}


def head_words(source: Source, start: int, end: int) -> frozenset[str]:
    """The words of code between two offsets, the source's macros expanded."""
    found: set[str] = set()
    open_ones = _WORD.findall(source.code.code[start:end].decode("utf-8", "replace"))
    while open_ones:
        word = open_ones.pop()
        if word not in found:
            found.add(word)
            if word in source.code.macros:
                open_ones += [one for body in source.code.macros[word].bodies for one in _WORD.findall(body)]
    return frozenset(found)


def template_parameters(source: Source, node: Node) -> tuple[TemplateParameter, ...]:
    """The parameters of a `template_declaration`."""
    listed = field(node, "parameters")
    return () if listed is None else tuple(_template_parameters(source, listed))


def _template_parameters(source: Source, listed: Node) -> Iterator[TemplateParameter]:
    for one in listed.named_children:
        if one.type in ("parameter_declaration", "optional_parameter_declaration", "variadic_parameter_declaration"):
            named = next(declared(source, one, "template"), None)
            default = field(one, "default_value")
            pack = one.type.startswith("variadic")
            kind = named.type if named else source.words(one)
            last = source.text(one).replace("...", " ").split()[-1] if pack else ""
            name = named.name if named else last
            yield TemplateParameter(name, kind, source.text(default) if default else "", pack, one)
        elif one.type.endswith("type_parameter_declaration") or one.type == "template_template_parameter_declaration":
            default = field(one, "default_type")
            names = [child for child in one.children if child.type == "type_identifier"]
            name = source.text(names[0]) if names else ""
            kind = "template" if one.type.startswith("template_template") else "typename"
            pack = one.type.startswith("variadic")
            yield TemplateParameter(name, kind, source.text(default) if default else "", pack, one)


class _DeclarationReader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.functions: list[Function] = []
        self.records: list[Record] = []
        self.variables: list[Variable] = []
        self.aliases: list[tuple[str, str, Node]] = []
        self.ends = [match.start() for match in _ENDS.finditer(source.code.code)]
        self.waiting: list[tuple[Node, str, Node | None, tuple[TemplateParameter, ...] | None, bool]] = []

    def read(self) -> None:
        """Everything, in the order of the text: what waits is what stands inside what was read."""
        self.inside(self.source.root, "")
        while self.waiting:
            node, scope, outer, template, in_class = self.waiting.pop()
            if node.type in _TRANSPARENT:
                self.waiting += [(one, scope, outer, template, in_class) for one in reversed(node.named_children)]
            else:
                self.declaration(node, scope, outer, template, in_class)

    def inside(self, node: Node, scope: str, in_class: bool = False) -> None:
        """Let what a scope declares wait."""
        self.waiting += [(one, scope, None, None, in_class) for one in reversed(node.named_children)]

    def declaration(
        self, node: Node, scope: str, outer: Node | None, template: tuple[TemplateParameter, ...] | None, in_class: bool
    ) -> None:
        if node.type == "namespace_definition":
            name, body = field(node, "name"), field(node, "body")
            if body is not None:
                self.inside(body, joined(scope, self.source.text(name) if name else ""))
        elif node.type == "template_declaration":
            parameters = template_parameters(self.source, node)
            inner = [one for one in node.named_children if one.type != "template_parameter_list"]
            self.waiting += [(one, scope, outer or node, parameters, in_class) for one in reversed(inner)]
        elif node.type in _RECORDS:
            self.record(node, scope, template)
        elif node.type in ("function_definition", "declaration", "field_declaration"):
            held = field(node, "type")
            if held is not None and held.type in _RECORDS:
                self.record(held, scope, template)
            called = _function_declarator(node)
            if called is not None:
                self.function(node, called, scope, outer or node, template)
            elif node.type != "function_definition" and not in_class:
                self.variables += declared(self.source, node, "namespace")
        elif node.type in ("alias_declaration", "type_definition"):
            held = field(node, "type")
            if node.type == "type_definition" and held is not None and held.type in _RECORDS:
                typedef = next((one.name for one in declared(self.source, node) if not one.pointers), "")
                self.record(held, scope, template, typedef)
            self.alias(node, scope, outer)

    def record(self, node: Node, scope: str, template: tuple[TemplateParameter, ...] | None, typedef: str = "") -> None:
        body, name = field(node, "body"), field(node, "name")
        if body is None:
            return
        called = self.source.text(name) if name else typedef
        kind = node.type.partition("_")[0]
        spelled = "" if called else self.source.words(node)
        self.records.append(Record(kind, called, scope, node, template, tuple(self.members(body)), spelled))
        self.inside(body, joined(scope, called), in_class=True)

    def members(self, body: Node) -> Iterator[Variable]:
        """The data members of a record's body."""
        for one in body.named_children:
            if one.type == "field_declaration" and _function_declarator(one) is None:
                held = field(one, "type")
                if held is not None and held.type in _RECORDS and field(one, "declarator") is None:
                    inner = field(held, "body") if field(held, "name") is None else None
                    yield from self.members(inner) if inner is not None else ()
                yield from declared(self.source, one, "member")

    def head_start(self, outer: Node, node: Node) -> int:
        """Where the head of a declaration begins: after its template heads, or after what ends before it."""
        if outer.type == "template_declaration":
            return template_end(outer)
        code = self.source.code.code
        before = bisect.bisect_left(self.ends, node.start_byte)
        at = self.ends[before - 1] + 1 if before else 0
        return at + len(code[at : node.start_byte]) - len(code[at : node.start_byte].lstrip())

    def function(
        self, node: Node, called: Node, scope: str, outer: Node, template: tuple[TemplateParameter, ...] | None
    ) -> None:
        body = body_of(node)
        name_node = field(called, "declarator") or called
        name = self.source.words(name_node)
        space, _, plain = name.rpartition("::")
        listed = field(called, "parameters")
        parameters = [
            variable
            for one in (listed.named_children if listed is not None else ())
            if one.type.endswith("parameter_declaration")
            for variable in list(declared(self.source, one, "parameter"))[:1]
        ]
        begin = self.head_start(outer, node)
        words = head_words(self.source, begin, called.start_byte)
        kind = field(node, "type")
        self.functions.append(
            Function(
                plain,
                joined(scope, space),
                node,
                outer,
                outer.start_byte if outer.type == "template_declaration" else begin,
                template,
                tuple(parameters),
                body,
                words,
                self.source.words(kind) if kind is not None else "",
            )
        )

    def alias(self, node: Node, scope: str, outer: Node | None) -> None:
        if node.type == "alias_declaration":
            name, kind = field(node, "name"), field(node, "type")
            if name is not None and kind is not None:
                self.aliases.append((joined(scope, self.source.text(name)), self.source.words(kind), outer or node))
            return
        for one in declared(self.source, node, "namespace"):
            self.aliases.append((joined(scope, one.name), one.type + "*" * one.pointers, outer or node))


def template_end(outer: Node) -> int:
    """The offset after the template heads of a `template_declaration`; where any other node starts."""
    end, one = outer.start_byte, outer
    while one.type == "template_declaration":
        listed = field(one, "parameters")
        end = listed.end_byte if listed is not None else end
        inner = next((child for child in one.named_children if child.type == "template_declaration"), None)
        if inner is None:
            break
        one = inner
    return end


def _function_declarator(node: Node) -> Node | None:
    """The declarator of the function that a node declares; None for anything else."""
    one = field(node, "declarator")
    while one is not None:
        if one.type == "function_declarator":
            inner = field(one, "declarator")
            # `void (*f)(int)` is a variable.
            return None if inner is not None and inner.type == "parenthesized_declarator" else one
        if one.type == "init_declarator":
            return None
        one = field(one, "declarator") or next(
            (child for child in one.named_children if child.type == "function_declarator"), None
        )
    return None
