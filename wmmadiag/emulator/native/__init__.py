"""The native core: the engine for this CPU, and the parts of it that tests use directly.

Wheels have an engine library for each instruction set (baseline, AVX2, AVX-512), of which the best one that the CPU has
is opened; what is built from source has the one of the machine that built it, unless WMMADIAG_ENGINES=all. The
environment variable WMMADIAG_ISA chooses another, for tests: all give the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.errors import ConfigurationError, lacking_of
from wmmadiag.numerics.tensor_core import MmaRule

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


def trials(program: Any, *arguments: Any) -> Any:
    """A launch made ready for many selectors (trial.hpp); arguments as in bindings_trial.cpp."""
    return _core.trials(engine(), program, *arguments)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def lane_op_names() -> list[str]:
    """Names of all lane operations of the engine."""
    return list(engine().lane_op_names())


def modifier_fields() -> list[tuple[str, int, int]]:
    """(name, shift, bits) of each field of the modifiers word."""
    return list(_core.modifier_fields())


def lane_op(
    name: str,
    modifiers: int,
    active: int,
    sources: Sequence[NDArray[Any]],
    d: NDArray[Any],
    d2: NDArray[Any] | None = None,
    *,
    registers: int = 1,
    isa: str | None = None,
) -> None:
    """Run one lane operation: `sources`, `d` and `d2` hold 32 lanes (predicates: one uint32 mask).

    With `registers` it runs that many times, on arrays of as many times 32 lanes. `d` and `d2` must be C-contiguous;
    they are changed in place in the lanes of `active`.
    """
    outputs = [None if out is None else out.reshape(-1).view(np.uint8) for out in (d, d2)]
    inputs = [_bytes(source) for source in sources]
    engine(isa).lane_op(name, modifiers, active, inputs, outputs[0], outputs[1], registers)


_ELEMENT_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "f64": 8, "s32": 4}
_ELEMENT_BITS = {"s4": 4, "u4": 4, "b1": 1}


def _operand_bytes(element: str, rows: int, columns: int) -> int:
    return rows * columns * _ELEMENT_BITS.get(element, 8 * _ELEMENT_BYTES.get(element, 1)) // 8


def mma(
    rule: MmaRule, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], *, reference: bool = False, isa: str | None = None
) -> NDArray[np.uint8]:
    """D = A·B + C of one tile, operands and result packed as in `tensor_core.hpp`, as bytes.

    `a`: m lines of k elements; `b`: n lines (columns of B) of k elements; `c`: m lines of n elements.

    Raises:
        ValueError: an operand has the wrong size.
    """
    sizes = [
        _operand_bytes(rule.a, rule.m, rule.k),
        _operand_bytes(rule.b, rule.n, rule.k),
        _operand_bytes(rule.c, rule.m, rule.n),
    ]
    operands = [_bytes(operand) for operand in (a, b, c)]
    for name, operand, size in zip("abc", operands, sizes, strict=True):
        if operand.size != size:
            raise ValueError(f"operand {name} has {operand.size} bytes, not {size}")
    d = np.zeros(_operand_bytes(rule.d, rule.m, rule.n), np.uint8)
    engine(isa).mma(rule, *operands, d, reference)
    return d
