"""The files of a program, expanded and parsed, and what they declare, by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from wmmadiag.csource.declarations import Function, Record, declarations, template_parameters
from wmmadiag.csource.lexical import Macro
from wmmadiag.csource.nodes import Node, ancestors, descendants, walk
from wmmadiag.csource.nodes import field as child
from wmmadiag.csource.tree import Source, parse
from wmmadiag.csource.variables import Variable
from wmmadiag.hostcode.expansion import defined, expanded
from wmmadiag.hostcode.types import split_template

if TYPE_CHECKING:
    from pathlib import Path

    from wmmadiag.compile.sources import SourceTree

Site: TypeAlias = tuple[str, int]
"""A place in a file: its name, and an offset."""


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A function with the file that it stands in."""

    source: Source
    function: Function

    @property
    def host(self) -> bool:
        """Whether host code may call it."""
        words = self.function.words
        return not self.function.kernel and ("__host__" in words or "__device__" not in words)


@dataclass(frozen=True, slots=True)
class Class:
    """A struct, class or union with the file that it stands in."""

    source: Source
    record: Record


@dataclass(frozen=True, slots=True)
class Alias:
    """What a type's name stands for; `parameters` of an alias template; `qualified`: the name outside its namespace."""

    text: str
    parameters: tuple[str, ...] = ()
    qualified: str = ""


@dataclass(slots=True)
class HostProgram:
    """A source with the user's own headers, headers first."""

    sources: tuple[Source, ...]
    macros: Mapping[str, Macro]  # those that are left as names of values
    # by plain name, kernels and device functions among them
    functions: dict[str, list[HostFunction]] = field(default_factory=dict)
    # classes, aliases, variables, enumerators: of namespaces and classes, by plain name
    classes: dict[str, list[Class]] = field(default_factory=dict)
    aliases: dict[str, Alias] = field(default_factory=dict)
    variables: dict[str, tuple[Source, Variable]] = field(default_factory=dict)
    enumerators: dict[str, tuple[Source, Node]] = field(default_factory=dict)
    enums: dict[str, str] = field(default_factory=dict)  # plain name → qualified name
    _instantiations: dict[str, list[Node]] = field(default_factory=dict)
    _reach: dict[str, frozenset[Site]] = field(default_factory=dict)
    _tables: dict[str, frozenset[Site]] = field(default_factory=dict)
    _sites: dict[tuple[str, int, int], frozenset[Site]] = field(default_factory=dict)

    def instantiations(self, source: Source) -> Sequence[Node]:
        """The explicit instantiations of templates in a file: `template void launch<half>(…);`."""
        if source.name not in self._instantiations:
            self._instantiations[source.name] = list(descendants(source.root, "template_instantiation"))
        return self._instantiations[source.name]

    def instantiated(self, template: HostFunction) -> list[str]:
        """The name expressions of a function template's explicit instantiations, each once: `launch<half>`."""
        found = [
            (source, next(descendants(one, "template_function"), None))
            for source in self.sources for one in self.instantiations(source)
        ]  # fmt: skip
        texts = [source.words(node).partition("<") for source, node in found if node is not None]
        own = [arguments for name, _, arguments in texts if name.split("::")[-1].strip() == template.function.name]
        return [f"{template.function.qualified}<{one}" for one in dict.fromkeys(own)]

    def kernels(self, name: str = "") -> list[HostFunction]:
        """The kernels of a plain name, those with a body first; all without one."""
        listed = self.functions.get(name, []) if name else [one for each in self.functions.values() for one in each]
        return sorted((one for one in listed if one.function.kernel), key=lambda one: one.function.body is None)

    def is_kernel(self, name: str) -> bool:
        """Whether a plain name is that of a kernel."""
        return any(one.function.kernel for one in self.functions.get(name, ()))

    def host_functions(self) -> Iterator[HostFunction]:
        """The host functions that have a body, in the order of the text."""
        for each in self.functions.values():
            yield from (one for one in each if one.host and one.function.body is not None)

    def sites(self, source: Source, node: Node | None) -> frozenset[Site]:
        """The places under a node, and in functions that it calls, that name a kernel or choose an instantiation."""
        if node is None:
            return frozenset()
        key = source.name, node.start_byte, node.end_byte
        if key not in self._sites:
            self._sites[key] = self._named_under(source, node)
        return self._sites[key]

    def _named_under(self, source: Source, node: Node) -> frozenset[Site]:
        found: set[Site] = set()
        for one in walk(node):
            if one.type in ("identifier", "field_identifier", "type_identifier"):
                name = (one.text or b"").decode("utf-8", "replace")
                if self.is_kernel(name):
                    if not _is_local(source, one, name):
                        found.add((source.name, one.start_byte))
                    if _is_plainly_called(one):  # a function of the same name
                        found |= self._reached(name)
                elif name in self.functions and (reached := self._reached(name)):
                    found |= reached
                    if one.parent is not None and one.parent.type == "template_function":
                        found.add((source.name, one.start_byte))  # with other arguments it launches another kernel
                elif name in self.variables and one.type == "identifier":
                    found |= self._listed(name)
        return frozenset(found)

    def _listed(self, name: str) -> frozenset[Site]:
        """The kernels in the initialiser of a variable at namespace scope: a table of instantiations."""
        if name not in self._tables:
            self._tables[name] = frozenset()  # of one that names itself
            source, variable = self.variables[name]
            self._tables[name] = self.sites(source, variable.value)
        return self._tables[name]

    def _reached(self, name: str) -> frozenset[Site]:
        if name not in self._reach:
            self._reach[name] = frozenset()  # of a recursion
            own = [self.sites(one.source, one.function.body) for one in self.functions[name] if one.host]
            self._reach[name] = frozenset().union(*own)
        return self._reach[name]


def _is_plainly_called(name: Node) -> bool:
    """Whether a name is called as a function, without `<<<…>>>`."""
    outer = name.parent
    if outer is None or outer.type != "call_expression" or outer.child_by_field_name("function") != name:
        return False
    return all(one.type != "kernel_call_syntax" for one in outer.children)


def read_program(text: str, file: str, include_paths: Sequence[Path], defines: Mapping[str, str | None]) -> HostProgram:
    """A source with the headers of its own that it includes, macros expanded.

    Args:
        defines: macros of the command line.
    """
    from wmmadiag.compile.sources import read_tree

    tree = read_tree(text, file, include_paths, lambda _: False)
    known: dict[str, Macro] = {}
    parsed: list[Source] = []
    before = _defined_before(tree, defines)
    for one in reversed(tree.with_kernels()):  # a header's macros hold in what includes it
        here = expanded(one.text, {**known, **before.get(one.key, {})}, defines)
        known |= here.macros
        parsed.append(parse(here.text, one.name, known))
    program = HostProgram(tuple(parsed), known)
    for source in parsed:
        _declare(program, source)
    return program


def _defined_before(tree: SourceTree, defines: Mapping[str, str | None]) -> dict[str, Mapping[str, Macro]]:
    """The macros that the file around defines before it includes a header, by the header's key: `#define USE_BF16`."""
    found: dict[str, Mapping[str, Macro]] = {}
    files = tree.with_kernels()
    inner = {one.key for one in files}
    for one in files:
        around = found.get(one.key, {})
        for directive in one.directives:
            target = tree.targets.get((one.key, directive.start), "")
            if target in inner and target not in found:
                text = one.data[: directive.start].decode("utf-8", "surrogateescape")
                found[target] = {**around, **defined(text, around, defines)}
    return found


def _declare(program: HostProgram, source: Source) -> None:
    found = declarations(source)
    for function in found.functions:
        program.functions.setdefault(function.name, []).append(HostFunction(source, function))
    for record in found.records:
        program.classes.setdefault(split_template(record.name)[0], []).append(Class(source, record))
    for variable in found.variables:
        program.variables.setdefault(variable.name, (source, variable))
    for name, text, node in found.aliases:
        if "{" in text:  # typedef struct {…} Name;
            own = [one for one in found.records if node.start_byte <= one.node.start_byte < node.end_byte]
            if own:
                program.classes.setdefault(name.rpartition("::")[2], []).append(Class(source, own[0]))
            continue
        parameters = template_parameters(source, node) if node.type == "template_declaration" else ()
        names = tuple(one.name for one in parameters)
        program.aliases.setdefault(name.rpartition("::")[2], Alias(text, names, name))
    for one in descendants(source.root, "enum_specifier"):
        called = child(one, "name")
        if called is not None:
            program.enums[source.text(called)] = "::".join([*_around(source, one), source.text(called)])
    for one in descendants(source.root, "enumerator"):
        called = child(one, "name")
        if called is not None:
            program.enumerators.setdefault(source.text(called), (source, one))
    for record in found.records:  # constants of classes without template parameters, too
        for member in record.members:
            if record.template is None and member.value is not None and {"static", "constexpr"} & member.words:
                program.variables.setdefault(member.name, (source, member))


def _is_local(source: Source, node: Node, name: str) -> bool:
    """Whether a name is that of a variable of the function around it."""
    if node.type != "identifier" or node.parent is None or node.parent.type in ("template_function", "call_expression"):
        return False
    outer = next((one for one in ancestors(node) if one.type == "function_definition"), None)
    kinds = ("init_declarator", "parameter_declaration", "pointer_declarator", "reference_declarator")
    held = (child(one, "declarator") for one in descendants(outer, *kinds)) if outer is not None else ()
    return any(one is not None and one.type == "identifier" and source.text(one) == name for one in held)


def _around(source: Source, node: Node) -> list[str]:
    """The names of the namespaces and classes around a node, the outermost first."""
    kinds = ("namespace_definition", "struct_specifier", "class_specifier")
    named = [child(one, "name") for one in ancestors(node) if one.type in kinds]
    return [source.text(one) for one in reversed(named) if one is not None]


def plain_name(text: str) -> str:
    """The last part of a qualified name, template arguments aside."""
    return re.sub(r"<.*", "", text, flags=re.DOTALL).rpartition("::")[2].strip()
