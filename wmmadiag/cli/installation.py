"""What this machine has and what it lacks for wmmadiag, each with the command that installs it."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from wmmadiag import __version__
from wmmadiag.errors import WmmadiagError

_REINSTALL = "pip install --force-reinstall wmmadiag"

_SELF_TEST = """#include <mma.h>
extern "C" __global__ void wmmadiag_self_test(const half* a, const half* b, float* c)
{
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
"""


@dataclass(frozen=True, slots=True)
class Component:
    """One part of the installation."""

    name: str  # what it is
    present: bool  # whether it is there and works
    required: bool  # whether wmmadiag needs it; without the others it does less
    detail: str  # version, place, or what is wrong with it
    install: str = ""  # command that installs or mends it, "" when there is nothing to do


def examine() -> Iterator[Component]:
    """Look at each part in turn; a part that fails is reported, and the others still looked at."""
    for name, required, probe in _PROBES:
        try:
            yield probe()
        except WmmadiagError as error:
            detail = " ".join([error.message, error.detail]).strip()
            yield Component(name, False, required, detail, error.hint or _REINSTALL)
        except Exception as error:  # a broken installation fails in any way
            yield Component(name, False, required, f"{type(error).__name__}: {error}", _REINSTALL)


def _python() -> Component:
    version = platform.python_version()
    enough = sys.version_info >= (3, 10)
    detail = f"{version} ({platform.python_implementation()}, {platform.machine()} {platform.system()})"
    return Component("Python", enough, True, detail, "" if enough else "install Python 3.10 or newer")


def _wmmadiag() -> Component:
    return Component("wmmadiag", True, True, f"{__version__} in {Path(__file__).parents[1]}")


def _packages() -> Component:
    """What the package says that it needs, and of its extras what is there."""
    found: list[str] = []
    missing: list[str] = []
    for one in metadata.requires("wmmadiag") or ():
        name, _, condition = one.partition(";")
        name = re.split(r"[^\w.-]", name.strip(), maxsplit=1)[0]
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            if not condition.strip():  # else an extra's, or of another Python
                missing.append(name)
    # A toolkit may stand in for NVIDIA's, whose parts have lines of their own.
    needed = [name for name in missing if not name.startswith("nvidia-")]
    detail = ", ".join(found) + (f"; not installed: {', '.join(missing)}" if missing else "")
    return Component("packages", not needed, True, detail, f"pip install {' '.join(needed)}" if needed else "")


def _engine() -> Component:
    from wmmadiag.emulator import native

    available = native.isas()
    native.engine()
    used, how = native.isa(), " (by WMMADIAG_ISA)" if os.environ.get("WMMADIAG_ISA") else ""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    detail = f"{used}{how}; built: {', '.join(available)}; {threads} thread{'s' * (threads > 1)}"
    return Component("emulator core", True, True, detail)


def _nvrtc() -> Component:
    from wmmadiag.compile.toolchain import nvrtc_library

    nvrtc = nvrtc_library()
    major, minor = nvrtc.version()
    where = _loaded_library("nvrtc")
    names = ", ".join(f"sm_{arch}" for arch in nvrtc.arches())
    return Component("NVRTC", True, True, f"{major}.{minor}{f' at {where}' if where else ''}; {names}")


def _headers() -> Component:
    from wmmadiag.compile.toolchain import toolchain

    return Component("CUDA headers", True, True, ", ".join(map(str, toolchain().includes)))


def _loaded_library(part: str) -> str:
    """Path of the loaded library whose name holds `part`, as the system tells it (Linux), else ""."""
    try:
        lines = Path("/proc/self/maps").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    paths = {line.split(None, 5)[5] for line in lines if len(line.split(None, 5)) == 6}
    names = sorted(path for path in paths if f"lib{part}.so" in Path(path).name or Path(path).name == f"{part}.dll")
    return names[0] if names else ""


def _cache() -> Component:
    from wmmadiag.compile.cache import cache_folder

    folder = cache_folder()
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    size = f"{sum(files) / 2**20:.1f} MiB in {len(files)} files"
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return Component("cache", True, False, f"{folder}, {size}")
    return Component(
        "cache", False, False, f"{folder} is not writable: each run compiles anew", "set WMMADIAG_CACHE_DIR to a folder"
    )


def _gpu() -> Component:
    from wmmadiag.gpu import devices

    try:
        found = devices()
    except WmmadiagError as error:
        return Component("GPU", False, False, f"{error.message}; not needed: kernels run on the emulator")
    names = ", ".join(f"{one.index}: {one.name} ({one.arch})" for one in found)
    return Component("GPU", True, False, f"{names}; driver for CUDA {found[0].driver}")


def _exactness() -> Component:
    """What the emulator was compared with; `tests/vectors/make_exactness.py` writes the file."""
    import json

    rows = json.loads(Path(__file__).with_name("exactness.json").read_text("ascii"))
    words = []
    for arch in dict.fromkeys(row["arch"] for row in rows):
        own = [row for row in rows if row["arch"] == arch]
        outputs, differing = sum(row["outputs"] for row in own), sum(row["differing"] for row in own)
        words.append(f"{outputs:,} results recorded on {arch}, {differing:,} of them differ")
    return Component("exactness", True, False, "; ".join(words))


def _self_test() -> Component:
    """Multiply two 16x16 matrices of small integers by WMMA: every bit of the sum is determined."""
    import numpy as np

    from wmmadiag.api import kernel

    start = time.perf_counter()
    tile = kernel(_SELF_TEST, use_cache=False)
    compiled = time.perf_counter()
    a, b = np.random.default_rng(0).integers(-8, 9, (2, 16, 16)).astype(np.float16)
    c = np.full((16, 16), np.nan, np.float32)
    launched = time.perf_counter()
    stats = tile.launch(1, 32, a, b, c)
    done = time.perf_counter()
    right = bool((c == a.astype(np.float64) @ b.astype(np.float64)).all())
    times = f"compiled in {compiled - start:.2f} s, run in {(done - launched) * 1e3:.1f} ms"
    detail = f"a WMMA kernel {'gives the right bits' if right else 'GIVES WRONG NUMBERS'}; {times}"
    if stats.warp_instructions <= 0:
        right, detail = False, "the kernel ran no instruction"
    return Component("self test", right, True, detail, "" if right else _REINSTALL)


_PROBES: tuple[tuple[str, bool, Callable[[], Component]], ...] = (
    ("Python", True, _python),
    ("wmmadiag", True, _wmmadiag),
    ("packages", True, _packages),
    ("emulator core", True, _engine),
    ("NVRTC", True, _nvrtc),
    ("CUDA headers", True, _headers),
    ("cache", False, _cache),
    ("GPU", False, _gpu),
    ("exactness", False, _exactness),
    ("self test", True, _self_test),
)
