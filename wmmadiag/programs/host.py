"""The host half of a source: what a C++ compiler takes once kernels' bodies and launches are rewritten, line by line.

As nvcc does it: a kernel stays a function, whose body hands over the addresses of its arguments, and
`k<T><<<grid, block>>>(x)` becomes the configuration, then the call `k<T>(x)`. So the compiler's own overload
resolution, template deduction and conversions say what is launched, and the function's symbol is the instantiation's
name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from wmmadiag.csource.declarations import Declarations, Function
from wmmadiag.csource.edits import ByteEdit
from wmmadiag.csource.lambdas import opening_edits
from wmmadiag.csource.lexical import Macro
from wmmadiag.csource.nodes import Node
from wmmadiag.csource.tree import Source
from wmmadiag.programs.closures import closure_edits
from wmmadiag.programs.macro_kernels import begun_by_macros, handed_over, macro_bodies, readable, stub_call

MARKS = re.compile(rb"__global__|__device__|<<<|\btexture\s*<")
"""What a file holds that has to be rewritten."""

_NOINLINE = re.compile(rb"(?<!\()\b__noinline__\b")
_TRAP = "{ __builtin_trap(); }"
_OPENED = {b")": b"(", b"]": b"[", b">": b"<"}
_MACRO_HEAD = re.compile(rb"#[ \t]*define[ \t]+\w+(?:\([^()]*\))?[ \t]*\Z")
_IDENTIFIER = re.compile(rb"[A-Za-z_]\w*\Z")
_ALGORITHMS = re.compile(rb"\bthrust/|\bDevice[A-Z]\w*\s*::")
_NO_CALLEE = frozenset({b"return", b"else", b"do", b"throw", b"co_return"})


@dataclass(frozen=True, slots=True)
class DeviceNames:
    """What a file defines for the device."""

    kernels: dict[str, tuple[str, ...]]  # base name of each kernel → the names of its parameters ("" for one without)
    variables: frozenset[str]  # names of its `__device__`, `__constant__` and `__managed__` variables
    managed: frozenset[str]  # those of them that the host may touch
    qualified: frozenset[str] = frozenset()  # the kernels with their scopes


def device_names(declared: Declarations) -> DeviceNames:
    """The kernels and variables of one file."""
    found = [one for one in declared.functions if one.kernel]
    kernels = {one.name: tuple(p.name for p in one.parameters) for one in found}
    variables = [one for one in declared.variables if one.words & {"__device__", "__constant__", "__managed__"}]
    managed = frozenset(one.name for one in variables if "__managed__" in one.words)
    qualified = frozenset(one.qualified for one in found)
    names = frozenset(one.name for one in variables)
    return DeviceNames(kernels, names, managed, qualified)


def host_edits(
    source: Source, declared: Declarations, *, closures: bool = True, heads: Mapping[str, Macro] = MappingProxyType({})
) -> list[ByteEdit]:
    """The changes that make a file the host's; every line keeps its number.

    Args:
        closures: whether extended lambdas become objects of classes.
        heads: macros that stand for kernels' heads, by their names.
    """
    bodies = [*_bodies(source, declared), *macro_bodies(source)]
    seen = [(one.start, one.end) for one in bodies]
    begun = begun_by_macros(source, heads)  # unless their tree was read all the same
    bodies += [one for one in begun if not any(start < one.end and one.start < end for start, end in seen)]
    inside = [(one.start, one.end) for one in bodies]
    if closures:
        objects = closure_edits(source, inside, called=_called_by_the_host(source))
        bodies += [edit for _, edits in objects for edit in edits]
        bodies += opening_edits(source)
        inside += [(one.node.start_byte, one.node.end_byte) for one, _ in objects]
    launches = [edit for edit in _launches(source) if not any(start <= edit.start < end for start, end in inside)]
    words = [
        ByteEdit(found.start(), found.end(), "__attribute__((noinline))")
        for found in _NOINLINE.finditer(source.code.code)
        if not any(start <= found.start() < end for start, end in inside)
    ]
    return sorted([*bodies, *launches, *words], key=lambda one: (one.start, one.end))


def _bodies(source: Source, declared: Declarations) -> Iterator[ByteEdit]:
    end = -1
    for one in sorted(declared.functions, key=lambda one: one.start):
        if one.body is None or one.body.start_byte < end:
            continue
        if one.kernel:
            yield from _stub(source, one, one.body)
        elif one.name == "operator()" and _called_by_the_host(source):
            continue
        elif "__device__" in one.words and not one.words & {"__host__", "constexpr"}:
            yield _replaced(source, one.body, _TRAP)
        else:
            continue
        end = one.body.end_byte


def _called_by_the_host(source: Source) -> bool:
    """Whether algorithms of Thrust or CUB, which are the host's here, may call the device's function objects."""
    return _ALGORITHMS.search(source.data) is not None


def _stub(source: Source, kernel: Function, body: Node) -> Iterator[ByteEdit]:
    names = []
    for number, one in enumerate(kernel.parameters):
        name = one.name
        if not name:
            name = f"wmmadiag_{number}"
            yield ByteEdit(one.node.end_byte, one.node.end_byte, f" {name}")
        pack = one.node.type.startswith("variadic")
        names.append(handed_over(name) + ("..." if pack else ""))
    yield _replaced(source, body, f"{{ {stub_call(names)} }}")


def _replaced(source: Source, body: Node, text: str) -> ByteEdit:
    lines = source.data.count(b"\n", body.start_byte, body.end_byte)
    return ByteEdit(body.start_byte, body.end_byte, text + "\n" * lines)


def _launches(source: Source) -> Iterator[ByteEdit]:
    """`callee<<<…>>>` in code and in bodies of macros: the configuration before the callee, nothing behind it."""
    if b"<<<" not in source.data:
        return
    code = readable(source)
    at = code.find(b"<<<")
    while at >= 0:
        end = _closing(code, at + 3)
        begin = _callee(code, at)
        if end is None or begin == at:
            at = code.find(b"<<<", at + 3)
            continue
        after = _arguments_end(code, end + 3)
        if after is None:
            if _MACRO_HEAD.search(code, code.rfind(b"\n", 0, at) + 1, at):
                # #define ARGS(grid, block) <<<grid, block>>>: what it makes multiplies the kernel, and launches it.
                yield ByteEdit(at, at + 3, "* ::wmmadiag_host::configuration(__FILE__, __LINE__, ")
                yield ByteEdit(end, end + 3, ")")
            at = code.find(b"<<<", at + 3)
            continue
        configuration = source.slice(at + 3, end)
        callee = " ".join(code[begin:at].replace(b"\\\n", b" ").decode("utf-8", "replace").split())
        how = f"__FILE__, __LINE__, WMMADIAG_TEXT({callee}), {configuration}"
        yield ByteEdit(begin, begin, f"(::wmmadiag_host::Launch({how}) ? (void)0 : ")
        yield ByteEdit(at, end + 3, "")
        yield ByteEdit(after, after, ")")
        at = code.find(b"<<<", end + 3)


def _closing(code: bytes, at: int) -> int | None:
    """The offset of the `>>>` of a launch whose configuration begins at `at`."""
    depth = 0
    while at < len(code):
        letter = code[at : at + 1]
        if letter in b"([{":
            depth += 1
        elif letter in b")]}":
            depth -= 1
            if depth < 0:
                return None
        elif depth == 0 and code.startswith(b">>>", at):
            # dim3(…), Foo<Bar<8>>{}…: the last three of a longer row close the launch.
            while code.startswith(b">>>", at + 1):
                at += 1
            return at
        elif letter == b";" and depth == 0:
            return None
        at += 1
    return None


def _arguments_end(code: bytes, at: int) -> int | None:
    """The offset behind the parenthesis that closes the arguments; None where none follow."""
    while at < len(code) and code[at : at + 1] in b" \t\r\n\\":
        at += 1
    if code[at : at + 1] != b"(":
        return None
    depth = 0
    for offset in range(at, len(code)):
        depth += (code[offset] in b"(") - (code[offset] in b")")
        if depth == 0:
            return offset + 1
    return None


def _callee(code: bytes, at: int) -> int:
    """The offset at which the expression begins that stands before `<<<`; `at` where there is none."""
    begin = at
    while True:
        end = _before(code, begin)
        last = code[end - 1 : end]
        if last in _OPENED and last:
            opened = _opening(code, end - 1)
            if opened is None:
                return begin
            begin = opened
            if last != b")" or _word(code, _before(code, begin)) is not None:
                continue
            return begin
        word = _word(code, end)
        if word is None or code[word:end] in _NO_CALLEE:
            return begin
        begin = word
        end = _before(code, begin)
        for joint in (b"::", b"->", b"."):
            if code[:end].endswith(joint):
                begin = end - len(joint)
                break
        else:
            return begin
        if _word(code, _before(code, begin)) is None and code[: _before(code, begin)][-1:] not in (b">", b")", b"]"):
            return begin  # ::kernel


def _before(code: bytes, at: int) -> int:
    while at > 0 and code[at - 1 : at] in (b" ", b"\t", b"\r", b"\n", b"\\"):
        at -= 1
    return at


def _word(code: bytes, end: int) -> int | None:
    found = _IDENTIFIER.search(code, max(0, end - 256), end)
    return None if found is None else found.start()


def _opening(code: bytes, at: int) -> int | None:
    """The offset of the bracket that the one at `at` closes; parentheses inside of `<…>` are passed over."""
    stack: list[bytes] = []
    for offset in range(at, max(-1, at - 4096), -1):
        letter = code[offset : offset + 1]
        if letter in (b")", b"]"):
            stack.append(_OPENED[letter])
        elif letter == b">" and (not stack or stack[-1] == b"<") and code[offset - 1 : offset] != b"-":
            stack.append(b"<")
        elif stack and letter == stack[-1]:
            stack.pop()
            if not stack:
                return offset
        elif letter in (b"(", b"[", b";", b"{", b"}") and stack and stack[-1] != letter and letter in b";{}":
            return None
    return None
