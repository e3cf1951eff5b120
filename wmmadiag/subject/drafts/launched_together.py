"""What a host function computes by several kernels, one of which reads what another wrote, as one kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from wmmadiag.errors import WmmadiagError
from wmmadiag.hostcode import terms
from wmmadiag.hostcode.events import Product
from wmmadiag.hostcode.host import HostRun
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.program import plain_name
from wmmadiag.hostcode.terms import ZERO, Number, Term
from wmmadiag.hostcode.types import bytes_of, is_open, plain, scalar
from wmmadiag.hostcode.values import Buffer, KernelName, Pointer, Struct, Value
from wmmadiag.numerics.element_types import element_type
from wmmadiag.subject.drafts.code_facts import card_type
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.guards import Tiling
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.host_read import HostRead, read_host, runs_of
from wmmadiag.subject.drafts.kernel import SourceKernel, read_kernel
from wmmadiag.subject.drafts.step_uses import Step, are_of_one, buffers_of, handed_on, note_uses
from wmmadiag.subject.together import LaunchStep, LaunchSteps, PointerTarget, Said

_MOST = 8  # launches
_SAMPLES = (64, 96)
_KEPT = frozenset({"", "zero", "computed", "values", "set"})  # what is known, or the same before all launches


def launched_together(source: GivenSource, host: HostRead | None = None) -> SourceKernel | None:
    """The launches of a host function as one kernel, named as the function is; None where no such function is found.

    A function is one if all that it launches is known, and one launch reads what another one wrote, or all read the
    same and each writes another array: gradients of one layer. Of several the
    first is taken, those that nobody calls before the others; where the options name an entry the one of that name.
    """
    host, entry = host or read_host(source), source.options.entry
    for run, given in _runs(source, host):
        root = run.machine.root
        if root == "main" or (entry and plain_name(root) != plain_name(entry)):
            continue
        if 1 < len(run.launches) <= _MOST and run.complete and _are_plain(run):
            found = _as_one(source, host, run, given)
            if found is not None:
                return found if entry else replace(found, beside=_beside(source, host, run))
    return None


def _beside(source: GivenSource, host: HostRead, taken: HostRun) -> tuple[str, ...]:
    """The other functions that launch several kernels, and kernels that neither of them launches."""
    done = {one.kernel.name for one in taken.launches}
    found: list[str] = []
    for run, _ in _runs(source, host):
        own = {one.kernel.name for one in run.launches}
        if run.machine.root != "main" and 1 < len(run.launches) <= _MOST and run.complete and not own & done:
            found.append(run.machine.root)
            done |= own
    every = dict.fromkeys(one.kernel.name for run in host.runs for one in run.launches)
    return (*found, *(name for name in every if name not in done))


def _runs(source: GivenSource, host: HostRead) -> Iterator[tuple[HostRun, _Given]]:
    """Runs of the functions that nobody calls, then of those that they call and that launch several kernels, with what
    they are called with."""
    yield from ((run, _Given()) for run in host.runs)
    for name in _called(host):
        given = _given(host, name)
        for run in runs_of(source, host, name):
            yield run, given


def _called(host: HostRead) -> list[str]:
    """The functions that others call, in which several launches stand."""
    roots = {run.machine.root for run in host.runs}
    places = {(one.function, one.place) for run in host.runs for one in run.launches if one.function not in roots}
    counts = Counter(function for function, _ in places)
    return [name for name, count in counts.items() if count > 1]


@dataclass(frozen=True, slots=True)
class _Given:
    """What those who call a function first give its numbers: values, and what follows from its other numbers."""

    values: dict[str, Number] = field(default_factory=dict)
    made: dict[str, Term] = field(default_factory=dict)


def _given(host: HostRead, function: str) -> _Given:
    """What the first caller gives the numbers of a function."""
    for run in host.runs:
        for one in run.launches:
            if one.function == function:
                values = {name: terms.value(term, run.machine.usual) for name, term in one.numbers.items()}
                known = {name: value for name, value in values.items() if value is not None}
                return _Given(known, dict(_made(one.numbers, run.machine)))
    return _Given()


def _made(numbers: Mapping[str, Term], machine: Machine) -> Iterator[tuple[str, Term]]:
    """The numbers that a caller reckons from what it gives for others, in the names of these: C is NH * 64."""
    plain = {term.args[0]: terms.symbol(name) for name, term in numbers.items() if term.op == "symbol"}
    usual = {name: terms.number(value) for name, value in machine.usual.items() if name not in plain}
    for name, term in numbers.items():
        if term.op != "symbol" and terms.symbols(term) & {*plain}:
            yield name, terms.replaced(term, {**plain, **usual})


def names_function(host: HostRead, entry: str) -> bool:
    """Whether a name is that of a host function that launches several kernels, and of no kernel."""
    if host.program.kernels(plain_name(entry)):
        return False
    several = [run.machine.root for run in host.runs if len(run.launches) > 1]
    return any(plain_name(name) == plain_name(entry) for name in (*several, *_called(host)))


def _are_plain(run: HostRun) -> bool:
    """Whether each launch is made once, of a kernel that is known, and no library computes in between."""
    if any(isinstance(one, Product) for one in run.events):
        return False
    return not any(
        one.repeated or one.cooperative or is_open(one.kernel.arguments) or "{" in "".join(one.kernel.arguments)
        for one in run.launches
    )


def _as_one(source: GivenSource, host: HostRead, run: HostRun, given: _Given) -> SourceKernel | None:
    steps = []
    run.machine.settle()
    for launch in run.launches:
        try:
            steps.append(Step(launch, read_kernel(source.of(launch.kernel.name), host, launched=(launch, run))))
        except WmmadiagError:
            return None
    if any("{" in one.kernel.entry or one.kernel.uninstantiated for one in steps) or not note_uses(steps, source):
        return None
    buffers = {id(one): one for step in steps for one in buffers_of(step)}
    own = handed_on(steps, buffers)
    if not own and not are_of_one(steps):
        return None
    keys = {one: f"memory{number}" for number, one in enumerate(buffers)}
    numbers = _numbers(steps, run.machine, [buffers[one].size for one in own])
    if numbers is None:
        return None
    outer = [one for one in buffers if one not in own]
    stages = _stages(steps, keys)
    if stages is None or not _are_known(stages, [buffers[one].size for one in own], numbers, run.machine):
        return None
    arrays = [_array(steps, buffers[one], one) for one in outer]
    run.machine.usual |= {name: value for name, value in given.values.items() if name in numbers}
    taken = {one.name for one in arrays}
    figures = [_number(run.machine, name, real, taken) for name, real in numbers.items()]
    passed: list[Value] = [Pointer(buffers[one], ZERO, buffers[one].element) for one in outer]
    made_of = {name: term for name, term in given.made.items() if terms.symbols(term) <= {*numbers}}
    passed += [made_of.get(name, Term("symbol", (name,), real)) for name, real in numbers.items()]
    made = LaunchSteps(
        tuple(stages),
        {name: len(outer) + number for number, name in enumerate(numbers)},
        {keys[one]: number for number, one in enumerate(outer)},
        {keys[one]: buffers[one].size for one in own},
        dict(run.machine.usual),
    )
    return _whole(steps, run, host, (*arrays, *figures), tuple(passed), made, {id(buffers[one]) for one in outer})


def _numbers(steps: Sequence[Step], machine: Machine, sizes: Sequence[Term | None]) -> dict[str, bool] | None:
    """The host symbols that a launch depends on and nobody gives a value, with whether they are real; None for others.

    In the order in which the function has them, as far as that is known.
    """
    found: dict[str, bool] = {}

    def add(term: Term) -> None:
        if term.op == "symbol" and term.args[0] not in machine.usual:
            found[term.args[0]] = found.get(term.args[0], False) or term.real
        for one in term.args:
            if isinstance(one, Term):
                add(one)

    for step in steps:
        launch = step.launch
        shapes = [cell.value for shape in (launch.grid, launch.block) for cell in shape.members.values()]
        for parameter, value in zip(step.kernel.parameters, step.kernel.passed, strict=True):
            if parameter.value:
                continue
            if isinstance(value, Term):
                add(value)
            elif isinstance(value, Pointer):
                add(value.offset)
            else:
                return None
        for one in (*shapes, launch.shared):
            if not isinstance(one, Term):
                return None
            add(one)
    for size in sizes:
        if size is not None:
            add(size)
    order = {name: at for at, name in enumerate(machine.names)}
    return dict(sorted(found.items(), key=lambda one: order.get(one[0], len(order))))


def _stages(steps: Sequence[Step], keys: Mapping[int, str]) -> list[LaunchStep] | None:
    found = []
    seen: set[int] = set()
    for step in steps:
        launch = step.launch
        cleared = []
        for one in step.uses:
            content, copy = launch.contents.get(one, ("", None))
            if content == "zero":
                cleared.append(keys[one])
            elif one in seen and (copy is not None or content not in _KEPT - {"values", "set"}):
                return None  # the host has put something there in between
            seen.add(one)
        arguments = [
            _argument(parameter, value, keys)
            for parameter, value in zip(step.kernel.parameters, step.kernel.passed, strict=True)
        ]
        if not isinstance(launch.shared, Term) or None in arguments:
            return None
        found.append(
            LaunchStep(
                step.kernel.entry,
                _shape(launch.grid),
                _shape(launch.block),
                launch.shared,
                tuple(one for one in arguments if one is not None),
                tuple(one.name for one in step.kernel.parameters),
                _structs(step),
                tuple(cleared),
            )
        )
    return found


def _shape(shape: Struct) -> tuple[Term, ...]:
    values = (shape.members[axis].value for axis in "xyz")
    return tuple(one if isinstance(one, Term) else ZERO for one in values)


def _argument(parameter: DraftParameter, value: Value | None, keys: Mapping[int, str]) -> PointerTarget | Said | None:
    """What a launch gives for one parameter; None where that is not known."""
    # Vectors of numbers (`float2 *`) are handed on as these numbers, and what has no type as bytes.
    kind = card_type(scalar(parameter.c_type)[0]) or ("u8" if parameter.pointer else "")
    element = element_type(parameter.dtype or kind)
    if element is None:
        return None
    if parameter.value:
        return Said(terms.parsed(parameter.value), element)
    if isinstance(value, Term):
        return Said(value, element)
    if not isinstance(value, Pointer):
        return None
    each = bytes_of(plain(value.element)) or (element.bytes if value.offset == ZERO else 0)
    offset = terms.combined("*", terms.number(each or 0), value.offset)
    return PointerTarget(keys[id(value.buffer)], offset, element) if each else None


def _structs(step: Step) -> tuple[tuple[int, int], ...]:
    found, index = [], 0
    for struct, run in groupby(step.kernel.parameters, lambda one: one.struct):
        count = len(list(run))
        if struct:
            found.append((index, count))
        index += count
    return tuple(found)


def _are_known(
    stages: Sequence[LaunchStep], sizes: Sequence[Term | None], numbers: Mapping[str, bool], machine: Machine
) -> bool:
    """Whether every number of the launches comes out where those of the function are given."""
    every = [one for one in sizes if one is not None]
    for stage in stages:
        every += [*stage.grid, *stage.block, stage.shared]
        every += [one.offset if isinstance(one, PointerTarget) else one.value for one in stage.arguments]
    samples = [{**machine.usual, **dict.fromkeys(numbers, one)} for one in _SAMPLES]
    return all(any(terms.value(one, sample) is not None for sample in samples) for one in every)


def _array(steps: Sequence[Step], buffer: Buffer, key: int) -> DraftParameter:
    """A buffer of the function as a parameter: its own name, the type of the kernels' for it."""
    using = [step for step in steps if key in step.uses]
    first = using[0].parameters[key]
    read_only = not any(step.uses[key].written for step in using)
    return replace(
        first,
        name=buffer.name or first.name,
        const=read_only,
        struct="",
        label="",
        value="",
        added=any(step.parameters[key].added for step in using),
    )


def _number(machine: Machine, name: str, real: bool, taken: Collection[str]) -> DraftParameter:
    """A host symbol as a parameter; in code it is called as the source has it, `taken`: names of arrays."""
    plain_names = [one for one in machine.names.get(name, ()) if one.isidentifier()]
    called = plain_names[0] if plain_names else name
    kind = "float" if real else "int"
    dtype = "f32" if real else "s32"
    if called in taken:  # an array `w` beside a width that is a member `w`
        return DraftParameter(f"{called}_number", kind, dtype=dtype, label=called)
    return DraftParameter(called, kind, dtype=dtype)


def _whole(
    steps: Sequence[Step],
    run: HostRun,
    host: HostRead,
    parameters: tuple[DraftParameter, ...],
    passed: tuple[Value, ...],
    made: LaunchSteps,
    outer: set[int],
) -> SourceKernel:
    """The kernel that stands for all of them."""
    multiplying = max(steps, key=lambda one: _multiplies(one.kernel.code))  # the first of equals
    shape = multiplying.launch
    contents: dict[int, tuple[str, Buffer | None]] = {}
    for step in steps:
        for one in step.uses:
            if one in outer:
                contents.setdefault(one, step.launch.contents.get(one, ("", None)))
    root = run.machine.root
    launch = replace(
        shape, kernel=KernelName(root), shared=ZERO, arguments=passed, contents=contents, facts=steps[-1].launch.facts
    )
    listed = ", ".join(dict.fromkeys(step.kernel.entry for step in steps))
    constants: dict[str, terms.Number] = {}
    for step in steps:
        constants |= step.kernel.constants
    return SourceKernel(
        root,
        parameters,
        passed,
        launch,
        run.machine,
        (),
        constants,
        "\n".join(step.kernel.code for step in steps),
        host.whole,
        (),
        (f"'{root}' is judged as a whole, which launches {listed}; --entry NAME takes one of them alone",),
        fixed=multiplying.kernel.fixed,
        named=multiplying.kernel.named,
        tiling=_tiling(steps, parameters, passed),
        declared=multiplying.kernel.declared,
        host=host,
        together=made,
    )


def _tiling(steps: Sequence[Step], parameters: Sequence[DraftParameter], passed: Sequence[Value]) -> Tiling:
    """How its kernels go over the numbers of the whole."""
    names = {value.args[0]: one.name for one, value in zip(parameters, passed, strict=True)
             if isinstance(value, Term)}  # fmt: skip
    found: tuple[dict[str, int], ...] = ({}, {}, {}, {})
    for step in steps:
        for parameter, value in zip(step.kernel.parameters, step.kernel.passed, strict=True):
            if not isinstance(value, Term) or value.op != "symbol" or value.args[0] not in names:
                continue
            name = names[value.args[0]]
            for told, whole in zip(step.kernel.tiling, found, strict=True):
                if parameter.own_name in told:
                    whole[name] = max(told[parameter.own_name], whole.get(name, 1))
    return Tiling(*found)


def _multiplies(code: str) -> int:
    from wmmadiag.compile.kernel_code import multiplies

    return multiplies(code)
