"""The PTX of one source of a program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.model import Compilation, source_name
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.read import read_text
from wmmadiag.programs.build import ProgramSource

SEPARATELY = "--relocatable-device-code=true"

_LARGE = 16
"""Libraries dispatch over dozens of instantiations, of which a run launches few; each can take half a minute."""


def is_large(unit: ProgramSource) -> bool:
    """Whether a source has so many instantiations that those which are launched are compiled one by one at first."""
    return len(unit.expressions) > _LARGE


def device_ptx(
    unit: ProgramSource, options: CompileOptions, *, registers: bool, separately: bool = False, use_cache: bool = True
) -> Compilation:
    """The PTX of a source, with the instantiations that the host half uses.

    Args:
        registers: whether the program asks what needs its kernels' registers.
        separately: with functions that it does not call itself, for kernels of other sources.
    """
    extra = (*options.extra, *([SEPARATELY] if separately else ()))
    options = replace(options, name_expressions=unit.expressions, extra=extra)
    path = Path(unit.source)
    text = unit.text if unit.text is not None else read_text(path)
    return compile_text(text, source_name(path), options, use_cache=use_cache, assembled=registers)
