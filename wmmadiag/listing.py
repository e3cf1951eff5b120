"""A compilation's kernels as instructions under source lines: what `wmmadiag ptx` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wmmadiag.compile import Compilation


def listing(compilation: Compilation, entry: str | None = None) -> str:
    """The listing of one kernel, or of all and the functions that they call.

    Raises:
        ConfigurationError: there is no such kernel, or none at all.
        PtxSyntaxError: the PTX is malformed.
    """
    from wmmadiag.compile.languages import is_ptx
    from wmmadiag.ptx import dump, parse

    source = compilation.source
    wanted = None
    if entry is not None or not compilation.entries:
        wanted = compilation.entry(entry).name
    module = parse(compilation.ptx, name=source if is_ptx(source) else f"PTX of {source}", entry=wanted or "")
    return dump(module, entry=wanted, sources={source: compilation.text})
