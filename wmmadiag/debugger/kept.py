"""The same source compiled so that local variables keep their values: `keep` at the prompt.

An optimiser leaves no register for what it folds away, and no record of which register holds the rest. So the source is
compiled once more with markers in it: inline assembly that copies a variable wherever it may have got a value, and one
before each statement, to stop at. They read and change nothing, stay in the order of the text, and move no line. What a
warp's last marker of a variable copied is its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wmmadiag.compile.ask.answers import TypeFacts, Unanswered
from wmmadiag.compile.ask.asking import ask
from wmmadiag.compile.ask.questions import AskedSource, TypeOf
from wmmadiag.compile.ask.scope import scope_at
from wmmadiag.compile.model import Compilation
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.origin import remember
from wmmadiag.compile.ptx_scan import mapped_columns
from wmmadiag.csource.declarations import Function
from wmmadiag.csource.edits import ByteEdit, applied
from wmmadiag.csource.nodes import LOOPS, Node, ancestors, at, descendants
from wmmadiag.csource.nodes import field as part_of
from wmmadiag.csource.writes import Write
from wmmadiag.debugger.declared import DeclaredFile, DeclaredLocal
from wmmadiag.debugger.kept_values import copied
from wmmadiag.debugger.local_variables import NotKeptError
from wmmadiag.debugger.session import Session
from wmmadiag.errors import CompileError, ConfigurationError
from wmmadiag.place import Place
from wmmadiag.subject.compiling import SubjectCompiler

HEADER = Path(__file__).with_name("keep.cuh")
PREFIX = "wmmadiag_keep_"
"""What its registers' names begin with; a marker before a statement writes `lines.HERE`."""
_VALUE = "wmmadiag_value_"
_HERE = " WMMADIAG_HERE"
_MOST = 10_000
"""Times that a warp comes to a line, as far as they are counted."""
_TRIES = 12
"""Compilations, each without the markers of a line that the one before did not take."""
_BLOCKS = frozenset(
    {"compound_statement", "case_statement", "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif"}
)
_CONTROL = LOOPS | {"if_statement", "switch_statement"}
_SIMPLE = frozenset(
    {"expression_statement", "declaration", "return_statement", "break_statement", "continue_statement"}
)
_ENDS = frozenset({"return_statement", "function_definition", "lambda_expression"})


class KeepingCompiler(SubjectCompiler):
    """Compiles a session's source with markers in it.

    Args:
        asked: an expression whose value is copied, too, before the first statement of the line at a place.

    Attributes:
        kept: the variables that have markers.
    """

    def __init__(self, session: Session, asked: tuple[Place, str] | None = None) -> None:
        super().__init__(use_cache=session.target.use_cache)
        self.session = session
        self.asked = asked
        self.kept: dict[tuple[str, int], str] = {}

    def __call__(self, path: Path, options: CompileOptions) -> Compilation:
        """Compile it; what a marker cannot be made of stays without.

        Raises:
            ConfigurationError: it does not compile with markers.
        """
        session = self.session
        marked = {file.name: _Marked(file) for file in session.declared.files.values()}
        for number, local in enumerate(session.declared.locals):
            if local.variable.name not in session.fragment_names:
                name = f"{PREFIX}{number}_"
                if marked[local.file.name].keep(local, name):
                    self.kept[local.file.name, local.variable.declarator.start_byte] = name
        asked = self.asked
        if asked is not None:
            marked[asked[0].file].ask(asked[0].line, asked[1])
        options = replace(options, extra=(*options.extra, f"--pre-include={HEADER.as_posix()}"))
        left_out: set[tuple[str, int]] = set()
        for _ in range(_TRIES):
            edits = {name: one.edits(left_out) for name, one in marked.items()}
            texts = {
                Path(name).resolve(): applied(one.file.source.data, edits[name]).decode("utf-8", "surrogateescape")
                for name, one in marked.items()
                if edits[name]
            }
            try:
                made = self.changed(path, options, texts)
            except CompileError as error:
                place = error.place
                if place is not None and asked is not None and place.line == asked[0].line:
                    raise ConfigurationError(
                        f"the compiler does not take '{asked[1]}' at line {place.line}", detail=error.detail,
                        hint="write what the source could have there; `info variables` lists names",
                    ) from None  # fmt: skip
                if place is None or place.file not in marked or (place.file, place.line) in left_out:
                    raise _refused(error) from None
                left_out.add((place.file, place.line))
                continue
            data = {name: one.file.source.data for name, one in marked.items()}
            ptx = mapped_columns(made.ptx, _columns(data, edits))
            made = replace(made, ptx=ptx, text=session.target.compilation.text)
            remember(made)
            return made
        raise _refused(None)


def _refused(error: CompileError | None) -> ConfigurationError:
    return ConfigurationError(
        "the source does not compile with markers for its variables",
        detail=error.detail if error is not None else "",
        hint="`why` and `print %REGISTER` show what there is",
    )


@dataclass(eq=False)
class _Marked:
    """A file with markers to be put into it."""

    file: DeclaredFile
    before: dict[int, list[str]] = field(
        default_factory=dict
    )  # node → what comes before it, behind it, or as the first
    behind: dict[int, list[str]] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)
    functions: set[int] = field(default_factory=set)

    def keep(self, local: DeclaredLocal, name: str) -> bool:
        """Mark each place at which a variable may get a value; False where they are not all known."""
        variable = local.variable
        elsewhere = variable.dimensions or variable.shared or variable.reference
        if elsewhere or "static" in variable.words or self._escapes(local):
            return False
        mark = f" WMMADIAG_KEEP({name}, {variable.name})"
        if local.function.node.id not in self.functions:
            self.functions.add(local.function.node.id)
            self._stops(local.function)
        for node in self._changing(local):
            self._mark(node, mark, variable.node)
        return True

    def ask(self, line: int, text: str) -> None:
        """Copy an expression's value before the first statement of a line.

        Raises:
            ConfigurationError: no statement begins there.
        """
        here = [
            one
            for one in self.nodes.values()
            if one.start_point[0] + 1 == line and _HERE in self.before.get(one.id, ())
        ]
        if not here:
            raise ConfigurationError(f"no statement begins at line {line}", hint="stop before one: break LINE, run")
        copy = f" {{ const auto wmmadiag_value = ({text}); WMMADIAG_KEEP({_VALUE}, wmmadiag_value) }}"
        self.before[min(here, key=lambda one: one.start_byte).id].insert(0, copy)

    def edits(self, left_out: set[tuple[str, int]]) -> list[ByteEdit]:
        """The changes of the text, those on lines left out apart; a statement in no block gets one of its own."""
        ends: list[ByteEdit] = []
        starts: list[ByteEdit] = []
        nodes = [one for one in self.nodes.values() if self._taken(one, left_out)]
        for node in sorted(nodes, key=lambda one: (one.end_byte, -one.start_byte)):
            text = "".join(self.behind.get(node.id, ())) + " }" * _alone(node)
            if text:
                ends.append(ByteEdit(node.end_byte, node.end_byte, text))
        for node in sorted(nodes, key=lambda one: (one.start_byte, -one.end_byte)):
            text = "{" * _alone(node) + "".join(f"{one} " for one in self.before.get(node.id, ()))
            at = node.start_byte + (node.type == "compound_statement")
            if text:
                starts.append(ByteEdit(at, at, text))
        return [*ends, *starts]

    # Inside

    def _taken(self, node: Node, left_out: set[tuple[str, int]]) -> bool:
        lines = (node.start_point[0] + 1, node.end_point[0] + 1)
        return all((self.file.name, line) not in left_out for line in lines)

    def _escapes(self, local: DeclaredLocal) -> bool:
        """Whether something else may write it: a reference to it, or a pointer that is no argument of a call."""
        pointed = any(found.node.type == "pointer_expression" for found in self._writes(local))
        return pointed or self.file.aliased(local.variable)

    def _writes(self, local: DeclaredLocal) -> Sequence[Write]:
        return [one for one in self.file.writes(local.function) if self.file.variable(one.name) == local.variable]

    def _changing(self, local: DeclaredLocal) -> Iterator[Node]:
        if local.variable.value is not None or local.variable.node.type == "for_range_loop":
            yield local.variable.node
        for one in self._writes(local):
            yield one.node

    def _mark(self, node: Node, mark: str, declaration: Node) -> None:
        for one in (node, *ancestors(node)):
            if one.type in _ENDS:
                return
            if one.type == "expression_statement" or (one.type == "declaration" and _in_block(one)):
                self._add(self.behind, one, mark)
                return
            if one.type in _CONTROL:
                for body in _bodies(one):
                    self._add(self.before, body, mark)
                if not one.start_byte <= declaration.start_byte < one.end_byte:
                    self._add(self.behind, one, mark)
                return

    def _stops(self, function: Function) -> None:
        """A place to stop before each statement; before a loop only where no pragma or macro can stand for it."""
        for node in descendants(function.node, *(_SIMPLE | _CONTROL)):
            head = node.type == "declaration" and _alone(node)
            if self._follows(node) if node.type in LOOPS else not head and (_in_block(node) or node.type in _SIMPLE):
                self._add(self.before, node, _HERE)

    def _follows(self, node: Node) -> bool:
        """Whether a statement stands in a block right behind another, or is its first."""
        other = node.prev_sibling
        if other is None or not _in_block(node) or other.type.startswith("preproc") or other.has_error:
            return False
        return not self.file.source.code.code[other.end_byte : node.start_byte].strip()

    def _add(self, where: dict[int, list[str]], node: Node, text: str) -> None:
        self.nodes[node.id] = node
        held = where.setdefault(node.id, [])
        if text not in held:
            held.append(text)


def _in_block(node: Node) -> bool:
    return node.parent is not None and node.parent.type in _BLOCKS


def _alone(node: Node) -> bool:
    """Whether it is a statement that a head decides about without braces."""
    return node.type != "compound_statement" and not _in_block(node)


def _bodies(control: Node) -> Iterator[Node]:
    """The statements that a head decides about."""
    for name in ("body", "consequence", "alternative"):
        body = part_of(control, name)
        if body is not None and body.type == "else_clause":
            body = body.named_children[-1]
        if body is not None:
            yield body


def _columns(data: Mapping[str, bytes], edits: Mapping[str, Sequence[ByteEdit]]) -> Callable[[str, int, int], int]:
    """From (file, line, column) of the texts with markers to the column of the user's text."""
    inserted: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for name, some in edits.items():
        for one in sorted(some, key=lambda each: each.start):
            line = data[name].count(b"\n", 0, one.start) + 1
            column = one.start - (data[name].rfind(b"\n", 0, one.start) + 1)
            inserted.setdefault((name, line), []).append((column, len(one.text.encode("utf-8", "surrogateescape"))))

    def mapped(file: str, line: int, column: int) -> int:
        shift = 0
        for first, length in inserted.get((file, line), ()):
            if column - 1 <= first + shift:
                break
            shift += min(length, column - 1 - first - shift)
        return column - shift

    return mapped


def kept(session: Session) -> Session:
    """A session on the same launch whose variables are kept, where the given one stands: the same block and warp before
    the same line, the same time of all that the warp comes there.

    Raises:
        ConfigurationError: it is PTX, or the source does not compile with markers.
    """
    if session.target.kept:
        raise ConfigurationError("the variables are kept already", hint="`info variables` lists them")
    if not session.declared.files:
        raise ConfigurationError("there is no CUDA source to compile again", hint="`print %REGISTER` shows a register")
    made = Session(session.target.keeping(KeepingCompiler(session)), memory_limit=session.machine.memory_use.limit)
    made.other = session.other
    moment = session.moment
    if moment.place is None or not moment.place.line or moment.time == 0:
        return made
    place = f"{Path(moment.place.file).name}:{moment.place.line}"
    came = max(_times(session, place), 1)
    try:
        made.run_to(line=place, block=moment.block, warp=moment.warp, count=came)
    except ConfigurationError:  # the line has no code of its own here
        made.select(block=moment.block, warp=moment.warp)
    if made.finished:
        made.seek(0)
        made.run_to(line=place, block=moment.block, warp=moment.warp)
    made.lane = moment.lane
    return made


def evaluated(session: Session, text: str) -> Any:
    """What an expression of the source gives for the selected lane, before the statement that it stands at: compiled
    there, and run in a launch of its own up to the same time that the warp comes there.

    Raises:
        NotKeptError: the session's source is compiled as it is.
        ConfigurationError: the compiler refuses it, or it is no number.
    """
    if not session.target.kept:
        raise NotKeptError(
            f"'{text}' is more than arithmetic on names and elements",
            hint="`keep` compiles the source so that any expression can be asked for",
        )
    standing = session.standing()
    place = None if standing is None else session.lines.places[standing.pc]
    if place is None or place.file not in session.declared.files:
        raise ConfigurationError("there is no source line here", hint="go to one first: break LINE, run")
    line = f"{Path(place.file).name}:{place.line}"
    facts = _type(session, place, text)
    made = Session(session.target.keeping(KeepingCompiler(session, (place, text))))
    came = _times(session, line)
    if not came:
        raise ConfigurationError(
            f"warp {session.warp} has not come to line {place.line}", hint=f"break {place.line}, run"
        )
    made.run_to(line=line, block=session.block, warp=session.warp, count=came)
    if made.moment.reason == "fault":
        raise ConfigurationError(f"'{text}' cannot be computed here: {made.moment.words}", hint="`info variables`")
    made.warp, made.lane = session.warp, session.lane
    found = copied(made, _VALUE, facts)
    if found is None or found.values.ndim != 1:
        raise ConfigurationError(f"'{text}' is no number", hint="ask for a part of it")
    return found.values[session.lane]


def _type(session: Session, place: Place, text: str) -> TypeFacts:
    """The type of an expression on a line.

    Raises:
        ConfigurationError: it is none of a number or a pointer.
    """
    file = session.declared.files[place.file]
    node = at(file.source.root, file.source.line_span(place.line)[1] - 1)
    compilation = session.target.compilation
    question = TypeOf(text, scope_at(file.source, node, text, file.bindings(node, place.function), every=True), True)
    try:
        found = ask(AskedSource(compilation.text, compilation.source, compilation.options), [question])[question]
    except CompileError:
        found = None
    if isinstance(found, TypeFacts) and found.size in (1, 2, 4, 8):
        return found
    why = f": {found.reason}" if isinstance(found, Unanswered) else ""
    raise ConfigurationError(f"'{text}' is no number here{why}", hint="`info variables` lists the names")


def _times(session: Session, line: str) -> int:
    """How often the selected warp has come to a line in its block, now included."""
    machine, warp = session.machine, session.warp
    conditions = session.conditions(line=line, block=machine.block, warp=warp)
    came = 0
    with machine.returning() as now:
        machine.seek(machine.block_starts[-1])
        while came < _MOST:
            standing = machine.next  # where it stands already a run does not stop
            came += int(standing is not None and standing.warp == warp and bool(conditions.before[standing.pc]))
            if machine.time >= now or machine.run(replace(conditions, until=now)).reason not in ("instruction", "time"):
                break
    return came
