"""Python's collector of cycles is left as it was."""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager

import pytest

from wmmadiag.processes.collection import paused_collection, rare_collection


@pytest.mark.parametrize("held", [paused_collection(), rare_collection()])
def test_the_collector_is_as_it_was_behind_work_that_failed(held: AbstractContextManager[None]) -> None:
    before = gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()
    with pytest.raises(ZeroDivisionError), held:
        assert (gc.isenabled(), gc.get_threshold()) != before[:2]
        raise ZeroDivisionError
    assert (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()) == before
