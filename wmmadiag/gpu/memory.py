"""Device memory of one launch: every buffer between guard zones, filled with a pattern and checked afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.gpu.devices import api, call
from wmmadiag.gpu.wire import DeviceBuffer, Stray

GUARD = 1 << 16
"""Bytes before the first buffer, between buffers and after the last. Writes further away may go unseen."""
_ALIGN = 512
PATTERN = 0x7FFF5EED
"""Guards hold it as 32-bit words: a NaN as f32, and (7FFF) as f16."""


def placed(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Offset of each buffer in the arena, and the arena's size, bytes."""
    offsets = []
    end = 0
    for size in sizes:
        offsets.append(-(-(end + GUARD) // _ALIGN) * _ALIGN)
        end = offsets[-1] + size
    return offsets, -(-(end + GUARD) // _ALIGN) * _ALIGN


class Arena:
    """Device memory for the buffers of one launch. Call `free` when done."""

    def __init__(self, buffers: Sequence[DeviceBuffer]) -> None:
        self.buffers = buffers
        self.offsets, self.size = placed([len(memoryview(buffer.data).cast("B")) for buffer in buffers])
        driver = api()
        self.base = int(call(driver.cuMemAlloc(self.size), "allocate memory on the GPU"))
        try:
            call(driver.cuMemsetD32(self.base, PATTERN, self.size // 4), "fill memory on the GPU")
            self.upload()
        except BaseException:
            self.free()
            raise

    def upload(self) -> None:
        """Copy all buffers to the device."""
        driver = api()
        for buffer, offset in zip(self.buffers, self.offsets, strict=True):
            data = np.frombuffer(buffer.data, np.uint8)
            if data.size:
                call(driver.cuMemcpyHtoD(self.base + offset, data.ctypes.data, data.size), "copy to the GPU")

    def address(self, buffer: int, offset: int = 0) -> int:
        """Device address of a byte of a buffer."""
        return self.base + self.offsets[buffer] + offset

    def contents(self, buffer: int) -> bytes:
        """A buffer as it is on the device."""
        return self._read(self.offsets[buffer], len(memoryview(self.buffers[buffer].data).cast("B"))).tobytes()

    def changed(self) -> list[int]:
        """The read-only buffers that are not as they were."""
        return [
            index
            for index, buffer in enumerate(self.buffers)
            if not buffer.writable and self.contents(index) != bytes(buffer.data)
        ]

    def strays(self) -> list[Stray]:
        """Writes into the guards; those between two buffers count for the nearer one."""
        found: list[Stray] = []
        ends = [
            offset + len(memoryview(b.data).cast("B")) for offset, b in zip(self.offsets, self.buffers, strict=True)
        ]
        gaps = list(zip([0, *ends], [*self.offsets, self.size], strict=True))
        for number, (start, stop) in enumerate(gaps):
            zone = self._read(start, stop - start)
            pattern = np.frombuffer(PATTERN.to_bytes(4, "little"), np.uint8)
            wrong = np.flatnonzero(zone != np.resize(np.roll(pattern, -(start % 4)), zone.size))
            if not wrong.size:
                continue
            past, before = int(wrong[0]), int(stop - start - 1 - wrong[-1])
            if number > 0 and (number == len(gaps) - 1 or past <= before):
                found.append(Stray(number - 1, False, past, int(wrong.size)))
            elif number < len(self.buffers):
                found.append(Stray(number, True, before, int(wrong.size)))
        return found

    def free(self) -> None:
        """Give the memory back."""
        if self.base:
            api().cuMemFree(self.base)
            self.base = 0

    def _read(self, start: int, size: int) -> NDArray[Any]:
        data = np.empty(size, np.uint8)
        if size:
            call(api().cuMemcpyDtoH(data.ctypes.data, self.base + start, size), "copy from the GPU")
        return data
