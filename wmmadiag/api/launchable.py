"""A compiled kernel to be launched on NumPy arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from wmmadiag.backends import backend
from wmmadiag.errors import ConfigurationError
from wmmadiag.launch import Argument, ArgumentView, Dim3, Launch, LoadedKernel, RunStats
from wmmadiag.place import Place

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wmmadiag.checks.finding import Finding
    from wmmadiag.compile.ask.signatures import KernelParameter
    from wmmadiag.compile.model import Compilation, Entry, Resources

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

    def launch(self, grid: Extent, block: Extent, *arguments: Argument | None, shared: int = 0) -> RunStats:
        """Run to completion.

        Args:
            grid: blocks: one number, or (x, y, z).
            block: threads of a block, likewise.
            arguments: in the kernel's order. Arrays are passed as pointers and changed in place: C-contiguous, of the
                kernel's element size (float16 for `half*`; bfloat16 as `ml_dtypes.bfloat16` or as uint16); None is
                the null pointer. Numbers take the parameter's type; a struct is given as bytes.
            shared: dynamic shared memory, bytes.

        Raises:
            KernelFault: the launch died: out of bounds, misaligned, deadlock, trap, …; arrays keep what was written.
            BudgetError: it did not end within its limits.
            UnsupportedError: it reached something that is not emulated.
            ConfigurationError: grid, block or arguments do not fit the kernel.
        """
        return self._loaded.launch(self._launch_of(grid, block, arguments, shared))

    def check(
        self,
        grid: Extent,
        block: Extent,
        *arguments: Argument | None,
        shared: int = 0,
        checks: str | Sequence[str] = "default",
        fresh: Sequence[str] | Mapping[str, slice] = (),
        schedules: int = 0,
    ) -> tuple[Finding, ...]:
        """Launch on the emulator and say what checks found, the gravest first; arrays are changed as by `launch`.

        Args:
            grid, block, arguments, shared: as for `launch`.
            checks: "all", "default", or names (`wmmadiag.checks.all_checks`).
            fresh: names of pointer parameters whose arrays hold nothing yet: reading them before they are written is
                found, too. Where a part of an array does, a dict of names and slices of the first axis:
                `{"out": slice(64, None)}`.
            schedules: other orders of warps and asynchronous copies to run; outputs whose bits change are found.

        Returns:
            The findings; a launch that died is one of them (its `check` is "launch"), with what was found until then.

        Raises:
            ConfigurationError: grid, block, arguments or names do not fit.
            BudgetError, UnsupportedError: as `launch`.

        Examples:
            >>> import numpy as np, wmmadiag
            >>> shift = wmmadiag.kernel('''
            ... __global__ void shift(float* x) {
            ...     __shared__ float s[32];
            ...     s[threadIdx.x] = x[threadIdx.x];
            ...     x[threadIdx.x] = s[threadIdx.x ^ 32];
            ... }''')
            >>> [one.kind for one in shift.check(1, 32, np.zeros(32, np.float32))]
            ['out-of-bounds']
        """
        from wmmadiag.checks.launched import check_launch
        from wmmadiag.checks.registry import native_names, select

        chosen = select(checks)
        loader = backend("emulator", None, native_names(chosen))
        loaded = loader(self.compilation.ptx, self.entry.name, arch=self.arch)
        launch = self._launch_of(grid, block, arguments, shared)
        parts = fresh if isinstance(fresh, Mapping) else dict.fromkeys(fresh, slice(None))
        unknown = sorted(set(parts) - set(launch.names))
        if unknown:
            raise ConfigurationError(
                f"{self.name} has no parameter '{unknown[0]}'", hint=f"known: {', '.join(launch.names)}"
            )
        return check_launch(loaded, self._with_views(launch, parts), chosen, _count("schedules", schedules))

    def _launch_of(self, grid: Extent, block: Extent, arguments: Sequence[Argument | None], shared: int) -> Launch:
        converted = tuple(self._converted(arguments))
        names = tuple(one.name or f"argument {index}" for index, one in enumerate(self.parameters))
        return Launch(_dim3("grid", grid), _dim3("block", block), converted, _count("shared", shared), names)

    def _with_views(self, launch: Launch, fresh: Mapping[str, slice]) -> Launch:
        """The launch with its arrays as tensors; those behind pointers to const are inputs."""
        import numpy as np

        views = tuple(
            ArgumentView(
                index,
                launch.names[index],
                argument.shape,
                tuple(stride // argument.itemsize for stride in argument.strides),
                written=not self.parameters[index].const,
            )
            for index, argument in enumerate(launch.arguments)
            if isinstance(argument, np.ndarray) and index < len(self.parameters) and argument.itemsize and argument.size
        )
        parts = tuple(
            (index, _bytes_of(argument, fresh[name], name))
            for index, (name, argument) in enumerate(zip(launch.names, launch.arguments, strict=True))
            if name in fresh and isinstance(argument, np.ndarray)
        )
        return replace(launch, views=views, fresh=parts)

    def resources(self) -> Resources:
        """Registers, spills, stack and shared memory, as ptxas reports them.

        Raises:
            PtxasError: ptxas refuses the kernel.
        """
        from wmmadiag.compile.resource_report import resources

        return next(one for one in resources(self.compilation) if one.entry == self.entry.name)

    def _converted(self, arguments: Sequence[Argument | None]) -> Iterator[Argument]:
        from wmmadiag.gpu.arrays import adopt

        if not self.parameters:  # PTX keeps no types
            for index, argument in enumerate(arguments):
                yield _NULL if argument is None else adopt(argument, f"argument {index}")
            return
        if len(arguments) != len(self.parameters):
            listed = ", ".join(f"{one.type} {one.name}".strip() for one in self.parameters)
            raise ConfigurationError(
                f"{self.name} takes {len(self.parameters)} arguments, {len(arguments)} were given",
                place=self.place,
                hint=f"its parameters: {listed}",
            )
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            yield _converted(parameter, adopt(argument, parameter.name), self.place)

    def __repr__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        return f"<wmmadiag kernel {self.name} for {self.arch}{where}>"


def _bytes_of(array: NDArray[Any], part: slice, name: str) -> range:
    """The bytes of a slice of an array's first axis."""
    start, stop, step = part.indices(len(array) if array.ndim else 1)
    if step != 1:
        raise ConfigurationError(f"fresh['{name}'] has a step of {step}", hint="give a slice without a step")
    row = array.nbytes // max(len(array) if array.ndim else 1, 1)
    return range(start * row, max(start, stop) * row)


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
        raise ConfigurationError(f"{what}: {value!r} is no whole number", hint="give an int")
    if number < minimum:
        raise ConfigurationError(f"{what}: {number} is less than {minimum}", hint=f"give at least {minimum}")
    return number


def _converted(parameter: KernelParameter, argument: object, place: Place | None) -> Argument:
    """What is passed for an argument; refused is what C++ would refuse at the launch.

    None for a pointer is the null pointer. An array of bytes, or of unsigned integers of the element's size, is taken
    as raw memory. NumPy's float64 and int64 scalars, which its arithmetic makes of any number, count as Python's.
    """
    import numpy as np

    from wmmadiag.gpu.arrays import DeviceArray
    from wmmadiag.numerics.element_types import element_type

    name, declared = parameter.name or "an unnamed parameter", parameter.type

    def refusal(message: str, hint: str) -> ConfigurationError:
        return ConfigurationError(f"{name}: {message}", place=place, hint=hint)

    if parameter.pointer:
        if argument is None:
            return _NULL
        if isinstance(argument, DeviceArray):
            return cast("Argument", argument)  # the GPU's launch takes it
        if not isinstance(argument, np.ndarray):
            what = type(argument).__name__
            raise refusal(f"cannot pass a {what} for `{declared}`", "pass a NumPy array, or None for a null pointer")
        _check_elements(parameter, argument, refusal)
        return argument
    if isinstance(argument, np.ndarray) and parameter.dtype is not None:
        raise refusal(f"an array was given for the number `{declared}`", "pass array.item()")
    if isinstance(argument, (np.float64, np.int64)) and parameter.facts.size != 8:
        argument = argument.item()
    if isinstance(argument, (int, float)) and parameter.lanes == 1 and parameter.dtype in ("f16", "bf16"):
        return _half(argument, parameter.dtype)  # a struct of two bytes to PTX, which tells no type
    # ml_dtypes' scalars have kind V
    known = element_type(parameter.dtype or "")
    if isinstance(argument, np.generic) and known is not None and (argument.dtype.kind in "fV") != known.is_float:
        raise refusal(f"a {argument.dtype.name} was given for `{declared}`", "convert it, or pass a Python number")
    if not isinstance(argument, (int, float, bytes, np.generic, np.ndarray)):
        raise refusal(
            f"cannot pass a {type(argument).__name__} for `{declared}`", "pass a number, or the bytes of a struct"
        )
    return argument


def _check_elements(
    parameter: KernelParameter, array: NDArray[Any], refusal: Callable[[str, str], ConfigurationError]
) -> None:
    """Refuse elements of another size or kind; vector types and structs may point to anything."""
    from wmmadiag.numerics.element_types import element_type

    known = element_type(parameter.dtype or "")
    if parameter.lanes > 1 or known is None:
        return
    size, dtype = known.bytes, array.dtype
    wrong_kind = known.is_float and dtype.kind in "ib"
    if 1 in (dtype.itemsize, size) or (dtype.itemsize == size and not wrong_kind):
        return
    library = "ml_dtypes" if known.name == "bf16" else "np"
    raise refusal(
        f"an array of {dtype.name} was given for `{parameter.type}`, whose elements are {parameter.dtype}",
        f"pass array.astype({library}.{known.storage}), or array.view(np.uint8) if these bytes are meant",
    )


def _half(value: float, dtype: str) -> bytes:
    """The two bytes of a number in half or bfloat16, rounded to nearest even."""
    import numpy as np

    if dtype == "f16":
        return np.float16(value).tobytes()
    import ml_dtypes

    return bytes(np.asarray(value, ml_dtypes.bfloat16).tobytes())


_NULL = bytes(8)
