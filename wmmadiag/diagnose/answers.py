"""Claims from the three sources of evidence, and refutations where these are silent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from wmmadiag.checks.finding import Finding
from wmmadiag.diagnose.addressing import AXES, Misread
from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.edits.conditions import conditions
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.faults.model import Fitted
from wmmadiag.diagnose.lines.terms import lines_about
from wmmadiag.errors import WmmadiagError
from wmmadiag.place import Place
from wmmadiag.provenance import Disagreement
from wmmadiag.subject.check import own_place

_LIKELY = 6
"""Lines that make a wrong address at which edits are tried."""

# Roles of the tensors that an operation's products are made of, sorted.
_OPERANDS = {
    "attention": (["k", "q"], ["k", "q", "v"]), "qkt": (["k", "q"],), "pv": (["p", "v"],), "gemm": (["a", "b"],),
}  # fmt: skip

_LATER = 0.0001
"""How much further from the root a change is for each that was asked for before, and fits as well."""

_OF_SOFTMAX = ("normalisation", "exp-base")
"""What a change of the card's function may speak for, though no known operation is meant."""


def answer(claims: Iterable[Claim], otherwise: NotSo) -> Answer:
    """The claims, or what to say without one."""
    found = tuple(claims)
    return found or otherwise


def of_disagreement(
    hypothesis: str,
    seen: Disagreement,
    rank: float,
    *,
    sentence: str = "",
    instead: str = "",
    also: Sequence[str] = (),
    exact: bool = True,
) -> Claim:
    """A claim from provenance, which shows the line and the elements that it reaches.

    Args:
        also: other hypotheses whose edits may mend it.
    """
    values = {} if seen.wanted is None else {"ldm": seen.wanted}
    return Claim(
        hypothesis,
        "proven",
        sentence or seen.message,
        seen.place,
        seen.other,
        instead,
        (f"provenance at {seen.place}: {seen.message}", *seen.detail),
        seen.masks or None,
        rank,
        (hypothesis, *also) if also else (),
        (),
        values,
        exact=exact,
        seen=exact,
    )


def stored_elsewhere(evidence: Evidence, claim: Claim) -> Claim:
    """A claim about elements that lie elsewhere, with the lines that store them: these place them as well."""
    file = claim.place.file if claim.place is not None else ""
    lines = tuple(place.line for place in evidence.output_lines if place.file == file)
    return replace(claim, edit_lines=(*claim.edit_lines, *lines))


def of_finding(
    hypothesis: str,
    seen: Finding,
    rank: float,
    *,
    sentence: str = "",
    also: Sequence[str] = (),
    exact: bool = True,
    advice: str = "",
    lines: Sequence[int] = (),
) -> Claim:
    """A claim from a check's finding, at the user's line."""
    place = own_place(seen.place)
    return Claim(
        hypothesis,
        "proven",
        sentence or seen.message.replace("this line", f"line {place.line}", 1),
        place,
        own_place(seen.other) if seen.other is not None else None,
        "",
        (f"check {seen.check}: {seen.message}", *seen.detail),
        None,
        rank,
        (hypothesis, *also) if also else (),
        tuple(lines),
        advice=advice,
        exact=exact,
    )


def of_misread(
    evidence: Evidence, hypothesis: str, seen: Sequence[Misread], rank: float, *, also: Sequence[str] = ()
) -> Claim:
    """A claim from what each block touches in global memory, at the line that makes the wrong addresses."""
    first = seen[0]
    words = [
        f"{stride.axis}s of {one.role.upper()} are {'stored' if one.store else 'read'} {stride.read:,} elements apart "
        f"and lie {stride.lies:,} apart"
        for one in seen
        for stride in one.strides
    ]
    places = [Place(file, line) for file, line in first.lines[:_LIKELY]]
    if not first.certain:
        places[1:1] = [Place(one.place.file, one.place.line) for one in seen]
    lines = list(dict.fromkeys(place.line for place in places if place.file == places[0].file))
    return Claim(
        hypothesis,
        "proven",
        f"{first.words}; {words[0]}" if words else first.words,
        places[0] if places else first.place,
        first.place,
        "",
        (*(f"accesses at {one.place}: {one.words}" for one in seen[:4]), *words[:4]),
        None,
        rank,
        (hypothesis, *also),
        tuple(lines),
        stride_values(evidence, seen),
        exact=False,
        seen=first.certain,
        likeliest_first=True,
    )


def stride_values(evidence: Evidence, seen: Sequence[Misread]) -> dict[str, float | int]:
    """Numbers for edits: "misread", how many accesses are; "read-0" and "lies-0" for the first stride, and so on.

    Of the card's other cases "lies-0@0", and their own numbers: "S@0" is S of the first of them.
    """
    values: dict[str, float | int] = {"misread": len(seen)}
    strides = {(stride.read, stride.lies): (one.role, stride.axis) for one in seen for stride in one.strides}
    others = evidence.other_cases if strides else ()
    for case, bound in enumerate(others):
        values |= {f"{name}@{case}": value for name, value in evidence.numbers(bound).items()}
    for number, ((read, lies), (role, axis)) in enumerate(strides.items()):
        values |= {f"read-{number}": read, f"lies-{number}": lies}
        for case, bound in enumerate(others):
            values[f"lies-{number}@{case}"] = bound.argument_of(role).placements[role].strides[AXES[axis]]
    return values


def of_fault(
    hypothesis: str,
    fault: WmmadiagError,
    evidence: Evidence,
    rank: float,
    *,
    sentence: str = "",
    instead: str = "nothing: the launch dies",
    also: Sequence[str] = (),
    exact: bool = True,
    advice: str = "",
) -> Claim:
    """A claim from what ended the run early, at the user's line.

    Args:
        also: other hypotheses whose edits may mend it.
        advice: what to do where no edit can be tried.
    """
    return Claim(
        hypothesis,
        "proven",
        sentence or fault.message,
        evidence.error_place(),
        instead=instead,
        evidence=(f"the launch ends here: {fault.message}", *fault.detail.splitlines()),
        rank=rank,
        edit_hypotheses=(hypothesis, *also) if also else (),
        advice=advice,
        space=fault.space,
        exact=exact,
    )


def of_models(evidence: Evidence, hypothesis: str, *, also: Sequence[str] = ()) -> Iterator[Claim]:
    """Claims from fault models of a hypothesis that give the kernel's output; the line is for a trial to find."""
    if not evidence.completed:
        return
    rivals = [one for one in evidence.fitted if one.hypothesis != hypothesis and one.residual <= 1 and not one.broken]
    for number, one in enumerate(evidence.fitted):
        if one.hypothesis != hypothesis:
            continue
        whole = one.residual <= 1 and not one.partial and not one.broken
        later = 0.0 if evidence.modelled else _LATER * number
        lines = [f"the reference, changed in this one way, is within {one.residual:.2g} of the bound of the output"]
        if not whole:
            lines = ["the reference, changed in this one way, gives some of the wrong elements"]
        departs = evidence.departure
        if departs is not None:
            lines.append(f"{departs.place} is the first line whose values are not the operation's own ({departs.what})")
        lines += [f"so does: {rival.words} ({rival.residual:.2g})" for rival in rivals[:2]] if whole else []
        # How an input is read is wrong at its own line, what is done with it where it is used.
        used, outer = hypothesis != "index-arithmetic", bool(one.parameters.get("outer"))
        about = one.candidate.about
        places = lines_about(evidence, about, used=used, outer=outer) if about else ()
        if places:
            lines.append(f"{places[0].place} {places[0].words}")
        place = places[0].place if places else departs.place if departs is not None else None
        near = tuple(own.place.line for own in places if place is not None and own.place.file == place.file)
        if place is None:
            place, near = read_at(evidence, one)
        yield Claim(
            hypothesis,
            "reproduced" if whole and (evidence.modelled or not rivals) else "undecided",
            one.words,
            place,
            evidence=tuple(lines),
            reach=one.explained,
            rank=(Roots.MODEL if whole else Roots.SUSPICION) + min(one.residual, 9.0) / 10 + later,
            edit_hypotheses=(hypothesis, *also),
            other=next((one.place for one in places[1:2]), None),
            edit_lines=near,
            likeliest_first=not evidence.modelled and place is not None and bool(near),
            values={name: value for name, value in one.parameters.items() if isinstance(value, (int, float))},
            residual=one.residual,
            exact=False,
            seen=False,
            model=one.model,
            told=bool(places),
        )


def read_at(evidence: Evidence, fitted: Fitted) -> tuple[Place | None, tuple[int, ...]]:
    """The line that reads the operand that a change is about, and further ones that make its address.

    Of the models of a known operation provenance shows more; these say nothing.
    """
    role = str(fitted.parameters.get("operand", ""))
    if not evidence.modelled and not role and fitted.hypothesis in _OF_CONDITIONS:
        return None, tuple(_conditions(evidence))
    return (None, ()) if evidence.modelled or not role else readers(evidence, role)


def readers(evidence: Evidence, role: str) -> tuple[Place | None, tuple[int, ...]]:
    """The line that reads an input, and lines that make its address, the likeliest first; None and () if unknown."""
    seen = evidence.reading
    if seen is None or role not in seen.places:
        return None, ()
    place = seen.places[role][0]
    lines = [line for file, line in seen.lines[role] if file == place.file]
    bound = evidence.run.bound
    made = evidence.declared(bound.argument_of(role)) if bound is not None else None
    further = (*seen.places[role][1:], *((made,) if made is not None else ()))
    return place, tuple(dict.fromkeys((*lines, *(one.line for one in further if one.file == place.file))))


_OF_CONDITIONS = ("guard-condition", "index-arithmetic", "tail-masking", "causal-mask", "card-mismatch", "loop-extent")


def _conditions(evidence: Evidence) -> Iterator[int]:
    """The lines of the source on which something is compared, heads of loops left out."""
    file = evidence.files[0]
    model = evidence.source_model(file)
    if model is not None:
        yield from dict.fromkeys(piece.line for piece in conditions(model))


def same_operands(evidence: Evidence, seen: Disagreement) -> bool | None:
    """Whether a product that does not belong is of the tensors that the operation multiplies, of other heads or places.

    None where the disagreement names no product, or where tensors share memory: a wrong stride leads to another there.
    """
    bound = evidence.run.bound
    if bound is None or any(len(argument.placements) > 1 for argument in bound.arguments):
        return None
    wanted = _OPERANDS.get(evidence.operation)
    if seen.operands is None or wanted is None:
        return None
    left, right = seen.operands
    return sorted((*left, *right)) in wanted


def watched(evidence: Evidence, reason: str) -> NotSo:
    """Refuted by checks that saw every access of the whole run; undecided where they could not."""
    if evidence.emulated and evidence.completed:
        return NotSo("refuted", reason)
    return NotSo(
        "undecided", "the run ended before it could be seen" if evidence.emulated else "outputs do not show it"
    )


def followed(evidence: Evidence, reason: str) -> NotSo:
    """Refuted by provenance where every element could be followed; undecided else."""
    run = evidence.provenance if evidence.completed else None
    if run is None:
        return NotSo("undecided", evidence.provenance_problem or "the run ended before elements could be followed")
    if any(one.unknown for one in run.outputs) or not run.multiplications:
        return NotSo("undecided", "not all elements could be followed to their inputs")
    return NotSo("refuted", reason)


def modelled(evidence: Evidence, what: str) -> NotSo:
    """Refuted by the fault models: the reference with this one change does not give the kernel's output."""
    if not evidence.completed:
        return NotSo("undecided", "there are no numbers to compare with")
    if not evidence.wrong_count:
        return NotSo("refuted", "all numbers are right")
    if not evidence.modelled:
        return NotSo("undecided", "the card's function gives outputs alone: there is no model of this fault")
    return NotSo("refuted", f"the reference {what} does not give the kernel's output")


def only_for(evidence: Evidence, operations: Sequence[str]) -> NotSo | None:
    """Not applicable to what the card computes, or None."""
    if evidence.operation in operations:
        return None
    if not evidence.modelled:  # what a function of the user's own computes inside, only the source shows
        shown = evidence.softmax is not None or any(one.hypothesis in _OF_SOFTMAX for one in evidence.fitted)
        return None if shown else NotSo("not applicable", "the source has no softmax")
    return NotSo("not applicable", f"the kernel computes {evidence.operation}")
