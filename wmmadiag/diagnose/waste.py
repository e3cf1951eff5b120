"""What a kernel does with shared memory for nothing once it is changed; and which lines meet where it does otherwise.

A change with which everything is right, and after which more is stored than anybody reads, was hardly what was meant:
what should have been read, or not stored, is likelier to be the mistake. Who else touches that memory says where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.overwritten import more_overwritten, read_longer, shared_use
from wmmadiag.diagnose.unread import unread
from wmmadiag.diagnose.watched import SPACES, Event, Line, LineShift, Watch, all_bytes, both_texts, fresh, watched
from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.bench import CaseRun
from wmmadiag.subject.compiling import Texts

_SHARED = SPACES.index("shared")
_BLOCKS = (0, 1)
"""Blocks in which two versions of a kernel are compared: what meets in one meets in all."""


def wasted(first: CaseRun, runs: Sequence[CaseRun]) -> Iterator[str]:
    """What the changed kernel does for nothing, and the kernel did not; one sentence each.

    Args:
        first: the failing case as the source stands.
        runs: each case with the change, the failing one first.
    """
    one, two = first.emulated, runs[0].emulated
    if one is not None and two is not None and first.bound is not None and runs[0].bound is not None:
        used = shared_use(fresh(first.bound), one), shared_use(fresh(runs[0].bound), two)
        if (count := more_overwritten(*used)) > 0:
            yield f"with it {count:,} more bytes of shared memory are stored, and stored again before they are read"
        if (count := read_longer(*used)) > 0:
            yield f"with it {count:,} bytes of shared memory are not stored anew before they are read again"
    ran = [(run.emulated, run.bound) for run in runs]
    idle = unread((kernel, fresh(case)) for kernel, case in ran if kernel is not None and case is not None)
    if idle is not None:
        yield idle.sentence()


def meeting_lines(first: CaseRun, mended: CaseRun, sources: Mapping[str, Source], texts: Texts) -> set[Line]:
    """The lines that touch, as the source stands, what shared memory a change accesses otherwise; none where that is
    not known.

    Args:
        texts: with the change.
    """
    one, two = first.emulated, mended.emulated
    if one is None or two is None or first.bound is None or mended.bound is None:
        return set()
    try:
        before, after = watched(fresh(first.bound), one, _BLOCKS), watched(fresh(mended.bound), two, _BLOCKS)
    except WmmadiagError:
        return set()
    shift = LineShift(both_texts(sources, texts))
    return {line for block in before.events for line in _meeting(before, after, block, shift)}


def _meeting(before: Watch, after: Watch, block: int, shift: LineShift) -> Iterator[Line]:
    was = {line: _touched(events) for line, events in before.events[block].items()}
    now = {line: _touched(events) for line, events in after.events.get(block, {}).items()}
    nothing = np.empty(0, np.uint64)
    changed = [nothing]
    for line, touched in was.items():
        other = shift.forth(line)
        changed.append(np.setxor1d(touched, now.pop(other, nothing) if other is not None else nothing))
    changed += now.values()  # of lines that are put in
    places = np.unique(np.concatenate(changed))
    yield from (line for line, touched in was.items() if np.isin(touched, places).any())


def _touched(events: Sequence[Event]) -> NDArray[np.uint64]:
    """The bytes of shared memory that some accesses touch, each once."""
    return np.unique(all_bytes([one for one in events if one[1] == _SHARED]))
