"""Host code without its macros: each use is replaced by what it stands for, and every line keeps its number.

Launches behind macros, dispatch and switches need no reader of their own then. Object-like macros that stand for a
value or a type keep their names: `#define M 4096` is a size that has one. Branches of `#if` that are not taken, as far
as the source's own macros tell, are blanked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wmmadiag.csource.conditionals import Group, groups, resolved
from wmmadiag.csource.lexical import Macro, Span, blank, code_of, macros, spans
from wmmadiag.csource.prepare import is_specifier

if TYPE_CHECKING:
    from pcpp import Preprocessor

_WORD = re.compile(rb"[A-Za-z_]\w*")
_VALUE = re.compile(r"[\w\s.'+\-*/%<>()|&~^:,]+")
_LONGEST = 20000
# What the toolkit and a compiler define; newer than any version that sources ask for.
_PROVIDED = {
    "__CUDACC__": "1", "__NVCC__": "1", "__CUDA_ARCH__": "900", "CUDART_VERSION": "12080", "CUDA_VERSION": "12080",
    "__CUDACC_VER_MAJOR__": "12", "__CUDACC_VER_MINOR__": "8", "__cplusplus": "201703", "__GNUC__": "12",
    "__linux__": "1", "__x86_64__": "1",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expanded:
    """A file's text with macros expanded, and the macros that are left as names of values and types."""

    text: str
    macros: Mapping[str, Macro]


def expanded(text: str, known: Mapping[str, Macro], defines: Mapping[str, str | None]) -> Expanded:
    """A file with its macros expanded.

    Args:
        known: macros of the files that it includes, and those that the compiler gets.
        defines: of the command line: name → text, None for an empty one. They win.
    """
    data = text.encode("utf-8", "surrogateescape")
    own = {**known, **_given(defines)}
    opaque = tuple(spans(data))
    taken = _taken_branches(data, opaque, own)
    every = {**own, **macros(taken), **_given(defines)}
    code = code_of(taken)
    skipped = [span for span in code.spans if span.kind == "directive"]
    found = {name.encode(): one for name, one in every.items() if not _is_value(one) and not is_specifier(one, every)}
    if not found:
        return Expanded(taken.decode("utf-8", "surrogateescape"), every)
    engine: Preprocessor | None = None
    pieces: list[bytes] = []
    position = 0
    for match in _WORD.finditer(code.code):
        if match.start() < position or match[0] not in found:
            continue
        if any(span.start <= match.start() < span.end for span in skipped):
            continue
        end = _end_of_use(code.code, match.end(), found[match[0]])
        if end is None or end - match.start() > _LONGEST:
            continue
        engine = engine or _engine(found.values())
        use = _uncommented(taken[match.start() : end])
        pieces += [taken[position : match.start()], _bare(_of_use(engine, use), code.code)]
        position = end
    pieces.append(taken[position:])
    return Expanded(b"".join(pieces).decode("utf-8", "surrogateescape"), every)


def defined(text: str, known: Mapping[str, Macro], defines: Mapping[str, str | None]) -> Mapping[str, Macro]:
    """The macros that a text itself defines, in branches that are taken.

    Args:
        known, defines: as `expanded` takes them.
    """
    data = text.encode("utf-8", "surrogateescape")
    return macros(_taken_branches(data, tuple(spans(data)), {**known, **_given(defines)}))


def _bare(text: bytes, code: bytes) -> bytes:
    """What a macro stands for with `(N) - 1` as `N - 1`: the grammar may read it as -1 cast to a type, `(A::N) - 1`."""
    found = [one for one in _BRACKETED.finditer(text) if _BEFORE_OPERAND.search(text[: one.start()])]
    if not found:
        return text
    values, types = ({name for one in kind.findall(code) for name in one if name} for kind in (_VALUE_OF, _TYPE_OF))
    changed = bytearray(text)
    for one in found:
        scope, _, name = one[1].rpartition(b"::")
        is_type = name.strip() in types or (scope and name.strip() not in values and _TYPE_NAME.search(name))
        if not is_type and (scope or name in values):
            changed[one.start()] = changed[one.end() - 1] = ord(" ")
    return bytes(changed)


_BRACKETED = re.compile(rb"\(\s*((?:[A-Za-z_]\w*\s*::\s*)*[A-Za-z_]\w*)\s*\)(?=\s*[-+*&])(?!\s*(?:->|&&|\+\+|--))")
_BEFORE_OPERAND = re.compile(rb"(?:[(,=+*/%<?:&|^!~\[-]|\breturn)\s*\Z")
_VALUE_OF = re.compile(
    rb"\b([A-Za-z_]\w*)\s*=(?!=)|\b(?:int|unsigned|long|short|bool|auto|size_t|u?int(?:8|16|32|64)_t|float|double)"
    rb"[\s&*]+([A-Za-z_]\w*)\s*[,);\[{]"
)
_TYPE_NAME = re.compile(rb"(?:_t|[Tt]ype|[Tt]|[a-z])\s*\Z")
_TYPE_OF = re.compile(
    rb"\b(?:class|struct|union|enum|typename|using)\s+([A-Za-z_]\w*)|\btypedef\b[^;]*?\b([A-Za-z_]\w*)\s*;"
)


def _given(defines: Mapping[str, str | None]) -> dict[str, Macro]:
    return {name: Macro(name, None, text or "", 0, 0, 0) for name, text in defines.items()}


def _taken_branches(data: bytes, opaque: tuple[Span, ...], known: Mapping[str, Macro]) -> bytes:
    """The text without branches of `#if` that are not taken."""
    every = [one for one in groups(data, opaque) if not _is_guard(data, one)]
    if not every:
        return data
    defined = {**_given(_PROVIDED), **macros(data, opaque), **known}
    return resolved(data, every, defined, complete=True)


def _is_guard(data: bytes, group: Group) -> bool:
    """`#ifndef NAME` directly before `#define NAME`: the guard of a header, or a usual value."""
    if len(group.heads) != 2 or group.heads[0][2] != "ifndef":
        return False
    name = group.heads[0][3].encode()
    following = data[group.heads[0][1] : group.heads[0][1] + 400]
    return re.match(rb"\s*#\s*define\s+" + re.escape(name) + rb"\b", following) is not None


def _is_value(macro: Macro) -> bool:
    """Whether a macro stands for a number, an expression of numbers, or a type, so that its name says more."""
    if macro.parameters is not None or not macro.body:
        return False
    return _VALUE.fullmatch(macro.body) is not None and not re.search(
        r"\b(?:for|if|do|while|return|__\w+__)\b", macro.body
    )


def _end_of_use(code: bytes, after: int, macro: Macro) -> int | None:
    """The offset after a use of a macro whose name ends at `after`; None if it is none."""
    if macro.parameters is None:
        return after
    at = after
    while code[at : at + 1].isspace():
        at += 1
    if code[at : at + 1] != b"(":
        return None
    depth = 0
    for match in re.compile(rb"[()]").finditer(code, at):
        depth += 1 if match[0] == b"(" else -1
        if depth == 0:
            return match.end()
    return None


def _engine(every: Iterable[Macro]) -> Preprocessor:
    from pcpp import Preprocessor

    class Quiet(Preprocessor):  # type: ignore[misc]
        def on_error(self, file: str, line: int, msg: str) -> None:
            """A macro with other arguments than it takes is left as it is."""

    engine = Quiet()
    for one in every:
        head = one.name if one.parameters is None else f"{one.name}({', '.join(one.parameters)})"
        engine.define(f"{head} {one.body}")
    return engine


def _uncommented(use: bytes) -> bytes:
    """A use with its comments blanked: on one line, one that `//` begins would hide what follows."""
    text = bytearray(use)
    for span in spans(use):
        if span.kind == "comment":
            text[span.start : span.end] = blank(use[span.start : span.end])
    return bytes(text)


def _of_use(engine: Any, use: bytes) -> bytes:
    """What a use stands for, on one line, with as many line ends behind it as the use has."""
    lines = use.count(b"\n")
    text = use.decode("utf-8", "surrogateescape")
    kept = blank(use) if lines else b""
    try:
        tokens = engine.expand_macros(engine.tokenize(text))
    except Exception:  # the library raises whatever its expansion meets
        return use
    line = " ".join("".join(token.value for token in tokens).split("\n"))
    return line.encode("utf-8", "surrogateescape") + b"\n" * kept.count(b"\n")
