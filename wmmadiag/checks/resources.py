"""What the launch asks of the chip: shared memory that needs an opt-in, and local memory.

(More than the chip has at all ends the launch; registers and spills: `wmmadiag check --resources`.)

Bad:
    attn<<<grid, block, 64 * 1024>>>(q, k, v, o);     // fails: above 48 KB only after an opt-in

Good:
    cudaFuncSetAttribute(attn, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024);
    attn<<<grid, block, 64 * 1024>>>(q, k, v, o);
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.registry import Check, Context
from wmmadiag.place import Place
from wmmadiag.ptx.demangle import demangle
from wmmadiag.ptx.ir import Space

_WITHOUT_OPT_IN = 48 << 10
"""Bytes of shared memory per block that every launch may use. (CUDA C++ Programming Guide, compute capabilities)"""
_OPT_IN = re.compile(r"FuncSetAttribute|MaxDynamicSharedMemorySize|MAX_DYNAMIC_SHARED_SIZE")


def inspect(context: Context) -> Sequence[Finding]:
    """Findings from the launch, the program and the kernel's source."""
    return (*_opt_in(context), *_local_memory(context))


def _place(context: Context) -> Place:
    return context.kernel.entry.place or Place("", 0)


def _source(context: Context) -> str:
    """The text of the file that defines the kernel; empty when it is not there to be read."""
    try:
        return Path(_place(context).file).read_text("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def launch_lines(source: str, kernel: str) -> list[int]:
    """1-based lines where a source launches a kernel with <<< >>>."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", lambda comment: re.sub(r"[^\n]", " ", comment[0]), source, flags=re.DOTALL)
    pattern = re.compile(rf"\b{re.escape(kernel)}\s*(<[^<>;{{}}]*>\s*)?<<<")
    return [code.count("\n", 0, found.start()) + 1 for found in pattern.finditer(code)]


def function_name(symbol: str) -> str:
    """The plain name of a mangled kernel: no namespace, template arguments or parameters."""
    words = re.findall(r"\w+", re.split(r"[<(]", demangle(symbol).replace("(anonymous namespace)", ""))[0])
    return str(words[-1]) if words else symbol


def _opt_in(context: Context) -> Sequence[Finding]:
    total = context.kernel.dynamic_offset + context.launch.shared_bytes
    if context.launch.shared_bytes == 0 or total <= _WITHOUT_OPT_IN:
        return ()
    source = _source(context)
    name = function_name(context.kernel.entry.name)
    lines = launch_lines(source, name)
    if not lines or _OPT_IN.search(source):
        return ()
    return (
        Finding(
            check="resources",
            kind="missing-opt-in",
            level=Level.ERROR,
            message=f"{name} is launched with {total:,} bytes of shared memory and no opt-in: the launch fails",
            place=Place(_place(context).file, lines[0]),
            detail=(f"above {_WITHOUT_OPT_IN:,} bytes a launch needs cudaFuncSetAttribute; this file never calls it",),
            hint=f"call cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) before it",
        ),
    )


def _local_memory(context: Context) -> Sequence[Finding]:
    size = sum(variable.size for variable in context.kernel.entry.variables if variable.space is Space.LOCAL)
    if size == 0:
        return ()
    return (
        Finding(
            check="resources",
            kind="local-memory",
            level=Level.ADVICE,
            message=f"{size:,} bytes of each thread's arrays lie in local memory",
            place=_place(context),
            hint="index small arrays by constants (unroll the loop), so that they can stay in registers",
        ),
    )


CHECK = Check(
    name="resources",
    summary="shared memory that needs an opt-in, local memory",
    levels={
        Level.ERROR: "the source launches the kernel with more than 48 KB and never opts in",
        Level.ADVICE: "arrays of a thread lie in local memory",
    },
    cost="free",
    default=True,
    inspect=inspect,
)
