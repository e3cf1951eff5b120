"""Numbers by whose names an operation knows nothing, as what it computes with and nothing else speaks of.

`F` filters beside C channels, `dil`, `passo`: a draft passes on what host code has for such a number, and the operation
takes its usual value for what the kernel gets there. A run tells which of them is which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, permutations

from wmmadiag.hostcode.terms import Term
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.assignments import Assignment
from wmmadiag.subject.drafts.draft import spoken_of
from wmmadiag.subject.drafts.guess import folded
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.meanings import is_of_the_operation, is_real
from wmmadiag.subject.drafts.model import TODO, CardDraft, DraftArgument

_MOST_STRANGERS, _MOST_ORDERS = 5, 48


def meant_strangers(_: SourceKernel, drafted: CardDraft) -> Iterator[Assignment]:
    """Numbers of unknown names as extents and settings of the operation that nothing speaks of, likely ones first.

    All extents that are left have to be among them; that all numbers mean something, too, keeps chance away.
    """
    numbers = [one.parameter.name for one in drafted.arguments if _is_stranger(one, drafted)]
    extents, settings = _extents_left(drafted), _settings_left(drafted)
    left = [*extents, *settings]
    if not numbers or len(numbers) > min(len(left), _MOST_STRANGERS) or len(extents) > len(numbers):
        return
    orders = [one for one in permutations(left, len(numbers)) if set(extents) <= set(one)]
    orders.sort(key=lambda own: -sum(map(_begins, numbers, own)))  # `dil` is the beginning of a word that is known
    for own in islice(orders, _MOST_ORDERS):
        pairs = dict(zip(numbers, own, strict=True))
        yield Assignment(
            {},
            {name: meant for name, meant in pairs.items() if meant in extents},
            {},
            {},
            {},
            settings={name: settings[meant] for name, meant in pairs.items() if meant in settings},
        )


def in_dialects(kernel: SourceKernel, drafted: CardDraft) -> Iterator[Assignment]:
    """Numbers as their names mean together, where a draft has taken each by its own."""
    for meant in dialects(kernel, drafted.operation):
        yield Assignment({}, {}, {}, {}, {}, settings=meant)


def dialects(kernel: SourceKernel, operation: str) -> Iterator[Mapping[str, str]]:
    """Spellings for numbers that mean something else together than by each name alone: u and v are strides."""
    numbers = {folded(one.name): one.name for one in kernel.parameters if not one.pointer}
    for dialect in OPERATIONS[operation].dialects:
        if dialect.keys() <= numbers.keys():
            yield {numbers[name]: own for name, own in dialect.items()}


def _is_stranger(argument: DraftArgument, drafted: CardDraft) -> bool:
    """Whether a number is no more than what host code passes, a symbol that means nothing to the operation."""
    parameter = argument.parameter
    plain = not (parameter.pointer or parameter.value or parameter.unread or is_real(parameter))
    of_host = isinstance(argument.passed, Term) and argument.passed.op == "symbol"
    told = argument.value == TODO or is_of_the_operation(argument.value, drafted.operation)
    return plain and of_host and argument.value.isidentifier() and not told


def _extents_left(drafted: CardDraft) -> list[str]:
    known, told = OPERATIONS[drafted.operation], spoken_of(drafted) | {*drafted.fixed}
    return [name for name in known.cases[-1] if name in known.extents and name not in {*told, known.optional}]


def _settings_left(drafted: CardDraft) -> Mapping[str, str]:
    """Symbols of numbers that parameters are by default, none of which anything sets, with a name for each."""
    known = OPERATIONS[drafted.operation]
    told = {one.value for one in drafted.arguments} | {*drafted.computes, *drafted.fixed}
    left = {}
    for text, spellings in known.derived.items():
        of_it = {name for name, one in known.parameters.items() if one.default == text and one.kind in ("int", "count")}
        if text in known.symbols and of_it and not {text, *of_it} & told:
            left[text] = spellings.split()[0]
    return left


def _begins(number: str, meant: str) -> bool:
    """Whether a number's name is the beginning of a word that says what it means."""
    return len(number) > 1 and meant.startswith(number.lower())
