"""What host code shows of how tensors lie: the sizes and strides that it reads off them, passes and asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.terms import NotWritten, Term
from wmmadiag.hostcode.values import Pointer
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.guess import distance_for, role_named
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.meanings import Meanings
from wmmadiag.subject.drafts.model import CardDraft, DraftArgument
from wmmadiag.subject.drafts.storage import AxisStride, Fact, Storage, StoredAxis, extents, same_extent

# Words for axes in the names of strides; m, n and k as in Triton's tutorial, where k of V and n of V have changed.
_AXIS_WORDS = {
    "B": "b batch z", "H": "h head heads", "S": "s seq seqlen row token t l m n", "D": "d dim col k",
}  # fmt: skip


_AMBIGUOUS = frozenset({"vk", "vn", "n", "k", "m", "on"})


def name_extents(result: CardDraft, meant: Meanings, kernel: SourceKernel) -> None:
    """Let extents of tensors mean what those of the outputs say, and what host code asks to be equal."""
    machine = kernel.machine
    if machine is None:
        return
    known = OPERATIONS[result.operation].roles
    outputs = {id(one.passed.buffer): one.role for one in result.arguments
               if isinstance(one.passed, Pointer) and one.role in known and known[one.role].output}  # fmt: skip
    for tensor in machine.tensors:
        role = outputs.get(id(tensor.buffer))
        axes = extents(result.operation, role, Storage(result.computes, {})) if role is not None else []
        if tensor.sizes is None or not axes or len(tensor.sizes) > len(axes):
            continue
        for size, (_, extent) in zip(tensor.sizes, axes[len(axes) - len(tensor.sizes) :], strict=True):
            if size.op == "symbol" and size.args[0] not in meant.by_symbol and extent not in meant.by_symbol.values():
                meant.by_symbol[size.args[0]] = extent
    for condition, holds in kernel.launch.facts if kernel.launch is not None else ():
        for one in _equations(condition, holds):
            for left, right in (one, one[::-1]):
                open_one = (
                    left.op == "symbol" and left.args[0] not in meant.by_symbol and left.args[0] in machine.extents
                )
                told = meant.card(right)
                if open_one and _is_card(told, result.operation):
                    meant.by_symbol[left.args[0]] = told


def _equations(condition: Term, holds: bool) -> Iterator[tuple[Term, Term]]:
    if condition.op == "and" and holds:
        for one in condition.args:
            yield from _equations(one, True)
    elif condition.op == "or" and not holds:
        for one in condition.args:
            yield from _equations(one, False)
    elif condition.op == ("==" if holds else "!="):
        yield condition.args[0], condition.args[1]


def turned(kernel: SourceKernel) -> frozenset[int]:
    """The matrices (by `id`) of which host code asks that they lie by columns: `w.stride(0) == 1`."""
    machine, found = kernel.machine, set[int]()
    if kernel.launch is None or machine is None:
        return frozenset()
    for condition, holds in kernel.launch.facts:
        for one in _equations(condition, holds):
            for stride, told in (one, one[::-1]):
                tensor, what, index = (stride.op == "symbol" and machine.extents.get(stride.args[0])) or (None, "", 0)
                if tensor is not None and what == "stride" and told == terms.ONE and tensor.rank in (0, 2):
                    found |= {id(tensor)} if index in (0, -2) else set()
    return frozenset(found)


def facts_of_tensors(
    result: CardDraft, meant: Meanings, machine: Machine | None, by_columns: frozenset[int] = frozenset()
) -> list[Fact]:
    """What host code reads off its tensors, and the sizes with which it makes them.

    Args:
        by_columns: the matrices that lie so.
    """
    found: list[Fact] = []
    if machine is None:
        return found
    roles = {
        id(one.passed.buffer): one.role
        for one in result.arguments
        if isinstance(one.passed, Pointer) and one.role in OPERATIONS[result.operation].roles
    }
    for name, (tensor, what, index) in machine.extents.items():
        role = roles.get(id(tensor.buffer))
        if role is not None and what == "size" and name in meant.by_symbol:
            rank = 2 if id(tensor) in by_columns else tensor.rank
            at = 1 - index % 2 if id(tensor) in by_columns else index
            found.append(StoredAxis(role, at, rank, meant.by_symbol[name]))
    for tensor in machine.tensors:
        role = roles.get(id(tensor.buffer))
        if role is None or tensor.sizes is None:
            continue
        for index, size in enumerate(tensor.sizes):
            told = meant.card(size)
            if _is_card(told, result.operation):
                found.append(StoredAxis(role, index, len(tensor.sizes), told))
    return found


def _is_card(term: Term, operation: str) -> bool:
    known = set(
        re.findall(r"\w+", " ".join(shape for role in OPERATIONS[operation].roles.values() for shape in role.shape))
    )
    return bool(terms.symbols(term)) and terms.symbols(term) <= known | {"S", "batch"}


def lay_packed(result: CardDraft, meant: Meanings, machine: Machine | None) -> None:
    """The order of the axes of tensors that share a storage, and of an output beside them of which nothing is known."""
    known = OPERATIONS[result.operation]
    for argument in result.arguments:
        packed = known.packed.get(argument.role)
        if packed is None:
            continue
        digit = str(len(packed.parts))
        axes = known.roles[packed.parts[0]].axes
        told = _sizes_read(argument, meant, machine)
        shape = dict(zip(axes, map(terms.parsed, known.roles[packed.parts[0]].shape), strict=True))
        shape[digit] = terms.number(len(packed.parts))
        every = packed.layouts
        whole = [one for one in every if all(same_extent(shape[one[at]], extent) for at, extent in told.items())]
        merged = [one for one in every if _fits_merged([shape[axis] for axis in one], told)]
        if told and (whole or len(merged) == 1):
            argument.layout = (whole or merged)[0]
        outputs = [one for one in result.arguments if one.role in known.roles and known.roles[one.role].axes == axes]
        for one in outputs:
            if not _sizes_read(one, meant, machine):
                one.layout = one.layout or (argument.layout or packed.layout).replace(digit, "")


def _fits_merged(extents: Sequence[Term], told: Mapping[int, Term]) -> bool:
    """Whether a tensor has these extents where neighbours among its axes are one: [2N, K] for 2, N, K."""
    for count in range(1, len(extents)):
        for cuts in combinations(range(1, len(extents)), count):
            places = [0, *cuts, len(extents)]
            merged = [terms.product(extents[first:last]) for first, last in pairwise(places)]
            if all(at < len(merged) and same_extent(merged[at], extent) for at, extent in told.items()):
                return True
    return False


def _sizes_read(argument: DraftArgument, meant: Meanings, machine: Machine | None) -> dict[int, Term]:
    """Axis → extent, of the tensor that an argument is, as far as host code says."""
    if machine is None or not isinstance(argument.passed, Pointer):
        return {}
    buffer = argument.passed.buffer
    found = {
        index: meant.by_symbol[name]
        for name, (tensor, what, index) in machine.extents.items()
        if tensor.buffer is buffer and what == "size" and index >= 0 and name in meant.by_symbol
    }
    for tensor in machine.tensors:
        if tensor.buffer is buffer and tensor.sizes is not None:
            found |= {index: meant.card(size) for index, size in enumerate(tensor.sizes)}
    return found


def facts_of_strides(result: CardDraft, meant: Meanings) -> list[Fact]:
    """The strides and leading dimensions that host code passes."""
    found: list[Fact] = []
    present = {one.role for one in result.arguments}
    for one in result.arguments:
        if one.parameter.pointer or not isinstance(one.passed, Term):
            continue
        told = meant.card(one.passed)
        if not _is_card(told, result.operation):
            continue
        if _is_between_matrices(result, one):
            continue
        distance = distance_for(one.parameter.name, result.operation, batches=False)
        axis = stride_axis(one.parameter.name, result.operation)
        if distance is not None:
            role = distance.role if distance.role in present else "c" if "c" in present else ""
            found += [AxisStride(role, "", told)] if role else []
        elif axis is not None:
            role = axis[0] if axis[0] in present else ""
            found += [AxisStride(role, axis[1], told)] if role else []
    return found


def _is_between_matrices(result: CardDraft, argument: DraftArgument) -> bool:
    """Whether a number is the distance of whole matrices by its name, and another one that of the same's rows."""
    own = distance_for(argument.parameter.name, result.operation, batches=False)
    if own is None or distance_for(argument.parameter.name, result.operation, batches=True) is None:
        return False
    others = (one for one in result.arguments if one is not argument and not one.parameter.pointer)
    return any(distance_for(one.parameter.name, result.operation, batches=False) == own for one in others)


def stride_axis(name: str, operation: str) -> tuple[str, str] | None:
    """(role, axis letter) of the stride that a parameter's name means: "q_stride_b", "stride_kh", "o_head_stride"."""
    known = OPERATIONS[operation].roles
    words = [word for word in re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_") if word]
    rest = [word.removeprefix("stride") for word in words if word not in ("stride", "strides")]
    rest = [word for word in rest if word]
    if "q" not in known or "stride" not in name.lower() or len(rest) not in (1, 2):
        return None
    role = "q"
    if len(rest) == 1 and len(rest[0]) == 2 and rest[0][0] in known:
        rest = list(rest[0])
    if len(rest) == 2:
        roles = [word for word in rest if role_named(word, operation) in known or word in OPERATIONS[operation].packed]
        role = "k" if roles[:1] == ["kv"] else (role_named(roles[0], operation) or "q") if roles else ""
        if not roles or "".join(rest) in _AMBIGUOUS:
            return None
        rest.remove(roles[0])
    elif rest[0] in _AMBIGUOUS:
        return None
    letter = next((letter for letter, words_ in _AXIS_WORDS.items() if rest[0] in words_.split()), None)
    return None if letter is None or role not in known else (role, letter)


def stride_value(name: str, operation: str, storage: Storage) -> str:
    """What a stride of that name is where tensors lie so; "" for no such name."""
    found = stride_axis(name, operation)
    if found is None:
        return ""
    axes = extents(operation, found[0], storage)
    position = next((index for index, (letter, _) in enumerate(axes) if letter == found[1]), None)
    if position is None:
        return ""
    try:
        return terms.text(terms.product(extent for _, extent in axes[position + 1 :]))
    except NotWritten:  # pragma: no cover - extents are symbols
        return ""
