"""A PTX kernel's parameters as drafts need them: names, types and members, from mangled names and from their uses.

PTX keeps neither names nor types. A C++ kernel's mangled name has the types; Numba's has those of its arrays, each of
which is passed as several numbers and a pointer; Triton's kernels stand in the Python file that the line table names,
under their own name. What remains is told by what the code does with a parameter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wmmadiag.compile.names import full_name
from wmmadiag.hostcode.types import split_list
from wmmadiag.launch import field_offsets
from wmmadiag.numerics.element_types import element_type
from wmmadiag.ptx.parameter_uses import MemberUse, ParameterUse
from wmmadiag.ptx.types import WIDTHS
from wmmadiag.subject.drafts.guess import DraftParameter

_DECLARED = {"u8": "u8", "u16": "u16", "u32": "s32", "u64": "u64", "s32": "s32", "s64": "s64", "s8": "s8", "s16": "s16",
             "f16": "f16", "f32": "f32", "f64": "f64", "b32": "s32", "b64": "u64"}  # fmt: skip
"""Declared type → a card's type, where uses do not tell; compilers write u32 for any integer of 32 bits."""
_PADDING = ((8, "u64"), (4, "u32"), (2, "u16"), (1, "u8"))
_MOST_MEMBERS = 200
_MOST_SOURCE = 1 << 20  # bytes of a Python file that is read for a function's parameters
_NUMBA = re.compile(r"Array<([\w ]+), (\d+), (\w), ")


def mangled_types(name: str) -> list[str]:
    """Parameter types in a mangled name: `_Z1kPKfi` → ["float const*", "int"]; empty when it has none."""
    match = re.search(r"\(([^()]*)\)\Z", full_name(name))
    return [] if match is None else [part.strip() for part in _split(match[1])]


def _split(text: str) -> list[str]:
    """Template arguments of one type stay together: "Array<float, 1, C>, float"."""
    parts: list[str] = []
    for part in split_list(text):
        if parts and parts[-1].count("<") > parts[-1].count(">"):
            parts[-1] += f", {part.strip()}"
        else:
            parts.append(part.strip())
    return parts


def parameters_of(
    entry: str, uses: Sequence[ParameterUse], names: Sequence[str]
) -> tuple[list[DraftParameter], list[str]]:
    """The parameters of a kernel, structs taken apart, and remarks on them, each one clause.

    Args:
        entry: the kernel's mangled name.
        uses: of its parameters, in order.
        names: of its parameters in the source that the PTX was made from; empty if not known.
    """
    types = mangled_types(entry)
    arrays = _numba_arrays(types, len(uses), names)
    found: list[DraftParameter] = []
    remarks: list[str] = []
    taken: set[str] = set()
    for index, use in enumerate(uses):
        own = names[index] if len(names) == len(uses) and names[index] else _name(entry, use, index)
        name = own if own not in taken else f"arg{index}"
        if arrays:
            found.append(_numba_parameter(arrays[index], use))
        elif not _is_plain(use):
            members, remark = _members(name, use)
            found += members
            remarks += [remark] if remark else []
        else:
            found.append(_parameter(name, use, types[index] if len(types) == len(uses) else ""))
        taken.add(found[-1].name)
    if arrays:
        remarks.append("Numba passes an array as meminfo, parent, number of elements, item size, data, shape, strides")
    remarks += [_unsure(one, use) for one, use in _pointers(found, uses)]
    return found, [remark for remark in remarks if remark]


def _is_plain(use: ParameterUse) -> bool:
    """Whether a parameter is one number or pointer; structs are arrays of bytes, also those of one member."""
    if use.parameter.size <= WIDTHS.get(use.parameter.type, 64) // 8:
        return True
    return not use.indexed and [(one.offset, one.bytes) for one in use.members] == [(0, use.parameter.size)]


def _name(entry: str, use: ParameterUse, index: int) -> str:
    """The name that the PTX gives a parameter, where it is one: compilers number them."""
    name = use.parameter.name
    numbered = name.startswith(entry) or re.fullmatch(r"[%_$]*(?:param|arg|p)?_?\d+|.*_param_\d+", name)
    return name if not numbered and name.isidentifier() else f"arg{index}"


def _parameter(name: str, use: ParameterUse, c_type: str) -> DraftParameter:
    """A parameter that is one number or pointer."""
    member = use.members[0] if use.members else None
    declared = f".{use.parameter.type}"
    if member is None and not c_type.endswith("*"):
        dtype = _DECLARED.get(use.parameter.type, "u64")
        plain = c_type.replace("const", " ").strip()
        dtype = plain if element_type(plain) is not None else dtype
        return DraftParameter(name, plain or declared, dtype=dtype, value="0", unread=True)
    if c_type:
        pointer = c_type.endswith("*")
        plain = c_type.rstrip("* ").replace("const", " ").strip()
        added = member is not None and member.added
        return DraftParameter(name, plain, pointer, "const" in c_type, plain, added=added)
    assert member is not None
    if member.pointer:
        return DraftParameter(
            name, _shown(member), True, not member.written, member.element or None, added=member.added
        )
    return DraftParameter(name, declared, dtype=member.element or _DECLARED.get(use.parameter.type))


def _shown(member: MemberUse) -> str:
    """What stands for the C type of a pointer's elements."""
    if member.element:
        return member.element
    return f".b{8 * min(member.widths)}" if member.widths else "void"


def _pointers(found: Sequence[DraftParameter], uses: Sequence[ParameterUse]) -> list[tuple[DraftParameter, MemberUse]]:
    """The pointers with their uses; members of structs apart."""
    if len(found) != len(uses):
        return []
    return [(one, use.members[0]) for one, use in zip(found, uses, strict=True) if one.pointer and use.members]


def _unsure(parameter: DraftParameter, member: MemberUse) -> str:
    """What the uses of a pointer tell, where they do not tell its type."""
    if element_type(parameter.dtype or "") is not None:
        return ""
    moved = f" by {' or '.join(map(str, member.widths))} bytes at a time" if member.widths else ""
    does = " and ".join(["read"] * member.read + ["written"] * member.written) or "used"
    perhaps = f"; it may hold {' or '.join(member.perhaps)}" if member.perhaps else ""
    return f"'{parameter.name}' is {does}{moved}, and nothing tells the type of its elements{perhaps}"


# -- structs by value ------------------------------------------------------------------------------------------------


def _members(struct: str, use: ParameterUse) -> tuple[list[DraftParameter], str]:
    """The members of a struct that are read, with padding for what is not, and a remark.

    Where the code reads at computed offsets, or the same bytes in different ways, the struct stays whole and open.
    """
    size = use.parameter.size
    laid = _laid_out(use.members, size, use.parameter.align)
    if use.indexed or laid is None or len(laid) > _MOST_MEMBERS:
        why = "it is read at computed offsets" if use.indexed else "its bytes are read in more ways than one"
        return [DraftParameter(struct, f"{size} bytes", remark=why)], ""
    found = []
    for offset, dtype, member in laid:
        label = f"padding{offset}" if member is None else f"at{offset}"
        one = replace(_number(f"{struct}_{label}", dtype), struct=struct, label=label)
        if member is None:
            one = replace(one, value="0", unread=True)
        elif member.pointer:
            element = member.element or None
            one = replace(
                one, c_type=_shown(member), pointer=True, const=not member.written, dtype=element, added=member.added
            )
        found.append(one)
    return found, f"'{struct}' is a struct of {size} bytes: its members are those that the code reads, by their offsets"


def _laid_out(members: Sequence[MemberUse], size: int, align: int) -> list[tuple[int, str, MemberUse | None]] | None:
    """(offset, type, member or None for padding) of fields that each stand at a multiple of their size."""
    found: list[tuple[int, str, MemberUse | None]] = []
    sizes: list[int] = []

    def fill(target: int) -> None:
        while (end := sum(sizes)) < target:
            width, dtype = next((w, d) for w, d in _PADDING if w <= align and end % w == 0 and end + w <= target)
            found.append((end, dtype, None))
            sizes.append(width)

    for member in members:
        if member.offset < sum(sizes) or member.offset % member.bytes or member.offset + member.bytes > size:
            return None
        fill(member.offset)
        default = {8: "u64", 4: "s32", 2: "u16", 1: "u8"}.get(member.bytes)
        if default is None:
            return None
        element = element_type(member.element)
        fits = element is not None and element.bytes == member.bytes
        found.append((member.offset, member.element if fits and not member.pointer else default, member))
        sizes.append(member.bytes)
    fill(size)
    return found if field_offsets(sizes) == ([offset for offset, _, _ in found], size) else None


# -- Numba -----------------------------------------------------------------------------------------------------------


def _number(name: str, dtype: str, value: str = "") -> DraftParameter:
    return DraftParameter(name, dtype, dtype=dtype, value=value)


def _numba_arrays(types: Sequence[str], count: int, names: Sequence[str]) -> list[DraftParameter]:
    """The parameters that a kernel's arrays and numbers are passed as; empty where it is none of Numba's.

    Source: numba/core/datamodel/models.py, ArrayModel: meminfo, parent, nitems, itemsize, data, shape, strides.
    """
    if not any(_NUMBA.match(one) for one in types):
        return []
    parts: list[DraftParameter] = []
    for index, one in enumerate(types):
        name = names[index] if index < len(names) else f"arg{index}"
        array = _NUMBA.match(one)
        if array is None:
            parts.append(_number(name, one))
            continue
        element = element_type(array[1])
        size = str(element.bytes) if element is not None else ""
        axes = int(array[2])
        parts += [_number(f"{name}_meminfo", "u64", "0"), _number(f"{name}_parent", "u64", "0")]
        parts += [_number(f"{name}_nitems", "s64"), _number(f"{name}_itemsize", "s64", size)]
        parts.append(replace(_number(name, array[1]), pointer=True))
        parts += [_number(f"{name}_shape{axis}", "s64") for axis in range(axes)]
        last = {"C": axes - 1, "F": 0}.get(array[3], -1)  # the axis without gaps
        parts += [_number(f"{name}_stride{axis}", "s64", size if axis == last else "") for axis in range(axes)]
    return parts if len(parts) == count else []


def _numba_parameter(part: DraftParameter, use: ParameterUse) -> DraftParameter:
    """One of them, with what the code does with it."""
    member = use.members[0] if use.members else None
    if member is None:
        return part if part.pointer else replace(part, value=part.value or "0", unread=True)
    return replace(part, const=not member.written, added=member.added) if part.pointer else part


# -- names in Python -------------------------------------------------------------------------------------------------


def python_parameters(file: str, function: str) -> tuple[str, ...]:
    """The parameters of a function in a Python file, constants of its compiler's apart; empty if it cannot be read."""
    path = Path(file)
    try:
        if path.suffix != ".py" or not path.is_file() or path.stat().st_size > _MOST_SOURCE:
            return ()
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == function]
    if len(found) != 1:
        return ()
    arguments = found[0].args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return tuple(one.arg for one in every if one.annotation is None or "constexpr" not in ast.unparse(one.annotation))
