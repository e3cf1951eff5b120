"""The device half compiled beside the host half, before that says which instantiations it uses.

What it makes of a source is final where the host half uses what its host code says. Where that does not say it, NVRTC,
which spends most of its time on headers, keeps those precompiled, and is asked again once the host half is there.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from wmmadiag.compile.driver import keep_as
from wmmadiag.compile.host_only import judged
from wmmadiag.compile.instantiations import kernel_templates, wanted_instantiations
from wmmadiag.compile.model import Compilation
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.own_files import OwnFiles
from wmmadiag.errors import WmmadiagError
from wmmadiag.processes.scratch import scratch_folder
from wmmadiag.programs.build import ALLOCATED, BuiltProgram, ProgramSource, build
from wmmadiag.programs.device_ptx import device_ptx, is_large
from wmmadiag.programs.kernel_names import expression_of

_KERNELS = re.compile(rb"\b__global__\b|\b__device__\b")
_ASKS = re.compile(rb"\b(?:" + "|".join(sorted(ALLOCATED)).encode() + rb")\b")


@dataclass
class Ahead:
    """A compilation that may be begun before the host half is there; without a second processor it is not.

    Attributes:
        options: for the compiler.
    """

    options: CompileOptions
    _worker: threading.Thread | None = field(default=None, init=False)
    _folder: tempfile.TemporaryDirectory[str] | None = field(default=None, init=False)
    _made: dict[str, Compilation] = field(default_factory=dict, init=False)
    _precompiled: dict[str, CompileOptions] = field(default_factory=dict, init=False)
    _left: bool = field(default=False, init=False)

    def begin(self, sources: Sequence[OwnFiles]) -> None:
        """Compile what the host half, which begins to be compiled, is likely to use."""
        if len(os.sched_getaffinity(0)) > 1:
            self._worker = threading.Thread(target=self._guess, args=(sources,), name="ahead")
            self._worker.start()

    def _guess(self, sources: Sequence[OwnFiles]) -> None:
        texts = [b"\n".join(file.data for file in own.tree.every()) for own in sources]
        registers = any(map(_ASKS.search, texts))
        for own, text in zip(sources, texts, strict=True):
            if not _KERNELS.search(text) or self._left:
                continue
            name, options = own.tree.root.name, self.options
            with suppress(WmmadiagError):  # whoever needs it says so
                if not _foreseen(own):
                    self._folder = self._folder or tempfile.TemporaryDirectory(
                        dir=scratch_folder("ahead"), ignore_cleanup_errors=True
                    )
                    options = self._precompiled[name] = replace(options, precompiled=Path(self._folder.name))
                self._made[name] = device_ptx(ProgramSource(name, {}, frozenset(), ()), options, registers=registers)
            if self._left:  # what NVRTC was at has made its folder anew
                self.leave()

    def end(self, units: Sequence[ProgramSource], *, registers: bool) -> None:
        """Keep what was guessed right, and compile what was not; from here on nothing goes on beside."""
        if self._worker is None:
            return
        self._worker.join()
        for unit in units:
            if not unit.expressions or is_large(unit):
                continue
            made = self._made.get(unit.source)
            with suppress(WmmadiagError):
                if made is not None and _has(made, unit.expressions):
                    keep_as(made, replace(made.options, name_expressions=unit.expressions))
                elif unit.source in self._precompiled:
                    device_ptx(unit, self._precompiled[unit.source], registers=registers)

    def leave(self) -> None:
        """Nothing of it is left behind, whatever still goes on."""
        self._left = True
        if self._folder is not None:
            self._folder.cleanup()


def build_with_device(source: Path, options: CompileOptions, *, use_cache: bool = True) -> BuiltProgram:
    """Compile a program of one source, both halves at a time where there are processors for them.

    Raises: as `wmmadiag.programs.build.build`.
    """
    ahead = Ahead(options.of_a_program())
    try:
        program = build([source], options, beside=ahead.begin if use_cache else None)
        ahead.end(program.units, registers=program.registers)
    finally:
        ahead.leave()
    return program


def _foreseen(own: OwnFiles) -> bool:
    """Whether host code writes the arguments of all templates of kernels: NVRTC is likely to be asked once then."""
    templates = kernel_templates(own.kernels())
    if not templates:
        return True
    named = wanted_instantiations(own.sources, judged(own.sources), templates)
    return {one.qualified_name for one in templates} == {one.partition("<")[0] for one in named}


def _has(compilation: Compilation, expressions: Sequence[str]) -> bool:
    return {expression_of(one.demangled) for one in compilation.entries if one.name_expression}.issuperset(expressions)
