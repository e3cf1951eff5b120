"""Which source a PTX text was compiled from in this process, so that messages name arrays as it declares them."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, replace

from wmmadiag.compile.languages import is_ptx
from wmmadiag.compile.model import Compilation, Resources
from wmmadiag.compile.options import CompileOptions


@dataclass(frozen=True, slots=True)
class PtxOrigin:
    """A source as the compiler got it."""

    file: str  # its name, as places in the PTX show it
    text: str  # of the file
    options: CompileOptions  # that it was compiled with
    resources: tuple[Resources, ...] = ()  # what ptxas said of its kernels, if it was asked


_MOST = 64
_known: OrderedDict[bytes, PtxOrigin] = OrderedDict()


def remember(compilation: Compilation) -> None:
    """Keep what `origin_of` answers; the oldest is forgotten."""
    if compilation.text:
        _known[_key(compilation.ptx)] = PtxOrigin(compilation.source, compilation.text, compilation.options)
        while len(_known) > _MOST:
            _known.popitem(last=False)


def remember_resources(compilation: Compilation, found: tuple[Resources, ...]) -> None:
    """Keep what ptxas said of a compilation's kernels with its origin."""
    remember(compilation)
    origin = _known.get(_key(compilation.ptx))
    if origin is not None:
        _known[_key(compilation.ptx)] = replace(origin, resources=found)


def origin_of(ptx: str) -> PtxOrigin | None:
    """The source of a PTX text, or None when another process compiled it."""
    return _known.get(_key(ptx))


def ptx_name(ptx: str) -> str:
    """What messages call a PTX text: the path of the file that it was read from, else "<ptx>"."""
    origin = origin_of(ptx)
    return origin.file if origin is not None and is_ptx(origin.file) else "<ptx>"


def _key(ptx: str) -> bytes:
    return hashlib.blake2b(ptx.encode("utf-8", "surrogatepass"), digest_size=16).digest()
