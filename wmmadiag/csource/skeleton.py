"""A source without the bodies of its functions: what is declared stays, and nothing in a body can spoil its parsing."""

from __future__ import annotations

import re

from wmmadiag.csource.conditionals import cutting, groups, resolved
from wmmadiag.csource.lexical import blank, code_of

_BRACES = re.compile(rb"[{}]")
# What may stand between a parameter list and a body.
_AFTER_PARAMETERS = re.compile(rb"(?:\b(?:const|volatile|noexcept|override|final|mutable|try)\b|&)\s*\Z")
# Words whose brackets are no parameter list.
_ATTRIBUTES = frozenset(
    {b"alignas", b"__attribute__", b"__align__", b"__builtin_align__", b"decltype", b"__declspec", b"noexcept"}
)
_LAST_WORD = re.compile(rb"([A-Za-z_]\w*)\s*\Z")
_LONGEST_HEAD = 4000


def without_bodies(data: bytes) -> bytes:
    """The text with the inside of function bodies blanked, byte for byte; directives outside of them stay."""
    code = code_of(data)
    chosen = cutting(code.code, groups(data, code.spans))
    if chosen:
        data = resolved(data, chosen, code.macros)
        code = code_of(data)
    text, plain = bytearray(data), code.code
    depth, opened = 0, -1
    for match in _BRACES.finditer(plain):
        at = match.start()
        if opened < 0:
            if match[0] == b"{" and _is_body(plain, at):
                depth, opened = 1, at
            continue
        depth += 1 if match[0] == b"{" else -1
        if depth == 0:
            text[opened + 1 : at] = blank(data[opened + 1 : at])
            opened = -1
    return bytes(text)


def _is_body(plain: bytes, brace: int) -> bool:
    """Whether a brace begins the body of a function: it follows a parameter list, and what may stand after one."""
    start = max(0, brace - _LONGEST_HEAD)
    head = plain[start:brace].rstrip()
    while (match := _AFTER_PARAMETERS.search(head)) is not None:
        head = head[: match.start()].rstrip()
    if not head.endswith(b")"):
        arrow = head.rfind(b"->")
        boundary = max(head.rfind(one) for one in (b";", b"{", b"}"))
        return arrow > boundary
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += (head[at] == ord(")")) - (head[at] == ord("("))
        if depth == 0:
            word = _LAST_WORD.search(head[:at])
            return word is None or word[1] not in _ATTRIBUTES
    return False
