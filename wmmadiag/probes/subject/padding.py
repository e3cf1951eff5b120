"""Memory that belongs to no tensor (padding of rows, room at the end) is filled with NaN, then with a large number,
then with zeros: the output must not change by a bit.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.errors import KernelFault
from wmmadiag.probes.subject.model import EVERY, Conclusion, Subject, SubjectProbe
from wmmadiag.subject.storage import bits


def run(subject: Subject) -> Conclusion | None:
    """Only where an input has such memory."""
    bound = subject.bound
    free = {}
    for argument in bound.arguments:
        if argument.storage is None or argument.spec.direction != "in" or not argument.spec.element.is_float:
            continue
        mask = np.ones(argument.storage.shape, np.bool_)
        for placement in argument.placements.values():
            placement.view(mask)[...] = False
        if mask.any():
            free[argument.index] = mask
    if not free:
        return None
    results, count = {}, sum(int(mask.sum()) for mask in free.values())
    kept = {index: bound.arguments[index].original.copy() for index in free}  # type: ignore[union-attr]
    try:
        for name, value in {"NaN": np.nan, "1000": 1000.0, "0": 0.0}.items():
            for index, mask in free.items():
                bound.arguments[index].original[mask] = value  # type: ignore[index]
            try:
                results[name] = {role: bits(np.ascontiguousarray(x)).copy() for role, x in subject.outputs({}).items()}
            except KernelFault as fault:
                return Conclusion(
                    "wrong", f"with {name} in the padding the launch dies: {fault.message}", ("condition",)
                )
    finally:
        for index, content in kept.items():
            bound.arguments[index].original[...] = content  # type: ignore[index]
    changed = [
        name for name in ("1000", "0") if any((results[name][role] != x).any() for role, x in results["NaN"].items())
    ]
    if not changed:
        return Conclusion(
            "right",
            f"NaN, 1000 and 0 in {count} elements of padding: the same bits, so none is read into a result",
        )
    return Conclusion(
        "wrong",
        f"the output changes with what {count} elements of padding hold: they are read into a result",
        ("leading-dimension", "stride", "condition"),
    )


PROBE = SubjectProbe("padding", "NaN in the padding: does it reach the output?", EVERY, run)
