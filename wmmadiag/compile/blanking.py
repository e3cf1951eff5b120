"""Host code taken out of a source without moving a line or a column of what stays.

NVRTC takes no host code. Under nvcc, device code can use nothing of a function or variable that carries no execution
or memory space, constants and `constexpr` apart; so what carries none, and is neither, is surely host code.
Preprocessor lines always stay, so that conditionals keep their balance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.compile.declarations import (
    DEVICE_KEYWORDS,
    KNOWN_DEVICE_MACROS,
    Declaration,
    declarations,
)
from wmmadiag.compile.directives import macro_words, reaching, specifier_macros
from wmmadiag.compile.lexer import Token, blank, spans_without
from wmmadiag.compile.sources import SourceFile, SourceTree

_CONSTANT = frozenset({"constexpr", "const", "consteval"})
# Namespaces of host libraries, and host-only types: a class with a member of such a type is host code.
_HOST_NAMESPACES = frozenset({"torch", "at", "c10", "py", "pybind11", "thrust", "cub", "boost", "fmt", "absl", "cv"})
_HOST_TYPES = frozenset({"cublasHandle_t", "cublasLtHandle_t", "cudnnHandle_t", "curandGenerator_t", "FILE"})
# What device code may use of std; all else under std:: marks host code.
_DEVICE_STD = frozenset(
    {"array", "pair", "tuple", "byte", "integral_constant", "true_type", "false_type", "initializer_list", "declval"}
    | {"is_same", "is_same_v", "conditional", "conditional_t", "enable_if", "enable_if_t", "void_t", "decay_t"}
    | {"is_floating_point", "is_integral", "remove_cv_t", "remove_reference_t", "numeric_limits", "nullptr_t"}
    | {"min", "max", "clamp", "swap", "move", "forward", "size_t", "ptrdiff_t", "intptr_t", "uintptr_t"}
    | {"integer_sequence", "index_sequence", "make_index_sequence"}
    | {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)


@dataclass(frozen=True, slots=True)
class Part:
    """A declaration with its verdict: "device" stays, "host" goes, "unsure" stays until the compiler refuses it."""

    declaration: Declaration
    verdict: str
    in_class: bool = False


@dataclass(frozen=True, slots=True)
class Blanked:
    """A file after blanking.

    Attributes:
        text: as long as the file's, line for line and column for column.
        parts: all its declarations with their verdicts; members of classes that stay are listed on their own.
    """

    text: str
    parts: tuple[Part, ...]


_LAMBDA_SPACES = frozenset({"__device__", "__host__", "__forceinline__"})


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


def blank_host_code(file: SourceFile, known: Context, refused: frozenset[tuple[int, int]] = frozenset()) -> Blanked:
    """Blank the host code of one file, and the unsure declarations whose (start, end) is in `refused`."""
    parts: list[Part] = []
    for declaration in parsed(file, known.specifiers):
        _judge(declaration, known, parts, in_class=False)
    spans: list[tuple[int, int]] = []
    for part in parts:
        extent = (part.declaration.start, part.declaration.end)
        if part.verdict == "host" or (part.verdict == "unsure" and extent in refused):
            spans.extend(spans_without(file.tokens, *extent))
    spans.extend(lambda_annotations(file.tokens))
    return Blanked(blank(file.text, spans), tuple(parts))


def lambda_annotations(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """The `__device__` of `[=] __device__ (int i) {…}`: NVRTC refuses it, and in device code it says nothing."""
    found: list[tuple[int, int]] = []
    for index, token in enumerate(tokens):
        end = index + 1
        while token.text == "]" and end < len(tokens) and tokens[end].text in _LAMBDA_SPACES:
            end += 1
        opened = tokens[end].text in ("(", "{", "mutable") if end < len(tokens) else False
        if end > index + 1 and opened and not (index and tokens[index - 1].text == "]"):
            found += [(space.start, space.end) for space in tokens[index + 1 : end]]
    return found


def _judge(declaration: Declaration, known: Context, parts: list[Part], in_class: bool) -> None:
    verdict = _verdict(declaration, known, in_class)
    parts.append(Part(declaration, verdict, in_class))
    if declaration.kind == "class" and verdict != "host":
        for member in declaration.members:
            _judge(member, known, parts, in_class=True)


def _verdict(declaration: Declaration, known: Context, in_class: bool) -> str:
    words = declaration.words()
    if words & known.device_words:
        return "device"
    kind = declaration.kind
    if kind == "macro":
        return _macro_verdict(declaration.name, known)
    if kind == "class":
        return _class_verdict(declaration, known)
    if kind in ("function", "prototype"):
        if words & {"constexpr", "consteval"} or declaration.head[0].text == "friend":
            return "unsure" if not (declaration.head[0].text == "friend" and kind == "function") else "host"
        if kind == "function" and _is_macro_block(declaration):
            return _macro_verdict(declaration.head[0].text, known)
        return "host"
    if kind == "instantiation":
        if words & {"class", "struct", "union"} or declaration.name in known.device_names:
            return "unsure"
        return "host"
    if kind == "alias" and _mentions_host_type(declaration):
        return "host"
    if kind == "variable" and not in_class:
        return "unsure" if words & _CONSTANT and not _mentions_host_type(declaration) else "host"
    return "unsure"


def _is_macro_block(declaration: Declaration) -> bool:
    """Whether it is `NAME(…) {…}`: a macro with a block, such as PYBIND11_MODULE."""
    head = declaration.head
    return len(head) > 1 and head[0].kind == "id" and head[1].text == "("


def _macro_verdict(name: str, known: Context) -> str:
    body = known.macros.get(name)
    if body is None:
        # A macro of a library that is not there: registration, tests, bindings.
        return "host"
    # A macro of the user's own: it may declare constants, types or instantiate a kernel.
    return "unsure" if body & (known.device_names | {"template", "constexpr", "struct", "static_assert"}) else "host"


def _class_verdict(declaration: Declaration, known: Context) -> str:
    members = [member for item in declaration.members for member in _flat(item)]
    if any(member.words() & known.device_words for member in members):
        return "device"
    fields = [member for member in members if member.kind == "variable"]
    if _mentions_host_type(declaration) or any(_mentions_host_type(field) for field in fields):
        return "host"
    return "unsure"


def _mentions_host_type(declaration: Declaration) -> bool:
    head = declaration.head
    for index, token in enumerate(head):
        if token.kind != "id":
            continue
        if token.text in _HOST_TYPES:
            return True
        qualifies = index + 2 < len(head) and head[index + 1].text == "::"
        if qualifies and token.text in _HOST_NAMESPACES:
            return True
        if qualifies and token.text == "std" and head[index + 2].text not in _DEVICE_STD:
            return True
    return False
