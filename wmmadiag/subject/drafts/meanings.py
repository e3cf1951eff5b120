"""What the integers of host code are to an operation: from its symbols to those of a card.

Names tell, and the kernel's own first: `int n_rows` that is passed for the kernel's `M` is M. What names leave open is
told by the sizes of arrays, where those of the operation's tensors are known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import NotWritten, Number, Term
from wmmadiag.hostcode.values import Pointer, Struct, Unknown, Value
from wmmadiag.numerics.element_types import element_type
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.array_extents import allocated, counted_besides, products_of_sizes
from wmmadiag.subject.drafts.code_facts import fragment_extents, tile_names
from wmmadiag.subject.drafts.guess import DraftParameter, is_longest, symbol_for, value_for
from wmmadiag.subject.drafts.kernel import SourceKernel

_FRAGMENT = 32  # at most: `#define M 16` is a fragment's shape far more often than a matrix's


@dataclass(slots=True)
class Meanings:
    """From terms of host code to a card's."""

    by_symbol: dict[str, Term] = field(default_factory=dict)  # host symbol → term over the card's symbols
    # terms of host code that are passed for a number of known meaning, with that meaning
    whole: list[tuple[Term, Term]] = field(default_factory=list)
    usual: dict[str, Number] = field(default_factory=dict)  # card symbol → the value that host code gives it
    fixed: dict[str, Number] = field(default_factory=dict)  # card symbol → its only value
    equal: list[set[str]] = field(default_factory=list)  # card symbols that host code passes one number for

    def card(self, term: Term) -> Term:
        """A term of host code over the card's symbols."""
        return terms.replaced(terms.rewritten(term, self.whole), self.by_symbol)

    def text(self, value: Value | None) -> str:
        """A value as a card's expression.

        Raises:
            NotWritten: it is no number, or depends on what no card can say.
        """
        if not isinstance(value, Term):
            raise NotWritten(f"`{value.text}` is not known" if isinstance(value, Unknown) and value.text else "")
        return terms.text(self.card(value))


def is_real(parameter: DraftParameter) -> bool:
    """Whether a number is a floating-point one."""
    element = element_type(parameter.dtype or "")
    return element is not None and element.is_float


def meaning_of(parameter: DraftParameter, operation: str) -> str | None:
    """The symbol, or product of symbols, that a number's name means; None for none, or no number."""
    if parameter.pointer or parameter.value or is_real(parameter) or element_type(parameter.dtype or "") is None:
        return None
    return parameter.meant or symbol_for(parameter.name, operation)


def with_rows(kernel: SourceKernel, operation: str) -> SourceKernel:
    """The kernel with its number of batches as that of rows where nothing else tells these: `y[batch, features]`.

    Of several matrices the launch has a dimension of its own.
    """
    known = OPERATIONS[operation]
    if not known.optional or not known.cases:
        return kernel
    rows = next(name for name in known.cases[0] if name != known.optional)
    meant = [meaning_of(one, operation) for one in kernel.parameters]
    others = [*kernel.constants, *kernel.named, *_symbols(kernel)]
    if known.optional not in meant or rows in meant or any(symbol_for(one, operation) == rows for one in others):
        return kernel
    at = meant.index(known.optional)
    passed, launch = kernel.passed[at], kernel.launch
    depth = launch.grid.members.get("z") if launch is not None else None
    if not isinstance(passed, Term) or (depth is not None and _speaks(depth.value, passed)):
        return kernel
    own = replace(kernel.parameters[at], meant=rows)
    return replace(kernel, parameters=(*kernel.parameters[:at], own, *kernel.parameters[at + 1 :]))


def _speaks(value: Value, term: Term) -> bool:
    """Whether a number of host code depends on another one."""
    return isinstance(value, Term) and bool(terms.symbols(value) & terms.symbols(term))


def meanings(kernel: SourceKernel, operation: str) -> Meanings:
    """What a kernel's host code calls the operation's extents."""
    result = Meanings()
    taken = {found for one in kernel.parameters if (found := meaning_of(one, operation)) is not None}
    shapes = fragment_extents(kernel.code)
    shapes |= {one for one in tile_names(kernel.code) if symbol_for(one, operation) in _counts(operation)}
    _constants(result, {name: one for name, one in kernel.constants.items() if name not in shapes}, operation, taken)
    passed: dict[str, list[str]] = {}
    for parameter, value in zip(kernel.parameters, kernel.passed, strict=True):
        meant = meaning_of(parameter, operation)
        if meant is None or not isinstance(value, Term):
            continue
        if value.op == "symbol":
            if not _is_misnamed(kernel, parameter, value.args[0], operation, meant):
                passed.setdefault(value.args[0], []).append(meant)
        else:
            _counted(result, value, meant, kernel)
    for name, several in passed.items():
        _named(result, kernel, name, list(dict.fromkeys(several)))
    _multiplied(result, kernel, operation)
    _in_parts(result, kernel, operation)
    made = allocated(kernel, operation)
    _called(result, {} if taken & made.keys() else products_of_sizes(kernel, operation), made)
    divided = {name for name, by in _divided(kernel) if by.op == "symbol"}
    for name in _symbols(kernel):
        if name in result.by_symbol or name in divided:
            continue
        known = kernel.usual.get(name)
        if known is not None and name in kernel.varied and not is_of_the_operation(name, operation):
            result.usual[name] = known
        elif known is not None and not _measures(kernel, name):
            # What is no extent: a tile's size, a number of threads. It is as host code has it.
            result.by_symbol[name] = terms.number(known)
        elif (told := _told_by_names(kernel, name, operation, result)) is not None:
            if known is not None and made.get(told, known) != known:  # M is a tile's: the matrix has M * M_TILES rows
                result.by_symbol[name] = terms.number(known)
                result.fixed |= {symbol: value for symbol, value in made.items() if symbol not in taken}
            else:
                _named(result, kernel, name, [told])
        elif known is not None:
            result.usual[name] = known
    _multiplied(result, kernel, operation)  # by what only a name tells
    _name_what_is_counted(result, kernel, operation)
    _elements(result, kernel, operation)
    spoken = taken | _spoken_of(result)
    _constants(result, {name: one for name, one in kernel.named.items() if name not in shapes}, operation, spoken)
    _free_of_tiles(result, kernel)
    if not made.keys() & (spoken | result.fixed.keys()):  # nothing else says how large what it takes is: one tile
        result.fixed |= made
    return result


def is_of_the_operation(name: str, operation: str) -> bool:
    """Whether a card's expressions mean something else by a host symbol's name."""
    known = OPERATIONS[operation]
    cases = (one for case in known.cases for one in case)
    return name in {"S", *known.symbols, *known.extents, *known.parameters, *cases}


def _free_of_tiles(result: Meanings, kernel: SourceKernel) -> None:
    """A constant that the grid divides a number of host code by is a tile's size, whatever its name means.

    `(max_rows + kRows - 1) / kRows`: there are as many rows as max_rows says, not as many as kRows.
    """
    for cell in kernel.launch.grid.members.values() if kernel.launch is not None else ():
        term = cell.value
        if not isinstance(term, Term) or term.op not in ("//", "ceil_div"):
            continue
        by, divided = result.card(term.args[1]), result.card(term.args[0])
        for extent in terms.symbols(divided) & result.fixed.keys():
            host = [name for name, meant in result.by_symbol.items() if meant == terms.symbol(extent)]
            known = any(name in kernel.fixed or name in kernel.usual for name in host)
            if host and not known and by == terms.number(result.fixed[extent]):
                del result.fixed[extent]


def _multiplied(result: Meanings, kernel: SourceKernel, operation: str) -> None:
    """What host code divides by a number for a known extent is the product of both: `heads = width / head_size`."""
    passed = [(meaning_of(one, operation), value) for one, value in zip(kernel.parameters, kernel.passed, strict=True)]
    for stage in kernel.together.stages if kernel.together is not None else ():
        passed += [(symbol_for(name, operation), said.value) for name, said in stage.said()]
    for meant, value in passed:
        if meant is None or not isinstance(value, Term) or value.op != "//" or value.args[0].op != "symbol":
            continue
        name, by = value.args[0].args[0], result.card(value.args[1])
        told = by.op == "number" or (by.op == "symbol" and by.args[0] in OPERATIONS[operation].extents)
        if name not in result.by_symbol and name not in kernel.usual and told:
            result.by_symbol[name] = terms.combined("*", terms.parsed(meant), by)


def _in_parts(result: Meanings, kernel: SourceKernel, operation: str) -> None:
    """What host code divides an extent by for a number of the operation, read off a tensor, is the number of its parts.

    `group = K / scales.size(1)`: along that axis there are K / group scales, whatever else axes may mean.
    """
    known = OPERATIONS[operation]
    read = kernel.machine.extents if kernel.machine is not None else {}
    for parameter, value in zip(kernel.parameters, kernel.passed, strict=True):
        told = None if parameter.pointer or is_real(parameter) else value_for(parameter.name, operation)
        if told is None or told not in known.parameters or not isinstance(value, Term) or value.op != "//":
            continue
        whole, parts = result.card(value.args[0]), value.args[1]
        is_extent = whole.op == "symbol" and whole.args[0] in known.extents
        is_read = parts.op == "symbol" and parts.args[0] in read and parts.args[0] not in result.by_symbol
        if is_extent and is_read:
            result.by_symbol[parts.args[0]] = terms.combined("ceil_div", whole, terms.symbol(told))
            result.whole.append((value, terms.symbol(told)))


def _elements(result: Meanings, kernel: SourceKernel, operation: str) -> None:
    """What the grid divides by one extent of the output, and nothing names, is how many elements that has: `n / ld`."""
    shapes = [role.shape for role in OPERATIONS[operation].roles.values() if role.output and role.required]
    if len(shapes) != 1 or not all(one.isidentifier() for one in shapes[0]):
        return
    optional = OPERATIONS[operation].optional
    extents = [one for one in shapes[0] if one != optional or one in _spoken_of(result)]
    for name, by in _divided(kernel):
        meant = result.card(by)
        known = name in result.by_symbol or name in kernel.usual
        if not known and meant.op == "symbol" and meant.args[0] in extents:
            result.by_symbol[name] = terms.product(map(terms.symbol, extents))


def _name_what_is_counted(result: Meanings, kernel: SourceKernel, operation: str) -> None:
    """Let symbols that the grid is over and no name tells mean what the sizes of all arrays have besides."""
    over = [cell.value for cell in kernel.launch.grid.members.values()] if kernel.launch is not None else []
    names = {name for one in over if isinstance(one, Term) for name in terms.symbols(one)}
    if names & result.usual.keys() & kernel.usual.keys() - kernel.varied:
        for name, counted in counted_besides(kernel, operation, result.by_symbol).items():
            result.usual.pop(name, None)
            _named(result, kernel, name, [terms.text(counted)])


def _divided(kernel: SourceKernel) -> Iterator[tuple[str, Term]]:
    """The symbols that are divided by something for the grid, and by what."""
    for cell in kernel.launch.grid.members.values() if kernel.launch is not None else ():
        term = cell.value
        if isinstance(term, Term) and term.op == "//" and term.args[0].op == "symbol":
            yield term.args[0].args[0], term.args[1]


def _counted(result: Meanings, value: Term, meant: str, kernel: SourceKernel) -> None:
    """A number, or what host code counts, is an extent of this meaning."""
    known = value.args[0] if value.op == "number" else terms.value(value, kernel.usual)
    if value.op != "number":
        result.whole.append((value, terms.parsed(meant)))
    if known is not None and meant.isidentifier():
        result.usual.setdefault(meant, known)


def _called(result: Meanings, products: Mapping[str, Term], made: Mapping[str, int]) -> None:
    """Extents are these products of host symbols, as the sizes of all arrays have it."""
    for extent, product in products.items():
        if product.op != "symbol":
            result.whole.append((product, terms.symbol(extent)))
        elif product.args[0] not in result.by_symbol:
            result.by_symbol[product.args[0]] = terms.symbol(extent)
        if extent in made:
            result.usual[extent] = made[extent]


def _spoken_of(result: Meanings) -> set[str]:
    """The card's symbols that something in host code is."""
    terms_of = [*result.by_symbol.values(), *(meant for _, meant in result.whole)]
    return {name for one in terms_of for name in terms.symbols(one)} | set(result.usual)


def _named(result: Meanings, kernel: SourceKernel, name: str, meant: list[str]) -> None:
    """A host symbol means this; where it is passed for several extents, these are one number."""
    result.by_symbol[name] = terms.parsed(meant[0])
    plain = [one for one in meant if one.isidentifier()]
    known = kernel.usual.get(name)
    for one in plain:
        if known is not None and one not in result.fixed:
            result.usual[one] = known
    if known is not None and name in kernel.fixed and plain:
        result.fixed[plain[0]] = known
    if len(plain) > 1:
        result.equal.append(set(plain))


def _is_misnamed(kernel: SourceKernel, parameter: DraftParameter, name: str, operation: str, meant: str) -> bool:
    """Whether a number of one letter is passed what host code has a whole word for, of another meaning: pad as p."""
    if len(parameter.name) > 1 or parameter.meant or kernel.machine is None:
        return False
    words = [one for one in kernel.machine.names.get(name, ()) if len(one) > 1]
    found = [told for one in words if (told := symbol_for(one, operation) or value_for(one, operation)) is not None]
    return bool(found) and meant not in found


def _told_by_names(kernel: SourceKernel, name: str, operation: str, result: Meanings) -> str | None:
    """What one of the names of a host symbol means, if nothing else means that already."""
    assert kernel.machine is not None
    gone = {terms.text(one) for one in result.by_symbol.values() if one.op == "symbol"} | {
        terms.text(one) for _, one in result.whole if one.op == "symbol"
    }
    for one in kernel.machine.names.get(name, ()):
        meant = symbol_for(one, operation)
        if meant is None and (value := value_for(one, operation)) is not None and _is_number_name(one, operation):
            meant = value
        if meant is not None and (meant not in gone or is_longest(one, operation)):
            try:
                terms.parsed(meant)
            except NotWritten:
                continue
            return meant
    return None


def _is_number_name(name: str, operation: str) -> bool:
    """Whether a name is that of a parameter of the operation, not of a distance, which only a kernel's own may be."""
    found = value_for(name, operation)
    return found is not None and not any(found == one.value for one in OPERATIONS[operation].distances)


def _counts(operation: str) -> set[str]:
    """The extents that count matrices or heads: no tile has their size, whatever its name (`#define BS 64`)."""
    return {OPERATIONS[operation].optional, "B", "H"} - {""}


def _constants(result: Meanings, known: Mapping[str, Number], operation: str, taken: Collection[str]) -> None:
    """Extents that constants fix, those that are known otherwise aside."""
    for name in sorted(known, key=lambda name: (-len(name), name)):
        value = known[name]
        symbol = symbol_for(name, operation)
        if symbol is None or not symbol.isidentifier() or symbol in result.fixed or symbol in taken:
            continue
        if isinstance(value, bool) or value != int(value) or value < 1 or (name in "MNKmnk" and value <= _FRAGMENT):
            continue
        result.fixed[symbol] = int(value)


def _values(kernel: SourceKernel) -> Iterable[Value]:
    launch = kernel.launch
    yield from (one for one in kernel.passed if one is not None)
    if launch is not None:
        yield launch.shared
        for shape in (launch.grid, launch.block):
            yield from (cell.value for cell in shape.members.values())


def _symbols(kernel: SourceKernel) -> list[str]:
    """The symbols of a launch, in their order; those of the sizes of arrays last."""
    found: dict[str, None] = {}
    for value in _values(kernel):
        for term in _terms_in(value):
            found |= dict.fromkeys(sorted(terms.symbols(term)))
    for name in re.findall(r"\{([^{}]*)\}", kernel.entry):
        found |= dict.fromkeys(sorted(terms.symbols(terms.parsed(name))))
    return list(found)


def _terms_in(value: Value) -> Iterable[Term]:
    if isinstance(value, Term):
        yield value
    elif isinstance(value, Pointer):
        yield value.offset
        if value.buffer.size is not None:
            yield value.buffer.size
    elif isinstance(value, Struct):
        for cell in value.members.values():
            yield from _terms_in(cell.value)


def _measures(kernel: SourceKernel, name: str) -> bool:
    """Whether a symbol is the extent of an array, or a number that the kernel gets."""
    for value in kernel.passed:
        if isinstance(value, Pointer) and value.buffer.size is not None and name in terms.symbols(value.buffer.size):
            return True
        if isinstance(value, Term) and name in terms.symbols(value):
            return True
    return False
