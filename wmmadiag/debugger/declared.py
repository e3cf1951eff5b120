"""What the user's sources declare, for a kernel that is stopped: trees, variables, and which lines depend on which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from wmmadiag.compile.languages import is_c_family
from wmmadiag.compile.names import template_arguments
from wmmadiag.csource.declarations import Function, declarations, template_parameters
from wmmadiag.csource.dependences import Dependences
from wmmadiag.csource.nodes import Node, ancestors, descendants, field
from wmmadiag.csource.scopes import Scopes
from wmmadiag.csource.tree import Source, parse
from wmmadiag.csource.variables import Variable
from wmmadiag.csource.writes import Write, base, writes
from wmmadiag.debugger.lines import SourceLines, plain_function
from wmmadiag.place import Place

_RECORDS = ("struct_specifier", "class_specifier", "union_specifier")


@dataclass(frozen=True, eq=False)
class DeclaredFile:
    """One file of the user's."""

    source: Source  # its tree

    @property
    def name(self) -> str:
        """Its path, as instructions have it."""
        return self.source.name

    @cached_property
    def scopes(self) -> Scopes:
        """Which names are visible where."""
        return Scopes(self.source)

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Those with a body."""
        return tuple(one for one in declarations(self.source).functions if one.body is not None)

    def variable(self, name: Node) -> Variable | None:
        """What an identifier stands for."""
        return self.scopes.at(name.start_byte).get(self.source.text(name))

    def function_of(self, node: Node) -> Function | None:
        """The function that a node stands in."""
        around = {one.id for one in (node, *ancestors(node)) if one.type == "function_definition"}
        return next((one for one in reversed(self.functions) if one.node.id in around), None)

    def bindings(self, node: Node, instance: str) -> Mapping[str, str]:
        """Template parameter → its argument, where a node stands; `instance`: its function as it runs."""
        function = self.function_of(node)
        found: dict[str, str] = {}
        for head in ancestors(function.node) if function is not None else ():
            if head.type == "template_declaration" and function is not None:
                record = next(descendants(head, *_RECORDS), None)
                name = field(record, "name") if record is not None else None
                held = self.source.text(name) if name is not None else function.name
                given = template_arguments(instance, held)
                found |= {
                    one.name: text for one, text in zip(template_parameters(self.source, head), given, strict=False)
                }
        return found

    def writes(self, function: Function) -> Sequence[Write]:
        """What a function may write, by the calls of the file's own functions, too."""
        known: dict[str, list[Function]] = {}
        for one in self.functions:
            known.setdefault(one.name, []).append(one)
        return list(writes(function.node, known))

    def aliased(self, variable: Variable) -> bool:
        """Whether a reference is declared that stands for it."""
        names = (base(one.variable.value) for one in self.scopes.extents if one.variable.reference)
        return any(name is not None and self.variable(name) == variable for name in names)

    def line(self, variable: Variable) -> int:
        """The line of a declaration."""
        return self.source.place(variable.node).line


@dataclass(frozen=True, eq=False)
class DeclaredLocal:
    """A local variable of a function that the kernel runs."""

    file: DeclaredFile
    variable: Variable
    function: Function
    instance: str  # the function with its template arguments, "void copy<64>(half *)"; "" where it runs with several


class SourceDeclarations:
    """What the sources of a kernel declare."""

    def __init__(self, lines: SourceLines) -> None:
        self._lines = lines

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """The trees of the user's files, by file."""
        files = {place.file for place in self._lines.places if place.line} | {self._lines.main}
        texts = {file: "\n".join(self._lines.text(file)) for file in files}
        return {file: parse(text, file) for file, text in texts.items() if text and is_c_family(file)}

    @cached_property
    def dependences(self) -> Dependences:
        """Which lines depend on which."""
        return Dependences(self.sources)

    @cached_property
    def files(self) -> Mapping[str, DeclaredFile]:
        """What each file declares."""
        return {file: DeclaredFile(source) for file, source in self.sources.items()}

    @cached_property
    def locals(self) -> tuple[DeclaredLocal, ...]:
        """The local variables of the functions that have code, arrays included, in the order of the text."""
        return tuple(one for file in self.files.values() for one in self._locals(file))

    def local_at(self, name: str, place: Place) -> DeclaredLocal | None:
        """The local variable that a name means on a line; `place.function` says in which instance."""
        file = self.files.get(place.file)
        if file is None:
            return None
        variable = file.scopes.at(file.source.line_span(place.line)[1]).get(name)
        function = file.function_of(variable.node) if variable is not None and variable.kind == "local" else None
        if variable is None or function is None:
            return None
        instance = place.function if plain_function(place.function) == function.name else ""
        return DeclaredLocal(file, variable, function, instance or self._instance(function))

    def _locals(self, file: DeclaredFile) -> Iterator[DeclaredLocal]:
        lines = set(self._lines.code_lines.get(file.name, ()))
        for function in file.functions:
            first, last = file.source.place(function.node).line, function.node.end_point[0] + 1
            if lines.isdisjoint(range(first, last + 1)):
                continue
            start, end = function.node.start_byte, function.node.end_byte
            for extent in file.scopes.extents:
                one = extent.variable
                if one.kind == "local" and one.name and start <= one.node.start_byte < end:
                    yield DeclaredLocal(file, one, function, self._instance(function))

    def _instance(self, function: Function) -> str:
        found = self._instances.get(function.name, frozenset())
        return next(iter(found)) if len(found) == 1 else ""

    @cached_property
    def _instances(self) -> Mapping[str, frozenset[str]]:
        """Name of a function → it with its template arguments, as it runs."""
        texts = {frame.function for node in self._lines.kernel.nodes for frame in node.place.frames()}
        names = {text: plain_function(text) for text in texts}
        return {name: frozenset(text for text in texts if names[text] == name) for name in set(names.values())}
