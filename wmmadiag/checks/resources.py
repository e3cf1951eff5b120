"""What the launch asks of the chip: shared memory that needs an opt-in, registers, spills and local memory.

(More shared memory or threads than the chip has at all end the launch. Registers and spills are known where ptxas was
asked: `wmmadiag check --resources`.)

Bad:
    attn<<<grid, block, 64 * 1024>>>(q, k, v, o);     // fails: above 48 KB only after an opt-in

Good:
    cudaFuncSetAttribute(attn, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024);
    attn<<<grid, block, 64 * 1024>>>(q, k, v, o);
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.registry import Check, Context
from wmmadiag.compile.languages import is_c_family
from wmmadiag.compile.names import full_name
from wmmadiag.csource.nodes import called, descendants
from wmmadiag.csource.tree import parse
from wmmadiag.place import Place
from wmmadiag.ptx.ir import Space

_WITHOUT_OPT_IN = 48 << 10
"""Bytes of shared memory per block that every launch may use. (CUDA C++ Programming Guide, compute capabilities)"""
_REGISTERS = 64 << 10
_REGISTER_UNIT = 8
"""32-bit registers of a block, and the unit in which each thread gets them, on every architecture from sm_75 on. (CUDA
C++ Programming Guide, table of technical specifications; CUDA occupancy calculator, register allocation unit size)"""
_COOPERATIVE = re.compile(r"LaunchCooperative|LaunchAttributeCooperative|LAUNCH_ATTRIBUTE_COOPERATIVE")
_OPT_IN = re.compile(r"FuncSetAttribute|MaxDynamicSharedMemorySize|MAX_DYNAMIC_SHARED_SIZE")


def inspect(context: Context) -> Sequence[Finding]:
    """Findings from the launch, the program and the kernel's source."""
    return (*_cooperative(context), *_opt_in(context), *_registers(context), *_local_memory(context))


def _place(context: Context) -> Place:
    return context.kernel.entry.place or Place("", 0)


def _launched(context: Context, mends: re.Pattern[str]) -> tuple[str, Place] | None:
    """A kernel's name and where its CUDA source launches it; None where nothing there tells, or says what mends it."""
    file, name = _place(context).file, function_name(context.kernel.entry.name)
    if not is_c_family(file):
        return None
    try:
        source = parse(Path(file).read_text("utf-8", "replace"), file)
    except (OSError, ValueError):
        return None
    calls = (one for one in descendants(source.root, "call_expression") if called(one) == name)
    launch = next((one for one in calls if any(part.type == "kernel_call_syntax" for part in one.named_children)), None)
    if launch is None or mends.search(source.data.decode("utf-8", "replace")):
        return None
    return name, Place(file, source.place(launch).line)


def function_name(symbol: str) -> str:
    """The plain name of a mangled kernel: no namespace, template arguments or parameters."""
    words = re.findall(r"\w+", re.split(r"[<(]", full_name(symbol).replace("(anonymous namespace)", ""))[0])
    return str(words[-1]) if words else symbol


def _cooperative(context: Context) -> Iterator[Finding]:
    """A grid barrier in a kernel that the source launches as any other: the kernel dies there."""
    if not context.kernel.layout.grid_workspace:
        return
    launched = _launched(context, _COOPERATIVE)
    if launched is None:
        return
    yield Finding(
        check="resources",
        kind="not-cooperative",
        level=Level.ERROR,
        message=f"{launched[0]} waits for its whole grid, but is not launched cooperatively: it dies at grid.sync()",
        place=launched[1],
        hint="launch it with cudaLaunchCooperativeKernel, with no more blocks than fit on the chip at one time",
    )


def _opt_in(context: Context) -> Iterator[Finding]:
    total = context.kernel.dynamic_offset + context.launch.shared_bytes
    if context.launch.shared_bytes == 0 or total <= _WITHOUT_OPT_IN:
        return
    launched = _launched(context, _OPT_IN)
    if launched is None:
        return
    name, place = launched
    yield Finding(
        check="resources",
        kind="missing-opt-in",
        level=Level.ERROR,
        message=f"{name} is launched with {total:,} bytes of shared memory and no opt-in: the launch fails",
        place=place,
        detail=(f"above {_WITHOUT_OPT_IN:,} bytes a launch needs cudaFuncSetAttribute; this file never calls it",),
        hint=f"call cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) before it",
    )


def _registers(context: Context) -> Iterator[Finding]:
    """Findings from what ptxas said."""
    use = context.resources
    if use is None:
        return
    x, y, z = context.launch.block
    warps = -(-x * y * z // 32)
    asked = -(-use.registers // _REGISTER_UNIT) * _REGISTER_UNIT * 32 * warps
    if asked > _REGISTERS:
        yield Finding(
            check="resources",
            kind="too-many-registers",
            level=Level.ERROR,
            message=f"a block of {x * y * z} threads needs {asked:,} registers, the chip has {_REGISTERS:,}: "
            "the launch fails",
            place=_place(context),
            detail=(f"{use.registers} registers per thread for {use.arch}",),
            hint=f"declare __launch_bounds__({x * y * z}), or launch fewer threads",
        )
    if use.spill_stores or use.spill_loads:
        yield Finding(
            check="resources",
            kind="spills",
            level=Level.ADVICE,
            message=f"registers are spilled to local memory: {use.spill_stores:,} bytes of stores and "
            f"{use.spill_loads:,} of loads per thread",
            place=_place(context),
            detail=(f"{use.registers} registers per thread for {use.arch}",),
            hint="use smaller tiles per warp, or allow more registers (launch bounds, --maxrregcount)",
        )


def _local_memory(context: Context) -> Iterator[Finding]:
    size = sum(variable.size for variable in context.kernel.entry.variables if variable.space is Space.LOCAL)
    if size == 0:
        return
    yield Finding(
        check="resources",
        kind="local-memory",
        level=Level.ADVICE,
        message=f"{size:,} bytes of each thread's arrays lie in local memory",
        place=_place(context),
        hint="index small arrays by constants (unroll the loop), so that they can stay in registers",
    )


CHECK = Check(
    name="resources",
    summary="shared memory that needs an opt-in, registers, spills, local memory",
    levels={
        Level.ERROR: "the source launches the kernel with more than 48 KB and never opts in; more registers "
        "than there are",
        Level.ADVICE: "arrays of a thread or spilled registers lie in local memory",
    },
    cost="free",
    default=True,
    inspect=inspect,
)
