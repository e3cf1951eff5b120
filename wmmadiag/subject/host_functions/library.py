"""A compiled call of a host function: run on arrays, or asked how many elements of each it touches.

Run in a child process alone (`reference_process`): the user's code may do anything.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compile import cache
from wmmadiag.compile.host_compiler import compiler_version, host_compiler, run_compiler
from wmmadiag.csource.scalars import scalar_named
from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.subject.host_functions.text import CallArray

UNWRITTEN, UNSAID = -1.0, -2.0
"""The magnitudes of an element that nothing has written, and of a NaN that the source writes, as in `real.hpp`."""

_FLAGS = ("-O2", "-std=c++17", "-fPIC", "-shared", "-w", "-ffp-contract=off", "-fwrapv")
_DRAWN = 1 << 20  # elements of an array that the functions alone have: more than what is tried has
_STOPPED = 30  # seconds of a processor for what makes no operations and does not end
_KIND, _MOST_KEPT, _MOST_BYTES = "host-functions", 64, 1 << 28


def compiled(text: str, shown: str) -> Path:
    """The shared object of a source that `text.source_text` made, from the cache if it is there.

    Raises:
        CompileError: it does not compile.
        ConfigurationError: there is no compiler.
    """
    compiler = host_compiler()
    key = cache.digest([text, compiler, compiler_version(compiler), *_FLAGS])
    folder = cache.cache_folder() / _KIND
    made = folder / f"{key}.so"
    if made.is_file():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("*.so"), key=lambda one: one.stat().st_mtime)[:-_MOST_KEPT]:
        old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        source, new = Path(scratch) / "call.cpp", Path(scratch) / "call.so"
        source.write_text(text, "utf-8", "surrogateescape")
        run_compiler([compiler, *_FLAGS, "-o", str(new), str(source)], shown)
        new.replace(made)
    return made


def extents(
    library: Path, arrays: Sequence[CallArray], numbers: Sequence[float], below: int, work: int
) -> list[int] | None:
    """How many elements of each array a call touches; None where it does not end, or takes too many.

    Args:
        below: what integers in arrays are less than; they are `given_integer`'s.
        work: the operations that may be made to find out.
    """
    loaded = ctypes.CDLL(str(library))
    whole = (ctypes.c_int * len(arrays))(*(_bytes(one) for one in arrays))
    found = (ctypes.c_long * len(arrays))()
    given = (ctypes.c_double * max(1, len(numbers)))(*numbers)
    limits = tuple(map(ctypes.c_long, (below, _MOST_BYTES, work, _STOPPED)))
    ended = loaded.wmmadiag_extents(len(arrays), whole, given, *limits, found)
    return list(found) if ended else None


def given_integer(below: str) -> str:
    """The expression of an integer array's elements, as `driver.hpp` fills them."""
    return f"(i*7919 + i//13) % ({below})"


def run(
    library: Path,
    arrays: Sequence[CallArray],
    given: Mapping[str, NDArray[Any]],
    counts: Mapping[str, int],
    numbers: Sequence[float],
    units: tuple[float, float],
    roundings: Mapping[str, float] = MappingProxyType({}),
    work: int = 0,
) -> tuple[dict[str, Doubles], int] | None:
    """Call the function: what each array of numbers holds afterwards, and how many comparisons rounding decides.

    Args:
        given: what arrays hold before; others of `counts` begin as unwritten, and what has no count is the
            functions' own: large enough, and random.
        units: of one rounding, and of tanh. roundings: of the types that hold arrays, relative.
        work: the operations that it may make, 0 for as many as it likes.

    Returns:
        (value, error, magnitude) of each element, flat, by name; None where the call does not end.
    """
    loaded = ctypes.CDLL(str(library))
    held = {one.name: _storage(one, given.get(one.name), counts.get(one.name)) for one in arrays}
    pointers = (ctypes.c_void_p * max(1, len(arrays)))(*(held[one.name].ctypes.data for one in arrays))
    values = (ctypes.c_double * max(1, len(numbers)))(*numbers)
    ambiguous = ctypes.c_long()
    sizes = (ctypes.c_long * max(1, len(arrays)))(*(counts.get(one.name, 0) for one in arrays))
    kept = (ctypes.c_double * max(1, len(arrays)))(*(roundings.get(one.name, 0.0) for one in arrays))
    given_units = (ctypes.c_double * 2)(*units)
    known = {*given, *(name for name, count in counts.items() if count)}
    held_bytes = (ctypes.c_long * max(1, len(arrays)))(*(held[one.name].nbytes for one in arrays))
    rooms = (ctypes.c_long * max(1, len(arrays)))(
        *(held[one.name].nbytes if one.name in known else _MOST_BYTES for one in arrays)
    )
    limits = (ctypes.c_long(work), ctypes.c_long(_STOPPED))
    ended = loaded.wmmadiag_run(
        len(arrays), pointers, held_bytes, rooms, values, given_units, sizes, kept, *limits, ctypes.byref(ambiguous)
    )
    if not ended:
        return None
    left = {name: array.reshape(-1, 3) if array.dtype == np.float64 else array for name, array in held.items()}
    return left, ambiguous.value


def _storage(one: CallArray, given: NDArray[Any] | None, count: int | None) -> NDArray[Any]:
    if one.type:
        plain = _integers(one)
        return np.zeros(count or _DRAWN, plain) if given is None else given.astype(plain).reshape(-1)
    if count is None and given is None:
        numbers = np.random.default_rng(len(one.name)).standard_normal(_DRAWN)
        return np.stack([numbers, np.zeros(_DRAWN), np.abs(numbers)], axis=1).reshape(-1)
    made = np.empty(((count or 0) if given is None else given.size, 3))
    if given is None:
        made[...] = (np.nan, 0.0, UNWRITTEN)
    else:
        made[:, 0] = given.astype(np.float64).reshape(-1)
        made[:, 1] = 0
        made[:, 2] = np.abs(made[:, 0])
    return made.reshape(-1)


def _bytes(one: CallArray) -> int:
    known = scalar_named(one.type) if one.type else None
    return 0 if known is None else known.bytes


def _integers(one: CallArray) -> np.dtype[Any]:
    known = scalar_named(one.type)
    assert known is not None
    return np.dtype(f"{known.dtype[0]}{known.bytes}")
