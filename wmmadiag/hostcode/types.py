"""Types of host code as text: what stands between `<` and `>`, what a pointer points to, which are numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from wmmadiag.csource.scalars import scalar_named

_QUALIFIERS = re.compile(
    r"\b(?:const|volatile|__restrict__|__restrict|restrict|typename|struct|class|enum|static|constexpr|inline|extern"
    r"|register|mutable|thread_local|template)\b|&"
)
_REAL = frozenset({"float", "double", "half", "__half", "nv_bfloat16", "__nv_bfloat16", "bfloat16", "long double"})


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """A type without qualifiers and references: "const T *__restrict__" → "T*"."""
    words = " ".join(_QUALIFIERS.sub(" ", text).split())
    words = re.sub(r"\s*([*<>,:])\s*", r"\1", words)
    return re.sub(r"^std::(?=u?int\d+_t$|size_t$|ptrdiff_t$)|^::", "", words)


def pointee(text: str) -> str:
    """What a pointer type points to, qualifiers aside; "" for no pointer."""
    found = plain(text)
    return found[:-1].strip() if found.endswith("*") else ""


@lru_cache(maxsize=4096)
def split_template(text: str) -> tuple[str, tuple[str, ...]]:
    """The name and the arguments of `Traits<64, half>`; no arguments for a plain name."""
    head, opened, inner = text.partition("<")
    if not opened or not text.rstrip().endswith(">"):
        return text.strip(), ()
    return head.strip(), split_list(inner.rstrip()[:-1])


def split_list(text: str) -> tuple[str, ...]:
    """The parts of a list between commas outside brackets; `<` opens one after a name."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        if letter in "([{" or (letter == "<" and re.search(r"[A-Za-z_]\w*\s*$", text[:index])):
            depth += 1
        elif letter in ")]}" or (letter == ">" and depth and text[index - 1 : index] != "-"):
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    parts.append(text[start:].strip())
    return tuple(part for part in parts if part)


def is_open(arguments: Iterable[str]) -> bool:
    """Whether template arguments have one that nobody knows, "?"; the sign of a condition stands between others."""
    return any(re.search(r"(?:^|[<,])\s*\?\s*(?:$|[>,])", one) for one in arguments)


@lru_cache(maxsize=1024)
def scalar(text: str) -> tuple[str, int]:
    """(element type, lanes) of a scalar or vector type: "half2" → ("f16", 2); ("", 0) for any other."""
    found = scalar_named(plain(text))
    return ("", 0) if found is None else (found.dtype, found.lanes)


def is_integer(text: str) -> bool:
    """Whether a type is that of whole numbers, bool aside."""
    dtype, lanes = scalar(text)
    return lanes == 1 and dtype[:1] in ("i", "u") and plain(text) != "bool"


def is_real(text: str) -> bool:
    """Whether a type is that of floating-point numbers."""
    return plain(text) in _REAL or scalar(text) in (("f32", 1), ("f64", 1), ("f16", 1), ("bf16", 1))


def bytes_of(text: str) -> int | None:
    """Bytes of a scalar or vector type or of a pointer; None for what only the compiler knows."""
    found = plain(text)
    known = scalar_named(found)
    return 8 if found.endswith("*") else known.bytes if known is not None else None
