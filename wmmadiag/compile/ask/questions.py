"""Questions to the compiler, and how each is written in C++."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from wmmadiag.compile.options import CompileOptions

_LONGEST = 4000
_CARRIED = "typename ::wmmadiag_ask::Carried"
# An expression stands in brackets of our own: it may not leave them.
_LITERAL = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_PAIRS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class Asked:
    """The source that questions are about, as `compile_text` takes it.

    Attributes:
        text: of the source.
        file: its name, which quoted includes are relative to.
        options: macros, include paths, standard and target; which kernels are instantiated does not matter.
        headers: absolute path of a header → the text to take in place of the file's.
    """

    text: str
    file: str
    options: CompileOptions = field(default_factory=CompileOptions)
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Scope:
    """What the compiler is to know where an expression stands, beyond the source itself. `scope_at` makes one.

    Attributes:
        namespaces: around it, the outermost first; "" for an unnamed one.
        bindings: declarations that give template parameters their arguments: "using T = half;".
        inside: the class in whose body it stands ("Traits<D>"), or "".
        parameters: of the function, as written, where the expression mentions them.
        declarations: of the function, in their order, as written: "constexpr int PAD = 8;"; "{" opens a block.
    """

    namespaces: tuple[str, ...] = ()
    bindings: tuple[str, ...] = ()
    inside: str = ""
    parameters: str = ""
    declarations: tuple[str, ...] = ()


FILE_SCOPE = Scope()


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a constant expression: a number, a truth value or an enumerator. Answer: `Constant`.

    `sizeof(T)`, `alignof(T)` and `offsetof(T, a.b)` are such expressions.
    """

    expression: str
    scope: Scope = FILE_SCOPE


@dataclass(frozen=True, slots=True)
class TypeOf:
    """What a type is, "typename Traits<64>::Element", or with `expression` the type of an expression, "s_q[0]".

    Answer: `TypeFacts`. The expression is not evaluated, so that it may name anything.
    """

    text: str
    scope: Scope = FILE_SCOPE
    expression: bool = False


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a kernel's instantiation. Answer: `KernelParameters`.

    Attributes:
        kernel: a name expression: "attn<64, half>", "ns::plain"; left out template arguments are filled in.
        types: of overloads, the one with these parameters: "const float *, int"; None where there is one alone.
    """

    kernel: str
    types: str | None = None
    scope: Scope = FILE_SCOPE


Question: TypeAlias = "Value | TypeOf | Parameters"


def problem(text: str) -> str:
    """Why a text cannot be part of a question, "" for nothing: it is to be one expression or type."""
    plain = _LITERAL.sub("0", text)
    if not plain.strip():
        return "nothing was asked"
    if len(text) > _LONGEST:
        return "the expression is too long"
    if re.search(r"[;#\n\r\\\"]|//|/\*|\bwmmadiag_", plain):
        return f"`{' '.join(text.split())}` is no expression"
    open_ones: list[str] = []
    for letter in plain:
        if letter in "([{":
            open_ones.append(letter)
        elif letter in _PAIRS and (not open_ones or open_ones.pop() != _PAIRS[letter]):
            return f"the brackets of `{text.strip()}` do not pair"
    return f"the brackets of `{text.strip()}` do not pair" if open_ones else ""


def texts(question: Question) -> tuple[str, ...]:
    """The parts of a question that callers wrote."""
    if isinstance(question, Value):
        return (question.expression,)
    if isinstance(question, TypeOf):
        return (question.text,)
    return (question.kernel, *([question.types] if question.types else []))


def written(question: Question, number: int) -> str:
    """The question in C++; its answer is the variable `variable(number)`."""
    if isinstance(question, Value):
        body = f"return ::wmmadiag_ask::constant({question.expression});"
        return _asking(question.scope, number, "constexpr", body, "{}()")
    if isinstance(question, TypeOf):
        asked = question.text
        if question.expression:
            asked = f"::wmmadiag_ask::unreferred<decltype({asked})>"
        told = "::wmmadiag_ask::facts({})"
    else:
        asked = f"decltype(&{question.kernel})"
        if question.types is not None:
            asked = f"decltype(static_cast<void (*)({question.types})>(&{question.kernel}))"
        told = "::wmmadiag_ask::parameters({})"
    body = f"return ::wmmadiag_ask::Type<{asked}>{{}};"
    return _asking(question.scope, number, "__device__", body, told.format("::wmmadiag_ask::carried(&{})"))


def _asking(scope: Scope, number: int, words: str, body: str, told: str) -> str:
    """A function that stands where the question does, and the variable that is made of what it returns.

    Args:
        words: before the function.
        body: its last statement.
        told: the variable's value, of the function's name.
    """
    name = f"wmmadiag_asks_{number}"
    blocks = sum({"{": 1, "}": -1}.get(one, 0) for one in scope.declarations)
    body = " ".join([*scope.declarations, body, "}" * blocks])
    if scope.inside or scope.parameters:
        base = f" : {scope.inside}" if scope.inside else ""
        called = "wmmadiag_here::asked()"
        returned = called if words == "constexpr" else f"{_CARRIED}<decltype(&wmmadiag_here::asked)>::type{{}}"
        body = (
            f"struct wmmadiag_here{base} {{ static {words} auto asked({scope.parameters}) {{ {body} }} }};"
            f" return {returned};"
        )
    opened = "".join(f"namespace {one} {{ " for one in scope.namespaces)
    qualified = "::".join(["", *filter(None, scope.namespaces), name])
    return (
        f"{opened}{words} auto {name}() {{ {' '.join([*scope.bindings, body])} }}{' }' * len(scope.namespaces)}\n"
        f"constexpr auto wmmadiag_known_{number} = {told.format(qualified)};\n"
        f'extern "C" __device__ auto {variable(number)} = wmmadiag_known_{number};\n'
    )


def variable(number: int) -> str:
    """The name of the variable that holds an answer."""
    return f"wmmadiag_answer_{number}"
