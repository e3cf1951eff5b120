"""The native core: the engine for this CPU.

Wheels have an engine library for each instruction set (baseline, AVX2, AVX-512), of which the best one that the CPU has
is opened; what is built from source has the one of the machine that built it, unless WMMADIAG_ENGINES=all. The
environment variable WMMADIAG_ISA chooses another, for tests: all give the same bits.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from wmmadiag.errors import ConfigurationError, lacking_of

try:
    import wmmadiag.emulator.native._core as _core
except ImportError as error:
    if lacking_of(error):
        raise
    raise ConfigurationError(
        f"the emulator's core is not built for this Python: {error}",
        hint="install wmmadiag (pip install .), and do not run it from inside a source tree that was not built",
    ) from error


SHARED_WINDOW: int = _core.shared_window
"""Generic address of the first byte of shared memory."""
LOCAL_WINDOW: int = _core.local_window
"""Generic address of the first byte of each lane's local memory."""
WINDOW_SIZE = 1 << 32
"""Bytes of each of these windows, as `memory.hpp` has them."""


_ENGINES = Path(_core.__file__).parent  # not this file's folder: an editable installation keeps them apart


_ORDER = ("baseline", "avx2", "avx512")
"""Instruction sets, each with all of those before it."""


def isas() -> tuple[str, ...]:
    """Instruction sets that this CPU has and for which an engine is installed; the best one last."""
    able = _ORDER[: _ORDER.index(str(_core.best_isa())) + 1]
    return tuple(name for name in able if (_ENGINES / f"engine_{name}.so").exists())


def isa() -> str:
    """The instruction set whose engine is used: WMMADIAG_ISA, or the best that this CPU and this installation have."""
    return os.environ.get("WMMADIAG_ISA") or next(reversed(isas()), "baseline")


@lru_cache
def engine(isa_name: str | None = None) -> Any:
    """The engine for an instruction set; None: the one of `isa()`.

    Raises:
        ConfigurationError: there is no such engine.
    """
    chosen = isa_name or isa()
    if chosen not in isas():
        raise ConfigurationError(
            f"no engine for instruction set {chosen!r} that this CPU can run",
            hint=f"set WMMADIAG_ISA to one of {', '.join(isas()) or '(none installed)'}, or install wmmadiag again on "
            "this machine (from source the engine is that of its builder's CPU; with WMMADIAG_ENGINES=all every one)",
        )
    return _core.open_engine(str(_ENGINES / f"engine_{chosen}.so"))


def debug(program: Any, *arguments: Any) -> Any:
    """The engine's debugger of a launch (debugger.hpp); arguments as in bindings_debugger.cpp."""
    return _core.debug(engine(), program, *arguments)


def trials(stages: Any, *arguments: Any) -> Any:
    """Launches made ready for many selectors (trial.hpp); arguments as in bindings_trial.cpp."""
    return _core.trials(engine(), stages, *arguments)


def lane_op_names() -> list[str]:
    """Names of all lane operations of the engine."""
    return list(engine().lane_op_names())


def modifier_fields() -> tuple[tuple[str, int, int], ...]:
    """(name, lowest bit, width in bits) of each modifier in the 32-bit word that the engine reads (modifiers.hpp)."""
    return tuple(_core.modifier_fields())
