"""What only the compiler knows of a source, asked of the compiler: values, types, parameters of kernels, layouts.

`ask(asked, questions)` compiles a source with the questions written behind it, once for all of them, and reads the
answers from the PTX. Nothing is computed here, and what the compiler refuses has the compiler's own reason:

>>> from wmmadiag.compile.ask import Asked, Value, ask
>>> source = Asked("template <int D> struct T { static constexpr int rows = D / 4; }; __global__ void k() {}", "k.cu")
>>> question = Value("sizeof(float4) * T<64>::rows")
>>> ask(source, [question])[question].value
256

`layouts` takes classes apart that kernels get by value, `scope_at` tells the compiler what an expression of a function
can name, `element` names the number format of a type.
"""

from __future__ import annotations

from wmmadiag.compile.ask.answers import Constant, KernelParameters, TypeFacts, Unanswered
from wmmadiag.compile.ask.asking import ask
from wmmadiag.compile.ask.elements import element
from wmmadiag.compile.ask.layout import Field, Layout, Leaf, layouts
from wmmadiag.compile.ask.questions import Asked, Parameters, ParameterType, Question, TypeOf, Value
from wmmadiag.compile.ask.scope import Scope, scope_at

__all__ = [
    "Asked",
    "Constant",
    "Field",
    "KernelParameters",
    "Layout",
    "Leaf",
    "ParameterType",
    "Parameters",
    "Question",
    "Scope",
    "TypeFacts",
    "TypeOf",
    "Unanswered",
    "Value",
    "ask",
    "element",
    "layouts",
    "scope_at",
]
