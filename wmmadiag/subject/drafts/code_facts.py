"""What the text of kernels shows: types of operands and accumulators, formulas, what is added to, casts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from wmmadiag.hostcode.terms import Number
from wmmadiag.hostcode.types import plain, scalar
from wmmadiag.ops import OPERATIONS

_TEXTS = 256  # of which what they show is kept: each operation that is tried asks the same of a kernel's code
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TYPE = r"((?:const\s+)?[A-Za-z_][\w:]*(?:\s+const)?)\s*\*(?:\s*(?:const|__restrict__|__restrict))*"
_ELEMENTS = {
    "half": "f16", "__half": "f16", "f16": "f16", "half_t": "f16", "nv_bfloat16": "bf16", "__nv_bfloat16": "bf16",
    "bf16": "bf16", "tf32": "tf32", "signed char": "s8", "unsigned char": "u8", "int8_t": "s8", "uint8_t": "u8",
}  # fmt: skip


def card_type(dtype: str) -> str | None:
    """A card's name for an element type: s32 for i32; None for ""."""
    return re.sub(r"\Ai(\d+)\Z", r"s\1", dtype) or None


@lru_cache(maxsize=16)
def without_comments(text: str) -> str:
    """The text with comments blanked and continued lines joined."""
    return _COMMENT.sub(" ", text.replace("\\\n", " "))


def multiplied_types(text: str) -> set[str]:
    """The element types that a source's tensor-core operations name."""
    code = without_comments(text)
    fragments = re.findall(r"\bmatrix_[ab]\s*,[^<>;]*?,\s*([A-Za-z_][\w:]*)\s*[,>]", code)
    operands = r"\.(f16|bf16|tf32)\.(?:f16|bf16|tf32)\b"
    forms = re.findall(rf"\bmma(?:\.sync|_async)[\w.:]*?\.m\d+n\d+k\d+[\w.]*?{operands}", code)
    found = {_ELEMENTS.get(one) or _ELEMENTS.get(one.split("::")[-1], "") for one in fragments}
    return (found | set(forms)) - {""}


def multiples(text: str) -> list[str]:
    """Numbers that code multiplies something by, as it writes them, the largest first: `in + row * 256`."""
    code = without_comments(text)
    found = re.findall(r"\*\s*(\d{2,4})\b(?![.\w])|(?<![.\w])(\d{2,4})\s*\*", code)
    return sorted({one or other for one, other in found}, key=int, reverse=True)


@lru_cache(maxsize=_TEXTS)
def uses_tf32(text: str) -> bool:
    """Whether the source multiplies in tf32: its f32 pointers then hold tf32 operands."""
    return re.search(r"precision::tf32|\.tf32\b", without_comments(text)) is not None


@lru_cache(maxsize=_TEXTS)
def accumulator_types(text: str) -> frozenset[str]:
    """The types of accumulators that a source names, as it spells them; a template's parameter among them."""
    code = without_comments(text)
    fragments = re.findall(r"\baccumulator\s*,[^<>;]*?,\s*([\w:]+)\s*>", code)
    forms = re.findall(r"\bmma\.sync\.aligned\.m\d+n\d+k\d+\.\w+\.\w+\.(\w+)\.\w+\.\w+\.\w+", code)
    return frozenset((*fragments, *forms))


@lru_cache(maxsize=_TEXTS)
def fragment_extents(text: str) -> frozenset[str]:
    """The names of constants that are a fragment's shape: `fragment<matrix_a, M, N, K, half, row_major>`."""
    code = without_comments(text)
    found = re.findall(r"\b(?:matrix_[ab]|accumulator)\s*,\s*([^,<>;]+),\s*([^,<>;]+),\s*([^,<>;]+),", code)
    return frozenset(one.strip() for three in found for one in three if one.strip().isidentifier())


def tile_shapes(text: str, constants: Mapping[str, Number]) -> list[tuple[int, int, int]]:
    """The shapes (m, n, k) of the tensor-core operations that code names.

    Args:
        constants: numbers that the code knows by name.
    """
    code = without_comments(text)
    found = re.findall(r"\b(?:matrix_[ab]|accumulator)\s*,\s*([^,<>;]+),\s*([^,<>;]+),\s*([^,<>;]+),", code)
    found += re.findall(r"\bmma\.sync\.aligned\.m(\d+)n(\d+)k(\d+)", code)
    shapes = []
    for three in found:
        sizes = [constants.get(one.strip(), int(one) if one.strip().isdecimal() else 0) for one in three]
        if all(sizes) and all(size == int(size) for size in sizes):
            shapes.append((int(sizes[0]), int(sizes[1]), int(sizes[2])))
    return list(dict.fromkeys(shapes))


@lru_cache(maxsize=_TEXTS)
def tile_names(text: str) -> frozenset[str]:
    """The names that shape a shared array, or that the index of a block is multiplied by."""
    code = without_comments(text)
    shapes = re.findall(r"\b__shared__\b[^;=]*?\w((?:\s*\[[^\];]*\])+)", code)
    offsets = re.findall(r"\bblockIdx\s*\.\s*[xyz]\s*\*\s*([A-Za-z_]\w*)", code)
    return frozenset((*offsets, *re.findall(r"[A-Za-z_]\w*", " ".join(shapes))))


@lru_cache(maxsize=_TEXTS)
def told_by_formulas(operation: str, text: str) -> Mapping[str, str]:
    """Parameters of an operation of which a source has the formula, with their words; not where it has several.

    A formula that is a part of another one is none of its own: min(max(x, 0), 6) has max(x, 0).
    """
    code = without_comments(text)
    told = {}
    for name, parameter in OPERATIONS[operation].parameters.items():
        places = {
            word: [match.span() for match in re.finditer(one, code, re.IGNORECASE)]
            for word, one in parameter.formulas.items()
        }
        whole = [word for word in places if any(_is_whole(span, word, places) for span in places[word])]
        if len(whole) == 1:
            told[name] = whole[0]
    return MappingProxyType(told)


def _is_whole(span: tuple[int, int], word: str, places: Mapping[str, Sequence[tuple[int, int]]]) -> bool:
    """Whether no other formula's place has this one as a part."""
    others = [one for other, found in places.items() if other != word for one in found]
    return not any(first <= span[0] and span[1] <= last and (first, last) != span for first, last in others)


def cast_types(code: str, what: str) -> set[tuple[str, str | None]]:
    """The types that code casts a pointer to: (C type, card's element type); of vectors none.

    Args:
        code: without comments.
        what: the pointer, as a pattern.
    """
    casts = rf"(?:(?:reinterpret|static)_cast\s*<\s*{_TYPE}\s*>\s*\(\s*|\(\s*{_TYPE}\s*\)\s*\(?\s*)&?\s*{what}"
    found = (_element(match[1] or match[2]) for match in re.finditer(casts, code))
    return {one for one in found if one is not None}


def _element(type_: str) -> tuple[str, str | None] | None:
    kind = plain(type_)
    dtype, lanes = scalar(kind)
    if kind in ("void", "char", "unsigned char") or (lanes > 1 and dtype not in ("f16", "bf16")):
        return None
    return kind, card_type(dtype)


_CAST = (
    r"(?:\b\w+_cast\s*<[^;=]*?\*\s*>\s*\(|\(\s*(?:const\s+)?[A-Za-z_][\w:]*(?:\s*<[^<>;()]*>)?(?:\s+const)?\s*\*\s*\))"
)
"""The head of a cast to a pointer."""


@lru_cache(_TEXTS)
def _pointers_into(code: str, name: str) -> str:
    """The names of an array and of pointers into it, as alternatives of a pattern."""
    names = {name}
    for _ in range(2):
        known = "|".join(map(re.escape, sorted(names)))
        declared = r"(?P<star>\*\s*(?:const\s+)?(?:__restrict__\s*)?|\bauto\s+(?:const\s+)?)(?P<name>[A-Za-z_]\w*)"
        into = rf"{declared}\s*=\s*(?P<taken>[&(]*(?:{_CAST}[&(\s]*)*)(?:\w+(?:\.|->))?(?:{known})\b(?P<rest>[^;]*)"
        for found in re.finditer(into, code):
            copied = found["star"][0] != "*" and "&" not in found["taken"] and found["rest"].rstrip().endswith("]")
            names |= set() if copied else {found["name"]}
    return "|".join(map(re.escape, sorted(names)))


@lru_cache(_TEXTS)
def writes_to(code: str, name: str) -> bool:
    """Whether a kernel assigns to elements of the array of that name, or calls what stores there."""
    known = _pointers_into(code, name)
    assigned = rf"(?<![\w])(?:{known})\s*\[[^\]]*\]\s*(?:[-+*/]?=)(?!=)"
    cast = rf"{_CAST}[&(\s]*(?:{known})\b[^;=]*[)\]]\s*=(?!=)"  # by vectors: `*(float4*)(y + i) = v`
    macro = rf"\b[A-Za-z_]\w*\s*\(\s*[&(]*(?:{known})\s*\[[^;=]*\)\s*=(?!=)"  # `FLOAT4(y[i]) = v`
    stored = rf"\b\w*[sS]tore\w*\s*(?:<[^<>;]*>\s*)?\(\s*&?\s*(?:{known})\b"
    return re.search(f"{assigned}|{cast}|{macro}|{stored}", code) is not None


def reads_one(code: str, name: str) -> bool:
    """Whether code has a pointer for nothing but the number that it points to: `*alpha`, `beta[0]`.

    Args:
        code: without comments, the kernel's head included.
    """
    member = r"(?:\w+(?:\.|->))?"
    left = re.sub(rf"(?:\*|\b__restrict__|\b__restrict)\s*{member}\b{re.escape(name)}\b(?!\s*\[)", "", code)
    left, count = re.subn(rf"\b{re.escape(name)}\s*\[\s*0\s*\]", "", left)
    return (count > 0 or left != code) and re.search(rf"\b{re.escape(name)}\b", left) is None


_NO_CALLS = "if while for switch return sizeof reinterpret_cast static_cast"


def passed_on(code: str, name: str) -> bool:
    """Whether code gives the array of that name, or a place in it, to a function, which may store there."""
    known = _pointers_into(code, name)
    calls = re.finditer(rf"\b([A-Za-z_]\w*)\s*(?:<[^<>;()]*>\s*)?\(\s*&?\s*(?:{known})\b\s*[,+)\[]", code)
    return any(call[1] not in _NO_CALLS.split() for call in calls)


def adds_to(code: str, name: str) -> bool:
    """Whether a kernel adds to the array of that name: `C[i] += x`, `atomicAdd(&C[i], x)`, sums that begin with C.

    Pointers into the array count as the array. A kernel that sets elements, too, begins by itself.
    """
    known = _pointers_into(code, name)
    element = _place_in(known)
    patterns = (
        rf"{element}\s*\+=",
        rf"\batomicAdd\s*\(\s*&?\s*(?:\w+(?:\.|->))?(?:{known})\b",
        rf"\bload_matrix_sync\s*\([^,;]*,\s*&?\s*(?:\w+(?:\.|->))?(?:{known})\b[^;]*\bmem_(?:row|col)_major",
    )
    written = re.findall(rf"({element})\s*=(?!=)([^;]*)", code)
    if any(left.strip() not in right for left, right in written):
        return False
    return bool(written) or any(re.search(pattern, code) for pattern in patterns)


def may_add_to(code: str, name: str) -> bool:
    """Whether a kernel reads the array of that name that it writes: it adds to it, in some branch or by steps."""
    return re.search(rf"(?<![-+*/%&|^=!<>])=(?!=)[^;=]*{_place_in(_pointers_into(code, name))}", code) is not None


def _place_in(known: str) -> str:
    """The pattern of an element of one of these arrays: `C[i]`, `*out`."""
    return rf"(?:(?<![\w])(?:{known})\s*\[[^\]]*\]|(?:(?<=[;{{}}()=,])|(?<=\belse))\s*\*\s*(?:{known})\b(?!\s*[\[(]))"
