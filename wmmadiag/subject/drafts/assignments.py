"""What a kernel's arguments may be where their names do not tell: every assignment of roles and extents to them.

An assignment is tried by a run (`wmmadiag.subject.settling.right_one`): on random inputs a right kernel is right under
its own assignment, and under no other but by what the operation itself leaves equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, islice, permutations, product

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import Number, Term
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.expressions import names_in
from wmmadiag.subject.drafts.code_facts import multiples
from wmmadiag.subject.drafts.draft import draft
from wmmadiag.subject.drafts.factors import factors_of, multiply
from wmmadiag.subject.drafts.guess import DraftParameter, distance_for, symbol_for
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.meanings import is_real
from wmmadiag.subject.drafts.model import TODO, CardDraft, DraftArgument, Wishes
from wmmadiag.subject.drafts.numbers import PASSED, unknown_symbols
from wmmadiag.subject.drafts.pointer_roles import made_of_others, possible_roles, unnamed_pointers

_MOST = 96
_SMALLEST = 16  # of an extent that a constant fixes
_MOST_CONSTANTS = 6
_MOST_AGAIN = 24  # where a draft was complete and wrong
_MOST_LIKELIEST = 6
_MOST_RENAMED = 4  # extents whose names may mislead


@dataclass(frozen=True, slots=True)
class Assignment:
    """Meanings of arguments that nothing tells."""

    roles: Mapping[str, str]  # of pointers; `extents`: of numbers; both by the parameter's name
    extents: Mapping[str, str]
    symbols: Mapping[str, str]  # of numbers that only host code knows; `constants`: of those that the code knows,
    constants: Mapping[str, str]  # of one constant several, "M N K"
    layouts: Mapping[str, str]  # the axes of roles, "HSK"
    hides: bool | None = None  # whether what is not 0 in a mask hides; None where there is none
    # spellings of the operation's settings for numbers, by the parameter's name
    settings: Mapping[str, str] = field(default_factory=dict)
    # what numbers do to the result, by the parameter's name: 1 where it is multiplied by one, -1 where it is divided
    factors: Mapping[str, int] = field(default_factory=dict)

    def meaning(self) -> str:
        """In words: "dY is b, tokens is K"."""
        every = {**self.roles, **self.extents, **self.settings, **self.symbols, **self.constants}
        said = [f"{name} is {meant}" for name, meant in every.items()]
        said += [f"{role} has the axes {axes}" for role, axes in self.layouts.items()]
        if self.hides is not None:
            said.append(f"what is not 0 in the mask {'hides' if self.hides else 'keeps'} a key")
        said += [f"{name} a factor" if way > 0 else f"{name} a divisor" for name, way in self.factors.items()]
        return ", ".join(said)


def assignments(kernel: SourceKernel, operation: str, *, always: bool = False) -> Iterator[Assignment]:
    """Every assignment of what a draft leaves open, the likeliest first: in the order of the operation's own roles.

    Args:
        always: whether there is one where nothing is open.
    """
    drafted = draft(kernel, operation)
    # Workspaces are the kernel's own, as host code has it, where none of them has to be what it computes.
    lacking = any(one.about == "operation" for one in drafted.open)
    own = {one.parameter.name for one in drafted.arguments if one.role == "workspace" and not lacking}
    pointers = [one for one in unnamed_pointers(kernel, operation) if one.name not in own]
    numbers = [one.parameter.name for one in drafted.arguments if _is_open(drafted, one)]
    if not pointers and not drafted.open and not always:
        return
    others = {one.parameter.name: one for one in drafted.arguments}
    unsaid = [name for name, one in others.items() if name in numbers or _is_counted(drafted, one, kernel)]
    named = [name for name, one in others.items() if name in numbers or _is_extent(one, operation)]
    lists = [numbers] if unsaid == numbers else [numbers, unsaid]
    # Names are only what is likeliest: `hidden` is the depth of one product and the width of another.
    # A single letter tells less than a word: K is how many filters there are, or how large each is.
    letters = [name for name in named if name in numbers or len(name) == 1]
    for one in (named, letters):
        lists += [one] if numbers and one not in lists and len(one) <= _MOST_RENAMED else []

    def chosen(lists: Sequence[Sequence[str]], roles: Iterable[Mapping[str, str]]) -> Iterator[Assignment]:
        return (
            Assignment(own, extents, symbols, constants, layouts, hides)
            for open_ones, own in product(lists, roles)
            for layouts in _layouts(drafted, operation)
            for hides in _hides(drafted)
            for beside in [_grid_beside(drafted, kernel, open_ones)]
            for extents, symbols, constants in _extents(drafted, kernel, operation, open_ones, beside)
        )

    every = list(islice(possible_roles(kernel, operation, pointers), _MOST))
    # With roles that names are made of numbers may soon mean other extents than theirs say; with others later.
    sure = every[:1] if every and made_of_others(kernel, operation, every[0]) else []
    likeliest = islice(chosen(lists, sure), _MOST_LIKELIEST)
    found = chain(_of_fixed_rows(kernel, drafted, pointers, numbers), likeliest, chosen(lists, every))
    factors = list(factors_of(drafted))
    yield from islice((replace(one, factors=own) for one in _once(found) for own in factors), _MOST)


def _once(several: Iterable[Assignment]) -> Iterator[Assignment]:
    seen: list[Assignment] = []
    for one in several:
        if one not in seen:
            seen.append(one)
            yield one


def _of_fixed_rows(
    kernel: SourceKernel, drafted: CardDraft, pointers: Sequence[DraftParameter], numbers: Sequence[str]
) -> Iterator[Assignment]:
    """Rows as long as a number of the code is, of which the kernel gets nothing but how many there are."""
    operation, known = drafted.operation, OPERATIONS[drafted.operation]
    every = [name for name in known.cases[-1] if name in known.extents and name != known.optional]
    given = [one for one in drafted.arguments if not one.parameter.pointer and not one.parameter.value]
    if len(every) != 1 or not known.optional or len(given) != 1 or [one.parameter.name for one in given] != numbers:
        return
    for name in [*_constants(kernel), *multiples(kernel.code)][:_MOST_CONSTANTS]:
        for roles in possible_roles(kernel, operation, pointers):
            yield Assignment(roles, {numbers[0]: known.optional}, {}, {name: every[0]}, {})


def reassignments(kernel: SourceKernel, drafted: CardDraft) -> Iterator[Assignment]:
    """Other extents for numbers that a draft takes for some by what host code passes, while their names tell nothing.

    `I = x.size(1)` is the width of a product or its depth, by which operand x is.
    """
    operation = drafted.operation
    extents = [one for one in drafted.arguments if _is_extent(one, operation)]
    sure = [one.passed for one in extents if _is_named(one, operation) and one.passed is not None]
    numbers = [one.parameter.name for one in extents if not _is_named(one, operation) and one.passed not in sure]
    if "storage" in drafted.stated and not unnamed_pointers(kernel, operation):
        read = (
            kernel.machine.extents if kernel.machine is not None else {}
        )  # off tensors of which it is known how they lie
        told = {one.parameter.name for one in extents if isinstance(one.passed, Term) and one.passed.args[0] in read}
        numbers = [name for name in numbers if name not in told]
    if not numbers or len(numbers) > _MOST_RENAMED or kernel.launch is None:
        return
    known = {one.parameter.name: one.value for one in drafted.arguments}
    beside = _grid_beside(drafted, kernel, numbers)
    several = (
        Assignment(roles, extents, symbols, constants, {})
        for roles in possible_roles(kernel, operation, unnamed_pointers(kernel, operation))
        for extents, symbols, constants in _extents(drafted, kernel, operation, numbers, beside)
        if any(known[name] != extent for name, extent in extents.items())
        and all(_is_of_its_array(name, extent, operation) for name, extent in extents.items())
    )
    yield from _of_one_size(kernel, operation)
    yield from islice(several, _MOST_AGAIN)


def _of_one_size(kernel: SourceKernel, operation: str) -> Iterator[Assignment]:
    """Matrices of a size that a constant of the code fixes, where the kernel gets nothing but their number."""
    known = OPERATIONS[operation]
    counts = [one.name for one in kernel.parameters if not one.pointer and not one.value and not is_real(one)]
    if len(counts) != 1 or not known.optional or symbol_for(counts[0], operation) != known.optional:
        return
    every = " ".join(name for name in known.cases[-1] if name in known.extents and name != known.optional)
    for name in _constants(kernel):
        yield Assignment({}, {counts[0]: known.optional}, {}, {name: every}, {})


def permutations_of_names(kernel: SourceKernel, drafted: CardDraft) -> Iterator[Assignment]:
    """Numbers that go by the names of extents in another order: A is M×N for some, and B N×K."""
    if "storage" in drafted.stated or kernel.launch is None:
        return
    named = [one for one in drafted.arguments if not one.parameter.pointer and _is_named(one, drafted.operation)]
    values = [one.value for one in named]
    if not 1 < len(named) <= _MOST_RENAMED or len(set(values)) < len(values) or not all(map(str.isidentifier, values)):
        return
    for order in islice(permutations(values), 1, _MOST_AGAIN):
        changed = {one.parameter.name: to for one, to in zip(named, order, strict=True) if one.value != to}
        yield Assignment({}, changed, {}, {}, {})


def _is_named(argument: DraftArgument, operation: str) -> bool:
    """Whether a number's own name says which extent it is: whatever else gets the same from host code is it, too."""
    return symbol_for(argument.parameter.name, operation) == argument.value


def _is_of_its_array(name: str, extent: str, operation: str) -> bool:
    """Whether a number may be an extent: a leading dimension is one of its own array's."""
    far = distance_for(name, operation, batches=False)
    shape = OPERATIONS[operation].roles[far.role].shape if far is not None else ()
    return far is None or extent in set().union(*map(names_in, shape[-2:]))


def assigned(kernel: SourceKernel, operation: str, meant: Assignment, wishes: Wishes) -> CardDraft:
    """The draft of a kernel whose arguments mean this: as if they had the names that operations know them by."""
    known = OPERATIONS[operation]
    words = {name: one.spellings.split() for name, one in known.roles.items()}
    words |= {name: one.spellings.split() for name, one in known.packed.items()}
    own = {name: (words[role] or [role])[0] for name, role in meant.roles.items()}
    own |= {name: (known.extents[symbol].split() or [symbol])[0] for name, symbol in meant.extents.items()}
    own |= meant.settings
    # By no letter alone: of that name are fragments, too.
    constants = {max([*known.extents[symbol].split(), symbol], key=len): _number(kernel, name)
                 for name, symbols in meant.constants.items() for symbol in symbols.split()}  # fmt: skip
    machine = kernel.machine
    names = {name: [(known.extents[symbol].split() or [symbol])[0]] for name, symbol in meant.symbols.items()}
    for parameter, value in zip(kernel.parameters, kernel.passed, strict=True):
        if parameter.name in meant.settings and isinstance(value, Term) and value.op == "symbol":
            names[value.args[0]] = [meant.settings[parameter.name]]
    if machine is not None and names:
        machine = replace(machine, names={**machine.names, **names})
    renamed = replace(
        kernel,
        machine=machine,
        constants={**kernel.constants, **constants},
        parameters=tuple(
            replace(
                one,
                name=own.get(one.name, one.name),
                label=one.label or one.name,
                meant=meant.extents.get(one.name, one.meant),
            )
            for one in kernel.parameters
        ),
    )
    result = draft(renamed, operation, replace(wishes, layouts=meant.layouts, hides=meant.hides))
    for argument, parameter in zip(result.arguments, kernel.parameters, strict=True):
        argument.parameter = parameter
        if argument.role == "lengths":  # what they count is shown by the run
            result.open = [one for one in result.open if one.what != f"the role of '{parameter.name}'"]
    if meant.factors:
        multiply(result, meant.factors)
    return result


def _is_open(drafted: CardDraft, argument: DraftArgument) -> bool:
    parameter = argument.parameter
    if parameter.pointer or parameter.value or is_real(parameter):
        return False
    if parameter.unread and isinstance(argument.passed, Term) and argument.passed.op == "symbol":
        over = {name for text in drafted.grid for name in names_in(text)}  # the launch may be over what no code reads
        return argument.passed.args[0] in unknown_symbols(drafted, " + ".join(sorted(over - {TODO})), ())
    return argument.value in (TODO, "") or bool(unknown_symbols(drafted, argument.value, drafted.usual))


def _is_extent(argument: DraftArgument, operation: str) -> bool:
    """Whether a number is one extent."""
    parameter = argument.parameter
    return not parameter.pointer and not is_real(parameter) and argument.value in OPERATIONS[operation].extents


def _is_counted(drafted: CardDraft, argument: DraftArgument, kernel: SourceKernel) -> bool:
    """Whether a number is what host code happens to pass, by names that mean nothing here: `B * T` for a GEMM's K.

    What it counts of a known extent, `K / splits`, is meant so: with anything else its mistakes would not show. And so
    is a number of parts that is tried.
    """
    parameter = argument.parameter
    if parameter.pointer or parameter.value or parameter.unread or is_real(parameter) or argument.reason != PASSED:
        return False
    unknown = unknown_symbols(drafted, argument.value, kernel.varied)
    return bool(unknown) and unknown == set(names_in(argument.value)) and not unknown & set(kernel.counted)


def _layouts(drafted: CardDraft, operation: str) -> Iterator[Mapping[str, str]]:
    """The axes that an array may have which is spread over the others, all of them first: a mask is one of keys."""
    held = next((one for one in drafted.arguments if one.layout == TODO), None)
    if held is None:
        yield {}
        return
    role, masks = held.role, re.search("mask|pad", held.parameter.name, re.IGNORECASE) is not None
    axes = OPERATIONS[operation].roles[role].axes
    for count in range(len(axes), 1, -1):
        for chosen in combinations(axes, count):
            if role == "mask" and axes[-1] not in chosen:
                continue
            if masks and "H" in chosen and not {"B", "S"} & {*chosen}:  # which keys are there is the same for all heads
                continue
            yield {role: "".join(chosen)}


def _hides(drafted: CardDraft) -> Sequence[bool | None]:
    """Whether what is not 0 in a mask hides, as it may be: one of padding marks that, one of attention what it sees."""
    mask = drafted.holding("mask")
    if mask is None:
        return (None,)
    name = mask.parameter.name.lower()
    if "pad" in name or "hide" in name:
        return (True,)
    return (False,) if "att" in name or "keep" in name or "valid" in name else (False, True)


def _extents(
    drafted: CardDraft, kernel: SourceKernel, operation: str, numbers: Sequence[str], grid: Sequence[str]
) -> Iterator[tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]]:
    """Extents for numbers that the kernel gets; then for those of host code, then for constants, as far as any is left.

    Args:
        grid: the axes of the grid that tell what their symbols mean.

    Yields: by the name of a parameter, of a host symbol, of a constant.
    """
    known = OPERATIONS[operation]
    every = [name for name in known.cases[-1] if name in known.extents]
    others = [one.value for one in drafted.arguments if one.parameter.name not in numbers and one.value]
    own = {one.value for one in drafted.arguments if one.parameter.name in numbers}  # and so in the grid
    told = {*drafted.fixed}.union(*map(names_in, others)) | (set[str]().union(*map(names_in, grid)) - own)
    left = [name for name in every if name not in told and name != known.optional]
    if numbers:
        if len(numbers) <= len(left):
            passed = {known.optional, *_symbols_passed(drafted, numbers)}
            beside = [one for one in _host_symbols(drafted, kernel, known.optional) if one not in passed]
            for chosen in permutations(left, len(numbers)):
                rest = [name for name in left if name not in chosen]
                for over in permutations(rest, len(beside)) if len(beside) <= len(rest) else [()]:
                    yield dict(zip(numbers, chosen, strict=True)), dict(zip(beside, over, strict=False)), {}
            yield from _of_all(known.extents, numbers, left)
        else:
            for several in product(every, repeat=len(numbers)):
                for apart in _told_apart(several, operation) if set(left) <= set(several) else ():
                    yield dict(zip(numbers, apart, strict=True)), {}, {}
        return
    symbols, constants = _host_symbols(drafted, kernel, known.optional), _constants(kernel)
    alike = set[str]().union(*(one for one in drafted.equal if one & told))
    if len(symbols) == 1 and known.optional in {*known.extents} - told and alike.issuperset(left):
        yield {}, {symbols[0]: known.optional}, {}  # only the launch is over it: channels, each a matrix of its own
    sources = [*symbols, *constants]
    if not left or not symbols or len(sources) < len(left):
        yield {}, {}, {}
        return
    for chosen in permutations(sources, len(left)):
        if set(symbols) <= set(chosen):
            pairs = dict(zip(chosen, left, strict=True))
            yield ({}, {name: pairs[name] for name in chosen if name in symbols},
                   {name: pairs[name] for name in chosen if name not in symbols})  # fmt: skip


def _of_all(
    extents: Mapping[str, str], numbers: Sequence[str], left: Sequence[str]
) -> Iterator[tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]]:
    """One number as that of all elements: a product of every extent that is left."""
    products = [one for one in extents if not one.isidentifier() and names_in(one) == {*left}]
    if len(numbers) == 1:
        yield from (({numbers[0]: one}, {}, {}) for one in products)


def _told_apart(extents: Sequence[str], operation: str) -> Iterator[Sequence[str]]:
    """Extents, where two numbers are one and the same as the two that it may be: a length of queries, and of keys."""
    for symbol in dict.fromkeys(extents):
        parts = [name for name, text in OPERATIONS[operation].symbols.items() if text == symbol and name != symbol]
        places = [at for at, one in enumerate(extents) if one == symbol]
        if len(parts) == len(places) == 2 and OPERATIONS[operation].symbols.get(symbol) in parts:
            for order in permutations(parts):
                told = dict(zip(places, order, strict=True))
                yield [told.get(at, one) for at, one in enumerate(extents)]
            return
    yield extents


def _grid_beside(drafted: CardDraft, kernel: SourceKernel, numbers: Sequence[str]) -> list[str]:
    """The axes of the grid that are over more than what host code passes for these numbers."""
    if kernel.launch is None:
        return drafted.grid
    known = {*_symbols_passed(drafted, numbers), *kernel.named, *kernel.constants}
    axes = [kernel.launch.grid.members[axis].value for axis in "xyz"[: len(drafted.grid)]]
    return [
        text
        for text, term in zip(drafted.grid, axes, strict=True)
        if not (isinstance(term, Term) and terms.symbols(term) <= known)
    ]


def _symbols_passed(drafted: CardDraft, numbers: Sequence[str]) -> set[str]:
    """The symbols of host code in what it passes for these numbers."""
    passed = [one.passed for one in drafted.arguments if one.parameter.name in numbers]
    return {name for one in passed if isinstance(one, Term) for name in terms.symbols(one)}


def _host_symbols(drafted: CardDraft, kernel: SourceKernel, optional: str) -> list[str]:
    """The symbols of host code that a launch is over and whose names tell nothing but how many there are."""
    if kernel.machine is None:
        return []
    over = {name for text in drafted.grid for name in names_in(text)}
    unknown = unknown_symbols(drafted, " + ".join(sorted(over - {TODO})), kernel.varied)
    names = kernel.machine.names
    return [name for name in names if name in unknown or (optional and name == optional and name in over)]


def _number(kernel: SourceKernel, name: str) -> Number:
    """The value of a constant, or of a number as the code writes it."""
    return kernel.constants[name] if name in kernel.constants else int(name)


def _constants(kernel: SourceKernel) -> list[str]:
    """Constants that may be extents, the largest first."""
    found = {name: value for name, value in kernel.constants.items() if isinstance(value, int) and value >= _SMALLEST}
    return sorted(found, key=lambda name: -found[name])[:_MOST_CONSTANTS]
