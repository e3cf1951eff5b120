"""Pointers to vectors and integers that only carry narrower elements: `const uint4 *A` for an array of half."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from wmmadiag.subject.drafts.guess import Parameter
from wmmadiag.subject.drafts.source_facts import without_comments

_TYPE = r"((?:const\s+)?[A-Za-z_][\w:]*(?:\s+const)?)\s*\*(?:\s*(?:const|__restrict__|__restrict))*"


def cast_types(plain: str, what: str, aliases: Mapping[str, str]) -> set[tuple[str, str | None]]:
    """The types that code casts a pointer to: (C type, card's element type); of vectors none.

    Args:
        plain: code without comments.
        what: the pointer, as a pattern.
        aliases: type names → what they stand for.
    """
    casts = rf"(?:(?:reinterpret|static)_cast\s*<\s*{_TYPE}\s*>\s*\(\s*|\(\s*{_TYPE}\s*\)\s*\(?\s*)&?\s*{what}"
    found = (_element(match[1] or match[2], aliases) for match in re.finditer(casts, plain))
    return {one for one in found if one is not None}


def carried(parameter: Parameter, code: str, passed: str, text: str, aliases: Mapping[str, str]) -> Parameter:
    """A pointer to vectors with the type of their elements, where the code that casts it or the host says that.

    Args:
        parameter: a pointer to float4, uint4 or the like.
        code: of the kernel.
        passed: what the launch passes for it.
        text: of the source.
        aliases: type names → what they stand for.
    """
    found = cast_types(code, rf"{re.escape(parameter.name)}\b", aliases)
    variable = re.findall(r"[A-Za-z_]\w*(?=\W*\Z)", passed)
    if len(found) != 1 and variable:
        declared = re.findall(rf"{_TYPE}\s*(?<!\w){re.escape(variable[-1])}\b", without_comments(text))
        found = {one for type_ in declared if (one := _element(type_, aliases)) is not None}
    if len(found) != 1:
        return replace(parameter, dtype=None)
    c_type, dtype = next(iter(found))
    return replace(parameter, c_type=c_type, dtype=dtype)


def adds_to(code: str, name: str) -> bool:
    """Whether a kernel adds to the array of that name: `C[i] += x`, `atomicAdd(&C[i], x)`, sums that begin with C.

    Pointers into the array count as the array. A kernel that sets elements, too, begins by itself.
    """
    names = {name}
    for _ in range(2):
        known = "|".join(map(re.escape, sorted(names)))
        into = rf"\*\s*(?:__restrict__\s*)?([A-Za-z_]\w*)\s*=\s*[&(]*(?:\w+(?:\.|->))?(?:{known})\b"
        names |= set(re.findall(into, code))
    known = "|".join(map(re.escape, sorted(names)))
    element = rf"(?<![\w])(?:{known})\s*\[[^\]]*\]"
    patterns = (
        rf"{element}\s*\+=",
        rf"\batomicAdd\s*\(\s*&?\s*(?:\w+(?:\.|->))?(?:{known})\b",
        rf"\bload_matrix_sync\s*\([^,;]*,\s*&?\s*(?:\w+(?:\.|->))?(?:{known})\b[^;]*\bmem_(?:row|col)_major",
    )
    written = re.findall(rf"({element})\s*=(?!=)([^;]*)", code)
    if any(left not in right for left, right in written):
        return False
    return bool(written) or any(re.search(pattern, code) for pattern in patterns)


def _element(type_: str, aliases: Mapping[str, str]) -> tuple[str, str | None] | None:
    from wmmadiag.compile.lexer import tokenize
    from wmmadiag.compile.signatures import parameter_of

    declared = parameter_of(tokenize(f"{type_} * x"), aliases)
    plain = " ".join(word for word in declared.type.replace("*", " ").split() if word != "const")
    if declared.lanes > 1 and declared.dtype not in ("f16", "bf16"):
        return None
    if plain in ("void", "char", "unsigned char"):
        return None
    return plain, None if declared.dtype is None else re.sub(r"\Ai(\d+)\Z", r"s\1", declared.dtype)
