"""A parsed module as text: its instructions under the source lines that they come from."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from wmmadiag.compile.languages import is_ptx
from wmmadiag.compile.model import Compilation
from wmmadiag.compile.names import full_name, short_name
from wmmadiag.place import Place
from wmmadiag.ptx import ir
from wmmadiag.ptx.calls import INDIRECT
from wmmadiag.ptx.parser import parse

_WIDEST_SOURCE = 96


def dump(module: ir.Module, *, entry: str | None = None, sources: Mapping[str, str] | None = None) -> str:
    """The module as text, one instruction a line, under its source line and the calls that were inlined there.

    Args:
        module: what to print.
        entry: only this function (its name as in the PTX); all that have a body by default.
        sources: path → text, for sources that are not files; others are read from disk where they exist.

    Raises:
        KeyError: there is no function named `entry`.
    """
    reader = _Sources(sources or {})
    lines = [f"PTX {module.version[0]}.{module.version[1]} for {module.target}"]
    lines += [f"  {_variable(variable)}" for variable in module.variables.values()]
    functions = [module.functions[entry]] if entry is not None else list(module.functions.values())
    for function in functions:
        if not function.declared_only:
            lines += ["", *_function(function, reader)]
    return "\n".join(lines) + "\n"


def operand_text(operand: ir.Operand) -> str:
    """An operand as PTX writes it."""
    match operand:
        case ir.Register(name=name) | ir.Special(name=name) | ir.Label(name=name):
            return name
        case ir.Immediate(value=value, type="int"):
            return str(value)
        case ir.Immediate(value=value, type="f32"):
            return f"0f{value:08X} /* {struct.unpack('<f', struct.pack('<I', value))[0]:.9g} */"
        case ir.Immediate(value=value):
            return f"0d{value:016X} /* {struct.unpack('<d', struct.pack('<Q', value))[0]:.17g} */"
        case ir.SymbolAddress(name=name, offset=offset):
            return name + _offset(offset)
        case ir.Address(base=None, offset=offset):
            return f"[{offset}]"
        case ir.Address(base=base, offset=offset):
            return f"[{base.name if isinstance(base, ir.Register) else base}{_offset(offset)}]"
        case ir.Vector(elements=elements):
            return "{" + ", ".join(map(operand_text, elements)) + "}"
        case ir.Sink():
            return "_"
        case ir.Predicate(register=register, negated=negated):
            return f"{'!' if negated else ''}{register.name}"
        case ir.OperandPair(first=first, second=second):
            return f"{operand_text(first)}|{operand_text(second)}"
    raise TypeError(operand)


def instruction_text(instruction: ir.Instruction) -> str:
    """An instruction as PTX writes it, without the `;`."""
    guard = f"@{operand_text(instruction.guard)} " if instruction.guard else ""
    if instruction.op == "unsupported":
        return f"{guard}{instruction.text} {instruction.attributes['operands']}".rstrip()
    shown = [
        operand_text(operand)
        for operand, spec in zip(instruction.operands, instruction.specs, strict=True)
        if spec.role not in ("cc_in", "cc_out")
    ]
    if instruction.op in ("call", INDIRECT):
        returns, callee, arguments = shown
        shown = [part for part in (_list(returns), callee, _list(arguments)) if part]
    return f"{guard}{instruction.text} {', '.join(shown)}".rstrip()


def _list(vector: str) -> str:
    inside = vector[1:-1]
    return f"({inside})" if inside else ""


def _offset(offset: int) -> str:
    return f"{offset:+d}" if offset else ""


def _variable(variable: ir.PtxVariable) -> str:
    shape = "".join(f"[{extent}]" if extent >= 0 else "[]" for extent in variable.shape)
    size = f"{variable.size} bytes" if variable.size else "size given at launch"
    return f".{variable.space.value} .{variable.element} {variable.name}{shape}  // {size}, aligned to {variable.align}"


def _parameter(parameter: ir.PtxParameter | ir.Register) -> str:
    if isinstance(parameter, ir.Register):
        return f".reg .{parameter.type} {parameter.name}"
    return (
        f".param .{parameter.type} {parameter.name}  // offset {parameter.offset}, {parameter.size} bytes, "
        f"aligned to {parameter.align}"
    )


def _function(function: ir.PtxFunction, sources: _Sources) -> Iterator[str]:
    readable = full_name(function.name)
    yield f".{'entry' if function.entry else 'func'} {function.name}" + (
        f"  // {readable}" if readable != function.name else ""
    )
    for name, values in function.limits.items():
        yield f"  .{name} {', '.join(map(str, values))}".rstrip()
    for parameter in function.returns:
        yield f"  returns {_parameter(parameter)}"
    for parameter in function.parameters:
        yield f"  {_parameter(parameter)}"
    for variable in function.variables:
        yield f"  {_variable(variable)}"
    labels: dict[int, list[str]] = {}
    for label, index in function.labels.items():
        labels.setdefault(index, []).append(label)
    place: Place | None = None
    for index, instruction in enumerate(function.instructions):
        for label in labels.get(index, ()):
            yield f"{label}:"
        if instruction.place != place:
            yield from _frames(place, instruction.place, sources)
            place = instruction.place
        yield f"{instruction.ptx_line:7d}  {instruction_text(instruction)}"
        if instruction.op == "unsupported":
            yield f"         // not emulated: {instruction.attributes['reason']}"
    for label in labels.get(len(function.instructions), ()):
        yield f"{label}:"


def _frames(before: Place | None, now: Place, sources: _Sources) -> Iterator[str]:
    """The frames of a place, the kernel's own line first, without those that the place before had too."""
    old = list(reversed(list(before.frames()))) if before else []
    new = list(reversed(list(now.frames())))
    same = 0
    while same < len(new) - 1 and same < len(old) and new[same] == old[same]:
        same += 1
    for depth in range(same, len(new)):
        frame = new[depth]
        where = f"{Path(frame.file).name}:{frame.line}" + (f" in {short_name(frame.function)}" if depth else "")
        yield f"  {'  ' * depth}// {where}  {sources.line(frame)}".rstrip()


class _Sources:
    def __init__(self, given: Mapping[str, str]) -> None:
        self._lines = {path: text.splitlines() for path, text in given.items()}

    def line(self, place: Place) -> str:
        """The text of a source line, "" where it cannot be had."""
        if place.file not in self._lines:
            try:
                self._lines[place.file] = Path(place.file).read_text(errors="replace").splitlines()
            except (OSError, ValueError):  # there is none, or nothing can be called so
                self._lines[place.file] = []
        lines = self._lines[place.file]
        text = lines[place.line - 1].strip() if 0 < place.line <= len(lines) else ""
        return text if len(text) <= _WIDEST_SOURCE else text[: _WIDEST_SOURCE - 1] + "…"


def listing(compilation: Compilation, entry: str | None = None) -> str:
    """The listing of one kernel, or of all and the functions that they call.

    Raises:
        ConfigurationError: there is no such kernel, or none at all.
        PtxSyntaxError: the PTX is malformed.
    """
    source = compilation.source
    wanted = None
    if entry is not None or not compilation.entries:
        wanted = compilation.entry(entry).name
    module = parse(compilation.ptx, name=source if is_ptx(source) else f"PTX of {source}", entry=wanted or "")
    return dump(module, entry=wanted, sources={source: compilation.text})
