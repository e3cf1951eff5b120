"""WMMA fragments: the aliases that name their types, and the variables of such types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wmmadiag.diagnose.source.model import Span, Token
from wmmadiag.diagnose.source.variables import DeclarationReader

USES = ("matrix_a", "matrix_b", "accumulator")


@dataclass(frozen=True, slots=True)
class Alias:
    """`using name = type;` or `typedef type name;`: tokens of the type; template parameters, if any."""

    name: str
    first: int
    last: int
    parameters: tuple[str, ...]
    line: int


def aliases(tokens: Sequence[Token], reader: DeclarationReader) -> list[Alias]:
    """All aliases of a source."""
    found = []
    for index, token in enumerate(tokens):
        if token.text == "using" and index + 3 < len(tokens) and tokens[index + 2].text == "=":
            end = _semicolon(tokens, index)
            found.append(
                Alias(tokens[index + 1].text, index + 3, end, _template_before(tokens, index, reader), token.line)
            )
        elif token.text == "typedef":
            end = _semicolon(tokens, index)
            if end - index > 2 and tokens[end - 1].kind == "id":
                found.append(Alias(tokens[end - 1].text, index + 1, end - 1, (), token.line))
    return found


def _semicolon(tokens: Sequence[Token], index: int) -> int:
    end = index
    while end < len(tokens) and end < index + 200 and tokens[end].text not in (";", "{", "}"):
        end += 1
    return end


def _template_before(tokens: Sequence[Token], index: int, reader: DeclarationReader) -> tuple[str, ...]:
    """The parameters of a `template <…>` right before a token."""
    if index == 0 or tokens[index - 1].text != ">":
        return ()
    for start in range(index - 1, max(index - 60, 0), -1):
        if tokens[start].text == "template" and tokens[start + 1].text == "<":
            names = []
            for first, last in reader.split(start + 2, index - 1):
                words = [t.text for t in tokens[first:last]]
                words = words[: words.index("=")] if "=" in words else words
                names.append(words[-1] if words else "")
            return tuple(names)
        if tokens[start].text in (";", "{", "}"):
            break
    return ()


@dataclass(frozen=True, slots=True)
class FragmentType:
    """The template arguments of a fragment type; spans are where they are written."""

    use: str
    shape: tuple[Span, ...]
    element: Span
    layout: Span | None
    alias: str


def fragment_type(
    first: int, last: int, tokens: Sequence[Token], reader: DeclarationReader, known: dict[str, Alias], depth: int = 0
) -> FragmentType | None:
    """What a type written in tokens `first..last` is, if it is a fragment, through aliases too."""
    index = first
    while index < last and tokens[index].text in ("const", "typename"):
        index += 1
    while index + 2 < last and tokens[index + 1].text == "::":
        index += 2
    if index >= last or depth > 6:
        return None
    name = tokens[index].text
    arguments: list[Span] = []
    if index + 1 < last and tokens[index + 1].text == "<":
        after = reader.angles(index + 1, last)
        if after < 0:
            return None
        arguments = [reader.span(a, b) for a, b in reader.split(index + 2, after - 1)]
    if name == "fragment":
        if len(arguments) < 5:
            return None
        use = arguments[0].text.split("::")[-1].strip()
        layout = arguments[5] if len(arguments) > 5 else None
        return FragmentType(use, tuple(arguments[1:4]), arguments[4], layout, "") if use in USES else None
    alias = known.get(name)
    if alias is None:
        return None
    inner = fragment_type(alias.first, alias.last, tokens, reader, known, depth + 1)
    bound = dict(zip(alias.parameters, arguments, strict=False))
    if inner is None:
        return _with_parameters(alias, bound, tokens, reader, known)
    layout = bound.get(inner.layout.text, inner.layout) if inner.layout else None
    element = bound.get(inner.element.text, inner.element)
    return FragmentType(inner.use, tuple(bound.get(s.text, s) for s in inner.shape), element, layout, name)


def _with_parameters(
    alias: Alias, bound: dict[str, Span], tokens: Sequence[Token], reader: DeclarationReader, known: dict[str, Alias]
) -> FragmentType | None:
    """An alias template whose use is itself a parameter: `template <typename U> using Frag = fragment<U, …>`."""
    del known
    index = alias.first
    while index + 2 < alias.last and tokens[index + 1].text == "::":
        index += 2
    if tokens[index].text != "fragment" or index + 1 >= alias.last or tokens[index + 1].text != "<":
        return None
    after = reader.angles(index + 1, alias.last)
    arguments = [reader.span(a, b) for a, b in reader.split(index + 2, after - 1)] if after > 0 else []
    arguments = [bound.get(span.text, span) for span in arguments]
    use = arguments[0].text.split("::")[-1].strip() if arguments else ""
    if use not in USES or len(arguments) < 5:
        return None
    layout = arguments[5] if len(arguments) > 5 else None
    return FragmentType(use, tuple(arguments[1:4]), arguments[4], layout, alias.name)
