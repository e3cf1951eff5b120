"""A source made readable for the grammar, in place: the same bytes at the same offsets, less what it does not know.

The grammar is C++ with CUDA's launches and memory spaces. It stumbles over attributes, macros that stand where no
expression may, and a few constructs. Each is replaced by blanks, or by as many bytes that parse, so that every node
has the offsets of the user's own text; the tree's users read that text, never this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from wmmadiag.csource.lexical import Code, Macro, Span, blank, closing

_NESTED = rb"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"
# CUDA C++ Programming Guide, function and variable attributes; GNU's and MSVC's attributes.
_ATTRIBUTES = re.compile(
    rb"\b(?:__align__|__launch_bounds__|__cluster_dims__|__maxnreg__|__block_size__|__attribute__|__declspec)\s*"
    + _NESTED
    + rb"|\b(?:__forceinline__|__noinline__|__inline_hint__|__restrict__|__restrict|__grid_constant__|__volatile__"
    rb"|__volatile|__const__|__const|__signed__|__signed|__extension__|__inline__|__inline"
    rb"|__tile_builtin__|__nv_pure__)\b|\[\[[^\[\]]*\]\]|\b_Pragma\s*" + _NESTED
)
_TYPENAME = re.compile(rb"\btypename\b(?=\s+(?:::\s*)?[A-Za-z_]\w*\s*(?:<[^;{}]*?>\s*)?::)")
_MEMBER_TEMPLATE = re.compile(rb"(?<=\.|>|:)\s*\btemplate\b(?!\s*<)")
_KEYWORDS = (
    rb"(?:static|constexpr|inline|extern|explicit|virtual|void|bool|char|short|int|long|float|double|unsigned|signed|auto"
    rb"|struct|class|union|enum|template|typename|using|typedef|namespace|for|while|do|if|switch|return|operator|friend"
    rb"|__global__|__device__|__host__|__shared__|__constant__|const|volatile|public|private|protected|break|continue)\b"
)
# An identifier in capitals directly before a keyword is no type there: a macro of some header (CUTE_UNROLL for …).
# But a type that `const` follows (TYPE const *) is one.
_UNKNOWN_MACRO = re.compile(
    rb"\b[A-Z_][A-Z0-9_]{2,}(?=\s+" + _KEYWORDS + rb")(?!\s+(?:const|volatile)\s*(?:[*&>,)]|\w+\s*[=;\[]))"
)
# A calling convention, between a function's type and its name or before the star of a pointer to one (CUDART_CB).
_CONVENTION = re.compile(
    rb"(?P<before>(?:\b(?:void|bool|char|short|int|long|float|double|unsigned|[A-Za-z]\w*_t)\b|[*&])\s*(?P<open>\(\s*)?)"
    rb"\b[A-Z_][A-Z0-9_]{2,}(?(open)(?=\s*\*\s*\w*\s*\)\s*\()|(?=\s+(?!(?:and|or|xor|bitand|bitor|not_eq)\b)[A-Za-z_][\w:]*\s*\())"
)
# `operator new(n)` called by its name: no type stands before it.
_ALLOCATION = re.compile(
    rb"(?P<before>(?:(?<!:):|[;{}=(),?!]|\b(?:return|else|do)\b)\s*)"
    rb"\boperator\s+(?:new|delete)\b(?:\s*\[\s*\])?(?=\s*\()"
)
# `template class C<half>;`: the grammar wants a name behind it.
_CLASS_INSTANTIATION = re.compile(rb"\btemplate(?=\s+(?:class|struct|union)\s+[\w:]+\s*<[^;{}()]*>\s*;)")
_ENUM_BASE = re.compile(rb"(?<=\benum)\s*:\s*[\w:\s]+?(?=\s*\{)")
_UNKNOWN_CALL = re.compile(rb"\b[A-Z][A-Z0-9_]{2,}(?=\s*\()")
# Literals are concatenated with macros that stand for literals: "ldmatrix" SHAPE ".b16".
_NEXT_TO_LITERAL = re.compile(rb'(?<=")\s*\b[A-Za-z_]\w*\b(?=\s*")')
# CUDA C++ Programming Guide, "Extended Lambdas": the execution space stands after the capture.
LAMBDA_SPACE = re.compile(rb"(?<=[^\]]\])\s*(?:\b__(?:device|host|forceinline|noinline)__\b\s*)+(?=\(|\{|mutable\b)")
_TEMPLATE_HEAD = re.compile(rb"\btemplate\s*<")
_BRACED_DECLTYPE = re.compile(rb"\bdecltype\s*(" + _NESTED + rb")(?=\s*[{:])")
# GCC manual, "Referring to a Type with typeof": to a reader `decltype`, which the grammar knows.
_TYPEOF = re.compile(rb"\b__typeof(?:__)?\b(?=\s*\()")
_NO_MACRO = frozenset({b"__global__", b"__device__", b"__host__", b"__shared__", b"__constant__", b"__managed__"})
_GOES_ON = frozenset(bytes([one]) for one in b";,).-+*/=?:<>[({|&^%!")
_BEGINS_DECLARATION = re.compile(
    r"(?:template\b|static\b|inline\b|extern\b|constexpr\b|void\b|__global__|__device__|__host__|__forceinline__)"
)
_LOOP_HEAD = re.compile(r"(?:for|while)\s*\(.*\)\s*$", re.DOTALL)
_KEYWORD = re.compile(rb"\b" + _KEYWORDS)
_WORD = re.compile(rb"[A-Za-z_]\w*")
_SPECIFIER = re.compile(
    r"(?:(?:__host__|__device__|__global__|__shared__|__constant__|__managed__|__forceinline__|__noinline__|__inline__"
    r"|__restrict__|__restrict|inline|static|extern|constexpr|consteval|const|volatile|__grid_constant__"
    r"|\[\[.*?\]\]|__attribute__\s*\(\(.*?\)\)|__launch_bounds__\s*\(.*?\)|__align__\s*\(.*?\)|_Pragma\s*\(.*?\)"
    r"|extern\s*\"C\")\s*)*"
)


def prepared(data: bytes, code: Code) -> bytes:
    """The text for the parser: as long as `data`, line ends where they were."""
    text = bytearray(data)
    for span in code.spans:
        if span.kind == "directive" and _is_noise(data, span):
            text[span.start : span.end] = blank(data[span.start : span.end])
    _each(text, code.code, _ATTRIBUTES, blank)
    _each(text, code.code, _TYPENAME, blank)
    _each(text, code.code, _MEMBER_TEMPLATE, blank)
    _each(text, code.code, _NEXT_TO_LITERAL, blank)
    _each(text, code.code, _UNKNOWN_MACRO, lambda found: found if found in _NO_MACRO else blank(found))
    _each(text, code.code, _CONVENTION, blank)
    _each(text, code.code, _ALLOCATION, lambda found: re.sub(rb"[^\w\r\n]", b"_", found))
    _each(text, code.code, _CLASS_INSTANTIATION, blank)
    _each(text, code.code, _ENUM_BASE, blank)
    _each(text, code.code, LAMBDA_SPACE, blank)
    _template_heads(text, code.code)
    _each(text, code.code, _TYPEOF, lambda found: b"decltype".ljust(len(found)))
    _each(text, code.code, _BRACED_DECLTYPE, lambda found: re.sub(rb"[^\w\r\n]", b"_", found))
    _macros(text, code)
    return bytes(text)


def is_specifier(macro: Macro, known: Mapping[str, Macro], depth: int = 8) -> bool:
    """Whether an object-like macro stands for nothing but attributes and specifiers, so that a tree can do without."""
    if macro.parameters is not None:
        return False
    body = macro.body
    for word in set(re.findall(r"[A-Za-z_]\w*", body)) if depth else ():
        inner = known.get(word)
        if inner is not None and inner.name != macro.name and is_specifier(inner, known, depth - 1):
            body = re.sub(rf"\b{word}\b", inner.body, body)
    return _SPECIFIER.fullmatch(body.strip() + " ") is not None or not body.strip()


def _is_noise(data: bytes, span: Span) -> bool:
    """A directive that says nothing to a reader of the tree, and may stand where the grammar takes no directive."""
    word = re.match(rb"[ \t]*#[ \t]*(\w*)", data[span.start : span.end])
    return word is not None and word[1] in (b"pragma", b"line", b"error", b"warning", b"ident", b"")


def _each(text: bytearray, code: bytes, pattern: re.Pattern[bytes], by: Callable[[bytes], bytes]) -> None:
    """What the pattern finds is replaced, less its group `before`."""
    for match in pattern.finditer(code):
        start = match.end("before") if "before" in pattern.groupindex else match.start()
        text[start : match.end()] = by(bytes(text[start : match.end()]))


def _template_heads(text: bytearray, code: bytes) -> None:
    """`>=` in a template's head closes nothing: an operator that cannot be misread stands for it."""
    if b">=" not in code:
        return
    for head in _TEMPLATE_HEAD.finditer(code):
        depth, at = 1, head.end()
        while depth and (found := _HEAD_MARK.search(code, at)) is not None:
            at, mark = found.end(), found[0]
            if mark == b">=":
                text[found.start() : at] = b"=="
            elif mark == b"(":
                at = closing(code, found.start()) or len(code)
            elif mark in (b"<", b">"):
                depth += 1 if mark == b"<" else -1
            else:
                break


_HEAD_MARK = re.compile(rb">=|[<>(;{}]")


def _macros(text: bytearray, code: Code) -> None:
    """Uses of the file's own macros that are no expression."""
    specifiers = {name.encode() for name, one in code.macros.items() if is_specifier(one, code.macros)}
    calls = {name.encode(): one for name, one in code.macros.items() if one.parameters is not None}
    for match in _WORD.finditer(code.code):
        word = match[0]
        if word in specifiers:
            text[match.start() : match.end()] = b" " * len(word)
        elif word in calls:
            _call(text, code.code, match.start(), match.end(), calls[word].body)
    for match in _UNKNOWN_CALL.finditer(code.code):
        if match[0] not in calls:
            _call(text, code.code, match.start(), match.end(), "?")


def _call(text: bytearray, code: bytes, start: int, end: int, body: str) -> None:
    """An invocation that stands alone, without a semicolon: a statement by itself, or a specifier."""
    after = closing(code, end)
    if after is None:
        return
    if _SPECIFIER.fullmatch(body + " "):
        text[start:after] = blank(bytes(text[start:after]))
        return
    if not _begins_statement(code, start):
        return
    following = code[after : after + 200].lstrip()
    if _LOOP_HEAD.match(body) and following[:1] != b";" and (head := _loop_head(bytes(text[start:after]), end - start)):
        text[start:after] = head
        return
    if following[:1] in _GOES_ON or re.match(rb"(?:const\s*[;{=]|(?:noexcept|override|final)\b)", following):
        return
    if _BEGINS_DECLARATION.match(body) and body[-1:] not in (";", "}"):
        # The head of a declaration that goes on: NAME alone is read as its type.
        text[end:after] = blank(bytes(text[end:after]))
        return
    # `NAME(…)` and then the next statement: an expression statement of as many bytes.
    text[start:after] = text[start:end] + blank(bytes(text[end : after - 1])) + b";"


def _loop_head(use: bytes, name: int) -> bytes | None:
    """As many bytes as a macro's use that read as a loop's head, its arguments as what it asks for; None for too few.

    Args:
        name: bytes of the macro's name.
    """
    arguments = use[name + 1 : -1] if use[name : name + 1] == b"(" else b""
    if not arguments.strip() or _KEYWORD.search(arguments):
        return b"while(1)".ljust(len(use)) if len(use) >= len(b"while(1)") else None
    return b"while".ljust(name) + use[name:] if name >= len(b"while") else None


def _begins_statement(code: bytes, start: int) -> bool:
    before = code[max(0, start - 400) : start].rstrip()
    return not before or before[-1:] in (b";", b"{", b"}", b")", b":")
