"""Cards of a kernel whose arguments may mean several things, tried one after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product

from wmmadiag.errors import ConfigurationError
from wmmadiag.launch import Launch, LoadedKernel, RunStats
from wmmadiag.ops import OPERATIONS
from wmmadiag.results.model import ReportedFinding
from wmmadiag.subject.alternatives import Nearest, ReadingWork, other_work, right_one
from wmmadiag.subject.card import Card, Derived
from wmmadiag.subject.card_session import CardSession, Runs, tried_in
from wmmadiag.subject.drafts.accumulators import with_accumulators
from wmmadiag.subject.drafts.asking import not_derived
from wmmadiag.subject.drafts.assignments import Assignment, assigned, assignments
from wmmadiag.subject.drafts.code_facts import may_add_to
from wmmadiag.subject.drafts.completed import completed
from wmmadiag.subject.drafts.copies import is_copy
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.guess import role_named
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.launched import ANY_BLOCKS, is_only_unlaunched, launched_drafts
from wmmadiag.subject.drafts.model import CardDraft, Wishes
from wmmadiag.subject.drafts.other_sizes import EXTENTS, TILES, one_row, one_tile, settings_in_code
from wmmadiag.subject.drafts.recognise import against, unkept
from wmmadiag.subject.drafts.sizes import cases, narrow_axes, probed_sizes, unvaried
from wmmadiag.subject.drafts.text import draft_text, parsed_card

_PROBED_TILE = 256
_MOST_PROBED = 12
_MOST_ELEMENTS = 1 << 25  # of all arrays of a case that is run to find a launch


def tried_card(
    source: GivenSource,
    kernel: SourceKernel,
    operations: Sequence[str],
    assumed: tuple[str, ...],
    promised: frozenset[str] = frozenset(),
    nearest: Nearest | None = None,
    *,
    drafted_before: bool = False,
) -> Card | None:
    """The card by the meaning of the arguments under which the kernel is right; None if there is none.

    Args:
        promised: words of the kernel's name; a card that leaves out what they speak of is none.
        drafted_before: whether the one draft of the first operation, where nothing in it is open, was looked at.
    """
    from wmmadiag.compile.kernel_code import multiplies

    def candidates(operation: str, work: ReadingWork) -> Iterator[tuple[str, Card | None]]:
        for counted, one in completed(source, kernel, operation):
            # One draft of an operation that is not the likeliest may leave nothing open.
            drafted_once = drafted_before and operation == operations[0]
            meanings = assignments(one, operation, always=bool(counted) or not drafted_once)
            kept = filter(partial(_keeps, one, operation, promised), meanings)
            for own, meant in _each(one, islice(kept, _most_tried(one))):
                said = ", ".join(filter(None, [f"taken as {operation}", meant.meaning(), counted]))
                yield said, None
                with contextlib.suppress(ConfigurationError):
                    for drafted, tile in _launched(source, own, operation, meant, work):
                        made = card_of(source, own, drafted, assumed, tile)
                        if operation == operations[0] or not is_copy(made):
                            yield said, made

    count = multiplies(kernel.code)
    works = [ReadingWork(), *(other_work(against(one, kernel.code, count)) for one in operations[1:])]
    found = right_one([*zip(map(candidates, operations, works), works, strict=True)], nearest)
    if found is None:
        return None
    said, card = found
    roles = [view.role for one in card.arguments for view in one.views]
    if promised and unkept(card.computes.operation, promised, roles, card.computes.parameters.values()):
        return None
    return replace(card, assumed=(*card.assumed, f"{said}, which is what the result fits"))


def _each(kernel: SourceKernel, meanings: Iterator[Assignment]) -> Iterator[tuple[SourceKernel, Assignment]]:
    """Every meaning of a kernel's arguments; then those of the kernel as one that adds to what it writes."""
    seen = []
    for meant in meanings:
        seen.append(meant)
        yield kernel, meant
    yield from product(adding(kernel), seen)


def adding(kernel: SourceKernel) -> Iterator[SourceKernel]:
    """The kernel as one that adds to what it writes, where it may do so."""
    written = [one for one in kernel.parameters if one.pointer and not one.const and not one.added]
    names = {one.name for one in written if may_add_to(kernel.code, one.own_name)}
    if names:
        parameters = tuple(replace(one, added=one.added or one.name in names) for one in kernel.parameters)
        yield replace(kernel, parameters=parameters)


def _keeps(kernel: SourceKernel, operation: str, promised: frozenset[str], meant: Assignment) -> bool:
    """Whether there is an array for each part that the kernel's name promises."""
    roles = {meant.roles.get(one.name) or role_named(one.name, operation) for one in kernel.parameters if one.pointer}
    return {role_named(word, operation) for word in promised} - {None} <= roles


def _most_tried(kernel: SourceKernel) -> int | None:
    """How many meanings are tried of a kernel: fewer where each takes runs that look for its launch."""
    return _MOST_PROBED if kernel.launch is None else None


@dataclass(frozen=True, slots=True)
class _Probing:
    """Runs in search of a launch, each of which costs work."""

    runs: Runs
    work: ReadingWork

    def launch(self, kernel: LoadedKernel, launch: Launch) -> RunStats:
        self.work.probed()
        return self.runs.launch(kernel, launch)

    def reported(self) -> tuple[ReportedFinding, ...]:
        return self.runs.reported()


def _launched(
    source: GivenSource, kernel: SourceKernel, operation: str, meant: Assignment, work: ReadingWork
) -> Iterator[tuple[CardDraft, int]]:
    """The draft by one meaning of the arguments; where its launch is open, one by each that covers the output.

    Args:
        work: that looking for a launch costs.
    """
    from wmmadiag.subject.alternatives import elements

    wishes, symbols = source.wishes, source.options.symbols

    def drafted_by(wishes: Wishes) -> CardDraft:
        return assigned(kernel, operation, meant, wishes)

    drafted = drafted_by(wishes)
    if not is_only_unlaunched(drafted):
        yield drafted, TILES[0]
        for settings in (*settings_in_code(drafted), *one_row(drafted, kernel)):
            yield replace(drafted, fixed={**drafted.fixed, **settings}), TILES[0]
        return
    probed = drafted_by(replace(wishes, grid=("1",), block=("32",), shared=wishes.shared or "0"))
    session: CardSession | None = None
    known = OPERATIONS[operation]
    groups = known.groups if known.groups not in {*probed.fixed, *symbols} else ""
    probed.fixed |= {groups: "1"} if groups else {}
    several = (False, True) if known.optional else (True, False)
    for sizes, batched in product(_untold_sizes(probed, symbols, kernel), several):
        probed.fixed |= sizes
        sized = partial(probed_sizes, batched=batched)
        card = card_of(source, kernel, probed, (), _PROBED_TILE, sized)
        if elements(card)(card.cases[0]) > _MOST_ELEMENTS:
            continue
        session = tried_in(session, card)
        session.runs = session.runs if isinstance(session.runs, _Probing) else _Probing(session.runs, work)
        found = False
        for one, tile in launched_drafts(kernel, drafted_by, wishes, card, session, groups):
            found = found or tuple(one.grid) != ANY_BLOCKS  # of several rows each block may write its own
            one.fixed |= sizes
            yield one, tile
        if found:
            return


def _untold_sizes(drafted: CardDraft, given: Mapping[str, str], kernel: SourceKernel) -> Iterator[dict[str, str]]:
    """Sizes of extents that nothing tells: as they are usually, then others."""
    yield {}
    yield from one_row(drafted, kernel)
    yield from one_tile(drafted, given, kernel)
    for symbol in sorted(unvaried(drafted.operation) - {*drafted.fixed, *given}):
        yield from ({symbol: str(value)} for value in EXTENTS[:1])


def stages_of(kernel: SourceKernel) -> list[str]:
    """The kernels that one is of, where they are several that are judged as one."""
    return [one.entry for one in kernel.together.stages] if kernel.together is not None else []


def card_of(
    source: GivenSource,
    kernel: SourceKernel,
    drafted: CardDraft,
    assumed: tuple[str, ...],
    tile: int = TILES[0],
    sized: Callable[..., list[tuple[str, dict[str, str]]]] = cases,
) -> Card:
    path, options = source.path, source.options
    given = set(options.symbols)
    drafted.unstated = {
        symbol: meaning for symbol, meaning in drafted.unstated.items() if not {symbol, f"{symbol}q"} & given
    }
    if drafted.open:
        raise not_derived(drafted, path, assumed, stages_of(kernel))
    assumed += tuple(
        f"nothing tells the {meaning} that the kernel is made for: several are tried; --symbol {symbol}= says it"
        for symbol, meaning in drafted.unstated.items()
    )
    told = drafted.stated | ({"operation"} if options.computes else set())
    tried = sized(drafted, options.symbols, tile=tile)
    assumed += tuple(narrow_axes(drafted, tried)) if len(tried) > 1 else ()
    text = draft_text(drafted, path.name, path.stem, tried)
    card = parsed_card(text, source, tuple(dict.fromkeys((*assumed, *drafted.remarks))), kernel.entry)
    card = replace(card, derived=Derived(options, frozenset(told), drafted, kernel))
    return with_accumulators(card, kernel.code) if kernel.code else card
