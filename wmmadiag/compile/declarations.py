"""The declarations of a translation unit, found without a full parse: where each begins and ends, and what it is.

Works on tokens, so that macros used as decorators, launches, inline assembly and half-understood code do no harm: what
cannot be told apart is a declaration of kind "other", never an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wmmadiag.compile.directives import specifier_macros, structural
from wmmadiag.compile.lexer import Token, closing

# CUDA C++ Programming Guide, "Function Execution Space Specifiers" and "Variable Memory Space Specifiers".
DEVICE_KEYWORDS = frozenset({"__global__", "__device__", "__constant__", "__shared__", "__managed__"})
# Macros of headers that are replaced by stubs, which mark device functions (c10/macros/Macros.h, CUTLASS, CCCL).
KNOWN_DEVICE_MACROS = frozenset(
    {
        "C10_DEVICE",
        "C10_HOST_DEVICE",
        "AT_DEVICE",
        "AT_HOST_DEVICE",
        "GPU_LAMBDA",
        "CUTLASS_DEVICE",
        "CUTLASS_HOST_DEVICE",
        "CUTLASS_GLOBAL",
        "CUTE_DEVICE",
        "CUTE_HOST_DEVICE",
        "_CCCL_DEVICE",
        "_CCCL_HOST_DEVICE",
    }
)
# Words that, followed by (…), may begin a declaration and are no macro invocation.
_PAREN_WORDS = frozenset(
    {"__launch_bounds__", "__attribute__", "__declspec", "alignas", "decltype", "explicit", "__align__", "noexcept"}
    | {"__cluster_dims__", "__maxnreg__", "__block_size__", "asm", "__asm__", "static_assert", "typeof", "__typeof__"}
)
_CLASS_WORDS = frozenset({"class", "struct", "union", "enum"})


@dataclass(frozen=True, slots=True)
class Declaration:
    """One declaration at namespace or class scope.

    Attributes:
        kind: "function" (has a body), "prototype", "variable", "class", "enum", "alias" (using, typedef, namespace
            alias, static_assert, concept), "macro" (an invocation), "instantiation" (explicit), "other".
        name: identifier that it declares or invokes, "" if none; `scope` its namespaces and classes ("a::b").
        start, end: offsets; `end` is after the closing brace or semicolon.
        head: its tokens up to the body or initialiser, template header included.
        body: the tokens of its body, braces included, or empty.
        members: of a class, else empty.
        template: whether a `template<…>` header with parameters stands before it.
    """

    kind: str
    name: str
    scope: str
    start: int
    end: int
    head: tuple[Token, ...]
    body: tuple[Token, ...] = ()
    members: tuple[Declaration, ...] = ()
    template: bool = False

    @property
    def qualified_name(self) -> str:
        """`scope::name`."""
        return f"{self.scope}::{self.name}" if self.scope else self.name

    def words(self) -> set[str]:
        """The identifiers of its head."""
        return {token.text for token in self.head if token.kind == "id"}


def declarations(tokens: Sequence[Token], specifiers: frozenset[str] = frozenset()) -> tuple[Declaration, ...]:
    """The declarations of a file at namespace scope, in order; namespaces and `extern "C" {` are entered.

    `specifiers`: `specifier_macros` of the files that it includes; its own are added.
    """
    items = structural(tokens)
    return tuple(_Parser(items, specifiers | specifier_macros(tokens)).scope(0, len(items), "", False))


@dataclass(frozen=True, slots=True)
class _Parser:
    tokens: Sequence[Token]
    specifiers: frozenset[str]

    def scope(self, start: int, end: int, scope: str, in_class: bool) -> list[Declaration]:
        """The declarations between two token indices."""
        tokens = self.tokens
        found: list[Declaration] = []
        index = start
        while index < end:
            text = tokens[index].text
            if text in (";", "}", ")", "]"):
                index += 1
                continue
            if in_class and text in ("public", "private", "protected") and _is(tokens, index + 1, ":"):
                index += 2
                continue
            opened = _namespace(tokens, index, end, scope)
            if opened is not None:
                brace, inner = opened
                close = min(closing(tokens, brace), end)
                found.extend(self.scope(brace + 1, close, inner, False))
                index = close + 1
                continue
            declaration, index = self.declaration(index, end, scope, in_class)
            found.append(declaration)
        return found

    def declaration(self, start: int, end: int, scope: str, in_class: bool) -> tuple[Declaration, int]:
        """The declaration that begins at `start`, and the index after it."""
        tokens = self.tokens
        index, template, instantiation = start, False, False
        while _is(tokens, index, "template"):
            if _is(tokens, index + 1, "<"):
                after = _template_end(tokens, index + 1, end)
                template = template or after - index > 3
                index = after
            else:
                instantiation = True
                index += 1
        if _is(tokens, index, "extern") and index + 1 < end and tokens[index + 1].kind == "str":
            index += 2
        macro = _macro_invocation(tokens, index, end, in_class, self.specifiers)
        if macro:
            return _make("macro", tokens[index].text, scope, tokens, start, macro, macro), macro
        first = tokens[index].text if index < end else ""
        kind, stop, head_end, body = _extent(tokens, index, end)
        head = tokens[start:head_end]
        if instantiation:
            kind = "instantiation"
        elif first in ("using", "typedef", "namespace", "static_assert", "concept", "friend") and kind != "function":
            kind = "alias"
        if kind == "alias":
            head = tokens[start : max(stop - 1, start + 1)]
        name = (
            _class_name(tokens, index, head_end)
            if kind in ("class", "enum")
            else _declared_name(tokens, index, head_end)
        )
        members: tuple[Declaration, ...] = ()
        if kind == "class" and body is not None:
            inner = f"{scope}::{name}" if scope else name
            members = tuple(self.scope(body[0] + 1, min(body[1], end), inner, True))
        inside = tuple(tokens[body[0] : body[1] + 1]) if body is not None else ()
        last = tokens[min(stop, end) - 1] if stop > start else tokens[start]
        return (
            Declaration(kind, name, scope, tokens[start].start, last.end, tuple(head), inside, members, template),
            max(stop, start + 1),
        )


def _is(tokens: Sequence[Token], index: int, text: str) -> bool:
    return index < len(tokens) and tokens[index].text == text


def _namespace(tokens: Sequence[Token], index: int, end: int, scope: str) -> tuple[int, str] | None:
    """(index of `{`, inner scope) if a namespace or a linkage block begins here."""
    if tokens[index].text == "extern" and index + 2 < end and tokens[index + 1].kind == "str":
        return (index + 2, scope) if tokens[index + 2].text == "{" else None
    at = index + (tokens[index].text == "inline")
    if not _is(tokens, at, "namespace"):
        return None
    names: list[str] = []
    for position in range(at + 1, min(end, at + 40)):
        token = tokens[position]
        if token.text == "{":
            return position, "::".join([*([scope] if scope else []), *names])
        if token.text in ("=", ";"):
            return None
        if token.kind == "id" and token.text not in ("inline", "__attribute__"):
            names.append(token.text)
    return None


def _template_end(tokens: Sequence[Token], index: int, end: int) -> int:
    """Index after the `>` that closes the `<` at `index`."""
    depth = 0
    while index < end:
        text = tokens[index].text
        if text in ("(", "{", "["):
            index = closing(tokens, index)
        elif text == "<":
            depth += 1
        elif text == ">":
            depth -= 1
            if depth == 0:
                return index + 1
        elif text == ";":
            return index
        index += 1
    return end


def _make(
    kind: str, name: str, scope: str, tokens: Sequence[Token], start: int, head_end: int, stop: int
) -> Declaration:
    return Declaration(kind, name, scope, tokens[start].start, tokens[stop - 1].end, tuple(tokens[start:head_end]))


def _macro_invocation(tokens: Sequence[Token], index: int, end: int, in_class: bool, specifiers: frozenset[str]) -> int:
    """Index after `NAME(…)` or `NAME(…);` when that is a whole declaration, else 0."""
    if index + 1 >= end or tokens[index].kind != "id" or tokens[index + 1].text != "(":
        return 0
    if tokens[index].text in _PAREN_WORDS or tokens[index].text in specifiers:
        return 0
    close = closing(tokens, index + 1)
    if close >= end:
        return 0
    after = tokens[close + 1] if close + 1 < end else None
    if after is None:
        return close + 1
    if after.text == ";" and not in_class:
        return close + 2
    # `NAME(…)` and then a new declaration: the invocation needed no semicolon.
    starts_one = after.kind == "id" and after.text not in ("const", "noexcept", "override", "final", "volatile", "try")
    return close + 1 if starts_one and not in_class else 0


def _extent(tokens: Sequence[Token], start: int, end: int) -> tuple[str, int, int, tuple[int, int] | None]:
    """(kind, index after the declaration, index after its head, (open, close) of the body)."""
    index, has_parens, assigned, class_word, initialisers = start, False, -1, "", False
    body: tuple[int, int] | None = None
    while index < end:
        token = tokens[index]
        text = token.text
        if text == ";":
            head_end = assigned if assigned >= 0 else index
            if body is not None:
                return ("enum" if class_word == "enum" else "class"), index + 1, body[0], body
            kind = "prototype" if has_parens and assigned < 0 else "variable"
            if class_word and index - start <= 4 and not has_parens and assigned < 0:
                kind = "alias"  # a forward declaration
            if assigned >= 0 and has_parens and tokens[assigned + 1].text in ("default", "delete", "0"):
                kind = "prototype" if tokens[assigned + 1].text == "0" else "alias"
            return kind, index + 1, head_end, None
        if text in ("(", "[", "[["):
            if text == "(" and assigned < 0 and tokens[index - 1].text not in _PAREN_WORDS:
                has_parens = True
            index = closing(tokens, index) + 1
            continue
        if text == "<" and assigned < 0 and index > start and tokens[index - 1].kind == "id":
            index = max(_template_end(tokens, index, end), index + 1)
            continue
        if text == "{":
            close = min(closing(tokens, index), end - 1)
            before = tokens[index - 1] if index > start else None
            if assigned >= 0:
                index = close + 1
            elif class_word and not has_parens and body is None:
                body = (index, close)
                index = close + 1
                # Without the semicolon that C++ wants, a declaration may follow: the class ends at its brace.
                if class_word != "" and index < end and tokens[index].text in ("template", "namespace", "__global__"):
                    return ("enum" if class_word == "enum" else "class"), index, body[0], body
            elif has_parens and not (
                initialisers and before is not None and (before.kind == "id" or before.text == ">")
            ):
                return "function", close + 1, index, (index, close)
            elif has_parens:
                index = close + 1
            else:
                # `int x{3};` goes on to its semicolon; any other block without parameters ends here.
                if not _is(tokens, close + 1, ";") and not _is(tokens, close + 1, ","):
                    return "other", close + 1, index, (index, close)
                assigned = index
                index = close + 1
            continue
        if text == "}":
            return "other", index + 1, index, None
        if text == "operator" and assigned < 0:
            index = _operator_end(tokens, index, end)
            continue
        if text == "=" and assigned < 0:
            assigned = index
        elif text == ":" and has_parens and assigned < 0:
            initialisers = True
        elif text in _CLASS_WORDS and not class_word and not has_parens and assigned < 0:
            class_word = text
        index += 1
    return "other", end, end, None


def _operator_end(tokens: Sequence[Token], index: int, end: int) -> int:
    """Index of the parameter list of an operator function whose `operator` is at `index`."""
    if _is(tokens, index + 1, "(") and _is(tokens, index + 2, ")"):
        return min(index + 3, end)
    while index < end and tokens[index].text not in ("(", ";", "{"):
        index += 1
    return index


def _class_name(tokens: Sequence[Token], start: int, end: int) -> str:
    """The name after `struct`, attributes and alignas skipped; "" for an anonymous one."""
    name, index, seen = "", start, False
    while index < end:
        token = tokens[index]
        if token.text in ("(", "[", "[["):
            index = closing(tokens, index) + 1
            continue
        if token.text in (":", "{", "<"):
            break
        if token.text in _CLASS_WORDS:
            seen = True
        elif seen and token.kind == "id" and token.text not in _PAREN_WORDS and token.text != "final":
            name = token.text
        index += 1
    return name


def _declared_name(tokens: Sequence[Token], start: int, end: int) -> str:
    """The identifier before the parameter list, or the last one before the end."""
    name, index = "", start
    while index < end:
        token = tokens[index]
        if token.text == "operator":
            return "operator"
        if token.text == "(":
            previous = tokens[index - 1] if index > start else None
            if previous is not None and previous.kind == "id" and previous.text not in _PAREN_WORDS:
                # `KERNEL(name)(parameters)`: a macro that is given the name.
                if _is(tokens, index + 2, ")") and _is(tokens, index + 3, "(") and tokens[index + 1].kind == "id":
                    return tokens[index + 1].text
                return previous.text
            if previous is not None and previous.text == ">" and name:
                return name
            index = closing(tokens, index) + 1
            continue
        if token.text in ("[", "[["):
            index = closing(tokens, index) + 1
            continue
        if token.text == "<":
            index = max(_template_end(tokens, index, end), index + 1)
            continue
        if token.text in (":", "=", "{"):
            break
        if token.kind == "id":
            name = token.text
        index += 1
    return name
