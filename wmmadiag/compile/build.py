"""NVRTC on a source that holds host code: blank it, compile, and blank what the compiler still refuses as host code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from wmmadiag.compile.blanking import Blanked, Context, Part, blank_host_code, context
from wmmadiag.compile.diagnostics import Diagnostic, error_from, errors_in
from wmmadiag.compile.host_headers import STUBS, is_host_header
from wmmadiag.compile.instantiations import (
    KernelTemplate,
    boolean_choices,
    is_kernel,
    kernel_templates,
    qualified_expressions,
    scoped_arguments,
    wanted_instantiations,
)
from wmmadiag.compile.lexer import line_index
from wmmadiag.compile.model import CompileNote
from wmmadiag.compile.nvrtc import NvrtcResult, run_nvrtc
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.precompiled import IN_USE, precompiling
from wmmadiag.compile.sources import SourceFile, SourceTree, in_memory
from wmmadiag.compile.toolchain import Toolchain
from wmmadiag.errors import CompileError
from wmmadiag.place import Place

PRELUDE = "wmmadiag_prelude.h"
ASK = "wmmadiag_ask.h"
_MAX_ROUNDS = 24
_NOT_FOUND = re.compile(r'cannot open source file "([^"]+)"')
_BAD_EXPRESSION = re.compile(r'Input name expression was: "\s*(.*?)\s*"')
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_NO_MEMBER = re.compile(r'namespace "std" has no member "(\w+)"')
_STANDARD_MEMBERS = {
    **dict.fromkeys(("min", "max", "clamp"), "algorithm"),
    **dict.fromkeys(("swap", "pair", "make_pair", "exchange", "index_sequence", "make_index_sequence"), "utility"),
    **dict.fromkeys(
        ("is_same", "is_same_v", "conditional", "conditional_t", "enable_if", "enable_if_t"), "type_traits"
    ),
    **dict.fromkeys(("integral_constant", "true_type", "false_type", "decay_t", "remove_reference_t"), "type_traits"),
    "numeric_limits": "limits",
    "array": "array",
}
_STANDARD_MACROS = re.compile(
    r"(?P<cfloat>(?:FLT|DBL)_\w+)|(?P<climits>(?:U?(?:INT|LONG|LLONG|SHRT|CHAR)|SCHAR)_(?:MAX|MIN)|CHAR_BIT)"
    r"|(?P<cmath>M_\w+|INFINITY|NAN)|(?P<cstdint>U?INT(?:8|16|32|64)_(?:MAX|MIN))"
)
_MAX_EXPRESSIONS = 128
_SEEN_FROM = re.compile(r"at line (\d+) of (.+?)\s*$")


@dataclass(frozen=True, slots=True)
class Built:
    """A successful compilation.

    Attributes:
        result: NVRTC's answer.
        root, headers: the texts that it compiled.
        expressions: the name expressions that were instantiated, the user's and those found in host code.
        templates: qualified names of the kernel templates in the source.
        kernels: (name, place) of each kernel definition.
        parts: key of each file → its declarations with their verdicts.
        notes: headers taken as empty, declarations taken for host code, instantiations left out.
        standard: standard headers that were read first, because device code uses them without including them.
    """

    result: NvrtcResult
    root: str
    headers: dict[str, str]
    expressions: tuple[str, ...]
    templates: tuple[str, ...]
    kernels: tuple[tuple[str, Place], ...]
    parts: dict[str, tuple[Part, ...]]
    notes: tuple[CompileNote, ...]
    standard: tuple[str, ...] = ()


@dataclass(slots=True)
class _State:
    refused: dict[str, frozenset[tuple[int, int]]] = field(default_factory=dict)
    empty: dict[str, Place] = field(default_factory=dict)
    expressions: list[str] = field(default_factory=list)
    hidden: list[tuple[str, Diagnostic]] = field(default_factory=list)
    notes: list[CompileNote] = field(default_factory=list)
    standard: list[str] = field(default_factory=list)


class Behind(Protocol):
    """Questions that are written behind a source (`wmmadiag.compile.ask`)."""

    def text(self) -> str:
        """What to write there."""

    def owner(self, error: Diagnostic) -> int | None:
        """The number of the question that an error is about, if it is about one."""

    def drop(self, errors: Sequence[Diagnostic]) -> bool:
        """Leave out the questions that errors are about; False where there are none."""


def build(
    tree: SourceTree, options: CompileOptions, tools: Toolchain, *, cubin: bool = False, behind: Behind | None = None
) -> Built:
    """Compile a source by NVRTC to PTX, or to a cubin with ptxas' report in the log.

    Args:
        behind: questions that are compiled with it, in place of its kernels.

    Raises:
        CompileError: the compiler refused it for a reason that is not host code.
        ConfigurationError: NVRTC refused an option.
    """
    known = context(tree, options.macros)
    state = _State()
    blanked = {file.key: blank_host_code(file, known) for file in tree.files()}
    everything = [part for one in blanked.values() for part in one.parts]
    templates = kernel_templates(everything, known)
    named = scoped_arguments(qualified_expressions(options.name_expressions, templates), everything)
    if not named and behind is None:
        state.expressions = list(scoped_arguments(wanted_instantiations(everything, templates), everything))
    host_headers = [name for name in tree.unresolved if is_host_header(name)]
    for _ in range(_MAX_ROUNDS):
        root, headers = in_memory(tree, {key: one.text for key, one in blanked.items()})
        headers.update(dict.fromkeys((*host_headers, *state.empty), ""))
        expressions = (*named, *state.expressions)
        standard = state.standard if behind is None else [*state.standard, ASK]
        flags = nvrtc_options(options, tools, tree, standard, cubin=cubin)
        if options.precompiled is not None:
            flags += precompiling(headers, options.precompiled, tools)
        root += behind.text() if behind is not None else ""
        with IN_USE if options.precompiled is not None else nullcontext():
            result = run_nvrtc(root, tree.root.name, flags, headers=headers, name_expressions=expressions, cubin=cubin)
        if result.ok:
            return Built(
                result,
                root,
                headers,
                expressions,
                tuple(template.qualified_name for template in templates),
                kernel_places(tree, {key: one.parts for key, one in blanked.items()}, known),
                {key: one.parts for key, one in blanked.items()},
                tuple(state.notes),
                tuple(state.standard),
            )
        errors = errors_in(result.log)
        own = [one for one in errors if behind is None or behind.owner(one) is None]
        if not _react(own, state, tree, blanked, templates) and not (behind is not None and behind.drop(errors)):
            raise _final_error(errors, result.log, state, tree, blanked)
        for file in tree.files():
            if file.key in state.refused:
                blanked[file.key] = blank_host_code(file, known, state.refused[file.key])
    raise _final_error(errors, result.log, state, tree, blanked)


def rebuild(
    built: Built,
    root: str,
    headers: dict[str, str],
    before: str,
    tree: SourceTree,
    options: CompileOptions,
    tools: Toolchain,
) -> str | None:
    """The PTX of other texts with the same options and instantiations, `before` read first; None if it fails."""
    name = "wmmadiag_before.h"
    flags = [
        f"--pre-include={name}" if flag == f"--pre-include={PRELUDE}" else flag
        for flag in nvrtc_options(options, tools, tree, built.standard)
    ]
    headers = {**headers, name: f'#include "{PRELUDE}"\n{before}'}
    result = run_nvrtc(root, tree.root.name, flags, headers=headers, name_expressions=built.expressions)
    return result.ptx if result.ok else None


def kernel_places(
    tree: SourceTree, parts: Mapping[str, Sequence[Part]], known: Context
) -> tuple[tuple[str, Place], ...]:
    """(name, place) of each kernel definition in the source and its headers."""
    found = []
    for file in tree.files():
        locate = line_index(file.text)
        for part in parts[file.key]:
            declaration = part.declaration
            if declaration.kind == "function" and is_kernel(declaration, known):
                named = [token for token in declaration.head if token.text == declaration.name]
                found.append((declaration.name, Place(file.name, *locate(named[-1].start if named else 0))))
    return tuple(found)


def nvrtc_options(
    options: CompileOptions,
    tools: Toolchain,
    tree: SourceTree,
    standard: Sequence[str] = (),
    *,
    cubin: bool = False,
) -> list[str]:
    """NVRTC's command line for these options; `standard`: stub headers to read after the prelude."""
    flags = [
        f"-arch={options.arch if cubin else options.virtual_arch}",
        f"-std={options.std}",
        "-default-device",
        "-lineinfo",
        # Blanking takes away what used a constant.
        "-diag-suppress=177",
    ]
    if cubin:
        flags.append("--ptxas-options=-v")
    if options.debug:
        flags.append("-G")
    flags += options.macro_flags()
    flags.append(f"-I{STUBS}")
    flags += [f"-I{folder}" for folder in tools.includes]
    if tree.computed:
        flags += [f"-I{path}" for path in options.include_paths]
    before = [f"--pre-include={name}" for name in (PRELUDE, *standard)]
    return [*flags, *before, *options.extra]


def _react(
    errors: Sequence[Diagnostic],
    state: _State,
    tree: SourceTree,
    blanked: dict[str, Blanked],
    templates: Sequence[KernelTemplate],
) -> bool:
    """Change `state` so that another attempt can do better; False when nothing is left to try."""
    progress = False
    files = {file.name: file for file in tree.files()}
    members = [match[1] for error in errors if (match := _NO_MEMBER.search(error.message))]
    wanted = {_STANDARD_MEMBERS[member] for member in members if member in _STANDARD_MEMBERS}
    undefined = [match[1] for error in errors if (match := _UNDEFINED.search(error.message))]
    wanted |= {found.lastgroup for name in undefined if (found := _STANDARD_MACROS.fullmatch(name)) and found.lastgroup}
    wanted -= set(state.standard)
    if wanted:
        # nvcc reads host headers first, and sources rely on what these bring; other errors may follow from it.
        state.standard += sorted(wanted)
        return True
    for error in errors:
        missing = _NOT_FOUND.search(error.message)
        expression = _BAD_EXPRESSION.search(error.message)
        if missing:
            progress = _stub_header(missing[1], error, state, files) or progress
        elif expression:
            progress = _skip_expression(expression[1], error, errors, state, templates) or progress
        else:
            progress = _refuse(error, state, files, blanked) or progress
    if not progress and state.expressions:
        # An instantiation that the host code may never make: the plain kernels are worth having without it.
        first = errors[0] if errors else None
        for text in state.expressions:
            reason = f"{first.place}: {first.message}" if first else "the compiler failed"
            state.notes.append(_skipped_note(text, reason))
        state.expressions = []
        return True
    return progress


def _stub_header(name: str, error: Diagnostic, state: _State, files: dict[str, SourceFile]) -> bool:
    if name in state.empty:
        return False
    file = files.get(error.place.file)
    lines = file.text.split("\n") if file is not None else []
    line = lines[error.place.line - 1] if 0 < error.place.line <= len(lines) else ""
    if f"<{name}>" not in line:
        return False
    state.empty[name] = error.place
    state.notes.append(
        CompileNote(
            "stub-header",
            f"{name} was not found and is taken as empty; if device code needs it, give its folder as an include path",
            Place(error.place.file, error.place.line),
        )
    )
    return True


def _skipped_note(expression: str, reason: str) -> CompileNote:
    return CompileNote(
        "skipped-instantiation",
        f"host code names {expression}, which could not be instantiated ({reason});"
        f" give its arguments as a name expression",
    )


def _skip_expression(
    text: str,
    error: Diagnostic,
    errors: Sequence[Diagnostic],
    state: _State,
    templates: Sequence[KernelTemplate],
) -> bool:
    wanted = "".join(text.split())
    for expression in list(state.expressions):
        if "".join(expression.split()) == wanted:
            state.expressions.remove(expression)
            first = next(other for other in errors if other.place.line == error.place.line)
            unknown = _UNDEFINED.search(first.message)
            choices = boolean_choices(expression, unknown[1], templates) if unknown else ()
            if choices and len(state.expressions) < _MAX_EXPRESSIONS:
                state.expressions += [choice for choice in choices if choice not in state.expressions]
                return True
            state.notes.append(_skipped_note(expression, first.message))
            return True
    return False


def _refuse(error: Diagnostic, state: _State, files: dict[str, SourceFile], blanked: dict[str, Blanked]) -> bool:
    """Mark the declaration that the error stands in as host code, if it may be that."""
    part, file = _part_at(error, files, blanked)
    if part is None or file is None or part.verdict != "unsure":
        return False
    extent = (part.declaration.start, part.declaration.end)
    before = state.refused.get(file.key, frozenset())
    if extent in before:
        return False
    state.refused[file.key] = before | {extent}
    state.hidden.append((part.declaration.name, error))
    line, _ = line_index(file.text)(extent[0])
    what = f"`{part.declaration.name}`" if part.declaration.name else "a declaration"
    state.notes.append(
        CompileNote(
            "blanked-code",
            f"{what} does not compile for the device and was taken for host code: {error.message}",
            Place(file.name, line),
        )
    )
    return True


def _part_at(
    error: Diagnostic, files: dict[str, SourceFile], blanked: dict[str, Blanked]
) -> tuple[Part | None, SourceFile | None]:
    """The smallest declaration around the error's place; the class, for a field of it."""
    place = error.place
    if place.file not in files:
        seen = next((match for line in error.lines if (match := _SEEN_FROM.search(line))), None)
        if seen is None or seen[2] not in files:
            return None, None
        place = Place(seen[2], int(seen[1]))
    file = files[place.file]
    lines = file.text.split("\n")
    if not 0 < place.line <= len(lines):
        return None, None
    start = sum(len(line) + 1 for line in lines[: place.line - 1])
    low, high = (start + place.column - 1,) * 2 if place.column else (start, start + len(lines[place.line - 1]))
    around = [
        part
        for part in blanked[file.key].parts
        if part.declaration.start <= high
        and low <= part.declaration.end
        and not (part.in_class and part.declaration.kind == "variable")
    ]
    return min(around, key=lambda part: part.declaration.end - part.declaration.start, default=None), file


def _final_error(
    errors: Sequence[Diagnostic], log: str, state: _State, tree: SourceTree, blanked: dict[str, Blanked]
) -> CompileError:
    """The errors that remain, led by those in declarations that were taken for host code and are missed now."""
    missed = {name for error in errors for name in re.findall(r'"([A-Za-z_]\w*)"', error.message)}
    hidden = [error for name, error in state.hidden if name in missed]
    hint = ""
    for error in errors:
        found = _NOT_FOUND.search(error.message)
        if found:
            hint = f"give the folder of {found[1]} as an include path"
    if not hint and state.empty:
        hint = f"not found and taken as empty: {', '.join(state.empty)}; give their folder as an include path"
    hint = _host_hint(missed, tree, blanked) or hint
    return error_from([*hidden, *errors], log, tree.root.name, hint=hint)


def _host_hint(missed: set[str], tree: SourceTree, blanked: dict[str, Blanked]) -> str:
    for file in tree.files():
        locate = line_index(file.text)
        for part in blanked[file.key].parts:
            if part.verdict == "host" and part.declaration.name in missed:
                line, _ = locate(part.declaration.start)
                return (
                    f"{part.declaration.name} ({file.name}:{line}) is host code, which a kernel cannot use;"
                    " mark it __device__ or constexpr"
                )
    return ""
