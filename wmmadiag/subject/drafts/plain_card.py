"""A drafted card of what no built-in operation describes: a Python function says what is computed, or nobody."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.events import HostLaunch
from wmmadiag.hostcode.terms import NotWritten, Term
from wmmadiag.hostcode.values import Pointer, Value
from wmmadiag.numerics.element_types import element_type
from wmmadiag.subject.drafts.array_extents import room_for
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.meanings import Meanings
from wmmadiag.subject.drafts.model import Wishes
from wmmadiag.subject.drafts.text import quoted, toml_list, toml_value

# Unit roundoff, IEEE 754 and bfloat16; sums of narrower products err more than an f32 output's own rounding.
_ROUNDING = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-11, "f64": 2.0**-40}
_LARGEST = 512
_HEAD = """\
# The reference is a Python function: it gets two dicts, float64 copies of the inputs by role and the case's symbols,
# and returns the output in float64, or a dict of outputs by role. In the file {file} beside this card:
#
#   import numpy as np
#
#   def reference(inputs, symbols):
#       return ...  # {outputs}
"""


def plain_card(
    kernel: SourceKernel, source: str, name: str, wishes: Wishes | None = None, operation: str = "python"
) -> str:
    """The card's text: numbers are symbols of their own names, arrays as long as host code makes them, or TODO.

    Args:
        source: its path relative to the card.
        wishes: grid, block, shared memory and symbols in place of the launch's.
        operation: "python" or "none".
    """
    wishes = wishes or Wishes()
    symbols = [one.name for one in kernel.parameters if not one.pointer and not one.value and _is_integer(one)]
    meant = _meanings(kernel, symbols)
    outputs = [one.name for one in kernel.parameters if one.pointer and not one.const]
    entry = re.sub(r"\{([^{}]*)\}", lambda found: "{" + _told(meant, terms.parsed(found[1])) + "}", kernel.entry)
    lines = ["format = 1", f"name = {quoted(name)}", f"source = {quoted(source)}", f"entry = {quoted(entry)}", ""]
    if operation == "python":
        file = f"{_identifier(name)}_reference.py"
        lines += [
            *_HEAD.format(file=file, outputs=" or ".join(f'the array "{one}"' for one in outputs)).splitlines(),
            "",
        ]
    lines += ["# Arguments in the kernel's order."]
    passed = [*kernel.passed, *[None] * (len(kernel.parameters) - len(kernel.passed))]
    told = {
        id(one): _ShownArray(one, value, meant, kernel.launch)
        for one, value in zip(kernel.parameters, passed, strict=True)
    }
    for struct, run in groupby(kernel.parameters, lambda one: one.struct):
        if struct:
            lines += _struct_lines(struct, [told[id(one)] for one in run])
            continue
        for parameter in run:
            lines += told[id(parameter)].lines()
    lines.append("[launch]  # expressions over the symbols of a case")
    shapes = {} if kernel.launch is None else {"grid": kernel.launch.grid, "block": kernel.launch.block}
    for key, wish in (("grid", wishes.grid), ("block", wishes.block)):
        found = list(wish) or ["TODO"]
        if not wish and key in shapes:
            found = [_told(meant, shapes[key].members[axis].value) for axis in "xyz"]
        while len(found) > 1 and found[-1] == "1":
            found.pop()
        lines.append(f"{key} = {toml_list(found)}")
    shared = "0" if kernel.launch is None else _told(meant, kernel.launch.shared)
    lines += [f"shared = {toml_value(wishes.shared or shared)}  # dynamic shared memory, bytes", ""]
    lines += ["[computes]", f"operation = {quoted(operation)}"]
    if operation == "python":
        lines += [f'python = "{_identifier(name)}_reference.py:reference"', "", *_tolerance(kernel, outputs)]
    lines += ["", "[[cases]]", 'name = "small"']
    lines += [f"{symbol} = {wishes.symbols.get(symbol) or _size(meant, symbol)}" for symbol in symbols]
    return "\n".join(lines) + "\n"


def _identifier(name: str) -> str:
    return re.sub(r"\W+", "_", name)


def todos(text: str) -> list[str]:
    """What is still to be filled in of a card's text, in words."""
    found, name = [], ""
    for line in text.splitlines():
        key, _, value = line.partition(" = ")
        if key == "name":
            name = value.split('"')[1]
        if re.search(r"^[^#]*\bTODO\b", value):
            found.append(
                {"shape": f"how many elements {name} has", "grid": "the grid", "block": "the block"}.get(
                    key, f"the {key} of {name}"
                )
            )
    return found


def _tolerance(kernel: SourceKernel, outputs: Sequence[str]) -> list[str]:
    lines = ["# A guess, four roundings of the output's type: or let the function return (output, bound) instead."]
    lines += ["[tolerance]  # |observed - expected| <= atol + rtol * |expected|"]
    rounding = max((_ROUNDING.get(p.dtype or "", 0.0) for p in kernel.parameters if p.name in outputs), default=0.0)
    rounding = rounding or 2**-11
    return [*lines, f"atol = {4 * rounding:.2g}", f"rtol = {4 * rounding:.2g}"]


def _meanings(kernel: SourceKernel, symbols: Sequence[str]) -> Meanings:
    """What host code passes for a number means that number; what it names otherwise is as it usually is."""
    meant = Meanings()
    for parameter, value in zip(kernel.parameters, kernel.passed, strict=True):
        if parameter.name not in symbols or not isinstance(value, Term):
            continue
        known = terms.value(value, kernel.usual)
        if known is not None:
            meant.usual[parameter.name] = known
        if value.op == "symbol":
            meant.by_symbol.setdefault(value.args[0], terms.symbol(parameter.name))
        elif value.op != "number":
            meant.whole.append((value, terms.symbol(parameter.name)))
    for name, known in kernel.usual.items():
        meant.by_symbol.setdefault(name, terms.number(known))
    return meant


def _told(meant: Meanings, value: Value) -> str:
    try:
        return meant.text(value)
    except NotWritten:
        return "TODO"


def _size(meant: Meanings, symbol: str) -> int:
    """The source's own size where it is a small one."""
    usual = meant.usual.get(symbol)
    return int(usual) if usual is not None and 0 < usual <= _LARGEST else 64


class _ShownArray:
    """An argument, and what host code shows of it."""

    def __init__(
        self, parameter: DraftParameter, passed: Value | None, meant: Meanings, launch: HostLaunch | None
    ) -> None:
        self.parameter, self.passed, self.meant, self.launch = parameter, passed, meant, launch

    def shape(self) -> str:
        """How many elements host code makes room for, as an expression; "TODO" where it does not say."""
        room = room_for(self.parameter, self.passed)
        return "TODO" if room is None else _told(self.meant, room)

    def direction(self) -> str:
        """What the kernel does with it: what host code fills and the kernel may write, it may read, too."""
        filled = self._content() not in ("", "zero")
        return "in" if self.parameter.const else "inout" if filled else "out"

    def _content(self) -> str:
        """What the array holds when the kernel is launched."""
        if not isinstance(self.passed, Pointer) or self.launch is None:
            return ""
        content, copied = self.launch.contents.get(id(self.passed.buffer), ("", None))
        return content if copied is None else copied.origin().content or "values"

    def _number(self) -> str:
        """The real number that host code passes; "1" where it passes none that is known."""
        known = terms.value(self.meant.card(self.passed), {}) if isinstance(self.passed, Term) else None
        return "1" if known is None else f"{known:g}"

    def lines(self) -> list[str]:
        """The argument's table."""
        lines = _argument(self.parameter, self.shape(), self.direction(), self._number())
        if self.parameter.pointer and self.direction() == "out" and self._content() == "zero":
            lines.insert(-1, 'initial = "zero"')
        return lines


# Lengths, tables of pages and offsets: drawn numbers would lead out of every array.
_VALUES = ('# values = [0, "M", "2*M"]  # of its elements, or an expression of the index i: "16*i"',)


def _struct_lines(struct: str, fields: Sequence[_ShownArray]) -> list[str]:
    """A struct passed by value, a table for each member."""
    lines = ["[[arguments]]", f"name = {quoted(struct)}  # a struct: its members in order", ""]
    for one in fields:
        lines += ["[[arguments.fields]]", *one.lines()[1:]]
    return lines


def _argument(parameter: DraftParameter, shape: str, direction: str, number: str) -> list[str]:
    element = element_type(parameter.dtype or "")
    stars = ("const " if parameter.const else "") + parameter.c_type + ("*" if parameter.pointer else "")
    lines = ["[[arguments]]", f"name = {quoted(parameter.name)}  # {stars}"]
    dtype = element.name if element is not None else "TODO"
    if not parameter.pointer and element is None:
        return [
            *lines,
            '# its members in order; a pointer: { role = "x", dtype = "f16", shape = [...], direction = "in" }',
            'fields = [{ dtype = "s32", value = "TODO" }]',
            "",
        ]
    if not parameter.pointer:
        value = parameter.value or (parameter.name if _is_integer(parameter) else number)
        return [*lines, f"dtype = {quoted(dtype)}", f"value = {toml_value(value)}", ""]
    return [
        *lines,
        f"role = {quoted(parameter.name)}",
        f"dtype = {quoted(dtype)}",
        f'direction = "{direction}"  # in, out, inout or workspace',
        f"shape = [{toml_value(shape)}]" + ('  # such as ["M", "N"]' if shape == "TODO" else ""),
        *(_VALUES if direction == "in" and element is not None and not element.is_float else ()),
        "",
    ]


def _is_integer(parameter: DraftParameter) -> bool:
    element = element_type(parameter.dtype or "")
    return element is not None and not element.is_float
