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
class AskedSource:
    """The source that questions are about, as `compile_text` takes it."""

    text: str  # of the source
    file: str  # its name, which quoted includes are relative to
    # macros, include paths, standard and target; which kernels are instantiated does not matter
    options: CompileOptions = field(default_factory=CompileOptions)
    # absolute path of a header → the text to take in place of the file's
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class AskScope:
    """What the compiler is to know where an expression stands, beyond the source itself. `scope_at` makes one."""

    namespaces: tuple[str, ...] = ()  # around it, the outermost first; "" for an unnamed one
    bindings: tuple[str, ...] = ()  # declarations that give template parameters their arguments: "using T = half;"
    inside: str = ""  # the class in whose body it stands ("Traits<D>"), or ""
    parameters: str = ""  # of the function, as written, where the expression mentions them
    # of the function, in their order, as written: "constexpr int PAD = 8;"; "{" opens a block
    declarations: tuple[str, ...] = ()


FILE_SCOPE = AskScope()


@dataclass(frozen=True, slots=True)
class ValueOf:
    """The value of a constant expression: a number, a truth value or an enumerator. Answer: `Constant`.

    `sizeof(T)`, `alignof(T)` and `offsetof(T, a.b)` are such expressions.
    """

    expression: str
    scope: AskScope = FILE_SCOPE


@dataclass(frozen=True, slots=True)
class TypeOf:
    """What a type is, "typename Traits<64>::Element", or with `expression` the type of an expression, "s_q[0]".

    Answer: `TypeFacts`. The expression is not evaluated, so that it may name anything.
    """

    text: str
    scope: AskScope = FILE_SCOPE
    expression: bool = False


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a kernel's instantiation. Answer: `KernelParameters`."""

    kernel: str  # a name expression: "attn<64, half>", "ns::plain"; left out template arguments are filled in
    # of overloads, the one with these parameters: "const float *, int"; None where there is one alone
    types: str | None = None
    scope: AskScope = FILE_SCOPE


@dataclass(frozen=True, slots=True)
class ParameterType:
    """The type of one parameter of a kernel's instantiation, as the root of a `Member`."""

    kernel: str
    index: int
    types: str | None = None


@dataclass(frozen=True, slots=True)
class MemberStep:
    """From a class to one of its members, or to a base class by its name; of an array, to its elements."""

    name: str
    base: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """Where a member or a base class of a class lies, and its type. Answer: `MemberFacts`.

    Private members are answered too; bit-fields have no address.
    """

    root: TypeOf | ParameterType  # a class
    path: tuple[MemberStep, ...]  # from it to the member, by members that are classes and by base classes


@dataclass(frozen=True, slots=True)
class AddressOf:
    """Where a pointer into a buffer points, as it is computed from constants. Answer: `AddressFacts`."""

    expression: str  # of pointer type; other pointers in it are written out
    # the declaration of the buffer without storage or extent: "unsigned char smem", with any further extents in `rest`
    buffer: str
    rest: str = ""
    # the declarations that it needs: constants and aliases. They stand at namespace scope here.
    scope: AskScope = FILE_SCOPE


Question: TypeAlias = "ValueOf | TypeOf | Parameters | Member | AddressOf"


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
    if isinstance(question, ValueOf):
        return (question.expression,)
    if isinstance(question, TypeOf):
        return (question.text,)
    if isinstance(question, AddressOf):
        return (question.expression,)
    if isinstance(question, Member):
        root = question.root
        named = (root.text,) if isinstance(root, TypeOf) else (root.kernel, *filter(None, [root.types]))
        return (*named, *(step.name for step in question.path))
    return (question.kernel, *([question.types] if question.types else []))


def written(question: Question, number: int) -> str:
    """The question in C++; its answer is in the variables whose names begin with `variable(number)`."""
    if isinstance(question, ValueOf):
        body = f"return ::wmmadiag_ask::constant({question.expression});"
        return _asking(question.scope, number, "constexpr", body) + _told(number, f"{_name(question.scope, number)}()")
    if isinstance(question, Member):
        return _member(question, number)
    if isinstance(question, AddressOf):
        return _address(question, number)
    carried = f"::wmmadiag_ask::carried(&{_name(question.scope, number)})"
    asked = "facts" if isinstance(question, TypeOf) else "parameters"
    return _carrying(question, number) + _told(number, f"::wmmadiag_ask::{asked}({carried})")


def _carrying(question: TypeOf | Parameters | ParameterType, number: int) -> str:
    """A function whose return type carries the type that is asked about."""
    if isinstance(question, TypeOf):
        asked = question.text
        if question.expression:
            asked = f"::wmmadiag_ask::unreferred<decltype({asked})>"
        return _asking(question.scope, number, "__device__", f"return ::wmmadiag_ask::Type<{asked}>{{}};")
    asked = f"decltype(&{question.kernel})"
    if question.types is not None:
        asked = f"decltype(static_cast<void (*)({question.types})>(&{question.kernel}))"
    scope = FILE_SCOPE
    if isinstance(question, Parameters):
        scope = question.scope
    else:
        asked = f"typename ::wmmadiag_ask::Parameter<{question.index}, {asked}>::type"
    return _asking(scope, number, "__device__", f"return ::wmmadiag_ask::Type<{asked}>{{}};")


def _member(question: Member, number: int) -> str:
    """Each step in an explicit instantiation, in whose arguments access is not checked."""
    root, name = question.root, f"wmmadiag_{number}"
    scope = root.scope if isinstance(root, TypeOf) else FILE_SCOPE
    carried = f"{_CARRIED}<decltype(&{_name(scope, number)})>::type"
    lines = [_carrying(root, number), "namespace wmmadiag_ask {\n", f"using {name}_at0 = type_in<{carried}>;\n"]
    for index, step in enumerate(question.path):
        tag, here, there = f"{name}_tag{index}", f"{name}_at{index}", f"{name}_at{index + 1}"
        what = "type" if step.base else "member"
        lines.append(f"struct {tag} {{ friend constexpr auto wmmadiag_{what}({tag}); }};\n")
        if step.base:
            lines.append(f"template struct Named<{tag}, typename {here}::{step.name}>;\n")
            lines.append(f"using {there} = type_in<decltype(wmmadiag_type({tag}{{}}))>;\n")
        else:
            lines.append(f"template struct Opened<{tag}, &{here}::{step.name}>;\n")
            lines.append(f"using {there} = member_type<decltype(wmmadiag_member({tag}{{}}))>;\n")
    here, last = f"{name}_at{len(question.path)}", f"{name}_at{len(question.path) - 1}"
    if question.path[-1].base:
        lines.append(
            f'static_assert(__is_base_of({here}, {last}) && !same<{here}, {last}>(), "not a base class");\n}}\n'
        )
        lines.append(_told(number, f"::wmmadiag_ask::facts<::wmmadiag_ask::{here}>()"))
        # Nothing is made there: the variable is as large as the class, and its address a constant.
        room = f"{variable(number)}_room"
        lines.append(f'extern "C" __device__ char {room}[sizeof(::wmmadiag_ask::{last})];\n')
        cast = f"(::wmmadiag_ask::{here}*)(::wmmadiag_ask::{last}*){room}"
        lines.append(f'extern "C" __device__ const void* {variable(number)}_base = {cast};\n')
    else:
        member = f"wmmadiag_member(::wmmadiag_ask::{name}_tag{len(question.path) - 1}{{}})"
        lines.append("}\n" + _told(number, f"::wmmadiag_ask::member<::wmmadiag_ask::{last}>({member})"))
    return "".join(lines)


def _address(question: AddressOf, number: int) -> str:
    """The buffer as a variable of the module, and the pointer as a constant that is made of its address."""
    scope = question.scope
    # What an unnamed namespace holds is seen from the one around it; in it, no variable has a name of its own.
    spaces = [*filter(None, scope.namespaces), f"wmmadiag_space_{number}"]
    lines = ["".join(f"namespace {one} {{ " for one in spaces)]
    lines += [*scope.bindings, *(one for one in scope.declarations if one != "{")]
    # No buffer in shared memory is larger (CUDA C++ Programming Guide, compute capabilities).
    lines.append(f"__device__ alignas(1024) {question.buffer}[1 << 18]{question.rest};")
    lines.append(_told(number, f"::wmmadiag_ask::facts<decltype({question.expression})>()"))
    lines.append(f'extern "C" __device__ const volatile void* {variable(number)}_at = ({question.expression});')
    return "\n".join(lines) + "\n" + " }" * len(spaces) + "\n"


def _asking(scope: AskScope, number: int, words: str, body: str) -> str:
    """A function that stands where the question does.

    Args:
        words: before the function.
        body: its last statement.
    """
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
    body = " ".join([*scope.bindings, body])
    return f"{opened}{words} auto wmmadiag_asks_{number}() {{ {body} }}{' }' * len(scope.namespaces)}\n"


def _name(scope: AskScope, number: int) -> str:
    """The function's name from outside its namespaces."""
    return "::".join(["", *filter(None, scope.namespaces), f"wmmadiag_asks_{number}"])


def _told(number: int, value: str) -> str:
    """The variable that the compiler writes an answer into, by way of a constant: what is none has a reason."""
    known = f"wmmadiag_known_{number}"
    return f'constexpr auto {known} = {value};\nextern "C" __device__ auto {variable(number)} = {known};\n'


def variable(number: int) -> str:
    """The name of the variable that holds an answer."""
    return f"wmmadiag_answer_{number}"
