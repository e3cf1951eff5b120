"""A source whose constants say how large its matrices are, with smaller ones.

`#define M_GLOBAL 8192` is a size for a GPU, and where the kernel's own code goes by it no launch has another one. Its
text with a smaller number is the same kernel for a smaller matrix: a multiple of whatever the number is one of, as it
is divided by powers of two alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.events import HostLaunch
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.program import plain_name
from wmmadiag.hostcode.terms import Number, Term
from wmmadiag.hostcode.values import Pointer
from wmmadiag.processes.scratch import scratch_folder
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.kernel import HostRead

_LARGE, _ENOUGH = 1 << 25, 1 << 22  # bytes of all arrays of a launch: from here on they are made smaller, to this
_LEAST = ((1024, 256), (0, 16))  # (numbers from here on, what they are at least): an extent's first, then of any
_VALUE = r"(\(?\s*\d[\d\s*<()]*)"  # 4096, 1 << 12, (4 * 1024)


def at_smaller_constants(source: GivenSource, host: HostRead, name: str) -> tuple[GivenSource, str] | None:
    """The source with smaller constants, and which they are, a clause; None where its launches are small enough.

    Args:
        host: as it was read.
        name: of the kernel, or of the host function that launches several, whose launches count; "" for all.
    """
    from wmmadiag.compile.kernel_code import kernel_code

    launches = [(one, run.machine) for run in host.runs for one in run.launches if _is_of(one, run.machine, name)]
    if not launches:
        return None
    launch, machine = max(launches, key=lambda pair: _bytes(pair[0], pair[1].usual))
    before = _bytes(launch, machine.usual)
    if before < _LARGE:
        return None
    named = host.program.named_by(kernel_code(host.whole, plain_name(launch.kernel.name)))
    symbols = sorted({symbol for size in _sizes(launch) for symbol in terms.symbols(size)})
    if not any(machine.names[symbol][0] in named for symbol in symbols):  # a launch may have any sizes
        return None
    numbers = {symbol: int(value) for symbol in symbols if (value := machine.usual.get(symbol))}
    places = {symbol: _place(source.text, machine.names[symbol][0]) for symbol in numbers}
    own = {one: value for one, value in numbers.items() if places[one]}
    tries = (_made_smaller(own, launch, machine.usual, _LEAST[at:]) for at in range(len(_LEAST)))
    smaller = next(filter(None, tries), None)
    if smaller is None:
        return None
    text = source.text
    for (start, end), value in sorted(((places[one] or (0, 0)), value) for one, value in smaller.items())[::-1]:
        text = text[:start] + str(value) + text[end:]
    folder = scratch_folder("smaller")
    path = folder / source.path.name
    path.write_text(f'#line 1 "{source.path.as_posix()}"\n{text}', "utf-8", "surrogateescape")
    beside = (*source.options.include_paths, source.path.resolve().parent)
    said = ", ".join(f"{machine.names[one][0]} = {value}" for one, value in smaller.items())
    options = replace(source.options, include_paths=beside)
    return GivenSource(path, options), f"the source's constants are smaller than its own: {said}"


def _is_of(launch: HostLaunch, machine: Machine, name: str) -> bool:
    return not name or name in (machine.root, launch.root) or plain_name(launch.kernel.name) == plain_name(name)


def _sizes(launch: HostLaunch) -> Iterator[Term]:
    for one in launch.arguments:
        if isinstance(one, Pointer) and one.buffer.size is not None:
            yield one.buffer.size


def _bytes(launch: HostLaunch, values: Mapping[str, Number]) -> float:
    return sum(terms.value(size, values) or 0 for size in _sizes(launch))


def _place(text: str, name: str) -> tuple[int, int] | None:
    """Where a file gives a constant its number, once."""
    macro = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+{_VALUE}[ \t]*(?=$|/[/*])", re.MULTILINE)
    words = rf"^[ \t]*(?:[\w:]+[ \t]+)*(?:const|constexpr)\b[^;=(){{}}]*\b{name}"
    constant = re.compile(rf"{words}\s*[={{]\s*{_VALUE}\s*(?=[;}}])", re.MULTILINE)
    found = [*macro.finditer(text), *constant.finditer(text)]
    return (found[0].start(1), found[0].end(1)) if len(found) == 1 else None


def _made_smaller(
    numbers: dict[str, int], launch: HostLaunch, usual: Mapping[str, Number], least: Sequence[tuple[int, int]]
) -> dict[str, int]:
    """Those that change with their new values: all are halved in turn until they are small enough, then one of two that
    are alike once more, so that an extent in another's place shows. None where they cannot be so small."""
    found = dict(numbers)

    def halved(name: str) -> bool:
        most = next(one for begin, one in least if numbers[name] >= begin)
        return found[name] % 2 == 0 and found[name] // 2 >= most

    while _bytes(launch, {**usual, **found}) > _ENOUGH:
        left = [name for name in found if halved(name)]
        if not left:
            return {}
        next_one = max(left, key=lambda name: (found[name] / numbers[name], found[name]))
        found[next_one] //= 2
    for name in list(found)[:-1]:
        if [*found.values()].count(found[name]) > 1 and halved(name):
            found[name] //= 2
    return {name: value for name, value in found.items() if value != numbers[name]}
