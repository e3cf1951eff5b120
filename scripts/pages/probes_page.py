"""docs/probes.md, from the probes' own words."""

from __future__ import annotations

import inspect

from wmmadiag.probes.registry import probe_modules

_HEAD = """\
# Probes

Small questions, each with one answer. `wmmadiag probe` puts them to the toolchain and to the emulator or a GPU
(`--backend gpu`).
`wmmadiag probe --list` lists them, `-v` shows all that was measured, `--json FILE` is for programs.

Exit codes: 0 everything is as it should be, 1 something is not, 3 it cannot be said.

This page is made by `python scripts/pages`.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for name, (probe, module) in probe_modules().items():
        source = f"Kernels: [`probes/{probe.source}`](../probes/{probe.source})."
        parts.append(f"## {name}\n\n*{probe.asks}* {source}\n\n{inspect.cleandoc(module.__doc__ or '')}\n")
    return "\n".join(parts)
