"""In which language a file is written, by its name: PTX and Python are not read as CUDA C++."""

from __future__ import annotations

from pathlib import PurePath

_SOURCES = frozenset([".cu", ".c", ".cc", ".cpp", ".cxx", ".c++"])
# CUDA's own headers (<cuda/std/utility>) have no suffix.
_HEADERS = frozenset(["", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".inc", ".ipp", ".tpp", ".tcc", ".impl", ".def"])


def is_ptx(name: PurePath | str) -> bool:
    """Whether a file of this name holds PTX."""
    return PurePath(name).suffix.lower() == ".ptx"


def is_c_family(name: PurePath | str) -> bool:
    """Whether a file of this name holds C, C++ or CUDA C++: what a line of it declares can be read."""
    return PurePath(name).suffix.lower() in _SOURCES | _HEADERS
