"""Words for matrices, axes and places of a traced run."""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.ops.model import ROW
from wmmadiag.place import Place, own_place
from wmmadiag.provenance.raw import DerivedProduct, TaggedRun
from wmmadiag.provenance.tags import ArgumentMatrix, DecodedTag


class Names:
    """Names of what tags refer to."""

    def __init__(self, kernel: LoweredKernel, arguments: Mapping[int, ArgumentMatrix], raw: TaggedRun) -> None:
        self.kernel = kernel
        self.arguments = arguments
        self.raw = raw

    def line(self, pc: int) -> Place:
        """The user's own line of an instruction."""
        return own_place(self.kernel.place(pc))

    def matrix(self, number: int) -> str:
        """`Q[0,1]`, `Q[0,1]·K[0,1]ᵀ`, `(Q[0,1]·K[0,1]ᵀ)·V[0,1]` (what is made of an element keeps its name)."""
        argument = self.arguments.get(number)
        if argument is not None:
            return argument.name
        made = self.raw.derived.get(number)
        return self.product(made) if made is not None else f"matrix {number}"

    def product(self, made: DerivedProduct) -> str:
        """A product in the usual notation: a transposed operand is one whose other axis is contracted."""
        left, right = self._operand(made.left), self._operand(made.right)
        return f"{left}{'ᵀ' if made.left_axis == ROW else ''}·{right}{'' if made.right_axis == ROW else 'ᵀ'}"

    def _operand(self, number: int) -> str:
        return self.matrix(number) if number in self.arguments else f"({self.matrix(number)})"

    def contracts(self, made: DerivedProduct) -> str:
        """Which axis of which operand is contracted."""
        axes = ("rows", "columns")
        left, right = self.matrix(made.left), self.matrix(made.right)
        return f"{axes[made.left_axis]} of {left} with {axes[made.right_axis]} of {right}"

    def element(self, tag: DecodedTag) -> str:
        """`K[0,1](3, 5)`; a whole row's statistic `row 3 of …`."""
        if tag.matrix == 0:
            return "nothing that was written" if tag.bad == 0 else "no known element"
        name = self.matrix(tag.matrix)
        if tag.row is not None and tag.column is not None:
            return f"{name}({tag.row}, {tag.column})"
        if tag.row is not None:
            return f"row {tag.row} of {name}"
        return f"column {tag.column} of {name}" if tag.column is not None else name
