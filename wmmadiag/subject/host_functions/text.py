"""The text of the C++ source that calls a host function of the user's with numbers of our own type."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wmmadiag.csource.nodes import walk
from wmmadiag.csource.tree import Source
from wmmadiag.hostcode.program import HostFunction, HostProgram
from wmmadiag.hostcode.types import plain, scalar, split_list

_WORD = re.compile(r"[A-Za-z_]\w*")
_RESULT = re.compile(r"(\w+)\s*\[\s*0\s*\]\s*=\s*(?!=)")
_FOLDER = Path(__file__).parent
_REALS = ("half", "__half", "nv_bfloat16", "__nv_bfloat16", "__nv_bfloat162", "half_t", "bfloat16_t")
_NUMBERS = frozenset({"f16", "bf16", "f32", "f64", "tf32"})
_MOST = 64  # functions and variables that a call reaches: what needs more is no reference that stands by itself


@dataclass(frozen=True, slots=True)
class CallArray:
    """An array that a call is given."""

    name: str
    type: str  # of an element, as C++ has it; "" for a number of our own type


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call among statements: "f(out, inp, N)", or "total[0] = f(inp, N)"."""

    name: str
    given: tuple[str, ...]  # its arguments
    result: str = ""  # the array whose first element gets what it returns, "" for none

    def text(self) -> str:
        """The statement, without its semicolon."""
        return f"{self.result}[0] = " * bool(self.result) + f"{self.name}({', '.join(self.given)})"


def calls_in(statements: str) -> list[HostCall]:
    """The calls that statements consist of: "f(out, inp, N); g(out)"."""
    found = []
    for one in filter(None, map(str.strip, statements.split(";"))):
        result = _RESULT.match(one)
        name, _, inside = one[result.end() if result is not None else 0 :].partition("(")
        given = split_list(inside.rpartition(")")[0])
        found.append(HostCall(name.strip(), given, result[1] if result is not None else ""))
    return found


def arrays_in(program: HostProgram, statements: str, numbers: Collection[str]) -> list[CallArray] | None:
    """The arrays that calls name, typed as the functions take them; None where one is no function of the program's."""
    found: dict[str, str] = {}
    for call in calls_in(statements):
        function = host_function(program, call.name)
        if function is None or len(call.given) > len(function.function.parameters):
            return None
        if call.result:
            found.setdefault(call.result, "")
        for text, parameter in zip(call.given, function.function.parameters, strict=False):
            words = list(dict.fromkeys(_WORD.findall(text)))
            words = words if len(words) == 1 else [one for one in words if one not in numbers]
            if not parameter.pointers and not parameter.dimensions:
                continue
            if len(words) != 1:
                return None
            own = _element(program, parameter.type)
            if own is None:
                return None
            found.setdefault(words[0], own)
    return [CallArray(name, c_type) for name, c_type in found.items()]


def _element(program: HostProgram, c_type: str) -> str | None:
    """An element's type as a reference has it: "" for a number, an integer's by its name; None for any other."""
    named = plain(c_type)
    for _ in range(4):
        if named not in program.aliases:
            break
        named = plain(program.aliases[named].text)
    dtype, lanes = scalar(named)
    if lanes != 1:
        return None
    return "" if dtype in _NUMBERS else named


def host_function(program: HostProgram, name: str) -> HostFunction | None:
    """The function of that name that host code may call, with its body, outside namespaces and classes."""
    return next((one for one in program.functions.get(name, ()) if one.host and one.function.body is not None
                 and not one.function.scope and not one.function.template), None)  # fmt: skip


def source_text(
    program: HostProgram, call: str, arrays: Sequence[CallArray], numbers: Mapping[str, bool]
) -> str | None:
    """A C++ source that defines what `driver.hpp` declares; None where the file has no such functions.

    Args:
        call: statements: "gelu_forward_cpu(out, inp, N)".
        arrays: that it names. numbers: those that it names, and whether each is a real one.
    """
    names = {one.name for one in arrays} | set(numbers)
    parts = _reached(program, [one for one in _WORD.findall(call) if one not in names])
    if parts is None:
        return None
    bound = [f"    auto* {one.name} = static_cast<{one.type or 'wmmadiag::real'}*>(arrays_[{index}]);" for index, one in
             enumerate(arrays)]  # fmt: skip
    for index, (name, is_real) in enumerate(numbers.items()):
        real = f"wmmadiag::real(numbers_[{index}], 0, std::fabs(numbers_[{index}]))"
        value = real if is_real else f"static_cast<long>(numbers_[{index}])"
        bound.append(f"    auto {name} = {value};")
    included = [(_FOLDER / name).read_text("utf-8").replace("#pragma once", "") for name in ("real.hpp", "driver.hpp")]
    return "\n".join(
        [
            *included,
            *(f"using {one} = wmmadiag::real;" for one in _REALS),
            "#define __host__",
            "#define __device__",
            "#define __forceinline__ inline",
            "#define __restrict__ __restrict",
            "#define float wmmadiag::real",
            "#define double wmmadiag::real",
            *parts,
            "#undef float",
            "#undef double",
            "void wmmadiag::call(void* const* arrays_, const double* numbers_) {",
            *bound,
            *_statements(call, arrays),
            "}",
        ]
    )


def _statements(call: str, arrays: Sequence[CallArray]) -> Iterator[str]:
    """The calls, with what arrays hold between two of them."""
    several = [f"{one.text()};" for one in calls_in(call)]
    for index, one in enumerate(several):
        if index:
            yield from (f"    wmmadiag::kept({array.name}, {at});" for at, array in enumerate(arrays))
        yield f"    {one}"


def _reached(program: HostProgram, names: Sequence[str]) -> list[str] | None:
    """The declarations that these names reach, each behind those that it needs; None for more than anybody takes."""
    done: dict[str, str | None] = {}

    def visit(name: str) -> bool:
        if name in done:
            return True
        done[name] = None
        found = list(_declared(program, name))
        if len(done) > _MOST * 8:
            return False
        for source_text_, words in found:
            if not all(visit(word) for word in words if word != name):
                return False
            done[name] = source_text_
        if found:
            done[name] = "\n".join(text for text, _ in found)
            order.append(name)
        return True

    order: list[str] = []
    if not all(visit(one) for one in names) or len(order) > _MOST:
        return None
    return [text for one in order if (text := done[one]) is not None]


def _declared(program: HostProgram, name: str) -> Iterator[tuple[str, list[str]]]:
    """The text of each declaration of a name, and the words in it."""
    for one in program.functions.get(name, ()):
        if one.host and one.function.body is not None and not one.function.scope:
            yield _text(one.source, one.function.outer.start_byte, one.function.node.end_byte), _words(one)
            return
    if name in program.aliases:
        alias = program.aliases[name]
        if not alias.parameters:
            number = _element(program, alias.text) == ""
            yield f"using {name} = {'wmmadiag::real' if number else alias.text};", _WORD.findall(alias.text)
        return
    if name in program.macros:
        macro = program.macros[name]
        if macro.parameters is None:
            yield f"#define {name} {macro.body}", _WORD.findall(macro.body)
        return
    if name in program.variables:
        source, variable = program.variables[name]
        if variable.value is not None and {"const", "constexpr"} & variable.words:
            value = source.text(variable.value)
            yield f"static const auto {name} = {value};", _WORD.findall(value)


def _text(source: Source, start: int, end: int) -> str:
    return source.data[start:end].decode("utf-8", "replace")


def _words(one: HostFunction) -> list[str]:
    kinds = ("identifier", "type_identifier", "field_identifier", "namespace_identifier")
    nodes = (node for node in walk(one.function.node) if node.type in kinds)
    return list(dict.fromkeys((node.text or b"").decode("utf-8", "replace") for node in nodes))
