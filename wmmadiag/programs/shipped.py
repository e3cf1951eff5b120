"""The runtime library that travels with the package: what says that it is the one of these sources.

Run by the build, before anything of the package can be imported: `python shipped.py INCLUDES` prints the stamp.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

NATIVE = Path(__file__).parent / "native"
LIBRARY = "libwmmadiag_runtime.so"
WITH_LIBRARIES = "libraries"
"""A line of the stamp's file, where `libraries/` is in it: in wheels, but not in what is built for one machine."""
_SOURCES = ("*.cpp", "*.hpp", "libraries/*", "headers/**/*.h")


def stamp(includes: Path) -> str:
    """A digest of the sources of the runtime, and the version of the CUDA headers that it is compiled against."""
    header = (includes / "cuda_runtime_api.h").read_text("utf-8", "replace")
    found = re.search(r"#define CUDART_VERSION\s+(\d+)", header)
    digest = hashlib.sha256()
    for path in sorted({one for pattern in _SOURCES for one in NATIVE.glob(pattern) if one.is_file()}):
        digest.update(path.relative_to(NATIVE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{found[1] if found else 0} {digest.hexdigest()}"


def installed_headers() -> Path | None:
    """The folder of the CUDA headers that a wheel has installed for this interpreter."""
    for entry in sys.path:
        for folder in sorted(Path(entry or ".").glob("nvidia/cu*/include"), reverse=True):
            if (folder / "cuda_runtime_api.h").is_file() and (folder / "nv" / "target").is_file():
                return folder
    return None


if __name__ == "__main__":
    headers = installed_headers()
    if headers is not None:
        print(headers, stamp(headers), sep="\n")
