"""Where a run stops: before an instruction, after an access or a NaN, at a block's end or a time."""

from __future__ import annotations

from dataclasses import dataclass

from wmmadiag.emulator.decoded import SPACES

ANY = 0xFFFFFFFF
FOREVER = (1 << 64) - 1
NAN_KINDS = {"f16": 1, "bf16": 2, "f16x2": 3, "bf16x2": 4, "f32": 5, "tf32": 5, "f64": 6, "f32x2": 7}
"""Type of a destination → `NanKind` of native/debugger.hpp."""


@dataclass(frozen=True, slots=True)
class Watchpoint:
    """Bytes [start, end) of a state space; only accesses of `block`, and of local memory `warp` and `lane`."""

    space: str
    start: int
    end: int
    block: int = ANY
    warp: int = ANY
    lane: int = ANY
    reads: bool = False
    writes: bool = True

    def row(self) -> tuple[int, int, int, int, int, int, bool, bool]:
        """As the engine takes it."""
        return (
            SPACES[self.space], self.start, self.end, self.block, self.warp, self.lane, self.reads, self.writes,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conditions:
    """Where a run stops; the first that is met counts."""

    before: bytes = b""  # one byte per instruction, not 0: before a warp runs it. Empty: nowhere.
    # block, warp: where `before` and `nan` count
    block: int = ANY
    warp: int = ANY
    watches: tuple[Watchpoint, ...] = ()  # after an access
    # one `NAN_KINDS` number per instruction, 0 for others: after it made a NaN. Empty: not looked for.
    nan: bytes = b""
    block_end: bool = False  # when a block has ended
    skip: int = 0  # so many are let pass
    until: int = FOREVER  # time at which to stop anyway
