"""The time in which kernels are compiled is not the program's."""

import mmap
import time

from wmmadiag.programs.progress import SHARED_BYTES, BlockProgress, Reached, compiling, spent_compiling


def test_it_is_counted_while_it_goes_on_and_afterwards():
    shared = mmap.mmap(-1, SHARED_BYTES)
    assert spent_compiling(shared[:]) == 0.0
    with compiling(shared):
        time.sleep(0.02)
        within = spent_compiling(shared[:])
        with compiling(shared):  # one in another counts once
            time.sleep(0.02)
    spent = spent_compiling(shared[:])
    time.sleep(0.02)
    assert 0.02 <= within < 0.04 <= spent == spent_compiling(shared[:])
    with compiling(shared):
        time.sleep(0.02)
    assert spent_compiling(shared[:]) >= spent + 0.02


def test_a_long_name_leaves_room_for_it():
    shared = mmap.mmap(-1, SHARED_BYTES)
    with compiling(shared):
        time.sleep(0.01)
    spent = spent_compiling(shared[:])
    with BlockProgress(shared=shared).of(3, "kernel" * 1000, 7):
        assert Reached.of(shared[:]).launches == 3
    assert spent_compiling(shared[:]) == spent


def test_nobody_needs_to_look():
    with compiling(None):
        pass
