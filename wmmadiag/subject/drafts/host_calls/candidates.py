"""Calls of host functions that may say what a kernel computes: by the names of parameters, or as host code makes them.

Two sources, and no list of operations: a function whose parameters have the names of the kernel's, and the calls that
the function around the launch makes with the host's arrays of the same names. Several calls in a row compose: what one
writes, the next one reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wmmadiag.csource.nodes import arguments, called, descendants
from wmmadiag.csource.variables import Variable
from wmmadiag.hostcode import terms
from wmmadiag.hostcode.program import HostFunction, HostProgram
from wmmadiag.hostcode.terms import NotWritten, Term
from wmmadiag.hostcode.types import is_integer, is_real, plain
from wmmadiag.hostcode.values import Pointer
from wmmadiag.ops.expressions import names_in
from wmmadiag.subject.drafts.guess import DraftParameter, folded
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.host_functions.text import host_function

_WORD = re.compile(r"[A-Za-z_]\w*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_|(?<=[a-z])(?=\d)")
# Words in names that say where something runs; and which version of it this is, or nothing at all.
_PLACES = frozenset(["cpu", "host", "ref", "reference", "golden", "serial", "verify", "baseline", "expected"])
_VERSIONS = re.compile(r"kernel|gpu|cuda|device|global|launch|naive|simple|opt(?:imized)?|fast|v|the|my|test|run|do")
_LIBRARY = re.compile(r"\bcu(?:da|blas|dnn|rand|fft|sparse|solver)[A-Z]\w*\s*[(:]")  # what is called is the device's
# What a card's expression and C++ have alike: sums and products.
_ALIKE = re.compile(r"\(*\w+\)*(?: (?:[-+]|\*) \(*\w+\)*)*")
_MOST = 6


@dataclass(frozen=True, slots=True)
class Candidate:
    """Calls that may be a kernel's reference."""

    statements: str  # "gelu_forward_cpu(out, inp, N)"
    arrays: Mapping[str, str]  # the kernel's parameter → the array of the statements that it is
    functions: tuple[HostFunction, ...]  # that are called
    symbols: frozenset[str]  # host symbols that the statements name
    sure: bool  # whether names leave no doubt that this is what the kernel should compute
    written: frozenset[str] = frozenset()  # the arrays that the functions may write
    file: Path | None = None  # where the functions stand, if that is another than the kernel's

    def told(self) -> str:
        """What is called, with its place, for a message."""
        places = [f"{one.function.name} ({one.source.name}:{one.source.place_at(one.function.start).line})"
                  for one in self.functions]  # fmt: skip
        return " and ".join(places)


def candidates(kernel: SourceKernel) -> list[Candidate]:
    """The likeliest first; none where the kernel takes what no call can give."""
    if kernel.machine is None or not takes_what_calls_give(kernel):
        return []
    program = kernel.machine.program
    functions = [one for one in program.host_functions() if may_refer(program, one)]
    found = [*_as_called(kernel, program, functions), *(by_names(kernel, one) for one in functions)]
    kept = list({one.statements: one for one in reversed(found) if one is not None}.values())[::-1]
    return sorted(kept, key=lambda one: not one.sure)[:_MOST]


def takes_what_calls_give(kernel: SourceKernel) -> bool:
    """Whether the kernel takes numbers and arrays of numbers alone."""
    return not any(one.struct or (one.pointer and one.dtype is None) for one in kernel.parameters)


def may_refer(program: HostProgram, found: HostFunction) -> bool:
    """Whether a function is one that may say what is right: it stands alone, launches nothing, and writes an array or
    returns a number."""
    if host_function(program, found.function.name) is not found or found.function.name == "main":
        return False
    taken = [one for one in found.function.parameters if one.pointers or one.dimensions]
    if _LIBRARY.search(found.source.text(found.function.node)):
        return False
    known = all(one.pointers + len(one.dimensions) == 1 and _is_number(program, one.type) for one in taken)
    writes = any("const" not in one.words for one in taken) or (bool(taken) and _returns_number(found))
    return known and writes and not program.sites(found.source, found.function.body)


def _is_number(program: HostProgram, c_type: str) -> bool:
    named = plain(c_type)
    named = plain(program.aliases[named].text) if named in program.aliases else named
    return is_integer(named) or is_real(named)


def _returns_number(found: HostFunction) -> bool:
    return is_real(plain(found.function.returns)) and "*" not in found.function.returns


def kernel_words(kernel: SourceKernel) -> set[str]:
    """The words of a kernel's plain name, as `words_of`."""
    return words_of(re.sub(r"<.*", "", kernel.entry, flags=re.DOTALL).rpartition("::")[2])


def words_of(name: str) -> set[str]:
    """The words in a name that say what it computes: neither where that runs nor which version it is."""
    words = {one.lower() for one in _CAMEL.split(name) if one and not one.isdigit()} - _PLACES
    return {one for one in words if not _VERSIONS.fullmatch(one)}


def _is_sure(kernel: SourceKernel, functions: Sequence[HostFunction]) -> bool:
    """Whether the kernel's name says of itself what the functions' names say, and these that they run on the host."""
    if _in_part(kernel):
        return False
    own = kernel_words(kernel)
    said = [one.function.name for one in functions]
    marked = all({word.lower() for word in _CAMEL.split(one)} & _PLACES for one in said)
    return marked and own == set().union(*map(words_of, said)) and bool(own)


def _in_part(kernel: SourceKernel) -> bool:
    """Whether host code launches it among others, one of which may do what a function does besides."""
    launch, machine = kernel.launch, kernel.machine
    if launch is None or machine is None:
        return True
    beside = {one.kernel.name for one in machine.launches if one.function == launch.function}
    return len(beside) > 1


def by_names(kernel: SourceKernel, found: HostFunction, file: Path | None = None) -> Candidate | None:
    """A call with the kernel's own arrays and numbers, by the names of the function's parameters.

    Args:
        file: where the function stands, if that is another than the kernel's.
    """
    pointers = {folded(one.name): one for one in kernel.parameters if one.pointer}
    numbers = {folded(one.name): one for one in kernel.parameters if not one.pointer}
    symbols = _symbols(kernel)
    given: list[str] = []
    arrays: dict[str, str] = {}
    used: set[str] = set()
    for one in found.function.parameters:
        name = folded(one.name)
        if one.pointers or one.dimensions:
            given.append(one.name)
            if name in pointers:
                arrays[pointers[name].name] = one.name
        elif name in numbers:
            given.append(numbers[name].name)
        elif name in symbols:
            given.append(symbols[name])
            used |= names_in(symbols[name])
        elif one.value is not None:
            given.append(found.source.text(one.value))
        else:
            return None
    written = frozenset(one.name for one in found.function.parameters if _writes(one))
    statements = f"{found.function.name}({', '.join(given)})"
    left = [one.name for one in kernel.parameters if one.pointer and not one.value and one.name not in arrays]
    if not written and _returns_number(found) and len(left) == 1:  # the one array that it does not take
        arrays[left[0]] = left[0]
        written, statements = frozenset(left), f"{left[0]}[0] = {statements}"
    sure = file is None and _is_sure(kernel, [found])
    return _fitting(kernel, Candidate(statements, arrays, (found,), frozenset(used), sure, written, file))


def _writes(parameter: Variable) -> bool:
    return bool(parameter.pointers) and "const" not in parameter.words


def _fitting(kernel: SourceKernel, made: Candidate) -> Candidate | None:
    """A candidate that says of every array of the kernel's what it is, and of those that it writes what they become."""
    pointers = [one for one in kernel.parameters if one.pointer and not one.value]
    if len(set(made.arrays.values())) < len(made.arrays):
        return None
    known = [one for one in pointers if one.name in made.arrays]
    if any(one not in known and (one.const or not _is_scratch(kernel, one)) for one in pointers):
        return None
    outputs = [one for one in known if not one.const]
    return made if any(made.arrays[one.name] in made.written for one in outputs) else None


def _is_scratch(kernel: SourceKernel, parameter: DraftParameter) -> bool:
    """Whether host code makes room for an array that no call names, and fills it with nothing but zeros."""
    passed = dict(zip((one.name for one in kernel.parameters), kernel.passed, strict=True)).get(parameter.name)
    return isinstance(passed, Pointer) and passed.buffer.size is not None


def _symbols(kernel: SourceKernel) -> dict[str, str]:
    """Numbers by their folded names, over host symbols: those of the function around the launch, then all others."""
    assert kernel.machine is not None
    found: dict[str, str] = {}
    for name, term in kernel.launch.numbers.items() if kernel.launch is not None else ():
        with suppress(NotWritten):
            if _ALIKE.fullmatch(shown := terms.text(term)):
                found.setdefault(folded(name), shown)
    for symbol, names in kernel.machine.names.items():
        for name in names[:1]:
            found.setdefault(folded(name), symbol)
    return found


def _as_called(
    kernel: SourceKernel, program: HostProgram, functions: Sequence[HostFunction]
) -> Iterator[Candidate | None]:
    """The calls that the function where the launch begins makes, as far as they lead to what the kernel writes."""
    launch = kernel.launch
    if launch is None:
        return
    known = {one.function.name: one for one in functions}
    root = next((one for one in program.host_functions() if one.function.qualified == launch.root), None)
    if root is None or root.function.body is None:
        return
    arrays = _host_names(kernel)
    wanted = {arrays[one.name] for one in kernel.parameters if one.pointer and not one.const and one.name in arrays}
    given = {arrays[one.name] for one in kernel.parameters if one.pointer and one.const and one.name in arrays}
    statements: list[str] = []
    called_ones: list[HostFunction] = []
    symbols: set[str] = set()
    written: set[str] = set()
    for call in reversed([*descendants(root.function.body, "call_expression")]):
        found = known.get(called(call))
        if found is None or len(arguments(call)) > len(found.function.parameters):
            continue
        texts = [root.source.text(one) for one in arguments(call)]
        pairs = list(zip(found.function.parameters, texts, strict=False))
        outputs = {text for one, text in pairs if _writes(one)}
        if not outputs & wanted:
            continue
        numbers = _numbers_as_symbols(kernel, [text for one, text in pairs if not one.pointers and not one.dimensions])
        if numbers is None:
            return
        statements.insert(0, f"{found.function.name}({', '.join(texts)})")
        called_ones.insert(0, found)
        symbols |= numbers
        written |= outputs
        inputs = {text for one, text in pairs if one.pointers and not _writes(one)}
        wanted = (wanted | inputs) - given
    if called_ones:
        functions_once = tuple({one.function.name: one for one in called_ones}.values())
        sure = _is_sure(kernel, functions_once)
        named = set(_WORD.findall(" ".join(statements)))
        arrays = {name: array for name, array in arrays.items() if array in named}
        made = Candidate("; ".join(statements), arrays, functions_once, frozenset(symbols), sure, frozenset(written))
        yield _fitting(kernel, made)


def _host_names(kernel: SourceKernel) -> dict[str, str]:
    """The host's array for each of the kernel's: that of the same name, the mark of the device's aside."""
    found = {}
    for one, value in zip(kernel.parameters, kernel.passed, strict=True):
        if one.pointer and isinstance(value, Pointer) and value.buffer.name:
            found[one.name] = re.sub(r"^(?:d|dev|device|gpu)_|_(?:d|dev|device|gpu)$", "", value.buffer.name)
    return found


def _numbers_as_symbols(kernel: SourceKernel, texts: Sequence[str]) -> set[str] | None:
    """The names in numbers of a call; None where one is no symbol of its own name, or the kernel's is another."""
    machine = kernel.machine
    assert machine is not None
    own = {one.name: value for one, value in zip(kernel.parameters, kernel.passed, strict=True) if not one.pointer}
    names = {name for text in texts for name in _WORD.findall(text)}
    for name in names:
        if machine.names.get(name, [""])[0] != name:
            return None
        passed = own.get(name)
        if name in own and not (isinstance(passed, Term) and passed.op == "symbol" and passed.args[0] == name):
            return None
    return names
