"""A bound case run again with other inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from numpy.typing import NDArray

from wmmadiag.launch import Launch
from wmmadiag.subject.binding import BoundCase

Run: TypeAlias = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]
"""Inputs by role that replace the case's own (logical tensors) → outputs by role."""


def run_of(bound: BoundCase, launch: Callable[[Launch], object]) -> Run:
    """Runs of a bound case with other inputs; its arrays are as before after each.

    Args:
        launch: runs the kernel on the case's `launch`; what it raises goes through, the arrays restored.
    """

    def run(inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        kept = [(one.storage, one.storage.copy(), one.original) for one in bound.arguments if one.storage is not None]
        try:
            for storage, _, original in kept:
                storage[...] = original
            for role, values in inputs.items():
                bound.argument_of(role).view(role)[...] = values
            launch(bound.launch)
            return {role: array.copy() for role, array in bound.outputs().items()}
        finally:
            for storage, content, _ in kept:
                storage[...] = content

    return run
