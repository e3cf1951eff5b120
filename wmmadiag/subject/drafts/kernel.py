"""What a source says of one kernel: its parameters, the launch that host code makes, and the code that it runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from wmmadiag.csource.declarations import TemplateParameter
from wmmadiag.errors import ConfigurationError
from wmmadiag.hostcode.classes import bind_parameters
from wmmadiag.hostcode.events import HostLaunch, Product
from wmmadiag.hostcode.host import HostRun
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.names import parsed_expression
from wmmadiag.hostcode.program import HostFunction, HostProgram, plain_name
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import Number, SymbolValues, Term
from wmmadiag.hostcode.types import bytes_of, plain, split_list, split_template
from wmmadiag.hostcode.values import Pointer, TypeName, Value
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.guards import Tiling, tiling
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.host_read import HostRead, read_host, runs_of
from wmmadiag.subject.drafts.instantiations_beside import most_telling_first
from wmmadiag.subject.drafts.kernel_constants import file_constants, known_constants, threads_along_x
from wmmadiag.subject.drafts.kernel_types import (
    carried,
    laying,
    name_extents_of_accessors,
    parameters_of,
    spelled_out,
    typed,
    used,
)
from wmmadiag.subject.drafts.likeliest_launch import (
    is_null,
    launched_in_one_way,
    likeliest_launch,
    name_expression,
    other_instantiations,
)
from wmmadiag.subject.drafts.other_shape import OtherShape, other_numbers
from wmmadiag.subject.drafts.structs import taken_apart
from wmmadiag.subject.drafts.which_kernel import chosen_kernel, chosen_remark
from wmmadiag.subject.together import LaunchSteps

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class SourceKernel:
    """One kernel and how it is launched."""

    entry: str  # its name or name expression; `{expression}` in it is over host symbols
    # in order, structs taken apart; `passed`: what the launch gives for each, None where nobody does
    parameters: tuple[DraftParameter, ...]
    passed: tuple[Value | None, ...] = ()
    launch: HostLaunch | None = None  # the best one, None where host code makes none; `machine`: the run that made it
    machine: Machine | None = None
    products: tuple[Product, ...] = ()  # what libraries multiply in that run
    # of the kernel's template parameters and of the constants that its code names
    constants: Mapping[str, Number] = field(default_factory=dict)
    code: str = ""  # what it runs, as text. bounds: the arguments of its `__launch_bounds__`.
    text: str = ""
    bounds: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()  # what was chosen where the source has several, each a clause
    # host symbols that the kernel's own code names, too, or for one value of which alone the launch is known
    fixed: frozenset[str] = frozenset()
    named: Mapping[str, Number] = field(default_factory=dict)  # numbers that the files name besides
    tiling: Tiling = field(default_factory=Tiling)  # how its code goes over its numbers
    # template parameters that nothing in the source gives a value: its own, or of the function that launches it
    uninstantiated: tuple[TemplateParameter, ...] = ()
    declared: HostFunction | None = None  # its definition
    host: HostRead | None = None  # what it was read from: another instantiation of it is read from the same
    commented: bool = False  # whether the launch stands in a comment: nobody says that it is made so
    stages: tuple[str, ...] = ()  # its instantiations, where one way through the host code launches several
    others: tuple[str, ...] = ()  # further instantiations that host code launches, or that the source asks for
    counted: tuple[str, ...] = ()  # host symbols of which nobody says a value, and one was taken
    beside: tuple[str, ...] = ()  # other kernels that host code launches, where nobody said which one is meant
    together: LaunchSteps | None = None  # of the kernels of one host function that are judged as one: what it launches
    # another shape in which host code launches it, too; varied: the host symbols that are other numbers in it
    other_shape: OtherShape = field(default_factory=OtherShape)
    varied: frozenset[str] = frozenset()

    def in_other_shape(self) -> SourceKernel:
        """The kernel as host code launches it in another shape, too."""
        assert self.machine is not None
        machine = replace(self.machine, usual={**self.machine.usual, **self.other_shape.numbers})
        return replace(self, machine=machine, tiling=self.other_shape.tiling, other_shape=OtherShape())

    @property
    def usual(self) -> SymbolValues:
        """Usual values of host symbols."""
        return self.machine.usual if self.machine is not None else {}


def with_types(source: GivenSource, kernel: SourceKernel, types: Mapping[str, str]) -> HostRead:
    """The source as read for a kernel, with the function around its launch run again with types for its template's.

    Args:
        types: what open template parameters stand for, the kernel's or those of the function, by name.
    """
    host, launch, declared = kernel.host, kernel.launch, kernel.declared
    assert host is not None and launch is not None and declared is not None
    template = declared.function.template or ()
    pairs = list(zip(template, launch.kernel.arguments, strict=False))
    around = {value: types[one.name] for one, value in pairs if one.name in types}
    around |= {name: told for name, told in types.items() if name not in {one.name for one, _ in pairs}}
    return replace(host, runs=runs_of(source, host, launch.root, around), types=around)


def _names_to_choose(kernels: Sequence[str], host: HostRead) -> str:
    """The kernels, and the functions of the host that launch several of them, for a message."""
    several = dict.fromkeys(
        run.machine.root for run in host.runs if len(run.launches) > 1 and run.machine.root != "main"
    )
    both = {"kernels": [*kernels], "functions that launch several of them": [*several]}
    return "\n".join(f"{what}: {', '.join(names)}" for what, names in both.items() if names)


def read_kernel(
    source: GivenSource,
    host: HostRead | None = None,
    *,
    comments: bool = True,
    launched: tuple[HostLaunch, HostRun] | None = None,
) -> SourceKernel:
    """A kernel of a CUDA source: the one that is named, or the one that is meant.

    Args:
        host: the source as it was read for another instantiation.
        comments: whether a launch that stands in a comment is taken where no host code makes any.
        launched: the launch that is taken, of the kernel that the source's options name.

    Raises:
        ConfigurationError: there is no kernel, no such kernel, or several and none is named.
    """
    from wmmadiag.compile.kernel_code import kernel_code, multiplies

    host = host or read_host(source)
    program, whole = host.program, host.whole
    every = [one for one in program.kernels() if one.function.body is not None]
    names = list(dict.fromkeys(one.function.qualified for one in every))
    launches = [(one, run) for run in host.runs for one in run.launches]
    entry, remarks, beside = source.options.entry, tuple[str, ...](), tuple[str, ...]()
    further: list[str] = []
    if not entry:
        made = [name for name in names if any(plain_name(one.kernel.name) == plain_name(name) for one, _ in launches)]
        multiplying = [name for name in names if len(names) > 1 and multiplies(kernel_code(whole, name))]
        entry = chosen_kernel(source.path, names, made, multiplying, partial(_tells, source, host))
        remarks = tuple(filter(None, [chosen_remark(entry, names, multiplying)]))
        beside = tuple(name for name in made if name != entry)
    base = plain_name(entry)
    declared = [one for one in program.kernels(base) if "::" not in entry or _qualified(entry, one)]
    if not declared:
        raise ConfigurationError(
            f"{source.path}: no kernel '{entry}'" if entry else f"{source.path}: the source has no kernel",
            detail=_names_to_choose(names, host) if names else "",
            hint="name one of those above"
            if names
            else "the source must define a __global__ function, or include it from a folder that -I names",
        )
    own = [launched] if launched is not None else [pair for pair in launches if plain_name(pair[0].kernel.name) == base]
    commented = comments and not own
    if commented:
        own = _launched_in_a_comment(source, program, declared[0])
    if not own and "<" not in entry and (explicit := program.instantiated(declared[0])):
        entry, *further = explicit
        one = "one that" if further else "what"
        remarks += (f"the instantiation {entry} is {one} the source asks for",)
    given = _given_arguments(entry)
    if given:
        own = [pair for pair in own if _same_arguments(pair[0].kernel.arguments, given)] or own
    launch, run = likeliest_launch(own)
    commented = commented and launch is not None
    if commented:
        remarks += ("launched as a comment of the source has it; --grid and --block say otherwise",)
    if run is not None:
        run.machine.settle()
    if launch is not None and run is not None and _moves(launch, run):
        place = f"{launch.place.file}:{launch.place.line}"
        remarks += (f"one turn of the loop around the launch at {place} is judged, not where its next ones begin",)
    function = declared[0]
    if launch is not None and run is not None:
        name_extents_of_accessors(run.machine, function, launch)
    arguments = given or (launch.kernel.arguments if launch is not None else ())
    machine = run.machine if run is not None else Machine(program)
    if launch is not None and source.options.block:
        machine = _with_block(machine, launch, source.options.block)
    scope = _bound(machine, function, arguments)
    parameters = parameters_of(machine, function, scope)
    passed: list[Value | None] = list(launch.arguments) if launch is not None else []
    passed = [*passed, *[None] * len(parameters)][: len(parameters)]
    named = name_expression(entry, function, arguments, bool(given))
    parameters = typed(parameters, named, source)
    laid = laying(parameters, named, source)
    parameters, taken = taken_apart(parameters, passed, spelled_out(whole, scope), laid)
    own_code = kernel_code(whole, base)  # a number that this instantiation ignores and another one reads is no mistake
    flags = _flags(machine, function, scope)
    code = kernel_code(whole, base, flags) if flags else own_code
    left_out = _left_out(parameters, taken)
    remarks += tuple(
        f"'{one.name}' is null, as the source launches it; a card tells of another launch"
        for one, other in zip(parameters, left_out, strict=True)
        if one is not other
    )
    typed_code = spelled_out(code, scope)
    parameters = [carried(one, value, typed_code) for one, value in zip(left_out, taken, strict=True)]
    constants = known_constants(machine, function, scope, code)
    stages = () if given or commented else launched_in_one_way(own, function)
    others = tuple(further)
    if not (given or commented or launched):
        others = most_telling_first(named, other_instantiations(own, function, named))
    other = OtherShape()
    said = source.options
    if not (launched or commented or said.grid or said.block or said.shared):
        numbers = other_numbers(launch, run, host.runs, _launch_bounds(function), constants)
        threads = threads_along_x(launch, replace(machine, usual={**machine.usual, **numbers}))
        other = OtherShape(numbers, tiling(program, function, constants, threads)) if numbers else other
    own_names = {one.name for one in function.function.parameters}
    outer = (program.variables.keys() | program.macros.keys()) - own_names
    products = tuple(one for one in run.events if isinstance(one, Product)) if run is not None else ()
    return SourceKernel(
        named,
        tuple(used(one, code if one.pointer else own_code) for one in parameters),
        tuple(taken),
        launch,
        machine,
        products,
        constants,
        code,
        whole,
        _launch_bounds(function),
        remarks,
        frozenset(machine.supposed)
        | {name for name, known in machine.names.items() if known and known[0] in outer and _mentions(code, known[0])},
        file_constants(machine, scope),
        tiling(program, function, constants, threads_along_x(launch, machine), _multiples(machine, function, launch)),
        _open_parameters(program, function, launch) if not given else (),
        function,
        host,
        commented,
        stages,
        others,
        beside=beside,
        other_shape=other,
        varied=frozenset(other.numbers),
    )


def _multiples(machine: Machine, function: HostFunction, launch: HostLaunch | None) -> dict[str, int]:
    """What numbers that a launch gives are multiples of, as their terms show it: `ceil_div(k, TILE) * TILE`."""
    program = machine.program
    fixed = program.variables.keys() | program.macros.keys()

    def constant(factor: Term) -> int:
        of_file = factor.op == "symbol" and machine.names.get(factor.args[0], [""])[0] in fixed
        known = machine.known(factor) if of_file or factor.op == "number" else None
        return int(known) if known is not None and known == int(known) else 1

    pairs = zip(function.function.parameters, launch.arguments if launch is not None else (), strict=False)
    found = {
        parameter.name: math.prod(map(constant, value.args))
        for parameter, value in pairs
        if isinstance(value, Term) and value.op == "*"
    }
    return {name: number for name, number in found.items() if number > 1}


def _with_block(machine: Machine, launch: HostLaunch, block: Sequence[str]) -> Machine:
    """The run with the user's numbers for host symbols of a block: shared memory goes by them, too."""
    said = {}
    for axis, text in zip("xyz", block, strict=False):
        term = launch.block.members[axis].value
        if isinstance(term, Term) and term.op == "symbol" and text.isdecimal():
            said[term.args[0]] = int(text)
    return replace(machine, usual={**machine.usual, **said}) if said else machine


def _tells(source: GivenSource, host: HostRead, name: str) -> bool:
    """Whether a kernel's name, arrays and code tell what it computes."""
    from wmmadiag.subject.drafts.recognise import recognised

    one = read_kernel(source.of(name), host)
    return recognised(one.entry, one.parameters, one.code, 0).sure


def _launched_in_a_comment(
    source: GivenSource, program: HostProgram, kernel: HostFunction
) -> list[tuple[HostLaunch, HostRun]]:
    """The launch of a kernel that a comment writes down, if it says all of its shape."""
    from wmmadiag.subject.drafts.commented import commented_launch

    written = commented_launch(source.text, program, kernel)
    if not written:
        return []
    host = read_host(replace(source, changed=source.text + written))
    found = [(one, run) for run in host.runs for one in run.launches]
    return [pair for pair in found if plain_name(pair[0].kernel.name) == kernel.function.name and _is_whole(pair[0])]


def _is_whole(launch: HostLaunch) -> bool:
    shapes = [cell.value for shape in (launch.grid, launch.block) for cell in shape.members.values()]
    return all(isinstance(one, Term) for one in (*shapes, launch.shared))


def _qualified(entry: str, found: HostFunction) -> bool:
    own = re.sub(r"<.*", "", entry, flags=re.DOTALL).lstrip(":").strip()
    return f"::{found.function.qualified}".endswith(f"::{own}")


def _given_arguments(entry: str) -> tuple[str, ...]:
    return split_template(entry)[1]


def _same_arguments(one: Sequence[str], other: Sequence[str]) -> bool:
    return [plain(text) for text in one] == [plain(text) for text in other]


def _moves(launch: HostLaunch, run: HostRun) -> bool:
    """Whether a loop makes a launch that gets other places of its arrays in the next turn."""
    others = [one for one in run.launches if one.repeated and one is not launch and one.place == launch.place]
    pairs = [pair for other in others for pair in zip(launch.arguments, other.arguments, strict=True)]
    return launch.repeated and any(isinstance(one, Pointer) and one != other for one, other in pairs)


def _left_out(parameters: Sequence[DraftParameter], passed: Sequence[Value | None]) -> list[DraftParameter]:
    """Pointers for which host code gives null are numbers of their size; not where a launch gives null alone."""
    nulls = [one.pointer and not one.value and value is not None and is_null(value)
             for one, value in zip(parameters, passed, strict=True)]  # fmt: skip
    if sum(nulls) == sum(one.pointer for one in parameters):
        return list(parameters)
    return [
        replace(one, c_type="u64", pointer=False, const=False, dtype="u64", lanes=1, value="0") if null else one
        for one, null in zip(parameters, nulls, strict=True)
    ]


def _bound(machine: Machine, function: HostFunction, arguments: Sequence[str]) -> Scope:
    """The scope of a kernel's body: its template parameters with their arguments."""
    scope = Scope(function.source)
    values: list[Value] = []
    for text in arguments:
        told = TypeName(text) if bytes_of(text) is not None else parsed_expression(machine, text, scope)
        values.append(told if isinstance(told, Term | TypeName) else TypeName(text))
    bind_parameters(machine, function.function.template or (), values, scope)
    return scope


def _flags(machine: Machine, function: HostFunction, scope: Scope) -> dict[str, bool]:
    """The values of a template's flags, as far as they are known."""
    found = {}
    for one in function.function.template or ():
        cell = scope.variables.get(one.name) if one.type == "bool" else None
        known = machine.known(cell.value) if cell is not None else None
        if known is not None:
            found[one.name] = bool(known)
    return found


def _open_parameters(
    program: HostProgram, function: HostFunction, launch: HostLaunch | None
) -> tuple[TemplateParameter, ...]:
    """The template parameters that nothing gives a value: a launch in a template that nobody instantiates, neither."""
    template = function.function.template or ()
    if launch is None or not launch.kernel.arguments:
        return tuple(one for one in template if not one.default)
    around = {
        parameter.name: parameter
        for each in program.functions.get(launch.function.rpartition("::")[2], ())
        for parameter in each.function.template or ()
        if parameter.type in ("typename", "class")
    }
    arguments = launch.kernel.arguments
    handed = tuple(one for one, value in zip(template, arguments, strict=False) if value in around)
    # `Config<T, 64>`: what is open is the host's own
    return handed or tuple(one for name, one in around.items() if any(_mentions(text, name) for text in arguments))


def _launch_bounds(function: HostFunction) -> tuple[str, ...]:
    head = function.source.data[function.function.outer.start_byte : function.function.node.end_byte]
    match = re.search(rb"__launch_bounds__\s*\(((?:[^()]|\([^()]*\))*)\)", head)
    return split_list(match[1].decode("utf-8", "replace")) if match is not None else ()


def _mentions(code: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", code) is not None
