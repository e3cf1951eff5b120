"""The extents of an operation as the sizes of the arrays tell them that host code makes.

Sizes are products of extents: their logarithms are linear in those of the extents, and so are the exponents of the host
symbols that a size is a product of.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import Term
from wmmadiag.hostcode.types import bytes_of
from wmmadiag.hostcode.values import Pointer, Value
from wmmadiag.numerics.element_types import element_type, storage_dtype
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.guess import DraftParameter, roles_for, symbol_for
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.model import DraftArgument


def room_for(parameter: DraftParameter, passed: Value | None) -> Term | None:
    """How many elements host code makes room for behind what it passes for an array; None where it does not say."""
    element = element_type(parameter.dtype or "")
    if not isinstance(passed, Pointer) or passed.buffer.size is None or element is None:
        return None
    room = terms.combined("/", passed.buffer.size, terms.number(storage_dtype(element).itemsize))
    return terms.combined("-", room, passed.offset)


def allocated(kernel: SourceKernel, operation: str) -> Mapping[str, int]:
    """The operation's extents as the sizes of the arrays that host code makes tell them; empty if they do not."""
    rows, counts = [], []
    for extents, size in _rows(kernel, operation):
        count = terms.value(size, kernel.usual)
        if count:
            rows.append(extents)
            counts.append(math.log2(count))
    symbols = sorted({name for row in rows for name in row})
    if not symbols or len(rows) < len(symbols):
        return {}
    matrix = np.array([[float(row.count(name)) for name in symbols] for row in rows])
    solved, _, rank, _ = np.linalg.lstsq(matrix, np.array(counts), rcond=None)
    if rank < len(symbols) or not np.allclose(matrix @ solved, counts):
        return {}
    found = {name: round(2**one) for name, one in zip(symbols, solved.tolist(), strict=True)}
    if not all(found.values()):
        return {}
    exact = all(math.isclose(math.log2(found[name]), one) for name, one in zip(symbols, solved.tolist(), strict=True))
    return found if exact else {}


def products_of_sizes(kernel: SourceKernel, operation: str) -> Mapping[str, Term]:
    """Extents as products of host symbols, none of which two have: `B * T` is M; empty where sizes do not tell it.

    A matrix of an image's pixels or of a batch's tokens has its rows counted by several numbers, whose names mean other
    things to the operation.
    """
    rows = _rows(kernel, operation)
    symbols = sorted({name for extents, _ in rows for name in extents})
    counted = [_exponents(size) for _, size in rows]
    if not symbols or any(one is None for one in counted):
        return {}
    exponents = [one for one in counted if one is not None]
    hosts = sorted({name for one in exponents for name in one})
    if not hosts:
        return {}
    matrix = np.array([[float(extents.count(name)) for name in symbols] for extents, _ in rows])
    wanted = np.array([[float(one[name]) for name in hosts] for one in exponents])
    solved, _, rank, _ = np.linalg.lstsq(matrix, wanted, rcond=None)
    whole = np.rint(solved)
    if rank < len(symbols) or not np.allclose(solved, whole) or not np.allclose(matrix @ whole, wanted):
        return {}
    if (whole < 0).any() or (whole.sum(axis=0) > 1).any() or not whole.any(axis=1).all():
        return {}
    powers = {name: [host for host, power in zip(hosts, row, strict=True) if power]
              for name, row in zip(symbols, whole.tolist(), strict=True)}  # fmt: skip
    shared = [host for factors in powers.values() if len(factors) > 1 for host in factors]
    if any(_means(kernel, host, operation) in powers for host in shared):  # M is a tile's, beside M * M_TILES
        return {}
    return {name: terms.product(map(terms.symbol, factors)) for name, factors in powers.items()}


def counted_besides(kernel: SourceKernel, operation: str, meant: Mapping[str, Term]) -> Mapping[str, Term]:
    """What host symbols without a meaning count that all arrays are made by: `lote * cabezas * L * d` is B * H * S * D.

    They are the extents that are left of every operand, in their order; one that counts several is their product. Empty
    where the arrays do not agree, are fewer than two (parts of a sum have an extent of their own), or have sizes that
    are no products of symbols.

    Args:
        meant: host symbols whose meaning is known.
    """
    names = {name: text for name, text in OPERATIONS[operation].symbols.items() if text.isidentifier() and text in name}
    found: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    rows = _rows(kernel, operation, whole=True)
    for extents, size in rows:
        factors = _exponents(size)
        if factors is None:
            return {}
        left = [names.get(one, one) for one in extents]
        hosts: list[str] = []
        for host in factors.elements():
            told = meant.get(host)
            if told is None:
                hosts.append(host)
            elif told.op == "symbol" and names.get(told.args[0], told.args[0]) in left:
                left.remove(names.get(told.args[0], told.args[0]))
            else:
                return {}
        found.add((tuple(dict.fromkeys(hosts)), tuple(dict.fromkeys(left))))
    if len(found) != 1 or len(rows) < 2:
        return {}
    hosts_left, extents_left = found.pop()
    if len(hosts_left) == 1 and extents_left:
        return {hosts_left[0]: terms.product(map(terms.symbol, extents_left))}
    if len(hosts_left) != len(extents_left):
        return {}
    return dict(zip(hosts_left, map(terms.symbol, extents_left), strict=True))


def _means(kernel: SourceKernel, host: str, operation: str) -> str:
    """The extent that a name of a host symbol says; "" for none."""
    names = kernel.machine.names.get(host, ()) if kernel.machine is not None else ()
    return next((found for one in (host, *names) if (found := symbol_for(one, operation)) is not None), "")


def _rows(kernel: SourceKernel, operation: str, *, whole: bool = False) -> list[tuple[list[str], Term]]:
    """The extents of each operand that host code makes an array for, and its elements.

    Args:
        whole: whether extents that are one where nothing speaks of them count, too: batches and heads.
    """
    known = OPERATIONS[operation]
    pointers = [one for one in kernel.parameters if one.pointer]
    roles = {one.name: role for one, role in zip(pointers, roles_for(pointers, operation), strict=True)}
    kept = known.extents if whole else {}
    settings = {
        name: terms.parsed(text) for name, text in known.symbols.items() if text.isdecimal() and name not in kept
    }
    found = []
    for name, size in sized_by(kernel).items():
        role = known.roles.get(roles.get(name) or "")
        if role is not None and role.required:
            shape = [terms.replaced(terms.parsed(text), settings) for text in role.shape]
            found.append(([one.args[0] for one in shape if one.op == "symbol"], size))
    return found


def _exponents(size: Term) -> Counter[str] | None:
    """How often each host symbol is a factor of a number; None where it is no product of symbols alone."""
    if size.op == "symbol":
        return Counter([size.args[0]])
    if size == terms.ONE:
        return Counter()
    if size.op != "*":
        return None
    parts = [_exponents(one) for one in size.args]
    first, second = parts
    return first + second if first is not None and second is not None else None


def sized_by(kernel: SourceKernel) -> Mapping[str, Term]:
    """Elements of each array, by the kernel's name for it, as far as host code says."""
    found = {}
    for parameter, value in zip(kernel.parameters, kernel.passed, strict=True):
        if isinstance(value, Pointer) and value.buffer.size is not None:
            each = bytes_of(value.buffer.element) or bytes_of(parameter.c_type)
            if each:
                found[parameter.name] = terms.combined("/", value.buffer.size, terms.number(each))
    return found


def counters(argument: DraftArgument) -> Term | None:
    """How many whole numbers host code sets before the launch, of an array that it is given: flags, a queue's head."""
    passed, element = argument.passed, element_type(argument.dtype)
    if not isinstance(passed, Pointer) or element is None or element.is_float or not argument.initial:
        return None
    return (
        terms.combined("/", passed.buffer.bytes_set, terms.number(element.bytes)) if passed.buffer.bytes_set else None
    )
