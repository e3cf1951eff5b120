"""The file of a project that launches a kernel of another of its files: a header of kernels has its launches beside it.

Only files that include the kernel's own count, whatever else has a kernel of that name.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from wmmadiag.errors import WmmadiagError
from wmmadiag.hostcode.program import plain_name
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.kernel import SourceKernel, read_kernel
from wmmadiag.subject.drafts.kernel_types import known_types
from wmmadiag.subject.drafts.project import project_files

_MOST_READ = 3


def launched_elsewhere(source: GivenSource, kernel: SourceKernel) -> tuple[GivenSource, SourceKernel] | None:
    """The kernel as the nearest file launches it that includes its own; None if no file does.

    Args:
        kernel: of the source, that it does not launch itself.
    """
    declared = kernel.declared
    if declared is None or kernel.launch is not None:
        return None
    name = plain_name(kernel.entry)
    launch = re.compile(rf"\b{re.escape(name)}\b[^;{{}}]*<<<".encode())
    read = 0
    for path in project_files(source.path):
        other = GivenSource(path, source.options)
        try:
            if not launch.search(path.read_bytes()):
                continue
            read += 1
            found = read_kernel(other.of(kernel.entry))
        except (WmmadiagError, OSError):
            continue
        if found.launch is None or found.declared is None or not _same(found.declared.source.name, source.path):
            continue
        if "{" in found.entry or known_types(found.entry, other) is not None:
            said = f"the kernel is taken as {path} launches it, which includes its file"
            return other, replace(found, remarks=(*found.remarks, said))
        if read == _MOST_READ:
            break
    return None


def _same(name: str, path: Path) -> bool:
    try:
        return path.samefile(name)
    except OSError:
        return False
