"""CUDA source to PTX and cubin, with no GPU and no driver: NVRTC, headers, host code, resources, cache.

Importing this package loads nothing of CUDA; that happens at the first compilation.
"""

from wmmadiag.compile.driver import compile_source, compile_text
from wmmadiag.compile.model import Compilation, CompileNote, Entry, PtxasError, Resources
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.resources import resources

__all__ = [
    "Compilation",
    "CompileNote",
    "CompileOptions",
    "Entry",
    "PtxasError",
    "Resources",
    "compile_source",
    "compile_text",
    "resources",
]
