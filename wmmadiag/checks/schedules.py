"""The same launch in other legal orders: which outputs change?

A right kernel gives the same bits however its warps take turns, and whether its asynchronous copies land at once or as
late as they may. Orders tried: the warps of a block backwards, then rotated and shuffled (the same ones in every run),
every second one with copies that land at once.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.emulator import EmulatedKernel, EmulatorOptions
from wmmadiag.errors import BudgetError, WmmadiagError
from wmmadiag.launch import Launch
from wmmadiag.processes.deadline import seconds_left

_SEED = 7
_FEW = 12  # warps: of more there are more orders than anybody tries
_KEPT = 8


Order: TypeAlias = "tuple[tuple[int, ...], bool]"
"""In which order warps take turns, and whether asynchronous copies land at once."""

Result: TypeAlias = "dict[int, NDArray[np.uint8]] | WmmadiagError"
"""The arrays' bytes by argument, or what ended the launch."""


def orders(warps: int, count: int) -> Iterator[Order]:
    """`count` orders other than the plain one, each once, the most telling first; fewer where there are no more."""
    plain = tuple(range(warps))
    telling: list[Order] = [(plain[::-1], True), (plain, True), (plain[::-1], False)]
    tried: set[Order] = {(plain, False)}
    there_are = 2 * math.factorial(min(warps, _FEW)) if warps <= _FEW else math.inf
    generator = random.Random(_SEED)
    while count > 0 and len(tried) < there_are:
        order = telling.pop(0) if telling else (tuple(generator.sample(plain, warps)), len(tried) % 2 == 0)
        if order in tried:
            order = (order[0], not order[1])
        if order not in tried:
            tried.add(order)
            count -= 1
            yield order


@dataclass(slots=True)
class OtherOrders:
    """Runs of a launch in other orders, to be compared with the one that happens afterwards."""

    kernel: EmulatedKernel
    launch: Launch
    results: list[tuple[Order, Result]]

    def compared(self) -> Iterator[Finding]:
        """One finding per array whose bits depend on the order."""
        for index, array in self.launch.writable().items():
            ours = _bytes(array)
            changed: list[str] = []
            worst = 0
            for (order, eager), result in self.results:
                if isinstance(result, WmmadiagError):
                    continue
                different = np.flatnonzero(result[index] != ours)
                if different.size:
                    elements = np.unique(different // array.itemsize)
                    worst = max(worst, int(elements.size))
                    at = np.unravel_index(int(elements[0]), array.shape)
                    first = "[" + ",".join(str(int(i)) for i in at) + "]"
                    changed.append(f"{_words(order, eager)}: {elements.size} elements, the first {first}")
            if changed:
                name = self.launch.names[index] if index < len(self.launch.names) else f"argument {index}"
                yield Finding(
                    "schedules",
                    "order-dependent",
                    Level.ERROR,
                    f"{name} depends on the order in which warps and asynchronous copies run: "
                    f"{worst} of {array.size} elements change",
                    self.kernel.kernel.place(0),
                    count=len(changed),
                    detail=tuple(changed),
                    hint="--checks races names the accesses that nothing orders",
                )
        for (order, eager), result in self.results:
            if isinstance(result, WmmadiagError):
                yield Finding(
                    "schedules",
                    "order-fatal",
                    Level.ERROR,
                    f"with {_words(order, eager)} the launch does not end: {result.message}",
                    result.place or self.kernel.kernel.place(0),
                    hint="--checks races,barriers names what nothing orders",
                )


def other_orders(kernel: EmulatedKernel, launch: Launch, count: int) -> OtherOrders:
    """Run a launch in `count` other orders; the arrays are as before afterwards.

    Of orders with the same results the first is kept, and at most `_KEPT` of all: that many are enough to show.

    Raises:
        BudgetError: the time is over.
    """
    results: list[tuple[Order, Result]] = []
    arrays = launch.writable()
    if count > 0:
        before = launch.contents()
        warps = -(-launch.block[0] * launch.block[1] * launch.block[2] // 32)
        for order, eager in orders(warps, count):
            options: EmulatorOptions = replace(
                kernel.options, warp_order=order, eager_copies=eager, checks=(), observer=None
            )
            seconds_left()
            try:
                EmulatedKernel(kernel.kernel, options).launch(launch.unnoted())
                result: Result = {index: _bytes(array).copy() for index, array in arrays.items()}
            except BudgetError:
                seconds_left()  # no property of the order, where the time is over
                raise
            except WmmadiagError as error:
                result = error
            if len(results) < _KEPT and not any(_same(result, known) for _, known in results):
                results.append(((order, eager), result))
            launch.restore(before)
    return OtherOrders(kernel, launch, results)


def _same(one: Result, other: Result) -> bool:
    if isinstance(one, WmmadiagError) or isinstance(other, WmmadiagError):
        return isinstance(one, WmmadiagError) and isinstance(other, WmmadiagError) and one.message == other.message
    return all(np.array_equal(data, other[index]) for index, data in one.items())


def _bytes(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _words(order: tuple[int, ...], eager: bool) -> str:
    shown = ", ".join(map(str, order[:8])) + (", …" if len(order) > 8 else "")
    copies = ", copies landing at once" if eager else ", copies landing as late as they may"
    return f"warps in the order {shown}{copies}"
