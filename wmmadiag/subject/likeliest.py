"""The card of a kernel that is right under no reading, by the reading that its results go with: for a diagnosis alone.

Inputs are random, so what is expected under a reading that is not the kernel's has nothing to do with what it writes.
With its own, a kernel with a mistake still writes values that go with the expected ones: their correlation tells the
reading. That is no proof, so nothing is said of such a card but "if this is what it computes".
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wmmadiag.errors import ConfigurationError, QuestionError, WmmadiagError
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.evaluation import reference
from wmmadiag.subject.alternatives import Nearest, ReadingWork, ran_last
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_session import CardSession, tried_in
from wmmadiag.subject.drafts.derive import kernel_of, operations_of, recognised_operation, where_launched
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.guess import covered_roles, role_named
from wmmadiag.subject.drafts.host_read import read_host
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.launched_together import launched_together, names_function
from wmmadiag.subject.drafts.recognise import Recognised
from wmmadiag.subject.drafts.tried_meanings import tried_card
from wmmadiag.subject.open_subject import SubjectOptions
from wmmadiag.subject.readings import other_readings
from wmmadiag.subject.rereading import reread, unwritten

_FEWEST = 256  # numbers of an output that a correlation of is none by chance
_TELLING = 0.25  # a correlation: by chance that of 256 numbers is below 0.19 but once in a thousand times
_CARDS, _READINGS = 32, 16  # that are looked at; readings of one card


def opened_or_likeliest(
    subject: str | Path | Card, options: SubjectOptions, opened: Callable[[], Card]
) -> tuple[Card, bool]:
    """The card of a subject; of a source that tells too little the likeliest one, and that it is that.

    Raises:
        ConfigurationError: as `opened` does, where nothing that the kernel writes tells what it computes.
    """
    try:
        return opened(), False
    except QuestionError:
        card = likeliest_card(Path(subject), options) if isinstance(subject, str | Path) else None
        if card is None:
            raise
        return card, True


def likeliest_card(path: Path, options: SubjectOptions) -> Card | None:
    """The card by which what the kernel writes goes most with what is expected; None if with nothing.

    Args:
        path, options: a source of which no card could be derived, and what the user said; an entry may be a host
            function that launches several kernels.
    """
    if options.computes and getattr(OPERATIONS.get(options.computes), "oracle", None) is None:
        return None  # what a function of the user's computes is no guess
    source = GivenSource(path, options)
    try:
        host = read_host(source) if options.entry else None
        whole = host is not None and names_function(host, options.entry)
        kernel = launched_together(source, host) if whole else kernel_of(source)
    except ConfigurationError:
        return None
    if kernel is None:
        return None
    source, kernel = where_launched(source, kernel)
    found = recognised_operation(kernel)
    tries = [_likely(found, kernel), operations_of(found, kernel)]
    for operations in filter(None, [[options.computes]] if options.computes else tries):
        chosen = max(_likenesses(source, kernel, operations), key=lambda one: one[0], default=None)
        if chosen is not None and chosen[0] >= _TELLING:
            part, name, card = chosen
            said = f"{name}: what it writes goes with that (correlation {part:.2f}) more than with anything else tried"
            doubt = "" if options.computes else found.because
            return replace(
                card, assumed=(*card.assumed, said), derived=replace(card.derivation, near=said, doubt=doubt)
            )
    return None


def _likely(found: Recognised, kernel: SourceKernel) -> list[str]:
    """The operations that a kernel's name or all names of its arrays speak for."""
    names = [one.name for one in kernel.parameters if one.pointer and not one.value]
    every = [
        name
        for name, one in OPERATIONS.items()
        if one.oracle is not None
        and all(role_named(each, name) is not None for each in names)
        and {role for role, known in one.roles.items() if known.required}
        <= covered_roles(name, (role_named(each, name) for each in names))
    ]
    return list(dict.fromkeys([*found.spoken, *[found.operation] * found.likely, *every]))


def _likenesses(
    source: GivenSource, kernel: SourceKernel, operations: Sequence[str]
) -> Iterator[tuple[float, str, Card]]:
    """How much what the kernel writes goes with what is expected, by each card of these and each of its readings."""
    nearest = Nearest()
    with contextlib.suppress(WmmadiagError):
        tried_card(source, kernel, operations, kernel.remarks, nearest=nearest)
    session: CardSession | None = None
    for name, card in nearest.seen[:_CARDS]:
        session = tried_in(session, card)
        ran = ran_last(session, card, ReadingWork())
        if ran is None:
            continue
        yield likeness(ran), name, card
        for reading, other in islice(other_readings(card, changes=2), _READINGS):
            if "arithmetic" in reading.kinds or not reading.deliberate:
                continue
            again = reread(ran, other)
            if again is not None:
                yield likeness(again), f"{name} and {reading.name}", other


def likeness(bound: BoundCase) -> float:
    """The correlation of what a run wrote with what is expected, that of the output with the least; 0 where none is."""
    try:
        with np.errstate(all="ignore"):
            expected = reference(bound.card.computes.operation, bound.parameters, bound.inputs())
    except (ValueError, IndexError, WmmadiagError):
        return 0.0
    outputs = [(one, expected[role]) for role, one in bound.outputs().items() if role in expected]
    found = [_correlation(one, wanted) for one, wanted in outputs if one.size == wanted.size >= _FEWEST]
    return min(found, default=0.0) * (1.0 - unwritten(bound))


def _correlation(observed: NDArray[np.generic], wanted: NDArray[np.float64]) -> float:
    """Pearson's, of what is finite in both; an element that is not, where one is expected, speaks against it."""
    one, other = observed.astype(np.float64).ravel(), wanted.ravel()
    finite = np.isfinite(one) & np.isfinite(other)
    count = int(np.count_nonzero(finite))
    if count < _FEWEST:
        return 0.0
    if count < finite.size:
        one, other = one[finite], other[finite]
    one, other = one - one.mean(), other - other.mean()
    sizes = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / sizes * (count / finite.size) if sizes else 0.0
