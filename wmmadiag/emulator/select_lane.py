"""Lane operations, moves between widths, and conversions whose registers are wider than their types."""

from __future__ import annotations

from wmmadiag.emulator.decoded import SPACES, Value
from wmmadiag.emulator.modifiers import LAYOUT, pack
from wmmadiag.emulator.native import LOCAL_WINDOW, SHARED_WINDOW
from wmmadiag.emulator.selection import Selector, selects, width_of
from wmmadiag.ptx.ir import Access, Instruction
from wmmadiag.ptx.types import CLASSES, WIDTHS


def modifiers_of(instruction: Instruction, negated: tuple[bool, ...] = ()) -> int:
    """The engine's modifiers word; `negated` says which predicate sources are inverted, in order a, b, c."""
    attributes = {name: value for name, value in instruction.attributes.items() if name in LAYOUT}
    for letter, inverted in zip("abc", negated, strict=False):
        if inverted:
            attributes[f"neg_{letter}"] = "1"
    return pack(attributes)


@selects("lane")
def lane(select: Selector, instruction: Instruction) -> None:
    destinations: list[Value | None] = []
    sources: list[Value] = []
    negated: list[bool] = []
    for spec, operand in zip(instruction.specs, instruction.operands, strict=True):
        if spec.access is Access.WRITE:
            if destinations:
                destinations.append(select.write(operand))
            else:
                first, second = select.write_pair(operand)
                destinations += [first] if second is None else [first, second]
        elif spec.type == "pred":
            value, inverted = select.read_predicate(operand)
            sources.append(value)
            negated.append(inverted)
        else:
            sources.append(select.read(operand, spec.type))
            negated.append(False)
    modifiers = modifiers_of(instruction, tuple(negated))
    if instruction.op == "lop3.bool.b32":  # the table is a modifier here, q a source
        table = sources.pop(3)
        modifiers = modifiers_of(instruction, (False, False, negated[4])) | pack({"mode": str(table.constant or 0)})
    d = destinations[0]
    d2 = destinations[1] if len(destinations) > 1 else None
    if instruction.op == "lop3.bool.b32" and d2 is None:
        d2 = select.temporary(0)
    if d is None:  # a sink, or only the second destination is wanted
        d = select.temporary(width_of(instruction.specs[0].type))
    select.emit(instruction.op, d=d, d2=d2, s=tuple(sources), modifiers=modifiers, together=d2 is None)


@selects("cvt")
def convert(select: Selector, instruction: Instruction) -> None:
    """`cvt`: registers may be wider than the types; sources are cut, results extended to the register's size."""
    write, *read = instruction.specs
    sources = []
    for spec, operand in zip(read, instruction.operands[1:], strict=True):
        value = select.read(operand, spec.type)
        sources.append(select.resize(value, width_of(spec.type)) if value.bytes > width_of(spec.type) else value)
    d = select.write(instruction.operands[0], write.type) or select.temporary(width_of(write.type))
    narrow = WIDTHS[write.type] < 16 and CLASSES[write.type] == "integer"
    if d.bytes == width_of(write.type) and not narrow:
        select.lane(instruction.op, d, *sources, modifiers=modifiers_of(instruction))
        return
    result = select.temporary(width_of(write.type))
    select.lane(instruction.op, result, *sources, modifiers=modifiers_of(instruction))
    kind = "s" if write.type.startswith("s") else "u"
    select.lane(f"cvt.{kind}{8 * d.bytes}.{kind}{WIDTHS[write.type]}", d, result)


@selects("mov.pack.b16", "mov.pack.b32", "mov.pack.b64", "mov.pack.b128")
def pack_vector(select: Selector, instruction: Instruction) -> None:
    target, source = instruction.specs
    d = select.write(instruction.operands[0], target.type) or select.temporary(width_of(target.type))
    elements = [select.read(element, source.type) for element in select.elements(instruction.operands[1])]
    select.moving("mov.pack", elements, writes=False, d=d, bytes=WIDTHS[source.type] // 8, register_bytes=d.bytes)


@selects("mov.unpack.b16", "mov.unpack.b32", "mov.unpack.b64", "mov.unpack.b128")
def unpack_vector(select: Selector, instruction: Instruction) -> None:
    target, source = instruction.specs
    value = select.read(instruction.operands[1], source.type)
    elements = [select.write(element, target.type) for element in select.elements(instruction.operands[0])]
    width = WIDTHS[target.type] // 8
    select.moving("mov.unpack", elements, writes=True, s=(value,), bytes=width, register_bytes=value.bytes)


_SIDE_BY_SIDE = {
    f"v{name}{lanes}": (name, lanes) for name in ("add", "sub", "absdiff", "min", "max") for lanes in (2, 4)
}


@selects(*_SIDE_BY_SIDE)
def side_by_side(select: Selector, instruction: Instruction) -> None:
    """Halves or bytes of words, each taken out, computed in 32 bits, and put back; `.add`: summed onto c."""
    name, lanes = _SIDE_BY_SIDE[instruction.op]
    attributes = instruction.attributes
    width = select.constant(32 // lanes, 4)
    a, b, result = (select.read(one, "u32") for one in instruction.operands[1:])
    for lane in range(lanes):
        at = select.constant(lane * (32 // lanes), 4)
        x, y, value = select.temporary(4), select.temporary(4), select.temporary(4)
        select.lane(f"bfe.{attributes['atype']}", x, a, at, width)
        select.lane(f"bfe.{attributes['btype']}", y, b, at, width)
        if name == "absdiff":
            high, low = select.temporary(4), select.temporary(4)
            select.lane("max.s32", high, x, y)
            select.lane("min.s32", low, x, y)
            select.lane("sub.s32", value, high, low)
        else:
            select.lane(f"{name}.s32", value, x, y)
        whole = select.temporary(4)
        if attributes.get("add"):
            select.lane("add.s32", whole, result, value)
        else:
            select.lane("bfi.b32", whole, value, result, at, width)
        result = whole
    if (d := select.write(instruction.operands[0])) is not None:
        select.lane("mov.b32", d, result)


_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}


@selects("cvta")
def convert_address(select: Selector, instruction: Instruction) -> None:
    space = instruction.attributes["space"]
    if space == "param" and select.frame.number != 0:
        space = "local"
    d = select.write(instruction.operands[0])
    if d is None:
        return
    if d.bytes != 8:
        raise select.unsupported("cvta of 32-bit generic addresses is not emulated", "compile with 64-bit addresses")
    value = select.read(instruction.operands[1], "u64")
    window = _WINDOWS.get(space, 0)
    if window == 0:
        select.lane("mov.b64", d, value)
        return
    op = "sub.u64" if instruction.attributes["to"] == "1" else "add.u64"
    select.lane(op, d, value, select.constant(window, 8))


@selects("isspacep")
def is_space(select: Selector, instruction: Instruction) -> None:
    space = instruction.attributes["space"]
    if space not in SPACES:  # constants and parameters lie among global addresses here
        raise select.unsupported(f"{instruction.text} is not emulated")
    d, address = select.write(instruction.operands[0]), select.read(instruction.operands[1], "u64")
    select.emit("isspacep", d=d, s=(address,), space=SPACES[space])
