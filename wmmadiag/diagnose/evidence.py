"""Everything that is known about one failing case, gathered once; hypotheses read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.run import emulator_of
from wmmadiag.diagnose.trials.workbench import CaseRun, Workbench
from wmmadiag.emulator.decoded import SPACES
from wmmadiag.errors import WmmadiagError
from wmmadiag.place import Place
from wmmadiag.probes.subject.warp_work import WarpWork, warp_work
from wmmadiag.provenance import Disagreement, ProvenanceRun, trace
from wmmadiag.provenance.expected import has_products
from wmmadiag.provenance.model import Stage
from wmmadiag.subject.binding import BoundArgument, BoundCase, bind
from wmmadiag.subject.card import Case
from wmmadiag.subject.check import own_place
from wmmadiag.subject.compiling import Texts
from wmmadiag.subject.symbols import rendered_entry

if TYPE_CHECKING:
    from wmmadiag.diagnose.addressing import Misread
    from wmmadiag.diagnose.addressing.footprints import Site
    from wmmadiag.diagnose.faults.model import Fitted
    from wmmadiag.diagnose.functions.levelled import Levelled
    from wmmadiag.diagnose.functions.reading import Reading
    from wmmadiag.diagnose.source.carving import Overlap
    from wmmadiag.diagnose.source.read import Function, SourceModel
    from wmmadiag.diagnose.source.shared_arrays import SharedArray
    from wmmadiag.diagnose.source.softmax import Softmax
    from wmmadiag.diagnose.symptoms.forecast import Forecast

Mask = NDArray[np.bool_]

_THIN = 4
_OTHER_CASES = 4
_STORES = ("st", "wmma.store", "atom", "red")
_MULTIPLIES = frozenset({"mma", "wmma.mma", "wmma.load", "ldmatrix"})
_GLOBAL = (SPACES["global"], SPACES["generic"])


@dataclass
class Evidence:
    """One failing case of one variant, and what can be found out about it.

    Attributes:
        bench: to run it again.
        case: which.
        texts: changes already made to the source (causes that were found before).
        run: the failing run.
        others: further cases that ran, by name.
    """

    bench: Workbench
    case: Case
    texts: Texts
    run: CaseRun
    others: Mapping[str, CaseRun] = field(default_factory=dict)

    @property
    def operation(self) -> str:
        """What the kernel should compute."""
        return self.bench.card.computes.operation

    @property
    def modelled(self) -> bool:
        """Whether there are fault models of what the kernel should compute."""
        from wmmadiag.diagnose.faults.registry import all_fault_models

        return any(self.operation in model.operations for model in all_fault_models())

    @property
    def completed(self) -> bool:
        """Whether the kernel ran to its end."""
        return self.run.verdict is not None

    @property
    def emulated(self) -> bool:
        """Whether the run could be watched."""
        return self.run.kernel is not None and emulator_of(self.run.kernel) is not None

    @cached_property
    def wrong(self) -> Mapping[str, Mask]:
        """Role → mask of wrong elements; empty where the kernel did not run to its end."""
        return self.run.wrong

    @property
    def wrong_count(self) -> int:
        """Wrong elements in all outputs; 0 where the kernel did not run to its end."""
        return sum(int(mask.sum()) for mask in self.wrong.values())

    def errors(self, check: str = "", *kinds: str) -> Iterator[Finding]:
        """Findings that are errors, of one check, of some kinds."""
        return (one for one in self.findings(check, *kinds) if one.level is Level.ERROR)

    def findings(self, check: str = "", *kinds: str) -> Iterator[Finding]:
        """Findings of any level, of one check, of some kinds."""
        for one in self.run.findings:
            if (not check or one.check == check) and (not kinds or one.kind in kinds):
                yield one

    @cached_property
    def provenance(self) -> ProvenanceRun | None:
        """What each multiplication multiplied; None where it cannot be followed."""
        return self._traced[0]

    @property
    def provenance_problem(self) -> str:
        """Why there is no provenance, or ""."""
        return self._traced[1]

    @cached_property
    def _traced(self) -> tuple[ProvenanceRun | None, str]:
        kernel = emulator_of(self.run.kernel) if self.run.kernel is not None else None
        if kernel is None:
            return None, "only the emulator can follow elements"
        if self.run.bound is None:
            return None, "the kernel did not run to its end"
        old = self.run.bound
        if not has_products(self.operation):
            return None, "which products the card's operation is made of is not known"
        fresh = bind(old.card, old.case, old.variant, seed=old.seed, inputs=old.distribution)
        try:
            return trace(fresh, kernel), ""
        except WmmadiagError as error:
            return None, error.message

    def disagreements(self, *kinds: str) -> Iterator[Disagreement]:
        """Of provenance, those that reach an output."""
        run = self.provenance
        for one in run.disagreements if run is not None else ():
            if not kinds or one.kind in kinds:
                yield one

    @property
    def departure(self) -> Stage | None:
        """The first intermediate value that is not what the operation has there."""
        run = self.provenance if self.completed else None
        return next((one for one in run.stages if one.status == "departs"), None) if run is not None else None

    @cached_property
    def fitted(self) -> tuple[Fitted, ...]:
        """Fault models whose prediction the output matches, the best first."""
        from wmmadiag.diagnose.faults import fit
        from wmmadiag.diagnose.functions import fit_function

        verdict = self.run.verdict
        if self.run.bound is None or verdict is None or not any(mask.any() for mask in self.wrong.values()):
            return ()
        if self.operation == "python":
            return fit_function(self.run.bound, self.wrong, verdict.judgements, verdict.expected)
        try:
            return fit(self.run.bound)
        except np.linalg.LinAlgError:  # a singular system fits nothing
            return ()

    @cached_property
    def reading(self) -> Reading | None:
        """Which lines read which input; None where the run cannot be watched, or did not end."""
        from wmmadiag.diagnose.functions.reading import reading

        return reading(self.run)

    @cached_property
    def levelled(self) -> tuple[Levelled, ...]:
        """Inputs along which axes the kernel is right; asked for where its operation is not known."""
        from wmmadiag.diagnose.functions.levelled import levelled

        if self.modelled or not self.wrong_count:
            return ()
        return levelled(self.run, self.reading.together if self.reading is not None else ())

    @cached_property
    def warp_work(self) -> WarpWork | None:
        """Which warp stores what of the outputs; None where the run cannot be watched, did not end, or is right."""
        kernel = emulator_of(self.run.kernel) if self.run.kernel is not None else None
        if kernel is None or self.run.bound is None or not self.wrong_count:
            return None
        return warp_work(self.run.bound, kernel, self.wrong)

    @cached_property
    def forecast(self) -> Forecast:
        """What changes of the source would do to who stores what."""
        from wmmadiag.diagnose.symptoms.forecast import Forecast

        return Forecast(self)

    @cached_property
    def output_lines(self) -> tuple[Place, ...]:
        """The user's lines that store to global memory."""
        kernel = emulator_of(self.run.kernel) if self.run.kernel is not None else None
        if kernel is None:
            return ()
        stores = [node for node in kernel.kernel.nodes if node.op in _STORES and node.space in _GLOBAL]
        return tuple(dict.fromkeys(own_place(node.place) for node in stores))

    @cached_property
    def multiplying_lines(self) -> tuple[Place, ...]:
        """The user's lines that multiply on tensor cores, or load what is multiplied."""
        kernel = emulator_of(self.run.kernel) if self.run.kernel is not None else None
        nodes = kernel.kernel.nodes if kernel is not None else ()
        return tuple(dict.fromkeys(own_place(node.place) for node in nodes if node.op in _MULTIPLIES))

    @cached_property
    def softmax(self) -> tuple[str, Softmax] | None:
        """The user's file that computes a softmax, and its parts; None where none is recognised."""
        from wmmadiag.diagnose.source.softmax import softmax

        for file in self.files:
            model = self.source_model(file)
            parts = softmax(model) if model is not None else None
            if parts:
                return file, parts
        return None

    def runs_at(self, place: Place, op: str) -> bool:
        """Whether an operation of the compiled kernel, such as "ldmatrix", belongs to a line."""
        kernel = emulator_of(self.run.kernel) if self.run.kernel is not None else None
        nodes = kernel.kernel.nodes if kernel is not None else ()
        wanted = {(frame.file, frame.line) for frame in place.frames()}
        return any(node.op.startswith(op) and wanted & _lines(node.place) for node in nodes)

    def text_of(self, file: str) -> str | None:
        """The text of one of the user's files as it stands now; None where it cannot be read."""
        path = Path(file).resolve()
        if path in self.texts:
            return self.texts[path]
        try:
            return path.read_text("utf-8-sig", "surrogateescape")
        except OSError:
            return None

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The user's files that were compiled: the source, then its headers, as they are shown."""
        headers = self.run.compilation.includes if self.run.compilation is not None else ()
        return (str(self.bench.source), *headers)

    def source_model(self, file: str) -> SourceModel | None:
        """What can be read in one of the user's files; None of PTX and of languages other than CUDA C++."""
        from wmmadiag.compile.languages import is_c_family
        from wmmadiag.diagnose.source.read import read_source

        if file not in self._models:
            text = self.text_of(file) if is_c_family(file) else None
            compilation = self.run.compilation
            macros = compilation.options.macros if compilation is not None else None
            self._models[file] = None if text is None else read_source(text, entry=self.entry, macros=macros)
        return self._models[file]

    @property
    def entry(self) -> str:
        """The kernel's name, with template arguments where it has some."""
        compilation, verdict = self.run.compilation, self.run.bound
        if compilation is not None and verdict is not None:
            return rendered_entry(self.bench.card, self.case, self.bench.variant)
        return ""

    @cached_property
    def _models(self) -> dict[str, SourceModel | None]:
        return {}

    @cached_property
    def values(self) -> Mapping[str, float | int]:
        """Numbers of the case by name: its symbols, the operation's parameters, and what the kernel's own are given.

        A member of a struct has the name `parameter.member`.
        """
        bound = self.run.bound
        if bound is None and self.run.compilation is not None:  # a run that died has its numbers, too
            bench = self.bench
            try:
                bound = bind(bench.card, self.case, bench.variant, seed=bench.seed, inputs=bench.inputs)
            except WmmadiagError:
                return {}
        return self.numbers(bound) if bound is not None else {}

    @cached_property
    def other_cases(self) -> tuple[BoundCase, ...]:
        """Further cases of the card, bound: what holds in one case must hold in these."""
        bench = self.bench
        found: list[BoundCase] = []
        for case in bench.cases():
            if case.name != self.case.name and len(found) < _OTHER_CASES:
                try:
                    found.append(bind(bench.card, case, bench.variant, seed=bench.seed, inputs=bench.inputs))
                except WmmadiagError:
                    continue
        return tuple(found)

    def numbers(self, bound: BoundCase) -> Mapping[str, float | int]:
        """What `values` says, of any case."""
        named: dict[str, float | int] = dict(bound.symbols)
        named.update(self._arguments(bound))
        for name, value in bound.parameters.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                named.setdefault(name, value)
        return named

    def _arguments(self, bound: BoundCase) -> Iterator[tuple[str, int]]:
        """Whole numbers that the launch passes, by the names of the kernel's parameters."""
        model = self.source_model(str(self.bench.source))
        kernel = self._kernel(model) if model is not None else None
        for position, argument in _positions(bound):
            struct = argument.spec.struct
            if kernel is None or position >= len(kernel.parameters) or argument.scalar is None:
                continue
            name = kernel.parameters[position].name
            if not argument.spec.element.is_float:
                yield f"{name}.{argument.spec.name.rpartition('.')[2]}" if struct else name, int(argument.scalar)

    def _kernel(self, model: SourceModel) -> Function | None:
        """The function of the source that is launched."""
        entry = self.entry.partition("<")[0].rpartition("::")[2]
        kernels = [one for one in model.functions if one.kernel]
        return next((one for one in kernels if one.name == entry), kernels[0] if len(kernels) == 1 else None)

    @cached_property
    def misread(self) -> tuple[Misread, ...]:
        """Accesses to global memory whose elements their block has no use for; empty where that cannot be told."""
        from wmmadiag.diagnose.addressing import misread

        kernel = emulator_of(self.run.kernel) if self.run.kernel is not None else None
        if kernel is None or self.run.bound is None or not self.completed or not self.wrong_count:
            return ()
        old = self.run.bound
        try:
            return misread(bind(old.card, old.case, old.variant, seed=old.seed, inputs=old.distribution), kernel)
        except WmmadiagError:
            return ()

    @cached_property
    def accesses(self) -> tuple[Site, ...]:
        """Every access to the card's tensors; empty where the run cannot be watched, did not end, or is too large."""
        from wmmadiag.diagnose.addressing.footprints import sites

        kernel = emulator_of(self.run.kernel) if self.run.kernel is not None else None
        if kernel is None or self.run.bound is None or not self.completed:
            return ()
        old = self.run.bound
        try:
            return sites(bind(old.card, old.case, old.variant, seed=old.seed, inputs=old.distribution), kernel)
        except WmmadiagError:
            return ()

    @cached_property
    def overlaps(self) -> tuple[Overlap, ...]:
        """Arrays carved out of one shared buffer that overwrite each other; empty where the run cannot be watched."""
        from wmmadiag.diagnose.source.carving import overlaps

        kernel = emulator_of(self.run.kernel) if self.run.kernel is not None else None
        if kernel is None or self.run.bound is None or not self.completed or not self.wrong_count:
            return ()
        old = self.run.bound
        models = [(file, model) for file in self.files if (model := self.source_model(file)) is not None]
        try:
            fresh = bind(old.card, old.case, old.variant, seed=old.seed, inputs=old.distribution)
            return tuple(overlaps(fresh, kernel, models))
        except WmmadiagError:
            return ()

    @cached_property
    def static_arrays(self) -> tuple[tuple[str, SourceModel, tuple[SharedArray, ...]], ...]:
        """(file, what can be read in it, its static shared arrays, the largest first) of each file that has some."""
        from wmmadiag.diagnose.source.shared_arrays import static_arrays

        kernel = emulator_of(self.run.kernel) if self.run.kernel is not None else None
        if kernel is None:
            return ()
        sizes = kernel.static_arrays()
        models = [(file, model) for file in self.files if (model := self.source_model(file)) is not None]
        found = [(file, model, static_arrays(model, sizes)) for file, model in models]
        return tuple(one for one in found if one[2])

    def lifted(self, place: Place) -> Place:
        """A place in a thin wrapper (a helper that is one asm statement or one call) as its caller's line."""
        for frame in place.frames():
            model = self.source_model(frame.file) if frame.file in self.files else None
            start = model.line_starts[frame.line - 1] if model and 0 < frame.line <= len(model.lines) else None
            function = model.function_at(start) if model is not None and start is not None else None
            if model is None or function is None or function.kernel or not is_thin(model, function):
                return Place(frame.file, frame.line, frame.column, inlined_at=frame.inlined_at)
        return place

    def declared(self, argument: BoundArgument) -> Place | None:
        """The last pointer that the kernel makes of one that it is given, or the parameter itself."""
        model = self.source_model(str(self.bench.source))
        kernel = self._kernel(model) if model is not None else None
        bound = self.run.bound
        if model is None or kernel is None or bound is None:
            return None
        position = next((at for at, one in _positions(bound) if one is argument), -1)
        if not 0 <= position < len(kernel.parameters):
            return None
        last = kernel.parameters[position]
        for variable in model.variables:
            made = variable.initial if variable.pointer and variable.start > last.start else None
            if made is not None and any(t.text == last.name for t in model.tokens[made.first : made.last]):
                last = variable
        return Place(str(self.bench.source), last.line)

    def line_text(self, place: Place) -> str:
        """The code at a place, stripped; "" where it cannot be read."""
        text = self.text_of(place.file) if place.file else None
        lines = text.split("\n") if text is not None else []
        return lines[place.line - 1].strip() if 0 < place.line <= len(lines) else ""

    def error_place(self) -> Place | None:
        """Where the run ended early, on the user's line."""
        error = self.run.error
        return own_place(error.place) if error is not None and error.place is not None else None


def _positions(bound: BoundCase) -> Iterator[tuple[int, BoundArgument]]:
    """(position of its parameter, argument); the fields of a struct stand in a row, and are one parameter."""
    position, before = -1, ""
    for argument in bound.arguments:
        struct = argument.spec.struct
        position += not struct or struct != before
        before = struct
        yield position, argument


def _lines(place: Place) -> set[tuple[str, int]]:
    return {(frame.file, frame.line) for frame in place.frames()}


def is_thin(model: SourceModel, function: Function) -> bool:
    """Whether a helper only wraps an instruction or a call: a mistake in using it is the caller's."""
    body = model.statements[function.body]
    inside = [s for s in model.statements if body.start <= s.start and s.end <= body.end and s.kind != "block"]
    text = model.text[body.start : body.end]
    return len(inside) <= _THIN and ("asm" in text or len(inside) == 1) and not any(s.loop for s in inside)


def mask_of(reach: Mapping[str, Mask] | None, wrong: Mapping[str, Mask]) -> int:
    """How many of the wrong elements a cause reaches; all of them where its reach is not known."""
    if reach is None:
        return sum(int(mask.sum()) for mask in wrong.values())
    return sum(int((mask & reach[role]).sum()) for role, mask in wrong.items() if role in reach)


def union(masks: Sequence[Mapping[str, Mask]]) -> dict[str, Mask]:
    """Masks of several reaches together, by role."""
    joined: dict[str, Mask] = {}
    for one in masks:
        for role, mask in one.items():
            joined[role] = mask.copy() if role not in joined else joined[role] | mask
    return joined
