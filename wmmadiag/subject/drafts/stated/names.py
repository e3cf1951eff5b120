"""What the names of formulas and shapes mean: the kernel's arrays, and extents as expressions over host symbols."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from wmmadiag.ops.expressions import names_in
from wmmadiag.ops.formulas.tree import Equation, Indexed, Summed, Turned, Word, nodes
from wmmadiag.subject.drafts.guess import DraftParameter, folded
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.stated.launch_text import WrittenLaunch

_MOST = 8  # ways in which extents are told apart
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")
_COUNTS = frozenset(["num", "nr", "n", "number", "count", "total", "size", "len", "length", "dim", "s", "of"])


def array_named(name: str, arrays: Sequence[DraftParameter], *, short: bool) -> DraftParameter | None:
    """The array that a name is, exactly, or but for case and marks; `short`: also the only one that begins so."""
    for same in (
        lambda one: one.name == name,
        lambda one: one.own_name == name,
        lambda one: folded(one.own_name) == folded(name),
    ):
        found = [one for one in arrays if same(one)]
        if len(found) == 1:
            return found[0]
    begins = [one for one in arrays if folded(one.own_name).startswith(name.lower())] if short else []
    return begins[0] if len(begins) == 1 else None


def tensors_in(statement: Equation) -> set[str]:
    """The names in a statement that can be nothing but tensors: those with indices, or transposed."""
    found = {one.base for one in nodes(statement) if isinstance(one, Indexed)}
    return found | {one.of.id for one in nodes(statement) if isinstance(one, Turned) and isinstance(one.of, Word)}


def labels_in(statement: Equation) -> set[str]:
    """The names in a statement that are indices."""
    found = {label for one in nodes(statement) if isinstance(one, Summed) for label in one.labels}
    for items in [statement.items or (), *(one.items for one in nodes(statement) if isinstance(one, Indexed))]:
        found |= {one.id for one in items if isinstance(one, Word)}
    return found


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A statement with other names for tensors, those with indices behind an underscore among them."""

    def other(found: re.Match[str]) -> str:
        word = found[0]
        base, _, index = word.rpartition("_")
        if word in names:
            return names[word]
        return f"{names[base]}_{index}" if base in names and len(index) <= 2 else word

    return re.sub(r"(?<![\w.])[A-Za-z_]\w*", other, text)


@dataclass(frozen=True, slots=True)
class KnownNumbers:
    """The numbers of a kernel by the names that people may have for them."""

    exact: Mapping[str, str]  # name → an expression over host symbols
    like: Mapping[str, Sequence[str]]  # host symbol → its other names


def known_numbers(kernel: SourceKernel, launched: WrittenLaunch) -> KnownNumbers:
    """Those of the kernel's parameters, of its template and of the file, and host symbols."""
    exact: dict[str, str] = {}
    for one in kernel.parameters:
        if not one.pointer and one.name in launched.numbers:
            exact.setdefault(one.own_name, launched.numbers[one.name])
    for constants in (kernel.constants, kernel.named):
        for name, number in constants.items():
            exact.setdefault(name, str(int(number) if number == int(number) else number))
    machine = kernel.machine
    names = machine.names if machine is not None else {}
    used = launched.names
    # Of two that are called the same, a function's and its caller's, the one is meant that the launch is made with.
    for symbol in sorted(names, key=lambda one: one not in used):
        for other in (symbol, *names[symbol]):
            if other.isidentifier():
                exact.setdefault(other, symbol)
    like: dict[str, list[str]] = {symbol: [symbol, *others] for symbol, others in names.items()}
    for one in kernel.parameters:
        text = launched.numbers.get(one.name, "")
        if not one.pointer and text in like:
            like[text].append(one.own_name)
    return KnownNumbers(exact, like)


def meanings(wanted: Sequence[str], known: KnownNumbers, free: Collection[str]) -> Iterator[dict[str, str]]:
    """Ways in which names of extents may be meant, each an expression over host symbols; the likeliest first.

    Args:
        wanted: the names.
        free: host symbols that may be an extent of which no name is left.
    """
    sure: dict[str, str] = {}
    by_fold = {folded(name): text for name, text in reversed([*known.exact.items()])}
    for name in wanted:
        text = known.exact.get(name) or by_fold.get(folded(name))
        if text is not None:
            sure[name] = text
    left = [name for name in wanted if name not in sure]
    taken = {one for text in sure.values() for one in names_in(text)}
    choices = []
    for name in left:
        open_symbols = [one for one in free if one not in taken]
        ranked = sorted(open_symbols, key=lambda one: -_likeness(name, known.like.get(one, [one])))
        likeliest = [one for one in ranked if _likeness(name, known.like.get(one, [one])) > 0]
        choices.append(likeliest[:3] or ranked[:3])
    for chosen in islice((one for one in product(*choices) if len(set(one)) == len(one)), _MOST):
        yield sure | dict(zip(left, chosen, strict=True))


def _likeness(name: str, others: Sequence[str]) -> float:
    """How much a name is like one of a symbol's: 1 for the same words, less for a beginning or the first letter."""
    own = _words(name)
    best = 0.0
    for other in others:
        words = _words(other)
        if own and own == words:
            best = max(best, 1.0)
        elif own & words:
            best = max(best, 0.8 * len(own & words) / len(own | words) + 0.1)
        elif any(
            one.startswith(word) or word.startswith(one)
            for one in own
            for word in words
            if min(len(one), len(word)) > 2
        ):
            best = max(best, 0.5)
        elif _abbreviates(name.lower(), [one.lower() for one in _CAMEL.split(other) if one]):
            best = max(best, 0.3)
    return best


def _abbreviates(name: str, words: Sequence[str]) -> bool:
    """Whether a name is beginnings of some words in their order: "nkv" of "num_kv_heads"."""
    if not name:
        return True
    for at, word in enumerate(words):
        for length in range(min(len(word), len(name)), 0, -1):
            if word[:length] == name[:length] and _abbreviates(name[length:], words[at + 1 :]):
                return True
    return False


def _words(name: str) -> set[str]:
    words = {one.lower() for one in _CAMEL.split(name) if one}
    plain = {one[:-1] if one.endswith("s") and len(one) > 3 else one for one in words}
    return plain - _COUNTS or plain
