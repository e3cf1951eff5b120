"""A launch of a program as a card: what was launched, with which numbers, on arrays of which sizes.

Taken when the launch happens, so nothing of it is guessed. What the kernel computes is not said: the program's own
comparison judges that, and the card's checks watch the run.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compile.names import qualified_name
from wmmadiag.launch import DeviceMemory
from wmmadiag.numerics.element_types import element_type, storage_dtype
from wmmadiag.programs.initial_values import contents
from wmmadiag.programs.link import original
from wmmadiag.ptx import parse
from wmmadiag.subject.card_files.arguments import MOST_BYTES
from wmmadiag.subject.card_files.stored import text_within

if TYPE_CHECKING:
    from wmmadiag.programs.device import DeviceKernel
    from wmmadiag.programs.launches import Request

_LISTED = 4096
"""So many values of an array are listed."""
_MOST_TEXT = 4 << 20
"""Characters of the values of one array."""


def tell(
    request: Request, memory: Sequence[DeviceMemory], number: int, send: Callable[..., None]
) -> Callable[[], None]:
    """Send what a card says of a launch that is about to happen; what is returned sends what is known once it did.

    Args:
        number: the launch's.
    """
    kernel = request.kernel
    arguments = captured(kernel, request.parameters, memory)
    send(
        captured=arguments, kernel=kernel.entry.demangled, place=request.place, number=number, grid=request.grid,
        block=request.block, shared=request.shared, source=kernel.compilation.source, changed=changed(kernel, memory),
    )  # fmt: skip
    return lambda: send(left=left_of(arguments, kernel, request.parameters, memory), number=number)


def captured(kernel: DeviceKernel, parameters: bytes, memory: Sequence[DeviceMemory]) -> list[dict[str, Any]]:
    """The arguments of a launch that is about to happen, as `card_text` takes them.

    Raises:
        CompileError, ConfigurationError: the types of the parameters cannot be asked for.
    """
    from wmmadiag.compile.ask.signatures import signature

    types = signature(kernel.compilation, kernel.entry)
    found = []
    for number, (declared, placed) in enumerate(zip(types, kernel.parameters, strict=True)):
        data = parameters[placed.offset : placed.offset + placed.size]
        element = element_type(declared.dtype or "")
        one: dict[str, Any] = {
            "name": declared.name or f"argument_{number}", "type": declared.type,
            "dtype": None if element is None else element.name,
        }  # fmt: skip
        if declared.pointer:
            dtype = storage_dtype(element) if element is not None else None
            one |= _array(int.from_bytes(data, "little"), declared.const, dtype, memory)
        elif element is not None:
            one["value"] = np.frombuffer(data, storage_dtype(element))[0].item()
        found.append(one)
    return found


def left_of(
    arguments: Sequence[Mapping[str, Any]], kernel: DeviceKernel, parameters: bytes, memory: Sequence[DeviceMemory]
) -> list[str]:
    """Of the arrays that a launch began with nothing in, those of which it left some as it was, or wrote zeros."""
    found = []
    for one, placed in zip(arguments, kernel.parameters, strict=True):
        address = int.from_bytes(parameters[placed.offset : placed.offset + placed.size], "little")
        held = _held(address, memory) if one.get("direction") == "out" else None
        if held is not None and one["elements"]:
            data = held.data[address - held.address :]
            size = data.size // one["elements"]
            if not data[: size * one["elements"]].reshape(-1, size).any(axis=1).all():
                found.append(one["name"])
    return found


def changed(kernel: DeviceKernel, memory: Sequence[DeviceMemory]) -> list[str]:
    """The variables that a kernel names, and that hold something else than what the source gives them."""
    named = {name: address for name, address in kernel.variables.items() if kernel.reads(name)}
    module = parse(kernel.compilation.ptx, name=kernel.name, entry=kernel.entry.name) if named else None
    found = []
    for name, address in named.items():
        held = _held(address, memory)
        data = contents(module, module.variables[name]) if module is not None and name in module.variables else None
        if held is None or data is None:
            continue
        offset = address - held.address
        if held.data[offset : offset + len(data)].tobytes() != data:
            found.append(qualified_name(original(name)))
    return found


def _held(address: int, memory: Sequence[DeviceMemory]) -> DeviceMemory | None:
    return next((one for one in memory if one.data.size and 0 <= address - one.address < one.data.size), None)


def _array(address: int, const: bool, dtype: np.dtype[Any] | None, memory: Sequence[DeviceMemory]) -> dict[str, Any]:
    held = _held(address, memory)
    if held is None or dtype is None:
        return {"elements": None}
    offset = address - held.address
    count = (held.data.size - offset) // dtype.itemsize
    bits = (ctypes.c_uint8 * (held.data.size // 8 + 1)).from_address(held.written) if held.written else ()
    unwritten = bool(held.written) and not any(bits[-(-offset // 8) :])
    direction = "in" if const else "out" if unwritten else "inout"
    array: dict[str, Any] = {"elements": count, "direction": direction}
    if direction == "in":
        array |= recorded(held.data[offset : offset + count * dtype.itemsize].view(dtype))
    return array


def recorded(data: NDArray[Any]) -> dict[str, Any]:
    """What a card says of an input's values, where they are not such as random ones: an expression, or all of them.

    Whole numbers are lengths, offsets and indices, and mean what they are; of others, those that are a constant or a
    sequence, and those of which most occur twice.
    """
    whole = data.dtype.kind in "iub"
    numbers = data.astype(np.int64 if whole else np.float64)
    if not numbers.size or not np.all(np.isfinite(numbers)):
        return {}
    first, step = numbers[0].item(), numbers[1].item() - numbers[0].item() if numbers.size > 1 else 0
    if np.array_equal(numbers, first + step * np.arange(numbers.size, dtype=numbers.dtype)):
        return {"values": f"{first!r} + {step!r}*i" if step else repr(first)}
    if not whole and 2 * len(np.unique(numbers)) > numbers.size:
        return {}
    if numbers.size <= _LISTED:
        return {"values": numbers.tolist()}
    if data.nbytes <= MOST_BYTES and (text := text_within(data.tobytes(), _MOST_TEXT)) is not None:
        return {"values": text}
    return {"unsaid": f"its {numbers.size} values are not random, and too many for a card"}


def card_text(launch: Mapping[str, Any], source: str) -> str:
    """The card of a captured launch; `source`: its path relative to the card."""
    lines = [f"# {launch['where']}"]
    if launch["changed"]:
        lines.append(f"# The program had set {', '.join(launch['changed'])} by then: a card cannot say what it holds.")
    lines += [
        "format = 1", f"name = {json.dumps(launch['kernel'])}",
        f"source = {json.dumps(source)}", f"entry = {json.dumps(launch['kernel'])}",
    ]  # fmt: skip
    if launch["std"] != "c++17":
        lines.append(f"std = {json.dumps(launch['std'])}")
    if launch["macros"]:
        given = ", ".join(f"{name} = {json.dumps(text or '')}" for name, text in launch["macros"].items())
        lines.append(f"macros = {{ {given} }}")
    if launch["include_paths"]:
        lines.append(f"include_paths = {json.dumps(launch['include_paths'])}")
    lines.append("")
    for one in launch["arguments"]:
        lines += _argument(one)
    lines += [
        "[launch]", f"grid = {list(launch['grid'])}", f"block = {list(launch['block'])}",
        f"shared = {launch['shared']}  # dynamic shared memory, bytes", "", "[computes]",
        'operation = "none"  # or what it computes: wmmadiag init --computes', "", "[[cases]]", 'name = "captured"',
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _argument(one: Mapping[str, Any]) -> list[str]:
    lines = ["[[arguments]]", f"name = {json.dumps(one['name'])}  # {one['type']}"]
    if "elements" in one:
        lines += [f"role = {json.dumps(one['name'])}", f"dtype = {json.dumps(one['dtype'] or 'TODO')}"]
        if one["elements"] is None:
            return [*lines, 'shape = ["TODO"]  # its pointer led to no memory of a known type', ""]
        unsaid = f"  # {one['unsaid']}" if "unsaid" in one else ""
        lines += [f"direction = {json.dumps(one['direction'])}", f"shape = [{one['elements']}]{unsaid}"]
        if "left" in one:
            lines.append('initial = "zero"  # some of it the launch left so')
        return [*lines, *([f"values = {json.dumps(one['values'])}"] if "values" in one else ()), ""]
    if "value" in one:
        return [*lines, f"dtype = {json.dumps(one['dtype'])}", f"value = {_number(one['value'])}", ""]
    return [*lines, "# its members in order", 'fields = [{ dtype = "s32", value = "TODO" }]', ""]


def _number(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else json.dumps(value)


def relative(source: Path, card: Path) -> str:
    """The path of a source for a card that stands elsewhere."""
    import os

    return Path(os.path.relpath(source.resolve(), card.resolve().parent)).as_posix()
