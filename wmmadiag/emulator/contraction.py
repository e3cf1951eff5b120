"""Fuse multiplications with the additions that use them, as ptxas does.

The PTX ISA lets an assembler do so where neither instruction has a rounding modifier ("mul/add sequences with no
rounding modifiers may be optimized to use fused-multiply-add"), and compilers do leave them off: `scale * s - m` can
reach PTX as two instructions and run as one. The rule was read off ptxas 13.5's machine code for sm_90:

- type and `.ftz` are the same, and the multiplication does not saturate;
- the multiplication is not guarded, and every use of its result is such an addition or subtraction (perhaps through
  `neg` or `mov`) in the same basic block: then it goes away altogether;
- of two products that are added, the first operand's is fused; x·y + x·y of one product is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wmmadiag.ptx.calls import registers
from wmmadiag.ptx.instructions import lookup
from wmmadiag.ptx.ir import Access, Address, Instruction, Operand, PtxFunction, Register

TYPES = frozenset({"f32", "f64", "f16", "f16x2", "bf16", "bf16x2"})
_ENDS_BLOCK = frozenset({"bra", "brx.idx", "ret", "exit", "trap", "call"})
_MOVES = frozenset({"mov.b16", "mov.b32", "mov.b64"})
_ROUNDINGS = frozenset({"rn", "rz", "rm", "rp"})


@dataclass(frozen=True, slots=True)
class _ProductUse:
    """An addition that a product reaches: at which index, as which operand, and whether negated on the way."""

    index: int
    role: str
    negated: bool


@dataclass(slots=True)
class _FusedProduct:
    """A multiplication that may go away."""

    index: int  # of the multiplication
    uses: list[_ProductUse]  # the additions
    dropped: list[int]  # indices of it, and of the moves and negations between


class _LoopBody:
    """A function's instructions with where each register is written and read."""

    def __init__(self, function: PtxFunction) -> None:
        self.code: Sequence[Instruction] = function.instructions
        self.writes: dict[str, list[int]] = {}
        self.reads: dict[str, list[int]] = {}
        self.block: list[int] = []
        starts = set(function.labels.values())
        number = 0
        for index, instruction in enumerate(self.code):
            if index in starts or (index and self.code[index - 1].op in _ENDS_BLOCK):
                number += 1
            self.block.append(number)
            for spec, operand in zip(instruction.specs, instruction.operands, strict=True):
                names = [one.name for one in registers(operand)]
                written = spec.access is Access.WRITE and not isinstance(operand, Address)
                for name in names:
                    (self.writes if written else self.reads).setdefault(name, []).append(index)
            if instruction.guard is not None:
                self.reads.setdefault(instruction.guard.register.name, []).append(index)

    def products(self) -> Iterator[_FusedProduct]:
        """The multiplications whose every use can take them in."""
        for index, instruction in enumerate(self.code):
            if not _multiplies(instruction):
                continue
            found = _FusedProduct(index, [], [index])
            if self._collect(found, instruction, instruction, False):
                yield found

    def _collect(self, product: _FusedProduct, at: Instruction, root: Instruction, negated: bool) -> bool:
        """Follow a value to all its uses; False if one of them needs the rounded product itself."""
        target = at.operands[0]
        if not isinstance(target, Register) or len(self.writes[target.name]) != 1:
            return False
        uses = self.reads.get(target.name, [])
        if not uses or len(set(uses)) != len(uses):
            return False
        type_name = root.op.partition(".")[2]
        for index in uses:
            user = self.code[index]
            opcode, _, kind = user.op.partition(".")
            if index <= product.index or self.block[index] != self.block[product.index]:
                return False
            if opcode in ("add", "sub") and kind == type_name and _free(user):
                if user.attributes.get("ftz") != root.attributes.get("ftz"):
                    return False
                if not self._same_factors(root, product.index, index):
                    return False
                role = "a" if user.operand("a") == target else "b"
                product.uses.append(_ProductUse(index, role, negated))
            elif user.guard is None and (user.op == f"neg.{type_name}" or user.op in _MOVES):
                product.dropped.append(index)
                if not self._collect(product, user, root, negated != (opcode == "neg")):
                    return False
            else:
                return False
        return True

    def _same_factors(self, root: Instruction, start: int, end: int) -> bool:
        """Whether the multiplication's operands still hold what they held, where the addition stands."""
        return not any(
            start <= write < end
            for factor in root.operands[1:]
            for name in (one.name for one in registers(factor))
            for write in self.writes.get(name, ())
        )


def _multiplies(instruction: Instruction) -> bool:
    """Whether it is a multiplication that may be fused."""
    opcode, _, type_name = instruction.op.partition(".")
    if opcode != "mul" or type_name not in TYPES or not _free(instruction):
        return False
    return instruction.guard is None and "sat" not in instruction.attributes


def contracted(function: PtxFunction) -> PtxFunction:
    """The function with its products fused into sums; labels are kept."""
    if not any(map(_multiplies, function.instructions)):
        return function
    body = _LoopBody(function)
    products = {product.index: product for product in body.products()}
    if not products:
        return function
    taken: dict[int, tuple[_FusedProduct, _ProductUse]] = {}
    for product in list(products.values()):
        for use in product.uses:
            if product.index not in products:
                break
            rival = taken.get(use.index)
            if rival is None or rival[0].index not in products:
                taken[use.index] = (product, use)
                continue
            loser = product if rival[1].role == "a" else rival[0]
            products.pop(loser.index, None)
            if loser is rival[0]:
                taken[use.index] = (product, use)
    dropped = {index for product in products.values() for index in product.dropped}
    code: list[Instruction] = []
    moved: list[int] = []
    for index, instruction in enumerate(body.code):
        moved.append(len(code))
        product_use = taken.get(index)
        if index in dropped:
            continue
        if product_use is not None and product_use[0].index in products:
            code += _fused(instruction, body.code[product_use[0].index], product_use[1], index)
        else:
            code.append(instruction)
    moved.append(len(code))
    labels = {name: moved[index] for name, index in function.labels.items()}
    return replace(function, instructions=tuple(code), labels=labels)


def _fused(addition: Instruction, product: Instruction, use: _ProductUse, index: int) -> Iterator[Instruction]:
    """±x·y ± c as one `fma`, after the negations that it needs."""
    type_name = addition.op.partition(".")[2]
    subtracts = addition.op.startswith("sub.")
    x, y = product.operands[1:3]
    other = addition.operand("b" if use.role == "a" else "a")
    assert other is not None
    minus_product = use.negated != (subtracts and use.role == "b")
    minus_other = subtracts and use.role == "a"
    if minus_product:
        negation, x = _negated(addition, x, type_name, f"%fused x{index}")
        yield negation
    if minus_other:
        negation, other = _negated(addition, other, type_name, f"%fused c{index}")
        yield negation
    flags = "".join(f".{name}" for name in ("ftz", "sat") if name in addition.attributes)
    yield _instruction(f"fma.rn{flags}.{type_name}", addition, (addition.operands[0], x, y, other))


def _negated(near: Instruction, operand: Operand, type_name: str, name: str) -> tuple[Instruction, Register]:
    bits = {"f64": "b64", "f16": "b16", "bf16": "b16"}.get(type_name, "b32")
    temporary = Register(name, bits)
    return replace(_instruction(f"neg.{type_name}", near, (temporary, operand)), guard=None), temporary


def _instruction(text: str, near: Instruction, operands: tuple[Operand, ...]) -> Instruction:
    """An instruction of the table with the guard and place of another one."""
    means = lookup(text)[0]
    return replace(
        near, text=text, op=means.op, attributes=means.attributes, operands=operands, specs=means.specs[: len(operands)]
    )


def _free(instruction: Instruction) -> bool:
    """Whether it names no rounding: the assembler may then fuse it."""
    return not _ROUNDINGS & set(instruction.text.split("."))
