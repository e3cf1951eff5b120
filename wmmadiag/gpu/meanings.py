"""What CUDA's error codes mean for a kernel's user.

Source: CUDA Driver API 13, "enum CUresult"; what poisons a process was measured on an H200 with driver 580: after each
code that is marked sticky, every further call of the process failed, cuCtxCreate included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.errors import ConfigurationError, KernelFault, UndecidedError, WmmadiagError
from wmmadiag.gpu.devices import Device
from wmmadiag.gpu.wire import OPT_IN, Attributes, Failed, LaunchDone
from wmmadiag.launch import Launch
from wmmadiag.place import Place


@dataclass(frozen=True, slots=True)
class Meaning:
    """One error code."""

    name: str  # as the driver spells it, without "CUDA_ERROR_"
    # of the `KernelFault` when a launch dies of it (the emulator's name where it means the same); "" when the code says
    # nothing about the kernel
    kind: str
    sticky: bool  # whether the process can use the GPU no more
    meaning: str  # what happened, one clause
    hint: str  # likely cause and next step


MEANINGS: Mapping[int, Meaning] = {
    1: Meaning(
        "INVALID_VALUE", "launch-limits", False, "the driver refused a value of the launch",
        "check grid and block, and that static and dynamic shared memory fit the device",
    ),
    2: Meaning(
        "OUT_OF_MEMORY", "", False, "the GPU's memory does not suffice",
        "take a smaller case, or free memory that other processes hold (nvidia-smi lists them)",
    ),
    100: Meaning("NO_DEVICE", "", False, "the driver finds no GPU", "run on the emulator, --backend emulator"),
    101: Meaning("INVALID_DEVICE", "", False, "there is no GPU of that number", "`wmmadiag doctor` lists them"),
    200: Meaning(
        "INVALID_IMAGE", "", False, "the driver cannot read the compiled kernel",
        "compile again with --no-cache; update the driver if that does not help",
    ),
    209: Meaning(
        "NO_BINARY_FOR_GPU", "", False, "the compiled kernel is for another architecture than this GPU's",
        "give --arch the GPU's own architecture, or an older one without a letter",
    ),
    214: Meaning(
        "ECC_UNCORRECTABLE", "", True, "the GPU's memory reported an uncorrectable error",
        "the hardware failed, not the kernel: reset or replace the GPU",
    ),
    218: Meaning(
        "INVALID_PTX", "", False, "the driver's PTX compiler refused the kernel",
        "the log names the instruction; `wmmadiag ptx` shows it",
    ),
    221: Meaning("JIT_COMPILER_NOT_FOUND", "", False, "the driver has no PTX compiler", "pip install nvidia-nvjitlink"),
    222: Meaning(
        "UNSUPPORTED_PTX_VERSION", "", False, "the PTX is newer than this driver",
        "pip install nvidia-nvjitlink, update the driver, or install an NVRTC of the driver's CUDA version",
    ),
    500: Meaning(
        "NOT_FOUND", "", False, "the compiled module has no kernel of that name",
        "give the mangled name, or an instantiation such as 'attn<64>'",
    ),
    700: Meaning(
        "ILLEGAL_ADDRESS", "out-of-bounds", True, "a load or store touched memory that is not the process'",
        "run the same on the emulator: it names the line, the lane and the array",
    ),
    701: Meaning(
        "LAUNCH_OUT_OF_RESOURCES", "launch-limits", False, "a block needs more registers than a multiprocessor has",
        "launch smaller blocks, or give the kernel __launch_bounds__",
    ),
    702: Meaning(
        "LAUNCH_TIMEOUT", "timeout", True, "the driver ended the kernel because it ran too long",
        "look for an endless loop; a GPU that drives a display allows a few seconds only",
    ),
    709: Meaning("CONTEXT_IS_DESTROYED", "", True, "the context was destroyed", "repeat the run"),
    710: Meaning(
        "ASSERT", "assertion", True, "the kernel's own assert does not hold",
        "the output shows the assertion; the emulator names the block and lane",
    ),
    714: Meaning(
        "HARDWARE_STACK_ERROR", "stack-overflow", True, "the call stack is corrupt or overflowed",
        "look for deep recursion, or a local array that is written out of bounds",
    ),
    715: Meaning(
        "ILLEGAL_INSTRUCTION", "illegal-instruction", True, "a warp met an illegal instruction",
        "a warp-wide operation with lanes missing, or code for another architecture: run it on the emulator",
    ),
    716: Meaning(
        "MISALIGNED_ADDRESS", "misaligned", True, "a load or store used an address that is not aligned",
        "wmma wants 32 bytes, uint4 and ldmatrix 16: declare arrays __align__(32); the emulator names the line",
    ),
    717: Meaning(
        "INVALID_ADDRESS_SPACE", "wrong-space", True, "an instruction used an address of another memory space",
        "a shared or local pointer is used as a global one, or the reverse; the emulator names the line",
    ),
    718: Meaning(
        "INVALID_PC", "illegal-instruction", True, "a warp jumped out of the kernel",
        "look for a corrupt function pointer or stack",
    ),
    719: Meaning(
        "LAUNCH_FAILED", "launch-failed", True, "the kernel died of an exception without a code of its own",
        "mostly a trap (also one that the compiler put where it found undefined behaviour) or shared memory out of "
        "bounds; the emulator says which, and where",
    ),
    720: Meaning(
        "COOPERATIVE_LAUNCH_TOO_LARGE", "launch-limits", False, "the grid does not fit on the GPU at one time",
        "launch fewer blocks",
    ),
    804: Meaning(
        "COMPAT_NOT_SUPPORTED_ON_DEVICE", "", False, "driver and CUDA libraries do not fit", "update the driver",
    ),
    999: Meaning("UNKNOWN", "", True, "the driver reports an unknown error", "see the system's log (dmesg)"),
}  # fmt: skip

SAME_FAULT: Mapping[str, frozenset[str]] = {
    "trap": frozenset({"launch-failed", "illegal-instruction"}),
    "out-of-bounds": frozenset({"out-of-bounds", "launch-failed", "wrong-space"}),
    "wrong-space": frozenset({"wrong-space", "out-of-bounds", "launch-failed", "misaligned"}),
    "deadlock": frozenset({"timeout", "illegal-instruction"}),
    "partial-warp": frozenset({"illegal-instruction", "timeout"}),
    "read-only": frozenset({"read-only", "out-of-bounds", "launch-failed"}),
}
"""Kind of fault on the emulator → kinds on a GPU that can be the same event; each kind is its own, too."""


def meaning(code: int) -> Meaning:
    """What a code means; unknown ones are taken for sticky."""
    return MEANINGS.get(code) or Meaning(f"code {code}", "", True, "a CUDA call failed", "see the CUDA Driver API")


def same_fault(emulator: str, gpu: str) -> bool:
    """Whether faults of these kinds can be one event, seen by the emulator and by a GPU."""
    return emulator == gpu or gpu in SAME_FAULT.get(emulator, ())


# From a driver's error, or a changed guard, to an error that says what happened and what to do.


_OPTED_OUT = 48 << 10


def failure(failed: Failed, launch: Launch, device: Device, entry: str, place: Place | None) -> WmmadiagError:
    """The error for a failed driver call of a launch."""
    known = meaning(failed.code)
    name = f"CUDA_ERROR_{known.name}" if not known.name.startswith("code") else f"CUDA error {failed.code}"
    details = [f"  while: {failed.doing}, on {device.name}, {entry} grid {launch.grid} block {launch.block}"]
    if failed.output:
        details.append("  the kernel printed: " + failed.output.strip().replace("\n", "\n    "))
    if failed.log:
        details.append("  " + failed.log.replace("\n", "\n  "))
    detail = "\n".join(details)
    if known.kind and failed.doing in ("launch", "run", OPT_IN):
        cause, space = _limit(failed.attributes, launch, device) if known.kind == "launch-limits" else ("", "")
        return KernelFault(
            f"{name}: {cause or known.meaning}", kind=known.kind, place=place, detail=detail, hint=known.hint,
            space="shared" if failed.doing == OPT_IN else space,
        )  # fmt: skip
    if known.kind or known.sticky:
        return UndecidedError(f"{name}: {known.meaning}", place=place, detail=detail, hint=known.hint)
    return ConfigurationError(f"{name}: {known.meaning}", place=place, detail=detail, hint=known.hint)


def _limit(attributes: Attributes | None, launch: Launch, device: Device) -> tuple[str, str]:
    """(which limit a launch exceeds, the memory whose limit it is), each "" where it cannot be told."""
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    if threads > 1024 or launch.block[2] > 64:
        return f"a block of {launch.block} has {threads} threads; 1024 are allowed, 64 of them in z", ""
    if launch.grid[1] > 65535 or launch.grid[2] > 65535:
        return f"grid {launch.grid}: y and z may be 65535 at most", ""
    if attributes is None:
        return "", ""
    if threads > attributes.max_threads > 0:
        words = f"{threads} threads per block, but the kernel allows {attributes.max_threads} "
        return words + f"({attributes.registers} registers per thread, __launch_bounds__)", ""
    total = attributes.static_shared + launch.shared_bytes
    if total > device.shared_per_block:
        words = f"the block needs {total:,} bytes of shared memory ({attributes.static_shared:,} static, "
        return words + f"{launch.shared_bytes:,} dynamic); {device.name} has {device.shared_per_block:,}", "shared"
    if attributes.static_shared > _OPTED_OUT:
        return f"{attributes.static_shared:,} bytes of static shared memory; more than 48 KB must be dynamic", "shared"
    return "", ""


def stray_writes(done: LaunchDone, names: Sequence[str], place: Place | None) -> KernelFault | None:
    """The fault for writes beside the arrays or into read-only ones, or None. `names`: of the buffers."""
    if done.strays:
        stray = min(done.strays, key=lambda one: one.distance)
        where = "before the start" if stray.before else "past the end"
        others = "".join(
            f"\n  {names[one.buffer]}: {one.count} bytes {'before' if one.before else 'after'} it, "
            f"the nearest {one.distance} bytes away"
            for one in done.strays
        )
        return KernelFault(
            f"writes out of bounds: {stray.distance} bytes {where} of {names[stray.buffer]} and further",
            kind="out-of-bounds",
            place=place,
            detail="  the launch ended, and bytes around its arrays are changed:" + others,
            hint="the emulator names the line and the lane: --backend emulator",
        )
    if done.changed:
        return KernelFault(
            f"the kernel changed {names[done.changed[0]]}, which is read-only",
            kind="read-only",
            place=place,
            hint="the emulator names the line and the lane: --backend emulator",
        )
    return None
