"""A tensor addressed with another stride or offset, in the memory that the kernel really has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import prod

import numpy as np

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Prediction
from wmmadiag.diagnose.faults.problem import Lead, Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model
from wmmadiag.subject.storage import Placement

_LARGEST = 1 << 17  # elements of a tensor; addressing larger ones anew takes too long
_AXES = ("batch", "head", "row", "column")


def four(problem: Problem, placement: Placement) -> tuple[int, int, int, int]:
    """Strides of (batch, head, row, column), 0 for axes that the tensor lacks."""
    strides = placement.strides
    if len(strides) == 3 and problem.operation == "gemm":
        return strides[0], 0, strides[1], strides[2]
    full = (0,) * (4 - len(strides)) + strides
    return full[0], full[1], full[2], full[3]


def with_stride(role: str, axis: int, value: int) -> Prediction:
    """The oracle with one operand read with another stride (axis 0 to 3) or offset (axis 4)."""

    def source(problem: Problem, lead: Lead) -> Doubles:
        argument = problem.bound.argument_of(role)
        assert argument.original is not None
        placement = argument.placements[role]
        changed = [*four(problem, placement), placement.offset]
        changed[axis] = value
        batch, head = problem.source_lead(role, lead)
        i, j = np.indices(problem.arrays[role].shape[2:])
        position = changed[4] + batch * changed[0] + head * changed[1] + i * changed[2] + j * changed[3]
        inside = (position >= 0) & (position < argument.original.size)
        read = argument.original[np.where(inside, position, 0)].astype(np.float64)
        return np.where(inside, read, np.nan)

    return lambda rows: rows.using(**{role: source}).output


def with_output_stride(axis: int, value: int) -> Prediction:
    """The oracle's output written with another stride; inf where nothing is written."""

    def predict(rows: Rows) -> Doubles:
        problem = rows.problem
        placement = problem.bound.argument_of(problem.role).placements[problem.role]
        true = four(problem, placement)
        changed = list(true)
        changed[axis] = value
        index = np.indices(problem.expected.shape)
        there = sum(index[n] * changed[n] for n in range(4))
        memory = np.full(int(max(np.max(there), placement.end)) + 1, np.inf)
        memory[there] = problem.expected
        read: Doubles = memory[sum(index[n] * true[n] for n in range(4))]
        result: Doubles = read[rows.lead][rows.index]
        return result

    return predict


@fault_model("attention", "qkt", "pv", "gemm", rank=37)
def other_strides(problem: Problem) -> Iterator[Candidate]:
    """One stride, or the offset inside a packed argument, that is another product of extents."""
    matrix = problem.operation == "gemm"
    for role in problem.arrays:
        if problem.arrays[role].size > _LARGEST or (role == "c" and not problem.parameters.get("beta")):
            continue
        argument = problem.bound.argument_of(role)
        placement = argument.placements[role]
        true = (*four(problem, placement), placement.offset)
        extents = (*problem.arrays[role].shape, 1)
        for axis, stride in enumerate(true):
            if axis < 4 and (extents[axis] == 1 or stride == 0):
                continue
            if axis == 4 and len(argument.placements) < 2:
                continue
            for value in _products(problem):
                if value != stride:
                    yield _candidate(role, axis, value, stride, matrix=matrix)
    if problem.observed.size > _LARGEST >> 1:
        return
    true = (*four(problem, problem.bound.argument_of(problem.role).placements[problem.role]), 0)
    for axis in range(4):
        if problem.observed.shape[axis] > 1 and true[axis]:
            for value in _products(problem):
                if value != true[axis]:
                    yield _candidate(problem.role, axis, value, true[axis], matrix=matrix, output=True)


def _candidate(role: str, axis: int, value: int, true: int, *, matrix: bool, output: bool = False) -> Candidate:
    what = "the offset" if axis == 4 else f"the {_AXES[axis]} stride"
    verb = "written" if output else "read"
    hypothesis = "leading-dimension" if matrix and axis in (2, 3) else "tensor-strides"
    name = "offset" if axis == 4 else f"{_AXES[axis]}-stride"
    return Candidate(
        hypothesis,
        f"{name}-{role}",
        f"{role.upper()} is {verb} with {value} as {what} in memory instead of {true}",
        with_output_stride(axis, value) if output else with_stride(role, axis, value),
        {"operand": role, "value": value, "true": true},
        looser=3.0 if output else 2.0,
    )


def _products(problem: Problem) -> list[int]:
    """Products of up to three extents: what an address computation could multiply by."""
    extents: set[int] = set()
    for array in (*problem.arrays.values(), problem.observed):
        extents |= {int(extent) for extent in array.shape if extent > 1}
    if len(extents) > 6:
        return sorted(extents)
    found = {prod(some) for count in (1, 2, 3) for some in combinations_with_replacement(sorted(extents), count)}
    packed = {3 * value for value in found} | {2 * value for value in found}
    several = any(len(argument.placements) > 1 for argument in problem.bound.arguments)
    return sorted(value for value in (found | packed if several else found) if value <= _LARGEST)
