"""What a card is checked as."""

from __future__ import annotations

from wmmadiag import backends
from wmmadiag.subject.card import Card


def card_target(card: Card, arch: str | None, backend: str = "emulator") -> str:
    """The architecture to check for, in its usual spelling."""
    from wmmadiag.compile import CompileOptions
    from wmmadiag.compile.languages import is_ptx
    from wmmadiag.compile.ptx_scan import emulated_target
    from wmmadiag.compile.sources import read_text

    if arch is None and is_ptx(card.source):
        arch = emulated_target(read_text(card.source)) or None
    return CompileOptions(arch=arch or backends.default_arch(backend)).arch
