"""Which sizes a kernel guards: where it compares an index of elements with one of them, it takes any value of it.

What is compared may be the first element of a tile: then sizes are multiples of the tile. So the index is followed to
what it is made of, and what is known of that is by what number it can be divided.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from wmmadiag.csource.nodes import descendants
from wmmadiag.hostcode.program import HostFunction, HostProgram
from wmmadiag.hostcode.terms import Number
from wmmadiag.subject.drafts.index_reader import DEEPEST, Reader


class Tiling(NamedTuple):
    """How a kernel's code goes over its numbers, each by its name in there."""

    guards: Mapping[str, int] = {}  # → what the indices are multiples of that it compares with it
    steps: Mapping[str, int] = {}  # → what its code steps through it by
    covered: Mapping[str, int] = {}  # → tiles of it that a loop ends with a part of
    strides: Mapping[str, int] = {}  # → what a block's threads take of it at a time


def tiling(
    program: HostProgram,
    kernel: HostFunction,
    constants: Mapping[str, Number],
    threads: int,
    multiples: Mapping[str, int] = MappingProxyType({}),
) -> Tiling:
    """What the code of a kernel shows.

    Members of structs go by their own name.

    Args:
        constants: numbers that the code knows by name.
        threads: of a block along x; 0 where that is not known.
        multiples: what numbers that it is handed are multiples of, by its names for them: the length of a slice.
    """
    readers = _readers(program, kernel, constants)
    for one in readers:
        one.multiples = multiples
    told = _readers(program, kernel, {**constants, "blockDim.x": threads})
    return Tiling(_guards(readers), _steps(readers), _covered(readers), _strides(told))


def _guards(readers: Iterable[Reader]) -> dict[str, int]:
    """What the indices that are compared with a number are multiples of.

    A number that the code asks to be a multiple of something is left out, and so is one that is compared with what
    nothing is known of.
    """
    found: dict[str, int | None] = {}
    for reader in readers:
        for name, index in reader.comparisons():
            step = reader.multiple(index, DEEPEST)
            for size in reader.sizes(name, DEEPEST):
                known = found.get(size, 0)
                found[size] = None if step is None or known is None else math.gcd(known, step)
        for name in reader.divided():
            found |= dict.fromkeys(reader.sizes(name, DEEPEST))
    return {name: step for name, step in found.items() if step}


def _steps(readers: Iterable[Reader]) -> dict[str, int]:
    """What the code steps through a number by, in tiles that begin at multiples of it.

    The number need be no multiple of it; but one that is suits a kernel with guards as well as one without.
    """
    found: dict[str, int] = {}
    for reader in readers:
        for name, step in reader.steps():
            for size in reader.sizes(name, DEEPEST):
                found[size] = math.lcm(found.get(size, 1), step)
    return found


def _covered(readers: Iterable[Reader]) -> dict[str, int]:
    """The tiles that code goes through a number in, what is left at the end one of them.

    A number of which it takes whole tiles alone somewhere is left out.
    """
    found: dict[str, int] = {}
    whole: set[str] = set()
    for reader in readers:
        for name, step in reader.turns():
            for size in reader.sizes(name, DEEPEST):
                found[size] = math.lcm(found.get(size, 1), step or 1)
                whole |= {size} if step is None else set()
    return {name: step for name, step in found.items() if name not in whole and step > 1}


def _strides(readers: Iterable[Reader]) -> dict[str, int]:
    """How many elements of such an extent all threads of a block take at a time.

    At sizes up to that a loop over it ends after one turn, and what later turns do wrong does not show.
    """
    found: dict[str, int] = {}
    for reader in readers:
        for name, count in reader.strides():
            for size in reader.sizes(name, DEEPEST):
                found[size] = max(found.get(size, 0), count)
    return {name: count for name, count in found.items() if count}


def _readers(program: HostProgram, kernel: HostFunction, constants: Mapping[str, Number]) -> list[Reader]:
    """The kernel and what it calls, each with what is passed for its parameters."""
    reached = list(functions_reached(program, kernel))
    readers = [Reader(one.source, one.function.body, constants) for one in reached]
    for one, reader in zip(reached[1:], readers[1:], strict=True):
        names = [parameter.name for parameter in one.function.parameters]
        for caller in readers:
            for given in caller.calls(one.function.name):
                for name, passed in zip(names, given, strict=False):
                    reader.given.setdefault(name, []).append((caller, passed))
    return readers


def functions_reached(program: HostProgram, kernel: HostFunction) -> Iterator[HostFunction]:
    """The kernel and the device functions that it calls, by name."""
    waiting, seen = [kernel], {kernel.function.name}
    while waiting:
        one = waiting.pop()
        yield one
        body = one.function.body
        for node in descendants(body, "identifier", "field_identifier") if body is not None else ():
            name = (node.text or b"").decode("utf-8", "replace")
            if name not in seen and name in program.functions:
                seen.add(name)
                waiting += [each for each in program.functions[name] if each.function.body is not None]
