"""The code that a kernel runs: its own body with the device functions and macros that it reaches, as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from wmmadiag.compile.declarations import DEVICE_KEYWORDS, KNOWN_DEVICE_MACROS, Declaration, declarations
from wmmadiag.compile.directives import macro_words, reaching
from wmmadiag.compile.lexer import Token, directive, tokenize

# nvcuda::wmma, PTX ISA "Warp Level Matrix Instructions" and "wgmma", and CUTLASS's and CuTe's names for them.
_MULTIPLY = re.compile(
    r"\bmma_sync\b|\b(?:wmma\.|tcgen05\.|wgmma\.)?mma(?:_async|\.sync|\.sp)\b|\btcgen05\.mma\b|\bgemm::warp::|\bcute::gemm\b"
    r"|\bMMA_Atom\b|\bGemmUniversal\b"
)


def kernel_code(text: str, kernel: str) -> str:
    """The text of a kernel's body and of all that it calls, comments left out; "" if it has no body here.

    Functions are told apart by name alone: of overloads, all count.
    """
    bodies = _bodies(text)
    waiting = [kernel.split("<")[0].split("::")[-1].strip()]
    seen: set[str] = set()
    found: list[str] = []
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for body in bodies.get(name, ()):
            found.append(body)
            waiting += [word for word in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", body)) if word in bodies]
    return "\n".join(found)


@lru_cache(maxsize=2)
def _bodies(text: str) -> dict[str, list[str]]:
    """The bodies of device functions and macros, by name."""
    tokens = tokenize(text)
    words = reaching(macro_words(tokens), DEVICE_KEYWORDS | KNOWN_DEVICE_MACROS)
    bodies: dict[str, list[str]] = {}
    try:
        for function, in_class in _functions(declarations(tokens), False):
            if in_class or function.words() & words:
                bodies.setdefault(function.name, []).append(_joined(function.body))
    except RecursionError:
        return {}
    for token in tokens:
        if token.kind == "directive" and directive(token)[0] == "define":
            macro = re.match(r"[A-Za-z_]\w*", directive(token)[1])
            if macro is not None:
                bodies.setdefault(macro[0], []).append(directive(token)[1][macro.end() :])
    return bodies


def multiplies(code: str) -> int:
    """How many tensor-core multiplications a text has."""
    return len(_MULTIPLY.findall(code))


def _functions(scope: Sequence[Declaration], in_class: bool) -> Iterator[tuple[Declaration, bool]]:
    for one in scope:
        if one.kind == "class":
            yield from _functions(one.members, True)
        elif one.body and one.kind == "function":
            yield one, in_class


def _joined(tokens: Sequence[Token]) -> str:
    """Tokens with one blank where the source has blanks or a comment; strings of inline assembly as they are."""
    gaps = [" " * (one.end < other.start) for one, other in pairwise(tokens)]
    return "".join(token.text + gap for token, gap in zip(tokens, [*gaps, ""], strict=False))
