"""Which roles pointers may have whose names do not tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from math import perm

from wmmadiag.numerics.element_types import element_type
from wmmadiag.ops import OPERATIONS, Role
from wmmadiag.subject.drafts.guess import DraftParameter, covered_roles, is_unfit, role_named, telling_first
from wmmadiag.subject.drafts.in_place import may_write, replaced_roles
from wmmadiag.subject.drafts.kernel import SourceKernel

_INDEX = 4  # bytes
_MOST_SORTED = 5040  # orders of roles


def unnamed_pointers(kernel: SourceKernel, operation: str) -> list[DraftParameter]:
    """The pointers whose names tell no role, or one that another has."""
    seen: set[str] = set()
    found: list[DraftParameter] = []
    any_const = any(one.const for one in kernel.parameters if one.pointer)
    pointers = [one for one in kernel.parameters if one.pointer and not one.value]
    for index in telling_first([one.name for one in pointers]):
        one = pointers[index]
        role = role_named(one.name, operation)
        known = OPERATIONS[operation].roles.get(role or "")
        read = known is not None and not known.output and not is_updated(operation, role or "")
        misplaced = known is not None and (one.const if known.output else read and any_const and not one.const)
        if role is None or role in seen or misplaced:
            found.append(one)
        else:
            seen.add(role)
    return [one for one in pointers if any(one is other for other in found)]


def possible_roles(
    kernel: SourceKernel, operation: str, unnamed: Sequence[DraftParameter]
) -> Iterator[Mapping[str, str]]:
    """Roles for pointers: all that the operation needs, and as many others as there are pointers for.

    Then those where an output takes the place of an input, and where one array holds several inputs, though its name
    tells of none, or of one of them.
    """
    others = {one.name for one in unnamed}
    told = [one for one in kernel.parameters if one.pointer and one.name not in others]
    named = {one.name: role_named(one.name, operation) for one in told}
    roles = OPERATIONS[operation].roles
    if any(role in roles and is_unfit(one, roles[role]) for one in told if (role := named[one.name])):
        return
    present = covered_roles(operation, named.values())
    present |= replaced_roles(operation, told, list(named.values()), kernel.code)
    yield from _chosen(kernel, operation, unnamed, present)
    written = {one.name for one in unnamed if not one.const and may_write(kernel.code, one.own_name)}
    for output, known in OPERATIONS[operation].roles.items():
        over = known.updates
        if over and not {output, over} & present and OPERATIONS[operation].roles[over].required:
            several = _chosen(kernel, operation, unnamed, {*present, output})
            yield from (own for own in several if any(role == over and name in written for name, role in own.items()))
    for packed, one in OPERATIONS[operation].packed.items():
        parts = {*one.parts}
        if not parts <= present:
            part = [each for each in told if named[each.name] in parts]
            yield from _chosen(kernel, operation, [*unnamed, *part], present - parts, packed)


def _chosen(
    kernel: SourceKernel, operation: str, unnamed: Sequence[DraftParameter], present: set[str], packed: str = ""
) -> Iterator[Mapping[str, str]]:
    """Roles for these pointers beside those that are there. `packed`: of one that holds several inputs, "" for none."""
    known = dict(OPERATIONS[operation].roles)
    if packed:
        parts = OPERATIONS[operation].packed[packed].parts
        present = {*present, *parts}
        known[packed] = known[parts[0]]
    missing = [name for name, role in known.items() if role.required and name not in present]
    optional = [name for name, role in known.items() if not role.required and name not in present]
    more = len(unnamed) - len(missing)
    if more < 0 or more > len(optional):
        return
    every = [*missing, *optional] if more else missing
    any_const = any(one.const for one in kernel.parameters if one.pointer)
    for chosen in _likeliest(kernel, operation, unnamed, every):
        if not set(missing) <= set(chosen):
            continue
        pairs = list(zip(unnamed, chosen, strict=True))
        if any((known[role].output and one.const) or is_unfit(one, known[role]) for one, role in pairs):
            continue
        if any(known[role].required and not known[role].output and _is_index(one, known[role]) for one, role in pairs):
            continue
        if any_const and any(not known[role].output and not known[role].updates and not one.const
                             for one, role in pairs if not is_updated(operation, role)):  # fmt: skip
            continue
        yield {one.name: role for one, role in pairs}


def _likeliest(
    kernel: SourceKernel, operation: str, unnamed: Sequence[DraftParameter], roles: Sequence[str]
) -> Iterable[Sequence[str]]:
    """Roles for these pointers in every order, those first by which most names are made of another's."""
    every = permutations(roles, len(unnamed))
    if perm(len(roles), len(unnamed)) > _MOST_SORTED:
        return every
    names = [one.name for one in unnamed]
    return sorted(every, key=lambda own: -made_of_others(kernel, operation, dict(zip(names, own, strict=True))))


def made_of_others(kernel: SourceKernel, operation: str, own: Mapping[str, str]) -> int:
    """How many pointers have a role of another one's, as their names are made of that one's: `inv_x` scales x.

    Args:
        own: roles of those whose names tell none, by name.
    """
    pointers = [one.name for one in kernel.parameters if one.pointer]
    whole = {name: own.get(name) or role_named(name, operation) or "" for name in pointers}
    return sum(
        role.endswith(f"_{whole[other]}")
        for name, role in own.items()
        for other in pointers
        if other != name and whole[other] and other in name.split("_")
    )


def _is_index(parameter: DraftParameter, role: Role) -> bool:
    """Whether the elements are numbers that no product is of: indices, counts, sums of bytes."""
    element = element_type(parameter.dtype or "")
    return element is not None and not element.is_float and element.bytes >= _INDEX and role.element != "int"


def is_updated(operation: str, role: str) -> bool:
    """Whether a kernel may write its output over an input."""
    return any(one.updates == role for one in OPERATIONS[operation].roles.values())
