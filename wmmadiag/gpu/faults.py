"""From a driver's error, or a changed guard, to an error that says what happened and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from wmmadiag.errors import ConfigurationError, KernelFault, UndecidedError, WmmadiagError
from wmmadiag.gpu.devices import Device
from wmmadiag.gpu.meanings import meaning
from wmmadiag.gpu.wire import OPT_IN, Attributes, Failed, LaunchDone
from wmmadiag.launch import Launch
from wmmadiag.place import Place

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
