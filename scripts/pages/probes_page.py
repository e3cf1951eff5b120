"""docs/probes.md, from the probes' own words."""

from __future__ import annotations

import inspect

from wmmadiag.probes.registry import Probe, modules_of
from wmmadiag.probes.subject.model import SubjectProbe

_HEAD = """\
# Probes

Small questions, each with one answer. `wmmadiag probe` puts those of the first part to the toolchain and to the
emulator or a GPU (`--backend gpu`); `wmmadiag probe kernel.toml` runs a card's kernel, unchanged, on inputs whose
answers show faults.
`wmmadiag probe --list` lists them, `-v` shows all that was measured, `--json FILE` is for programs.

Exit codes: 0 everything is as it should be, 1 something is not, 3 it cannot be said.

This page is made by `python scripts/pages`.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD, "## Of the platform\n"]
    for name, (probe, module) in modules_of("wmmadiag.probes", Probe).items():
        source = f"Kernels: [`probes/{probe.source}`](../probes/{probe.source})."
        parts.append(f"### {name}\n\n*{probe.asks}* {source}\n\n{inspect.cleandoc(module.__doc__ or '')}\n")
    parts.append(
        "## Of a kernel\n\nOutputs alone are looked at, so that these work on a GPU, too; the exceptions say so.\n"
    )
    for name, (one, module) in modules_of("wmmadiag.probes.subject", SubjectProbe).items():
        where = ", ".join(one.operations) + ("; on the emulator only" if one.emulator else "")
        parts.append(f"### {name}\n\n*{one.asks}* For {where}.\n\n{inspect.cleandoc(module.__doc__ or '')}\n")
    return "\n".join(parts)
