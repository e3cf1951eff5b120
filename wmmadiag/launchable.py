"""A compiled kernel to be launched on NumPy arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from wmmadiag.errors import ConfigurationError
from wmmadiag.launch import Argument, Dim3, Launch, LoadedKernel, RunStats
from wmmadiag.place import Place

if TYPE_CHECKING:
    from wmmadiag.compile import Compilation, Entry, KernelParameter, Resources

Extent: TypeAlias = "int | Sequence[int]"
"""Blocks of a grid or threads of a block: one number, or one to three."""


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel, ready to be launched; `wmmadiag.kernel` makes one.

    Attributes:
        entry: its name, and where it is defined.
        compilation: the source that it comes from.
        parameters: in order, as the source declares them; empty for PTX.
        arch: the target it runs as.
    """

    entry: Entry
    compilation: Compilation
    parameters: tuple[KernelParameter, ...]
    arch: str
    _loaded: LoadedKernel

    @property
    def name(self) -> str:
        """With template arguments, without parameters."""
        return self.entry.demangled

    @property
    def place(self) -> Place | None:
        """Where it is defined, if known."""
        return self.entry.place

    @property
    def ptx(self) -> str:
        """The PTX text of its module."""
        return self.compilation.ptx

    def launch(self, grid: Extent, block: Extent, *arguments: Argument, shared: int = 0) -> RunStats:
        """Run to completion.

        Args:
            grid: blocks: one number, or (x, y, z).
            block: threads of a block, likewise.
            arguments: in the kernel's order. Arrays are passed as pointers and changed in place: C-contiguous, of the
                kernel's element size (float16 for `half*`; bfloat16 as `ml_dtypes.bfloat16` or as uint16). Numbers take
                the parameter's type; NumPy scalars must have its size; a struct is given as bytes.
            shared: dynamic shared memory, bytes.

        Raises:
            KernelFault: the launch died: out of bounds, misaligned, deadlock, trap, …; arrays keep what was written.
            BudgetError: it did not end within its limits.
            UnsupportedError: it reached something that is not emulated.
            ConfigurationError: grid, block or arguments do not fit the kernel.
        """
        self._check_arguments(arguments)
        names = tuple(one.name or f"argument {index}" for index, one in enumerate(self.parameters))
        return self._loaded.launch(
            Launch(_dim3("grid", grid), _dim3("block", block), arguments, _count("shared", shared), names)
        )

    def resources(self) -> Resources:
        """Registers, spills, stack and shared memory, as ptxas reports them.

        Raises:
            PtxasError: ptxas refuses the kernel.
        """
        from wmmadiag.compile import resources

        return next(one for one in resources(self.compilation) if one.entry == self.entry.name)

    def _check_arguments(self, arguments: Sequence[Argument]) -> None:
        if not self.parameters:
            return
        if len(arguments) != len(self.parameters):
            listed = ", ".join(f"{one.type} {one.name}".strip() for one in self.parameters)
            raise ConfigurationError(
                f"{self.name} takes {len(self.parameters)} arguments, {len(arguments)} were given",
                place=self.place,
                hint=f"its parameters: {listed}",
            )
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            _check_argument(parameter, argument, self.place)

    def __repr__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        return f"<wmmadiag kernel {self.name} for {self.arch}{where}>"


def _dim3(what: str, extent: Extent) -> Dim3:
    """(x, y, z) of what the user gave."""
    numbers = tuple(extent) if isinstance(extent, Sequence) else (extent,)
    if isinstance(extent, str) or not 1 <= len(numbers) <= 3:
        raise ConfigurationError(f"{what} {extent!r} is not one to three numbers", hint=f"write {what} as 4 or (4, 2)")
    x, y, z = (*(_count(what, one, 1) for one in numbers), 1, 1)[:3]
    return x, y, z


def _count(what: str, value: object, minimum: int = 0) -> int:
    """A whole number; NumPy's integers are taken, too, floats and booleans are not."""
    number: int | None
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise ConfigurationError(f"{what}: {value!r} is no whole number")
    if number < minimum:
        raise ConfigurationError(f"{what}: {number} is less than {minimum}")
    return number


def _check_argument(parameter: KernelParameter, argument: object, place: Place | None) -> None:
    """Refuse what C++ would refuse at the launch: an array for a number, or elements of another size or kind.

    An array of bytes, or of unsigned integers of the element's size, is taken as raw memory.
    """
    import numpy as np

    name, declared = parameter.name or "an unnamed parameter", parameter.type
    if isinstance(argument, (list, tuple)) or argument is None:
        raise ConfigurationError(
            f"{name}: cannot pass a {type(argument).__name__} for `{declared}`",
            place=place,
            hint="pass a NumPy array for a pointer, a number otherwise",
        )
    is_array = isinstance(argument, np.ndarray)
    if is_array and not parameter.pointer and parameter.dtype is not None:
        raise ConfigurationError(
            f"{name}: an array was given for the number `{declared}`", place=place, hint="pass array.item(), or bytes"
        )
    if not isinstance(argument, np.ndarray) or parameter.lanes > 1 or parameter.dtype is None:
        return
    size = _BYTES.get(parameter.dtype, 0)
    dtype = argument.dtype
    wrong_kind = parameter.dtype[0] in "fb" and dtype.kind in "ib"
    if 1 in (dtype.itemsize, size) or (dtype.itemsize == size and not wrong_kind):
        return
    wanted = _ARRAYS.get(parameter.dtype, parameter.dtype)
    raise ConfigurationError(
        f"{name}: an array of {dtype.name} was given for `{declared}`, whose elements are {parameter.dtype}",
        place=place,
        hint=f"pass array.astype({wanted}), or array.view(np.uint8) if these bytes are meant",
    )


_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "e4m3": 1, "e5m2": 1} | {
    f"{sign}{bits}": bits // 8 for sign in "iu" for bits in (8, 16, 32, 64)
}
_ARRAYS = {"f16": "np.float16", "bf16": "ml_dtypes.bfloat16", "f32": "np.float32", "f64": "np.float64"} | {
    f"{sign}{bits}": f"np.{'u' * (sign == 'u')}int{bits}" for sign in "iu" for bits in (8, 16, 32, 64)
}
