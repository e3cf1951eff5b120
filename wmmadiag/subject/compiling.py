"""Compiling the subjects of one check, and what ptxas says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from wmmadiag.compile.model import Compilation, source_name
from wmmadiag.compile.options import CompileOptions
from wmmadiag.errors import CompileError, ConfigurationError
from wmmadiag.results.model import CompiledVariant, KernelReport, ResourceUse
from wmmadiag.subject.card import Card

Texts: TypeAlias = Mapping[Path, str]
"""Texts in place of files': resolved path → text, of a source or of headers that it includes."""
_Key = tuple[str, tuple[tuple[str, str | None], ...], str]


def options_of(card: Card, arch: str, entries: Sequence[str], macros: Mapping[str, str]) -> CompileOptions:
    """With what options kernels of a card are compiled.

    Args:
        entries, macros: as they are rendered for a case and variant.
    """
    return CompileOptions(
        arch=arch,
        macros={name: value or None for name, value in macros.items()},
        include_paths=card.include_paths,
        std=card.std,
        own=card.own_headers,
        name_expressions=tuple(one for one in entries if "<" in one),
    )


class SubjectCompiler:
    """Compiles sources for `check_card`, and keeps what each kernel needs on the chip.

    Args:
        use_cache: whether compilations may come from the cache on disk.
        resources: also compile to a cubin; what ptxas refuses is then the kernel's error.
    """

    def __init__(self, *, use_cache: bool = True, resources: bool = False) -> None:
        self.use_cache = use_cache
        self.resources = resources
        self._use: dict[_Key, ResourceUse | str] = {}

    def __call__(self, path: Path, options: CompileOptions) -> Compilation:
        """Compile one source.

        Raises:
            CompileError: the compiler, or ptxas where resources are asked for, refused it.
            ConfigurationError: no such file, or a part of the installation is missing.
        """
        from wmmadiag.compile.driver import compile_source

        compilation = compile_source(path, options, use_cache=self.use_cache)
        if self.resources:
            self._measure(path, options.macros, compilation)
        return compilation

    def changed(self, path: Path, options: CompileOptions, texts: Texts) -> Compilation:
        """Compile one source with the texts of some files replaced; what it needs on the chip is not measured.

        Raises: as `__call__`.
        """
        from wmmadiag.compile.driver import compile_text
        from wmmadiag.compile.sources import read_text

        own = path.resolve()
        text = texts[own] if own in texts else read_text(path)
        headers = {file.as_posix(): text for file, text in texts.items() if file != own}
        return compile_text(text, source_name(path), options, use_cache=self.use_cache, headers=headers or None)

    def _measure(self, path: Path, macros: Mapping[str, str | None], compilation: Compilation) -> None:
        from wmmadiag.compile.resource_report import resources

        names = {entry.name: entry.demangled for entry in compilation.entries}
        try:
            found = resources(compilation)
        except CompileError:
            raise
        except ConfigurationError as error:  # a PTX file, and no ptxas: the check itself does not need it
            for name in names.values():
                self._use[_key(path, macros, name)] = f"registers and spills are not known: {error.message}"
            return
        for one in found:
            self._use[_key(path, macros, names.get(one.entry, one.entry))] = ResourceUse(
                registers=one.registers,
                spill_stores=one.spill_stores,
                spill_loads=one.spill_loads,
                stack=one.stack,
                static_shared=one.shared,
            )

    def completed(self, report: KernelReport, card: Card) -> KernelReport:
        """The report with the resources of its kernels."""
        return replace(report, compiled=tuple(self._with_use(one, card) for one in report.compiled))

    def _with_use(self, compiled: CompiledVariant, card: Card) -> CompiledVariant:
        path = card.variant(compiled.variant).source or card.source
        macros = {name: value or None for name, value in compiled.macros.items()}
        use = self._use.get(_key(path, macros, compiled.entry))
        if isinstance(use, str):
            return replace(compiled, notes=(*compiled.notes, use))
        return compiled if use is None else replace(compiled, resources=use)


def _key(path: Path, macros: Mapping[str, str | None], entry: str) -> _Key:
    return str(path), tuple(macros.items()), entry
