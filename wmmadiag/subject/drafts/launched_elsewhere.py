"""The file of a project that launches a kernel of another of its files: a header of kernels has its launches beside it.

Only files that include the kernel's own count, whatever else has a kernel of that name.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.errors import WmmadiagError
from wmmadiag.hostcode.program import plain_name
from wmmadiag.subject.drafts.kernel import SourceKernel, read_kernel
from wmmadiag.subject.drafts.kernel_types import is_compiled
from wmmadiag.subject.drafts.project import project_files

if TYPE_CHECKING:
    from wmmadiag.subject.open_subject import SubjectOptions

_MOST_READ = 3


def launched_elsewhere(path: Path, kernel: SourceKernel, options: SubjectOptions) -> tuple[Path, SourceKernel] | None:
    """The kernel as the nearest file launches it that includes its own; None if no file does.

    Args:
        kernel: of the source `path`, that it does not launch itself.
    """
    from wmmadiag.compile.sources import read_text

    declared = kernel.declared
    if declared is None or kernel.launch is not None:
        return None
    name = plain_name(kernel.entry)
    launch = re.compile(rf"\b{re.escape(name)}\b[^;{{}}]*<<<".encode())
    read = 0
    for other in project_files(path):
        try:
            if not launch.search(other.read_bytes()):
                continue
            read += 1
            text = read_text(other)
            found = read_kernel(other, text, replace(options, entry=kernel.entry))
        except (WmmadiagError, OSError):
            continue
        if found.launch is None or found.declared is None or not _same(found.declared.source.name, path):
            continue
        if "{" in found.entry or is_compiled(found.entry, other, text, options):
            said = f"the kernel is taken as {other} launches it, which includes its file"
            return other, replace(found, remarks=(*found.remarks, said))
        if read == _MOST_READ:
            break
    return None


def _same(name: str, path: Path) -> bool:
    try:
        return path.samefile(name)
    except OSError:
        return False
