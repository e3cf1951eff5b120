"""What a card is checked as."""

from __future__ import annotations

from wmmadiag import backends
from wmmadiag.errors import ConfigurationError, UnsupportedError
from wmmadiag.numerics.architecture import architecture
from wmmadiag.subject.card import Card


def card_target(card: Card, arch: str | None, backend: str = "emulator") -> str:
    """The architecture to check for, in its usual spelling."""
    from wmmadiag.compile.languages import is_ptx
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.compile.ptx_scan import emulated_target
    from wmmadiag.compile.sources import read_text

    if arch is None and is_ptx(card.source):
        arch = emulated_target(read_text(card.source)) or None
    return known_arch(CompileOptions(arch=arch or backends.default_arch(backend)).arch)


def known_arch(arch: str) -> str:
    """An architecture, if it is one.

    Raises:
        ConfigurationError: nobody knows it; before anything is read or compiled for it.
    """
    try:
        architecture(arch)
    except UnsupportedError as error:
        raise ConfigurationError(error.message, hint=error.hint) from None
    return arch
