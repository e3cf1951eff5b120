"""What only the compiler knows of a source, asked of the compiler: values, types, parameters of kernels, layouts.

`ask(asked, questions)` compiles a source with the questions written behind it, once for all of them, and reads the
answers from the PTX. Nothing is computed here, and what the compiler refuses has the compiler's own reason:

>>> from wmmadiag.compile.ask import Asked, ValueOf, ask
>>> source = Asked("template <int D> struct T { static constexpr int rows = D / 4; }; __global__ void k() {}", "k.cu")
>>> question = ValueOf("sizeof(float4) * T<64>::rows")
>>> ask(source, [question])[question].value
256

Importing this package loads nothing: its modules come with the first use of a name, CUDA with the first question.

`layouts` takes classes apart that kernels get by value, `scope_at` tells the compiler what an expression of a function
can name, `element` names the number format of a type.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wmmadiag.compile.ask.answers import Constant, KernelParameters, TypeFacts, Unanswered
    from wmmadiag.compile.ask.arrays import ArraySource
    from wmmadiag.compile.ask.asking import ask
    from wmmadiag.compile.ask.elements import element
    from wmmadiag.compile.ask.layout import ClassLayout, Field, Leaf, layouts
    from wmmadiag.compile.ask.questions import Asked, Parameters, ParameterType, Question, TypeOf, ValueOf
    from wmmadiag.compile.ask.scope import AskScope, scope_at
    from wmmadiag.compile.ask.signatures import KernelParameter, KernelSignature, signature

__all__ = [
    "ArraySource",
    "AskScope",
    "Asked",
    "ClassLayout",
    "Constant",
    "Field",
    "KernelParameter",
    "KernelParameters",
    "KernelSignature",
    "Leaf",
    "ParameterType",
    "Parameters",
    "Question",
    "TypeFacts",
    "TypeOf",
    "Unanswered",
    "ValueOf",
    "ask",
    "element",
    "layouts",
    "scope_at",
    "signature",
]

_MODULES = {
    "answers": ("Constant", "KernelParameters", "TypeFacts", "Unanswered"),
    "arrays": ("ArraySource",),
    "asking": ("ask",),
    "elements": ("element",),
    "layout": ("Field", "ClassLayout", "Leaf", "layouts"),
    "questions": ("Asked", "ParameterType", "Parameters", "Question", "TypeOf", "ValueOf"),
    "scope": ("AskScope", "scope_at"),
    "signatures": ("KernelParameter", "KernelSignature", "signature"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
