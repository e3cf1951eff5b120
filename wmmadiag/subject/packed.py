"""Several tensors in one storage, told apart by one more axis: packed QKV, the two weights of a gated product."""

from __future__ import annotations

from wmmadiag.ops import Operation
from wmmadiag.place import Place
from wmmadiag.subject.card import View


def packed_views(operation: Operation, role: str, layout: str, place: Place) -> tuple[View, ...]:
    """The tensors in one storage: role "qkv" with a layout such as "BS3HD", whose digit is the axis that picks one."""
    packed = operation.packed[role]
    first, digit = operation.roles[packed.parts[0]], str(len(packed.parts))
    extents = {**dict(zip(first.axes, first.shape, strict=True)), digit: digit}

    def stride(axis: str) -> str:
        return "*".join(extents[letter] for letter in layout[layout.index(axis) + 1 :]) or "1"

    return tuple(
        View(part, place, strides=tuple(map(stride, first.axes)), offset=f"{index}*({stride(digit)})")
        for index, part in enumerate(packed.parts)
    )
