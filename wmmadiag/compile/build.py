"""NVRTC on a source that holds host code: blank it, compile, and blank what the compiler still refuses as host code."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from wmmadiag.compile.attempts import Attempts
from wmmadiag.compile.diagnostics import Diagnostic, errors_in
from wmmadiag.compile.host_headers import STUBS, brought, is_host_header
from wmmadiag.compile.host_only import judged
from wmmadiag.compile.instantiations import (
    kernel_templates,
    qualified_expressions,
    scoped_arguments,
    wanted_instantiations,
)
from wmmadiag.compile.learned import learned
from wmmadiag.compile.limits import check_limits
from wmmadiag.compile.model import CompileNote
from wmmadiag.compile.nvrtc import NvrtcResult, run_nvrtc
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.own_files import OwnFiles
from wmmadiag.compile.precompiled import in_use, precompiling
from wmmadiag.compile.sources import SourceTree, in_memory
from wmmadiag.compile.standard import stand_in, text_of
from wmmadiag.compile.toolchain import Toolchain
from wmmadiag.csource.edits import ByteEdit
from wmmadiag.csource.lambdas import NAME, appended, opening_edits

PRELUDE = "wmmadiag_prelude.h"
ASK = "wmmadiag_ask.h"
_MAX_ROUNDS = 24


@dataclass(frozen=True, slots=True)
class Built:
    """A successful compilation."""

    result: NvrtcResult  # NVRTC's answer
    own: OwnFiles  # the user's files
    texts: Mapping[str, bytes]  # key of a file → what was compiled in its place, where something was left out
    empty: tuple[str, ...]  # headers that were taken as empty
    expressions: tuple[str, ...]  # the name expressions that were instantiated, the user's and those found in host code
    templates: tuple[str, ...]  # qualified names of the kernel templates in the source
    notes: tuple[CompileNote, ...]  # headers taken as empty, declarations taken for host code, instantiations left out
    # standard headers that were read first, because device code uses them without including them
    standard: tuple[str, ...]
    attempts: Attempts = field(repr=False)  # what led to it


class QuestionsBehind(Protocol):
    """Questions that are written behind a source (`wmmadiag.compile.ask`)."""

    def text(self) -> str:
        """What to write there."""

    def owner(self, error: Diagnostic) -> int | None:
        """The number of the question that an error is about, if it is about one."""

    def drop(self, errors: Sequence[Diagnostic]) -> bool:
        """Leave out the questions that errors are about; False where there are none."""


def build(
    tree: SourceTree,
    options: CompileOptions,
    tools: Toolchain,
    *,
    cubin: bool = False,
    behind: QuestionsBehind | None = None,
    earlier: Built | None = None,
) -> Built:
    """Compile a source by NVRTC to PTX, or to a cubin with ptxas' report in the log.

    Args:
        behind: questions that are compiled with it, in place of its kernels.
        earlier: a compilation of the same files with the same macros, whose findings need not be made again.

    Raises:
        CompileError: the compiler refused it for a reason that is not host code.
        ConfigurationError: NVRTC refused an option.
    """
    own = earlier.own if earlier is not None else OwnFiles(tree, options.macros)
    if earlier is None:
        check_limits(own)
    text = behind.text() if behind is not None else ""
    classes = _lambdas(own, options.name_expressions)
    parts = judged(
        own.sources, (*options.name_expressions, text, *(one.decode("utf-8", "replace") for one in classes.values()))
    )
    templates = kernel_templates(own.kernels())
    everything = [part for some in parts.values() for part in some]
    named = scoped_arguments(qualified_expressions(options.name_expressions, templates), everything)
    found: tuple[str, ...] = ()
    if not named and behind is None:
        found = scoped_arguments(wanted_instantiations(own.sources, parts, templates), everything)
    attempts = Attempts(own, templates, list(found), parts, classes, named=named)
    if earlier is not None:
        attempts.resume(earlier.attempts)
    known = learned(tree, options)
    if earlier is None and known.asked is not None:
        attempts.resume_headers(known.asked.attempts)
    host_headers = tuple(name for name in tree.unresolved if is_host_header(name))
    for _ in range(_MAX_ROUNDS):
        empty = (*host_headers, *attempts.empty)
        expressions = (*named, *attempts.expressions)
        texts = attempts.texts()
        root, headers = in_memory(tree, texts, _opened(own, classes, texts))
        headers.update(_stubs(tree, empty))
        headers.update(_named(attempts.standard))
        standard = attempts.standard if behind is None else [*attempts.standard, ASK]
        flags = nvrtc_options(options, tools, tree, standard, cubin=cubin)
        folder = options.precompiled or known.folder(questions=behind is not None)
        if folder is not None:
            flags += precompiling(headers, folder, tools)
        root += behind.text().encode("utf-8", "surrogateescape") if behind is not None else b""
        started = time.perf_counter()
        with in_use() if folder is not None else nullcontext():
            result = run_nvrtc(root, tree.root.name, flags, headers=headers, name_expressions=expressions)
        known.took(time.perf_counter() - started, questions=behind is not None)
        if result.ok:
            return Built(
                result,
                own,
                attempts.texts(),
                empty,
                expressions,
                tuple(template.qualified_name for template in templates),
                attempts.notes(),
                tuple(attempts.standard),
                attempts,
            )
        errors = errors_in(result.log)
        of_source = [one for one in errors if behind is None or behind.owner(one) is None]
        if not attempts.react(of_source) and not (behind is not None and behind.drop(errors)):
            break
    raise attempts.failure(errors, result.log)


def _lambdas(own: OwnFiles, expressions: Sequence[str]) -> dict[str, bytes]:
    """Key of a file → the classes for those of its extended lambdas that name expressions name."""
    wanted = frozenset(name for text in expressions for name in NAME.findall(text))
    if not wanted:
        return {}
    made = {key: appended(source, source.name, wanted) for key, source in own.sources.items()}
    return {key: text for key, text in made.items() if text}


def _opened(own: OwnFiles, classes: Mapping[str, bytes], texts: Mapping[str, bytes]) -> dict[str, list[ByteEdit]]:
    """What opens the classes whose members such lambdas reach, where these are compiled."""
    found = {}
    for key, made in classes.items():
        wanted, text = frozenset(NAME.findall(made.decode("utf-8", "replace"))), texts.get(key, b"")
        data = own.sources[key].data
        edits = opening_edits(own.sources[key], wanted)
        found[key] = [one for one in edits if text[one.start - 1 : one.end] == data[one.start - 1 : one.end]]
    return found


def _stubs(tree: SourceTree, names: Sequence[str]) -> dict[str, bytes]:
    """What stands for headers that are for the host alone, or not there."""
    return {one: brought(one) if is_host_header(one) else stand_in(tree) for one in names}


def _named(standard: Sequence[str]) -> dict[str, bytes]:
    """The texts of those headers that are no files."""
    return {name: text for name in standard if (text := text_of(name)) is not None}


def rebuild(
    built: Built, edits: Mapping[str, Sequence[ByteEdit]], before: str, options: CompileOptions, tools: Toolchain
) -> str | None:
    """The PTX of the same texts with some edits (key of a file → what is changed), `before` read first; None if that
    does not compile."""
    name = "wmmadiag_before.h"
    tree = built.own.tree
    flags = [
        f"--pre-include={name}" if flag == f"--pre-include={PRELUDE}" else flag
        for flag in nvrtc_options(options, tools, tree, built.standard)
    ]
    root, headers = in_memory(tree, built.texts, edits)
    headers.update(_stubs(tree, built.empty))
    headers.update(_named(built.standard))
    headers[name] = f'#include "{PRELUDE}"\n{before}'.encode()
    result = run_nvrtc(root, tree.root.name, flags, headers=headers, name_expressions=built.expressions)
    return result.ptx if result.ok else None


def nvrtc_options(
    options: CompileOptions, tools: Toolchain, tree: SourceTree, standard: Sequence[str] = (), *, cubin: bool = False
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
