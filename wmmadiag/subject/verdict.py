"""What the arrays of a finished run say: outputs against the reference, guards, inputs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compare.comparison import compare, compare_outputs, wrong_elements
from wmmadiag.compare.observation import Observation
from wmmadiag.errors import ConfigurationError
from wmmadiag.launch import Elsewhere
from wmmadiag.ops import OPERATIONS, Reading, readings
from wmmadiag.ops.evaluation import judge, reference, tolerance
from wmmadiag.ops.model import Setting
from wmmadiag.ops.parts.rounding import Doubles, Judgement
from wmmadiag.results.model import Problem, Status
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.fitting import Meant, fitting_reading
from wmmadiag.subject.readings import assumed_reading
from wmmadiag.subject.reference_case import ReferenceCase
from wmmadiag.subject.storage import Damage, damage, is_poison

_MUTE = 0.9  # of the elements

Expectation: TypeAlias = tuple[dict[str, Doubles], dict[str, Judgement], str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judged case."""

    status: Status
    observations: tuple[Observation, ...]  # one per output, against the reference
    # expected, judgements: the reference and the bounds used, by role
    expected: Mapping[str, Doubles]
    judgements: Mapping[str, Judgement]
    damages: tuple[tuple[str, Damage], ...]  # (argument's name, what happened to it)
    problem: Problem | None  # why it is undecided, or None
    notes: tuple[str, ...]  # remarks for the report
    convention: Meant | None = None  # the one other reading that makes a wrong result right, wholly or in part, or None
    coarser: Reading | None = (
        None  # the one with a coarser arithmetic that would explain all of a wrong result, or None
    )


def judge_case(
    bound: BoundCase, known: dict[Hashable, Expectation] | None = None, *, other_readings: bool = True
) -> Verdict:
    """Compare a finished run with its reference.

    Args:
        known: expectations of earlier runs of the same card; the last one is kept, since variants share it.
        other_readings: whether other readings of a wrong result are tried.

    Raises:
        ConfigurationError: the user's reference fails, or gives no bound where the card has no tolerance.
    """
    key = _key(bound)
    known = {} if known is None else known
    if key not in known:
        known.clear()
        known[key] = expectation(bound)
    expected, judgements, criterion = known[key]
    elements = bound.elements()
    observations = []
    for role, observed in bound.outputs().items():
        if role not in judgements:
            continue
        observations.append(
            compare(
                observed,
                expected[role],
                judgements[role],
                output=bound.argument_of(role).spec.name,
                element=elements[role],
                unwritten=unwritten_elements(bound, role, observed),
                criterion=criterion if judgements[role].bound.any() or elements[role].is_float else "exact value",
                axes=axis_letters(bound, role, observed.ndim),
            )
        )
    damages = _damages(bound)
    wrong = any(not seen.passed for seen in observations) or bool(damages)
    problem = None
    status: Status = "failed" if wrong else "passed"
    hopeless = [role for role in judgements if not np.isfinite(judgements[role].bound).all()]
    if not wrong and hopeless:
        status = "undecided"
        problem = Problem(
            "undecided",
            f"rounding alone may explain any value of '{hopeless[0]}': the bound is infinite",
            hint="use a smaller shape or another distribution, or give the card a tolerance",
        )
    elif not wrong and bound.card.derived is not None and _is_mute(expected, judgements):
        status = "undecided"
        problem = Problem(
            "undecided",
            "what was taken so says nothing: an output of zeros would be within the bound, too",
            hint="--computes says what the kernel computes",
        )
    coarser = _coarser(bound, expected, observations, judgements) if wrong and criterion == "rounding bound" else None
    notes = (meant_note(coarser),) if coarser is not None else ()
    if not OPERATIONS[bound.card.computes.operation].judged:
        notes = ("nothing is expected of the numbers: only the checks judge",)
    convention = fitting_reading(bound) if wrong and not damages and other_readings else None
    if convention is not None and convention[1] == 1:
        notes = (f"every element is right with {convention[0].meaning()}; if the kernel means that, let the card say "
                 f"{convention[0].settings()}",)  # fmt: skip
    meant = convention and convention[0]
    return Verdict(status, tuple(observations), expected, judgements, damages, problem, notes, meant, coarser)


def _is_mute(expected: Mapping[str, Doubles], judgements: Mapping[str, Judgement]) -> bool:
    """Whether bounds are as large as the values: whatever the kernel does is right then."""
    bounded = [(np.abs(expected[role]), one.bound) for role, one in judgements.items()]
    count = sum(values.size for values, _ in bounded)
    mute = sum(int(((bound > 0) & (bound >= values)).sum()) for values, bound in bounded)
    return count > 0 and mute > _MUTE * count


def wrong_masks(bound: BoundCase, verdict: Verdict) -> dict[str, NDArray[np.bool_]]:
    """Which elements of each judged output are wrong, by role, in its logical shape."""
    elements = bound.elements()
    return {
        role: wrong_elements(
            observed,
            verdict.expected[role],
            verdict.judgements[role],
            element=elements[role],
            unwritten=unwritten_elements(bound, role, observed),
        )
        for role, observed in bound.outputs().items()
        if role in verdict.judgements
    }


def also_elsewhere(
    bound: BoundCase, verdict: Verdict, other: Elsewhere, known: dict[Hashable, Expectation] | None = None
) -> Verdict:
    """Judge what another backend left of the same run, too: a case passes if it passes on both.

    The returned verdict is the graver of the two, with a note of the other one and of every difference in bits. The
    arrays of `bound` are those of the first backend again afterwards.
    """
    kept = {index: bound.arguments[index].storage for index in other.arrays}
    before = {index: storage.copy() for index, storage in kept.items() if storage is not None}
    for index, storage in kept.items():
        if storage is not None:
            storage[...] = other.arrays[index]
    theirs = judge_case(bound, known)
    for index, content in before.items():
        storage = kept[index]
        assert storage is not None
        storage[...] = content
    notes = [*verdict.notes, *other.notes]
    if theirs.status == verdict.status:
        return replace(verdict, notes=tuple(notes))
    words = {"passed": "is right", "failed": "is wrong", "undecided": "cannot be decided", "error": "is in error"}
    name = f"the {other.backend.upper() if other.backend == 'gpu' else other.backend}"
    if theirs.status == "failed" or (theirs.status == "undecided" and verdict.status == "passed"):
        notes.append(f"the numbers shown are those of {name}, where the result {words[theirs.status]}; on the "
                     f"emulator it {words[verdict.status]}")  # fmt: skip
        return replace(theirs, notes=(*theirs.notes, *notes))
    notes.append(f"on {name} the result {words[theirs.status]}; the numbers shown are the emulator's")
    return replace(verdict, notes=tuple(notes))


def against_variant(
    bound: BoundCase, verdict: Verdict, other: BoundCase, other_verdict: Verdict, name: str
) -> tuple[Observation, ...]:
    """Compare a run's outputs with another variant's of the same case, both bounds added."""
    outputs, others = bound.outputs(), other.outputs()
    elements = bound.elements()
    return tuple(
        compare_outputs(
            observed,
            others[role],
            verdict.judgements[role],
            other_verdict.judgements[role],
            output=bound.argument_of(role).spec.name,
            element=elements[role],
            against=name,
            axes=axis_letters(bound, role, observed.ndim),
        )
        for role, observed in outputs.items()
        if role in verdict.judgements and role in others and others[role].shape == observed.shape
    )


def _key(bound: BoundCase) -> Hashable:
    """What an expectation depends on, within one card."""
    shapes = tuple((role, array.shape) for role, array in {**bound.inputs(), **bound.outputs()}.items())
    symbols = tuple(bound.symbols.items()) if OPERATIONS[bound.card.computes.operation].of_user else ()
    return bound.case.name, bound.seed, bound.distribution, tuple(bound.parameters.items()), shapes, symbols


def unwritten_elements(bound: BoundCase, role: str, observed: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Where an output still holds poison; None where it need not be written, or began with something else."""
    argument = bound.argument_of(role)
    if argument.spec.direction != "out" or argument.spec.initial != "poison":
        return None
    return is_poison(observed, argument.spec.element, argument.index)


def axis_letters(bound: BoundCase, role: str, rank: int) -> str:
    """A letter per axis of an output, or ""."""
    known = OPERATIONS[bound.card.computes.operation].roles.get(role)
    return known.axes[-rank:] if known and rank <= len(known.axes) else ""


def expectation(bound: BoundCase) -> Expectation:
    """Expected outputs, how to judge them, and the criterion in words."""
    operation = bound.card.computes.operation
    if not OPERATIONS[operation].judged:
        return {}, {}, "nothing is expected"
    inputs = bound.inputs()
    judgements: dict[str, Judgement]
    shapes = {role: array.shape for role, array in bound.outputs().items()}
    if OPERATIONS[operation].of_user:
        from wmmadiag.subject.formula_reference import formula_reference
        from wmmadiag.subject.reference_process import asked_reference

        case = ReferenceCase(bound.card, inputs, bound.symbols, shapes, bound.elements())
        expected, bounds = (formula_reference if bound.card.computes.formula else asked_reference)(case)
        if bound.tolerance is None:
            missing = [role for role in expected if role not in bounds]
            if missing:
                raise bound.card.computes.error(
                    f"the reference gives no bound for '{missing[0]}' and the card no tolerance",
                    "add tolerance = { atol = 1e-3, rtol = 1e-3 }, or return a pair (output, bound)",
                )
            return expected, {role: Judgement(bounds[role]) for role in expected}, "reference's bound"
    else:
        expected = reference(operation, bound.parameters, inputs)
        if untold := sorted(shapes.keys() - expected.keys()):
            raise bound.card.computes.error(
                f"{operation} does not tell '{untold[0]}' of {', '.join(inputs)}",
                "give the arrays that it is computed of their roles, or say what else the kernel computes",
            )
    if bound.tolerance is not None:
        shaped = {role: _shaped(value, shapes.get(role)) for role, value in expected.items()}
        return shaped, {role: tolerance(value, bound.tolerance) for role, value in shaped.items()}, "tolerance"
    judgements = judge(operation, bound.parameters, inputs, expected, bound.elements())
    return (
        {role: _shaped(value, shapes.get(role)) for role, value in expected.items()},
        {
            role: Judgement(
                _shaped(one.bound, shapes.get(role)),
                None if one.nonfinite_ok is None else _shaped(one.nonfinite_ok, shapes.get(role)),
            )
            for role, one in judgements.items()
        },
        "rounding bound",
    )


_T = TypeVar("_T", bound=np.generic)


def _shaped(value: NDArray[_T], shape: tuple[int, ...] | None) -> NDArray[_T]:
    """An array in its output's own shape: a card may leave leading axes of extent 1 out of some tensors.

    Raises:
        ConfigurationError: the output has another number of elements.
    """
    if shape is None:
        return value
    if value.size != math.prod(shape):
        raise ConfigurationError(
            f"the operation gives {list(value.shape)}, and the card's output is {list(shape)}",
            hint="check the symbols of this case, and the output's shape",
        )
    return value.reshape(shape)


def _damages(bound: BoundCase) -> tuple[tuple[str, Damage], ...]:
    found = []
    for argument in bound.arguments:
        if argument.storage is None or argument.original is None or argument.spec.direction == "workspace":
            continue
        writable = () if argument.spec.direction == "in" else tuple(argument.placements.values())
        seen = damage(argument.original, argument.storage, writable, "guard" if writable else "input")
        if seen is not None:
            found.append((argument.spec.name, seen))
    return tuple(found)


_COARSER = (
    "every difference would be within the bound with {}; if the kernel means that, let the card's [computes] say so"
)


_COARSER_TRIED = 24


def meant_note(coarser: Reading) -> str:
    """What is said of a wrong result that a coarser arithmetic would explain."""
    return _COARSER.format(" with ".join(f'{name} = "{value}"' for name, value in coarser.parameters.items()))


def coarser_readings(bound: BoundCase) -> list[Reading]:
    """What a card's kernel computes, with a coarser arithmetic than the card says, the likeliest first."""
    assumed = assumed_reading(bound.card)
    operation = OPERATIONS[bound.card.computes.operation]
    return list(islice(readings(operation, assumed, changes=2, kinds=("arithmetic",)), _COARSER_TRIED))


def _everything(coarser: Sequence[Reading]) -> tuple[dict[str, Setting], ...]:
    """All that these readings change at once: each to the first of its values, or to the last, which may be coarser."""
    return tuple(
        {name: value for one in some for name, value in one.parameters.items()} for some in (coarser[::-1], coarser)
    )


def _shared(observed: NDArray[Any], expected: Doubles, judgement: Judgement) -> bool:
    """Whether most elements err: rounding errs everywhere alike, but not where an activation makes nought of it."""
    telling = expected != 0
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = (np.abs(observed.astype(np.float64) - expected) / judgement.bound)[telling]
    return errors.size == 0 or float(np.median(errors)) >= 0.03 * float(errors.max())


def _coarser(
    bound: BoundCase,
    complete: Mapping[str, Doubles],
    observations: list[Observation],
    judgements: Mapping[str, Judgement],
) -> Reading | None:
    """The reading with a coarser arithmetic than the card says that would explain everything, or None."""
    if all(o.passed for o in observations):  # what else is wrong (a damaged input) no arithmetic explains
        return None
    if any(o.unwritten or o.nan or o.inf for o in observations):
        return None
    observed, wrong = bound.outputs(), {one.output for one in observations if one.wrong}
    # An error that most elements do not share has another cause.
    if not all(_shared(observed[role], complete[role], judgements[role]) for role in wrong & judgements.keys()):
        return None
    inputs = bound.inputs()
    outputs = {role: one.astype(np.float64) for role, one in bound.outputs().items()}

    def explains(change: Mapping[str, Setting]) -> bool:
        parameters = {**bound.parameters, **change}
        judged = judge(bound.card.computes.operation, parameters, inputs, complete, bound.elements())
        with np.errstate(invalid="ignore"):  # a score that is masked is infinite on both sides
            return all(
                (
                    (outputs[role] == complete[role])
                    # Without a bound, as where a sum overflows, arithmetic explains any value, and so none.
                    | (np.isfinite(judged[role].bound) & (np.abs(outputs[role] - complete[role]) <= judged[role].bound))
                ).all()
                for role in outputs
                if role in judged
            )

    coarser = coarser_readings(bound)
    # One look with everything allowed saves the others where nothing would help.
    if not coarser or not any(map(explains, _everything(coarser))):
        return None
    return next((one for one in coarser if explains(one.parameters)), None)
