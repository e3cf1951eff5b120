"""`cp.async` copies 4, 8 or 16 bytes with `.ca` and only 16 with `.cg`, source and target aligned to the size, from
sm_80 on. Other sizes are no instruction; the compiler's front end lets them pass in inline assembly, and the
assembler or the driver refuses the kernel later.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.errors import ConfigurationError, WmmadiagError
from wmmadiag.numerics.architecture import architecture
from wmmadiag.probes.answer import ProbeAnswer
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import Probe

_SIZES = {"ca": (2, 4, 8, 12, 16, 32), "cg": (4, 8, 16)}
_EXIST = {("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)}  # PTX ISA 9.0, "cp.async"


def run(machine: Platform) -> ProbeAnswer:
    """Every size, and each that exists from a misaligned source and to a misaligned target."""
    meant_to = architecture(machine.arch).number >= 80
    data: dict[str, str] = {}
    strange = []
    for modifier, sizes in _SIZES.items():
        for size in sizes:
            name = f"cp.async.{modifier} {size} bytes"
            data[name] = _copied(machine, modifier, size, 0, 0)
            exists = meant_to and (modifier, size) in _EXIST
            if (data[name] == "copied") != exists:
                strange.append(f"{name}: {data[name]}")
            if exists:
                for what, offsets in {"source": (size // 2, 0), "target": (0, size // 2)}.items():
                    answer = _copied(machine, modifier, size, *offsets)
                    data[f"{name}, {what} off by {size // 2}"] = answer
                    if answer != "misaligned":
                        strange.append(f"{name}, misaligned {what}: {answer}")
    table = tuple(f"{name}: {what}" for name, what in data.items())
    if strange:
        return ProbeAnswer("wrong", ("not as the PTX ISA says: " + "; ".join(strange),), table, data)
    if not meant_to:
        return ProbeAnswer(
            "right", (f"{machine.arch} has no cp.async (sm_80 and later do): copy through registers",), table, data
        )
    lines = (
        "cp.async copies 4, 8 or 16 bytes (.ca) or 16 (.cg); no other size is an instruction",
        "source and target must be aligned to the size: the launch dies of a misaligned one",
    )
    return ProbeAnswer("right", lines, table, data)


def _copied(machine: Platform, modifier: str, size: int, source: int, target: int) -> str:
    """ "copied", "wrong bytes", "refused", or the kind of fault."""
    content, to = np.arange(1, 129, dtype=np.uint8), np.zeros(128, np.uint8)
    macros = {"MODIFIER": f'"{modifier}"', "SIZE": str(size)}
    try:
        fault = machine.run("async_copy.cu", "async_copy", [content, to, source, target], macros=macros)
    except ConfigurationError:
        raise
    except WmmadiagError:
        return "refused"
    want = np.zeros(128, np.uint8)
    want[target : target + size] = content[source : source + size]
    return fault or ("copied" if np.array_equal(to, want) else "wrong bytes")


PROBE = Probe("async-copy", "which sizes and alignments does cp.async take?", "async_copy.cu", run)
