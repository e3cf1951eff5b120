"""CUDA source to PTX and cubin, with no GPU and no driver: NVRTC, headers, host code, resources, cache.

Importing this package loads nothing of CUDA; that happens at the first compilation.
"""

from wmmadiag.compile.driver import compile_source, compile_text
from wmmadiag.compile.host_code import HostLaunch, SourceExpression, find_launches
from wmmadiag.compile.model import Compilation, CompileNote, Entry, PtxasError, Resources
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.resources import resources
from wmmadiag.compile.signature import (
    KernelParameter,
    KernelSignature,
    TemplateParameter,
    kernel_signatures,
    signature,
)

__all__ = [
    "Compilation",
    "CompileNote",
    "CompileOptions",
    "Entry",
    "HostLaunch",
    "KernelParameter",
    "KernelSignature",
    "PtxasError",
    "Resources",
    "SourceExpression",
    "TemplateParameter",
    "compile_source",
    "compile_text",
    "find_launches",
    "kernel_signatures",
    "resources",
    "signature",
]
