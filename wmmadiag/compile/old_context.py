"""What the readers of tokens still need of a file's declarations: macros that mark device code, kernels, templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.compile.declarations import DEVICE_KEYWORDS, KNOWN_DEVICE_MACROS, Declaration, declarations
from wmmadiag.compile.directives import macro_words, reaching, specifier_macros
from wmmadiag.compile.lexer import Token, closing
from wmmadiag.compile.sources import SourceFile, SourceTree


@dataclass(frozen=True, slots=True)
class Context:
    """What the verdicts depend on beyond one declaration.

    Attributes:
        device_words: the keywords that mark device code, and the macros that expand to them.
        macros: macro → words of its body, over all files.
        device_names: functions that are declared with an execution space anywhere.
        specifiers: macros that begin a declaration.
    """

    device_words: frozenset[str]
    macros: Mapping[str, frozenset[str]]
    device_names: frozenset[str]
    specifiers: frozenset[str] = frozenset()


def context(tree: SourceTree, defines: Mapping[str, str | None]) -> Context:
    """The context of one compilation: macros and device functions of the source, its headers and `-D` options."""
    macros: dict[str, frozenset[str]] = {}
    for file in tree.files():
        for name, words in macro_words(file.tokens).items():
            macros[name] = macros.get(name, frozenset()) | words
    for name, text in defines.items():
        macros[name] = macros.get(name, frozenset()) | frozenset((text or "").replace("(", " ").split())
    words = reaching(macros, DEVICE_KEYWORDS | KNOWN_DEVICE_MACROS)
    specifiers = frozenset(name for file in tree.files() for name in specifier_macros(file.tokens))
    names: set[str] = set()
    for file in tree.files():
        for declaration in parsed(file, specifiers):
            names |= {item.name for item in _flat(declaration) if item.words() & words}
    return Context(words, macros, frozenset(names), specifiers)


def parsed(file: SourceFile, specifiers: frozenset[str] = frozenset()) -> tuple[Declaration, ...]:
    """The file's declarations; none when it is nested beyond reason."""
    try:
        return declarations(file.tokens, specifiers)
    except RecursionError:
        return ()


def _flat(declaration: Declaration) -> Iterator[Declaration]:
    yield declaration
    for member in declaration.members:
        yield from _flat(member)


def is_kernel(declaration: Declaration, known: Context) -> bool:
    """Whether it declares a `__global__` function, by itself or through a macro."""
    words = declaration.words()
    return "__global__" in words or any("__global__" in known.macros.get(word, ()) for word in words)


def template_parameters(head: Sequence[Token]) -> tuple[str, ...]:
    """The parameter names of the last `template<…>` header in a declaration's head."""
    names: list[str] = []
    index = 0
    while index + 1 < len(head) and head[index].text == "template" and head[index + 1].text == "<":
        names, depth, name, index = [], 0, "", index + 1
        defaulted = False
        while index < len(head):
            token = head[index]
            if token.text == "(":
                index = closing(head, index)
            elif token.text == "<":
                depth += 1
            elif token.text == ">":
                depth -= 1
            if depth == 0 or (depth == 1 and token.text == ","):
                names.append(name)
                name, defaulted = "", False
                if depth == 0:
                    break
            elif token.text == "=" and depth == 1:
                defaulted = True
            elif token.kind == "id" and depth == 1 and not defaulted:
                name = token.text
            index += 1
        index += 1
    return tuple(name for name in names if name)
