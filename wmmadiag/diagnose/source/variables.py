"""Declarations of variables: their types, extents and initialisers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from wmmadiag.diagnose.source.model import Span, Token

_SPECIFIERS = frozenset(
    {
        "static",
        "extern",
        "register",
        "inline",
        "__shared__",
        "__device__",
        "__constant__",
        "__managed__",
        "thread_local",
    }
    | {"__forceinline__", "mutable", "typename", "struct", "class", "enum", "__restrict__", "__restrict", "restrict"}
)
_CLASSES = frozenset({"struct", "union", "class"})
_QUALIFIERS = frozenset({"const", "constexpr", "volatile", "consteval"})
_ALIGNED = frozenset({"__align__", "alignas", "__attribute__", "__declspec"})
_BUILTIN = frozenset({"unsigned", "signed", "long", "short", "int", "char", "float", "double", "bool", "void", "auto"})
_NEVER = frozenset(
    {"return", "if", "else", "for", "while", "do", "switch", "case", "default", "break", "continue", "goto", "using"}
    | {"typedef", "namespace", "asm", "__asm__", "static_assert", "template", "new", "delete", "throw", "operator"}
    | {"sizeof", "this", "true", "false"}
)
_INSIDE_ANGLES = frozenset(
    {",", "::", "*", "&", "+", "-", "/", "%", "(", ")", "==", "<", ">", "<=", "&&", "||", "<<", "!"}
)
_AFTER_NAME = frozenset({"=", ";", "[", ",", "(", "{", ":", ")", ""})


@dataclass(frozen=True, slots=True)
class Declarator:
    """One name of a declaration. `type_first`, `type_last`: tokens of the type without specifiers in front."""

    name: str
    name_at: int
    pointer: bool
    reference: bool
    dims: tuple[Span, ...]
    initial: Span | None
    type: str
    type_first: int
    type_last: int
    const: bool
    specifiers: tuple[str, ...]


class DeclarationReader:
    """Reads declarations from token ranges; `span` makes a piece of source from token indices."""

    def __init__(self, tokens: Sequence[Token], match: Sequence[int], span: Callable[[int, int], Span]) -> None:
        self.tokens = tokens
        self.match = match
        self.span = span

    def angles(self, index: int, end: int) -> int:
        """Index after the `>` that closes the template list opened by `<` at `index`, or -1 if it is none."""
        depth = 0
        limit = min(end, index + 200)
        while index < limit:
            token = self.tokens[index]
            if token.text == "<":
                depth += 1
            elif token.text == ">":
                depth -= 1
                if depth == 0:
                    return index + 1
            elif token.text == "(" and self.match[index] > index:
                index = self.match[index]
            elif token.kind == "punct" and token.text not in _INSIDE_ANGLES:
                return -1
            index += 1
        return -1

    def read(self, first: int, last: int, *, parameter: bool = False) -> list[Declarator]:
        """The names that the tokens `first..last` (without `;`) declare; empty if they are no declaration."""
        tokens, match = self.tokens, self.match
        index, specifiers, const = first, [], False
        core_first, core_last = -1, -1
        while index < last:
            token = tokens[index]
            text = token.text
            if text in _SPECIFIERS:
                specifiers.append(text)
            elif text in _QUALIFIERS:
                const = const or text in ("const", "constexpr")
                if core_first >= 0:
                    core_last = index + 1
            elif text in _ALIGNED:
                specifiers.append(text)
                if index + 1 < last and tokens[index + 1].text == "(" and match[index + 1] > index:
                    index = match[index + 1]
            elif text == "[" and index + 1 < last and tokens[index + 1].text == "[" and match[index] > index:
                index = match[index]
            elif text in _BUILTIN and (core_first < 0 or tokens[core_first].text in _BUILTIN):
                core_first = index if core_first < 0 else core_first
                core_last = index + 1
            elif token.kind == "id" and core_first < 0:
                if text in _NEVER:
                    return []
                core_first = index
                while index + 2 < last and tokens[index + 1].text == "::" and tokens[index + 2].kind == "id":
                    index += 2
                if index + 1 < last and tokens[index + 1].text == "<":
                    after = self.angles(index + 1, last)
                    if after < 0:
                        return []
                    index = after - 1
                    while index + 2 < last and tokens[index + 1].text == "::" and tokens[index + 2].kind == "id":
                        index += 2
                core_last = index + 1
            elif core_first < 0 and text == "::":
                pass
            else:
                break
            index += 1
        if core_first < 0:
            return []
        return list(self._declarators(index, last, core_first, core_last, const, tuple(specifiers), parameter))

    def members(self, first: int, last: int) -> Iterator[tuple[Declarator, Span]]:
        """The arrays among the members of a struct or union that the tokens `first..last` define, nested ones too, each
        with its whole declaration."""
        tokens, match = self.tokens, self.match
        opened = next((at for at in range(first, last) if tokens[at].text in ("{", "=", "(")), last)
        words = {token.text for token in tokens[first:opened]}
        if opened >= last or tokens[opened].text != "{" or not words & _CLASSES or match[opened] < opened:
            return
        start = opened + 1
        index = start
        while index < match[opened]:
            text = tokens[index].text
            if text == ";":
                yield from self.members(start, index)
                found = (one for one in self.read(start, index) if one.dims)
                yield from ((one, self.span(start, index + 1)) for one in found)
                start = index + 1
            elif text in ("{", "(", "[") and match[index] > index:
                index = match[index]
            index += 1

    def _declarators(
        self, index: int, last: int, core_first: int, core_last: int, const: bool, specifiers: tuple[str, ...],
        parameter: bool,
    ) -> Iterator[Declarator]:  # fmt: skip
        tokens, match = self.tokens, self.match
        core = self.span(core_first, core_last).text
        while index < last:
            pointer = reference = False
            while index < last and (
                tokens[index].text in ("*", "&", "&&", "const") or tokens[index].text in _SPECIFIERS
            ):
                pointer = pointer or tokens[index].text == "*"
                reference = reference or tokens[index].text in ("&", "&&")
                index += 1
            opened = index + 3 < last and tokens[index].text == "(" and tokens[index + 3].text == ")"
            grouped = opened and tokens[index + 1].text in ("&", "*")
            if grouped:  # `half (&tile)[16][64]`
                pointer, reference = tokens[index + 1].text == "*", tokens[index + 1].text == "&"
                index += 2
            if index >= last or tokens[index].kind != "id" or tokens[index].text in _NEVER | _BUILTIN:
                return
            following = tokens[index + 1].text if index + 1 < last else ""
            if following not in _AFTER_NAME:
                return
            name_at = index
            index += 1
            if grouped and index < last and tokens[index].text == ")":
                index += 1
            dims = []
            while index < last and tokens[index].text == "[" and match[index] > index:
                dims.append(self.span(index + 1, match[index]))
                index = match[index] + 1
            initial = None
            start = index
            if index < last and tokens[index].text == "=":
                index = self._until_comma(index + 1, last)
                initial = self.span(start + 1, index)
            elif index < last and tokens[index].text in ("(", "{") and match[index] > index:
                initial = self.span(index + 1, min(match[index], last))
                index = match[index] + 1
            elif index < last and tokens[index].text == ":":
                initial, index = self.span(index + 1, last), last
            kind = ("const " if const and "const" not in core.split() else "") + core + (" *" if pointer else "")
            yield Declarator(
                tokens[name_at].text, tokens[name_at].offset, pointer, reference, tuple(dims), initial or None, kind,
                core_first, core_last, const, specifiers,
            )  # fmt: skip
            if parameter or index >= last or tokens[index].text != ",":
                return
            index += 1

    def _until_comma(self, index: int, last: int) -> int:
        while index < last and tokens_text(self.tokens, index) != ",":
            text = self.tokens[index].text
            if text in ("(", "[", "{") and self.match[index] > index:
                index = self.match[index]
            elif text == "<" and self.tokens[index - 1].kind == "id":
                after = self.angles(index, last)
                if after > 0 and after < last and self.tokens[after].text in ("(", "::", "{"):
                    index = after - 1
            index += 1
        return min(index, last)

    def split(self, first: int, last: int) -> list[tuple[int, int]]:
        """The token ranges between top-level commas; none for an empty range."""
        found, index = [], first
        while index < last:
            after = self._until_comma(index, last)
            found.append((index, after))
            index = after + 1
        return found


def tokens_text(tokens: Sequence[Token], index: int) -> str:
    """The spelling of a token, "" past the end."""
    return tokens[index].text if index < len(tokens) else ""
