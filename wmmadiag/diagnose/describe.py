"""From what was found to a `Diagnosis`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from wmmadiag.checks.run import reported
from wmmadiag.diagnose.claim import Claim, NotSo
from wmmadiag.diagnose.edits import diff
from wmmadiag.diagnose.edits.registry import generators
from wmmadiag.diagnose.evidence import Evidence, mask_of
from wmmadiag.diagnose.mends.nature import common, nature, tells
from wmmadiag.diagnose.registry import all_hypotheses
from wmmadiag.diagnose.search import Found
from wmmadiag.diagnose.symptoms.shape import symptoms
from wmmadiag.diagnose.trials.launches import speaks_of_launch
from wmmadiag.diagnose.trials.trial import Trial, edits_for
from wmmadiag.diagnose.trials.workbench import CaseRun, Workbench
from wmmadiag.place import Place
from wmmadiag.report.diagnosis import Cause, Diagnosis, Excerpt, Fix, Outcome, Tested, Verdict
from wmmadiag.subject.card import Case

_AROUND = 3
_PROBE_SECONDS = 1.0


@dataclass(slots=True)
class Step:
    """One cause, and the cases as they ran with its change (empty where none was found)."""

    evidence: Evidence
    found: Found
    after: list[CaseRun] = field(default_factory=list)

    @property
    def mended(self) -> bool:
        """Everything that ran with the change passes."""
        return bool(self.after) and all(run.passed for run in self.after)


@dataclass(slots=True)
class Finished:
    """All that the engine did.

    Attributes:
        baseline: the cases as the source stands, by name.
        failing: the case that was looked into, or None.
        steps: one per cause.
    """

    bench: Workbench
    baseline: Mapping[str, CaseRun]
    failing: Case | None
    steps: list[Step]


def described(finished: Finished, backend: str, repeat: str, seconds: float) -> Diagnosis:
    """The diagnosis as data; `repeat`: the command that repeats it."""
    bench, steps = finished.bench, finished.steps
    causes = tuple(cause for number, step in enumerate(steps) for cause in _causes(finished, number, step))
    first = finished.baseline[finished.failing.name] if finished.failing is not None else None
    outcome = _outcome(first, causes)
    return Diagnosis(
        name=bench.card.name,
        card=str(bench.card.path),
        source=str(bench.source),
        operation=bench.card.computes.operation,
        arch=bench.arch,
        backend=backend,
        variant=bench.variant.name,
        case=finished.failing.name if finished.failing is not None else "",
        outcome=outcome,
        headline=_headline(outcome, causes, first, finished),
        symbols=first.result.symbols if first is not None else {},
        cases={name: run.result.status for name, run in finished.baseline.items()},
        causes=causes,
        tested=_tested(steps, causes),
        symptoms=(*symptoms(first), *_probed(finished, outcome)) if first is not None else (),
        observations=first.result.observations if first is not None else (),
        findings=tuple(map(reported, first.findings)) if first is not None else (),
        problem=first.result.problem if first is not None else None,
        unseen=tuple(_unseen(steps)),
        seconds=seconds,
        repeat=repeat,
        assumed=bench.card.assumed,
    )


def _probed(finished: Finished, outcome: Outcome) -> Iterator[str]:
    """What inputs with a known answer show of the whole kernel, where nothing else named a cause at a line."""
    from wmmadiag.probes.subject import run_subject_probes

    first = finished.steps[0].evidence if finished.steps else None
    if finished.failing is None or first is None or not first.completed:
        return
    if outcome == "diagnosed" and (first.emulated or finished.steps[0].found.trial is not None):
        return
    for answer in run_subject_probes(finished.bench, finished.failing, seconds=_PROBE_SECONDS):
        if answer.verdict != "undecided":
            yield f"probe {answer.name}: {answer.sentence}"


def _outcome(first: CaseRun | None, causes: Sequence[Cause]) -> Outcome:
    if first is None:
        return "right"
    if causes and causes[0].verdict in ("proven", "reproduced"):
        return "diagnosed"
    return "error" if first.result.status == "error" else "undecided"


def _headline(outcome: Outcome, causes: Sequence[Cause], first: CaseRun | None, finished: Finished) -> str:
    if outcome == "right":
        count = len(finished.baseline)
        return f"nothing is wrong: {count} case{'s' * (count != 1)} within the bound, and no check found an error"
    if outcome == "diagnosed":
        more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
        return f"{causes[0].place}: {causes[0].sentence}{more}".removeprefix(": ")
    if first is not None and first.result.problem is not None and first.verdict is None:
        return f"{first.result.problem.place}: {first.result.problem.message}".removeprefix(": ")
    return "wrong, and the cause is not known: see what was ruled out"


def _causes(finished: Finished, number: int, step: Step) -> Iterator[Cause]:
    """The cause of a step; without a change that mends the case, the claims that together explain most."""
    claim, trial = step.found.claim, step.found.trial
    if trial is not None:
        yield _mended(finished, number, step)
        return
    if claim is None:
        return
    chosen = _covering(step)
    for one in chosen:
        cause = _cause(step, _without_proof(one), _consequences(step, chosen), _advice(one))
        # A change of the user's function fits many lines: none is likelier by itself.
        yield cause if cause.place or not step.evidence.modelled else _likeliest(cause, step, one)


def _without_proof(claim: Claim) -> Claim:
    """A claim as it stands where no change mends the kernel: what was seen at a line is not yet which fault made it."""
    if (
        claim.exact
        or (claim.seen and claim.at_most is None)
        or claim.verdict != "proven"
        or (claim.residual is not None and not claim.ambiguous)
        or not claim.edit_hypotheses
    ):
        return claim
    return replace(claim, verdict="undecided")


def _likeliest(cause: Cause, step: Step, claim: Claim) -> Cause:
    """A cause that no line was shown for, at the code that most likely does what it is about."""
    candidates = edits_for(step.evidence, claim)
    if not candidates:
        return cause
    _, file, edit = candidates[0]
    here = Place(file, edit.line)
    note = "the line is the likeliest by what its code does; the run does not show it"
    return replace(cause, place=str(here), excerpt=excerpt(here, None), evidence=(*cause.evidence, note))


def _covering(step: Step) -> list[Claim]:
    """The likeliest root, then claims that explain wrong elements which those before do not."""
    wrong = {role: mask.copy() for role, mask in step.evidence.wrong.items()}
    chosen: list[Claim] = []
    for claim in step.found.claims:
        if claim.verdict == "undecided" and chosen:
            continue
        if chosen and (mask_of(claim.reach, wrong) == 0 or claim.reach is None):
            continue
        chosen.append(claim)
        if claim.reach is None:
            if claim.at_most is not None:
                continue
            break
        for role, mask in wrong.items():
            if role in claim.reach:
                mask &= ~claim.reach[role]
        if not any(mask.any() for mask in wrong.values()):
            break
    return chosen


def _cause(step: Step, claim: Claim, consequences: tuple[str, ...], fix: Fix | None) -> Cause:
    evidence = step.evidence
    return Cause(
        hypothesis=claim.hypothesis,
        verdict=claim.verdict,
        sentence=claim.sentence,
        place=str(claim.place) if claim.place is not None else "",
        other=str(claim.other) if claim.other is not None else "",
        excerpt=excerpt(claim.place, claim.other),
        instead=claim.instead,
        explains=_explains(claim, evidence),
        of=evidence.wrong_count,
        evidence=claim.evidence,
        consequences=consequences,
        fix=fix,
    )


def _explains(claim: Claim, evidence: Evidence) -> int:
    """How many of the wrong elements a claim is behind."""
    reached = mask_of(claim.reach, evidence.wrong)
    return reached if claim.at_most is None else min(reached, claim.at_most)


def _mended(finished: Finished, number: int, step: Step) -> Cause:
    """The cause that a change confirms."""
    claim, trial, evidence = step.found.claim, step.found.trial, step.evidence
    assert trial is not None
    edit = trial.edit
    here: Place | None = _edited(trial, evidence) if edit.line else _launch_place(finished.bench)
    if trial.launch is not None and edit.line and not edit.changes:
        host = _launch_place(finished.bench)  # a launch that the source has is where its size is said
        here = host if host is not None and not host.file.endswith(".toml") else here
    mended = step.mended or any(later.mended for later in finished.steps[number:])
    usual = [run for run in step.after if not _on_harder_inputs(run, finished)]
    of_same = ((finished.baseline[run.result.case], run) for run in usual if run.result.case in finished.baseline)
    pairs = [(before, run) for before, run in of_same if run.result.seed == before.result.seed]
    tried = tuple(dict.fromkeys(run.result.case for run in step.after))
    fix = Fix(
        summary=edit.summary,
        diff=_diff(trial, evidence),
        status="verified" if mended else "improves",
        wrong_before=sum(_counted(before, after) for before, after in pairs),
        wrong_after=sum(_counted(run, run) for run in step.after),
        max_difference_before=max((before.max_difference for before, _ in pairs), default=0.0),
        max_difference_after=max((run.max_difference for run in usual), default=0.0),
        tried=tried,
        note="" if step.mended else "together with the next one" if mended else "other elements stay wrong",
    )
    proof = f"with this change alone {_cases(step)}" if step.mended else "with this change what it names is gone"
    guess = claim is not None and _only_where(claim) and trial.launch is None and not evidence.modelled
    if claim is None or guess:
        name = nature(evidence.source_model(trial.file), edit, evidence.operation)
        seen = claim.evidence if claim is not None else ()
        title = all_hypotheses()[name].title if name in all_hypotheses() else name
        return Cause(
            hypothesis=name,
            verdict="proven",
            sentence=f"{title}: the kernel is right with one change: {edit.summary}",
            place=str(here) if here is not None else "",
            excerpt=excerpt(here, None),
            explains=evidence.wrong_count,
            of=evidence.wrong_count,
            evidence=(
                proof,
                *seen,
                f"found by trying {step.found.tries} changes; nothing else was seen that explains it",
            ),
            consequences=_consequences(step, ()),
            fix=fix,
        )
    cause = _cause(step, claim, _consequences(step, (claim,)), fix)
    if step.found.rival is not None:
        note = f"{_cases(step)}, too, if you {step.found.rival.edit.summary}: look which of the two you meant"
        cause = replace(cause, evidence=(*cause.evidence, note))
    if trial.launch is not None:
        if speaks_of_launch(claim):
            cause = _moved(cause, here, edit.hypothesis)
    elif _renamed(claim, trial, mended):
        name = nature(evidence.source_model(trial.file), edit, evidence.operation, claim.hypothesis)
        # A fault model that gives all numbers knows the fault better than a change to some condition or index, or one
        # that may as well mend this fault; unless the model of the fault that the change mends gives them as well.
        may_mend = next((one.hypotheses for one in generators() if one.kind == edit.kind), frozenset())
        known = (
            claim.residual is not None
            and not tells(edit)
            and (common(edit, name) or claim.hypothesis in may_mend)
            and not _as_good(step.found.claims, name, claim.residual)
        )
        cause = _moved(cause, here, claim.hypothesis if known else name)
    elif not cause.place:
        cause = _moved(cause, here, claim.hypothesis)
    elif mended and here is not None and not _names(cause, here):
        cause = replace(cause, other=str(here))  # where it shows is certain; the mistake may stand where it is mended
    if edit.cause and mended:  # what was seen is what this does
        cause = replace(cause, sentence=edit.cause, evidence=(f"seen: {claim.sentence}", *cause.evidence))
    explains = evidence.wrong_count if step.mended else cause.explains
    shown = trial.launch is None or speaks_of_launch(claim)
    verdict = "proven" if mended and shown else _without_proof(replace(claim, at_most=None)).verdict
    if not mended and _shows_again(finished, number):
        verdict = "undecided"
    return replace(cause, verdict=verdict, evidence=(proof, *cause.evidence), explains=explains)


def _only_where(claim: Claim) -> bool:
    """Whether a claim says where to look, and not what is wrong there."""
    return claim.verdict == "undecided" and claim.residual is None and not claim.seen


def _edited(trial: Trial, evidence: Evidence) -> Place:
    """The line of an edit: where text is replaced, that line, though another one led to it."""
    text = evidence.text_of(trial.file)
    if len(trial.edit.changes) == 1 and text is not None:
        change = trial.edit.changes[0]
        if change.end > change.start and "\n" not in text[change.start : change.end]:
            return Place(trial.file, text.count("\n", 0, change.start) + 1)
    return Place(trial.file, trial.edit.line)


def _names(cause: Cause, here: Place) -> bool:
    """Whether one of a cause's two lines is this one."""
    return any(place == str(here) or place.startswith(f"{here}:") for place in (cause.place, cause.other))


def _renamed(claim: Claim, trial: Trial, mended: bool) -> bool:
    """Whether the change that helped says what kind of fault it was, rather than what was claimed."""
    if mended:
        return not claim.exact or claim.verdict == "undecided" or tells(trial.edit)
    return not claim.exact and claim.seen


def _shows_again(finished: Finished, number: int) -> bool:
    """Whether what a change took away shows elsewhere as soon as it is gone: the reason of both is not found."""
    if number + 1 >= len(finished.steps):
        return False
    now, later = finished.steps[number].found, finished.steps[number + 1].found
    if now.claim is None or later.claim is None or later.trial is not None:
        return False
    return now.claim.hypothesis == later.claim.hypothesis


def _as_good(claims: Sequence[Claim], hypothesis: str, residual: float) -> bool:
    """Whether a fault model of a hypothesis gives the kernel's numbers as well as one of such a residual."""
    return any(
        one.hypothesis == hypothesis and one.residual is not None and one.residual <= 1.5 * residual for one in claims
    )


def _diff(trial: Trial, evidence: Evidence) -> str:
    """The change as a unified diff; "" where it is one of the launch."""
    text = evidence.text_of(trial.file) if trial.launch is None or trial.edit.changes else None
    return diff(trial.file.lstrip("/"), text, trial.edit) if text is not None else ""


def _moved(cause: Cause, here: Place | None, hypothesis: str) -> Cause:
    """A cause at the line that the change is about, what was seen elsewhere kept as its second line."""
    if here is None or (here.file.endswith(".toml") and cause.place):
        return replace(cause, hypothesis=hypothesis)
    seen = cause.place if cause.place and not f"{cause.place}:".startswith(f"{here.file}:{here.line}:") else cause.other
    return replace(cause, hypothesis=hypothesis, place=str(here), other=seen, excerpt=excerpt(here, None))


def _cases(step: Step) -> str:
    names = list(dict.fromkeys(run.result.case for run in step.after))
    return f"{len(names)} case{'s' * (len(names) != 1)} pass{'es' * (len(names) == 1)} ({', '.join(names)})"


def _on_harder_inputs(run: CaseRun, finished: Finished) -> bool:
    """Whether a run only tries a change on inputs of another kind than the case's own."""
    before = finished.baseline.get(run.result.case)
    return before is not None and before.result.distribution != run.result.distribution


def _counted(run: CaseRun, other: CaseRun) -> int:
    """Wrong elements; where the kernel did not end, every element of every output, as another run of the case has."""
    if run.verdict is not None:
        return run.wrong_count
    return sum(seen.elements for seen in other.result.observations if seen.against == "reference")


def _launch_place(bench: Workbench) -> Place:
    """Where the source launches the kernel; where its card says how to, if no line of the source does."""
    name = re.escape(bench.card.entry.split("<")[0].split("::")[-1])
    text = bench.source.read_text("utf-8", "replace")
    found = re.search(rf"\b{name}\s*(?:<[^;{{}}]*>)?\s*<<<", text)
    if found is None:
        return (bench.variant.launch or bench.card.launch).place
    return Place(str(bench.source), text.count("\n", 0, found.start()) + 1)


def _advice(claim: Claim) -> Fix | None:
    return Fix(claim.advice, note="not tried: no edit of the source says it") if claim.advice else None


def _consequences(step: Step, chosen: Sequence[Claim]) -> tuple[str, ...]:
    """What else was claimed and is gone with the cause, or explained by it."""
    lines = []
    for claim in step.found.claims:
        if any(claim is one for one in chosen) or claim.verdict == "undecided":
            continue
        where = f"{claim.place}: " if claim.place is not None else ""
        lines.append(f"{where}{claim.sentence}")
    return tuple(dict.fromkeys(lines))


def excerpt(place: Place | None, other: Place | None) -> Excerpt | None:
    """Lines of the source around a place, as the user wrote them."""
    if place is None or not place.file:
        return None
    try:
        text = Path(place.file).read_text("utf-8-sig", "replace")
    except OSError:
        return None
    lines = text.split("\n")
    if not 0 < place.line <= len(lines):
        return None
    marked = [place.line]
    if other is not None and other.file == place.file and abs(other.line - place.line) <= 2 * _AROUND:
        marked.append(other.line)
    first = max(1, min(marked) - _AROUND)
    last = min(len(lines), max(marked) + _AROUND)
    return Excerpt(place.file, first, tuple(line.rstrip("\r") for line in lines[first - 1 : last]), tuple(marked))


def _tested(steps: Sequence[Step], causes: Sequence[Cause]) -> tuple[Tested, ...]:
    """Every hypothesis with its verdict in the first step, those that people suspect first in front."""
    if not steps:
        return ()
    found: list[tuple[int, Tested]] = []
    named = {cause.hypothesis: cause for cause in causes}
    for hypothesis in all_hypotheses().values():
        answer = steps[0].found.answers[hypothesis.id]
        verdict: Verdict
        place, residual = "", None
        if hypothesis.id in named:
            cause = named[hypothesis.id]
            verdict, reason, place = cause.verdict, cause.sentence, cause.place
            order = -1000
        elif isinstance(answer, NotSo):
            verdict, reason = answer.verdict, answer.reason
            place = str(answer.place) if answer.place is not None else ""
            order = -hypothesis.suspected + (0 if verdict == "refuted" else 500)
        else:
            verdict, reason, residual = _left(answer[0], steps[0], causes)
            place = str(answer[0].place) if answer[0].place is not None else ""
            order = -500
        found.append((order, Tested(hypothesis.id, hypothesis.title, verdict, reason, place, residual)))
    return tuple(one for _, one in sorted(found, key=lambda item: item[0]))


def _left(claim: Claim, step: Step, causes: Sequence[Cause]) -> tuple[Verdict, str, float | None]:
    """What becomes of a claim that was not chosen."""
    root = causes[0].hypothesis if causes else ""
    if step.mended:
        return "refuted", f"seen ({claim.sentence}), but it follows from {root}: gone with that change", claim.residual
    return "undecided", claim.sentence, claim.residual


def _unseen(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps[:1]:
        evidence = step.evidence
        if not evidence.emulated:
            yield "accesses, races and the origin of values: this run shows outputs only"
        elif evidence.completed and evidence.provenance is None and evidence.provenance_problem:
            yield f"where elements come from: {evidence.provenance_problem}"
        run = evidence.provenance if evidence.completed else None
        if run is not None:
            yield from run.notes
