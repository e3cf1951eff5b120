"""Run a case once with tags on every value, and say where what is multiplied or stored is not what it must be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.run import emulator_of, reported
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.errors import WmmadiagError
from wmmadiag.launch import LoadedKernel
from wmmadiag.place import Place
from wmmadiag.provenance.departures import stages_and_root
from wmmadiag.provenance.disagreements import Classifier
from wmmadiag.provenance.expected import expected_outputs
from wmmadiag.provenance.model import Disagreement, ProvenanceRun, Stage
from wmmadiag.provenance.naming import Names
from wmmadiag.provenance.observed import observe
from wmmadiag.provenance.outputs import JudgedOutput, Products, judge_output
from wmmadiag.provenance.raw import SampleSpace, TaggedRun, read_raw
from wmmadiag.provenance.stages import narrow_of, stages_of
from wmmadiag.provenance.tags import ArgumentMatrix, TaggedArgument, granule_shift, number_matrices, tag_arguments
from wmmadiag.results.model import ReportedFinding
from wmmadiag.subject.binding import BoundCase


def trace(case: BoundCase, kernel: EmulatedKernel) -> ProvenanceRun:
    """Launch a bound case with provenance; its arrays are changed as by any launch.

    Blocks run in order on one thread, other checks of the kernel's options are left out.

    Args:
        case: freshly bound: inputs as they are before the launch.
        kernel: the case's kernel.

    Raises:
        UnsupportedError: the case has more matrices or longer axes than a tag can tell apart.
        KernelFault, BudgetError, ConfigurationError: as for a launch.
    """
    matrices, tagged, space, raw = traced_launch(case, kernel)
    expected = expected_outputs(case, matrices)
    products = Products(raw, expected)
    names = Names(kernel.kernel, {matrix.number: matrix for matrix in matrices}, raw)
    roles = {output.role for output in expected}
    judged = [
        judge_output(role, one.of(role), expected, raw, products)
        for one in tagged
        for role in one.argument.placements
        if role in roles and one.argument.spec.direction != "in"
    ]
    classifier = Classifier(names, raw, expected, products)
    disagreements = classifier.disagreements(judged)
    seen = space.taken(raw.samples[0])
    stages: tuple[Stage, ...] = ()
    roots: tuple[Disagreement, ...] = ()
    notes: tuple[str, ...] = ()
    if expected and len(seen):
        known, given = stages_of(case, matrices)
        lines = tuple(
            observe(
                seen, raw, products, expected, names, narrow=narrow_of(given), integers=known.exact,
                hidden=known.hidden, most=space.most, capacity=space.capacity,
            )
        )  # fmt: skip
        found = tuple(known.judge(expected, raw.coverage, lines))
        stages, roots, unknown, notes = stages_and_root(case, known, found, expected, disagreements, judged)
        operands = {one.place for one in stages if one.status == "fits" and one.what.startswith("operand")}
        sure = tuple(one for one in disagreements if not (one.guessed and one.place in operands))
        if len(sure) < len(disagreements):  # the values are the operation's own where they lie
            disagreements = sure
            stages, roots, unknown, notes = stages_and_root(case, known, found, expected, disagreements, judged)
        disagreements = (*disagreements, *classifier.of_unknown(unknown))
    return ProvenanceRun(
        (*disagreements, *roots),
        tuple(output.summary() for output in judged),
        (*_notes(names, raw, judged, known=bool(expected)), *notes),
        stages,
    )


def traced_launch(
    case: BoundCase, kernel: EmulatedKernel
) -> tuple[tuple[ArgumentMatrix, ...], tuple[TaggedArgument, ...], SampleSpace, TaggedRun]:
    """Launch with tags: the matrices, the arguments' tags afterwards, sampled values, and what was recorded.

    Raises:
        UnsupportedError, KernelFault, BudgetError, ConfigurationError: as for `trace`.
    """
    matrices = number_matrices(case)
    tagged = tuple(tag_arguments(case, matrices))
    space = SampleSpace()
    options = replace(
        kernel.options,
        threads=1,
        checks=("provenance",),
        check_table=engine_table(case, kernel, tagged, matrices, space),
        observer=None,
    )
    watched = EmulatedKernel(kernel.kernel, options)
    watched.launch(case.launch)
    return matrices, tagged, space, read_raw(watched.raw_findings)


def engine_table(
    case: BoundCase,
    kernel: EmulatedKernel,
    tagged: Sequence[TaggedArgument],
    matrices: Sequence[ArgumentMatrix],
    samples: SampleSpace,
) -> tuple[int, ...]:
    """What the engine takes: see `table_of` in native/provenance/provenance.cpp."""
    shift = granule_shift(case)
    table = [shift, len(matrices), samples.address, samples.capacity, samples.most]
    for matrix in matrices:
        table += [matrix.rows, matrix.columns]
    for extent, one in zip(kernel.extents(case.launch), tagged, strict=False):  # module variables follow the arrays
        table += [extent.start, extent.size, one.granules.ctypes.data]
    return tuple(table)


def _notes(names: Names, raw: TaggedRun, judged: Sequence[JudgedOutput], *, known: bool) -> Iterator[str]:
    if not known:
        yield "the card's operation has no matrix product: outputs are not judged"
    by_line: Mapping[str, int] = {}
    if any(output.unknown.any() for output in judged):
        counts: dict[str, int] = {}
        for pc, count in raw.unexplained.items():
            place = str(names.line(pc))
            counts[place] = counts.get(place, 0) + count
        by_line = counts
        for output in judged:
            if output.unknown.any():
                reach = output.reach(output.unknown)
                yield f"{reach.elements} of {reach.of} elements of {output.role} are not followed to their inputs"
    for place, count in sorted(by_line.items()):
        yield f"{place}: {count} sums of operands that are not followed"


def traced_findings(case: BoundCase, kernel: LoadedKernel) -> tuple[ReportedFinding, ...]:
    """Trace a case, bound anew; what disagreed, or why it could not be followed.

    Nothing on a kernel that runs on a GPU alone.
    """
    emulated = emulator_of(kernel)
    if emulated is None:
        return ()
    try:
        run = trace(case, emulated)
    except WmmadiagError as error:
        place = error.place or Place("", 0, 0)
        message = f"values are not followed: {error.message}"
        return (reported(Finding("provenance", "not-followed", Level.ADVICE, message, place, hint=error.hint)),)
    return tuple(reported(one.finding()) for one in run.disagreements)
