"""Names that a release of CUDA's headers brought: `header_names.txt` has them, and a unit can be compiled without them.

`python tests/support/header_names.py 13.0=FOLDER 13.1=FOLDER …` writes the table: the include folders of all
releases, in order.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

FIXED = ("cuda.h", "cuda_runtime_api.h", "driver_types.h")
"""Those that name the same in all updates of a release; 13.0's second has new names in `library_types.h`."""
HEADERS = (*FIXED, "library_types.h")
_TABLE = Path(__file__).with_suffix(".txt")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_OF_CUDA = re.compile(r"\b(?:CU|(?=[a-z]+[A-Z]))\w+")
"""CUresult, CUDA_ERROR_…, cudaError_t and members such as `numAttrs`; not what C++ has, too."""


def names(includes: Path, headers: Sequence[str] = HEADERS) -> set[str]:
    """What the headers in a folder name."""
    return {
        one for header in headers for one in _OF_CUDA.findall(_COMMENT.sub(" ", (includes / header).read_text("utf-8")))
    }


def brought() -> dict[int, list[str]]:
    """Names by the CUDA_VERSION (13010) that was the first to have them; 13000 is there without any."""
    table: dict[int, list[str]] = {}
    for line in _TABLE.read_text("utf-8").splitlines():
        if line.startswith("["):
            major, minor = line.strip("[]").split(".")
            table[int(major) * 1000 + int(minor) * 10] = []
        else:
            table[max(table)] += line.split()
    return table


def installed(includes: Path) -> int:
    """The CUDA_VERSION of the headers in a folder."""
    found = re.search(r"#define CUDA_VERSION\s+(\d+)", (includes / "cuda.h").read_text("utf-8"))
    assert found
    return int(found[1])


def as_in(version: int, includes: Path) -> str:
    """The beginning of a unit that finds the installed headers as they were in this release, theirs or an earlier one.

    What is newer has another name there: `later_` and its own.
    """
    newer = [name for since, all_names in brought().items() if since > version for name in all_names]
    return "".join(
        [
            *(f"#define {name} later_{name}\n" for name in newer),
            *(f"#include <{header}>\n" for header in HEADERS),
            *(f"#undef {name}\n" for name in (*newer, "CUDA_VERSION", "CUDART_VERSION")),
            f"#define CUDA_VERSION {version}\n#define CUDART_VERSION {version}\n",
        ]
    )


def _write(folders: dict[str, Path]) -> None:
    lines: list[str] = []
    seen: set[str] | None = None
    for release, includes in folders.items():
        has = names(includes)
        lines += [f"[{release}]", *textwrap.wrap(" ".join(sorted(has - (has if seen is None else seen))), 120)]
        seen = has | (seen or set())
    _TABLE.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    _write({release: Path(folder) for release, folder in (one.split("=") for one in sys.argv[1:])})
