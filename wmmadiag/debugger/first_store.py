"""When an output element of some set is written for the first time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.debugger.conditions import Conditions
from wmmadiag.debugger.machine import StoppableLaunch
from wmmadiag.subject.binding import BoundArgument, BoundCase


def first_store(
    machine: StoppableLaunch, case: BoundCase, masks: Mapping[str, NDArray[np.bool_]]
) -> tuple[int, str, tuple[int, ...]] | None:
    """Time before the store, role and index; None when none of these elements ever changes.

    By bisection over time: an element counts as written when its bytes are not those before the launch. The machine is
    right after the store, or at the end.

    Args:
        masks: role → elements, in the output's logical shape.
    """
    outputs = [(role, case.argument_of(role), mask) for role, mask in masks.items() if mask.any()]

    def written() -> tuple[str, tuple[int, ...]] | None:
        for role, argument, mask in outputs:
            changed = mask & _changed(argument, role)
            if changed.any():
                return role, tuple(map(int, np.argwhere(changed)[0]))
        return None

    machine.seek(0)
    end = machine.run(Conditions()).time
    if written() is None:
        return None
    low, high = 0, end  # not written at low, written at high
    while high - low > 1:
        middle = (low + high) // 2
        machine.seek(middle)
        low, high = (low, middle) if written() is not None else (middle, high)
    machine.seek(high)
    first = written()
    assert first is not None
    return high - 1, *first


def nearest_store(
    machine: StoppableLaunch, case: BoundCase, role: str, index: tuple[int, ...]
) -> tuple[int, tuple[int, ...]] | None:
    """Time and index of the store to the element of a tensor that lies nearest to another one; None: nothing stores.

    The machine is right after the store, or at the end.

    Args:
        index: the element that nothing stores; nearest in steps along the axes.
    """
    machine.seek(0)
    machine.run(Conditions())
    stored = np.argwhere(_changed(case.argument_of(role), role))
    if not len(stored):
        return None
    near = tuple(map(int, stored[np.abs(stored - np.array(index)).sum(axis=1).argmin()]))
    mask = np.zeros(case.argument_of(role).view(role).shape, np.bool_)
    mask[near] = True
    found = first_store(machine, case, {role: mask})
    assert found is not None
    return found[0], near


def _changed(argument: BoundArgument, role: str) -> NDArray[np.bool_]:
    now, before = argument.view(role), argument.original_view(role)
    return np.asarray((_bytes(now) != _bytes(before)).any(axis=-1), np.bool_)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.dtype.itemsize)


def element_name(case: BoundCase, role: str, index: tuple[int, ...]) -> str:
    """`O[0,1,17,3]`: by the argument's name where it holds one tensor only."""
    argument = case.argument_of(role)
    label = argument.spec.name if len(argument.placements) == 1 else role
    return f"{label}[{','.join(map(str, index))}]"
