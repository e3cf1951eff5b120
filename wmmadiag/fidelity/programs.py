"""Random PTX programs: straight-line arithmetic, divergent control flow, shared and local memory, barriers, exchanges.

`program_case(number)` is the same for the same number. Nothing in a program is undefined by the PTX ISA: no register is
read before it is written, no two threads race, every lane that a warp-wide operation names executes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from wmmadiag.fidelity.cases import FidelityCase
from wmmadiag.fidelity.lane_operands import floats, integers
from wmmadiag.fidelity.lanes import approximate
from wmmadiag.fidelity.written import WrittenInstruction, written
from wmmadiag.ptx.ir import Access
from wmmadiag.ptx.types import CLASSES, WIDTHS

_REGISTERS = {16: 5, 32: 10, 64: 5}
_PREDICATES = 5
_INPUTS = 8  # words that each thread begins with
_SLOTS = 8  # words of local memory
_BLOCKS = 2

PROGRAMS = 400
"""How many programs are recorded and compared: `program_case(0)` and on."""

# Division by zero and out-of-range shapes of these have no defined result.
_LEFT_OUT = ("div.", "rem.", "rcp.", "sqrt.", "fns.", "mad24.hi", "mul24.hi", "lop3.bool")


@cache
def _instructions() -> dict[str, list[WrittenInstruction]]:
    """What straight-line code is drawn from, by opcode, so that opcodes with many types are no more likely."""
    found: dict[str, list[WrittenInstruction]] = {}
    for one in written(90):
        specs = one.means.specs
        if approximate(one.op) or one.op.startswith(_LEFT_OUT) or one.means.implicit:
            continue
        if any(spec.count != 1 or WIDTHS[spec.type] < 8 for spec in specs):
            continue
        # Without a rounding modifier an assembler may fuse them (PTX ISA, "add", "mul").
        fusible = one.op.startswith(("add.", "sub.", "mul.")) and CLASSES[specs[0].type] == "float"
        if fusible and not {"rn", "rz", "rm", "rp"} & set(one.text.split(".")):
            continue
        if one.op.startswith(("setp.bf16", "setp.f16")) and "x2" in one.op:
            continue
        found.setdefault(one.op.partition(".")[0], []).append(one)
    return found


def _assembled_right(chosen: WrittenInstruction, operands: list[str], guard: str) -> str:
    """The statement, in words that ptxas assembles as the PTX ISA says.

    Its SASS (13.0 and 13.5, sm_90) shows three statements that it does not:

    - a `set` with 16-bit sources and a 32-bit result, under a guard that is false, leaves its destination with the
      upper half filled with bit 15, at every level: the extension of the result is not guarded;
    - the amount of a 64-bit shift is converted from float to integer where a float instruction wrote the register;
    - a conversion of a type to itself is a move, or makes a NaN canonical, by what wrote the register.
    """
    specs = chosen.means.specs
    kind, *modifiers = chosen.text.split(".")
    if kind == "set" and guard:
        width = max(16, WIDTHS[specs[0].type])
        compared = f"{chosen.text} {', '.join(['%w', *operands[1:]])}"
        return f"{{ .reg .b{width} %w; {compared}; {guard}mov.b{width} {operands[0]}, %w; }}"
    if kind in ("shl", "shr") and WIDTHS[specs[0].type] == 64 and operands[2].startswith("%"):
        shifted = f"{chosen.text} {operands[0]}, {operands[1]}, %w"
        return f"{{ .reg .b32 %w; xor.b32 %w, {operands[2]}, 0; {guard}{shifted}; }}"
    if kind == "cvt" and len(modifiers) == 2 and modifiers[0] == modifiers[1] and CLASSES[specs[0].type] == "float":
        return f"{guard}mov.b{WIDTHS[specs[0].type]} {', '.join(operands)};"
    return f"{guard}{chosen.text} {', '.join(operands)};"


class _ProgramWriter:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lines: list[str] = []
        self.labels = 0
        self.threads = int(self.rng.choice([32, 64, 96, 128, 47]))
        self.depth = 0
        self.uniform = True  # whether all threads of the block are here

    def pick(self, width: int) -> str:
        return f"%{'h' if width == 16 else 'r' if width == 32 else 'd'}{self.rng.integers(_REGISTERS[width])}"

    def predicate(self) -> str:
        return f"%p{self.rng.integers(_PREDICATES)}"

    def label(self) -> str:
        self.labels += 1
        return f"$L{self.labels}"

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def arithmetic(self) -> None:
        """One instruction of the table, perhaps guarded."""
        table = _instructions()
        family = table[str(self.rng.choice(sorted(table)))]
        chosen = family[int(self.rng.integers(len(family)))]
        operands = []
        for index, spec in enumerate(chosen.means.specs):
            if spec.type == "pred":
                text = self.predicate()
            elif spec.role == "immLut":
                text = hex(int(self.rng.integers(256)))
            else:
                width = max(16, WIDTHS[spec.type])
                literal = (
                    spec.access is Access.READ and CLASSES[spec.type] == "integer" and width <= 32 and spec.role != "a"
                    and not spec.type.endswith("x2")
                    and not chosen.op.startswith(("cvt", "slct"))
                )  # fmt: skip
                small = literal and self.rng.random() < 0.2
                text = str(int(self.rng.integers(0, 32))) if small else self.pick(width)
            if index == 0 and chosen.means.pairs == "required":
                text += f"|{self.predicate()}"
            operands.append(text)
        guard = f"@{'!' if self.rng.random() < 0.5 else ''}{self.predicate()} " if self.rng.random() < 0.15 else ""
        self.emit(_assembled_right(chosen, operands, guard))

    def compare(self) -> None:
        """A fresh predicate, true for about half of the threads."""
        word, bit = self.pick(32), int(self.rng.integers(0, 12))
        self.emit(f"{{ .reg .b32 %w; bfe.u32 %w, {word}, {bit}, 1; xor.b32 %w, %w, %low; and.b32 %w, %w, 1; "
                  f"setp.ne.u32 {self.predicate()}, %w, 0; }}")  # fmt: skip

    def local(self) -> None:
        """A store to and a load from local memory, at an index of the thread's own."""
        one, other = self.pick(32), self.pick(32)
        self.emit(
            f"{{ .reg .b32 %w; .reg .b64 %t; and.b32 %w, {one}, {_SLOTS - 1}; mad.wide.u32 %t, %w, 4, %stack; "
            f"st.local.b32 [%t], {other}; xor.b32 %w, %w, 3; mad.wide.u32 %t, %w, 4, %stack; "
            f"ld.local.b32 {self.pick(32)}, [%t]; }}"
        )

    def exchange(self) -> None:
        """A warp-wide operation of all lanes, where all are here and every warp is whole."""
        if not self.uniform or self.threads % 32:
            return self.members()
        a, b, d = self.pick(32), self.pick(32), self.pick(32)
        mode = str(self.rng.choice(["up", "down", "bfly", "idx"]))
        edge = {"up": (0x0, 0x1800), "down": (0x1F, 0x181F), "bfly": (0x1F, 0x1C1F), "idx": (0x1F, 0x101F)}[mode]
        self.emit(f"shfl.sync.{mode}.b32 {d}|{self.predicate()}, {a}, {b}, {int(self.rng.choice(edge)):#x}, -1;")
        return None

    def members(self) -> None:
        """A warp-wide operation of the lanes for which a predicate holds: the others jump over it."""
        p, over, d, a = self.predicate(), self.label(), self.pick(32), self.pick(32)
        if not self.uniform or self.threads % 32:
            return
        sums = [f"{name}.{kind}" for name in ("add", "min", "max") for kind in ("u32", "s32")]
        operations = [f"redux.sync.{name} {d}, {a}, %m" for name in (*sums, "xor.b32")]
        operations += [f"match.any.sync.b32 {d}, {a}, %m", f"vote.sync.ballot.b32 {d}, {self.predicate()}, %m"]
        self.emit(f"{{ .reg .b32 %m; vote.sync.ballot.b32 %m, {p}, -1; @!{p} bra {over};")
        self.emit(f"{self.rng.choice(operations)};\n{over}: bar.warp.sync -1; }}")

    def shared(self) -> None:
        """Every thread writes its element and reads another's, between barriers; perhaps all add to one word."""
        if not self.uniform:
            return
        a, d = self.pick(32), self.pick(32)
        other = int(self.rng.integers(1, self.threads))
        self.emit(f"mad.wide.u32 %s, %own, 4, %tile; st.shared.b32 [%s], {a}; bar.sync 0;")
        self.emit(
            f"{{ .reg .b32 %w; add.u32 %w, %own, {other}; rem.u32 %w, %w, {self.threads}; "
            f"mad.wide.u32 %s, %w, 4, %tile; ld.shared.b32 {d}, [%s]; bar.sync 0; }}"
        )
        if self.rng.random() < 0.4:
            name = str(self.rng.choice(["add.u32", "max.s32", "min.u32", "xor.b32", "or.b32"]))
            self.emit(f"{{ .reg .b32 %w; and.b32 %w, {a}, 3; mad.wide.u32 %s, %w, 4, %tile;")
            self.emit(f"red.shared.{name} [%s], {d}; bar.sync 0;")
            self.emit(f"ld.shared.b32 {self.pick(32)}, [%tile+4]; bar.sync 0; }}")

    def branch(self) -> None:
        """if/else on a predicate."""
        p, other, end = self.predicate(), self.label(), self.label()
        self.emit(f"@{'!' if self.rng.random() < 0.5 else ''}{p} bra {other};")
        self.inside(2)
        if self.rng.random() < 0.7:
            self.emit(f"bra {end};")
            self.emit(f"{other}:")
            self.inside(2)
        else:
            self.emit(f"{other}:")
        self.emit(f"{end}:")

    def loop(self) -> None:
        """A loop whose number of turns differs between threads."""
        top, count = self.label(), self.labels
        self.emit(f".reg .b32 %n{count}; .reg .pred %c{count}; and.b32 %n{count}, {self.pick(32)}, 3;")
        self.emit(f"{top}:")
        self.inside(2)
        self.emit(f"sub.s32 %n{count}, %n{count}, 1; setp.ge.s32 %c{count}, %n{count}, 0; @%c{count} bra {top};")

    def switch(self) -> None:
        """A jump through a table."""
        targets, end = [self.label() for _ in range(3)], self.label()
        name = self.label()
        self.emit(f"{{ .reg .b32 %w; rem.u32 %w, {self.pick(32)}, 3;")
        self.emit(f"{name}: .branchtargets {', '.join(targets)};\nbrx.idx %w, {name}; }}")
        for target in targets:
            self.emit(f"{target}:")
            self.inside(1)
            self.emit(f"bra {end};")
        self.emit(f"{end}:")

    def inside(self, most: int) -> None:
        """A nested body, in which only some threads may be."""
        before, self.uniform = self.uniform, False
        self.depth += 1
        self.body(int(self.rng.integers(2, 4 * most)))
        self.depth -= 1
        self.uniform = before

    def body(self, length: int) -> None:
        plain: list[tuple[float, Callable[[], None]]] = [
            (0.72, self.arithmetic), (0.06, self.compare), (0.03, self.local), (0.05, self.exchange),
            (0.03, self.members), (0.03, self.shared),
        ]  # fmt: skip
        nested: list[tuple[float, Callable[[], None]]] = [(0.04, self.branch), (0.02, self.loop), (0.02, self.switch)]
        for _ in range(length):
            at = self.rng.random()
            for share, statement in [*plain, *nested]:
                at -= share
                if at < 0:
                    if self.depth < 3 or (share, statement) in plain:
                        statement()
                    break


def program_case(number: int, seed: int = 0) -> FidelityCase:
    """A random program: two blocks; its output is every register of every thread.

    Args:
        number: of the program; seed: of the words that it begins with, 0 for those of the committed records.
    """
    writer = _ProgramWriter(number)
    writer.body(int(writer.rng.integers(40, 90)))
    threads = writer.threads
    data = np.random.default_rng([number, 1, *([seed] if seed else [])])
    count = _BLOCKS * threads
    words = integers(data, 32, _INPUTS * count).astype(np.uint32).reshape(_INPUTS, count)
    words[4:6] = floats(data, "f32", 2 * count).reshape(2, count)
    words[6] = floats(data, "f16", count) | floats(data, "bf16", count).astype(np.uint32) << np.uint32(16)
    words[7] &= 63
    lines = [
        ".version 8.8", ".target sm_90", ".address_size 64",
        ".visible .entry k(.param .u64 x_in, .param .u64 x_out)", "{",
        f".reg .b16 %h<{_REGISTERS[16]}>; .reg .b32 %r<{_REGISTERS[32]}>; .reg .b64 %d<{_REGISTERS[64]}>;",
        f".reg .pred %p<{_PREDICATES}>; .reg .b32 %i, %n, %own, %low; .reg .b64 %in, %out, %tile, %s, %stack;",
        f".shared .align 4 .b8 tile[{4 * 128}]; .local .align 4 .b8 stack[{4 * _SLOTS}];",
        "mov.u64 %tile, tile; mov.u64 %stack, stack; mov.u64 %s, 0;",
        "ld.param.u64 %in, [x_in]; ld.param.u64 %out, [x_out];",
        "mov.u32 %own, %tid.x; mov.u32 %n, %ntid.x; mov.u32 %i, %ctaid.x;",
        "mad.lo.u32 %i, %i, %n, %own; and.b32 %low, %own, 1;",
        "mad.wide.u32 %in, %i, 4, %in; mad.wide.u32 %out, %i, 4, %out;",
    ]  # fmt: skip
    lines += [f"ld.global.b32 %r{k}, [%in + {4 * count * k}];" for k in range(_INPUTS)]
    lines += [f"add.u32 %r{k}, %r{k - 8}, %own;" for k in range(8, _REGISTERS[32])]
    lines += [f"{{ .reg .b16 %u; mov.b32 {{%h{k}, %u}}, %r{(k + 2) % 8}; }}" for k in range(_REGISTERS[16])]
    lines += ["{ .reg .b16 %u; mov.b32 {%u, %h4}, %r6; mov.b32 {%h3, %u}, %r6; }"]
    lines += [f"mov.b64 %d{k}, {{%r{k}, %r{(k + 4) % 8}}};" for k in range(_REGISTERS[64])]
    lines += [f"{{ .reg .b32 %w; and.b32 %w, %r{k}, {1 << k}; setp.ne.u32 %p{k}, %w, 0; }}" for k in range(_PREDICATES)]
    lines += [f"st.local.b32 [%stack + {4 * k}], %r{k}; " for k in range(_SLOTS)]
    lines += writer.lines
    rows = [f"r{k}" for k in range(_REGISTERS[32])]
    lines += [f"st.global.b32 [%out + {4 * count * k}], %r{k};" for k in range(_REGISTERS[32])]
    seen = [(f"h{k}", ".b16 %u", f"cvt.u32.u16 %w, %h{k}") for k in range(_REGISTERS[16])]
    for k in range(_REGISTERS[64]):
        seen += [(f"d{k} low", ".b32 %u", f"mov.b64 {{%w, %u}}, %d{k}")]
        seen += [(f"d{k} high", ".b32 %u", f"mov.b64 {{%u, %w}}, %d{k}")]
    seen += [(f"p{k}", ".b16 %u", f"selp.b32 %w, 1, 0, %p{k}") for k in range(_PREDICATES)]
    for name, register, move in seen:
        lines.append(
            f"{{ .reg .b32 %w; .reg {register}; {move}; st.global.b32 [%out + {4 * count * len(rows)}], %w; }}"
        )
        rows.append(name)
    lines += ["ret;", "}"]
    outputs = {"registers": np.zeros((len(rows), count), np.uint32)}
    return FidelityCase(
        f"program {number}", "\n".join(lines) + "\n", [words], outputs, rows, _BLOCKS, threads, sample=1
    )
