"""What an instruction does, for whoever looks at a run: its row's record, so that nobody else reads opcode text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import MappingProxyType

from wmmadiag.ptx.instructions import lookup
from wmmadiag.ptx.ir import Access


class Dataflow(Enum):
    """What an operation does to values."""

    MOVE = "passes values on as they are"
    COMPUTE = "makes new values from its operands"
    COMPARE = "makes a truth value of numbers"
    CONVERT = "changes a value's type"
    LOAD = "reads memory"
    STORE = "writes memory"
    UPDATE = "reads, changes and writes memory at once"
    EXCHANGE = "gives lanes of a warp values of others"
    MULTIPLY = "multiplies matrices"
    ORDER = "lets threads wait, or orders what they do to memory"
    COPY = "copies memory later, or waits for it"
    CONTROL = "goes elsewhere, ends, or tells the chip something"


_FLOWS = {
    Dataflow.MOVE: "mov selp slct prmt cvta szext mapa",
    Dataflow.COMPUTE: "add sub mul fma mad div rcp sqrt rsqrt sin cos lg2 ex2 tanh abs neg min max copysign mul24 "
    "mad24 sad rem popc clz bfind fns brev bfe bfi bmsk dp4a dp2a addc subc madc and or xor not cnot "
    "getctarank lop3 shl shr shf createpolicy vadd2 vadd4 vsub2 vsub4 vabsdiff2 vabsdiff4 vmin2 vmin4 vmax2 vmax4",
    Dataflow.COMPARE: "setp set testp isspacep",
    Dataflow.CONVERT: "cvt",
    Dataflow.LOAD: "ld ldu wmma.load ldmatrix",
    Dataflow.STORE: "st wmma.store stmatrix",
    Dataflow.UPDATE: "atom red",
    Dataflow.EXCHANGE: "shfl vote match redux elect activemask movmatrix",
    Dataflow.MULTIPLY: "wmma.mma mma",
    Dataflow.ORDER: "bar barrier membar fence mbarrier",
    Dataflow.COPY: "cp",
    Dataflow.CONTROL: "bra brx ret exit trap brkpt nanosleep pmevent griddepcontrol setmaxnreg prefetch "
    "prefetchu applypriority discard",
}  # fmt: skip
FLOWS: Mapping[str, Dataflow] = MappingProxyType(
    {name: flow for flow, names in _FLOWS.items() for name in names.split()}
)
"""Opcode → what it does; "wmma.load", where the second word decides."""


@dataclass(frozen=True, slots=True)
class InstructionMeaning:
    """What an instruction as written does."""

    opcode: str  # "ld"; "" for an instruction that stands in no PTX
    flow: Dataflow
    # modifiers by the names of the row's slots: {"space": "shared", "vec": "v4", "type": "b32"}
    attributes: Mapping[str, str]
    type: str  # of the values that it makes, loads or stores, "" where there are none


_NOTHING = InstructionMeaning("", Dataflow.CONTROL, MappingProxyType({}), "")


@cache
def meaning(text: str) -> InstructionMeaning:
    """The record of an instruction, from its opcode with modifiers as written; operands behind a space do not matter.

    Where several forms differ in operands only, it is that of the first.
    """
    name = text.partition(" ")[0]
    found = lookup(name)
    if not found:
        return _NOTHING
    words = name.split(".")
    flow = FLOWS[words[0] if words[0] in FLOWS else ".".join(words[:2])]
    written = next((spec.type for spec in found[0].specs if spec.access is Access.WRITE), "")
    return InstructionMeaning(words[0], flow, found[0].attributes, found[0].attributes.get("type", written))
