"""What kernels call and a chip's runtime gives them: sources of `native/device/`, linked in where they are needed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from wmmadiag.compile.driver import compile_source
from wmmadiag.compile.options import CompileOptions
from wmmadiag.programs.device_ptx import SEPARATELY
from wmmadiag.programs.link import heap, linked, placeless
from wmmadiag.programs.shipped import NATIVE
from wmmadiag.ptx import parse
from wmmadiag.ptx.ir import Module

HEAP_LISTS = 40
"""`lists` of native/device/heap.cu."""


@dataclass
class DeviceParts:
    """The parts, each compiled when the first kernel needs it.

    Attributes:
        arch: that they are compiled for.
        place: gives a variable of the device an address, with its contents.
        heap_bytes: for malloc in kernels.
        use_cache: whether compilations are kept.
    """

    arch: str
    place: Callable[[str, bytes], int]
    heap_bytes: Callable[[], int]
    use_cache: bool = True

    def completed(self, module: Module, absent: frozenset[str]) -> tuple[Module, Mapping[str, int]]:
        """A module with those of the functions that it lacks, and where their variables lie."""
        if not absent & {"malloc", "free"}:
            return module, {}
        text, places = self._heap
        return linked(module, placeless(parse(text, name="heap.cu"))), places

    def turn_heap(self, view: Callable[[int], int]) -> None:
        """Before a launch: what earlier ones freed may be given out by malloc.

        Args:
            view: where this process has the bytes of a device address.
        """
        if "_heap" not in self.__dict__:
            return
        lists = (ctypes.c_uint64 * (2 * HEAP_LISTS)).from_address(view(self._heap[1]["wmmadiag_heap_lists"]))
        for one in range(HEAP_LISTS):
            if lists[one] & 0xFFFFFFFF == 0:
                lists[one], lists[HEAP_LISTS + one] = lists[HEAP_LISTS + one], 0

    @cached_property
    def _heap(self) -> tuple[str, dict[str, int]]:
        """What kernels call for memory, and where their variables lie."""
        options = CompileOptions(arch=self.arch, extra=(SEPARATELY,))
        compilation = compile_source(NATIVE / "device" / "heap.cu", options, use_cache=self.use_cache)
        size = self.heap_bytes()
        places = {
            "wmmadiag_heap": self.place("the heap of malloc in kernels", size.to_bytes(8, "little") + bytes(size))
        }
        for one in parse(compilation.ptx, name="heap.cu").variables.values():
            if one.name not in places and one.size:
                places[one.name] = self.place(one.name, bytes(one.size))
        return heap(compilation.ptx), places
