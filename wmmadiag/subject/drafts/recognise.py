"""What a kernel seems to compute: from its arrays' names, its own name and what its code calls.

Taken only where everything agrees: a kernel that is judged by another operation than its own is wrong by definition.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, repeat

from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.model import Trait
from wmmadiag.ops.parts.traits import TENSOR_CORES
from wmmadiag.subject.drafts.code_facts import told_by_formulas
from wmmadiag.subject.drafts.guess import (
    DraftParameter,
    covered_roles,
    is_unfit,
    number_behind,
    operation_named,
    role_named,
    role_remark,
    roles_for,
)
from wmmadiag.subject.drafts.in_place import replaced_roles

_SIGNS = {name: operation.signs for name, operation in OPERATIONS.items() if operation.signs is not None}
WITHIN_ANY = frozenset(name for name, told in _SIGNS.items() if told.within_any)
"""Operations that every other one may have as a part."""
# Words of names of kernels that compute more, or something else, than an operation of the list.
_ELSE = (
    "conv conv2d conv3d implicit im2col winograd fft fir stencil scan reduce norm layernorm rmsnorm rope bwd backward "
    "grad dgrad wgrad dq dk dv dkv dequant quant w4a16 w8a8 int4 moe grouped expert sparse spmm sddmm splitk splitkv "
    "combine merge paged decode varlen sliding window alibi swiglu geglu residual dropout lora syrk trsm cholesky lu "
    "qr complex cgemm linearattn mamba ssm"
)
_SHORT = 3  # letters: f16 is a type


@dataclass(frozen=True, slots=True)
class Recognised:
    """An operation that a kernel seems to compute."""

    operation: str  # the likeliest; where nothing speaks for any, the one that a draft begins with
    sure: bool  # whether everything agrees; if not, `because` says what is amiss
    because: str  # a clause for a message
    likely: bool = True  # whether its name or its arrays speak for the operation at all
    # words of its name that promise a part of the operation which nothing else shows: one who forgot it would be right
    # by the operation without that part
    promised: frozenset[str] = frozenset()
    spoken: tuple[str, ...] = ()  # the operations that its name has a word of


def recognised(entry: str, parameters: Sequence[DraftParameter], code: str, multiplications: int) -> Recognised:
    """The operation that a kernel seems to compute.

    Args:
        entry: its name, template arguments aside.
        parameters: with structs taken apart.
        code: what it runs, as `wmmadiag.compile.kernel_code` gives it; "" if that is not known.
        multiplications: how many places of that multiply on tensor cores.
    """
    pointers = [one for one in parameters if one.pointer and not _is_number(one)]
    names = [one.name for one in pointers]
    words = _words(entry)
    speaks_of = [one for one, told in _SIGNS.items() if words & set(told.names.split())]
    by_arrays = operation_named(names)
    by_arrays = by_arrays if _named(names, by_arrays) else ""
    # All arrays of one operation say more than a name that also speaks of what it is a part of: `attn_scores(q, k, s)`.
    part = bool(speaks_of) and {*speaks_of} <= {*_parts(by_arrays)} - {by_arrays}
    # What any operation may have as a part is the whole where its own arrays are there, and its code does no more.
    part = part and not any(_is_whole(one, names, code, multiplications) for one in speaks_of)
    whole = next((one for one in speaks_of if {*speaks_of} - {one} <= {*_parts(one)}), "")  # gptq_linear: a linear, too
    likely = by_arrays if not whole or part else whole
    if not likely and not speaks_of:
        first = next(iter(OPERATIONS))
        return Recognised(first, False, "neither its name nor those of its arrays tell", likely=False)
    likely = likely or speaks_of[0]
    pointers = [one for one in pointers if number_behind(one, likely) is None]
    names = [one.name for one in pointers]
    by_name = likely if likely in speaks_of else ""
    told = set(_SIGNS[likely].names.split())
    if others := [one for one in speaks_of if one not in (likely, *_parts(likely))]:
        return Recognised(likely, False, f"its name speaks of {others[0]}", spoken=tuple(others))
    roles = {role_named(name, likely) for name in names}
    if promise := unkept(likely, words - told, roles, told_by_formulas(likely, code).values()):
        why = f"its name has '{min(promise)}', and nothing else shows it"
        return Recognised(likely, False, why, promised=promise)
    amiss = _amiss(likely, pointers, words, by_name, code, multiplications)
    amiss = amiss or _SIGNS[likely].open
    if amiss:
        return Recognised(likely, False, amiss)
    return Recognised(likely, True, _because(likely, names, by_name, code, multiplications))


def _is_number(pointer: DraftParameter) -> bool:
    """Whether a pointer leads to one number, and is an array to no operation."""
    return any(number_behind(pointer, one) for one in _SIGNS) and not any(
        role_named(pointer.name, one) for one in _SIGNS
    )


def by_code(kernel_code: str, multiplications: int) -> list[str]:
    """The operations that have an oracle, those first whose traits the code has, and none that they exclude."""
    known = [name for name, one in OPERATIONS.items() if one.oracle is not None]
    return sorted(known, key=lambda operation: against(operation, kernel_code, multiplications))


def against(operation: str, kernel_code: str, multiplications: int) -> int:
    """How many traits of code speak against an operation: those that it lacks, and those that it excludes."""
    told = _SIGNS.get(operation)
    if told is None:
        return 1
    lacking = sum(not _shown(one, kernel_code, multiplications) for one in told.needs)
    excluded = () if told_by_formulas(operation, kernel_code) else told.excludes
    return lacking + sum(bool(_shown(one, kernel_code, multiplications)) for one in excluded)


def _parts(operation: str) -> tuple[str, ...]:
    if operation not in _SIGNS:
        return ()
    return (*_SIGNS[operation].parts, *(one for one in _SIGNS if one in WITHIN_ANY and one != operation))


def _is_whole(operation: str, names: Sequence[str], code: str, multiplications: int) -> bool:
    """Whether an operation that others may have as a part is all that a kernel with these arrays computes."""
    told = _SIGNS[operation]
    more = any(_shown(one, code, multiplications) for one in told.excludes)
    return told.within_any and not more and _named(names, operation)


def _words(entry: str) -> set[str]:
    """The words of a kernel's name, and pairs that are written as one: `RotaryEmbedding` speaks of no embedding."""
    plain = entry.split("<")[0].split("::")[-1]
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain).lower()
    words = plain.split("_")
    told = {name for one in _SIGNS.values() for name in one.names.split()}
    joined = [(one, other) for one, other in pairwise(words) if one + other in told]
    parts = {one for pair in joined for one in pair}
    pairs = {one + other for one, other in pairwise(words)}  # split_k
    # conv3x3 is a conv; conv1x1 is a product.
    stems = {re.sub(r"(?<![\dx])(?!1x1$)\d+(x\d+)*$", "", one) for one in words if len(one) > _SHORT}
    return (({*words} | stems) - parts) | {*pairs, plain.replace("_", "")}


def _named(names: Sequence[str], operation: str) -> bool:
    """Whether the inputs of an operation are all among the names."""
    covered = covered_roles(operation, (role_named(name, operation) for name in names))
    known = OPERATIONS[operation].roles
    return {name for name, role in known.items() if role.required and not role.output} <= covered


def _amiss(
    operation: str, pointers: Sequence[DraftParameter], words: set[str], by_name: str, code: str, multiplications: int
) -> str:
    """What does not agree with an operation, as a clause; "" if everything does."""
    names = [one.name for one in pointers]
    if not code:
        return "its code is not in the source"
    told = _SIGNS[operation]
    formulas = told_by_formulas(operation, code)
    own = {word for one in (operation, *told.parts) if one in _SIGNS for word in _SIGNS[one].names.split()}
    own |= set(told.agreeing.split())
    if other := sorted(words & set(_ELSE.split()) - own):
        return f"its name has '{other[0]}', which no built-in operation is about"
    if strange := [name for name in names if role_remark(name) and role_named(name, operation) is None]:
        return f"its array '{strange[0]}' is no operand of any built-in operation"
    roles = roles_for(pointers, operation)
    unknown = [name for name, role in zip(names, roles, strict=True) if role is None]
    if unknown and sorted(unknown) != sorted(told.scratch.split()):
        return f"nothing says what its array '{unknown[0]}' is"
    known = OPERATIONS[operation].roles
    for one, role in zip(pointers, map(role_named, names, repeat(operation)), strict=True):
        if role is not None and role in known and is_unfit(one, known[role]):
            return f"its array '{one.name}' has real numbers"
    covered = covered_roles(operation, roles) | replaced_roles(operation, pointers, roles, code)
    missing = [name for name, role in OPERATIONS[operation].roles.items() if role.required and name not in covered]
    if missing:
        return f"it has no array for '{missing[0]}'"
    if not _named(names, operation) and by_name != operation:
        return "neither its name nor those of its arrays say so"
    for trait in () if formulas else told.excludes:
        if found := _shown(trait, code, multiplications):
            return f"{trait.has.format(found=found)}, which such an operation does not need"
    return next((trait.lacks for trait in told.needs if not _shown(trait, code, multiplications)), "")


def unkept(
    operation: str, words: Set[str], roles: Collection[str | None], settings: Collection[object]
) -> frozenset[str]:
    """Which words of a name promise a part of the operation that is not there.

    Args:
        roles: of the kernel's arrays. settings: what parameters of the operation are known to be, "gelu_tanh".
    """
    told, parameters = _SIGNS[operation], OPERATIONS[operation].parameters.values()
    values = {word for one in parameters for word in one.words}
    stated = [str(one) for one in settings if one in values and one != "none"]

    def kept(word: str) -> bool:
        if word in values:
            of = {one.of for one in parameters if word in one.words}
            return any(one.startswith(word) for one in stated) or bool(of & set(roles))
        if role_named(word, operation) is not None:
            return role_named(word, operation) in roles
        return bool(stated or set(told.explains) & set(roles))  # "fused" names no part of its own

    return frozenset(one for one in words & set(told.extras.split()) if not kept(one))


def named_words(entry: str, operation: str) -> dict[str, str]:
    """Parameters of an operation of which a kernel's name has a word, with how their words then begin."""
    words = _words(entry)
    told: dict[str, str] = {}
    for name, parameter in OPERATIONS[operation].parameters.items():
        found = {parameter.named[word] for word in words if word in parameter.named}
        if len(found) == 1:
            told[name] = found.pop()
    return told


def contradicts(entry: str, operation: str, settings: Mapping[str, object]) -> bool:
    """Whether a kernel's name has a word of a parameter that is another by these settings."""
    known = OPERATIONS[operation].parameters
    return any(
        not str(settings.get(name, known[name].default)).startswith(word)
        for name, word in named_words(entry, operation).items()
    )


@lru_cache(maxsize=1 << 12)
def _shown(trait: Trait, code: str, multiplications: int) -> str:
    """What shows that code does something; "" if nothing does."""
    if not trait.pattern:
        return str(multiplications or "")
    found = re.search(trait.pattern, code, re.IGNORECASE)
    return "" if found is None else found[0].split("(")[0].strip() or "something"


def _because(operation: str, names: Sequence[str], by_name: str, code: str, multiplications: int) -> str:
    parts = []
    if _named(names, operation):
        parts.append(f"its arrays are named {', '.join(names)}")
    if by_name == operation:
        parts.append(f"its own name says {operation}")
    told = _SIGNS[operation]
    if multiplications:
        parts.append(TENSOR_CORES.has)
    for trait in (*told.needs, *told.excludes):
        if trait in told.needs and trait is not TENSOR_CORES:
            parts.append(trait.has)
        elif "{" not in trait.lacks and trait in told.excludes and not _shown(trait, code, multiplications):
            parts.append(trait.lacks)
    return ", ".join(parts[:-1]) + f" and {parts[-1]}" if len(parts) > 1 else parts[0]
