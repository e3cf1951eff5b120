"""What only the compiler knows of a source, asked of the compiler: values, types, parameters of kernels, layouts.

`ask(asked, questions)` compiles a source with the questions written behind it, once for all of them, and reads the
answers from the PTX. Nothing is computed here, and what the compiler refuses has the compiler's own reason:

>>> from wmmadiag.compile.ask.asking import ask
>>> from wmmadiag.compile.ask.questions import Asked, ValueOf
>>> source = Asked("template <int D> struct T { static constexpr int rows = D / 4; }; __global__ void k() {}", "k.cu")
>>> question = ValueOf("sizeof(float4) * T<64>::rows")
>>> ask(source, [question])[question].value
256

Importing this package loads nothing; CUDA comes with the first question.

`layouts` takes classes apart that kernels get by value, `scope_at` tells the compiler what an expression of a function
can name, `element` names the number format of a type.
"""
