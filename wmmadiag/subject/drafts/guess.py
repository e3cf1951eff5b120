"""What a parameter's name suggests: a role for a pointer, a symbol for a number.

Suggestions, for the user to confirm. The words are those of the operations (`wmmadiag.ops`); what is here is how a name
is held against them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from wmmadiag.numerics.element_types import element_type
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.model import Distance, Parameter, Role


@dataclass(frozen=True, slots=True)
class DraftParameter:
    """One kernel parameter as the guesses need it."""

    name: str
    c_type: str  # as declared, pointer and const aside
    pointer: bool = False
    const: bool = False
    # a card's element type, or None when the C type does not say (a template parameter, a struct)
    dtype: str | None = None
    lanes: int = 1  # elements of a vector type (half2: 2), else 1; storage is the same either way
    struct: str = ""  # the kernel's parameter that it is a member of, if that is a struct
    label: str = ""  # its name in there, or in the code of a kernel that is tried with it by another name
    offset: int = 0  # … and bytes from its begin
    value: str = ""  # what it is, where that does not depend on its meaning: of padding, of a pointer that stays null
    unread: bool = False  # whether no code that is to be seen reads it
    meant: str = ""  # the extent that it is, where its name says another
    indirect: bool = False  # whether it is an array of pointers, one to each matrix
    added: bool = False  # whether the kernel adds to what the pointer points to
    single: bool = False  # whether the pointer is to one number, which the kernel reads: `*alpha`
    remark: str = ""  # why a struct could not be taken apart

    @property
    def own_name(self) -> str:
        """Its name in code, whatever it is taken for: of a struct's member alone."""
        return self.label.rpartition(".")[2] or self.name


@lru_cache(maxsize=1 << 14)
def folded(name: str) -> str:
    """A name without case, underscores and the usual marks of pointers and places ("d_Q_ptr" → "q")."""
    plain = re.sub(r"^(?:d|g|p|m|in|gm|dev|device|glob|global|ptr)_(?=\w)|_(?:ptr|d|dev|g|gmem|global|data)$", "", name)
    plain = re.sub(r"(?<=.)(?:Ptr|_ptr|ptr)$|^(?:ptr|gm?(?=[A-Z])|d(?=[A-Z])|p(?=[A-Z]))", "", plain) or plain
    plain = re.sub(r"^k(?=[A-Z][A-Za-z]|D$)", "", plain)  # kHeadDim, a constant's name
    plain = re.sub(r"(?<=\w)_?(?:[aA]rr(?:ay)?|[pP]trs|[pP]ointers|[lL]ist)$", "", plain)  # of pointers
    return plain.replace("_", "").lower()


def _search(table: Mapping[str, str], name: str) -> str | None:
    for plain in (name.replace("_", "").lower(), folded(name)):
        found = next((meaning for meaning, words in table.items() if plain in words.split()), None)
        if found is not None:
            return found
    return None


@cache
def _role_words(operation: str) -> Mapping[str, str]:
    known = OPERATIONS[operation]
    roles = {name: role.spellings for name, role in known.roles.items()}
    return roles | {name: packed.spellings for name, packed in known.packed.items()}


@cache
def _value_words(operation: str) -> Mapping[str, str]:
    """What a number's value is → the spellings for it."""
    known = OPERATIONS[operation]
    # A parameter that drafted cases vary is a symbol of its own name; others have their usual value.
    values = {
        name if one.drafted else str(one.default): one.spellings
        for name, one in known.parameters.items()
        if one.spellings
    }
    defaults = {name: str(one.default) for name, one in known.parameters.items()}
    values |= {text.format(**defaults): spellings for text, spellings in known.derived.items()}
    return values | {one.value: one.spellings for one in known.distances if not one.batches}


@lru_cache(maxsize=1 << 14)
def role_named(name: str, operation: str) -> str | None:
    """The role that a pointer's or tensor's name suggests: "d_query" → "q"."""
    return _search(_role_words(operation), name)


def covered_roles(operation: str, roles: Iterable[str | None]) -> set[str]:
    """The roles that pointers have, each of those that share a storage among them; and an output written over one."""
    present = {part for role in roles if role for part in (role, *_parts(operation, role))}
    return present | {output for over, output in _written_in_place(operation).items() if over in present}


def _written_in_place(operation: str) -> dict[str, str]:
    """Inputs that a kernel need not have → the output that takes their place: C of a GEMM, D."""
    roles = OPERATIONS[operation].roles
    return {
        one.updates: name
        for name, one in roles.items()
        if one.updates and one.required and not roles[one.updates].required
    }


def _parts(operation: str, role: str) -> tuple[str, ...]:
    packed = OPERATIONS[operation].packed.get(role)
    return packed.parts if packed is not None else ()


def operation_named(pointers: Sequence[str]) -> str:
    """The operation whose operands the names of a kernel's pointers are: (a, b, c) → "gemm"; the first in doubt."""
    best, most = next(iter(OPERATIONS)), 0
    for operation, known in OPERATIONS.items():  # on a tie the commoner one
        if known.signs is None or not known.signs.arrays:
            continue
        roles = {role_named(name, operation) for name in pointers} - {None}
        required = {name for name, role in known.roles.items() if role.required}
        score = 2 * len(roles) - len(pointers)  # named, less those that are not
        if required <= covered_roles(operation, roles) and score > most:
            best, most = operation, score
    return best


# Words in the names of arrays that are no operand of an operation, and what to do about them. A name that has one is
# never taken for an operand by its place among the parameters.
_STRANGE: tuple[tuple[str, str], ...] = (
    (
        "cu cum culens seqlens seqused lens lengths offsets indptr indices idx table tables page pages slots",
        "lengths, offsets and page tables need values that fit each other (`values` of a card); describe the kernel by "
        "a Python function (`wmmadiag init` with --computes python)",
    ),
    (
        "grad grads dout dq dk dv do delta dpsum",
        "a gradient that this operation has no role for; another may have (`--computes`), or a Python function "
        "(`wmmadiag init` with --computes python)",
    ),
    (
        "partial partials part tmp temp workspace ws scratch split splits max maxes maximum rowmax sum sums rowsum "
        "expsum stats counter counters semaphore lock",
        'an intermediate result; if its content does not matter, role = "workspace" with a size; if it is what the '
        "kernel computes, describe it by a Python function (`wmmadiag init` with --computes python)",
    ),
    (
        "mask bias alibi slopes slope rotary cos sin dropout rng seed sink sinks",
        "this operation has no such operand; if no built-in operation has it, describe the kernel by a Python function "
        "(`wmmadiag init` with --computes python)",
    ),
)


def role_remark(name: str) -> str:
    """Why an array of that name is no operand, with the next step; "" if nothing in the name says so."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name) if not re.fullmatch(r"[dgh][A-Z]", name) else name
    words = set(plain.lower().split("_"))
    return next((remark for known, remark in _STRANGE if words & set(known.split())), "")


@lru_cache(maxsize=1 << 14)
def symbol_for(name: str, operation: str) -> str | None:
    """The symbol (or product of symbols) that an integer's name suggests: "seq_len" → "S"."""
    return _search(OPERATIONS[operation].extents, name)


def is_longest(name: str, operation: str) -> bool:
    """Whether a number's name is that of the longest part of an extent, beside which another may be the whole."""
    return _search({"longest": OPERATIONS[operation].longest}, name) is not None


@lru_cache(maxsize=1 << 14)
def value_for(name: str, operation: str) -> str | None:
    """The value that a scalar's name suggests beyond symbols: "softmax_scale" → "1/sqrt(D)", "lda" → "K"."""
    return _search(_value_words(operation), name)


def number_behind(pointer: DraftParameter, operation: str) -> str | None:
    """The value of the one number that a pointer leads to, by its name: `const float *alpha`; None for an array."""
    if not pointer.single or role_named(pointer.name, operation) is not None:
        return None
    return value_for(pointer.name, operation)


def parameter_named(name: str, operation: str) -> Parameter | None:
    """The parameter of an operation that a scalar's name means: "softmax_scale" → that of its scale."""
    known = OPERATIONS[operation].parameters
    return known.get(_search({one: known[one].spellings for one in known if known[one].spellings}, name) or "")


@lru_cache(maxsize=1 << 14)
def distance_for(name: str, operation: str, *, batches: bool) -> Distance | None:
    """The leading dimension that a number's name means, or with `batches` the distance between matrices."""
    known = {one.value: one for one in OPERATIONS[operation].distances if one.batches == batches}
    found = _search({value: one.spellings for value, one in known.items()}, name)
    if found is not None:
        return known[found]
    of_pointer = _DISTANCE.fullmatch(name.lower())
    if of_pointer is None or (of_pointer["rows"] if batches else of_pointer["whole"] or of_pointer["all"]):
        return None
    role = role_of_distance(name, operation)
    return next((one for one in known.values() if one.role == role), None)


def role_of_distance(name: str, operation: str) -> str:
    """The role whose elements' distance a number is that names it: "stride_bias" → "bias"; "" of any other."""
    found = _DISTANCE.fullmatch(name.lower())
    return (role_named(found["first"] or found["last"], operation) or "") if found is not None else ""


# ld_x, x_stride, batch_stride_x: of what has that name.
_DISTANCE = re.compile(
    r"(?:(?P<whole>batch_?stride_?|bs_?)|stride_?|(?P<rows>ld_?))(?P<first>\w+)|(?P<last>[a-z0-9]+)_(?P<all>batch_)?stride"
)


def roles_for(pointers: Sequence[DraftParameter], operation: str) -> list[str | None]:
    """A role for each pointer, None where nothing suggests one.

    Names decide first. What they leave open goes by order: const pointers to the missing inputs, others to the
    missing outputs; without any const, the order of the operation's roles.
    """
    known = OPERATIONS[operation].roles
    arrays = [pointer for pointer in pointers if number_behind(pointer, operation) is None]
    if len(arrays) < len(pointers):
        told = dict(zip(map(id, arrays), roles_for(arrays, operation), strict=True))
        return [told.get(id(pointer)) for pointer in pointers]
    names = {folded(pointer.name) for pointer in pointers}
    by_place: dict[int, str | None] = {}
    for index in telling_first([pointer.name for pointer in pointers]):
        pointer, roles = pointers[index], list(by_place.values())
        found = _told_by_type(role_named(pointer.name, operation), pointer, operation)
        if found is not None and pointer.const and found in known and known[found].output:
            found = None  # nothing is written through a pointer to const
        if found is not None and _means_otherwise(pointer.name, names, found, operation):
            found = known[found].instead or None
        by_place[index] = found if found not in roles else None
    roles = _written_over(pointers, [by_place[index] for index in range(len(pointers))], operation)
    present = covered_roles(operation, roles)
    missing = [name for name, role in known.items() if role.required and name not in present]
    inputs = [name for name in missing if not known[name].output]
    outputs = [name for name in missing if known[name].output]
    open_ones = [index for index, role in enumerate(roles) if role is None]
    if not any(pointer.const for pointer in pointers):
        plain = [index for index in open_ones if not role_remark(pointers[index].name)]
        for index, name in zip(plain, inputs + outputs, strict=False):
            roles[index] = name
        return roles
    for index in open_ones:
        if role_remark(pointers[index].name):
            continue
        wanted = inputs if pointers[index].const else outputs
        if wanted:
            roles[index] = wanted.pop(0)
    return roles


_VAGUE = frozenset(
    ["input", "inputs", "inp", "in", "x", "src", "data", "output", "outputs", "out", "y", "dst", "result", "res"]
)
"""Names that any operand may have: another whose name is of the same role has it."""


def telling_first(names: Sequence[str]) -> list[int]:
    """The places of names in their order, but those that any operand may have behind the others."""
    return sorted(range(len(names)), key=lambda index: folded(names[index]) in _VAGUE)


def _means_otherwise(name: str, names: set[str], role: str, operation: str) -> bool:
    """Whether a name means something else beside others: l beside m is the running sum of a softmax, not a result."""
    known = OPERATIONS[operation].roles.get(role)
    own, others = known.unless_with if known is not None else ("", "")
    return folded(name) in own.split() and bool(names & set(others.split()))


def _told_by_type(role: str | None, pointer: DraftParameter, operation: str) -> str | None:
    """The role of a name whose elements' type may tell another: a bias of integers is a mask, where there is one."""
    element, known = element_type(pointer.dtype or ""), OPERATIONS[operation].roles
    if role is None or element is None or role not in known or not known[role].element:
        return role
    if element.is_float == (known[role].element == "float"):
        return role
    return known[role].instead if known[role].instead in known else None


def is_unfit(parameter: DraftParameter, role: Role) -> bool:
    """Whether the elements are no numbers that the operation has to get there: halves for bytes that are multiplied."""
    element = element_type(parameter.dtype or "")
    return element is not None and element.is_float and role.element == "int" and role.required and not role.output


def _written_over(pointers: Sequence[DraftParameter], roles: list[str | None], operation: str) -> list[str | None]:
    """A lone C that the kernel may write is the output; a const one is an addend."""
    outputs = _written_in_place(operation)
    return [
        outputs[role] if role in outputs and outputs[role] not in roles and not pointer.const else role
        for pointer, role in zip(pointers, roles, strict=True)
    ]
