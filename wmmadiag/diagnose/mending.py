"""Looking for what mends a failing case: wrong numbers, what only a check complains of, what does not compile."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from wmmadiag.compile.languages import is_c_family
from wmmadiag.diagnose.bases import Base, Progress, behind, confirmed_from, further, keeping, partly_right
from wmmadiag.diagnose.by_checks import by_checks
from wmmadiag.diagnose.certain import is_certain
from wmmadiag.diagnose.changes import Change, without
from wmmadiag.diagnose.evidence import ranked_changes, suspicion_of
from wmmadiag.diagnose.examined import Examined
from wmmadiag.diagnose.hunt import Hunt
from wmmadiag.diagnose.launches import mending_launches, tried_launches
from wmmadiag.diagnose.names import name_of
from wmmadiag.diagnose.only_where import only_where
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.rivals import rivals_of
from wmmadiag.diagnose.search import Tried, helpful, helpful_at_once, suspects
from wmmadiag.diagnose.solving import solved
from wmmadiag.diagnose.trials.setting import Setting
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.diagnose.two_bugs import Which, mending_pairs
from wmmadiag.diagnose.uncompiled import look_where_refused
from wmmadiag.errors import UnsupportedError, WmmadiagError
from wmmadiag.subject.card import Case
from wmmadiag.subject.readings import card_computing

_EARLY, _DEEPER = 2048, 1024
"""Changes that are tried before what mends a good part is followed, and how many beside each of those at first."""
_PARTLY = 2
"""Changes that mend the case and not every one, from which the search goes on at once."""
_FILLED = 0.2
"""Share of what may be filled that is filled at the likeliest places, before less likely changes."""
_NEARLY, _NEAREST = 0.9, 4
"""Share of how far off everything is that is gone with a change, from which rounding may be what is left; and how many
changes are looked at for that."""
_REST, _WIDER = 2, 4
"""Such parts of the effort's warp instructions are kept for the rest of the changes, and for those of the second round:
either is likelier than two changes at once."""
_TWICE = 256
"""Half of the pairs of the likeliest changes that do the same at two places and are tried soon."""
_TASTE = 384
"""Of the second round's changes the likeliest, which are tried before most of the first one's."""


def look_for_mends(found: Examined, cases: Sequence[Case], threads: int, tell: Progress) -> None:
    """Look for changes that mend the failing case, and confirm them on every case."""
    bench, case = found.bench, found.failing
    assert case is not None
    run = found.baseline[case.name]
    if not is_c_family(bench.source):
        found.problem = "the kernel is PTX, in which nothing is changed; the compiler that wrote it has the source"
        return
    if isinstance(run.error, UnsupportedError):  # a change that avoids what is not emulated mends nothing
        found.problem = run.error.message
        return
    if run.compilation is None:
        look_where_refused(found, cases, tell)
        return
    if is_certain(run):
        return
    try:
        setting = Setting(bench.card, bench.variant, case, bench.arch, seed=bench.seed, inputs=bench.inputs)
        trials = TrialBench(setting, threads)
    except WmmadiagError as error:
        found.problem = error.message
        return
    _look(found, Base(trials, run, found.traced), cases, tell)


def _look(found: Examined, base: Base, cases: Sequence[Case], tell: Progress) -> bool:
    """Search from a base; whether what is left there is mended."""
    right = base.trials.wrong_before == base.trials.strays_before == 0
    return by_checks(found, base, cases, tell, _look) if right else _numbers(found, base, cases, tell)


def _numbers(found: Examined, base: Base, cases: Sequence[Case], tell: Progress) -> bool:
    """Search where the numbers are wrong, from a source in which some changes are kept; whether it is mended."""
    hunt = _begun(found, base, cases, tell)
    few = base.most is not None and base.most <= _DEEPER
    steps = _STEPS if not base.kept else (_likeliest,) if few else (_likeliest, _filled, _deeper)
    for step in steps:
        if hunt.anew is not None:
            return _look(found, hunt.anew, cases, tell)
        # What mends it and is frail is an answer where the likeliest changes and fillings have no other.
        if step(hunt) or (step is _filled and hunt.mended) or (hunt.settled and (base.kept or step is _arithmetic)):
            if found.steps and not base.kept:
                _one_alone(hunt)
            return True
    return hunt.mended


def _one_alone(hunt: Hunt) -> None:
    """Where several changes mend together: one that does so alone is simpler, and where all are of values, a number."""
    found = hunt.found
    several = [*(one.ranked.change for one in found.steps), found.answers[0].tried.ranked.change]
    alone = _last_alone(hunt, found.answers[0].tried)
    if alone and hunt.confirm(alone):
        return
    beside = rivals_of(found, hunt.base, hunt.sources, hunt.order, hunt.tried)
    if not hunt.confirm(beside) and {name_of(one).id for one in several} == {"value"}:
        _solved(hunt)


def _last_alone(hunt: Hunt, last: Tried) -> list[Tried]:
    """The last one of several changes, tried in the source as it stands: what the others mend it may mend as well."""
    change: Change | None = last.ranked.change
    for step in reversed(hunt.found.steps):
        change = without(change, step.ranked.change) if change is not None else None
    if change is None or any(one.ranked.change == change for one in hunt.tried):
        return []
    outcomes = hunt.base.trials.try_batch([change])
    hunt.found.ledger.note(outcomes)
    return [Tried(replace(last.ranked, change=change), outcomes[0])]


def _begun(found: Examined, base: Base, cases: Sequence[Case], tell: Progress) -> Hunt:
    trials = base.trials
    if base.kept:
        sources, order = ranked_changes(found.bench, base.run, base.followed, trials.texts)
        return Hunt(found, base, cases, tell, sources, order, (), ())
    shape = found.bench.variant.launch or found.bench.card.launch
    tell("ranking the changes of the source, and trying other launches")
    with ThreadPoolExecutor(1) as beside:  # the engine runs while this thread reads
        outcomes = beside.submit(tried_launches, trials, shape)
        sources, order = ranked_changes(found.bench, base.run, base.followed, trials.texts, ahead=found.ahead)
        found.sources = sources
        suspicion = suspicion_of(base.run, base.followed, sources)
        launched, smaller = (
            mending_launches(outcomes.result(), suspicion, shape, fewer=fewer) for fewer in (False, True)
        )
    return Hunt(found, base, cases, tell, sources, order, launched, smaller)


def _likeliest(hunt: Hunt) -> bool:
    """Changes by their rank: at first so many that what mends a good part is among them."""
    return hunt.look(hunt.order, hunt.base.most if hunt.base.kept else _EARLY)


def _arithmetic(hunt: Hunt) -> bool:
    """Where nobody said in which types a kernel computes: the types with which a change that brings nearly everything
    near makes it right, and the search anew with those."""
    found, base = hunt.found, hunt.base
    if base.kept or hunt.mended:
        return False
    near = sorted((one for one in hunt.tried if one.outcome.nearer >= _NEARLY), key=lambda one: -one.outcome.nearer)
    for one in near[:_NEAREST]:
        meant = found.bench.run(base.trials.case, base.trials.files(one.ranked.change)).unsaid(found.bench.card)
        if meant is not None:
            card = card_computing(found.bench.card, meant, "which is what the result fits once it is mended")
            with contextlib.suppress(WmmadiagError):  # nothing is expected of the case by that reading
                hunt.anew = replace(base, trials=base.trials.read_as(card))
                found.bench.assume(card)
            break
    return False


def _only_where(hunt: Hunt) -> bool:
    """What mends this case and spoils or leaves others, made only where a condition holds."""
    found, base = hunt.found, hunt.base
    alone = [one.tried.ranked for one in hunt.answers if not one.right and one.shape is None]
    alone = [one for one in alone if one.change not in hunt.chosen]
    if hunt.mended or not alone or found.ledger.spent or len(found.baseline) == 1:
        return False
    hunt.chosen |= {one.change for one in alone}
    order = only_where(hunt.program(), alone)
    hunt.tell(f"trying {len(alone)} changes under {len(order)} conditions")
    outcomes = base.trials.try_batch([one.change for one in order])
    found.ledger.note(outcomes)
    return hunt.confirm([Tried(one, outcome) for one, outcome in zip(order, outcomes, strict=True)])


def _followed(hunt: Hunt) -> bool:
    """The likeliest changes beside one that mends this case and not every one, or a good part of it: of two mistakes,
    one may be found."""
    if hunt.found.ledger.effort.bugs == 1 or hunt.mended:
        return False
    found, base = hunt.found, hunt.base
    partly = [
        one
        for one in partly_right(found, hunt.answers)
        if one.runs[-1].wrong_count and one.tried.ranked.change not in hunt.followed
    ][:_PARTLY]
    helps = [one for one in helpful_at_once(hunt.tried) if one.ranked.change not in hunt.followed]
    hunt.followed |= {one.tried.ranked.change for one in partly} | {one.ranked.change for one in helps}
    if partly or helps:
        found.ledger.reserve()
    bases = itertools.chain(
        behind(found, base, partly, hunt.cases, _DEEPER),
        (held for one in helps for held in keeping(found, base, one, base.trials.case, _DEEPER)),
    )
    return any(_look(found, held, hunt.cases, hunt.tell) for held in bases)


def _all(hunt: Hunt) -> bool:
    """All other changes by their rank."""
    done = {one.ranked.change for one in hunt.tried}
    if not hunt.base.kept:  # what was followed may have spent all
        hunt.found.ledger.reserve(_REST)
    right = hunt.look([one for one in hunt.order if one.change not in done])
    if not right:
        hunt.found.suspects = suspects(hunt.order, hunt.found.ledger)
    return right


def _twice(hunt: Hunt) -> bool:
    """The same at two places."""
    return not hunt.mended and _by_pairs(hunt, "alike")


def _two_likely(hunt: Hunt) -> bool:
    """Any two of the likeliest changes: of two mistakes that hide each other, neither alone mends a part."""
    several = hunt.found.ledger.effort.bugs > 1
    return several and not hunt.base.kept and not hunt.mended and _by_pairs(hunt, "likeliest", soon=True)


def _twice_soon(hunt: Hunt) -> bool:
    """The same at two places, of the likeliest changes."""
    return not hunt.base.kept and not hunt.mended and _by_pairs(hunt, "alike", _TWICE, soon=True)


def _filled(hunt: Hunt) -> bool:
    """What else can be named at the likeliest places, alone or two of it under an operator."""
    return _sketched(hunt, _FILLED)


def _solved(hunt: Hunt) -> bool:
    """A real number that is sought, at the likeliest places."""
    base, ledger = hunt.base, hunt.found.ledger
    if not ledger.effort.filled or ledger.spent:
        return False
    hunt.tell("looking for a number that makes it right")
    return hunt.confirm(solved(base.trials, hunt.program(), hunt.sources, hunt.order, ledger))


def _filled_further(hunt: Hunt) -> bool:
    """The same of all places."""
    return _sketched(hunt, 1.0)


def _sketched(hunt: Hunt, share: float) -> bool:
    ledger = hunt.found.ledger
    if not ledger.effort.filled:
        return False
    if hunt.sketches is None:
        hunt.sketches = hunt.places(hunt.order)
    while True:  # what mends this case and not every one says nothing of what was not tried
        tried = hunt.sketches.tried(ledger, hunt.tell, share)
        if hunt.confirm(tried):
            return True
        if ledger.spent or not any(one.outcome.verdict == "right" for one in tried):
            return False


def _second_round(hunt: Hunt) -> Sequence[Ranked]:
    """The changes of the second round that were not tried."""
    found, base = hunt.found, hunt.base
    if hunt.wider is None:
        hunt.tell("ranking what is less likely")
        _, hunt.wider = ranked_changes(found.bench, base.run, base.followed, base.trials.texts, known=hunt.order)
    done = {one.ranked.change for one in hunt.tried}
    return [one for one in hunt.wider if one.change not in done]


def _less_likely_early(hunt: Hunt) -> bool:
    """The likeliest changes of the second round."""
    ledger = hunt.found.ledger
    if not ledger.effort.wider or ledger.spent or hunt.mended:
        return False
    return hunt.look(_second_round(hunt)[:_TASTE])


def _less_likely(hunt: Hunt) -> bool:
    """The changes of the second round."""
    base, ledger = hunt.base, hunt.found.ledger
    if ledger.effort.wider and not base.kept:
        ledger.reserve(_WIDER)
    if not ledger.effort.wider or ledger.spent:
        return False
    wider = _second_round(hunt)
    before = len(hunt.tried)
    right = hunt.look(wider[: ledger.effort.wider])
    ledger.complete = ledger.complete and len(hunt.tried) - before == len(wider)
    return right


def _nearest(hunt: Hunt) -> bool:
    """What mends most of the case kept, and the likeliest changes from there."""
    return _from_parts(hunt, _EARLY)


def _deeper(hunt: Hunt) -> bool:
    """What mends a part kept, and the search anew from there."""
    return _from_parts(hunt)


def _from_parts(hunt: Hunt, most: int | None = None) -> bool:
    """The search anew from what mends a part, where it did not set out from before.

    Args:
        most: changes to try from each. None: as many as may be.
    """
    found, base, ledger = hunt.found, hunt.base, hunt.found.ledger
    starts = ledger.effort.bugs - 1 - len(base.kept)
    if starts <= 0:
        return False
    helps = helpful(base.trials, hunt.tried, ledger, hunt.tell)
    if not base.kept:
        found.helps = tuple(helps)
    bases = further(found, base, hunt.answers, helps, hunt.cases, most, hunt.left_behind)
    for held in itertools.islice(bases, starts):
        if ledger.spent:
            break
        if _look(found, held, hunt.cases, hunt.tell):
            return True
    return False


def _two(hunt: Hunt) -> bool:
    """Any two changes, the likeliest first."""
    several = hunt.found.ledger.effort.bugs > 1
    return several and not hunt.mended and _by_pairs(hunt)


def _fewer_threads(hunt: Hunt) -> bool:
    """Fewer threads hide what they do to each other: that is an answer where the source has none."""
    return any(one.firm for one in confirmed_from(hunt.found, hunt.base, [], hunt.cases, hunt.tell, hunt.smaller))


_STEPS: Sequence[Callable[[Hunt], bool]] = (
    _likeliest, _arithmetic, _only_where, _followed, _twice_soon, _two_likely, _less_likely_early, _filled, _solved,
    _all, _only_where, _followed, _nearest, _less_likely, _followed, _twice, _filled_further, _twice, _deeper, _two,
    _fewer_threads,
)  # fmt: skip


def _by_pairs(hunt: Hunt, which: Which = "any", most: int | None = None, *, soon: bool = False) -> bool:
    """Search for two changes at once; whether two mend every case."""
    found, base, ledger, done = hunt.found, hunt.base, hunt.found.ledger, hunt.pairs
    most = ledger.effort.pairs if most is None else min(most, ledger.effort.pairs)
    for made in mending_pairs(base.trials, hunt.tried, most, ledger, hunt.tell, done=done, which=which, soon=soon):
        found.pairs |= {pair.both: pair for pair, _ in made}
        answers = confirmed_from(found, base, [one for _, one in made], hunt.cases, hunt.tell, ())
        if ledger.spent or any(one.right for one in answers):
            return any(one.right for one in answers)
    return False
