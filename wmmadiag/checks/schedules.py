"""The same launch in other legal orders: which outputs change?

A right kernel gives the same bits however its warps take turns, and whether its asynchronous copies land at once or as
late as they may. Orders tried: the warps of a block backwards, then rotated and shuffled (the same ones in every run),
every second one with copies that land at once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.emulator import EmulatedKernel, EmulatorOptions
from wmmadiag.errors import WmmadiagError
from wmmadiag.launch import Launch

_SEED = 7


def orders(warps: int, count: int) -> list[tuple[tuple[int, ...], bool]]:
    """`count` (warp order, whether copies land at once), the most telling first; fewer where there are no more."""
    plain = tuple(range(warps))
    chosen: list[tuple[tuple[int, ...], bool]] = [(plain[::-1], True), (plain, True), (plain[::-1], False)]
    generator = random.Random(_SEED)
    for _attempt in range(4 * count):
        if len(set(chosen)) >= count:
            break
        shuffled = generator.sample(plain, warps)
        chosen.append((tuple(shuffled), len(chosen) % 2 == 0))
    return list(dict.fromkeys(one for one in chosen if one != (plain, False)))[:count]


@dataclass(slots=True)
class OtherOrders:
    """Runs of a launch in other orders, to be compared with the one that happens afterwards."""

    kernel: EmulatedKernel
    launch: Launch
    results: list[tuple[tuple[int, ...], bool, dict[int, NDArray[np.uint8]] | WmmadiagError]]

    def compared(self) -> tuple[Finding, ...]:
        """One finding per array whose bits depend on the order."""
        found = []
        for index, array in _arrays(self.launch).items():
            ours = _bytes(array)
            changed: list[str] = []
            worst = 0
            for order, eager, result in self.results:
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
                found.append(
                    Finding(
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
                )
        for order, eager, result in self.results:
            if isinstance(result, WmmadiagError):
                found.append(
                    Finding(
                        "schedules",
                        "order-fatal",
                        Level.ERROR,
                        f"with {_words(order, eager)} the launch does not end: {result.message}",
                        result.place or self.kernel.kernel.place(0),
                        hint="--checks races,barriers names what nothing orders",
                    )
                )
        return tuple(found)


def other_orders(kernel: EmulatedKernel, launch: Launch, count: int) -> OtherOrders:
    """Run a launch in `count` other orders; the arrays are as before afterwards."""
    results: list[tuple[tuple[int, ...], bool, dict[int, NDArray[np.uint8]] | WmmadiagError]] = []
    arrays = _arrays(launch)
    if count > 0:
        before = {index: array.copy() for index, array in arrays.items()}
        warps = -(-launch.block[0] * launch.block[1] * launch.block[2] // 32)
        for order, eager in orders(warps, count):
            options: EmulatorOptions = replace(
                kernel.options, warp_order=order, eager_copies=eager, checks=(), observer=None
            )
            try:
                EmulatedKernel(kernel.kernel, options).launch(launch)
                results.append((order, eager, {index: _bytes(array).copy() for index, array in arrays.items()}))
            except WmmadiagError as error:
                results.append((order, eager, error))
            for index, array in arrays.items():
                array[...] = before[index]
    return OtherOrders(kernel, launch, results)


def _arrays(launch: Launch) -> dict[int, NDArray[np.generic]]:
    return {
        index: one for index, one in enumerate(launch.arguments) if isinstance(one, np.ndarray) and one.flags.writeable
    }


def _bytes(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _words(order: tuple[int, ...], eager: bool) -> str:
    shown = ", ".join(map(str, order[:8])) + (", …" if len(order) > 8 else "")
    copies = ", copies landing at once" if eager else ", copies landing as late as they may"
    return f"warps in the order {shown}{copies}"
