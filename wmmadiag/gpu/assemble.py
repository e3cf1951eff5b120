"""PTX to a cubin for one architecture: by nvJitLink, else ptxas, else left to the driver.

The GPU then runs the very PTX that the emulator runs, whatever version its driver understands.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmmadiag.compile.resource_report import ptxas_program
from wmmadiag.errors import CompileError, ConfigurationError, WmmadiagError

_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)([af]?)", re.MULTILINE)
# ptxas 12: "Unexpected instruction types specified for 'cp.async'", "Argument 2 of instruction 'ld': …";
# "Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)".
_NAMED = re.compile(r"(?:specified for|instruction) '([a-z][\w.:]*)'")
_TOO_MUCH_SHARED = re.compile(r"too much shared data")


@dataclass(frozen=True, slots=True)
class Assembly:
    """How PTX becomes machine code."""

    level: int = 3  # of optimisation, 0 to 3. At 0 every instruction is carried out as it stands.
    # allow a multiplication and an addition without rounding modifiers to become one fused operation, as the PTX ISA
    # permits and ptxas does by default
    fuse: bool = True


OPTIMISED = Assembly()


def check_target(ptx: str, arch: str) -> None:
    """Refuse PTX that cannot run on an architecture.

    Raises:
        ConfigurationError: its target is newer, or bound to another architecture.
    """
    found = _TARGET.search(ptx)
    if found is None:
        return
    number, letter = int(found[1]), found[2]
    own = int(arch.removeprefix("sm_").rstrip("af"))
    same_family = letter == "f" and number // 10 == own // 10 and number <= own
    if number > own or (letter and number != own and not same_family):
        raise ConfigurationError(
            f"the kernel was compiled for sm_{number}{letter} and cannot run on this GPU, {arch}",
            hint=f"compile with --arch {arch}",
        )


def assemble(ptx: str, arch: str, name: str = "<ptx>", how: Assembly = OPTIMISED) -> bytes:
    """Machine code of a PTX module.

    Args:
        arch: "sm_90".
        name: what to call the PTX in messages.

    Returns:
        A cubin; or the PTX itself with a final NUL, for the driver to compile, where there is no assembler.

    Raises:
        CompileError: the assembler refuses it; `detail` holds its log.
        ConfigurationError: the PTX is for another architecture.
    """
    check_target(ptx, arch)
    letter = _TARGET.search(ptx)
    target = arch + letter[2] if letter and letter[2] == "a" else arch
    return _assembled(ptx, target, name, how)


@functools.lru_cache(maxsize=64)
def _assembled(ptx: str, arch: str, name: str, how: Assembly) -> bytes:
    linker = nvjitlink()
    if linker is not None:
        try:
            return _by_nvjitlink(linker, ptx, arch, name, how)
        except _TooNew:
            pass
    program = ptxas_program()
    if program:
        return _by_ptxas(program, ptx, arch, name, how)
    return ptx.encode("utf-8", "surrogateescape") + b"\0"


class _TooNew(Exception):
    """The PTX is of a later version than the assembler's."""


@functools.cache
def nvjitlink() -> Any | None:
    """`cuda.bindings.nvjitlink`, or None where it or its library is not installed."""
    try:
        from cuda.bindings import nvjitlink as module

        module.version()
    except Exception:  # each of bindings, pathfinder and library has its own errors
        return None
    return module


def _by_nvjitlink(linker: Any, ptx: str, arch: str, name: str, how: Assembly) -> bytes:
    data = ptx.encode("utf-8", "surrogateescape") + b"\0"  # it reads up to a NUL, whatever the size says
    options = [f"-arch={arch}", f"-O{how.level}", f"-fma={int(how.fuse)}", "-lineinfo"]
    handle = linker.create(len(options), options)
    try:
        try:
            linker.add_data(handle, linker.InputType.PTX, data, len(data), name)
            linker.complete(handle)
        except linker.nvJitLinkError:
            log = _log(linker, handle)
            if "Unsupported .version" in log:
                raise _TooNew from None
            raise _refused(log, name) from None
        code = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, code)
        return bytes(code)
    finally:
        linker.destroy(handle)


def _log(linker: Any, handle: Any) -> str:
    text = bytearray(linker.get_error_log_size(handle))
    if text:
        linker.get_error_log(handle, text)
    return text.rstrip(b"\0").decode("utf-8", "replace")


def _refused(log: str, name: str) -> WmmadiagError:
    lines = [line for line in log.splitlines() if "error" in line.lower() or "fatal" in line.lower()]
    first = lines[0].split(":", 1)[-1].strip() if lines else "no reason given"
    named = _NAMED.search(first)
    return CompileError(
        f"the assembler refuses {name}: {first}",
        detail=log.strip(),
        hint="`wmmadiag ptx` shows the instruction; a limit such as 48 KB of static shared memory is met only here",
        op=named[1] if named is not None else "",
        space="shared" if _TOO_MUCH_SHARED.search(log) else "",
    )


def _by_ptxas(program: str, ptx: str, arch: str, name: str, how: Assembly) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_bytes(ptx.encode("utf-8", "surrogateescape"))
        command = [program, f"-arch={arch}", f"-O{how.level}", f"--fmad={str(how.fuse).lower()}", "-lineinfo"]
        command += [str(source), "-o", str(result)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return result.read_bytes()
    log = (done.stdout + done.stderr).replace(str(source), name)
    if "Unsupported .version" in log:
        return ptx.encode("utf-8", "surrogateescape") + b"\0"
    raise _refused(log, name)
