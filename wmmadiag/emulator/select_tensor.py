"""Tensor-core instructions: fragment loads and stores, multiplications, 8×8 matrix moves."""

from __future__ import annotations

from wmmadiag.emulator.decoded import SPACES, TRANSPOSED, WHOLE_LDM, TensorSpec, Value
from wmmadiag.emulator.fragment_maps import even_first
from wmmadiag.emulator.selection import Selector, selects
from wmmadiag.errors import UnsupportedError
from wmmadiag.fragments import FragmentMap, memory_access, mma_map, wmma_map
from wmmadiag.numerics.tensor_core import mma_rule
from wmmadiag.ptx.ir import Access, Instruction


def _map(select: Selector, instruction: Instruction, matrix: str, type_name: str, layout: str) -> FragmentMap:
    shape = instruction.attributes["shape"]
    try:
        if instruction.op.startswith("wmma"):
            return wmma_map(shape, matrix, type_name, select.arch)
        return mma_map(shape, matrix, type_name, layout if shape == "m8n8k4" and type_name != "f64" else "")
    except UnsupportedError as error:
        raise select.unsupported(error.message, error.hint) from error


@selects("wmma.load", "wmma.store")
def move_fragment(select: Selector, instruction: Instruction) -> None:
    attributes = instruction.attributes
    matrix, layout = attributes["matrix"], attributes["layout"]
    fragment = _map(select, instruction, matrix, attributes["type"], layout)
    base, offset, flags, space = select.address(instruction.operand("addr"), attributes["space"])
    ldm = instruction.operand("ldm")
    stride = None if ldm is None else select.read(ldm, "u32")
    values: list[Value] = []
    for spec, operand in zip(instruction.specs, instruction.operands, strict=True):
        if spec.role in ("d", "c"):
            for element in select.elements(operand):
                value = select.write(element) if spec.access is Access.WRITE else select.read(element, spec.type)
                values.append(value or select.temporary(fragment.register_bits // 8))
    by_columns = matrix == "b"
    if (layout == "col") != by_columns:
        flags |= TRANSPOSED
    space_name = next(name for name, number in SPACES.items() if number == space)
    reach = memory_access(attributes["shape"], matrix, attributes["type"], layout, space_name)
    if reach.whole:
        flags |= WHOLE_LDM
    select.emit(
        instruction.op,
        s=(base, stride),
        space=space,
        register_bytes=reach.granule,
        count=reach.ldm_unit,
        flags=flags,
        immediate=offset,
        tensor=TensorSpec(
            None, (-1, -1, -1, select.maps.add(fragment, by_columns=by_columns)), ((), (), (), tuple(values))
        ),
    )


@selects("wmma.mma", "mma")
def multiply(select: Selector, instruction: Instruction) -> None:
    attributes = instruction.attributes
    if attributes.get("rounding", "rn") != "rn":
        raise select.unsupported(f"{instruction.text}: only round-to-nearest-even f64 is emulated")
    bitop = attributes.get("bitop", "")
    try:
        rule = mma_rule(
            select.arch,
            instruction.op.partition(".")[0],
            attributes["shape"],
            attributes["atype"],
            attributes["btype"],
            attributes["ctype"],
            attributes["dtype"],
            attributes.get("satfinite") == "1",
            f"{bitop}_popc" if bitop else "",
        )
    except UnsupportedError as error:
        raise select.unsupported(error.message, error.hint) from error
    fragments = [
        _map(select, instruction, matrix, attributes[f"{matrix}type"], attributes.get(f"{matrix}layout", ""))
        for matrix in "abcd"
    ]
    wide = all(fragment.element_bits == 32 for fragment in fragments[2:]) and fragments[2].tiles == 1
    order = even_first(rule.n) if wide else ()
    registers: list[tuple[Value, ...]] = []
    maps: list[int] = []
    for matrix, fragment in zip("abcd", fragments, strict=True):
        used = fragment.used_registers
        operand = instruction.operand(matrix)
        spec = next(spec for spec in instruction.specs if spec.role == matrix)
        values = []
        for element in select.elements(operand)[:used]:
            value = select.write(element) if matrix == "d" else select.read(element, spec.type)
            values.append(value or select.temporary(fragment.register_bits // 8))
        registers.append(tuple(values))
        maps.append(
            select.maps.add(fragment, by_columns=matrix == "b", used=used, order=() if matrix == "a" else order)
        )
    select.emit(
        "mma",
        tensor=TensorSpec(rule, (maps[0], maps[1], maps[2], maps[3]), tuple(registers), order, fragments[0].tiles),
    )


@selects("ldmatrix", "stmatrix")
def move_matrices(select: Selector, instruction: Instruction) -> None:
    attributes = instruction.attributes
    if (attributes["shape"], attributes["type"]) != ("m8n8", "b16"):
        raise select.unsupported(f"{instruction.text}: only m8n8 b16 matrices are emulated")
    base, offset, flags, space = select.address(instruction.operand("addr"), attributes["space"])
    if attributes.get("trans") == "1":
        flags |= TRANSPOSED
    loads = instruction.op == "ldmatrix"
    elements = select.elements(instruction.operand("d" if loads else "b"))
    values = [
        (select.write(element) or select.temporary(4)) if loads else select.read(element, "b32") for element in elements
    ]
    select.moving(instruction.op, values, writes=loads, s=(base,), space=space, flags=flags, immediate=offset)


@selects("movmatrix")
def transpose_matrix(select: Selector, instruction: Instruction) -> None:
    d = select.write(instruction.operands[0]) or select.temporary(4)
    select.emit("movmatrix", d=d, s=(select.read(instruction.operands[1], "b32"),))
